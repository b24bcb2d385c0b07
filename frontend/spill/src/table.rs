//! Any number of keys with their numbers: a log-structured merge tree (O'Neil and others, 1996).
//!
//! The latest keys are in memory. When that memory is full, they become a run in the state. Four runs of a level become one
//! run of the next level. A search looks in memory and then in the runs, the newest first. A filter in memory excludes most
//! runs that do not contain the key. So a new key costs no read, and a known key about one. The filters take memory from the
//! keys in memory, down to a minimum: memory grows little with the number of keys.

use super::run::{RunEntry, RunWriter, SortedRun};
use super::{Shares, State};
use crate::SpillError;

/// A table of keys and numbers. Keys must be evenly distributed, as keyed hashes are.
pub struct Table {
    recent: Recent,
    recent_max: usize,
    /// Bytes for keys in memory, including the part that filters take.
    recent_bytes: usize,
    /// The runs with their levels, the oldest first.
    runs: Vec<(u32, SortedRun)>,
    filter_bytes: usize,
}

/// Number of runs of a level that are merged.
const FANOUT: usize = 4;
/// Minimum number of keys in a run.
const RECENT_MIN: usize = 1024;
/// The keys in memory keep at least one part in this many of their memory.
const RECENT_PART: usize = 4;

impl Table {
    /// A table with these shares of the memory.
    pub fn new(shares: Shares) -> Table {
        // One run can take most of the memory: the others together are smaller.
        let filter_bytes = shares.filters / 4 * 3;
        let recent_max = recent_max(shares.recent);
        let recent_bytes = shares.recent;
        Table { recent: Recent::new(), recent_max, recent_bytes, runs: Vec::new(), filter_bytes }
    }

    /// The number of a key.
    ///
    /// # Errors
    /// The state fails.
    #[inline]
    pub fn get(&self, state: &mut State, key: u128) -> Result<Option<u64>, SpillError> {
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

    /// Sets the number of a key, and replaces an earlier one.
    ///
    /// # Errors
    /// The state fails.
    #[inline]
    pub fn put(&mut self, state: &mut State, key: u128, value: u64) -> Result<(), SpillError> {
        self.recent.put(RunEntry { key, value });
        if self.recent.entries < self.recent_max { Ok(()) } else { self.put_away(state) }
    }

    /// Writes the keys in memory as a run, and merges runs.
    fn put_away(&mut self, state: &mut State) -> Result<(), SpillError> {
        let mut writer = RunWriter::new(self.recent.entries, self.filter_bytes);
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
            let merged = SortedRun::merge(state, newest_first, self.filter_bytes)?;
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

/// Maximum number of keys in this number of bytes: half of the slots that fit, as a power of two.
fn recent_max(bytes: usize) -> usize {
    let places = (bytes / size_of::<RunEntry>()).max(2 * RECENT_MIN);
    1 << (places.ilog2() - 1)
}

/// Entries in memory. The upper bits of a key select a slot, and the entry is in the first free slot from there. So the
/// entries are always almost sorted.
struct Recent {
    /// The slots. A value is stored plus one: 0 marks a free slot. The last slots are for entries that find the end full.
    places: Vec<RunEntry>,
    /// Number of upper bits of a key that select its slot.
    bits: u32,
    entries: usize,
}

const FREE: RunEntry = RunEntry { key: 0, value: 0 };
const FIRST_BITS: u32 = 10;
/// Number of additional slots at the end. With evenly distributed keys and half of the slots free, no longer sequence of
/// occupied slots occurs.
const OVERFLOW: usize = 512;

impl Recent {
    fn new() -> Recent {
        Recent { places: vec![FREE; (1 << FIRST_BITS) + OVERFLOW], bits: FIRST_BITS, entries: 0 }
    }

    #[inline]
    fn get(&self, key: u128) -> Option<u64> {
        let begin = self.begin(key);
        self.places[begin..]
            .iter()
            .take_while(|place| place.value != 0)
            .find(|place| place.key == key)
            .map(|place| place.value - 1)
    }

    #[inline]
    fn put(&mut self, entry: RunEntry) {
        if self.entries * 2 >= 1 << self.bits {
            self.grow();
        }
        let begin = self.begin(entry.key);
        let value = entry.value.saturating_add(1);
        let at = self.places[begin..].iter().position(|place| place.value == 0 || place.key == entry.key);
        match at.map(|at| &mut self.places[begin + at]) {
            Some(place) => {
                self.entries += usize::from(place.value == 0);
                *place = RunEntry { key: entry.key, value };
            }
            None => {
                self.places.push(RunEntry { key: entry.key, value });
                self.entries += 1;
            }
        }
    }

    /// All entries, sorted by their keys. The caller must call [`Recent::clear`] afterwards.
    fn sorted(&mut self) -> &[RunEntry] {
        self.places.retain_mut(|place| {
            let used = place.value != 0;
            place.value = place.value.wrapping_sub(1);
            used
        });
        // The entries are almost sorted, so each moves at most a few slots.
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
            self.put(RunEntry { value: entry.value - 1, ..entry });
        }
    }

    fn begin(&self, key: u128) -> usize {
        (key >> (128 - self.bits)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::state;
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
                // The number that was put last.
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
