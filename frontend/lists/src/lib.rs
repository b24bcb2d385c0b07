//! Lists of addresses: CSV, JSON lines and plain text, compressed or not, from a file or a stream.
//!
//! [`Source`] finds out what a list is from its beginning, and reads its rows one after the other. [`Shape`] writes them
//! again, each with its verdict behind it. `mailprobe clean` and the dashboard read and write lists with these alone.
//!
//! - Memory does not depend on the length of a list. A row is at most [`ROW_BYTES_MAX`] long.
//! - A row comes out with the values that it came in with, in the form of the list.
//! - Whoever takes lists of strangers sets [`Limits`]: a compressed list may be larger than any disk.

mod columns;
mod json;
mod source;
mod verdict;

pub use source::{Limits, ROW_BYTES_MAX, Row, Shape, Source, Step, is_stream};
pub use verdict::Verdict;

use std::fmt;

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Values separated by commas, semicolons or tabs (RFC 4180), with or without a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// One address per line.
    Text,
}

/// Why a list cannot be read: one line that says what is wrong and what to do. It names columns, but no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListError {
    /// The list itself: reading failed, or it is no list.
    Unreadable(String),
    /// The column of addresses: it is not there, or has to be named.
    Column(String),
}

impl ListError {
    fn unreadable(message: impl Into<String>) -> ListError {
        ListError::Unreadable(message.into())
    }

    fn column(message: impl Into<String>) -> ListError {
        ListError::Column(message.into())
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::Unreadable(message) | ListError::Column(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ListError {}
