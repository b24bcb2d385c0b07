//! The report about a cleaned list: one HTML page without scripts and without anything from elsewhere.
//!
//! All texts of a list (names, domains, rules) are escaped by `maud`. Plots are inline SVG.

mod plot;

use crate::{Class, Domains, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plot::{Bar, bars, share_bar};
use std::time::Duration;

/// Most rows of each table of the page.
pub const ROWS_MAX: usize = 25;

/// The content of a report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The name of the list.
    pub name: String,
    /// The time of the report in UTC, as text.
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
    pub reasons: Vec<(&'static str, u64)>,
    /// The domains, those with the most rows first. The page shows the first [`ROWS_MAX`].
    pub domains: Vec<ReportDomain>,
    /// Number of rows of domains that were not counted on their own.
    pub uncounted_rows: u64,
    /// Number of rows with the address of an earlier row; `None` if it is unknown.
    pub duplicates: Option<u64>,
    /// Probable typing mistakes, the most frequent first. The page shows the first [`ROWS_MAX`].
    pub typos: Vec<ReportTypo>,
    /// Rows that a later check may decide.
    pub left: Vec<ReportLeft>,
    /// Further facts about the run: a name and a text.
    pub facts: Vec<(String, String)>,
}

/// The rows of a domain.
#[derive(Debug, Clone, Default)]
pub struct ReportDomain {
    pub name: String,
    pub rows: u64,
    pub deliverable: u64,
    /// Rows that are not confirmed.
    pub unknown: u64,
}

/// A domain that is probably a typing mistake.
#[derive(Debug, Clone, Default)]
pub struct ReportTypo {
    pub domain: String,
    pub suggestion: String,
    pub rows: u64,
}

/// Addresses without a clear answer, by the rule that left them.
#[derive(Debug, Clone, Default)]
pub struct ReportLeft {
    pub rule: String,
    pub rows: u64,
    /// What to do about them.
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

    fn rows(&self) -> u64 {
        self.reasons.iter().map(|(_, rows)| rows).sum()
    }

    /// Number of rows of a class.
    fn of(&self, class: Class) -> u64 {
        self.reasons.iter().filter(|(reason, _)| class_of(reason) == class).map(|(_, rows)| rows).sum()
    }
}

/// The page as text.
pub fn page(report: &Report) -> String {
    let rows = report.rows();
    let title = format!("{}: report", report.name);
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
                title { (title) }
                style { (PreEscaped(include_str!("report/report.css"))) }
            }
            body { main {
                h1 { (report.name) }
                p.lead { (head_line(report, rows)) }
                @if let Some(back) = &report.back { p { a href=(back) { "Back to the list" } } }
                (content(report))
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
        (left(report))
        (domains(report, rows))
        (facts(report))
    }
}

fn head_line(report: &Report, rows: u64) -> String {
    let mut line = format!("{} {}", grouped(rows), if rows == 1 { "row" } else { "rows" });
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
                        h3 { (heading(class)) }
                        p.count { (grouped(report.of(class))) " " span { (percent(report.of(class), rows)) } }
                        p { (advice(class)) }
                    }
                }
            }
        }
    }
}

fn heading(class: Class) -> &'static str {
    match class {
        Class::Deliverable => "Deliverable",
        Class::Undeliverable => "Undeliverable",
        Class::Unknown => "Not confirmed",
    }
}

/// What to do about the addresses of a class.
fn advice(class: Class) -> &'static str {
    match class {
        Class::Deliverable => "Send to these addresses.",
        Class::Undeliverable => {
            "Do not send to these addresses. Remove them, or correct the typing mistakes first and check them again."
        }
        Class::Unknown => {
            "The check does not show whether the mailbox exists. Send in small amounts, only to recipients that expect your \
             mail, and remove the addresses that bounce. A later check may decide unverifiable addresses."
        }
    }
}

fn reasons(report: &Report, rows: u64) -> Markup {
    let bar = |&(reason, count): &(&'static str, u64)| Bar {
        label: reason.to_owned(),
        parts: vec![(class_of(reason).as_str(), count)],
        text: format!("{} ({})", grouped(count), percent(count, rows)),
    };
    let all: Vec<Bar> = report.reasons.iter().map(bar).collect();
    html! {
        section {
            h2 { "Reasons" }
            (bars("Number of rows by reason", &all))
            table {
                thead { tr { th { "Reason" } th { "Meaning" } th.number { "Rows" } } }
                tbody {
                    @for (reason, count) in &report.reasons {
                        tr { td { code { (reason) } } td { (meaning(reason)) } td.number { (grouped(*count)) } }
                    }
                }
            }
        }
    }
}

/// The class of a reason.
fn class_of(reason: &str) -> Class {
    Verdict::all().find(|verdict| verdict.reason == reason).map_or(Class::Unknown, Verdict::class)
}

/// A reason in plain words.
fn meaning(reason: &str) -> &'static str {
    match reason {
        "mailbox_exists" => "The mail server accepts mail for this mailbox.",
        "role_account" => {
            "The mailbox exists and belongs to a function, such as info or sales, not to a person."
        }
        "mailbox_not_found" => "The mail server says that there is no such mailbox.",
        "mailbox_disabled" => "The mailbox exists, and takes no mail.",
        "inbox_full" => "The mailbox exists, and is full.",
        "invalid_syntax" => "This is no mail address.",
        "disposable" => "The provider gives addresses that are thrown away.",
        "spamtrap" => "A known trap for senders of unwanted mail. Never send to it.",
        "catch_all" => "The domain accepts mail for every address, so the mailbox may not exist.",
        "unverifiable" => "The mail server gave no clear answer.",
        "possible_typo" => "The domain is probably a typing mistake.",
        "no_mx" => "No server takes mail for the domain.",
        "fast_check_passed" => "Syntax, domain and lists show no fault. The mail server was not asked.",
        _ => "",
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
                thead { tr { th { "Domain" } th { "Suggestion" } th.number { "Addresses" } } }
                tbody {
                    @for typo in report.typos.iter().take(ROWS_MAX) {
                        tr { td { (typo.domain) } td { (typo.suggestion) } td.number { (grouped(typo.rows)) } }
                    }
                }
            }
            @if hidden > 0 { p.note { (grouped(hidden as u64)) " more domains are not shown." } }
        }
    }
}

fn left(report: &Report) -> Markup {
    if report.left.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Open checks" }
            p { "These addresses are unverifiable for now. A later try may tell more." }
            table {
                thead { tr { th { "Rule" } th.number { "Addresses" } th { "Next step" } } }
                tbody {
                    @for left in &report.left {
                        tr { td { code { (left.rule) } } td.number { (grouped(left.rows)) } td { (left.advice) } }
                    }
                }
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
            label: domain.name.clone(),
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
            (bars("Number of rows by domain", &all))
            p.note {
                "Green: deliverable. Red: undeliverable. Grey: not confirmed."
                @if hidden > 0 { " " (grouped(hidden as u64)) " more domains are not shown." }
                @if report.uncounted_rows > 0 {
                    " " (grouped(report.uncounted_rows)) " addresses are of domains that came after the first 100,000 domains, \
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

/// A number with separators of thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A span of time in words: `20 minutes`, or `90 seconds` if it has no whole minutes.
pub fn duration_text(span: Duration) -> String {
    let (number, unit) = match span.as_secs() {
        seconds if seconds > 0 && seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_proto::verdict::Reason;

    fn report() -> Report {
        let evil = "<script>alert(1)</script>\"'&";
        Report {
            name: format!("{evil}.csv"),
            date: "2026-11-25 15:10 UTC".into(),
            version: "0.1.0".into(),
            back: None,
            command: Some(format!("mailprobe clean {evil}")),
            duration: Some("3 minutes".into()),
            reasons: vec![("mailbox_exists", 1_234_567), ("catch_all", 20), ("no_mx", 3)],
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
            left: vec![ReportLeft { rule: evil.into(), rows: 2, advice: evil.into() }],
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
            domains.count(number, reason.into());
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
        assert!(page.contains("Green: deliverable. Red: undeliverable. Grey: not confirmed."));
        assert!(page.contains("<a href=\"/lists/lst_1\">Back to the list</a>"));
    }

    #[test]
    fn a_span_is_in_minutes_if_it_has_whole_ones() {
        for (seconds, text) in
            [(1200, "20 minutes"), (60, "1 minute"), (90, "90 seconds"), (1, "1 second"), (0, "0 seconds")]
        {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn an_empty_list_has_a_page() {
        let page = page(&Report { name: "x.csv".into(), ..Report::default() });
        assert!(page.contains("0 rows") && !page.contains("NaN"));
    }

    #[test]
    fn each_reason_has_a_meaning() {
        for verdict in Verdict::all() {
            assert_ne!(meaning(verdict.reason), "", "{}", verdict.reason);
        }
    }
}
