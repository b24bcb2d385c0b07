//! The rows of an output of `mailprobe clean`, with the part that is of the list and the part that is of mailprobe.

use crate::failure::{Context, Failure};
use crate::soak::list_rows::next_row;
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// The columns that mailprobe adds; the first two always.
const RESULTS: [&str; 4] = ["deliverable", "reason", "rule", "checked_at"];

/// All rows of an output.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The header of a CSV; empty for JSON lines.
    pub header: String,
    /// The rows in their order.
    pub rows: Vec<OutputRow>,
}

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

/// Reads an output in the form of its name: `.csv` or `.jsonl`, and `.gz` if it is compressed.
///
/// # Errors
///
/// The file cannot be read, or a row has no verdict.
pub fn read(path: &Path) -> Result<Output, Failure> {
    let name = path.to_string_lossy();
    let file = File::open(path).at(path)?;
    let plain: Box<dyn Read> =
        if name.ends_with(".gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut input = BufReader::new(plain);
    let is_json = name.trim_end_matches(".gz").ends_with(".jsonl");
    let mut output = Output { header: String::new(), rows: Vec::new() };
    let mut text = String::new();
    loop {
        // A quote in JSON is behind a backslash or ends a text, and a text has no line end.
        let more = match is_json {
            true => next_line(&mut input, &mut text),
            false => next_row(&mut input, &mut text),
        };
        if !more.at(path)? {
            return Ok(output);
        }
        if !is_json && output.header.is_empty() {
            output.header.clone_from(&text);
            continue;
        }
        let row = if is_json { of_json(&text) } else { of_csv(&text, &output.header) };
        output.rows.push(
            row.ok_or_else(|| Failure(format!("{}: a row without a verdict: {text}", path.display())))?,
        );
    }
}

fn next_line(input: &mut impl std::io::BufRead, line: &mut String) -> std::io::Result<bool> {
    line.clear();
    let more = input.read_line(line)? > 0;
    line.truncate(line.trim_end_matches('\n').len());
    Ok(more)
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
