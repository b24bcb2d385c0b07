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

/// Addresses and verdicts that explain the service on the landing page.
const EXAMPLES: [(&str, Reason); 5] = [
    ("jane@example.com", Reason::MailboxExists),
    ("nobody@example.com", Reason::MailboxNotFound),
    ("jane@nomail.example", Reason::NoMx),
    ("jane@example.org", Reason::CatchAll),
    ("jane@example", Reason::InvalidSyntax),
];

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
            p { "A program sends a request, and gets the answer as JSON:" }
            pre tabindex="0" { "POST /v1/verify\nAuthorization: Bearer KEY\nContent-Type: application/json\n\n{\"email\": \"jane@example.com\"}" }
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
            p.notice.warn { "No credits are left. " @if let Some(end) = account.period_end { "The account gets new credits at " (time(end)) ". " } "Fast checks stay free." }
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
