//! The form of the rows of a list, and how they are written with a verdict.

use crate::columns::Columns;
use crate::json;
use crate::{Format, Verdict};
use csv::ByteRecord;

/// The form of a list. The output keeps it, except that plain text becomes CSV without a header: one line per input line.
#[derive(Debug, Clone)]
pub struct Shape {
    pub format: Format,
    /// The delimiter of CSV values.
    pub delimiter: u8,
    /// Whether lines end with CR LF.
    pub crlf: bool,
    /// Whether the list begins with a byte order mark.
    pub bom: bool,
    /// The column of CSV that holds the address.
    pub(crate) columns: Columns,
    /// The names of the columns, if there is a header.
    pub header: ByteRecord,
    /// The key of a JSON object that holds the address.
    pub key: String,
}

impl Shape {
    /// The column of the output that has the address; `None` for JSON lines.
    pub fn address_column(&self) -> Option<usize> {
        (self.format != Format::Jsonl).then_some(self.columns.address)
    }

    /// The number of columns of the first row.
    pub(crate) fn column_count(&self) -> usize {
        self.columns.count
    }

    /// The output before the first row: the byte order mark, by which spreadsheets recognize UTF-8, and the header.
    pub fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.bom && self.format == Format::Csv {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        if self.columns.header {
            self.values(self.header.iter(), &mut out);
            self.end("deliverable", "reason", &mut out);
        }
        out
    }

    /// The ends of rows, by the code of the verdict. Code 0 has an empty one. Every other ends the line.
    pub fn suffixes(&self) -> Vec<Vec<u8>> {
        let suffix = |verdict: Verdict| {
            let mut out = Vec::new();
            match self.format {
                Format::Jsonl => json::verdict(verdict.deliverable_json(), verdict.reason, &mut out),
                Format::Csv | Format::Text => self.end(verdict.deliverable_csv(), verdict.reason, &mut out),
            }
            out
        };
        std::iter::once(Vec::new()).chain(Verdict::all().map(suffix)).collect()
    }

    /// Writes a row of CSV up to its verdict. A row that is too short is filled up, so that the verdict is in its columns. In
    /// a row that is too long, the verdict follows the last value.
    pub fn values<'a>(&self, fields: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        let mut count = 0;
        for field in fields {
            self.value(field, out);
            count += 1;
        }
        for _ in count..self.columns.count {
            out.push(self.delimiter);
        }
    }

    fn end(&self, deliverable: &str, reason: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(deliverable.as_bytes());
        out.push(self.delimiter);
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(if self.crlf { b"\r\n" } else { b"\n" });
    }

    /// Writes one value and the delimiter, with quotes if they are needed (RFC 4180 2).
    fn value(&self, field: &[u8], out: &mut Vec<u8>) {
        if field.iter().any(|&b| b == self.delimiter || matches!(b, b'"' | b'\r' | b'\n')) {
            out.push(b'"');
            for &byte in field {
                if byte == b'"' {
                    out.push(b'"');
                }
                out.push(byte);
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(field);
        }
        out.push(self.delimiter);
    }
}
