//! The page about what mail did after verdicts: shares of bounces with their intervals.

use super::plot::{Bar, bars};
use super::{ROWS_MAX, framed};
use crate::numbers::grouped;
use maud::{Markup, html};

/// The content of the page.
#[derive(Debug, Clone, Default)]
pub struct SharesPage {
    /// The heading.
    pub heading: String,
    /// The line below it.
    pub lead: String,
    /// The groups of addresses. The page shows the first [`ROWS_MAX`] rows of each table.
    pub tables: Vec<ShareTable>,
    /// Further sections: a title, and sentences.
    pub sections: Vec<(&'static str, Vec<String>)>,
    /// Facts about the run: a name and a text.
    pub facts: Vec<(&'static str, String)>,
}

/// Groups of one kind.
#[derive(Debug, Clone, Default)]
pub struct ShareTable {
    /// The kind, as a heading.
    pub title: &'static str,
    /// The groups.
    pub rows: Vec<ShareRow>,
}

/// A group of addresses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShareRow {
    /// The name of the group.
    pub name: String,
    /// Number of addresses that bounced for good, or did not bounce.
    pub outcomes: u64,
    /// Number of these that bounced for good.
    pub bounced: u64,
    /// The share that bounced, and the ends of its interval, from 0 to 1.
    pub share: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Number of further addresses whose mail failed for a reason that shows nothing about the mailbox.
    pub other_failures: u64,
    /// Whether there are so few outcomes that the share says little.
    pub is_small: bool,
}

/// A share as text. Near 0 and 1 it has two decimals.
pub fn share_text(share: f64) -> String {
    let is_near_an_end = (share < 0.01 && share > 0.0) || (share > 0.99 && share < 1.0);
    let decimals = if is_near_an_end { 2 } else { 1 };
    format!("{:.decimals$} %", 100.0 * share)
}

/// The page as text.
pub fn shares_page(page: &SharesPage) -> String {
    let content = html! {
        @for shares in &page.tables { (table(shares)) }
        @for (title, sentences) in &page.sections {
            section { h2 { (title) } ul { @for sentence in sentences { li { (sentence) } } } }
        }
        section {
            h2 { "About this report" }
            dl { @for (name, text) in &page.facts { dt { (name) } dd { (text) } } }
        }
    };
    framed(&page.heading, &page.lead, None, &content)
}

fn table(shares: &ShareTable) -> Markup {
    let rows = &shares.rows[..shares.rows.len().min(ROWS_MAX)];
    let hidden = shares.rows.len() - rows.len();
    let mark = |row: &ShareRow| if row.is_small { " *" } else { "" };
    html! {
        section {
            h2 { (shares.title) }
            (bars("Share of addresses that bounced for good", &rows.iter().map(bar).collect::<Vec<_>>()))
            table {
                thead { tr { th.name { "Addresses" } th.number { "Outcomes" } th.number { "Bounced" } th.number { "Other failures" } } }
                tbody {
                    @for row in rows {
                        tr {
                            td.name { (row.name) (mark(row)) }
                            td.number { (grouped(row.outcomes)) }
                            td.number { (grouped(row.bounced)) }
                            td.number { (grouped(row.other_failures)) }
                        }
                    }
                }
            }
            @if hidden > 0 { p.note { (grouped(hidden as u64)) " more rows are not shown." } }
        }
    }
}

/// The interval as a bar. It changes its colour at the share that was found.
fn bar(row: &ShareRow) -> Bar {
    let millionths = |share: f64| (share * 1e6).round() as u64;
    let (low, share, high) = match row.outcomes {
        0 => (0, 0, 0),
        _ => (millionths(row.low), millionths(row.share), millionths(row.high)),
    };
    Bar {
        label: row.name.clone(),
        parts: vec![("before", low), ("low", share - low), ("high", high - share)],
        text: match row.outcomes {
            0 => "no outcome".to_owned(),
            _ => {
                let [share, low, high] = [row.share, row.low, row.high].map(share_text);
                format!("{share} ({low} to {high})")
            }
        },
    }
}
