//! Proof by outcome: what the operator's own mail did after the verdicts of an earlier output.
//!
//! [`Scorer`] reads verdicts, lists of those that were mailed, and events. Each row becomes a record of 26 bytes with a keyed hash of
//! the address. The records are in encrypted spools by a part of the hash, so memory does not grow with the number of rows. At the
//! end, `outcome.rs` decides about one address after the other, and [`Score`] has the counts of groups.

mod outcome;
mod shown;
#[cfg(test)]
mod tests;

use crate::evidence::GIVE_UP_SECONDS;
use crate::export::time;
use crate::meaning::Cause;
use crate::reading::{Event, EventKind, LearnError, Tally, read_any_age};
use api::Reason;
use engine_proto::address::Address;
use engine_proto::dns::mx::inbox_providers;
use lists::{ListError, Row, Source, VERDICT_NAMES, reasons};
use outcome::{Fate, Judged, Kind, Record, judge};
use spill::keyed::Keyed;
use spill::spool::Spool;
use spill::{SpillError, State};
use std::collections::BTreeMap;
use std::io::Read;

/// Memory for records, in bytes. Further records are in a temporary file.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Number of spools. One of them after the other is sorted in memory: of 20 million rows, each has 80,000.
const PARTS: usize = 256;
/// Most records that are sorted in memory. Only thousands of millions of rows, or millions of one address, are more.
const PART_RECORDS_MAX: usize = 4_000_000;
/// With fewer outcomes, a group is marked as small.
pub const FEW_OUTCOMES: u64 = 30;
/// The number of a provider that is not known.
const UNKNOWN_PROVIDER: u32 = u32::MAX;

/// How verdicts are scored. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct ScoreOptions {
    /// The present time.
    pub now: u64,
    /// How long after its verdict an event counts, in days.
    pub window_days: u32,
    /// The time of verdicts without a time of their own; `None`: the last change of their file.
    pub checked_at: Option<u64>,
}

/// The reason why verdicts are not scored, as one line without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScoreError {
    /// A list of verdicts, or of those that were mailed, cannot be read.
    List(ListError),
    /// A file with events cannot be read.
    Events(LearnError),
    /// Another failure.
    Failed(String),
}

impl From<ListError> for ScoreError {
    fn from(error: ListError) -> ScoreError {
        ScoreError::List(error)
    }
}

impl From<LearnError> for ScoreError {
    fn from(error: LearnError) -> ScoreError {
        ScoreError::Events(error)
    }
}

impl From<SpillError> for ScoreError {
    fn from(error: SpillError) -> ScoreError {
        ScoreError::Failed(error.message)
    }
}

/// Reads a time that a user gives: a date, or a date with a time of day, in UTC unless it names another zone. `None`: it is no time,
/// or does not show which number is the day.
pub fn time_of(text: &str) -> Option<u64> {
    time::read(text)?.certain_time()
}

/// Counts of a group of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    bounced: u64,
    /// Delivered, or without a bounce.
    others: u64,
    /// Failed for a reason that shows nothing about the mailbox.
    failed: u64,
}

/// A group of addresses, by their verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    All,
    Deliverable(Option<bool>),
    Reason(Reason),
    Provider(Option<&'static str>),
    Both(Reason, &'static str),
}

/// What is in no group, and what was assumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rest {
    /// Failures that show nothing about the mailbox, by their cause.
    failed: BTreeMap<Cause, u64>,
    no_verdict: u64,
    not_mailed: u64,
    outside: u64,
    not_sent: u64,
    failed_only: u64,
    rows_without_address: u64,
    rows_without_verdict: u64,
    undated_events: u64,
    /// Addresses in a list of those that were mailed, without an event.
    silent: u64,
    /// Deliveries of the last five days.
    young: u64,
    /// Verdicts without a time of their own, by the time that was assumed and its origin.
    undated_verdicts: BTreeMap<(u64, String), u64>,
    has_provider: bool,
    /// What to say about verdicts that may be of another column.
    doubts: Vec<String>,
}

/// The outcomes of verdicts.
#[derive(Debug, Clone)]
pub struct Score {
    groups: BTreeMap<Group, Counts>,
    rest: Rest,
    /// Seconds since 1970.
    now: u64,
    window_days: u32,
}

/// Reads verdicts and events, and joins them.
pub struct Scorer {
    options: ScoreOptions,
    state: State,
    keyed: Keyed,
    parts: Vec<Spool>,
    providers: Vec<&'static str>,
    /// For each file with events, whether it is an export with deliveries.
    complete: Vec<bool>,
    is_listed: bool,
    failures: u64,
    rest: Rest,
}

impl Scorer {
    /// A scorer without any row. It creates a temporary file without a name.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(options: ScoreOptions) -> Result<Scorer, ScoreError> {
        let mut providers: Vec<&str> = inbox_providers().collect();
        providers.sort_unstable();
        providers.dedup();
        Ok(Scorer {
            options,
            state: State::open(None, MEMORY_BYTES_MAX)?,
            keyed: Keyed::new()?,
            parts: std::iter::repeat_with(Spool::default).take(PARTS).collect(),
            providers,
            complete: Vec::new(),
            is_listed: false,
            failures: 0,
            rest: Rest::default(),
        })
    }

    fn add(&mut self, address: &Address, at: u64, kind: Kind, origin: u32) -> Result<(), ScoreError> {
        let key = self.keyed.hash(address.canonical().as_bytes());
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let record = Record { key, at, kind, origin }.to_bytes();
        Ok(self.parts[key as usize % PARTS].push(&mut self.state, [&record, &[]])?)
    }

    /// Reads an output of `clean`, or the download of a list. `changed_at` is the last change of the file in seconds since 1970.
    ///
    /// # Errors
    /// It cannot be read, has no verdicts, or has verdicts without any time.
    pub fn add_verdicts(
        &mut self,
        source: &mut Source,
        name: &str,
        changed_at: Option<u64>,
    ) -> Result<(), ScoreError> {
        let now = self.options.now;
        let assumed = match (self.options.checked_at, changed_at) {
            (Some(at), _) => Some((at, "--checked-at".to_owned())),
            (None, Some(at)) => Some((at.min(now), format!("the last change of {name}"))),
            (None, None) => None,
        };
        if let (Some(own), Some(other)) = (source.shape().chosen.first(), source.shape().doubtful_column()) {
            self.rest.doubts.push(format!(
                "{name} does not say of which column its verdicts are: they count for `{own}`; if they are of `{other}`, give it with \
                 --column"
            ));
        }
        let (mut row, mut verdicts) = (Row::default(), 0_u64);
        while source.next(&mut row)? {
            let Some(earlier) = source.earlier_result() else {
                self.rest.rows_without_verdict += 1;
                continue;
            };
            verdicts += 1;
            let Some(address) = &row.address else {
                self.rest.rows_without_address += 1;
                continue;
            };
            let own = earlier.results.checked_at.filter(|at| *at <= now);
            let at = match (own, &assumed) {
                (Some(at), _) => at,
                (None, Some(known)) => {
                    *self.rest.undated_verdicts.entry(known.clone()).or_default() += 1;
                    known.0
                }
                (None, None) => {
                    return Err(ScoreError::Failed(format!(
                        "{name} has verdicts without a time: give the time of the check, such as --checked-at 2026-11-01"
                    )));
                }
            };
            let provider = self.providers.binary_search(&earlier.results.provider.as_str());
            let provider = provider.map_or(UNKNOWN_PROVIDER, |number| number as u32);
            self.rest.has_provider |= provider != UNKNOWN_PROVIDER;
            self.add(address, at, Kind::Verdict(reasons::code(earlier.reason)), provider)?;
        }
        if verdicts == 0 { Err(ScoreError::Failed(no_verdict(source, name))) } else { Ok(()) }
    }

    /// Reads a list of the addresses that were mailed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn add_mailed(&mut self, source: &mut Source) -> Result<(), ScoreError> {
        self.is_listed = true;
        let mut row = Row::default();
        while source.next(&mut row)? {
            if let Some(address) = &row.address {
                self.add(address, u64::MAX, Kind::Listed, 0)?;
            }
        }
        Ok(())
    }

    /// Reads a file with bounces or deliveries, as [`read()`](crate::read()) does, with events of any age.
    ///
    /// # Errors
    /// It cannot be read, or has no event.
    pub fn add_events(&mut self, input: Box<dyn Read>) -> Result<Tally, ScoreError> {
        let (file, now, mut failed) = (self.complete.len() as u32, self.options.now, Ok(()));
        let mut on_event = |Event { address, kind, at }: Event| {
            let kind = match kind {
                EventKind::Bounced(_) => Kind::Bounced,
                EventKind::Failed(cause) => Kind::Failed(cause),
                EventKind::Delivered => Kind::Delivered,
            };
            if failed.is_ok() {
                failed = self.add(&address, at, kind, file);
            }
        };
        let tally = read_any_age(input, now, &mut on_event)?;
        failed?;
        // Hardly any mail asks for a report of its delivery, so a mailbox with some of them does not show what was mailed.
        self.complete.push(tally.delivered > 0 && tally.rows > 0);
        self.failures += tally.definite.values().chain(tally.failed.values()).sum::<u64>();
        self.rest.undated_events += tally.undated;
        Ok(tally)
    }

    /// Joins the verdicts with the events.
    ///
    /// # Errors
    /// There are bounces without deliveries, or no address was mailed after its verdict, or the temporary file fails.
    pub fn finish(mut self) -> Result<Score, ScoreError> {
        if !self.is_listed && !self.complete.contains(&true) {
            return Err(ScoreError::Failed(format!(
                "the files have {}, and none is an export with deliveries, so they do not show how many addresses were mailed: add \
                 such an export of your provider, or name the list that was mailed with --mailed FILE",
                lists::numbers::counted(self.failures, "failure", "failures")
            )));
        }
        let ScoreOptions { now, window_days, .. } = self.options;
        let window = window_days.saturating_mul(24 * 3600);
        let mut score = Score { groups: BTreeMap::new(), rest: self.rest, now, window_days };
        let is_complete = |file: u32| self.complete.get(file as usize).is_some_and(|complete| *complete);
        let mut bytes = Vec::new();
        for mut part in self.parts {
            let mut records = Vec::new();
            while part.pop(&mut self.state, &mut bytes)? {
                records.extend(Record::from_bytes(&bytes));
                if records.len() > PART_RECORDS_MAX {
                    return Err(ScoreError::Failed(
                        "there are too many rows, or too many of one address: score fewer files at once"
                            .to_owned(),
                    ));
                }
            }
            records.sort_unstable();
            for of_address in records.chunk_by(|a, b| a.key == b.key) {
                score.count(judge(of_address, window, &is_complete), &self.providers);
            }
        }
        let all = score.groups.get(&Group::All).copied().unwrap_or_default();
        if all.bounced + all.others == 0 { Err(ScoreError::Failed(score.nothing())) } else { Ok(score) }
    }
}

impl Score {
    fn count(&mut self, judged: Judged, providers: &[&'static str]) {
        let rest = &mut self.rest;
        let (reason, provider, fate) = match judged {
            Judged::Scored { reason, provider, fate } => (reason, provider, fate),
            Judged::NoVerdict => return rest.no_verdict += 1,
            Judged::NotMailed => return rest.not_mailed += 1,
            Judged::Outside => return rest.outside += 1,
            Judged::NotSent => return rest.not_sent += 1,
            Judged::FailedOnly => return rest.failed_only += 1,
            Judged::Nothing => return,
        };
        let Some(reason) = reasons::of_code(reason) else { return };
        let (bounced, failed) = (fate == Fate::Bounced, matches!(fate, Fate::Failed(_)));
        match fate {
            Fate::Silent => rest.silent += 1,
            Fate::Delivered(at) => {
                rest.young += u64::from(self.now.saturating_sub(at.into()) < GIVE_UP_SECONDS);
            }
            Fate::Failed(cause) => *rest.failed.entry(cause).or_default() += 1,
            Fate::Bounced => {}
        }
        let provider = providers.get(provider as usize).copied();
        let both = provider.map(|provider| Group::Both(reason, provider));
        let deliverable = Group::Deliverable(reason.deliverable());
        let groups = [Group::All, deliverable, Group::Reason(reason), Group::Provider(provider)];
        for group in groups.into_iter().chain(both) {
            let counts = self.groups.entry(group).or_default();
            counts.bounced += u64::from(bounced);
            counts.failed += u64::from(failed);
            counts.others += u64::from(!bounced && !failed);
        }
    }
}

/// What to say about a list without any verdict.
fn no_verdict(source: &Source, name: &str) -> String {
    if let Some(column) = source.shape().column_of_verdict() {
        return format!("the verdicts of {name} are of another column: give it with --column `{column}`");
    }
    let columns = 0..source.shape().input_width().unwrap_or_default();
    let names: Vec<String> = columns.filter_map(|column| source.shape().column_name(column)).collect();
    let is_missing = |wanted: &&str| !names.iter().any(|name| name.ends_with(*wanted));
    let missing: Vec<&str> = VERDICT_NAMES.into_iter().filter(is_missing).collect();
    let why = match &missing[..] {
        [] => "its columns deliverable and reason have no value that mailprobe writes".to_owned(),
        [one] => format!("it has no column {one}"),
        _ => format!("it has no columns {}", missing.join(" and ")),
    };
    format!(
        "{name} is no output of `mailprobe clean` and no download of a list: {why}; name such a file with --score"
    )
}
