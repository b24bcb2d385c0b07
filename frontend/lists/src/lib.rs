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
mod error;
pub mod estimate;
mod format;
mod json;
pub mod left;
mod machine;
pub mod marks;
pub mod numbers;
mod output;
pub mod part;
pub mod reasons;
pub mod report;
mod results;
mod sheets;
pub mod shell;
mod source;
mod time;
pub mod words;
mod workbook;
mod writer;

pub use class::Class;
pub use columns::LeftOutColumn;
pub use domains::{DomainRows, Domains, domain_text};
pub use encoding::Encoding;
pub use error::ListError;
pub use format::Format;
pub use output::{OutputRows, row_class};
pub use reasons::ReasonCounts;
pub use results::{ResultColumn, Results, VERDICT_NAMES, VerdictNames, WrittenResults};
pub use sheets::{SHEET_COLUMNS_MAX, SheetKeys, SheetNotes, SheetRows, SheetSource, write_sheets};
pub use source::{
    EarlierResult, Endings, FoundRow, Limits, Notes, ROW_BYTES_MAX, ReadOptions, Row, RowParts, RowScan,
    Shape, Source, Step, decompressed, is_same_file, is_spreadsheet, is_stream,
};
pub use time::{utc_seconds, utc_text};
pub use workbook::{ConvertedSheet, CreateFile, SheetPlace};
pub use writer::RowWriter;

use engine_proto::address::Address;

/// The address of a cell, without what spreadsheets, mail programs and people write around it. Of several addresses, the first one.
pub fn address_in_cell(text: &str) -> Option<Address> {
    address::in_cell(text).address
}

/// The number of the rule by which the addresses of a list are found: in which rows, and in which cells. A release that finds others
/// has another number, since results of the earlier rule would be in other rows.
pub const RULE: u32 = 3;
