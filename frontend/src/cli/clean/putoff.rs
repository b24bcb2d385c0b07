//! Rows that are asked about later: their server said so, their site had enough waiting, or nobody could be asked.
//!
//! Rows of a domain whose site was crowded wait in a queue of their domain. One is handed over for each answer that
//! comes for the domain, so that as many are under way as the site bears; beside that, a clock hands over a few of all such
//! domains in turn, more each time as long as none comes back crowded, and fewer when most do. So nobody waits for
//! ever, and hardly any row makes the way in vain.

use super::CleanError;
use super::budget::Asked;
use super::state::State;
use super::state::spool::Spool;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Most domains with a queue. Rows of others wait in one behind them all.
const QUEUES_MAX: usize = 8192;
/// How often the clock hands rows over.
const TICK_MS: u64 = 100;
/// How many at least and at most.
const QUOTA_MIN: u64 = 16;
const QUOTA_MAX: u64 = 16_384;

/// Why a row that was put off may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waited for a time, and that has come.
    Due,
    /// It waited for room at its site, and may try again.
    Room,
}

/// See the module. Times are milliseconds from the start of the run.
#[derive(Default)]
pub(super) struct PutOff {
    hasher: RandomState,
    queues: HashMap<u64, Spool>,
    /// Each domain with a queue once, the next in turn first.
    turns: VecDeque<u64>,
    /// Domains of which a row may go, once for each row.
    ready: VecDeque<u64>,
    /// Rows of domains for which there was no queue.
    others: Spool,
    /// Rows by the time when they are due.
    later: BTreeMap<u64, Spool>,
    waiting: u64,
    /// How many of them wait for room at their site.
    crowded: u64,
    quota: u64,
    /// Of the clock's next turn.
    tick: u64,
    /// How many rows it handed over in its last turn, and how many came back since.
    handed: u64,
    came_back: u64,
    /// How many it may still hand over in this turn.
    left: u64,
    buffer: Vec<u8>,
}

impl PutOff {
    /// How many rows wait.
    pub fn len(&self) -> u64 {
        self.waiting
    }

    /// How many rows wait for room at their site.
    pub fn crowded_len(&self) -> u64 {
        self.crowded
    }

    /// When the last of those that wait for their time is due.
    pub fn last_due(&self) -> Option<u64> {
        self.later.last_key_value().map(|(due, _)| *due)
    }

    /// When there is something to do next.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        let later = self.later.first_key_value().map(|(due, _)| *due);
        let crowded = if !self.ready.is_empty() {
            Some(now)
        } else {
            (!self.turns.is_empty() || !self.others.is_empty()).then_some(self.tick)
        };
        later.into_iter().chain(crowded).min()
    }

    /// Puts a row off for so many milliseconds, or a little longer.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn postpone(
        &mut self,
        state: &mut State,
        row: &Asked,
        now: u64,
        delay: u64,
    ) -> Result<(), CleanError> {
        // Those that are due at about the same time share a queue.
        let step = (delay / 64).max(1).next_power_of_two();
        let due = (now + delay).next_multiple_of(step);
        self.waiting += 1;
        push(self.later.entry(due).or_default(), state, row)
    }

    /// The site of the row's domain is crowded.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn on_site_full(&mut self, state: &mut State, row: &Asked) -> Result<(), CleanError> {
        self.came_back += 1;
        let domain = self.hasher.hash_one(row.domain());
        self.wait(state, domain, row)
    }

    /// Puts the row behind others of its domain, if there are any that wait; else it can be asked about now.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn join(&mut self, state: &mut State, row: &Asked) -> Result<bool, CleanError> {
        if self.queues.is_empty() {
            return Ok(false);
        }
        let domain = self.hasher.hash_one(row.domain());
        let waits = self.queues.contains_key(&domain);
        if waits {
            self.wait(state, domain, row)?;
        }
        Ok(waits)
    }

    /// An answer came for a row of this domain: one that waits may go.
    pub fn answered(&mut self, row: &Asked) {
        if self.queues.is_empty() {
            return;
        }
        let domain = self.hasher.hash_one(row.domain());
        if self.queues.contains_key(&domain) {
            self.ready.push_back(domain);
        }
    }

    /// Takes the next row that may go into `row`; `None` when there is none.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn next(&mut self, state: &mut State, now: u64, row: &mut Asked) -> Result<Option<Turn>, CleanError> {
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
        // Half of the turns go to those without a queue of their own, while there are any.
        if !self.others.is_empty() && (self.left.is_multiple_of(2) || self.turns.is_empty()) {
            let taken = self.others.pop(state, &mut self.buffer)?;
            return Ok(self.by_clock(taken, row)?.then_some(Turn::Room));
        }
        if self.take_in_turn(state)? {
            return Ok(self.by_clock(true, row)?.then_some(Turn::Room));
        }
        Ok(None)
    }

    /// Takes any row that waits for room at its site, for nobody waits any longer; `false` when there is none.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn next_crowded(&mut self, state: &mut State, row: &mut Asked) -> Result<bool, CleanError> {
        let taken = match self.others.is_empty() {
            true => self.take_in_turn(state)?,
            false => self.others.pop(state, &mut self.buffer)?,
        };
        self.took_crowded(taken, row)
    }

    /// Takes the first row of the domain that is next in turn into the buffer.
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

    /// The clock: how many rows may go in this turn.
    fn turn(&mut self, now: u64) {
        if self.turns.is_empty() && self.others.is_empty() {
            (self.quota, self.left, self.handed) = (QUOTA_MIN, 0, 0);
            return;
        }
        if now < self.tick {
            return;
        }
        if self.came_back == 0 && self.left == 0 {
            self.quota *= 2;
        } else if self.came_back * 2 > self.handed {
            self.quota /= 2;
        }
        self.quota = self.quota.clamp(QUOTA_MIN, QUOTA_MAX);
        (self.left, self.handed, self.came_back) = (self.quota, 0, 0);
        self.tick = now + TICK_MS;
    }

    fn wait(&mut self, state: &mut State, domain: u64, row: &Asked) -> Result<(), CleanError> {
        self.waiting += 1;
        self.crowded += 1;
        let has_room = self.queues.len() < QUEUES_MAX;
        match self.queues.get_mut(&domain) {
            Some(queue) => push(queue, state, row),
            None if has_room => {
                self.turns.push_back(domain);
                push(self.queues.entry(domain).or_default(), state, row)
            }
            None => push(&mut self.others, state, row),
        }
    }

    /// Takes the first row of a domain into the buffer. A queue that is empty is gone.
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

    fn by_clock(&mut self, taken: bool, row: &mut Asked) -> Result<bool, CleanError> {
        self.handed += 1;
        self.left -= 1;
        self.took_crowded(taken, row)
    }

    fn took_crowded(&mut self, taken: bool, row: &mut Asked) -> Result<bool, CleanError> {
        self.crowded -= u64::from(taken);
        self.taken(taken, row)
    }

    fn taken(&mut self, taken: bool, row: &mut Asked) -> Result<bool, CleanError> {
        if taken {
            self.waiting -= 1;
            row.read(&self.buffer)?;
        }
        Ok(taken)
    }
}

fn push(queue: &mut Spool, state: &mut State, row: &Asked) -> Result<(), CleanError> {
    let (header, bytes) = row.record();
    queue.push(state, [&header, bytes])
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;

    fn row(n: u64, domain: &str) -> Asked {
        let bytes = format!("user-{n}@{domain}").into_bytes();
        Asked { row: n, address_bytes: bytes.len() as u16, bytes, ..Asked::default() }
    }

    /// All rows that may go now.
    fn gone(put_off: &mut PutOff, state: &mut State, now: u64) -> Vec<u64> {
        let (mut row, mut rows) = (Asked::default(), Vec::new());
        while put_off.next(state, now, &mut row).unwrap().is_some() {
            rows.push(row.row);
        }
        rows
    }

    #[test]
    fn a_row_tells_what_it_waited_for_and_those_without_room_can_be_ended() {
        let (_folder, mut state) = state(0);
        let (mut put_off, mut taken) = (PutOff::default(), Asked::default());
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
        let (_folder, mut state) = state(0);
        let mut put_off = PutOff::default();
        for (n, delay) in [(1, 1000), (2, 300_000), (3, 1001), (4, 5)] {
            put_off.postpone(&mut state, &row(n, "a.example"), 100, delay).unwrap();
        }
        assert_eq!((put_off.len(), put_off.next_due(0)), (4, Some(105)));
        assert_eq!(gone(&mut put_off, &mut state, 104), [0u64; 0]);
        assert_eq!(gone(&mut put_off, &mut state, 105), [4]);
        // A 64th of the delay later at most, and never before.
        assert_eq!(gone(&mut put_off, &mut state, 1099), [0u64; 0]);
        assert_eq!(gone(&mut put_off, &mut state, 1100 + 16), [1, 3]);
        assert!((300_100..300_100 + 8192).contains(&put_off.last_due().unwrap()));
        assert_eq!(gone(&mut put_off, &mut state, 310_000), [2]);
        assert_eq!((put_off.len(), put_off.next_due(0)), (0, None));
    }

    #[test]
    fn answers_for_a_domain_let_its_rows_go() {
        let (_folder, mut state) = state(0);
        let mut put_off = PutOff::default();
        for n in 0..100 {
            put_off.on_site_full(&mut state, &row(n, "a.example")).unwrap();
        }
        assert!(put_off.join(&mut state, &row(100, "a.example")).unwrap(), "it waits behind them");
        assert!(!put_off.join(&mut state, &row(7, "b.example")).unwrap(), "nobody waits there");
        let by_clock = gone(&mut put_off, &mut state, 0);
        assert_eq!(by_clock, (0..QUOTA_MIN).collect::<Vec<u64>>());
        for _ in 0..3 {
            put_off.answered(&row(0, "a.example"));
            put_off.answered(&row(0, "b.example"));
        }
        assert_eq!(gone(&mut put_off, &mut state, 1).len(), 3);
        // None came back since: the clock dares more each time.
        let turns: Vec<usize> =
            (1..5).map(|tick| gone(&mut put_off, &mut state, tick * TICK_MS).len()).collect();
        assert_eq!(turns, [32, 50, 0, 0]);
        assert!(put_off.queues.is_empty() && put_off.turns.is_empty() && put_off.len() == 0);
    }

    #[test]
    fn what_comes_back_slows_the_clock() {
        let (_folder, mut state) = state(0);
        let mut put_off = PutOff::default();
        for n in 0..10_000 {
            put_off.on_site_full(&mut state, &row(n, "a.example")).unwrap();
        }
        let mut handed = Vec::new();
        for tick in 0..20 {
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
        let (_folder, mut state) = state(0);
        let mut put_off = PutOff::default();
        let many = QUEUES_MAX as u64 + 500;
        for n in 0..5000 {
            put_off.on_site_full(&mut state, &row(n, "large.example")).unwrap();
        }
        for n in 0..many {
            put_off.on_site_full(&mut state, &row(10_000 + n, &format!("d{n}.example"))).unwrap();
        }
        assert_eq!((put_off.queues.len(), put_off.others.len()), (QUEUES_MAX, 501));
        let (mut left, mut first) = (5000 + many, Vec::new());
        for tick in 0..40 {
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
            "nor do the last wait for all others"
        );
    }
}
