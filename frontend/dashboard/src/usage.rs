//! `/usage`: the number of checks per day, and their results.

use super::{chart, page};
use crate::problem::Problem;
use crate::visit::Visit;
use http_core::Reply;
use maud::html;
use store::clock;
use store::credits::calendar::DAY_MS;

/// The spans that the user can choose, in days.
const SPANS: [u32; 3] = [7, 30, 90];

/// `GET /usage?days=`: the counts of the chosen span.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let now = clock::now();
    let wanted = visit.query("days").and_then(|days| days.parse().ok());
    let span = wanted.filter(|span| SPANS.contains(span)).unwrap_or(30);
    let days = visit.checks.store.days(signed_in.account, now).await?;
    let first = (u32::try_from(now / DAY_MS).unwrap_or(u32::MAX) + 1).saturating_sub(span);
    let sums = chart::added_up(days.iter().filter(|day| day.day >= first));
    let body = html! {
        h1 { "Usage" }
        nav aria-label="Span" { p.actions { @for choice in SPANS {
            a href={ "/usage?days=" (choice) } aria-current=[(choice == span).then_some("true")] { (choice) " days" }
        } } }
        section.card { h2 { "Charged checks per day" } (chart::days(&days, span, now)) }
        section.card { h2 { "Results" } (chart::verdicts(&sums)) }
        p.soft { "Days are in UTC. Fast checks, repeats within 24 hours and checks with test keys are free and are not counted." }
    };
    Ok(page::page_at("Usage", Some("/usage"), Some(signed_in), body))
}
