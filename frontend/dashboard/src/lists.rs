//! Lists: uploaded in parts, counted, checked batch by batch, and downloaded with their verdicts.
//!
//! [`upload`] receives the file and [`pages`] shows its state. [`work`] is the thread that reads lists and submits their
//! batches. [`download`] sends the result, which the thread of [`downloads`] makes. The store keeps the content in sealed
//! parts; [`Parts`] reads them.

mod cleaned;
pub mod download;
pub mod downloads;
pub mod pages;
pub mod upload;
pub mod work;

use lists::{Limits, ListError, ReadOptions, Source};
use std::io::{self, Read};
use std::sync::Arc;
use store::{List, Store};

/// The number of addresses in each batch of a list.
pub const BATCH_ADDRESSES: u64 = store::BATCH_ROWS_MAX as u64;

/// Most decompressed bytes of a list. A list that was uploaded uncompressed can be larger.
const UNPACKED_BYTES_MAX: u64 = 2 << 30;
/// Most compressed bytes in sequence that decompress to nothing.
const HOLLOW_BYTES_MAX: u64 = 256 << 10;
/// Largest window of Zstandard, as a power of two: 8 MiB, which its levels up to 19 use.
const WINDOW_LOG_MAX: u32 = 23;
/// Most decompressed bytes of each part of a spreadsheet, and of its sheet as CSV: a few seconds of work.
const WORKBOOK_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of the texts that cells of a spreadsheet share. They are in memory while the sheet becomes CSV.
const WORKBOOK_TEXT_BYTES_MAX: usize = 64 << 20;
/// Most columns of a list.
const COLUMNS_MAX: usize = 1_000;

/// A reader of the content of a list, as it was uploaded.
pub struct Parts {
    store: Arc<dyn Store>,
    list: List,
    next: u32,
    part: Vec<u8>,
    at: usize,
    /// Bytes that are not read yet.
    left: u64,
}

impl Parts {
    /// A reader at the beginning of the list.
    pub fn new(store: Arc<dyn Store>, list: List) -> Parts {
        Parts { left: list.bytes, store, list, next: 0, part: Vec::new(), at: 0 }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let part = self.store.list_part(&self.list, self.next).wait().map_err(io::Error::other)?;
            let Some(part) = part else {
                // The list was deleted. The parts that were read must not pass as the whole list.
                return if self.left == 0 { Ok(0) } else { Err(io::Error::other("a part is missing")) };
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
/// One line for the owner: the file cannot be read as a list.
pub(crate) fn source(store: Arc<dyn Store>, list: &List) -> Result<Source, String> {
    let parts = Box::new(Parts::new(store, list.clone()));
    let columns = Vec::from_iter(Some(list.column.clone()).filter(|column| !column.is_empty()));
    let limits = Limits {
        bytes: UNPACKED_BYTES_MAX.max(list.bytes),
        packed_without_output: HOLLOW_BYTES_MAX,
        window_log: WINDOW_LOG_MAX,
        workbook_bytes: WORKBOOK_BYTES_MAX,
        workbook_text_bytes: WORKBOOK_TEXT_BYTES_MAX,
        columns: COLUMNS_MAX,
    };
    let options = ReadOptions { columns: &columns, limits: Some(limits), ..ReadOptions::default() };
    Source::new(parts, "The list", None, &options).map_err(|error| match error {
        ListError::Unreadable(message) => message,
        ListError::NoAddress(message) => {
            format!("{message}: name the column of the addresses, or its number, in the field for the column")
        }
        ListError::Column(message) => {
            format!("{message}; name one of them, or its number, in the field for the column")
        }
        ListError::Key(message) => format!("{message}; name one of them in the field for the column"),
        ListError::NoColumns(message) => format!("{message}: leave the field for the column empty"),
    })
}
