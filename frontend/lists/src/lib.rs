//! Lists of addresses: CSV, JSON lines and plain text, compressed or not, from a file or a stream.
//!
//! [`Source`] detects the format of a list from its beginning, and reads its rows one after another. [`Shape`] writes each
//! row with its verdict at the end. `mailprobe clean`, the API and the dashboard read and write all lists with these types. [`RowWriter`] also writes rows in another format.
//!
//! - Memory does not depend on the length of a list. A row is at most [`ROW_BYTES_MAX`] long.
//! - The output row has the values of the input row, in the format and the encoding of the list. Values of CSV and text are copied
//!   as bytes; only the cell of the address is decoded (`encoding.rs`) and unwrapped (`address.rs`).
//! - Callers that accept lists of strangers set [`Limits`]: a compressed list may be larger than any disk.

mod address;
mod bounded;
mod class;
mod columns;
mod domains;
mod encoding;
mod json;
mod machine;
pub mod numbers;
mod output;
pub mod report;
mod results;
mod sheets;
mod source;
mod time;
mod verdict;
pub mod words;
mod workbook;
mod writer;

pub use class::Class;
pub use domains::{DomainRows, Domains, domain_text};
pub use encoding::Encoding;
pub use output::{OutputRows, RowClasses};
pub use results::{ResultColumn, Results, VERDICT_NAMES, VerdictNames, WrittenResults};
pub use sheets::{SHEET_COLUMNS_MAX, SheetKeys, SheetNotes, SheetRows, SheetSource, write_sheets};
pub use source::{
    EarlierResult, Endings, FoundRow, Limits, Notes, ROW_BYTES_MAX, ReadOptions, Row, RowParts, RowScan,
    Shape, Source, Step, decompressed, is_spreadsheet, is_stream,
};
pub use time::{utc_seconds, utc_text};
pub use verdict::Verdict;
pub use workbook::{ConvertedSheet, CreateFile, SheetPlace, TemporaryFile};
pub use writer::RowWriter;

use engine_proto::address::Address;
use std::fmt;

/// The address of a cell, without what spreadsheets, mail programs and people write around it. Of several addresses, the first one.
pub fn address_in_cell(text: &str) -> Option<Address> {
    address::in_cell(text).address
}

/// The number of the rule by which the addresses of a list are found: in which rows, and in which cells. A release that finds others
/// has another number, since results of the earlier rule would be in other rows.
pub const RULE: u32 = 2;

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Values separated by commas, semicolons, tabs or pipes (RFC 4180), with or without a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// One address per line.
    Text,
}

/// The reason why a list cannot be read, as one line with a remedy. It names columns, but no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListError {
    /// Reading failed, or the input is not a list.
    Unreadable(String),
    /// This machine has failed: a disk, a temporary file, the memory. It says nothing about the list.
    Machine(String),
    /// The first rows have no address. The caller says how to name the column.
    NoAddress(String),
    /// The column of addresses does not exist, or none looks like it. The caller says where the user names one, or its number.
    Column(String),
    /// The key of addresses does not exist in a list of JSON objects. The caller says where the user names one.
    Key(String),
    /// The user named a column of a list without columns.
    NoColumns(String),
}

impl ListError {
    fn unreadable(message: impl Into<String>) -> ListError {
        ListError::Unreadable(message.into())
    }

    /// A list, or what is at this place of it, cannot be read.
    fn reading(what: impl fmt::Display, error: &std::io::Error) -> ListError {
        let message = format!("{what}: {error}");
        match machine::is_of_machine(error) {
            true => ListError::Machine(message),
            false => ListError::Unreadable(message),
        }
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::Unreadable(message)
            | ListError::Machine(message)
            | ListError::NoAddress(message)
            | ListError::Column(message)
            | ListError::Key(message)
            | ListError::NoColumns(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ListError {}
