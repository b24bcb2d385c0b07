//! The ledger of credits: holds, grants and entries.

use crate::UnixMs;
use crate::credits::calendar::DAY_MS;
use crate::id::{AccountId, BatchId, EntryId, ListId, NotAnId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most credits in one grant or one plan: so few that no sum over an account's life overflows.
pub const CREDITS_MAX: u64 = 1 << 40;

/// The most credits in one hold: far more than the largest batch costs.
pub const HOLD_CREDITS_MAX: u64 = 1_000_000;

/// A request to hold credits until `Store::settle` or `Store::void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldRequest {
    /// The account and the id of the hold.
    pub hold: HoldRef,
    /// The amount: 1 to [`HOLD_CREDITS_MAX`].
    pub credits: u64,
}

/// The identity of a hold: its account, and the id that the caller created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldRef {
    /// The account of the credits.
    pub account: AccountId,
    /// The id of the hold.
    pub id: EntryId,
}

/// A grant of pack credits to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The id, which the caller creates: a second grant with the id has no effect.
    pub id: EntryId,
    /// The account that gets them.
    pub account: AccountId,
    /// The amount: 1 to [`CREDITS_MAX`].
    pub credits: u64,
    /// A note for the ledger. At most [`TEXT_CHARS_MAX`](crate::TEXT_CHARS_MAX) characters.
    pub note: String,
}

/// The kinds of ledger entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A period began: the remaining plan credits of the last period expired, and those of the plan were granted.
    Period,
    /// The plan changed within the period, or a paused or canceled subscription was resumed.
    PlanChange,
    /// Pack credits were granted.
    Pack,
    /// A hold was settled: its credits are spent.
    Settled,
    /// A hold was voided: its credits were returned, or expired with their period.
    Voided,
    /// The sum of entries that are too old to keep.
    Carried,
}

/// One entry of the ledger: its changes of the account's sums.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The id of the entry; for a hold or a grant, the one that the caller created.
    pub id: EntryId,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The time at which it was written.
    pub at: UnixMs,
    /// Credits that it granted.
    pub granted: u64,
    /// Credits that it spent.
    pub spent: u64,
    /// Credits that expired by it.
    pub expired: u64,
    /// The note of a grant, or the text of [`ChargedFor`]; otherwise empty.
    pub note: String,
}

impl Entry {
    /// What it charged or returned credits for; `None` for a single check, a grant and a period, and for a batch that ended in an
    /// earlier version.
    pub fn charged_for(&self) -> Option<ChargedFor> {
        match self.kind {
            EntryKind::Settled | EntryKind::Voided => self.note.parse().ok(),
            EntryKind::Period | EntryKind::PlanChange | EntryKind::Pack | EntryKind::Carried => None,
        }
    }
}

/// What an entry of the ledger is for. Its text, `batch ID` or `list ID`, is the note of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargedFor {
    /// A whole batch.
    Batch(BatchId),
    /// A batch of this list. A list has an entry for each of its batches.
    List(ListId),
}

impl fmt::Display for ChargedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChargedFor::Batch(id) => write!(f, "batch {id}"),
            ChargedFor::List(id) => write!(f, "list {id}"),
        }
    }
}

impl FromStr for ChargedFor {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<ChargedFor, NotAnId> {
        match text.strip_prefix("list ") {
            Some(id) => id.parse().map(ChargedFor::List),
            None => text.strip_prefix("batch ").unwrap_or_default().parse().map(ChargedFor::Batch),
        }
    }
}

/// How many of an account's newest entries are read for [`ledger_lines`]: a large list has one for each of its batches.
pub const LEDGER_ENTRIES_READ: usize = 1_000;

/// Entries of one kind that follow one another: those of a list or of single checks on one day, otherwise one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The newest entry, with the sums of all.
    #[serde(flatten)]
    pub sum: Entry,
    /// The number of entries. A running server of the previous release sends single ones.
    #[serde(default = "single")]
    pub entries: u64,
}

fn single() -> u64 {
    1
}

impl LedgerLine {
    /// Whether it is about single checks. Otherwise an entry without a note may be a batch or list of an earlier version.
    pub fn is_single_checks(&self) -> bool {
        matches!(self.sum.kind, EntryKind::Settled | EntryKind::Voided)
            && self.sum.charged_for().is_none()
            && self.sum.spent <= self.entries
    }

    fn includes(&self, older: &LedgerLine) -> bool {
        let (sum, entry) = (&self.sum, &older.sum);
        let is_one_purpose = match (sum.charged_for(), entry.charged_for()) {
            (None, None) => self.is_single_checks() && older.is_single_checks(),
            (one, other) => matches!(one, Some(ChargedFor::List(_))) && one == other,
        };
        is_one_purpose && sum.kind == entry.kind && sum.at / DAY_MS == entry.at / DAY_MS
    }
}

/// The lines of these entries, newest first. Entries that changed no sum are left out.
pub fn ledger_lines(mut entries: Vec<Entry>) -> Vec<LedgerLine> {
    entries.retain(|entry| (entry.granted, entry.spent, entry.expired) != (0, 0, 0));
    // They are in the order of their ids. The ids of a list's batches have the time of its upload.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
    let mut lines: Vec<LedgerLine> = Vec::new();
    for line in entries.into_iter().map(|sum| LedgerLine { sum, entries: 1 }) {
        match lines.last_mut().filter(|last| last.includes(&line)) {
            Some(last) => {
                last.entries += 1;
                last.sum.granted += line.sum.granted;
                last.sum.spent += line.sum.spent;
                last.sum.expired += line.sum.expired;
            }
            None => lines.push(line),
        }
    }
    lines
}

/// The result of `Store::audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The number of audited accounts.
    pub accounts: u64,
    /// The number of ledger entries that were added up.
    pub entries: u64,
    /// The number of holds without an answer.
    pub open_holds: u64,
    /// One line for each account with inconsistent sums. Empty if there is no fault.
    pub faults: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_batch_or_a_list_only_in_entries_of_charges() {
        let (batch, list) = (BatchId::new(7, 1), ListId::new(7, 2));
        for charge in [ChargedFor::Batch(batch), ChargedFor::List(list)] {
            assert_eq!(charge.to_string().parse(), Ok(charge));
        }
        for other in ["", "batch", "list ", &format!("list {batch}"), &format!("batch {list}"), "bonus"] {
            assert!(other.parse::<ChargedFor>().is_err(), "{other}");
        }
        let note = ChargedFor::Batch(batch).to_string();
        let id = EntryId::new(7, 3);
        let entry = |kind| Entry { id, kind, at: 7, granted: 0, spent: 1, expired: 0, note: note.clone() };
        assert_eq!(entry(EntryKind::Voided).charged_for(), Some(ChargedFor::Batch(batch)));
        assert_eq!(entry(EntryKind::Pack).charged_for(), None, "an operator wrote it");
        // A server of the previous release sends entries.
        let sent = serde_json::to_value(entry(EntryKind::Pack)).unwrap();
        let line: LedgerLine = serde_json::from_value(sent).unwrap();
        assert_eq!((line.sum.spent, line.entries), (1, 1));
    }
}
