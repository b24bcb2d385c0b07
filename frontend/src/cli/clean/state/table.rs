//! Keys and their numbers, of any count: a log-structured merge tree (O'Neil and others, 1996).
//!
//! What came last is in memory. When that is full it becomes a run in the state; four runs of a level become one of
//! the next. A key is looked for in memory and then in the runs, the newest first; a filter in memory says for most
//! runs that the key is not there. So a new key costs no read, and a known one about one. What filters take, the keys in
//! memory leave them, down to a fraction: memory grows little with the count.

use super::run::{Entry, Run, Writer};
use super::{Shares, State};
use crate::cli::clean::CleanError;

/// See the module. Keys are evenly distributed, as keyed hashes are.
pub(in crate::cli::clean) struct Table {
    recent: Recent,
    recent_max: usize,
    /// Octets for keys in memory, with what filters take of them.
    recent_bytes: usize,
    /// With their levels, the oldest first.
    runs: Vec<(u32, Run)>,
    filter_bytes: usize,
}

/// So many runs of a level are merged.
const FANOUT: usize = 4;
/// Fewer are not worth a run.
const RECENT_MIN: usize = 1024;
/// The least part of their memory that is left to keys in memory.
const RECENT_PART: usize = 4;

impl Table {
    /// With its shares of the memory.
    pub fn new(shares: Shares) -> Table {
        // One run can take most of it: the others are smaller together.
        let filter_bytes = shares.filters / 4 * 3;
        let recent_max = recent_max(shares.recent);
        let recent_bytes = shares.recent;
        Table { recent: Recent::new(), recent_max, recent_bytes, runs: Vec::new(), filter_bytes }
    }

    /// The number of a key.
    ///
    /// # Errors
    /// When the state fails.
    pub fn get(&self, state: &mut State, key: u128) -> Result<Option<u64>, CleanError> {
        if let Some(value) = self.recent.get(key) {
            return Ok(Some(value));
        }
        for (_, run) in self.runs.iter().rev() {
            if let Some(value) = run.find(state, key)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Gives a key a number, in place of the one that it has.
    ///
    /// # Errors
    /// When the state fails.
    pub fn put(&mut self, state: &mut State, key: u128, value: u64) -> Result<(), CleanError> {
        self.recent.put(Entry { key, value });
        if self.recent.entries < self.recent_max { Ok(()) } else { self.put_away(state) }
    }

    /// What is in memory becomes a run, and runs become larger ones.
    fn put_away(&mut self, state: &mut State) -> Result<(), CleanError> {
        let mut writer = Writer::new(self.recent.entries, self.filter_bytes);
        for entry in self.recent.sorted() {
            writer.push(state, *entry)?;
        }
        self.runs.push((0, writer.finish(state)?));
        self.recent.clear();
        while let Some(&(level, _)) = self.runs.last()
            && self.runs.iter().rev().take_while(|(other, _)| *other == level).count() == FANOUT
        {
            let rest = self.runs.len() - FANOUT;
            let newest_first = self.runs.drain(rest..).rev().map(|(_, run)| run).collect();
            let merged = Run::merge(state, newest_first, self.filter_bytes)?;
            self.runs.push((level + 1, merged));
        }
        let runs: usize = self.runs.iter().map(|(_, run)| run.bytes()).sum();
        let left = self.recent_bytes.saturating_sub(runs).max(self.recent_bytes / RECENT_PART);
        if recent_max(left) != self.recent_max {
            self.recent_max = recent_max(left);
            self.recent = Recent::new();
        }
        Ok(())
    }
}

/// How many keys may be in so many octets: half of as many places as fit, a power of two.
fn recent_max(bytes: usize) -> usize {
    let places = (bytes / size_of::<Entry>()).max(2 * RECENT_MIN);
    1 << (places.ilog2() - 1)
}

/// Entries in memory, each in the first free place from the one that its key's upper bits point to. So they are
/// almost in order all the time.
struct Recent {
    /// A value is kept with one added: 0 is a free place. The last places are for those who find the end full.
    places: Vec<Entry>,
    /// How far a key is shifted to find its place.
    bits: u32,
    entries: usize,
}

const FREE: Entry = Entry { key: 0, value: 0 };
const FIRST_BITS: u32 = 10;
/// A run of full places this long does not occur with keys that are evenly distributed and half of the places free.
const OVERFLOW: usize = 512;

impl Recent {
    fn new() -> Recent {
        Recent { places: vec![FREE; (1 << FIRST_BITS) + OVERFLOW], bits: FIRST_BITS, entries: 0 }
    }

    fn get(&self, key: u128) -> Option<u64> {
        let begin = self.begin(key);
        self.places[begin..]
            .iter()
            .take_while(|place| place.value != 0)
            .find(|place| place.key == key)
            .map(|place| place.value - 1)
    }

    fn put(&mut self, entry: Entry) {
        if self.entries * 2 >= 1 << self.bits {
            self.grow();
        }
        let begin = self.begin(entry.key);
        let value = entry.value.saturating_add(1);
        let at = self.places[begin..].iter().position(|place| place.value == 0 || place.key == entry.key);
        match at.map(|at| &mut self.places[begin + at]) {
            Some(place) => {
                self.entries += usize::from(place.value == 0);
                *place = Entry { key: entry.key, value };
            }
            None => {
                self.places.push(Entry { key: entry.key, value });
                self.entries += 1;
            }
        }
    }

    /// All entries in the order of their keys; they have to be cleared afterwards.
    fn sorted(&mut self) -> &[Entry] {
        self.places.retain_mut(|place| {
            let used = place.value != 0;
            place.value = place.value.wrapping_sub(1);
            used
        });
        // Almost in order: each moves a few places at most.
        for at in 1..self.places.len() {
            let entry = self.places[at];
            let mut to = at;
            while to > 0 && self.places[to - 1].key > entry.key {
                self.places[to] = self.places[to - 1];
                to -= 1;
            }
            self.places[to] = entry;
        }
        &self.places
    }

    fn clear(&mut self) {
        self.places.clear();
        self.places.resize((1 << self.bits) + OVERFLOW, FREE);
        self.entries = 0;
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.places);
        self.bits += 1;
        self.clear();
        for entry in old.into_iter().filter(|place| place.value != 0) {
            self.put(Entry { value: entry.value - 1, ..entry });
        }
    }

    fn begin(&self, key: u128) -> usize {
        (key >> (128 - self.bits)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::state;
    use super::*;
    use siphasher::sip128::{Hasher128, SipHasher24};
    use std::hash::Hasher;

    fn key(n: u64) -> u128 {
        let mut hasher = SipHasher24::new_with_keys(1, 2);
        hasher.write_u64(n);
        hasher.finish128().as_u128()
    }

    #[test]
    fn what_was_put_last_is_found() {
        for memory in [0, 200_000, 500_000_000] {
            let (_folder, mut state) = state(memory);
            let mut table = Table::new(Shares::of(memory));
            let count: u64 = 30_000;
            for n in 0..count {
                assert_eq!(table.get(&mut state, key(n)).unwrap(), None, "{n} was never put");
                table.put(&mut state, key(n), n).unwrap();
                if n % 3 == 0 {
                    let earlier = n / 2;
                    table.put(&mut state, key(earlier), n + count).unwrap();
                    assert_eq!(table.get(&mut state, key(earlier)).unwrap(), Some(n + count));
                }
            }
            for n in 0..count {
                // The last that was put in its place.
                let last = [2 * n + 1, 2 * n].into_iter().find(|m| m % 3 == 0 && *m < count);
                let expected = last.map_or(n, |m| m + count);
                assert_eq!(table.get(&mut state, key(n)).unwrap(), Some(expected), "{n}");
            }
            let runs = table.runs.len();
            assert!(runs <= 12 && (runs > 0) == (memory < 500_000_000), "{runs} runs");
        }
    }

    #[test]
    fn keys_at_the_ends_find_a_place() {
        let (_folder, mut state) = state(0);
        let mut table = Table::new(Shares::of(0));
        let keys: Vec<u128> = (0..3000).map(|n| if n % 2 == 0 { u128::MAX - n } else { n }).collect();
        for (n, &key) in keys.iter().enumerate() {
            table.put(&mut state, key, n as u64).unwrap();
        }
        for (n, &key) in keys.iter().enumerate() {
            assert_eq!(table.get(&mut state, key).unwrap(), Some(n as u64));
        }
    }
}
