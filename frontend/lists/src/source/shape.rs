//! What the rows of a list look like, and how they are written with a verdict behind them.

use crate::columns::Columns;
use crate::json;
use crate::{Format, Verdict};
use csv::ByteRecord;

/// The form that the list has and keeps. Plain text becomes CSV without a header: a line in, a line out.
#[derive(Debug, Clone)]
pub struct Shape {
    pub format: Format,
    /// Between the values of CSV.
    pub delimiter: u8,
    /// Lines end with CR LF.
    pub crlf: bool,
    /// The list begins with a byte order mark.
    pub bom: bool,
    /// Which column of CSV holds the address.
    pub(crate) columns: Columns,
    /// The names of the columns, where there is a header.
    pub header: ByteRecord,
    /// Which key of a JSON object holds the address.
    pub key: String,
}

impl Shape {
    /// Which column of the output has the address; none where it is JSON lines.
    pub fn address_column(&self) -> Option<usize> {
        (self.format != Format::Jsonl).then_some(self.columns.address)
    }

    /// What stands before the first row: the byte order mark, by which spreadsheets know UTF-8, and the header.
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

    /// What is written behind a row, by the verdict's code. None is empty, and each ends the line.
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

    /// A row of CSV up to its verdict. One that is too short is filled up, so that the verdict stands in its columns;
    /// one that is too long has it behind its last value.
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

    /// One value and the delimiter, in quotes where they are needed: RFC 4180 2.
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
