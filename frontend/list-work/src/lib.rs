//! The work on lists, for the API and the dashboard: upload in parts, search for duplicates, check batch by batch, results.
//!
//! - [`upload::PartWriter`] stores the content while it arrives.
//! - [`work::Lists`] is the thread that reads lists and submits their batches. `distinct` finds duplicates with a sort on disk
//!   (`sort`), and writes the index of the list, which `index` reads.
//! - [`actions`] starts, cancels and deletes lists.
//! - [`downloads`] is the thread that makes results ([`results`]) while they are sent.
//!
//! The store keeps content, index and answers in sealed parts. Invariants: memory does not depend on the length of a list; each
//! different address is asked about once and costs at most one credit; after a crash, the work continues where it was.

pub mod actions;
mod distinct;
pub mod downloads;
mod index;
pub mod results;
mod sort;
pub mod upload;
pub mod work;

use actions::Actions;
use checks::batch::{self, NewBatches};
use downloads::Downloads;
use lists::{Limits, ListError, ReadOptions, Row, Source, Step};
use std::fmt;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use store::{List, ListRoom, Store, StoreError};
use work::Lists;

/// The number of addresses in each batch of a list.
pub const BATCH_ADDRESSES: u64 = store::BATCH_ROWS_MAX as u64;

/// Most bytes of the lists of all accounts.
const ALL_BYTES_MAX: u64 = 4 << 30;
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
/// Most characters of the name of a list.
pub const NAME_CHARS_MAX: usize = 100;

/// The work on lists of a server, which all threads share.
pub struct ListWork {
    /// Largest list, in bytes.
    pub bytes_max: u64,
    /// Starts, cancels and deletes lists.
    pub actions: Actions,
    /// Makes results.
    pub downloads: Downloads,
}

impl ListWork {
    /// Starts the threads. Temporary files are in the folder `data`. `limits` are those of the batches.
    ///
    /// # Errors
    /// A thread could not be started, or the store or the folder cannot be read.
    pub fn start(
        store: &Arc<dyn Store>,
        new_batches: &Arc<NewBatches>,
        data: &Path,
        bytes_max: u64,
        limits: batch::Limits,
    ) -> io::Result<Arc<ListWork>> {
        let lists = Lists::start(Arc::clone(store), Arc::clone(new_batches), data.to_owned())?;
        Ok(Arc::new(ListWork {
            bytes_max,
            actions: Actions::new(Arc::clone(store), Arc::clone(new_batches), lists, limits),
            downloads: Downloads::start(Arc::clone(store))?,
        }))
    }

    /// The limits on the bytes of lists.
    pub fn room(&self) -> ListRoom {
        ListRoom { account: self.bytes_max * 2, all: ALL_BYTES_MAX.max(self.bytes_max * 2) }
    }
}

/// The reason why a list cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum SourceError {
    /// The store cannot be read now. The list can be read later.
    Store(StoreError),
    /// One line for the owner: the file cannot be read as a list.
    Unfit(String),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Store(error) => error.fmt(f),
            SourceError::Unfit(why) => f.write_str(why),
        }
    }
}

/// The rows of a list, and the error of the store if its content could not be read.
struct ListSource {
    source: Source,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl ListSource {
    /// Moves to the next row, as [`Source::step`].
    fn step(&mut self, row: &mut Row) -> Result<Step, SourceError> {
        self.source.step(row).map_err(|error| of_store(&self.failure, error.to_string()))
    }
}

impl Deref for ListSource {
    type Target = Source;

    fn deref(&self) -> &Source {
        &self.source
    }
}

/// The error of the store that was the cause; otherwise the list is unfit.
fn of_store(failure: &Mutex<Option<StoreError>>, why: String) -> SourceError {
    let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(SourceError::Unfit(why), SourceError::Store)
}

/// A reader of the content of a list, as it was uploaded.
struct Parts {
    store: Arc<dyn Store>,
    list: List,
    next: u32,
    part: Vec<u8>,
    at: usize,
    /// Bytes that are not read yet.
    left: u64,
    /// The error of the store. The reader of lists turns errors into text.
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let part = self.store.list_part(&self.list, self.next).wait().map_err(|error| {
                let text = error.to_string();
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                io::Error::other(text)
            })?;
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
/// The store cannot be read, or the file cannot be read as a list.
fn source(store: Arc<dyn Store>, list: &List) -> Result<ListSource, SourceError> {
    let failure = Arc::default();
    let parts = Box::new(Parts {
        left: list.bytes,
        store,
        list: list.clone(),
        next: 0,
        part: Vec::new(),
        at: 0,
        failure: Arc::clone(&failure),
    });
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
    let source = Source::new(parts, "The list", None, &options).map_err(|error| {
        let why = match error {
            ListError::Unreadable(message) => message,
            ListError::NoAddress(message) => {
                format!("{message}: name the column of the addresses, or its number, as `column`")
            }
            ListError::Column(message) => format!("{message}; name one of them, or its number, as `column`"),
            ListError::Key(message) => format!("{message}; name one of them as `column`"),
            ListError::NoColumns(message) => format!("{message}: upload the list without `column`"),
        };
        of_store(&failure, why)
    })?;
    Ok(ListSource { source, failure })
}
