//! The rows that wait to be written.
//!
//! In the order of the input, a row waits for all rows before it, so a duplicate has its verdict by then. Without order, a row
//! is written as soon as it has its verdict, and only duplicates of an address in progress wait here. They are examined when
//! the number of new verdicts reaches the number of waiting rows. So each verdict costs one examination on average.

use super::CleanError;
use super::outcome::Outcome;
use super::seen::Seen;
use spill::State;
use spill::spool::Spool;
use std::collections::HashMap;

/// The rows that wait to be written.
pub(super) struct Rows {
    ordered: bool,
    queue: Spool,
    /// The first row, taken from the queue.
    head: Vec<u8>,
    has_head: bool,
    /// Number of verdicts since the last examination.
    settled: u64,
    /// Number of rows that the current examination has left.
    looking: u64,
    /// The last row that was taken in order, if it is the first with its address; else the last such row before it.
    taken: Option<u64>,
    /// Number of rows with the address of an earlier row without a verdict, by that row.
    repeats: HashMap<u64, u64>,
}

/// A waiting row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// The first row with its address.
    pub first: u64,
    /// The number of its domain in the summary.
    pub domain: u32,
    /// Its result; the code is 0 while it is not known.
    pub outcome: Outcome,
    /// Whether the row is the first one with its address, and waited for the result of the address.
    pub is_answered: bool,
}

impl Waiting {
    /// A row whose first row with this address is `first`.
    pub fn new(first: u64, domain: u32, outcome: Outcome) -> Waiting {
        Waiting { first, domain, outcome, is_answered: false }
    }
}

const HEADER: usize = 8 + 4 + 8;
/// Most rows without a verdict of which the repeats are counted.
const REPEATED_MAX: usize = 100_000;

impl Rows {
    /// No waiting rows; `ordered` keeps the order of the input.
    pub fn new(ordered: bool) -> Rows {
        Rows {
            ordered,
            queue: Spool::default(),
            head: Vec::new(),
            has_head: false,
            settled: 0,
            looking: 0,
            taken: None,
            repeats: HashMap::new(),
        }
    }

    /// Number of waiting rows.
    pub fn len(&self) -> u64 {
        self.queue.len() + u64::from(self.has_head)
    }

    /// The last row that [`Rows::next`] has returned among those that are the first with their address: all such rows up to it were
    /// returned, if rows keep their order.
    pub fn taken(&self) -> Option<u64> {
        self.taken
    }

    /// Whether rows are written in the order of the input.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Adds a row at the end; `prefix` is the output row up to its verdict.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn push(&mut self, state: &mut State, row: Waiting, prefix: &[u8]) -> Result<(), CleanError> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&row.first.to_le_bytes());
        header[8..12].copy_from_slice(&row.domain.to_le_bytes());
        header[12..].copy_from_slice(&row.outcome.bits().to_le_bytes());
        Ok(self.queue.push(state, [&header, prefix])?)
    }

    /// Counts a row with the address of this earlier row, which has no verdict yet. Above [`REPEATED_MAX`] none is counted.
    pub fn repeat(&mut self, first: u64) {
        if self.repeats.len() < REPEATED_MAX {
            *self.repeats.entry(first).or_default() += 1;
        }
    }

    /// Number of rows with the address of an earlier row that has no verdict yet.
    pub fn open_repeats(&self) -> u64 {
        self.repeats.values().sum()
    }

    /// Counts a new verdict, which this row got.
    pub fn settled(&mut self, first: u64) {
        self.settled += 1;
        self.repeats.remove(&first);
    }

    /// The next row that can be written, with its verdict. `idle`: no other row is in progress.
    ///
    /// # Errors
    /// The state fails.
    pub fn next(
        &mut self,
        state: &mut State,
        seen: &mut Seen,
        idle: bool,
    ) -> Result<Option<(Waiting, &[u8])>, CleanError> {
        let ready = if self.ordered { self.front(state, seen)? } else { self.look(state, seen, idle)? };
        Ok(ready.map(|row| (row, &self.head[HEADER..])))
    }

    fn front(&mut self, state: &mut State, seen: &mut Seen) -> Result<Option<Waiting>, CleanError> {
        if !self.has_head {
            self.has_head = self.queue.pop(state, &mut self.head)?;
            if !self.has_head {
                return Ok(None);
            }
        }
        let mut row = self.read(state, seen)?;
        let has_verdict = row.outcome.code() != 0;
        self.has_head = !has_verdict;
        if has_verdict {
            row.is_answered &= self.taken.is_none_or(|taken| row.first > taken);
            self.taken = self.taken.max(Some(row.first));
        }
        Ok(Some(row).filter(|_| has_verdict))
    }

    /// Removes this number of rows, beginning with the one that has no verdict yet; false if there is no such row. Only rows in
    /// the order of the input wait for each other.
    ///
    /// # Errors
    /// The state fails.
    pub fn skip(&mut self, state: &mut State, count: usize) -> Result<bool, CleanError> {
        let is_there = std::mem::take(&mut self.has_head);
        for _ in 1..count {
            if is_there {
                self.queue.pop(state, &mut self.head)?;
            }
        }
        Ok(is_there)
    }

    fn look(
        &mut self,
        state: &mut State,
        seen: &mut Seen,
        idle: bool,
    ) -> Result<Option<Waiting>, CleanError> {
        if self.looking == 0 && (self.settled >= self.queue.len() || idle) {
            self.looking = self.queue.len();
            self.settled = 0;
        }
        while self.looking > 0 && self.queue.pop(state, &mut self.head)? {
            self.looking -= 1;
            let row = Waiting { is_answered: false, ..self.read(state, seen)? };
            if row.outcome.code() != 0 {
                return Ok(Some(row));
            }
            self.queue.push(state, [&self.head, &[]])?;
        }
        Ok(None)
    }

    /// The row in `head`, with its verdict if it is known by now.
    fn read(&self, state: &mut State, seen: &mut Seen) -> Result<Waiting, CleanError> {
        let Some(header) = self.head.first_chunk::<HEADER>() else {
            return Err(CleanError::failed("a waiting row is damaged; report this bug"));
        };
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (first, domain) = (number(0), number(8) as u32);
        let known = Outcome::from_bits(number(12));
        let is_answered = known.code() == 0;
        let outcome = if is_answered { seen.outcome(state, first)? } else { known };
        Ok(Waiting { first, domain, outcome, is_answered })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::state;
    use super::*;
    use spill::keyed::Keyed;

    /// Pushes rows that wait for these first rows, settles verdicts, and checks the rows that come out after each.
    #[track_caller]
    fn check(ordered: bool, firsts: &[u64], settle: &[(u64, u8)], expected: &[&[usize]]) {
        let (_folder, mut state) = state(0);
        let mut seen = Seen::new(&state, Keyed::new().unwrap(), false);
        let mut rows = Rows::new(ordered);
        for (n, &first) in firsts.iter().enumerate() {
            let outcome = Outcome::of_code(if first == 99 { 5 } else { 0 });
            let row = Waiting::new(first, n as u32, outcome);
            rows.push(&mut state, row, format!("row {n}").as_bytes()).unwrap();
            if firsts[..n].contains(&first) {
                rows.repeat(first);
            }
        }
        let repeats = (0..firsts.len()).filter(|&n| firsts[..n].contains(&firsts[n]));
        assert_eq!(rows.open_repeats(), repeats.count() as u64);
        for (at, &(first, code)) in settle.iter().enumerate() {
            seen.settle(&mut state, first, Outcome::of_code(code)).unwrap();
            rows.settled(first);
            let mut out = Vec::new();
            while let Some((row, prefix)) = rows.next(&mut state, &mut seen, at + 1 == settle.len()).unwrap()
            {
                assert_eq!(prefix, format!("row {}", row.domain).as_bytes());
                let expected = if row.first == 99 { 5 } else { code_of(settle, row.first) };
                assert_eq!(row.outcome.code(), expected);
                out.push(row.domain as usize);
            }
            assert_eq!(out, expected[at], "after {at}");
        }
        assert_eq!((rows.len(), rows.open_repeats()), (0, 0));
    }

    fn code_of(settle: &[(u64, u8)], first: u64) -> u8 {
        settle.iter().find(|(row, _)| *row == first).map_or(0, |(_, code)| *code)
    }

    #[test]
    fn rows_come_in_order_or_when_they_are_done() {
        // In order: each waits for those before it. The verdict of 99 is known from the beginning.
        check(true, &[0, 1, 0, 99, 4], &[(1, 2), (4, 3), (0, 1)], &[&[], &[], &[0, 1, 2, 3, 4]]);
        check(true, &[0, 99, 2], &[(0, 1), (2, 2)], &[&[0, 1], &[2]]);
        // Without order: rows are examined when as many verdicts came as rows wait, and at the end.
        check(
            false,
            &[0, 1, 0, 1],
            &[(7, 1), (8, 1), (1, 1), (9, 1), (0, 2)],
            &[&[], &[], &[], &[1, 3], &[0, 2]],
        );
        check(false, &[3], &[(3, 1)], &[&[0]]);
    }
}
