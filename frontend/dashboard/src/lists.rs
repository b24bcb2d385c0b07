//! Lists: uploaded in parts, looked through, checked batch by batch, and given back with their verdicts.
//!
//! [`upload`] takes the file in, [`pages`] shows where it stands, [`work`] is the thread that reads lists and makes
//! their batches, [`download`] gives the result, which the thread of [`downloads`] makes. The content lies sealed in the store's parts; [`Parts`] reads it.

mod cleaned;
pub mod download;
pub mod downloads;
pub mod pages;
pub mod upload;
pub mod work;

use lists::{Limits, Source};
use std::io::{self, Read};
use std::sync::Arc;
use store::{List, Store};

/// Addresses in a batch.
pub const BATCH_ADDRESSES: u64 = store::BATCH_ROWS_MAX as u64;

/// Most of a list unpacked, unless it came unpacked and longer.
const UNPACKED_BYTES_MAX: u64 = 2 << 30;
/// Most packed bytes that may hold nothing.
const HOLLOW_BYTES_MAX: u64 = 256 << 10;
/// The window of Zstandard: 8 MiB, what its levels up to 19 take.
const WINDOW_LOG_MAX: u32 = 23;
/// Most columns.
const COLUMNS_MAX: usize = 1_000;

/// The content of a list, as it was uploaded.
pub struct Parts {
    store: Arc<dyn Store>,
    list: List,
    next: u32,
    part: Vec<u8>,
    at: usize,
    /// Bytes that are to come.
    left: u64,
}

impl Parts {
    /// From its beginning.
    pub fn new(store: Arc<dyn Store>, list: List) -> Parts {
        Parts { left: list.bytes, store, list, next: 0, part: Vec::new(), at: 0 }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let part = self.store.list_part(&self.list, self.next).map_err(io::Error::other)?;
            let Some(part) = part else {
                // It was deleted, and what is left of it must not pass for all of it.
                return if self.left == 0 { Ok(0) } else { Err(io::Error::other("a part of it is gone")) };
            };
            self.left = self.left.saturating_sub(part.len() as u64);
            (self.part, self.at, self.next) = (part, 0, self.next + 1);
        }
        let count = buffer.len().min(self.part.len() - self.at);
        buffer[..count].copy_from_slice(&self.part[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The rows of a list.
///
/// # Errors
/// One line for its owner: the list cannot be read as one.
pub(crate) fn source(store: Arc<dyn Store>, list: &List) -> Result<Source, String> {
    let parts = Box::new(Parts::new(store, list.clone()));
    let column = Some(list.column.as_str()).filter(|column| !column.is_empty());
    // What the command line says to its users is said to those of the page in its own terms.
    let in_words = |said: String| said.replace("with --column", "in the field for the column");
    let limits = Limits {
        bytes: UNPACKED_BYTES_MAX.max(list.bytes),
        packed_without_output: HOLLOW_BYTES_MAX,
        window_log: WINDOW_LOG_MAX,
        columns: COLUMNS_MAX,
    };
    Source::new(parts, "The list", None, None, column, Some(limits))
        .map_err(|error| in_words(error.to_string()))
}
