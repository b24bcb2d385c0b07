//! Rows that are checked later: their server answered "later", their site was full, or there was an outage.
//!
//! If the site of a domain is full, the rows of the domain wait in its queue; a row that comes back waits before those that were not
//! submitted yet, so rows keep roughly the order of the list. Each answer for the domain releases one row, so
//! that the number of rows in progress fits the site. In addition a clock releases a few rows of all such domains in turn. It
//! releases more each time while none of them returns, and fewer if most of them return. So no row waits for ever, and few
//! rows are submitted in vain. How many rows a site takes is not known before the first answer for the domain, so until then only
//! a few of them are submitted.

use super::CleanError;
use super::budget::AskedRow;
use engine::NumberMap;
use engine::proto::limits::WALK_WAITERS_MAX;
use lists::Domains;
use spill::State;
use spill::spool::Spool;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Maximum number of domains with a queue. Rows of other domains share one queue.
const QUEUES_MAX: usize = 8192;
/// Interval of the clock, in milliseconds.
const TICK_MS: u64 = 100;
/// Bounds of the number of rows per turn of the clock.
const QUOTA_MIN: u64 = 16;
const QUOTA_MAX: u64 = 16_384;

/// Maximum number of rows of a domain that are submitted before its first answer: as many as the engine lets wait for the domain's
/// mail hosts.
const FIRST_ROWS_MAX: u16 = WALK_WAITERS_MAX as u16;
/// In place of the number of rows submitted: the domain has an answer.
const HAS_ANSWER: u16 = u16::MAX;

/// An odd factor, so different numbers stay different (Knuth's multiplicative hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The reason why a delayed row may be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waited for a time and is due.
    Due,
    /// It waited for room at its site and may try again.
    Room,
}

/// The delayed rows. Times are milliseconds from the start of the run.
#[derive(Default)]
pub(super) struct PutOff {
    hasher: RandomState,
    queues: NumberMap<DomainQueue>,
    /// Number of rows submitted before the first answer, or [`HAS_ANSWER`], by the domain's number in the summary.
    first_rows: Vec<u16>,
    /// The domains with a queue, the next in turn first.
    turns: VecDeque<u64>,
    /// Domains with a released row, once per row.
    ready: VecDeque<u64>,
    /// Rows of domains without their own queue.
    others: Spool,
    /// Rows by the time at which they are due.
    later: BTreeMap<u64, Spool>,
    waiting: u64,
    /// Number of rows that wait for room at their site.
    crowded: u64,
    quota: u64,
    /// The time of the clock's next turn.
    tick: u64,
    /// Number of rows that the clock released in its last turn, and number of rows that returned since.
    handed: u64,
    came_back: u64,
    /// Whether any row got an answer since the clock's last turn.
    has_answer: bool,
    /// Number of rows that it may still release in this turn.
    left: u64,
    buffer: Vec<u8>,
}

/// The rows of a domain that wait for room at its site.
#[derive(Default)]
struct DomainQueue {
    /// Rows that were taken from a queue and came back. They go first.
    again: Spool,
    first: Spool,
}

impl DomainQueue {
    fn push(&mut self, state: &mut State, row: &AskedRow) -> Result<(), CleanError> {
        push(if row.has_waited { &mut self.again } else { &mut self.first }, state, row)
    }

    fn pop(&mut self, state: &mut State, into: &mut Vec<u8>) -> Result<bool, CleanError> {
        let queue = if self.again.is_empty() { &mut self.first } else { &mut self.again };
        Ok(queue.pop(state, into)?)
    }

    fn is_empty(&self) -> bool {
        self.again.is_empty() && self.first.is_empty()
    }
}

impl PutOff {
    /// Number of waiting rows.
    pub fn len(&self) -> u64 {
        self.waiting
    }

    /// Number of rows that wait for room at their site.
    pub fn crowded_len(&self) -> u64 {
        self.crowded
    }

    /// The time of the next release.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        let later = self.later.first_key_value().map(|(due, _)| *due);
        let crowded = if !self.ready.is_empty() {
            Some(now)
        } else {
            (!self.turns.is_empty() || !self.others.is_empty()).then_some(self.tick)
        };
        later.into_iter().chain(crowded).min()
    }

    /// Delays a row by this number of milliseconds, or a little longer. Returns the time when it is due.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn postpone(
        &mut self,
        state: &mut State,
        row: &AskedRow,
        now: u64,
        delay: u64,
    ) -> Result<u64, CleanError> {
        // Rows that are due at about the same time share a queue.
        let step = (delay / 64).max(1).next_power_of_two();
        let due = (now + delay).next_multiple_of(step);
        self.waiting += 1;
        push(self.later.entry(due).or_default(), state, row)?;
        Ok(due)
    }

    /// The site of the row's domain is full.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn on_site_full(&mut self, state: &mut State, row: &AskedRow) -> Result<(), CleanError> {
        self.came_back += 1;
        let domain = self.key(row);
        self.wait(state, domain, row)
    }

    /// If other rows of its domain wait, or enough wait for the domain's first answer, adds the row behind them and returns true.
    /// Otherwise the row can be submitted now.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn join(&mut self, state: &mut State, row: &AskedRow) -> Result<bool, CleanError> {
        let domain = self.key(row);
        let waits = self.queues.contains_key(&domain) || !self.is_among_first(row.domain);
        if waits {
            self.wait(state, domain, row)?;
        }
        Ok(waits)
    }

    /// Whether a row of the domain may be submitted. Until the domain's first answer, its rows are counted and limited to
    /// [`FIRST_ROWS_MAX`].
    fn is_among_first(&mut self, domain: u32) -> bool {
        if domain == Domains::OTHERS {
            return true;
        }
        let at = domain as usize;
        if at >= self.first_rows.len() {
            self.first_rows.resize(at + 1, 0);
        }
        let count = &mut self.first_rows[at];
        if *count < FIRST_ROWS_MAX {
            *count += 1;
            return true;
        }
        *count == HAS_ANSWER
    }

    /// A row of this domain got an answer: releases a waiting row of the domain.
    pub fn answered(&mut self, row: &AskedRow) {
        if let Some(count) = self.first_rows.get_mut(row.domain as usize) {
            *count = HAS_ANSWER;
        }
        if self.queues.is_empty() {
            return;
        }
        self.has_answer = true;
        let domain = self.key(row);
        if self.queues.contains_key(&domain) {
            self.ready.push_back(domain);
        }
    }

    /// Takes the next released row into `row`; `None` if there is none.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn next(
        &mut self,
        state: &mut State,
        now: u64,
        row: &mut AskedRow,
    ) -> Result<Option<Turn>, CleanError> {
        if let Some(mut due) = self.later.first_entry()
            && *due.key() <= now
        {
            let taken = due.get_mut().pop(state, &mut self.buffer)?;
            if due.get().is_empty() {
                due.remove();
            }
            return Ok(self.taken(taken, row)?.then_some(Turn::Due));
        }
        while let Some(domain) = self.ready.pop_front() {
            if self.take(state, domain)? {
                return Ok(self.took_crowded(true, row)?.then_some(Turn::Room));
            }
        }
        self.turn(now);
        if self.left == 0 {
            return Ok(None);
        }
        // While rows without their own queue wait, they get half of the turns.
        if !self.others.is_empty() && (self.left.is_multiple_of(2) || self.turns.is_empty()) {
            let taken = self.others.pop(state, &mut self.buffer)?;
            return Ok(self.by_clock(taken, row)?.then_some(Turn::Room));
        }
        if self.take_in_turn(state)? {
            return Ok(self.by_clock(true, row)?.then_some(Turn::Room));
        }
        Ok(None)
    }

    /// Takes any row that waits for room at its site, to end its wait; `false` if there is none.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn next_crowded(&mut self, state: &mut State, row: &mut AskedRow) -> Result<bool, CleanError> {
        let taken = match self.others.is_empty() {
            true => self.take_in_turn(state)?,
            false => self.others.pop(state, &mut self.buffer)?,
        };
        self.took_crowded(taken, row)
    }

    /// Takes the first row of the next domain in turn into the buffer.
    fn take_in_turn(&mut self, state: &mut State) -> Result<bool, CleanError> {
        while let Some(domain) = self.turns.pop_front() {
            self.turns.push_back(domain);
            if self.take(state, domain)? {
                return Ok(true);
            }
            self.turns.pop_back();
        }
        Ok(false)
    }

    /// The clock: sets the number of rows for this turn.
    fn turn(&mut self, now: u64) {
        if self.turns.is_empty() && self.others.is_empty() {
            (self.quota, self.left, self.handed) = (QUOTA_MIN, 0, 0);
            return;
        }
        if now < self.tick {
            return;
        }
        if self.came_back * 2 > self.handed {
            self.quota = self.handed.saturating_sub(self.came_back);
        } else if self.came_back == 0 && self.left == 0 && self.has_answer {
            // Without an answer since the last turn, the rows released then may still come back.
            self.quota *= 2;
        }
        self.quota = self.quota.clamp(QUOTA_MIN, QUOTA_MAX);
        (self.left, self.handed, self.came_back, self.has_answer) = (self.quota, 0, 0, false);
        self.tick = now + TICK_MS;
    }

    /// The key of the row's domain in the map of queues, spread over all bits as the map wants it: made of the domain's number in the
    /// summary, or of its name if it has no number of its own.
    fn key(&self, row: &AskedRow) -> u64 {
        match row.domain {
            Domains::OTHERS => self.hasher.hash_one(row.domain()),
            number => u64::from(number).wrapping_mul(SPREAD),
        }
    }

    fn wait(&mut self, state: &mut State, domain: u64, row: &AskedRow) -> Result<(), CleanError> {
        self.waiting += 1;
        self.crowded += 1;
        let has_room = self.queues.len() < QUEUES_MAX;
        match self.queues.get_mut(&domain) {
            Some(queue) => queue.push(state, row),
            None if has_room => {
                self.turns.push_back(domain);
                self.queues.entry(domain).or_default().push(state, row)
            }
            None => push(&mut self.others, state, row),
        }
    }

    /// Takes the first row of a domain into the buffer. An empty queue is removed.
    fn take(&mut self, state: &mut State, domain: u64) -> Result<bool, CleanError> {
        let Some(queue) = self.queues.get_mut(&domain) else { return Ok(false) };
        let taken = queue.pop(state, &mut self.buffer)?;
        if queue.is_empty() {
            self.queues.remove(&domain);
            if self.turns.back() == Some(&domain) {
                self.turns.pop_back();
            } else {
                self.turns.retain(|other| *other != domain);
            }
        }
        Ok(taken)
    }

    fn by_clock(&mut self, taken: bool, row: &mut AskedRow) -> Result<bool, CleanError> {
        self.handed += 1;
        self.left -= 1;
        self.took_crowded(taken, row)
    }

    fn took_crowded(&mut self, taken: bool, row: &mut AskedRow) -> Result<bool, CleanError> {
        self.crowded -= u64::from(taken);
        self.taken(taken, row)
    }

    fn taken(&mut self, taken: bool, row: &mut AskedRow) -> Result<bool, CleanError> {
        if taken {
            self.waiting -= 1;
            row.read(&self.buffer)?;
        }
        Ok(taken)
    }
}

fn push(queue: &mut Spool, state: &mut State, row: &AskedRow) -> Result<(), CleanError> {
    let (header, bytes) = row.record();
    Ok(queue.push(state, [&header, bytes])?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::state;
    use super::*;

    fn row(n: u64, domain: &str) -> AskedRow {
        let bytes = format!("user-{n}@{domain}").into_bytes();
        let address_bytes = bytes.len() as u16;
        AskedRow { row: n, domain: Domains::OTHERS, address_bytes, bytes, ..AskedRow::default() }
    }

    /// This number of rows of a domain whose site is full, with the folder of their state.
    fn crowded(rows: u64) -> (tempfile::TempDir, State, PutOff) {
        let ((folder, mut state), mut put_off) = (state(0), PutOff::default());
        (0..rows).for_each(|n| put_off.on_site_full(&mut state, &row(n, "a.example")).unwrap());
        (folder, state, put_off)
    }

    /// All rows that are released now.
    fn gone(put_off: &mut PutOff, state: &mut State, now: u64) -> Vec<u64> {
        let (mut row, mut rows) = (AskedRow::default(), Vec::new());
        while put_off.next(state, now, &mut row).unwrap().is_some() {
            rows.push(row.row);
        }
        rows
    }

    #[test]
    fn a_row_tells_what_it_waited_for_and_those_without_room_can_be_ended() {
        let (_folder, mut state) = state(0);
        let (mut put_off, mut taken) = (PutOff::default(), AskedRow::default());
        put_off.postpone(&mut state, &row(1, "a.example"), 0, 5).unwrap();
        for n in 2..50 {
            put_off
                .on_site_full(&mut state, &row(n, if n % 2 == 0 { "a.example" } else { "b.example" }))
                .unwrap();
        }
        assert_eq!((put_off.len(), put_off.crowded_len()), (49, 48));
        assert_eq!(put_off.next(&mut state, 5, &mut taken).unwrap(), Some(Turn::Due));
        assert_eq!((taken.row, put_off.len(), put_off.crowded_len()), (1, 48, 48));
        assert_eq!(put_off.next(&mut state, 5, &mut taken).unwrap(), Some(Turn::Room));
        put_off.answered(&taken);
        assert_eq!(put_off.next(&mut state, 5, &mut taken).unwrap(), Some(Turn::Room));
        put_off.postpone(&mut state, &row(1, "a.example"), 5, 500).unwrap();
        let mut ended = 0;
        while put_off.next_crowded(&mut state, &mut taken).unwrap() {
            assert!(taken.row > 1);
            ended += 1;
        }
        assert_eq!((ended, put_off.len(), put_off.crowded_len()), (46, 1, 0), "what is due later stays");
        assert_eq!(put_off.next(&mut state, 100, &mut taken).unwrap(), None);
    }

    #[test]
    fn rows_are_due_when_their_time_has_come() {
        let (_folder, mut state, mut put_off) = crowded(0);
        for (n, delay) in [(1, 1000), (2, 300_000), (3, 1001), (4, 5)] {
            put_off.postpone(&mut state, &row(n, "a.example"), 100, delay).unwrap();
        }
        assert_eq!((put_off.len(), put_off.next_due(0)), (4, Some(105)));
        assert_eq!(gone(&mut put_off, &mut state, 104), [0u64; 0]);
        assert_eq!(gone(&mut put_off, &mut state, 105), [4]);
        // At most a 64th of the delay later, and never earlier.
        assert_eq!(gone(&mut put_off, &mut state, 1099), [0u64; 0]);
        assert_eq!(gone(&mut put_off, &mut state, 1100 + 16), [1, 3]);
        assert!((300_100..300_100 + 8192).contains(&put_off.next_due(0).unwrap()));
        assert_eq!(gone(&mut put_off, &mut state, 310_000), [2]);
        assert_eq!((put_off.len(), put_off.next_due(0)), (0, None));
    }

    #[test]
    fn a_row_that_comes_back_waits_before_those_that_were_not_submitted() {
        let (_folder, mut state, mut put_off) = crowded(1000);
        let (mut taken, mut handed) = (AskedRow::default(), Vec::new());
        for tick in 0..20 {
            // The first of each turn finds room, and the others come back.
            let mut rows = Vec::new();
            while put_off.next(&mut state, tick * TICK_MS, &mut taken).unwrap().is_some() {
                rows.push(taken.clone());
            }
            for back in rows.split_off(1) {
                put_off.on_site_full(&mut state, &back).unwrap();
            }
            handed.push(rows[0].row);
        }
        assert_eq!(handed, (0..20).collect::<Vec<u64>>());
    }

    #[test]
    fn answers_for_a_domain_let_its_rows_go() {
        let (_folder, mut state, mut put_off) = crowded(100);
        assert!(put_off.join(&mut state, &row(100, "a.example")).unwrap(), "it waits behind them");
        assert!(!put_off.join(&mut state, &row(7, "b.example")).unwrap(), "no row waits there");
        let by_clock = gone(&mut put_off, &mut state, 0);
        assert_eq!(by_clock, (0..QUOTA_MIN).collect::<Vec<u64>>());
        for _ in 0..3 {
            put_off.answered(&row(0, "a.example"));
            put_off.answered(&row(0, "b.example"));
        }
        assert_eq!(gone(&mut put_off, &mut state, 1).len(), 3);
        // Answers have come and no row returned, so the clock releases more; then no answer comes, so it keeps the number.
        let turns: Vec<usize> =
            (1..5).map(|tick| gone(&mut put_off, &mut state, tick * TICK_MS).len()).collect();
        assert_eq!(turns, [32, 32, 18, 0]);
        assert!(put_off.queues.is_empty() && put_off.turns.is_empty() && put_off.len() == 0);
    }

    #[test]
    fn few_rows_go_before_the_first_answer_for_their_domain() {
        let (_folder, mut state, mut put_off) = crowded(0);
        let numbered = |n, domain| AskedRow { domain, ..row(n, &format!("d{domain}.example")) };
        let mut submitted = |put_off: &mut PutOff, rows: std::ops::Range<u64>, domain| {
            rows.filter(|&n| !put_off.join(&mut state, &numbered(n, domain)).unwrap()).count()
        };
        assert_eq!(submitted(&mut put_off, 0..1000, 7), usize::from(FIRST_ROWS_MAX));
        assert_eq!(submitted(&mut put_off, 0..200, 3), 200);
        assert_eq!(submitted(&mut put_off, 0..1000, Domains::OTHERS), 1000, "these are many domains");
        put_off.answered(&numbered(0, 3));
        assert_eq!(submitted(&mut put_off, 200..1000, 3), 800, "its site may have room");
        put_off.answered(&numbered(0, 7));
        assert_eq!(submitted(&mut put_off, 1000..1010, 7), 0, "they wait behind the others");
        assert_eq!(put_off.crowded_len(), 1010 - u64::from(FIRST_ROWS_MAX));
    }

    #[test]
    fn what_comes_back_slows_the_clock() {
        let (_folder, mut state, mut put_off) = crowded(10_000);
        let mut handed = Vec::new();
        for tick in 0..20 {
            put_off.answered(&row(0, "b.example"));
            let rows = gone(&mut put_off, &mut state, tick * TICK_MS);
            // The site has room for 40 in each turn.
            for &n in rows.iter().skip(40) {
                put_off.on_site_full(&mut state, &row(n, "a.example")).unwrap();
            }
            handed.push(rows.len());
        }
        assert!(handed.iter().all(|&count| count <= 128), "{handed:?}");
        assert!(handed.iter().skip(3).all(|&count| count >= 32), "{handed:?}");
    }

    #[test]
    fn domains_take_turns_however_many_there_are() {
        let (_folder, mut state, mut put_off) = crowded(5000);
        let many = QUEUES_MAX as u64 + 500;
        for n in 0..many {
            put_off.on_site_full(&mut state, &row(10_000 + n, &format!("d{n}.example"))).unwrap();
        }
        assert_eq!((put_off.queues.len(), put_off.others.len()), (QUEUES_MAX, 501));
        let (mut left, mut first) = (5000 + many, Vec::new());
        for tick in 0..40 {
            put_off.answered(&row(0, "other.example"));
            let rows = gone(&mut put_off, &mut state, tick * TICK_MS);
            left -= rows.len() as u64;
            if first.len() < 3000 {
                first.extend(rows);
            }
        }
        assert_eq!((left, put_off.len()), (0, 0));
        let large = first.iter().filter(|&&n| n < 5000).count();
        assert!(large <= 2, "{large} of the first {} are of one domain", first.len());
        assert!(
            first.iter().any(|&n| n >= 10_000 + QUEUES_MAX as u64),
            "the last rows do not wait for all others"
        );
    }
}
