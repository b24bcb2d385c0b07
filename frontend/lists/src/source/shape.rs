//! The form of the rows of a list, and how they are written with a verdict.

use super::detect::Dialect;
use super::endings::{Endings, Further, Layout, csv_value};
use super::escapes;
use crate::columns::{Columns, LeftOutColumn, VerdictOf};
use crate::encoding::Encoding;
use crate::json;
use crate::{Format, ResultColumn, VERDICT_NAMES, VerdictNames, reasons};
use api::Reason;
use csv::ByteRecord;
use std::borrow::Cow;

/// The form of a list. The output keeps it, except that plain text becomes CSV without a header: one line per input line.
#[derive(Debug, Clone)]
pub struct Shape {
    pub format: Format,
    pub encoding: Encoding,
    pub(crate) dialect: Dialect,
    /// The bytes that a value has only within quotes.
    pub(super) quoted_bytes: [bool; 256],
    /// The line that names the separator, as the input has it; empty if there is none.
    pub(super) separator_line: Vec<u8>,
    pub(crate) columns: Columns,
    /// The titles before the header.
    pub(super) titles: Vec<ByteRecord>,
    /// The names of the columns, if there is a header.
    pub header: ByteRecord,
    /// The key of a JSON object that holds the address.
    pub key: String,
    /// The names of the columns of addresses, or their numbers from 1 if they have none of their own; the key of JSON objects.
    pub chosen: Vec<String>,
    /// The columns with addresses that were not chosen, in the order of the list.
    pub left_out: Vec<LeftOutColumn>,
}

impl Shape {
    /// The separator of CSV values.
    pub fn delimiter(&self) -> u8 {
        self.dialect.delimiter
    }

    /// What a value means.
    pub(crate) fn text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        let text = self.encoding.text(value);
        match self.dialect.has_escapes && text.contains('\\') {
            true => Cow::Owned(escapes::unescaped(&text)),
            false => text,
        }
    }

    /// The number of columns.
    pub(crate) fn column_count(&self) -> usize {
        self.columns.width
    }

    /// Whether an earlier run has added this column, so that the output does not have it.
    pub(crate) fn is_earlier(&self, column: usize) -> bool {
        self.columns.earlier.binary_search(&column).is_ok()
    }

    /// Whether quotes enclose CSV values. Without, they are a part of the values.
    pub fn has_quotes(&self) -> bool {
        self.dialect.has_quotes
    }

    /// How values are quoted, in a word for scripts.
    pub fn quotes(&self) -> &'static str {
        match (self.dialect.has_escapes, self.dialect.has_quotes) {
            (true, _) => "backslash",
            (false, true) => "doubled",
            (false, false) => "none",
        }
    }

    /// The names of earlier verdicts that are of none of the columns of addresses, or perhaps not. The output does not have them.
    pub fn other_verdicts(&self) -> &[String] {
        &self.columns.other_verdicts
    }

    /// The column of the only earlier verdict, if the rows show that it is of none of the columns of addresses.
    pub fn column_of_verdict(&self) -> Option<&str> {
        self.columns.column_of_verdict.as_deref()
    }

    /// Another column with addresses of which the earlier verdicts of the first column may be, because neither their names nor the rows say it.
    pub fn doubtful_column(&self) -> Option<&str> {
        let Columns { earlier_verdicts, other_verdicts, .. } = &self.columns;
        let first = earlier_verdicts.first().and_then(Option::as_ref);
        if self.format != Format::Jsonl && first.is_none_or(|it| it.of != VerdictOf::First) {
            return None;
        }
        let own = self.chosen.iter().zip(earlier_verdicts).skip(1);
        let own = own.filter(|(_, verdict)| verdict.is_none()).map(|(name, _)| name);
        let has_verdict = |name: &str| {
            let end = format!("{name}_{}", VERDICT_NAMES[0]);
            other_verdicts.iter().any(|verdict| verdict.ends_with(&end))
        };
        let mut all = own.chain(self.left_out.iter().map(|column| &column.name)).map(String::as_str);
        all.find(|name| !has_verdict(name))
    }

    /// Number of columns of addresses: each row has as many verdicts.
    pub fn addresses(&self) -> usize {
        self.columns.addresses.len()
    }

    /// The number of columns of the input; `None` for JSON lines and plain text.
    pub fn input_width(&self) -> Option<usize> {
        (self.format == Format::Csv).then_some(self.columns.width)
    }

    /// The columns of the input that have the addresses, from 0; empty for JSON lines.
    pub fn input_columns(&self) -> &[usize] {
        if self.format == Format::Jsonl { &[] } else { &self.columns.addresses }
    }

    /// The column of the output that has the first address; `None` for JSON lines.
    pub fn address_column(&self) -> Option<usize> {
        let address = self.columns.addresses[0];
        let removed = self.columns.earlier.iter().filter(|&&at| at < address).count();
        (self.format != Format::Jsonl).then_some(address - removed)
    }

    /// The column of the output that has `deliverable` of the first address; `None` for JSON lines.
    pub fn verdict_column(&self) -> Option<usize> {
        (self.format != Format::Jsonl).then(|| self.columns.kept())
    }

    /// The text of a column's name, if there is a header.
    pub fn column_name(&self, column: usize) -> Option<String> {
        let name = self.header.get(column).filter(|_| self.columns.has_header)?;
        Some(self.text(name).trim().to_owned())
    }

    /// The names of the first verdict of a row.
    pub(crate) fn verdict_names(&self) -> &VerdictNames {
        &self.columns.verdicts[0]
    }

    /// Whether the list has a header.
    pub fn has_header(&self) -> bool {
        self.columns.has_header
    }

    /// The number of the row that is the header, from 1.
    pub fn header_row(&self) -> Option<usize> {
        self.columns.has_header.then_some(self.columns.titles + 1)
    }

    /// The columns of results that the output has after `deliverable` and `reason`.
    pub fn further_columns(&self) -> &[ResultColumn] {
        &self.columns.further
    }

    /// Number of columns of the output; `None` for JSON lines.
    pub fn output_columns(&self) -> Option<usize> {
        (self.format != Format::Jsonl).then(|| self.columns.kept() + self.columns.added())
    }

    /// The beginning of the output up to the titles.
    pub(crate) fn before_titles(&self) -> Vec<u8> {
        let mut separator_line = self.separator_line.clone();
        self.encoding.encode(&mut separator_line, 0);
        [self.encoding.bom(), &separator_line].concat()
    }

    /// The output before the first row: the byte order mark, by which spreadsheets recognize the encoding, the line that names the
    /// separator, titles and header.
    pub fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // JSON must not begin with a byte order mark (RFC 8259 8.1). UTF-16 is not recognized without.
        if self.format != Format::Jsonl || self.encoding.byte_order().is_some() {
            out.extend_from_slice(self.encoding.bom());
        }
        let from = out.len();
        out.extend_from_slice(&self.separator_line);
        for title in &self.titles {
            self.row(title, &mut out);
            out.extend(std::iter::repeat_n(self.dialect.delimiter, self.columns.added() - 1));
            self.end_line(title, &mut out);
        }
        if self.columns.has_header {
            self.row(&self.header, &mut out);
            for (n, name) in self.columns.verdicts.iter().flat_map(VerdictNames::all).enumerate() {
                if n > 0 {
                    out.push(self.dialect.delimiter);
                }
                self.value(name, &mut out);
            }
            self.end_line(&self.header, &mut out);
        }
        self.encoding.encode(&mut out, from);
        out
    }

    /// The ends of rows, by the code of the verdict.
    pub fn endings(&self) -> Endings {
        let text = |reason: Reason| {
            let mut out = Vec::new();
            match self.format {
                Format::Jsonl => json::verdict(reason, self.verdict_names(), &mut out),
                Format::Csv | Format::Text => {
                    out.extend_from_slice(reasons::deliverable_csv(reason).as_bytes());
                    out.push(self.dialect.delimiter);
                    out.extend_from_slice(reason.as_str().as_bytes());
                }
            }
            out
        };
        Endings::new(&Layout {
            verdicts: Reason::ALL.map(text).to_vec(),
            delimiter: self.dialect.delimiter,
            line_end: self.dialect.line_end,
            has_quotes: self.format != Format::Jsonl && self.dialect.has_quotes,
            has_escapes: self.dialect.has_escapes,
            column: self.verdict_column(),
            encoding: self.encoding,
            quoted_bytes: self.quoted_bytes,
            further: self.further(),
        })
    }

    /// The further columns of results, with the text before each value and after the last one; `None` if there are none.
    fn further(&self) -> Option<Further> {
        let columns = self.columns.further.clone();
        if columns.is_empty() {
            return None;
        }
        let is_json = self.format == Format::Jsonl;
        let leads = match is_json {
            true => self.verdict_names().further.iter().map(|name| json::lead(name)).collect(),
            false => vec![vec![self.dialect.delimiter]; columns.len()],
        };
        let end = [if is_json { &b"}"[..] } else { b"" }, self.dialect.line_end.bytes()].concat();
        Some(Further { columns, leads, end, is_json })
    }

    /// Writes the values of a row up to its verdict. A row that is too short is filled up, so that the verdict is in its columns.
    pub(super) fn row(&self, fields: &ByteRecord, out: &mut Vec<u8>) {
        if self.columns.earlier.is_empty() {
            self.values(fields.iter().take(self.columns.width), self.columns.width, out);
        } else {
            // Both are in ascending order, so that a row costs no more than its columns.
            let mut earlier = self.columns.earlier.iter().peekable();
            let is_kept = |at: &usize| earlier.next_if_eq(&at).is_none();
            let kept = (0..self.columns.width).filter(is_kept).map_while(|at| fields.get(at));
            self.values(kept, self.columns.kept(), out);
        }
    }

    /// Writes values, each with a delimiter behind it. Missing ones up to `count` are empty.
    pub(super) fn values<'a>(&self, fields: impl Iterator<Item = &'a [u8]>, count: usize, out: &mut Vec<u8>) {
        let mut written = 0;
        for field in fields {
            self.value(field, out);
            out.push(self.dialect.delimiter);
            written += 1;
        }
        for _ in written..count {
            out.push(self.dialect.delimiter);
        }
    }

    /// Writes what follows the verdict of a row: the values for which the list has no column, and the line end.
    pub(super) fn end_line(&self, fields: &ByteRecord, out: &mut Vec<u8>) {
        for field in fields.iter().skip(self.columns.width) {
            out.push(self.dialect.delimiter);
            self.value(field, out);
        }
        out.extend_from_slice(self.dialect.line_end.bytes());
    }

    /// Writes one value as CSV.
    pub(crate) fn value(&self, field: &[u8], out: &mut Vec<u8>) {
        match self.dialect.has_escapes {
            true => escapes::write(field, &self.dialect, out),
            false => csv_value(field, &self.quoted_bytes, out),
        }
    }
}
