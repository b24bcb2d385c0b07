//! The rows of an output of `mailprobe clean`, with the part that is of the list and the part that is of mailprobe.

use super::list_rows::next_row;
use crate::failure::{Context, Failure};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The columns that mailprobe adds; the first two always.
const RESULTS: [&str; 4] = ["deliverable", "reason", "rule", "checked_at"];

/// A row of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRow {
    /// All its bytes.
    pub text: String,
    /// The length of the part that is of the list.
    pub own: usize,
    /// The reason of its verdict.
    pub reason: String,
}

impl OutputRow {
    /// The part that is of the list.
    pub fn own(&self) -> &str {
        &self.text[..self.own]
    }
}

/// Reads the rows of an output in the form of its name: `.jsonl`, otherwise CSV, and `.gz` if it is compressed.
pub struct OutputReader {
    path: PathBuf,
    input: BufReader<Box<dyn Read>>,
    is_json: bool,
    /// The header of a CSV; empty if there is none yet, and for JSON lines.
    pub header: String,
}

impl OutputReader {
    /// Opens an output with so many lines before its header.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn open(path: &Path, titles: usize) -> Result<OutputReader, Failure> {
        let (file, name) = (File::open(path).at(path)?, path.to_string_lossy());
        let plain: Box<dyn Read> =
            if name.ends_with(".gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let is_json = name.trim_end_matches(".gz").ends_with(".jsonl");
        let (path, input, mut header) = (path.to_owned(), BufReader::new(plain), String::new());
        let mut reader = OutputReader { path, input, is_json, header: String::new() };
        for _ in 0..titles {
            reader.input.read_line(&mut header).at(&reader.path)?;
        }
        if !is_json && next_row(&mut reader.input, &mut header).at(&reader.path)? {
            reader.header = header;
        }
        Ok(reader)
    }

    /// The next complete row.
    fn next_row(&mut self) -> Result<Option<OutputRow>, Failure> {
        let mut text = String::new();
        // A quote in JSON is behind a backslash or ends a text, and a text has no line end.
        let more = match self.is_json {
            true => self.input.read_line(&mut text).map(|length| length > 0),
            false => next_row(&mut self.input, &mut text),
        };
        if !more.at(&self.path)? {
            return Ok(None);
        }
        text.truncate(text.trim_end_matches('\n').len());
        let row = if self.is_json { of_json(&text) } else { of_csv(&text, &self.header) };
        row.map(Some).ok_or(format!("a row without a verdict: {text}")).at(&self.path)
    }
}

impl Iterator for OutputReader {
    type Item = Result<OutputRow, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

fn of_csv(text: &str, header: &str) -> Option<OutputRow> {
    let names: Vec<&str> = header.split(',').filter(|name| RESULTS.contains(name)).collect();
    let mut cells: Vec<&str> = text.rsplitn(names.len() + 1, ',').collect();
    let own = cells.pop()?.len();
    cells.reverse();
    let at = names.iter().position(|name| *name == "reason")?;
    Some(OutputRow { text: text.to_owned(), own, reason: (*cells.get(at)?).to_owned() })
}

fn of_json(text: &str) -> Option<OutputRow> {
    let object: Value = serde_json::from_str(text).ok()?;
    let own = text.find(",\"deliverable\"")?;
    Some(OutputRow { text: text.to_owned(), own, reason: object.get("reason")?.as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_part_of_the_list_and_a_verdict() {
        let csv = of_csv(
            "1,a@b.example,\"x, \"\"y\"\"\",false,unverifiable,greylisted,2026",
            "n,email,note,deliverable,reason,rule,checked_at",
        )
        .unwrap();
        assert_eq!((csv.own(), &*csv.reason), ("1,a@b.example,\"x, \"\"y\"\"\"", "unverifiable"));
        let plain = of_csv("1,a@b.example,x,true,mailbox_exists", "n,email,note,deliverable,reason").unwrap();
        assert_eq!(plain.own(), "1,a@b.example,x");
        let json = of_json("{\"n\":1,\"deliverable\":false,\"reason\":\"catch_all\"}").unwrap();
        assert_eq!((json.own(), &*json.reason), ("{\"n\":1", "catch_all"));
        assert!(of_csv("x", "n,deliverable,reason").is_none() && of_json("{}").is_none());
    }
}
