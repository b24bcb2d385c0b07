//! The index of a list: for each row with an address, the number of the address among the different ones, in the order in which
//! they first occur. A list without duplicates has no index, since its numbers are those of the rows with an address.

use crate::contents::SourceError;
use std::sync::Arc;
use store::{LIST_INDEX_NUMBER_BYTES, LIST_PART_BYTES, List, StoreError};
use store_rules::Store;

/// Bytes of a number.
const NUMBER_BYTES: usize = LIST_INDEX_NUMBER_BYTES as usize;
/// Numbers in a part.
const PART_NUMBERS: usize = LIST_PART_BYTES / NUMBER_BYTES;

/// Reads the numbers from the first row on.
#[derive(Default)]
pub struct Index {
    part: Vec<u8>,
    at: usize,
    next_part: u32,
    /// The number of rows with an address that were read.
    read: u64,
}

impl Index {
    /// The number of the address in the next row with an address.
    ///
    /// # Errors
    /// The store cannot be read, or a part is missing, because the list was deleted.
    pub fn next(&mut self, store: &Arc<Store>, list: &List) -> Result<u64, SourceError> {
        self.read += 1;
        if list.to_check() == list.addresses {
            return Ok(self.read - 1);
        }
        if self.at == self.part.len() {
            let part = store.list_index(list, self.next_part).wait().map_err(SourceError::Store)?;
            let missing = || SourceError::Unfit("a part of the index is missing".into());
            (self.part, self.at) = (part.ok_or_else(missing)?, 0);
            self.next_part += 1;
        }
        let damaged = || SourceError::Unfit("the index is damaged".into());
        let number = self.part[self.at..].first_chunk().ok_or_else(damaged)?;
        self.at += NUMBER_BYTES;
        Ok(u32::from_le_bytes(*number).into())
    }
}

/// Writes the numbers from the first row on.
#[derive(Default)]
pub struct IndexWriter {
    part: Vec<u8>,
    next_part: u32,
}

impl IndexWriter {
    /// Adds a number.
    ///
    /// # Errors
    /// The store cannot be written. `false`: the list is not being read any longer.
    pub fn push(&mut self, store: &Arc<Store>, list: &List, number: u32) -> Result<bool, StoreError> {
        self.part.extend_from_slice(&number.to_le_bytes());
        if self.part.len() < PART_NUMBERS * NUMBER_BYTES { Ok(true) } else { self.flush(store, list) }
    }

    /// Writes what was added.
    ///
    /// # Errors
    /// As [`IndexWriter::push`].
    pub fn flush(&mut self, store: &Arc<Store>, list: &List) -> Result<bool, StoreError> {
        if self.part.is_empty() {
            return Ok(true);
        }
        let is_read = store.put_list_index(list, self.next_part, &self.part).wait()?;
        self.part.clear();
        self.next_part += 1;
        Ok(is_read)
    }
}
