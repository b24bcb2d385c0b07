//! `/batches` and `/batches/{id}`: the batches of the signed-in account.

use super::page::{UNASKED, time};
use super::{chart, page};
use crate::problem::Problem;
use crate::visit::Visit;
use api::{Reason, UnverifiableCause};
use http_core::Reply;
use list_work::actions::Actions;
use lists::numbers::{counted, grouped};
use lists::words::address_text;
use maud::{Markup, html};
use std::cmp::Reverse;
use store::clock;
use store::{BatchId, BatchSummary, BatchView, count_one};

/// `GET /batches`: the recent batches of the account.
pub async fn list(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let recent = visit.checks.store.batches(signed_in.account, None, 100, clock::now()).await?.batches;
    let body = html! {
        h1 { "Batches" }
        (table(&recent))
        p.soft { "You can read a batch for 7 days after it is complete." }
    };
    Ok(page::page_at("Batches", Some("/batches"), Some(signed_in), body))
}

/// A table of recent batches, or a hint if there are none.
pub fn table(recent: &[BatchSummary]) -> Markup {
    html! {
        @if recent.is_empty() {
            p.empty { "No batches. Send up to 200 addresses at once with " a href="/docs" { "the API" } "." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Batches" { table.stack {
                thead { tr { th scope="col" { "Created" } th scope="col" { "Batch" } th.number scope="col" { "Addresses" } th.number scope="col" { "With a result" } th scope="col" { "State" } } }
                tbody { @for batch in recent { tr {
                    td data-label="Created" { (time(batch.created_at)) }
                    td.wrap data-label="Batch" {
                        @match &batch.name {
                            Some(name) => { a href={ "/batches/" (batch.batch) } { (name) } br; span.mono.soft { (batch.batch) } },
                            None => a.mono href={ "/batches/" (batch.batch) } { (batch.batch) },
                        }
                        @if batch.is_test { " " span.tag { "test" } }
                    }
                    td.number data-label="Addresses" { (grouped(batch.total.into())) }
                    td.number data-label="With a result" {
                        (grouped(batch.checked.into()))
                        @if batch.refunded > 0 { br; span.soft { (grouped(batch.refunded.into())) " not checked" } }
                    }
                    td data-label="State" { @if batch.completed { span.tag.good { "completed" } } @else { span.tag { "processing" } } }
                } } }
            } }
        }
    }
}

/// `GET /batches/{id}`: the state of a batch, and its results after completion.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let id: BatchId = visit.parameter.parse().map_err(|_| Problem::not_found())?;
    let view = visit.checks.store.batch(signed_in.account, id, clock::now()).await?;
    let mut view = view.ok_or_else(Problem::not_found)?;
    if let Some(rows) = &mut view.results {
        let lists = visit.checks.engine.lists();
        visit.checks.own_evidence.apply_to_rows(signed_in.account, rows, &lists);
    }
    let body = html! {
        h1 { "Batch" }
        p { span.mono { (id) } @if view.is_test { " " span.tag { "test" } } }
        @if view.is_test {
            p.notice { "The batch was sent with a test key. Its results are made up from the local parts of the addresses." }
        }
        @if let Some(name) = &view.name { p.wrap { (name) } }
        div #progress data-refresh=[(!view.completed).then(|| format!("/batches/{id}"))] {
            @if !view.completed && let Some(why) = visit.dashboard.lists.actions.refusal_of_us(&[id]) {
                p.notice.warn { (why) }
            }
            (state(&view, &visit.dashboard.lists.actions))
        }
    };
    Ok(page::page_at("Batch", Some("/batches"), Some(signed_in), body))
}

fn state(view: &BatchView, actions: &Actions) -> Markup {
    let Some(results) = &view.results else {
        let waiting = actions.waiting(&view.waiting, u64::from(view.total - view.checked));
        return html! {
            section.card {
                label for="bar" { (grouped(view.checked.into())) " of " (grouped(view.total.into())) " addresses have a result" }
                progress #bar max=(view.total) value=(view.checked) {}
                (page::waiting(&waiting, "Addresses"))
                p.soft { "This part of the page is updated every two seconds." }
            }
        };
    };
    let (mut counts, mut causes) = (Vec::new(), Vec::new());
    for ((_, reason), cause) in results.iter().zip(&view.causes) {
        count_one(&mut counts, *reason);
        // Own evidence may have replaced the reason.
        cause
            .filter(|_| *reason == Reason::Unverifiable)
            .into_iter()
            .for_each(|cause| count_one(&mut causes, cause));
    }
    causes.sort_by_key(|(_, count)| Reverse(*count));
    let unverifiable =
        counts.iter().filter(|(reason, _)| *reason == Reason::Unverifiable).map(|(_, count)| count).sum();
    let of = |wanted| view.causes.iter().filter(|cause| **cause == Some(wanted)).count() as u64;
    let unasked = [of(UnverifiableCause::Outage), of(UnverifiableCause::RefusalBudget)];
    let others = u64::from(view.refunded).saturating_sub(unasked.iter().sum());
    let ended = match view.is_given_up {
        true => "without an answer when the server ended the batch, 6 days after its creation",
        false => "not checked because the batch was cancelled",
    };
    html! {
        section.card {
            h2 { (grouped(view.checked.into())) " of " (grouped(view.total.into())) " addresses have a result" }
            @if view.refunded > 0 {
                p {
                    (grouped((view.checked - view.refunded).into())) " checked, " (grouped(view.refunded.into()))
                    " not checked. Those that were not checked cost nothing. Their result is unverifiable, here and in the API:"
                }
                ul {
                    @if others > 0 { li { (grouped(others)) " " (ended) } }
                    @for (count, cause) in unasked.into_iter().zip(UNASKED).filter(|(count, _)| *count > 0) { li { (grouped(count)) " " (cause) } }
                }
            }
            @if !view.is_test { p.soft { (counted(view.charged, "credit", "credits")) " charged." } }
            (chart::verdicts(&counts))
            @if !view.is_test { (chart::causes(&causes, unverifiable, (others, ended))) }
        }
        section.card {
            h2 { "Addresses" }
            (page::table("Addresses", &["Address", "Verdict", "Reason"], html! { @for (email, reason) in results {
                tr {
                    td.wrap data-label="Address" { (address_text(email)) }
                    td data-label="Verdict" { (chart::tag(*reason)) }
                    td data-label="Reason" { (chart::named(*reason)) }
                }
            } }))
        }
    }
}
