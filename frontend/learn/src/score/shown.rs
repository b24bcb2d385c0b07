//! A score as text, as JSON and as a page.

use super::{Counts, FEW_OUTCOMES, Group, Score};
use crate::evidence::GIVE_UP_SECONDS;
use crate::meaning::Cause;
use lists::estimate::interval;
use lists::numbers::{counted, grouped};
use lists::report::{ShareRow, ShareTable, SharesPage, share_text, shares_page};
use lists::utc_text;
use lists::words::sentence;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::fmt;

/// The number of further mail to other addresses has no bound.
const UNLIMITED: u64 = u64::MAX;

/// The kinds of groups: their title, and their key in JSON.
const KINDS: [(&str, &str); 5] = [
    ("All", "all"),
    ("By deliverable", "by_deliverable"),
    ("By reason", "by_reason"),
    ("By provider", "by_provider"),
    ("By reason and provider", "by_reason_and_provider"),
];

/// What no score shows.
const LIMITS: [&str; 3] = [
    "only addresses count to which mail was sent. If you removed addresses because of their verdict, nothing shows what their mail \
     would have done",
    "a server may accept mail for a mailbox that does not exist, and return nothing. Such addresses count as not bounced",
    "the intervals are for chance alone. They do not show whether your next list is like this one",
];

/// What a star means.
fn few() -> String {
    format!("* fewer than {FEW_OUTCOMES} outcomes: the share says little")
}

impl Score {
    /// The groups of a kind, those with the most outcomes first.
    fn rows(&self, kind: usize) -> Vec<(Group, ShareRow)> {
        let is_shown = |group: &Group| self.rest.has_provider || *group != Group::Provider(None);
        let groups = self.groups.iter().filter(|(group, _)| group.kind() == kind && is_shown(group));
        let mut rows: Vec<(Group, ShareRow)> =
            groups.map(|(group, counts)| (*group, row(group, counts))).collect();
        rows.sort_by_key(|(_, row)| Reverse(row.outcomes));
        rows
    }

    /// The groups by kind. Pairs of a reason and a provider have many outcomes.
    fn tables(&self) -> Vec<ShareTable> {
        let table = |(kind, (title, _)): (usize, (&'static str, &str))| {
            let rows = self.rows(kind).into_iter();
            let rows = rows.filter(|(group, row)| !(row.is_small && matches!(group, Group::Both(..))));
            ShareTable { title, rows: rows.map(|(_, row)| row).collect() }
        };
        KINDS.into_iter().enumerate().map(table).filter(|table| !table.rows.is_empty()).collect()
    }

    fn window_text(&self) -> String {
        counted(self.window_days.into(), "day", "days")
    }

    fn lead(&self) -> String {
        let all = self.groups.get(&Group::All).copied().unwrap_or_default();
        let outcomes = counted(all.outcomes(), "address", "addresses");
        format!(
            "{outcomes} with an outcome in the {} after the verdict: {} bounced for good",
            self.window_text(),
            grouped(all.bounced)
        )
    }

    /// What is in no share.
    fn left_out(&self) -> Vec<String> {
        let rest = &self.rest;
        let failed: u64 = rest.failed.values().sum();
        let causes = rest.failed.iter().map(|(cause, count)| format!("{cause} {}", grouped(*count)));
        let causes = causes.collect::<Vec<_>>().join(", ");
        let window = self.window_text();
        let addresses = |count| counted(count, "address", "addresses");
        let rows = |count| counted(count, "row", "rows");
        let lines = [
            (
                failed,
                format!(
                    "{} with other failures, which show nothing about the mailbox: {causes}",
                    addresses(failed)
                ),
            ),
            (rest.no_verdict, format!("{} with mail and without a verdict", addresses(rest.no_verdict))),
            (rest.not_mailed, format!("{} with a verdict and without mail", addresses(rest.not_mailed))),
            (
                rest.outside,
                format!(
                    "{} with mail only before the verdict, or more than {window} after it",
                    addresses(rest.outside)
                ),
            ),
            (
                rest.not_sent,
                format!(
                    "{} to which the provider sent nothing because of earlier bounces",
                    addresses(rest.not_sent)
                ),
            ),
            (
                rest.failed_only,
                format!(
                    "{} with failures only in files that are no exports with deliveries: name what was mailed with --mailed FILE",
                    addresses(rest.failed_only)
                ),
            ),
            (
                rest.undated_events,
                format!("{} without a time", counted(rest.undated_events, "event", "events")),
            ),
            (rest.rows_without_address, format!("{} without an address", rows(rest.rows_without_address))),
            (rest.rows_without_verdict, format!("{} without a verdict", rows(rest.rows_without_verdict))),
        ];
        lines.into_iter().filter(|(count, _)| *count > 0).map(|(_, line)| line).collect()
    }

    /// What was assumed, and what to do for better shares.
    fn assumed(&self) -> Vec<String> {
        let rest = &self.rest;
        let mut lines = Vec::new();
        if rest.silent > 0 {
            let silent = counted(rest.silent, "address", "addresses");
            lines.push(format!(
                "{silent} of --mailed without an event did not bounce: their bounces would be in the files"
            ));
        }
        for ((at, origin), count) in &rest.undated_verdicts {
            let verdicts = counted(*count, "verdict", "verdicts");
            lines.push(format!("{verdicts} without a time of their own: {} ({origin})", utc_text(*at)));
        }
        if rest.young > 0 {
            let days = GIVE_UP_SECONDS / (24 * 3600);
            let are = counted(rest.young, "delivery is", "deliveries are");
            lines.push(format!("{are} less than {days} days old and may still come back: score again later"));
        }
        let unclear = [Cause::NoWords, Cause::Contradiction, Cause::Unclear];
        let unclear: u64 = unclear.iter().filter_map(|cause| rest.failed.get(cause)).sum();
        if unclear > 0 {
            let all = self.groups.get(&Group::All).copied().unwrap_or_default();
            let most = (all.bounced + unclear) as f64 / (all.outcomes() + unclear) as f64;
            let failures = counted(unclear, "failure", "failures");
            lines.push(format!(
                "{failures} without clear words of a server may be bounces for good: if all are, the share of all is {}",
                share_text(most)
            ));
        }
        lines.extend(rest.doubts.iter().cloned());
        if !rest.has_provider {
            lines.push("the verdicts have no provider: make lists with `mailprobe clean --columns provider,checked_at`".to_owned());
        }
        lines
    }

    /// What to know besides the shares: a title, and clauses.
    fn sections(&self) -> Vec<(&'static str, Vec<String>)> {
        let all = [
            ("Not in the shares", self.left_out()),
            ("Assumptions", self.assumed()),
            ("What this cannot show", LIMITS.map(str::to_owned).to_vec()),
        ];
        all.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
    }

    /// Why no address has an outcome.
    pub(super) fn nothing(&self) -> String {
        let left_out = self.left_out().join("; ");
        let window = self.window_text();
        let origins = self.rest.undated_verdicts.keys();
        let times: String =
            origins.map(|(at, origin)| format!(", with verdicts of {} ({origin})", utc_text(*at))).collect();
        format!(
            "no address has an outcome in the {window} after its verdict{times}. Found: {left_out}. Name the files of the mail that \
             followed these verdicts, or change --within or --checked-at"
        )
    }

    /// The score as JSON for scripts.
    pub fn json(&self) -> Value {
        let rest = &self.rest;
        let undated = |((at, origin), count): (&(u64, String), &u64)| json!({"verdicts": count, "at": utc_text(*at), "from": origin});
        let mut json = json!({
            "confidence": 0.95,
            "within_days": self.window_days,
            "other_failures": rest.failed.iter().map(|(cause, count)| json!({"cause": cause.as_str(), "addresses": count})).collect::<Vec<_>>(),
            "left_out": {
                "mailed_without_verdict": rest.no_verdict,
                "verdict_not_mailed": rest.not_mailed,
                "mailed_outside_of_time": rest.outside,
                "not_sent_by_provider": rest.not_sent,
                "failed_in_files_without_deliveries": rest.failed_only,
                "events_without_time": rest.undated_events,
                "rows_without_address": rest.rows_without_address,
                "rows_without_verdict": rest.rows_without_verdict,
            },
            "assumed": {
                "mailed_without_event": rest.silent,
                "deliveries_younger_than_5_days": rest.young,
                "verdicts_without_time": rest.undated_verdicts.iter().map(undated).collect::<Vec<_>>(),
            },
            "limits": LIMITS,
        });
        for (kind, (_, key)) in KINDS.into_iter().enumerate() {
            json[key] = self.rows(kind).iter().map(|(group, row)| json_row(group, row)).collect();
        }
        json["all"] = json["all"][0].take();
        json
    }

    /// The score as a page. `heading` is its title, and `command` the command line.
    pub fn page(&self, heading: String, version: &str, command: Option<String>) -> String {
        let tables = self.tables();
        let mut notes = vec![
            "an outcome is a bounce for good, or mail that did not bounce".to_owned(),
            "a bar is the 95 % interval. It changes its color at the share that was found. Each section has its own scale"
                .to_owned(),
        ];
        if tables.iter().flat_map(|table| &table.rows).any(|row| row.is_small) {
            notes.push(few());
        }
        let sentences = |(title, lines): (&'static str, Vec<String>)| {
            (title, lines.iter().map(|line| sentence(line)).collect())
        };
        let sections = std::iter::once(("Reading the shares", notes)).chain(self.sections());
        let date = utc_text(self.now).replace('T', " ").replace('Z', " UTC");
        let facts =
            [("Date", Some(date)), ("Program", Some(format!("mailprobe {version}"))), ("Command", command)];
        shares_page(&SharesPage {
            heading,
            lead: sentence(&self.lead()),
            tables,
            sections: sections.map(sentences).collect(),
            facts: facts.into_iter().filter_map(|(name, text)| Some((name, text?))).collect(),
        })
    }
}

/// The text for people.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.", self.lead())?;
        let tables = self.tables();
        let names = tables.iter().flat_map(|table| &table.rows).map(|row| row.name.chars().count());
        let width = names.max().unwrap_or_default().max("By reason and provider".len());
        for table in &tables {
            writeln!(
                f,
                "\n{:<width$} {:>11} {:>11} {:>8}   {:<22} {:>14}",
                table.title, "outcomes", "bounced", "share", "95 % interval", "other failures"
            )?;
            for row in &table.rows {
                let [share, low, high] = [row.share, row.low, row.high].map(share_text);
                let (share, interval) = match row.outcomes {
                    0 => (String::new(), String::new()),
                    _ => (share, format!("{low} to {high}{}", if row.is_small { " *" } else { "" })),
                };
                let [outcomes, bounced, failures] =
                    [row.outcomes, row.bounced, row.other_failures].map(grouped);
                writeln!(
                    f,
                    "{:<width$} {outcomes:>11} {bounced:>11} {share:>8}   {interval:<22} {failures:>14}",
                    row.name
                )?;
            }
        }
        if tables.iter().flat_map(|table| &table.rows).any(|row| row.is_small) {
            writeln!(f, "{}", few())?;
        }
        for (title, lines) in self.sections() {
            writeln!(f, "\n{title}:")?;
            for line in lines {
                writeln!(f, "- {line}")?;
            }
        }
        Ok(())
    }
}

impl Group {
    /// The kind of the group, as a place in [`KINDS`].
    fn kind(&self) -> usize {
        match self {
            Group::All => 0,
            Group::Deliverable(_) => 1,
            Group::Reason(_) => 2,
            Group::Provider(_) => 3,
            Group::Both(..) => 4,
        }
    }
}

impl Counts {
    fn outcomes(self) -> u64 {
        self.bounced + self.others
    }
}

pub(super) fn row(group: &Group, counts: &Counts) -> ShareRow {
    let outcomes = counts.outcomes();
    let (share, low, high) = interval(counts.bounced, outcomes, UNLIMITED);
    ShareRow {
        name: match group {
            Group::All => "all".to_owned(),
            Group::Deliverable(Some(true)) => "true".to_owned(),
            Group::Deliverable(Some(false)) => "false".to_owned(),
            Group::Deliverable(None) => "unknown".to_owned(),
            Group::Reason(reason) => reason.as_str().to_owned(),
            Group::Provider(provider) => provider.unwrap_or("unknown").to_owned(),
            Group::Both(reason, provider) => format!("{reason}, {provider}"),
        },
        outcomes,
        bounced: counts.bounced,
        share,
        low,
        high,
        other_failures: counts.failed,
        is_small: outcomes < FEW_OUTCOMES,
    }
}

/// A group as JSON: its key, its counts and its share, which is `null` without outcomes.
fn json_row(group: &Group, row: &ShareRow) -> Value {
    let known = |share: f64| (row.outcomes > 0).then_some(share);
    let mut json = json!({
        "outcomes": row.outcomes,
        "bounced": row.bounced,
        "share": known(row.share),
        "low": known(row.low),
        "high": known(row.high),
        "other_failures": row.other_failures,
        "is_small": row.is_small,
    });
    match group {
        Group::All => {}
        Group::Deliverable(deliverable) => json["deliverable"] = json!(deliverable),
        Group::Reason(reason) => json["reason"] = json!(reason.as_str()),
        Group::Provider(provider) => json["provider"] = json!(provider),
        Group::Both(reason, provider) => {
            (json["reason"], json["provider"]) = (json!(reason.as_str()), json!(provider));
        }
    }
    json
}
