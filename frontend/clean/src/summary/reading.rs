//! How the list was read: a wrong separator or encoding shows here.

use lists::{Format, Notes, Source};
use std::fmt;

/// How the list was read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The format, the separator, the encoding and the columns of addresses, for people.
    description: String,
    format: &'static str,
    encoding: &'static str,
    separator: Option<char>,
    quotes: Option<&'static str>,
    /// The columns of addresses, from 1.
    columns: Vec<usize>,
    /// The row that is the header, from 1.
    header_row: Option<usize>,
    notes: Notes,
}

impl Reading {
    /// How a list was read that has been read to its end.
    pub(crate) fn of(source: &Source) -> Reading {
        let shape = source.shape();
        let (format, separator) = match shape.format {
            Format::Csv => ("csv", Some(char::from(shape.delimiter()))),
            Format::Jsonl => ("jsonl", None),
            Format::Text => ("text", None),
        };
        Reading {
            description: source.description(),
            format,
            encoding: shape.encoding.name(),
            separator,
            quotes: separator.map(|_| shape.quotes()),
            columns: shape.input_columns().iter().map(|column| column + 1).collect(),
            header_row: shape.header_row(),
            notes: source.notes(),
        }
    }

    /// The format, the separator, the encoding, the sheet and the columns of addresses, for people.
    pub(super) fn description(&self) -> &str {
        &self.description
    }

    /// What is unusual about the rows, for people.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lines(self.encoding)
    }

    /// The same for scripts.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "description": self.description,
            "format": self.format,
            "encoding": self.encoding,
            "separator": self.separator,
            "quotes": self.quotes,
            "columns": self.columns,
            "header_row": self.header_row,
            "undecoded_rows": self.notes.undecoded_rows.count,
            "cells_with_more": self.notes.cells_with_more.count,
            "long_rows": self.notes.long_rows.count,
            "nested_values": self.notes.nested_values.count,
            "empty_lines": self.notes.empty_lines,
        })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "read as {}", self.description)?;
        self.notes().iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}
