//! `--known`: the results of an earlier output, which are used again while they are new enough.
//!
//! They are in a table in `OUT.state`, as the addresses of the list: memory does not depend on their number.

use super::CleanError;
use super::outcome::{Outcome, Outcomes};
use super::retry::{FAST_REASONS, doubt, is_found_out, of_others};
use super::seen::Seen;
use api::Reason;
use lists::{EarlierResult, ListError, ReadOptions, ResultColumn, Row, Source, reasons};
use spill::State;
use spill::table::Table;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const DAY: u64 = 24 * 60 * 60;
/// How long a result is used again, as the API keeps results.
const KEPT_DAYS: u64 = 7;
/// The same for results that change soon.
const KEPT_DAYS_SHORT: u64 = 1;

/// How results of an earlier output are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownOptions {
    /// The greatest age in days; `None`: by reason.
    pub days: Option<u32>,
    /// The run makes fast checks, so results of fast checks are enough.
    pub is_fast: bool,
    /// Seconds since 1970.
    pub now: u64,
}

impl KnownOptions {
    /// Options for a run that begins now.
    pub fn new(days: Option<u32>, is_fast: bool) -> KnownOptions {
        KnownOptions { days, is_fast, now: store::clock::now() / 1000 }
    }

    /// Whether a result of this time is used, if its check has found something out.
    fn is_new(self, reason: Reason, checked_at: u64) -> bool {
        let is_fast = FAST_REASONS.contains(&reason);
        let days = match (self.days, reason) {
            (Some(days), _) => u64::from(days),
            (None, Reason::CatchAll | Reason::Unverifiable | Reason::InboxFull) => KEPT_DAYS_SHORT,
            (None, _) => KEPT_DAYS,
        };
        (self.is_fast || !is_fast) && self.now.saturating_sub(checked_at) < days * DAY
    }
}

/// An earlier output.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownFile<'a> {
    pub path: &'a Path,
    /// The columns of addresses of the list. Those that the earlier output has are read there too: at least the first one.
    pub column: &'a [String],
    pub options: KnownOptions,
}

/// The results of an earlier output by the hashes of their addresses.
pub(super) struct KnownResults {
    table: Table,
    /// Whether some of them have no time of their own.
    pub is_undated: bool,
    /// The further columns of results that the run writes, and that the earlier output does not have.
    pub lacking: Vec<ResultColumn>,
    /// Results that are not used: too old, of fast checks, or of checks that found nothing out.
    pub unused: u64,
}

impl KnownResults {
    /// Reads an earlier output.
    ///
    /// # Errors
    /// It cannot be read, or is no output of mailprobe.
    pub fn read(
        file: KnownFile<'_>,
        wanted: &[ResultColumn],
        state: &mut State,
        seen: &mut Seen,
        outcomes: &mut Outcomes,
    ) -> Result<KnownResults, CleanError> {
        let KnownFile { path, column, options } = file;
        let written_at =
            std::fs::metadata(path).ok().and_then(|metadata| u64::try_from(metadata.mtime()).ok());
        // A time in the future comes from a wrong clock.
        let is_past = |at: &u64| *at <= options.now;
        let written_at = written_at.filter(is_past).unwrap_or(options.now);
        let shares = state.shares;
        let open = |columns| Source::open(path, &ReadOptions { columns, ..ReadOptions::default() });
        let mut source = match open(column) {
            Err(ListError::Column(_) | ListError::NoHeader(_) | ListError::Key(_)) => {
                open(column.get(..1).unwrap_or_default())
            }
            opened => opened,
        }
        .map_err(CleanError::unopened)?;
        let (table, mut has_used) = (Table::new(shares), false);
        let mut known = KnownResults { table, is_undated: false, lacking: Vec::new(), unused: 0 };
        let (mut row, mut rows, mut results) = (Row::default(), 0_u64, 0_u64);
        while source.next(&mut row)? {
            rows += 1;
            let Some(earlier) = source.earlier_result() else { continue };
            // A row without an address is not asked about either.
            (results, known.unused) = (results + 1, known.unused + u64::from(row.address.is_some()));
            if !is_found_out(&earlier) {
                continue;
            }
            let EarlierResult { reason, results: mut written } = earlier;
            let known_at = written.checked_at.filter(is_past);
            let checked_at = known_at.unwrap_or(written_at);
            written.checked_at = Some(checked_at);
            let Some(address) = row.address.as_ref().filter(|_| options.is_new(reason, checked_at)) else {
                continue;
            };
            if !std::mem::replace(&mut has_used, true) {
                let earlier = source.earlier_columns();
                // Fast checks have no other values that OLD could lack.
                let is_filled = |column| column == ResultColumn::Provider || !options.is_fast;
                let lacks = |column: &&ResultColumn| {
                    column.is_of_check() && is_filled(**column) && !earlier.contains(column)
                };
                known.lacking = wanted.iter().filter(lacks).copied().collect();
            }
            known.is_undated |= known_at.is_none();
            let outcome = outcomes.written(reasons::code(reason), &written);
            let key = seen.key(address);
            known.table.put(state, key, outcome.bits())?;
            known.unused -= 1;
        }
        let of_others = of_others(source.shape(), "--known does not use them");
        if rows > 0 && results == 0 && of_others.is_none() {
            return Err(CleanError::usage(format!(
                "{} has no results of mailprobe (the columns deliverable and reason): name an earlier output with a header \
                 with --known",
                path.display()
            )));
        }
        let unread = source.unread_sheets().map(|(said, _)| format!("{}: {said}", path.display()));
        for warning in of_others.into_iter().chain(doubt(path, source.shape())).chain(unread) {
            tracing::warn!("{warning}");
        }
        Ok(known)
    }

    /// The result of an address by its hash.
    ///
    /// # Errors
    /// The state fails.
    pub fn get(&self, state: &mut State, key: u128) -> Result<Option<Outcome>, CleanError> {
        Ok(self.table.get(state, key)?.map(Outcome::from_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_used_while_they_are_new() {
        let now = 1_795_619_459;
        for (reason, days, hours, full, fast) in [
            (Reason::MailboxExists, None, 7 * 24 - 1, true, true),
            (Reason::MailboxExists, None, 7 * 24, false, false),
            (Reason::CatchAll, None, 23, true, true),
            (Reason::CatchAll, None, 24, false, false),
            (Reason::InboxFull, None, 30, false, false),
            (Reason::Unverifiable, Some(3), 71, true, true),
            (Reason::MailboxExists, Some(3), 72, false, false),
            (Reason::MailboxExists, Some(0), 0, false, false),
            (Reason::FastCheckPassed, None, 1, false, true),
            (Reason::PossibleTypo, None, 1, false, true),
        ] {
            for (is_fast, expected) in [(false, full), (true, fast)] {
                let options = KnownOptions { days, is_fast, now };
                assert_eq!(options.is_new(reason, now - hours * 3600), expected, "{reason:?} {hours}");
            }
        }
    }
}
