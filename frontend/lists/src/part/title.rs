//! The first line of a part's file. It shows `--resume` and `--join` whether the file belongs to the list and the options.

use super::ListPart;
use crate::{Format, RULE, Source};
use serde::{Deserialize, Serialize};

/// The description of a part, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTitle {
    /// The rule that distributes the rows: [`RULE`].
    part_rule: u32,
    part: u32,
    parts: u32,
    /// Whether the checks are fast ones.
    pub fast: bool,
    format: String,
    /// The number of the column of addresses from 1, or the key of JSON objects. Empty for plain text.
    column: String,
    /// The number of the header row from 1; 0 if there is no header. `None` in a file of an earlier release.
    #[serde(default)]
    header_row: Option<usize>,
    /// Size of INPUT; `None` for a stream.
    list_bytes: Option<u64>,
}

impl PartTitle {
    /// The title of a part of an open list.
    pub fn new(part: ListPart, source: &Source, fast: bool) -> PartTitle {
        let shape = source.shape();
        let (format, column) = match shape.format {
            Format::Csv => ("csv", shape.address_column().map_or(0, |at| at + 1).to_string()),
            Format::Jsonl => ("jsonl", shape.key.clone()),
            Format::Text => ("text", String::new()),
        };
        PartTitle {
            part_rule: RULE,
            part: part.index(),
            parts: part.count(),
            fast,
            format: format.to_owned(),
            column,
            header_row: Some(shape.header_row().unwrap_or(0)),
            list_bytes: source.size(),
        }
    }

    /// The line, with its end.
    pub fn line(&self) -> Vec<u8> {
        // Numbers and texts can always be written as JSON.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Reads a line without its end; `None` if it is no title.
    pub fn read(line: &[u8]) -> Option<PartTitle> {
        serde_json::from_slice(line).ok()
    }

    /// The difference from the title that the list and the options require, as the end of a sentence about the file; `None` if
    /// there is none. Two sizes of the list differ only if both are known.
    pub fn difference(&self, wanted: &PartTitle) -> Option<String> {
        if self.part_rule != wanted.part_rule {
            return Some(
                "was made by a release with another rule for parts: make all parts with one release"
                    .to_owned(),
            );
        }
        if (self.part, self.parts) != (wanted.part, wanted.parts) {
            return Some(format!(
                "has another name than it should: it is part {} of {}",
                self.part, self.parts
            ));
        }
        if (&self.format, &self.column) != (&wanted.format, &wanted.column) {
            let said = |title: &PartTitle| match title.column.as_str() {
                "" => title.format.clone(),
                column => format!("{}, column {column}", title.format),
            };
            let (is, wants) = (said(self), said(wanted));
            return Some(format!(
                "was made with other options ({is}; now {wants}): give the same --format and --column as for the parts"
            ));
        }
        if let (Some(is), Some(wants)) = (self.header_row, wanted.header_row)
            && is != wants
        {
            let said =
                |row| if row == 0 { "no header".to_owned() } else { format!("the header in row {row}") };
            let (is, wants) = (said(is), said(wants));
            return Some(format!(
                "was made with other options ({is}; now {wants}): give the same --header or --no-header as for the parts"
            ));
        }
        if self.fast != wanted.fast {
            let said = |fast| if fast { "--fast" } else { "without --fast" };
            let (is, wants) = (said(self.fast), said(wanted.fast));
            return Some(format!(
                "was made with other options ({is}; expected {wants}): make all parts with the same options"
            ));
        }
        match (self.list_bytes, wanted.list_bytes) {
            (Some(was), Some(is)) if was != is => {
                Some(format!("was made from a list of {was} bytes, and INPUT has {is}: use the same INPUT"))
            }
            _ => None,
        }
    }
}
