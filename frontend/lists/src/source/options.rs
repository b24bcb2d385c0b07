//! How a list is read, and the limits for lists of strangers.

use crate::{Format, ResultColumn};

/// How a list is read. The default detects everything, and has no limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// The format; `None`: by the name of the file, else by the content.
    pub format: Option<Format>,
    /// The columns of the addresses, by name or by number from 1, or the JSON key; empty: a column is found by name or content, and a
    /// key by name.
    pub columns: &'a [String],
    /// Whether the first row is a header; `None`: found by its content.
    pub header: Option<bool>,
    /// The name of the sheet of a spreadsheet; `None`: the first one with addresses.
    pub sheet: Option<&'a str>,
    /// The columns of results that the output has after `deliverable` and `reason`.
    pub results: &'a [ResultColumn],
    /// Limits for lists from untrusted users.
    pub limits: Option<Limits>,
}

/// Limits for lists from untrusted users.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of bytes after decompression.
    pub bytes: u64,
    /// Maximum number of compressed bytes in sequence that give no output.
    pub packed_without_output: u64,
    /// Largest window of Zstandard, as a power of two. The window is in memory.
    pub window_log: u32,
    /// Maximum number of bytes of a spreadsheet, of each decompressed part of it, and of its sheet as CSV.
    pub workbook_bytes: u64,
    /// Maximum number of bytes of the texts that cells of a spreadsheet share. They are in memory.
    pub workbook_text_bytes: usize,
    /// Most work to convert a spreadsheet: about the number of bytes of it, of its parts and of its sheet.
    pub workbook_work: u64,
    /// Maximum number of columns. Shorter rows are filled up to the number of columns of the list.
    pub columns: usize,
}
