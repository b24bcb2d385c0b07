//! A queue of records, first in, first out. The part that does not fit into memory is in the state.

use super::{PAYLOAD, State};
use crate::SpillError;
use std::collections::VecDeque;

/// A queue of records. A record is its length (4 bytes) and its bytes, and may span several blocks.
#[derive(Default)]
pub struct Spool {
    /// The bytes to read next, from `read` on.
    head: Vec<u8>,
    read: usize,
    /// Complete blocks between head and tail.
    middle: VecDeque<Block>,
    /// The bytes written last, less than a block.
    tail: Vec<u8>,
    records: u64,
}

enum Block {
    Kept(Box<[u8]>),
    Stored(u32),
}

const LENGTH: usize = 4;

impl Spool {
    /// The number of records in the queue.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record that consists of these parts, less than 4 GiB in total.
    ///
    /// # Errors
    /// The state cannot be written.
    #[inline]
    pub fn push(&mut self, state: &mut State, parts: [&[u8]; 2]) -> Result<(), SpillError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let prefix = u32::try_from(length).map_err(|_| SpillError::failed("a row is too long"))?;
        self.tail.extend_from_slice(&prefix.to_le_bytes());
        for part in parts {
            self.tail.extend_from_slice(part);
        }
        self.records += 1;
        if self.tail.len() >= PAYLOAD { self.put_away(state) } else { Ok(()) }
    }

    /// Takes the first record into `into` and replaces its contents; `false` if there is none.
    ///
    /// # Errors
    /// The state cannot be read.
    #[inline]
    pub fn pop(&mut self, state: &mut State, into: &mut Vec<u8>) -> Result<bool, SpillError> {
        into.clear();
        if self.records == 0 {
            return Ok(false);
        }
        let mut length = [0; LENGTH];
        for byte in &mut length {
            if self.read == self.head.len() {
                self.advance(state)?;
            }
            *byte = self.head[self.read];
            self.read += 1;
        }
        let mut missing = u32::from_le_bytes(length) as usize;
        while missing > 0 {
            if self.read == self.head.len() {
                self.advance(state)?;
            }
            let count = missing.min(self.head.len() - self.read);
            into.extend_from_slice(&self.head[self.read..self.read + count]);
            self.read += count;
            missing -= count;
        }
        self.records -= 1;
        Ok(true)
    }

    /// Moves complete blocks out of the tail.
    fn put_away(&mut self, state: &mut State) -> Result<(), SpillError> {
        let whole = self.tail.len() - self.tail.len() % PAYLOAD;
        for block in self.tail[..whole].chunks_exact(PAYLOAD) {
            // If a block is stored, later blocks are stored too, because they are needed later.
            let block = if !matches!(self.middle.back(), Some(Block::Stored(_))) && state.keep() {
                Block::Kept(block.into())
            } else {
                Block::Stored(state.store(block)?)
            };
            self.middle.push_back(block);
        }
        self.tail.drain(..whole);
        Ok(())
    }

    /// Makes the next block the head.
    fn advance(&mut self, state: &mut State) -> Result<(), SpillError> {
        self.read = 0;
        match self.middle.pop_front() {
            Some(Block::Kept(block)) => {
                state.let_go();
                self.head = block.into_vec();
            }
            Some(Block::Stored(block)) => {
                let mut payload = [0; PAYLOAD];
                state.restore(block, &mut payload)?;
                state.release(block);
                self.head.clear();
                self.head.extend_from_slice(&payload);
            }
            None => {
                self.head.clear();
                std::mem::swap(&mut self.head, &mut self.tail);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::state;

    fn record(n: usize) -> Vec<u8> {
        let length = if n % 1000 == 999 { 20_000 } else { n % 97 };
        (0..length).map(|at| (n * 31 + at) as u8).collect()
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        // No memory, some, and more than needed.
        for memory in [0, 3_000_000, 300_000_000] {
            let (_folder, mut state) = state(memory);
            let mut spool = Spool::default();
            let mut out = Vec::new();
            let (mut pushed, mut popped) = (0, 0);
            while popped < 40_000 {
                // Three pushes per pop, until all records are pushed.
                for _ in 0..3 {
                    if pushed < 40_000 {
                        let record = record(pushed);
                        let (a, b) = record.split_at(record.len() / 3);
                        spool.push(&mut state, [a, b]).unwrap();
                        pushed += 1;
                    }
                }
                assert!(spool.pop(&mut state, &mut out).unwrap());
                assert!(out == record(popped), "record {popped}");
                popped += 1;
                assert_eq!(spool.len(), (pushed - popped) as u64);
            }
            assert!(spool.is_empty() && !spool.pop(&mut state, &mut out).unwrap());
            assert_eq!(state.kept, 0);
            assert_eq!(state.free.len() as u32, state.next - 1, "all blocks are free again");
            assert_eq!(state.next > 1, memory < 300_000_000);
        }
    }
}
