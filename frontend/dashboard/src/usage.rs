//! `/usage`: the number of checks per day, and their results.

use super::{chart, ledger, page};
use crate::problem::Problem;
use crate::visit::Visit;
use api::Reason;
use http_core::Reply;
use maud::html;
use std::fmt::Write;
use store::DayCounts;
use store::clock;
use store::credits::calendar::day_text;

/// The spans that the user can choose, in days.
const SPANS: [u32; 3] = [7, 30, 90];

/// The span that the visitor chose, in days.
fn span(visit: &Visit) -> u32 {
    let wanted = visit.query("days").and_then(|days| days.parse().ok());
    wanted.filter(|span| SPANS.contains(span)).unwrap_or(30)
}

/// `GET /usage.csv?days=`: the counts of the chosen span as a file, a row for each day.
pub async fn download(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let now = clock::now();
    let days = visit.checks.store.days(signed_in.account, now).await?;
    let body = csv(&days, chart::ends(span(&visit), now)).into_bytes();
    Ok(Reply { status: 200, headers: Vec::new(), body }
        .header("content-type", "text/csv; charset=utf-8; header=present")
        .header("content-disposition", "attachment; filename=\"mailprobe-usage.csv\"")
        .header("cache-control", "no-store"))
}

/// All cells are numbers, dates and names of reasons, so no cell needs quotes.
fn csv(days: &[DayCounts], (first, last): (u32, u32)) -> String {
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let mut text = format!("day,single,in_lists,{}\n", reasons.join(","));
    for day in first..=last {
        let counts = days.iter().find(|counts| counts.day == day);
        let (singles, rows) = counts.map_or((0, 0), |counts| (counts.singles, counts.rows));
        let _ = write!(text, "{},{singles},{rows}", day_text(day));
        for (_, count) in chart::added_up(counts.into_iter()) {
            let _ = write!(text, ",{count}");
        }
        text.push('\n');
    }
    text
}

/// `GET /usage?days=`: the counts of the chosen span.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let (now, span) = (clock::now(), span(&visit));
    let days = visit.checks.store.days(signed_in.account, now).await?;
    let (first, _) = chart::ends(span, now);
    let credits = ledger::table(&visit, signed_in.account, now).await?;
    let sums = chart::added_up(days.iter().filter(|day| day.day >= first));
    let body = html! {
        h1 { "Usage" }
        nav aria-label="Span" { p.actions { @for choice in SPANS {
            a href={ "/usage?days=" (choice) } aria-current=[(choice == span).then_some("true")] { (choice) " days" }
        } } }
        section.card {
            h2 { "Checked addresses per day" }
            (chart::days(&days, span, now))
            p.actions { a.button.quiet href={ "/usage.csv?days=" (span) } { "Download as CSV" } }
        }
        section.card { h2 { "Results" } (chart::verdicts(&sums)) }
        section.card { h2 { "Latest changes of the credits" } (credits) }
        p.soft { "Days are in UTC. A single check counts if it is charged: fast checks, repeats within 24 hours and checks with test keys are not counted. The addresses of a batch count when the batch is complete, and repeats in it are charged. A list consists of parts that count like batches; its repeats count too, but they are free." }
    };
    Ok(page::page_at("Usage", Some("/usage"), Some(signed_in), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::credits::calendar::DAY_MS;

    #[test]
    fn each_day_is_a_row_with_the_same_columns() {
        let counts =
            DayCounts { day: 20_000, singles: 1, rows: 1_200, reasons: vec![(Reason::CatchAll, 1_201)] };
        let text = csv(&[counts], chart::ends(7, 20_000 * DAY_MS + 5));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| row.len() == 3 + Reason::ALL.len()), "{text}");
        let at = rows[0].iter().position(|name| *name == "catch_all").unwrap();
        assert_eq!((rows[1][0], rows[7][0]), ("2024-09-28", "2024-10-04"));
        assert_eq!((rows[7][1], rows[7][2], rows[7][at], rows[1][at]), ("1", "1200", "1201", "0"));
    }
}
