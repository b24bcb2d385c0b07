//! The formats of lists, besides spreadsheets.

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
