//! The rows under way, in the order of the input.

use super::Verdict;
use super::source::{Record, Row};
use engine::proto::address::Address;
use std::collections::VecDeque;

/// Most rows that are held at once: while the first waits for a slow server, so many can be done behind it.
pub(super) const ROWS_MAX: usize = 50_000;
/// Most octets that they may take together, which counts for lists with long rows.
pub(super) const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The rows between the reader and the writer. Their tickets are their numbers.
#[derive(Default)]
pub(super) struct Window {
    rows: VecDeque<Entry>,
    /// The number of the first row.
    first: u64,
    bytes: usize,
}

/// A row that is ready to be written.
pub(super) struct Done {
    pub record: Record,
    pub verdict: Verdict,
    pub end: u64,
}

struct Entry {
    row: Row,
    state: State,
    /// How often its address was asked about again.
    retries: u32,
}

#[derive(Clone, Copy)]
enum State {
    /// The engine has it, or is to get it.
    Asked,
    /// It is asked again later; this is what is said about it if that comes to nothing.
    Postponed(Verdict),
    Settled(Verdict),
}

impl Window {
    /// Whether another row may come in.
    pub fn has_room(&self) -> bool {
        self.rows.len() < ROWS_MAX && self.bytes < BYTES_MAX
    }

    /// Takes a row behind all others and gives it its ticket. A row without an address is settled.
    pub fn push(&mut self, row: Row) -> u64 {
        let state =
            if row.address.is_some() { State::Asked } else { State::Settled(Verdict::INVALID_SYNTAX) };
        self.bytes += row.record.bytes();
        self.rows.push_back(Entry { row, state, retries: 0 });
        self.first + self.rows.len() as u64 - 1
    }

    /// The address of a row that is not settled.
    pub fn address(&self, ticket: u64) -> Option<&Address> {
        let entry = self.rows.get(self.index(ticket)?)?;
        if matches!(entry.state, State::Settled(_)) { None } else { entry.row.address.as_ref() }
    }

    /// Notes a row's verdict. What is settled stays as it is.
    pub fn settle(&mut self, ticket: u64, verdict: Verdict) {
        if let Some(entry) = self.entry(ticket) {
            entry.state = State::Settled(verdict);
        }
    }

    /// Notes that a row is asked again later and what is said about it otherwise; returns how often it was postponed
    /// before, `None` when it is not under way.
    pub fn postpone(&mut self, ticket: u64, verdict: Verdict) -> Option<u32> {
        let entry = self.entry(ticket)?;
        entry.state = State::Postponed(verdict);
        entry.retries += 1;
        Some(entry.retries - 1)
    }

    /// The row is being asked again.
    pub fn resume(&mut self, ticket: u64) {
        if let Some(entry) = self.entry(ticket) {
            entry.state = State::Asked;
        }
    }

    /// The first row waits no longer for its second try: settles it with what is known.
    pub fn hurry(&mut self) {
        if let Some(Entry { state, .. }) = self.rows.front_mut()
            && let State::Postponed(verdict) = *state
        {
            *state = State::Settled(verdict);
        }
    }

    /// The first row, once it is settled.
    pub fn pop(&mut self) -> Option<Done> {
        let State::Settled(verdict) = self.rows.front()?.state else { return None };
        let Row { record, end, .. } = self.rows.pop_front()?.row;
        self.first += 1;
        self.bytes -= record.bytes();
        Some(Done { record, verdict, end })
    }

    /// How many rows are under way.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn index(&self, ticket: u64) -> Option<usize> {
        usize::try_from(ticket.checked_sub(self.first)?).ok()
    }

    /// A row that is not settled.
    fn entry(&mut self, ticket: u64) -> Option<&mut Entry> {
        let at = self.index(ticket)?;
        self.rows.get_mut(at).filter(|entry| !matches!(entry.state, State::Settled(_)))
    }
}
