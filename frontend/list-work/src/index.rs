//! The index of a list: for each row with an address, the number of the address among the different ones, in the order in which
//! they first occur. A list without duplicates has no index, since its numbers are those of the rows with an address.

use crate::contents::SourceError;
use std::sync::Arc;
use store::{LIST_INDEX_NUMBER_BYTES, LIST_PART_BYTES, List};
use store_rules::Store;

/// Bytes of a number.
const NUMBER_BYTES: usize = LIST_INDEX_NUMBER_BYTES as usize;
/// Bytes of a part, except the last one.
pub const PART_BYTES: usize = LIST_PART_BYTES / NUMBER_BYTES * NUMBER_BYTES;

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
