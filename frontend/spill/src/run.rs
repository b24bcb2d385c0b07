//! Entries sorted by their keys, in blocks of the state, with a filter in memory.

use super::filter::Filter;
use super::{PAYLOAD, Payload, State};
use crate::SpillError;

/// A key and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEntry {
    pub key: u128,
    pub value: u64,
}

const ENTRY: usize = 24;
const ENTRIES: usize = PAYLOAD / ENTRY;

/// A sorted run of entries.
pub struct SortedRun {
    /// The first key and the number of each block.
    blocks: Vec<(u128, u32)>,
    filter: Filter,
    entries: usize,
}

impl SortedRun {
    /// The number of entries in the run.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Its size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.filter.bytes() + self.blocks.len() * size_of::<(u128, u32)>()
    }

    /// The number of a key.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn find(&self, state: &mut State, key: u128) -> Result<Option<u64>, SpillError> {
        if !self.filter.may_hold(key) {
            return Ok(None);
        }
        let behind = self.blocks.partition_point(|&(first, _)| first <= key);
        let Some(index) = behind.checked_sub(1) else { return Ok(None) };
        let mut payload = [0; PAYLOAD];
        state.restore(self.blocks[index].1, &mut payload)?;
        let (mut low, mut high) = (0, self.entries_of(index));
        while low < high {
            let middle = usize::midpoint(low, high);
            let entry = entry(&payload, middle);
            match entry.key.cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(entry.value)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// Merges runs, given with the newest first. For equal keys the number of the newest run remains.
    ///
    /// # Errors
    /// The state fails.
    pub fn merge(
        state: &mut State,
        mut runs: Vec<SortedRun>,
        filter_bytes: usize,
    ) -> Result<SortedRun, SpillError> {
        let total = runs.iter().map(SortedRun::len).sum();
        // The old filters are dropped before the new one is created: memory has room for only one of the two.
        runs.iter_mut().for_each(|run| run.filter = Filter::default());
        let mut readers = Vec::with_capacity(runs.len());
        for run in runs {
            readers.push(Reader::new(state, run)?);
        }
        let mut writer = RunWriter::new(total, filter_bytes);
        loop {
            let heads = readers.iter().enumerate().filter_map(|(at, reader)| Some((reader.head?.key, at)));
            // The smallest key; among equal keys the first, from the newest run.
            let Some((key, newest)) = heads.min() else { return writer.finish(state) };
            if let Some(entry) = readers[newest].head {
                writer.push(state, entry)?;
            }
            for reader in &mut readers {
                if reader.head.is_some_and(|head| head.key == key) {
                    reader.advance(state)?;
                }
            }
        }
    }

    fn entries_of(&self, index: usize) -> usize {
        (self.entries - index * ENTRIES).min(ENTRIES)
    }
}

/// Writes a run; its entries must come in order.
pub struct RunWriter {
    run: SortedRun,
    payload: Box<Payload>,
    filled: usize,
}

impl RunWriter {
    /// A writer for at most this number of entries.
    pub fn new(entries: usize, filter_bytes: usize) -> RunWriter {
        let run = SortedRun { blocks: Vec::new(), filter: Filter::new(entries, filter_bytes), entries: 0 };
        RunWriter { run, payload: Box::new([0; PAYLOAD]), filled: 0 }
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn push(&mut self, state: &mut State, entry: RunEntry) -> Result<(), SpillError> {
        if self.filled == ENTRIES {
            self.put_away(state)?;
        }
        if self.filled == 0 {
            self.run.blocks.push((entry.key, 0));
        }
        let place = &mut self.payload[self.filled * ENTRY..][..ENTRY];
        place[..16].copy_from_slice(&entry.key.to_le_bytes());
        place[16..].copy_from_slice(&entry.value.to_le_bytes());
        self.filled += 1;
        self.run.entries += 1;
        self.run.filter.insert(entry.key);
        Ok(())
    }

    /// Ends the run and returns it.
    ///
    /// # Errors
    /// As [`RunWriter::push`].
    pub fn finish(mut self, state: &mut State) -> Result<SortedRun, SpillError> {
        if self.filled > 0 {
            self.put_away(state)?;
        }
        Ok(self.run)
    }

    fn put_away(&mut self, state: &mut State) -> Result<(), SpillError> {
        let block = state.store(&self.payload[..self.filled * ENTRY])?;
        if let Some(last) = self.run.blocks.last_mut() {
            last.1 = block;
        }
        self.filled = 0;
        Ok(())
    }
}

/// Reads the entries of a run in order, and frees its blocks.
struct Reader {
    run: SortedRun,
    payload: Box<Payload>,
    index: usize,
    at: usize,
    head: Option<RunEntry>,
}

impl Reader {
    fn new(state: &mut State, run: SortedRun) -> Result<Reader, SpillError> {
        let mut reader = Reader { run, payload: Box::new([0; PAYLOAD]), index: 0, at: 0, head: None };
        reader.load(state)?;
        Ok(reader)
    }

    fn advance(&mut self, state: &mut State) -> Result<(), SpillError> {
        self.at += 1;
        if self.at < self.run.entries_of(self.index) {
            self.head = Some(entry(&self.payload, self.at));
            return Ok(());
        }
        self.index += 1;
        self.load(state)
    }

    fn load(&mut self, state: &mut State) -> Result<(), SpillError> {
        self.at = 0;
        self.head = match self.run.blocks.get(self.index) {
            Some(&(_, block)) => {
                state.restore(block, &mut self.payload)?;
                state.release(block);
                Some(entry(&self.payload, 0))
            }
            None => None,
        };
        Ok(())
    }
}

fn entry(payload: &Payload, at: usize) -> RunEntry {
    let bytes = &payload[at * ENTRY..][..ENTRY];
    let (mut key, mut value) = ([0; 16], [0; 8]);
    key.copy_from_slice(&bytes[..16]);
    value.copy_from_slice(&bytes[16..]);
    RunEntry { key: u128::from_le_bytes(key), value: u64::from_le_bytes(value) }
}
