//! `/`: the landing page for visitors, the overview of the account for signed-in users.

use super::lists::pages as list_pages;
use super::page::time;
use super::session::SignedIn;
use super::{batches, chart, page, plan};
use crate::problem::Problem;
use crate::visit::Visit;
use api::Reason;
use http_core::Reply;
use lists::numbers::grouped;
use maud::html;
use store::clock;

/// Full checks that explain the service on the landing page. A visitor gets these answers too, since a test key decides by the local
/// part: with a live key, the answer depends on the mail server, and the domains of examples have none.
const EXAMPLES: [(&str, Reason); 5] = [
    (EXAMPLE, Reason::MailboxExists),
    ("role@example.com", Reason::RoleAccount),
    ("catch_all@example.com", Reason::CatchAll),
    ("nobody@example.com", Reason::MailboxNotFound),
    ("deliverable@example", Reason::InvalidSyntax),
];

/// The address of the request on the landing page.
const EXAMPLE: &str = "deliverable@example.com";

/// The number of lists on the overview.
const RECENT_LISTS: usize = 5;

/// `GET /`: the landing page or the overview.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    match &visit.signed_in {
        Some(signed_in) => overview(&visit, signed_in).await,
        None => Ok(landing(&visit)),
    }
}

fn landing(visit: &Visit) -> Reply {
    let body = html! {
        section.hero {
            h1 { "Mail address verification" }
            p.lead {
                "mailprobe asks the recipient's mail servers whether an address accepts mail. The answer is yes or no, "
                "with a reason. mailprobe never sends a message."
            }
            p.actions {
                @if visit.dashboard.sign_up { a.button href="/signup" { "Sign up for free" } " " }
                a.button.quiet href="/signin" { "Sign in" }
            }
        }
        section.card {
            h2 { "Examples" }
            (page::table("Examples", &["Address", "Verdict", "Reason"], html! { @for (address, reason) in EXAMPLES { tr {
                td.mono data-label="Address" { (address) }
                td data-label="Verdict" { (chart::tag(reason)) }
                td data-label="Reason" { (chart::named(reason)) }
            } } }))
            p.soft {
                "These are the answers to full checks with a test key. Such a check is free and asks no mail server: the part of the \
                 address before the @ selects the answer. A check with a live key asks the mail server."
            }
            p { "A program sends a request. Here the shell variable MAILPROBE_KEY has the test key:" }
            pre #request tabindex="0" { (request(&visit.dashboard.base)) }
            p { "It gets the answer as JSON:" }
            pre #answer tabindex="0" { (answer()) }
            p { "The " a href="/docs" { "API reference" } " describes requests, answers and all reasons." }
        }
        @if visit.dashboard.sign_up {
            section.card {
                h2 { "Plans" }
                (plan::table(&visit.checks.store.plans(), None))
                p.soft { "A full check costs one credit. Fast checks, which ask no mail server, are free." }
            }
        }
    };
    page::page("Mail address verification", None, body)
}

/// The request for the first example, for a shell.
fn request(base: &str) -> String {
    format!(
        "curl --silent {base}/v1/verify \\\n  --header \"Authorization: Bearer $MAILPROBE_KEY\" \\\n  \
         --header 'Content-Type: application/json' \\\n  --data '{{\"email\": \"{EXAMPLE}\"}}'"
    )
}

/// The answer to it.
fn answer() -> String {
    format!(
        "{{\"email\":\"{EXAMPLE}\",\"deliverable\":true,\"reason\":\"{}\",\"credits_remaining\":null,\"cached\":false}}",
        Reason::MailboxExists.as_str()
    )
}

async fn overview(visit: &Visit, signed_in: &SignedIn) -> Result<Reply, Problem> {
    let (store, now) = (&visit.checks.store, clock::now());
    let account = store.account(signed_in.account, now).await?.ok_or_else(Problem::not_found)?;
    let (days, keys) = (store.days(signed_in.account, now).await?, store.keys(signed_in.account).await?);
    let recent = store.batches(signed_in.account, None, 5, now).await?.batches;
    let mut lists = store.lists(signed_in.account, now).await?;
    lists.truncate(RECENT_LISTS);
    let lists = match lists.is_empty() {
        true => None,
        false => Some(list_pages::table(visit, &lists).await?),
    };
    let plans = store.plans();
    let plan = plans.find(&account.plan).map_or(account.plan.as_str(), |plan| plan.name.as_str());
    let balance = &account.balance;
    let faults = visit.dashboard.faults.names();
    let body = html! {
        h1 { "Overview" }
        @if !faults.is_empty() {
            p.notice.warn #faults {
                "Checks may fail or be slow at present, until the operator of this service corrects a fault (" (faults.join(", ")) "). "
                "A check that fails costs nothing. If you are the operator, run " code { "mailprobe doctor" } "."
            }
        }
        @if !account.status.is_usable() {
            p.notice.warn { (account.status.refusal()) " Fast checks stay free." }
        } @else if balance.available() == 0 {
            p.notice.warn { "No credits are left. " (plan::more_credits(&account)) " Fast checks stay free." }
        }
        @if keys.iter().all(|key| key.ended_at(now).is_some()) {
            p.notice { "To call the API, " a href="/keys" { "create a key" } "." }
        }
        div.grid {
            section.card {
                h2 { "Credits left" }
                p.big #credits { (grouped(balance.available())) }
                p.soft {
                    (grouped(balance.plan_left)) " of " (grouped(balance.allowance)) " plan credits"
                    @if balance.pack_left > 0 { ", " (grouped(balance.pack_left)) " pack credits" }
                    @if balance.held > 0 { ". " (grouped(balance.held)) " more are reserved for checks under way" }
                }
            }
            section.card {
                h2 { "Plan" }
                p.big { (plan) }
                p.soft { @match account.period_end { Some(end) => { "New credits at " (time(end)) }, None => "The plan gives credits once" } }
            }
            section.card {
                h2 { "Quick actions" }
                p.actions { a.button href="/try" { "Check an address" } a.button.quiet href="/lists" { "Upload a list" } }
            }
        }
        section.card { h2 { "Last 30 days" } (chart::days(&days, 30, now)) p { a href="/usage" { "Show usage" } } }
        @if let Some(lists) = lists { section.card { h2 { "Recent lists" } (lists) } }
        section.card { h2 { "Recent batches" } (batches::table(&recent)) }
    };
    Ok(page::page_at("Overview", Some("/"), Some(signed_in), body))
}
