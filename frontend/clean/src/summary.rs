//! The summary of a run: text for people on standard error, JSON for scripts in a file.

mod reading;
mod writing;

use super::sink::WrittenFile;
use super::{CleanError, ListPart};
use api::Reason;
use lists::estimate::Estimate;
use lists::left::{Left, again, line};
use lists::numbers::{counted, grouped, percent, rate_text};
use lists::report::{ReportRule, ReportTypo};
use lists::{Class, Domains, ReasonCounts, ResultColumn, domain_text};
pub use reading::Reading;
use std::fmt;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The summary of a run.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    pub(super) reasons: ReasonCounts,
    /// Number of columns of addresses. With several, each count of rows is a count of cells.
    pub columns: usize,
    /// Number of rows without an address.
    pub without_address: u64,
    /// Number of these whose cell is empty. The others have a text that is no address.
    pub empty: u64,
    /// Number of rows that an earlier run wrote.
    pub resumed: u64,
    /// Number of further addresses with a result of an earlier run, which could not write their rows yet.
    pub resumed_results: u64,
    /// Number of unverifiable rows with the result of an earlier run, and with that of an earlier output; and of rows for which the
    /// earlier run has stored the cause, so that `left` and `settled` have them.
    pub(super) of_earlier_run: u64,
    pub(super) explained: u64,
    pub(super) of_earlier_output: u64,
    /// Number of rows with an address of an earlier row. They get its verdict without a check.
    pub duplicates: u64,
    /// Number of these rows that `--drop-duplicates` has left out. No other count includes them.
    pub dropped: u64,
    /// Number of addresses whose result of an earlier output was used again.
    pub known: u64,
    /// Whether results of the earlier output have no time of their own, so that they count as checked when it was written.
    pub known_undated: bool,
    /// The further columns that are empty for these addresses, because the earlier output does not have them.
    pub known_lacking: Vec<ResultColumn>,
    /// Number of results of the earlier output that were not fit for use.
    pub known_unused: u64,
    /// Number of retries because a server answered "later" or not at all.
    pub retries: u64,
    /// Addresses that are unverifiable, but for which a later try may tell more.
    pub left: Left,
    /// The command that checks these rows later; `None` if they are not written.
    pub later: Option<String>,
    /// Addresses that are unverifiable for a cause that stays, by rule.
    pub settled: Left,
    /// Whether the checks were fast. Such a check finds no address deliverable.
    pub is_fast: bool,
    /// The value of `--max-wait` of this run.
    pub max_wait: Duration,
    /// Duration of this run.
    pub elapsed: Duration,
    /// The rows that the counts include.
    pub extent: Extent,
    /// How the list was read; `None` before its end.
    pub reading: Option<Reading>,
    /// The files that were written.
    pub files: Vec<WrittenFile>,
    /// The file of closed rows beside the output, if there is one.
    pub closed: Option<PathBuf>,
    /// Number of closed rows, or of unverifiable rows of parts, that `--retry` checks again because there is no such file.
    pub(super) lost_closed: u64,
    /// Probable typing mistakes in domains, the most frequent first; empty unless they were looked for.
    pub typos: Vec<ReportTypo>,
    /// The estimate for the list, if only a sample was checked.
    pub estimate: Option<Estimate>,
    pub(super) domains: Domains,
}

/// The rows that a summary counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The list, in one run.
    #[default]
    Whole,
    /// One part of the list.
    Part(ListPart),
    /// The list, put together from this number of parts. It does not show how often a row was tried, or why it was left.
    Joined(u32),
    /// A sample of the list.
    Sample,
}

/// The warning about `known_undated`.
const UNDATED: &str = "the earlier output has results without checked_at. Their age is counted from the last change of the file: they are older if it was \
     copied or changed since; make outputs with --columns checked_at";

/// What checks closed rows. The results of an output with the column `rule` say that they are closed, and count for a day.
const AFTER_CAUSE: &str = "after you have removed the cause, such as a blocklist, `mailprobe clean LIST --known OUT -o NEW` checks the closed ones; if OUT has \
     the column rule, a day after their last check";

/// Number of domains in the text.
const TOP_DOMAINS: usize = 5;

impl Summary {
    /// The summary at the start of a run with this `--max-wait`. `is_fast`: its checks are fast.
    pub(super) fn new(max_wait: Duration, extent: Extent, is_fast: bool, columns: usize) -> Summary {
        Summary { max_wait, extent, is_fast, columns, ..Summary::default() }
    }

    /// Number of all rows.
    pub fn total(&self) -> u64 {
        self.reasons.total()
    }

    /// Counts a row; `domain` is the number of its domain.
    pub(super) fn count(&mut self, reason: Reason, domain: Option<u32>) {
        self.reasons.add(reason);
        match domain {
            Some(domain) => self.domains.count(domain, reason),
            None => self.without_address += 1,
        }
    }

    /// Numbers of unverifiable rows whose rule this run does not know, each with the origin of the result.
    pub(super) fn unexplained(&self) -> Vec<(u64, &'static str)> {
        let rest =
            self.reasons.of(Reason::Unverifiable).saturating_sub(self.left.rows() + self.settled.rows());
        let of_run = self.of_earlier_run.saturating_sub(self.explained).min(rest);
        let of_output = self.of_earlier_output.min(rest - of_run);
        let all = [
            (of_run, "with the result of an earlier run"),
            (of_output, "closed in the earlier output: a later check alone would not settle them"),
            (rest - of_run - of_output, "with the address of an earlier row, and its result"),
        ];
        all.into_iter().filter(|(rows, _)| *rows > 0).collect()
    }

    fn has_several_columns(&self) -> bool {
        self.columns > 1
    }

    /// A number of rows, or of cells if the list has several columns of addresses.
    pub(super) fn rows_text(&self, rows: u64) -> String {
        self.of_kind(rows, "")
    }

    /// The same for rows of a kind: an adjective with a space behind it.
    fn of_kind(&self, rows: u64, kind: &str) -> String {
        let unit = if self.has_several_columns() { "cell" } else { "row" };
        counted(rows, &format!("{kind}{unit}"), &format!("{kind}{unit}s"))
    }

    /// The rows that a later check may settle, by rule.
    pub(super) fn open_lines(&self) -> Vec<ReportRule> {
        self.left.lines(Some(self.max_wait))
    }

    /// Number of rows of the list, whatever the number of their addresses.
    fn list_rows(&self) -> u64 {
        self.total() / self.columns.max(1) as u64
    }

    /// The rows without an address, which are all `invalid_syntax`, by what is in the cell.
    fn without_address_text(&self) -> String {
        let empty = self.empty.min(self.without_address);
        let others = self.without_address - empty;
        let texts = format!("{} with a text that is no address", grouped(others));
        match (empty, others) {
            (0, _) => texts,
            (_, 0) => format!("{} empty", grouped(empty)),
            _ => format!("{} empty, {texts}", grouped(empty)),
        }
    }

    /// The rows and results of an earlier run; `None` if there are none.
    fn resumed_text(&self) -> Option<String> {
        let rows = self.rows_text(self.resumed);
        match self.resumed_results {
            0 if self.resumed == 0 => None,
            0 => Some(rows),
            results => {
                let results = counted(results, "result that waited", "results that waited");
                Some(format!("{rows}, and {results} for the rows before"))
            }
        }
    }

    /// Which cells of known addresses are empty, and why; `None` if all have their values.
    fn known_lacking_text(&self) -> Option<String> {
        let names: Vec<&str> = self.known_lacking.iter().map(|column| column.as_str()).collect();
        (self.known > 0 && !names.is_empty()).then(|| {
            let (addresses, names) = (addresses(self.known), names.join(", "));
            format!("{addresses} without a value in {names}, which the earlier output does not have; a run without --known fills them")
        })
    }

    fn rate(&self) -> f64 {
        self.total().saturating_sub(self.resumed + self.resumed_results) as f64
            / self.elapsed.as_secs_f64().max(0.001)
    }

    /// Writes the summary to this file, if there is one.
    ///
    /// # Errors
    /// As [`Summary::write`].
    pub(super) fn write_if_wanted(&self, path: Option<&Path>) -> Result<(), CleanError> {
        path.map_or(Ok(()), |path| self.write(path))
    }

    /// Writes the summary as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), CleanError> {
        let failed = |error: std::io::Error| {
            CleanError::failed(format!("the list is done, but {} cannot be written: {error}", path.display()))
        };
        let file = std::fs::File::create(path).map_err(failed)?;
        let mut out = BufWriter::new(file);
        serde_json::to_writer(&mut out, &self.extended(self.json())).map_err(|e| failed(e.into()))?;
        out.write_all(b"\n").and_then(|()| out.flush()).map_err(failed)
    }

    /// Adds the part or the number of parts, and omits the values that only the summaries of the parts have.
    fn extended(&self, mut json: serde_json::Value) -> serde_json::Value {
        let parts = match self.extent {
            Extent::Whole => return json,
            Extent::Sample => {
                json["sample"] = self.estimate.as_ref().map(Estimate::json).into();
                return json;
            }
            Extent::Part(part) => {
                json["part"] = part.index().into();
                part.count()
            }
            Extent::Joined(parts) => {
                if let Some(entries) = json.as_object_mut() {
                    entries.retain(|key, _| {
                        ![
                            "duplicates",
                            "dropped",
                            "known",
                            "known_lacking",
                            "retries",
                            "gave_up",
                            "left",
                            "unexplained",
                        ]
                        .contains(&key.as_str())
                    });
                }
                parts
            }
        };
        json["parts"] = parts.into();
        json
    }

    fn json(&self) -> serde_json::Value {
        let sorted = self.reasons.sorted().into_iter();
        let reasons: serde_json::Map<String, serde_json::Value> =
            sorted.map(|(reason, count)| (reason.as_str().to_owned(), count.into())).collect();
        let domains: Vec<serde_json::Value> = self
            .domains
            .sorted()
            .into_iter()
            .map(|(domain, rows)| {
                serde_json::json!({
                    "domain": domain,
                    "domain_unicode": domain_text(domain),
                    "rows": rows.rows,
                    "deliverable": rows.deliverable,
                    "unverifiable": rows.unverifiable,
                })
            })
            .collect();
        let others = self.domains.others();
        serde_json::json!({
            "version": 1,
            "input": self.reading.as_ref().map(Reading::json),
            "rows": self.total(),
            "list_rows": self.list_rows(),
            "deliverable": self.reasons.of_class(Class::Deliverable),
            "undeliverable": self.reasons.of_class(Class::Undeliverable),
            "unknown": self.reasons.of_class(Class::Unknown),
            "without_address": self.without_address,
            "empty": self.empty,
            "reasons": reasons,
            "resumed": self.resumed + self.resumed_results,
            "resumed_results": self.resumed_results,
            "duplicates": self.duplicates,
            "dropped": self.dropped,
            "known": self.known,
            "known_lacking": self.known_lacking.iter().map(|column| column.as_str()).collect::<Vec<_>>(),
            "retries": self.retries,
            "gave_up": { "rows": self.left.rows(), "longest_wait_s": self.left.wait().as_secs() },
            "left": self.left.json(self.max_wait),
            "unexplained": self.unexplained().iter().map(|(rows, _)| rows).sum::<u64>(),
            "files": self.files_json(),
            "seconds": self.elapsed.as_secs_f64(),
            "rows_per_second": self.rate(),
            "domains": domains,
            "others": {
                "rows": others.rows,
                "deliverable": others.deliverable,
                "unverifiable": others.unverifiable,
            },
        })
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total() == 0 && matches!(self.extent, Extent::Whole) {
            writeln!(f, "warning: the list has no rows")?;
        }
        if self.duplicates > 0 {
            let left_out = if self.dropped > 0 { " left out" } else { "" };
            writeln!(f, "{}{left_out}", self.of_kind(self.duplicates, "duplicate "))?;
        }
        if self.without_address > 0 {
            let rows = self.rows_text(self.without_address);
            writeln!(f, "{rows} without an address: {}", self.without_address_text())?;
            if self.without_address == self.total() {
                writeln!(f, "warning: no row has an address: name the column of addresses with --column")?;
            }
        }
        if self.known > 0 {
            let addresses = addresses(self.known);
            writeln!(f, "{addresses} not asked about, because the earlier output has the results")?;
            if self.known_undated {
                writeln!(f, "warning: {UNDATED}")?;
            }
            self.known_lacking_text().map_or(Ok(()), |text| writeln!(f, "warning: {text}"))?;
        }
        if self.known_unused > 0 {
            let results = counted(self.known_unused, "result", "results");
            writeln!(
                f,
                "{results} of the earlier output not used: too old, of a fast check, or not found out"
            )?;
        }
        if self.retries > 0 {
            let retries = counted(self.retries, "retry", "retries");
            writeln!(f, "{retries} because a server answered \"later\" or not at all")?;
        }
        self.write_unverifiable(f)
    }

    /// The unverifiable rows by their rules. The numbers of the lines add up to the number in the first one.
    fn write_unverifiable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.reasons.of(Reason::Unverifiable);
        if rows == 0 {
            return Ok(());
        }
        let are = if rows == 1 { "is" } else { "are" };
        // The parts of a joined list have no rules.
        if let (Extent::Joined(_), Some(later)) = (self.extent, &self.later) {
            writeln!(f, "{} {are} unverifiable; {}", self.rows_text(rows), again(later))?;
            let rows = self.of_kind(self.lost_closed, "unverifiable ");
            return match self.lost_closed {
                0 => Ok(()),
                _ => writeln!(f, "{rows} of parts without their files .closed: --retry checks them again"),
            };
        }
        writeln!(f, "{} {are} unverifiable:", self.rows_text(rows))?;
        // The command reads the file that the parts become.
        let joined =
            if matches!(self.extent, Extent::Part(_)) { ", once `--join` has joined the parts" } else { "" };
        if self.left.rows() > 0 {
            let how = match (&self.later, &self.estimate) {
                (Some(command), _) => format!(": `{command}`{joined}"),
                (None, Some(Estimate { seed, .. })) => {
                    format!(": the same command with --seed {seed} checks the same addresses again")
                }
                (None, None) => String::new(),
            };
            let rows = grouped(self.left.rows());
            writeln!(f, "  {rows} for now: a later try may tell more{how}")?;
            self.open_lines().iter().try_for_each(|rule| writeln!(f, "{}", line(rule)))?;
        }
        if self.settled.rows() > 0 {
            writeln!(f, "  {}: a later try alone does not help", grouped(self.settled.rows()))?;
            self.settled.lines(None).iter().try_for_each(|rule| writeln!(f, "{}", line(rule)))?;
        }
        if self.lost_closed > 0 && self.later.is_some() {
            let rows = grouped(self.lost_closed);
            writeln!(
                f,
                "  --retry checks {rows} of these again, because this output has no OUT.closed and no column rule"
            )?;
        }
        let unexplained = self.unexplained();
        unexplained.iter().try_for_each(|(rows, why)| writeln!(f, "  {} {why}", grouped(*rows)))?;
        if self.of_earlier_output > 0 {
            writeln!(f, "  {AFTER_CAUSE}")?;
        }
        match &self.later {
            Some(command) if self.of_earlier_run > self.explained => {
                writeln!(f, "  {}{joined}", again(command))
            }
            _ => Ok(()),
        }
    }

    /// The classes of the rows, whose numbers add up to all rows. Fast checks find no address deliverable.
    fn shares(&self) -> String {
        let total = self.total();
        let share = |part: u64, what: &str| format!("{} {what} ({})", grouped(part), percent(part, total));
        let mut undeliverable = share(self.reasons.of_class(Class::Undeliverable), "undeliverable");
        if self.empty > 0 {
            undeliverable += &format!(" ({} of them empty)", grouped(self.empty));
        }
        let unknown = self.reasons.of_class(Class::Unknown);
        if !self.is_fast {
            let deliverable = share(self.reasons.of_class(Class::Deliverable), "deliverable");
            return format!("{deliverable}, {undeliverable}, {}", share(unknown, "unknown"));
        }
        let (passed, rest) = (self.passed(), unknown - self.passed());
        let rest = if rest > 0 { format!(", {}", share(rest, "unverifiable")) } else { String::new() };
        format!("{}, {undeliverable}{rest}", share(passed, "passed"))
    }

    /// Number of rows in which a fast check found no fault.
    pub(super) fn passed(&self) -> u64 {
        self.reasons.of(Reason::FastCheckPassed)
    }

    fn write_domains(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total().max(1) as f64;
        let sorted = self.domains.sorted();
        // A single domain needs no comparison.
        if sorted.len() < 2 {
            return Ok(());
        }
        let unit = if self.has_several_columns() { "cells" } else { "rows" };
        writeln!(f, "domains with the most {unit}:")?;
        for (domain, counts) in sorted.into_iter().take(TOP_DOMAINS) {
            let domain = domain_text(domain);
            let percent = |part: u64, of: f64| 100.0 * part as f64 / of;
            let (share, good) =
                (percent(counts.rows, total), percent(counts.deliverable, counts.rows as f64));
            write!(f, "  {domain:<30}{:>12}{share:>8.1} %", grouped(counts.rows))?;
            // Fast checks find no address deliverable.
            let good =
                if self.is_fast { String::new() } else { format!(", {good:.1} % of them deliverable") };
            writeln!(f, "{good}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let share = |part: u64| 100.0 * part as f64 / total.max(1) as f64;
        let (seconds, rate) = (self.elapsed.as_secs_f64(), rate_text(self.rate()));
        write!(f, "{}", self.rows_text(total))?;
        if self.has_several_columns() {
            write!(f, " of {}", counted(self.list_rows(), "row", "rows"))?;
        }
        write!(f, " in {seconds:.1} s ({rate})")?;
        let resumed = self.resumed + self.resumed_results;
        if resumed > 0 {
            write!(f, ", {} of them by an earlier run", grouped(resumed))?;
        }
        if self.resumed_results > 0 {
            write!(f, " ({})", self.resumed_text().unwrap_or_default())?;
        }
        writeln!(f, "; {}", self.shares())?;
        for (reason, count) in self.reasons.sorted() {
            let reason = reason.as_str();
            writeln!(f, "  {reason:<18}{:>12}{:>8.1} %", grouped(count), share(count))?;
        }
        self.write_counts(f)?;
        self.write_domains(f)?;
        self.write_files(f)?;
        self.reading.as_ref().map_or(Ok(()), |reading| reading.fmt(f))?;
        self.estimate.as_ref().map_or(Ok(()), |estimate| estimate.fmt(f))
    }
}

pub(super) fn addresses(count: u64) -> String {
    counted(count, "address", "addresses")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(summary: &mut Summary, reason: Reason, domain: Option<&str>) {
        let number = domain.map(|domain| summary.domains.number(domain));
        summary.count(reason, number);
    }

    #[test]
    fn a_summary_is_readable() {
        let mut summary = Summary { elapsed: Duration::from_millis(2500), ..Summary::default() };
        for _ in 0..1500 {
            add(&mut summary, Reason::MailboxExists, Some("a.example"));
        }
        for _ in 0..500 {
            add(&mut summary, Reason::CatchAll, Some("a.example"));
        }
        assert_eq!(
            summary.to_string(),
            "2,000 rows in 2.5 s (800/s); 1,500 deliverable (75.0 %), 0 undeliverable (0.0 %), 500 unknown (25.0 %)\n  \
             mailbox_exists           1,500    75.0 %\n  \
             catch_all                  500    25.0 %\n"
        );
        summary.resumed = 1000;
        summary.duplicates = 1;
        summary.retries = 2;
        add(&mut summary, Reason::MailboxExists, Some("b.example"));
        let said = summary.to_string();
        assert!(said.starts_with("2,001 rows in 2.5 s (400/s), 1,000 of them by an earlier run; "), "{said}");
        assert!(said.contains("\n1 duplicate row\n"), "{said}");
        assert!(said.contains("\n2 retries because a server answered \"later\" or not at all\n"), "{said}");
        assert!(
            said.contains("a.example                            2,000   100.0 %, 75.0 % of them"),
            "{said}"
        );
        assert_eq!(
            Summary::default().to_string(),
            "0 rows in 0.0 s (0/s); 0 deliverable (0.0 %), 0 undeliverable (0.0 %), 0 unknown (0.0 %)\n\
             warning: the list has no rows\n"
        );
    }

    #[test]
    fn the_explanations_of_unverifiable_rows_add_up() {
        let mut summary = Summary { later: Some("COMMAND".to_owned()), ..Summary::default() };
        for _ in 0..21 {
            add(&mut summary, Reason::Unverifiable, Some("a.example"));
        }
        let kept = "\n21 rows are unverifiable:\n  20 with the result of an earlier run\n  1 with the address of an earlier row, and";
        summary.of_earlier_run = 20;
        assert!(summary.to_string().contains(kept), "as after --resume: {summary}");
        let joined = Summary { extent: Extent::Joined(2), ..summary.clone() };
        assert!(!joined.to_string().contains("unverifiable:"), "the parts do not tell the rules");
        for _ in 0..14 {
            summary.left.add("greylisted", Duration::from_secs(60));
        }
        for _ in 0..5 {
            summary.settled.add("blocklist", Duration::ZERO);
        }
        let said = summary.to_string();
        for line in [
            "\n21 rows are unverifiable:\n  14 for now: a later try may tell more: `COMMAND`\n    greylisted  ",
            "\n  5: a later try alone does not help\n    blocklist ",
            "\n  2 with the result of an earlier run\n  `COMMAND` checks those of them again",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        let part = Summary { extent: Extent::Part(ListPart::new(1, 2).unwrap()), ..summary };
        assert!(part.to_string().contains(": `COMMAND`, once `--join` has joined the parts\n"), "{part}");
    }

    #[test]
    fn fast_checks_find_nothing_deliverable() {
        let mut summary = Summary { elapsed: Duration::from_secs(1), is_fast: true, ..Summary::default() };
        for (reason, domain) in [
            (Reason::FastCheckPassed, "a.example"),
            (Reason::FastCheckPassed, "a.example"),
            (Reason::PossibleTypo, "b.example"),
            (Reason::Unverifiable, "a.example"),
        ] {
            add(&mut summary, reason, Some(domain));
        }
        let said = summary.to_string();
        assert!(
            said.starts_with("4 rows in 1.0 s (4/s); 2 passed (50.0 %), 1 undeliverable (25.0 %), 1 unverifiable (25.0 %)\n"),
            "{said}"
        );
        assert!(said.contains(" 3    75.0 %\n"), "{said}");
        assert!(!said.contains(" deliverable"), "{said}");
    }

    #[test]
    fn scripts_get_all_of_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("summary.json");
        let mut summary = Summary { duplicates: 3, elapsed: Duration::from_secs(2), ..Summary::default() };
        add(&mut summary, Reason::MailboxExists, Some("a.example"));
        add(&mut summary, Reason::Unverifiable, Some("a.example"));
        add(&mut summary, Reason::InvalidSyntax, None);
        summary.write(&path).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(json["rows"], 3);
        assert_eq!(json["reasons"]["unverifiable"], 1);
        assert_eq!(json["rows_per_second"], 1.5);
        assert_eq!(json["domains"][0]["domain"], "a.example");
        assert_eq!(json["domains"][0]["rows"], 2);
        assert_eq!(json["others"]["rows"], 0);
        assert_eq!((&json["gave_up"]["rows"], &json["left"]), (&0.into(), &serde_json::json!([])));
        assert!(summary.write(&folder.path().join("no/such")).is_err());
    }
}
