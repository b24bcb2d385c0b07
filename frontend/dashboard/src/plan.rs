//! `/plan`: the credits and limits of the account's plan, and a list of all plans.

use super::page::{self, time};
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use lists::numbers::grouped;
use maud::{Markup, html};
use store::clock;
use store::{Account, Plan, PlanTable};

/// `GET /plan`: the account's plan, and all plans.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let store = &visit.checks.store;
    let account = store.account(signed_in.account, clock::now()).await?.ok_or_else(Problem::not_found)?;
    let terms = store.terms(signed_in.account).ok_or_else(Problem::not_found)?;
    let plans = store.plans();
    let plan_name = plans.find(&account.plan).map_or(account.plan.as_str(), |plan| plan.name.as_str());
    let balance = &account.balance;
    let body = html! {
        h1 { "Plan" }
        @if !account.status.is_usable() {
            p.notice.warn { (account.status.refusal()) " You still get free answers." }
        }
        section.card {
            h2 { (plan_name) }
            dl {
                dt { "Status" } dd { (account.status.as_str().replace('_', " "))
                    @if account.cancel_at_period_end { ", ends at the end of the period" } }
                dt { "Plan credits" } dd { (grouped(balance.plan_left)) " of " (grouped(balance.allowance)) " left" @match account.period_end { Some(end) => { ", until " (time(end)) }, None => {} } }
                @if balance.held > 0 { dt { "Reserved" } dd { (grouped(balance.held)) " for checks under way; those that are not made come back" } }
                dt { "Pack credits" } dd { (grouped(balance.pack_left)) "; they never expire, and are spent after the plan credits" }
                dt { "New credits" } dd { @match account.period_end { Some(end) => (time(end)), None => "never" } }
                dt { "Lists and batches" } dd { @if terms.batches_allowed { "included" } @else { "not included" } }
            }
        }
        section.card {
            h2 { "Limits" }
            div.scroll tabindex="0" role="region" aria-label="Limits" { table {
                thead { tr { th scope="col" { "Resource" } th.number scope="col" { "Limit" } } }
                tbody {
                    tr { td { "Full checks per minute, for each key" } td.number { (grouped(terms.limits.verify.into())) } }
                    tr { td { "Fast checks per minute, for each key" } td.number { (grouped(terms.limits.fast.into())) } }
                    tr { td { "Batches per minute, for each key" } td.number { (grouped(terms.limits.batch.into())) } }
                    tr { td { "Changes and downloads of lists per minute, for each key" } td.number { (grouped(terms.limits.list.into())) } }
                    tr { td { "Full checks of the account in the long run, per second (short bursts may be faster)" } td.number { (grouped(terms.limits.fair_use_per_second.into())) } }
                }
            } }
        }
        section.card {
            h2 { "All plans" }
            (table(&plans, Some(&account.plan)))
            p.soft { "Only the operator of this service can change plans and add pack credits." }
        }
    };
    Ok(page::page_at("Plan", Some("/plan"), Some(signed_in), body))
}

/// When an account gets credits, and who can give it more: for an account that has too few.
pub fn more_credits(account: &Account) -> Markup {
    html! {
        @match account.period_end {
            Some(end) => { "The account gets new credits at " (time(end)) ". " },
            None => "The account gets no new credits by itself. ",
        }
        "The operator of this service can add credits or change the " a href="/plan" { "plan" } " at any time."
    }
}

/// The plans by their credits, with a mark at the `current` one. The plans of gateways have no credits, so only their accounts see them.
pub fn table(plans: &PlanTable, current: Option<&str>) -> Markup {
    let is_current = |plan: &Plan| current == Some(plan.id.as_str());
    let mut plans: Vec<&Plan> =
        plans.iter().filter(|plan| plan.monthly_credits > 0 || is_current(plan)).collect();
    plans.sort_by_key(|plan| plan.monthly_credits);
    html! {
        (page::table("All plans", &["Plan", "#Credits", "#Full checks per minute", "Lists and batches"], html! {
            @for plan in plans { tr {
                td { (plan.name) @if is_current(plan) { " " span.tag.good { "current" } } }
                td.number data-label="Credits" {
                    (grouped(plan.monthly_credits)) @if plan.resets { " per month" } @else { " once" }
                }
                td.number data-label="Full checks per minute" { (grouped(plan.limits.verify.into())) }
                td data-label="Lists and batches" { @if plan.batches_allowed { "included" } @else { "not included" } }
            } }
        }))
    }
}
