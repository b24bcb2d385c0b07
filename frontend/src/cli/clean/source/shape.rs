//! What the rows of a list look like, and how they are written with a verdict behind them.

use crate::cli::clean::columns::Columns;
use crate::cli::clean::json::{self, Object};
use crate::cli::clean::{Format, Verdict};
use csv::ByteRecord;

/// What stands in a row.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli::clean) enum Record {
    /// The values of a row of CSV.
    Csv(ByteRecord),
    /// A line of JSON or text, without its end.
    Line(Vec<u8>),
}

impl Record {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Record::Csv(fields) => fields.as_slice().len() + fields.len() * size_of::<usize>(),
            Record::Line(line) => line.len(),
        }
    }
}

/// The form that the list has and keeps. Plain text becomes CSV without a header: a line in, a line out.
#[derive(Debug, Clone)]
pub(in crate::cli::clean) struct Shape {
    pub format: Format,
    /// Between the values of CSV.
    pub delimiter: u8,
    /// Lines end with CR LF.
    pub crlf: bool,
    /// The list begins with a byte order mark.
    pub bom: bool,
    /// Which column of CSV holds the address.
    pub columns: Columns,
    /// The names of the columns, where there is a header.
    pub header: ByteRecord,
    /// Which key of a JSON object holds the address.
    pub key: String,
}

impl Shape {
    /// What stands before the first row: the byte order mark, by which spreadsheets know UTF-8, and the header.
    pub fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.bom && self.format == Format::Csv {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        if self.columns.header {
            self.values(self.header.iter(), "deliverable", "reason", &mut out);
        }
        out
    }

    /// A row with its verdict.
    pub fn encode(&self, record: &Record, verdict: Verdict, out: &mut Vec<u8>) {
        let Verdict { reason, .. } = verdict;
        match record {
            Record::Csv(fields) => self.values(fields.iter(), verdict.deliverable_csv(), reason, out),
            Record::Line(line) if self.format == Format::Jsonl => {
                // The line was parsed when it was read.
                if let Ok(object) = Object::parse(line) {
                    json::write(&object, verdict.deliverable_json(), reason, out);
                }
            }
            Record::Line(line) => {
                self.values(std::iter::once(line.as_slice()), verdict.deliverable_csv(), reason, out);
            }
        }
    }

    /// A row of CSV. One that is too short is filled up, so that the verdict stands in its columns; one that is too
    /// long has it behind its last value.
    fn values<'a>(
        &self,
        fields: impl Iterator<Item = &'a [u8]>,
        deliverable: &str,
        reason: &str,
        out: &mut Vec<u8>,
    ) {
        let mut count = 0;
        for field in fields {
            self.value(field, out);
            count += 1;
        }
        for _ in count..self.columns.count {
            out.push(self.delimiter);
        }
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
