//! The report about a cleaned list: one HTML page without scripts and without anything from elsewhere.
//!
//! All texts of a list (names, domains, rules) are escaped by `maud`. Plots are inline SVG.

mod plot;
mod shares;

use crate::numbers::{counted, grouped, percent};
use crate::words::{self, sentence};
use crate::{Class, Domains, domain_text};
use api::{AFTER_REPEATS, Reason, UnverifiableCause};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plot::{Bar, bars, share_bar};
pub use shares::{ShareRow, ShareTable, SharesPage, share_text, shares_page};

/// Most rows of each table of the page.
pub const ROWS_MAX: usize = 25;

/// The content of a report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The name of the list.
    pub name: String,
    /// The time at which the check ended in UTC, as text.
    pub date: String,
    /// The version of the program.
    pub version: String,
    /// The path of the list's page; `None` if the report is a file.
    pub back: Option<String>,
    /// The command that made the list; `None` for lists of the dashboard.
    pub command: Option<String>,
    /// Duration of the run as text, for example `12 minutes`.
    pub duration: Option<String>,
    /// Number of rows by reason, the most frequent first.
    pub reasons: Vec<(Reason, u64)>,
    /// The domains, those with the most rows first. The page shows the first [`ROWS_MAX`].
    pub domains: Vec<ReportDomain>,
    /// Number of rows of domains that were not counted on their own.
    pub uncounted_rows: u64,
    /// Number of rows of the report with the address of an earlier row; `None` if it is unknown, or if they are left out.
    pub duplicates: Option<u64>,
    /// Probable typing mistakes, the most frequent first. The page shows the first [`ROWS_MAX`].
    pub typos: Vec<ReportTypo>,
    /// Unverifiable rows that a later check may decide, by rule.
    pub left: Vec<ReportRule>,
    /// The command that checks these rows again; `None` for lists of the dashboard.
    pub later: Option<String>,
    /// Unverifiable rows that a later check alone does not decide, by rule.
    pub settled: Vec<ReportRule>,
    /// Other unverifiable rows: their number, and why their rule is unknown.
    pub unexplained: Vec<(u64, &'static str)>,
    /// Whether the numbers of unverifiable rows, by rule, are numbers of different addresses.
    pub by_address: bool,
    /// Number of columns of addresses. With several, the counts of rows are counts of cells.
    pub columns: usize,
    /// Number of empty rows, or cells, among those that are undeliverable.
    pub empty: u64,
    /// Further facts about the run: a name and a text.
    pub facts: Vec<(String, String)>,
}

/// The rows of a domain.
#[derive(Debug, Clone, Default)]
pub struct ReportDomain {
    pub name: String,
    pub rows: u64,
    pub deliverable: u64,
    /// Rows of the class [`Class::Unknown`].
    pub unknown: u64,
}

/// A domain that is probably a typing mistake.
#[derive(Debug, Clone, Default)]
pub struct ReportTypo {
    pub domain: String,
    pub suggestion: String,
    pub rows: u64,
}

/// Unverifiable rows of a rule.
#[derive(Debug, Clone, Default)]
pub struct ReportRule {
    pub rule: String,
    pub rows: u64,
    /// What the rule means: a clause.
    pub meaning: String,
    /// What to do about them: a clause.
    pub advice: String,
}

impl Report {
    /// Takes the counts of the domains.
    pub fn set_domains(&mut self, domains: &Domains) {
        let of = |(name, rows): (&str, crate::DomainRows)| ReportDomain {
            name: name.to_owned(),
            rows: rows.rows,
            deliverable: rows.deliverable,
            unknown: rows.unknown,
        };
        self.domains = domains.sorted().into_iter().map(of).collect();
        self.uncounted_rows = domains.others().rows;
    }

    /// Takes the causes of a number of unverifiable different addresses.
    pub fn set_causes(&mut self, causes: &[(UnverifiableCause, u64)], unverifiable: u64) {
        let rule = |&(cause, rows): &(UnverifiableCause, u64)| {
            let (meaning, advice) = (cause.words().meaning, cause.advice_of_server(AFTER_REPEATS));
            let name = serde_json::to_value(cause).unwrap_or_default();
            let rule = name.as_str().unwrap_or_default().to_owned();
            ReportRule { rule, rows, meaning: meaning.into(), advice }
        };
        let mut rules: Vec<ReportRule> = causes.iter().map(rule).collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.rows));
        let unknown = unverifiable.saturating_sub(rules.iter().map(|rule| rule.rows).sum());
        (self.left, self.settled) =
            rules.into_iter().partition(|rule| rule.advice.starts_with("check again"));
        self.unexplained =
            [(unknown, "no cause is stored")].into_iter().filter(|(rows, _)| *rows > 0).collect();
        self.by_address = true;
    }

    fn rows(&self) -> u64 {
        self.reasons.iter().map(|(_, rows)| rows).sum()
    }

    /// What the counts count.
    fn unit(&self) -> &'static str {
        if self.columns > 1 { "cells" } else { "rows" }
    }

    fn unit_title(&self) -> &'static str {
        if self.columns > 1 { "Cells" } else { "Rows" }
    }

    /// Number of rows of a class.
    fn of(&self, class: Class) -> u64 {
        self.reasons.iter().filter(|(reason, _)| Class::of(*reason) == class).map(|(_, rows)| rows).sum()
    }
}

/// The page as text.
pub fn page(report: &Report) -> String {
    let lead = head_line(report, report.rows());
    framed(&report.name, &lead, report.back.as_deref(), &content(report))
}

/// A page with the look of a report.
fn framed(heading: &str, lead: &str, back: Option<&str>, content: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                // Whatever a list contains, the page loads and runs nothing.
                meta http-equiv="content-security-policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
                title { (heading) ": report" }
                style { (PreEscaped(include_str!("report/report.css"))) }
            }
            body { main {
                h1 { (heading) }
                p.lead { (lead) }
                @if let Some(back) = back { p { a href=(back) { "Back to the list" } } }
                (content)
            } }
        }
    }
    .into_string()
}

/// The content of the page, for a page that has its own frame and style.
pub fn content(report: &Report) -> Markup {
    let rows = report.rows();
    html! {
        (classes(report, rows))
        (reasons(report, rows))
        (typos(report))
        (unverifiable(report))
        (domains(report, rows))
        (facts(report))
    }
}

fn head_line(report: &Report, rows: u64) -> String {
    let mut line = match report.columns as u64 {
        columns @ 2.. => {
            format!("{} of {}", counted(rows, "cell", "cells"), counted(rows / columns, "row", "rows"))
        }
        _ => counted(rows, "row", "rows"),
    };
    if let Some(duplicates) = report.duplicates.filter(|&duplicates| duplicates > 0) {
        line += &format!(", {} of them duplicates", grouped(duplicates));
    }
    line += &format!(". {}", report.date);
    line
}

fn classes(report: &Report, rows: u64) -> Markup {
    let parts = Class::ALL.map(|class| (class.as_str(), report.of(class)));
    html! {
        section {
            h2 { "Result" }
            (share_bar(&parts))
            div.classes {
                @for class in Class::ALL {
                    div.class.(class.as_str()) {
                        h3 { (class.title()) }
                        p.count { (grouped(report.of(class))) " " span { (percent(report.of(class), rows)) } }
                        @if class == Class::Undeliverable && report.empty > 0 { p { "(" (grouped(report.empty)) " of them empty)" } }
                        p { (sentence(class.meaning())) }
                    }
                }
            }
        }
    }
}

fn reasons(report: &Report, rows: u64) -> Markup {
    let bar = |&(reason, count): &(Reason, u64)| Bar {
        label: reason.as_str().to_owned(),
        parts: vec![(Class::of(reason).as_str(), count)],
        text: format!("{} ({})", grouped(count), percent(count, rows)),
    };
    let all: Vec<Bar> = report.reasons.iter().map(bar).collect();
    html! {
        section {
            h2 { "Reasons" }
            (bars(&format!("Number of {} by reason", report.unit()), &all))
            table.words {
                thead { tr { th { "Reason" } th { "Meaning" } th { "What to do" } th.number { (report.unit_title()) } } }
                tbody {
                    @for (reason, count) in &report.reasons {
                        tr {
                            td { code { (reason.as_str()) } }
                            td { (sentence(words::meaning(*reason))) }
                            td { (sentence(words::advice(*reason))) }
                            td.number { (grouped(*count)) }
                        }
                    }
                    tr { td { "All " (report.unit()) } td {} td {} td.number { (grouped(rows)) } }
                }
            }
        }
    }
}

fn typos(report: &Report) -> Markup {
    if report.typos.is_empty() {
        return html! {};
    }
    let hidden = report.typos.len().saturating_sub(ROWS_MAX);
    html! {
        section {
            h2 { "Probable typing mistakes" }
            p { "Correct these domains and check the addresses again."
                @if report.command.is_some() { " " code { "--columns suggestion" } " writes the corrected address into each row." } }
            table {
                thead { tr { th { "Domain" } th { "Suggestion" } th.number { (report.unit_title()) } } }
                tbody {
                    @for typo in report.typos.iter().take(ROWS_MAX) {
                        tr { td { (domain_text(&typo.domain)) } td { (domain_text(&typo.suggestion)) } td.number { (grouped(typo.rows)) } }
                    }
                }
            }
            @if hidden > 0 { p.note { (grouped(hidden as u64)) " more domains are not shown." } }
        }
    }
}

/// The unverifiable rows by their rules. The numbers add up to the rows with this reason.
fn unverifiable(report: &Report) -> Markup {
    if report.left.is_empty() && report.settled.is_empty() {
        return html! {};
    }
    let sum = |rules: &[ReportRule]| -> u64 { rules.iter().map(|rule| rule.rows).sum() };
    let groups = [
        ("For now: a later check may tell more", &report.left, &report.later),
        ("A later check alone does not help", &report.settled, &None),
    ];
    let all = sum(&report.left)
        + sum(&report.settled)
        + report.unexplained.iter().map(|(rows, _)| rows).sum::<u64>();
    // Different addresses have causes, as on the page of the list.
    let (unit, unit_title, name) = match report.by_address {
        true => ("different addresses", "Different addresses", "Name of the cause"),
        false => (report.unit(), report.unit_title(), "Rule"),
    };
    html! {
        section {
            h2 { "Unverifiable " (unit) }
            table.words {
                thead { tr { th { (name) } th { "Cause" } th { "Next step" } th.number { (unit_title) } } }
                @for (title, rules, command) in groups.iter().filter(|(_, rules, _)| !rules.is_empty()) {
                    tbody {
                        tr { th colspan="3" { (title) @if let Some(command) = command { ": " code { (command) } } } th.number { (grouped(sum(rules))) } }
                        @for rule in *rules {
                            tr {
                                td { code { (rule.rule) } }
                                td { (sentence(&rule.meaning)) }
                                td { (sentence(&rule.advice)) }
                                td.number { (grouped(rule.rows)) }
                            }
                        }
                    }
                }
                tbody {
                    @for (rows, why) in &report.unexplained {
                        tr { td colspan="3" { (sentence(why)) } td.number { (grouped(*rows)) } }
                    }
                    tr { td colspan="3" { "All unverifiable " (unit) } td.number { (grouped(all)) } }
                }
            }
            @if report.by_address {
                p.note { "A new check repeats an answer for 24 hours. It asks about addresses without an answer (" code { "refusal_budget" } ", " code { "outage" } ")." }
            }
        }
    }
}

fn domains(report: &Report, rows: u64) -> Markup {
    if report.domains.is_empty() {
        return html! {};
    }
    let bar = |domain: &ReportDomain| {
        let undeliverable = domain.rows.saturating_sub(domain.deliverable + domain.unknown);
        Bar {
            label: domain_text(&domain.name),
            parts: vec![
                (Class::Deliverable.as_str(), domain.deliverable),
                (Class::Undeliverable.as_str(), undeliverable),
                (Class::Unknown.as_str(), domain.unknown),
            ],
            text: format!(
                "{} ({}), {} deliverable",
                grouped(domain.rows),
                percent(domain.rows, rows),
                percent(domain.deliverable, domain.rows)
            ),
        }
    };
    let all: Vec<Bar> = report.domains.iter().take(ROWS_MAX).map(bar).collect();
    let hidden = report.domains.len().saturating_sub(ROWS_MAX);
    html! {
        section {
            h2 { "Domains" }
            (bars(&format!("Number of {} by domain", report.unit()), &all))
            p.note {
                "Green: deliverable. Red: undeliverable. Grey: unknown."
                @if hidden > 0 { " " (grouped(hidden as u64)) " more domains are not shown." }
                @if report.uncounted_rows > 0 {
                    " " (grouped(report.uncounted_rows)) " " (report.unit()) " are of domains that came after the first 100,000 domains, \
                     which have counts of their own."
                }
            }
        }
    }
}

fn facts(report: &Report) -> Markup {
    let fact = |name: &str, text: &Option<String>| text.clone().map(|text| (name.to_owned(), text));
    let version = Some(format!("mailprobe {}", report.version));
    let fixed = [
        fact("Duration", &report.duration),
        fact("Date", &Some(report.date.clone())),
        fact("Program", &version),
        fact("Command", &report.command),
    ];
    html! {
        section {
            h2 { "About this list" }
            dl {
                @for (name, text) in report.facts.iter().cloned().chain(fixed.into_iter().flatten()) {
                    dt { (name) } dd { (text) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let evil = "<script>alert(1)</script>\"'&";
        Report {
            name: format!("{evil}.csv"),
            date: "2026-11-25 15:10 UTC".into(),
            version: "0.1.0".into(),
            back: None,
            command: Some(format!("mailprobe clean {evil}")),
            duration: Some("3 minutes".into()),
            reasons: vec![(Reason::MailboxExists, 1_234_567), (Reason::CatchAll, 20), (Reason::NoMx, 3)],
            domains: (0..30)
                .map(|n| ReportDomain {
                    name: format!("{evil}{n}.example"),
                    rows: 10,
                    deliverable: 5,
                    unknown: 2,
                })
                .collect(),
            uncounted_rows: 7,
            duplicates: Some(4),
            typos: (0..30)
                .map(|n| ReportTypo { domain: evil.into(), suggestion: format!("s{n}.example"), rows: n })
                .collect(),
            later: Some(format!("mailprobe clean {evil} --retry")),
            left: vec![ReportRule { rule: evil.into(), rows: 2, meaning: evil.into(), advice: evil.into() }],
            settled: vec![ReportRule { rows: 5, ..ReportRule::default() }],
            unexplained: vec![(3, "why")],
            by_address: false,
            columns: 1,
            empty: 0,
            facts: vec![("Files".into(), evil.into())],
        }
    }

    #[test]
    fn a_page_is_complete_and_loads_nothing() {
        let page = page(&report());
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        for text in [
            "1,234,590 rows, 4 of them duplicates",
            "1,234,567",
            "mailprobe 0.1.0",
            "5 more domains are not shown",
            "s0.example",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "<svg ",
            "3 minutes",
            "may tell more: <code>mailprobe clean &lt;script&gt;",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for text in ["<script", "http:", "https:", "src=", "url(", "@import", "s25.example", "href"] {
            assert!(!page.contains(text), "{text}");
        }
    }

    #[test]
    fn the_domains_have_the_colours_of_the_classes() {
        let mut domains = Domains::default();
        let number = domains.number("x.example");
        for reason in [Reason::MailboxExists, Reason::CatchAll, Reason::Unverifiable, Reason::MailboxNotFound]
        {
            domains.count(number, reason);
        }
        let mut report = Report { back: Some("/lists/lst_1".into()), ..Report::default() };
        report.set_domains(&domains);
        let page = page(&report);
        for (class, width) in [("deliverable", "250"), ("undeliverable", "250"), ("unknown", "500")] {
            let bar = format!("<rect class=\"{class}\"");
            let width = format!("width=\"{width}\"");
            let rest = page.split(&bar).nth(1).and_then(|rest| rest.split('>').next());
            assert!(rest.is_some_and(|rest| rest.contains(&width)), "{class}: {page}");
        }
        assert!(page.contains("Green: deliverable. Red: undeliverable. Grey: unknown."));
        assert!(page.contains("<a href=\"/lists/lst_1\">Back to the list</a>"));
    }

    #[test]
    fn the_causes_of_different_addresses_add_up() {
        use UnverifiableCause::{Greylisted, NoConnection, RefusalBudget, RefusesMachine};
        let mut report = Report::default();
        report.set_causes(&[(RefusesMachine, 1), (NoConnection, 4), (Greylisted, 3), (RefusalBudget, 2)], 11);
        let page = page(&report);
        for text in [
            "may tell more</th><th class=\"number\">9</th></tr><tr><td><code>no_connection</code></td><td>The mail server accepted no connection.",
            "does not help</th><th class=\"number\">1</th></tr><tr><td><code>refuses_machine</code>",
            "No cause is stored.</td><td class=\"number\">1</td>",
            "All unverifiable different addresses</td><td class=\"number\">11</td>",
            "(greylisting).</td><td>Check again after 24 hours.</td>",
            "in an hour.</td><td>Check again after an hour.</td>",
            "A new check repeats an answer for 24 hours.",
            "<th>Name of the cause</th><th>Cause</th>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn an_empty_list_has_a_page() {
        let page = page(&Report { name: "x.csv".into(), ..Report::default() });
        assert!(page.contains("0 rows") && !page.contains("NaN"));
    }
}
