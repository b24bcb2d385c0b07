//! Lists of addresses (CSV, JSON lines, text, compressed): each row is written once, with its address in its column,
//! whatever the pieces of the list.
//!
//! An input is a byte for the requested column, and the list.

use crate::input::{cut, one};
use csv::ReaderBuilder;
use engine_proto::address::Address;
use fastrand::Rng;
use flate2::Compression;
use flate2::write::GzEncoder;
use lists::{Limits, Row, Source};
use std::io::{Cursor, Read, Write};

pub const WORDS: [&str; 14] = [
    "email",
    "E-Mail",
    "a@b.example",
    "\"",
    "\"\"",
    "\r\n",
    ",",
    ";",
    "\t",
    "\u{feff}",
    "{\"email\":\"a@b.example\"}\n",
    "reason",
    "address",
    "\n\n",
];
const COLUMNS: [Option<&str>; 6] = [None, None, None, Some("email"), Some("2"), Some("x")];

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    if random.u8(..6) == 0 {
        text.push('\u{feff}');
    }
    let end = one(random, &["\n", "\r\n", "\n\n"]);
    let parted = one(random, &[",", ";", "\t", ","]);
    let form = random.u8(..4);
    for row in 0..random.usize(..12) {
        let address =
            one(random, &["a@b.example", "\"a b\"@c.example", "ü@d.example", "nobody", " e@f.example "]);
        match form {
            0 => text.push_str(address),
            1 => text.push_str(&format!("{{\"email\":{},\"n\":[1,{{}}]}}", serde_json::json!(address))),
            _ if row == 0 && form == 2 => text.push_str(&["id", "E-Mail", "x"].join(parted)),
            _ => {
                let value = one(random, &["1", "\"x,y\"", "\"a\"\"b\"", "\"c\nd\"", "", "\"open", "e\"f"]);
                text.push_str(&[value, &address.replace('"', "\"\""), value].join(parted));
            }
        }
        text.push_str(end);
    }
    let mut bytes = text.into_bytes();
    if random.u8(..8) == 0 {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory cannot fail; otherwise an empty list is used.
        bytes = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    }
    [&[random.u8(..)], &*bytes].concat()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&column, bytes)) = input.split_first() else { return Ok(()) };
    let column = COLUMNS[usize::from(column) % COLUMNS.len()];
    let whole = list(Cursor::new(bytes.to_vec()), column);
    let pieces = cut(bytes).iter().map(|piece| piece.to_vec()).collect();
    let again = list(Pieces { pieces, at: 0 }, column);
    match (&whole, &again) {
        (Err(_), Err(_)) => {}
        (Ok(whole), Ok(again)) if said(whole) == said(again) => {}
        _ => return Err(format!("in pieces it is {again:?}, whole it is {whole:?}")),
    }
    let list = match whole {
        Ok(list) => list,
        Err(why) => return one_line(&why),
    };
    list.broken.as_deref().map_or(Ok(()), one_line)?;
    if !list.rows.is_sorted_by_key(|row| row.end) {
        return Err("a row that ends before the one before it".into());
    }
    if list.rows.last().is_some_and(|row| row.end > bytes.len() as u64) {
        return Err("a row behind the end".into());
    }
    match list.column {
        Some(column) => as_csv(&list, column),
        None => as_json(&list),
    }
}

/// The limits for lists here. The server has larger ones; smaller limits reach the same code sooner.
const LIST_LIMITS: Limits =
    Limits { bytes: 256 * 1024, packed_without_output: 4096, window_log: 20, columns: 64 };

/// The result of reading a list.
#[derive(Debug, PartialEq, Eq)]
struct List {
    /// The rows in their order.
    rows: Vec<ListRow>,
    /// The list in the output of `mailprobe clean` and the dashboard, each row with the same verdict.
    output: Vec<u8>,
    /// The column of the output that has the address; `None` for JSON lines.
    column: Option<usize>,
    /// What separates the values of the output.
    delimiter: u8,
    /// Whether the output begins with a header.
    header: bool,
    /// The error that ended the reading early.
    broken: Option<String>,
}

/// A row of a list.
#[derive(Debug, PartialEq, Eq)]
struct ListRow {
    /// The parsed address.
    address: Option<String>,
    /// The position of the next row in the input.
    end: u64,
}

/// Reads a list to its end.
///
/// # Errors
///
/// One line: the input is no list.
fn list(input: impl Read + 'static, column: Option<&str>) -> Result<List, String> {
    let opened = Source::new(Box::new(input), "The list", None, None, column, Some(LIST_LIMITS));
    let mut source = opened.map_err(|error| error.to_string())?;
    let shape = source.shape();
    let (suffixes, head) = (shape.suffixes(), shape.head());
    let mut list = List {
        rows: Vec::new(),
        output: head,
        column: shape.address_column(),
        delimiter: shape.delimiter,
        header: !shape.header.is_empty(),
        broken: None,
    };
    let mut row = Row::default();
    loop {
        match source.next(&mut row) {
            Ok(true) => {}
            Ok(false) => return Ok(list),
            Err(error) => {
                list.broken = Some(error.to_string());
                return Ok(list);
            }
        }
        list.output.extend_from_slice(&row.prefix);
        list.output.extend_from_slice(suffixes.last().map_or(&[], Vec::as_slice));
        let address = row.address.as_ref().map(|address| address.as_str().to_owned());
        list.rows.push(ListRow { address, end: row.end });
    }
}

/// The part that does not depend on reading ahead: for a compressed list, without the positions before its end.
fn said(list: &List) -> (Vec<&Option<String>>, &[u8], bool) {
    (list.rows.iter().map(|row| &row.address).collect(), &list.output, list.broken.is_some())
}

fn one_line(why: &str) -> Result<(), String> {
    let printable = !why.is_empty() && !why.chars().any(char::is_control);
    if printable { Ok(()) } else { Err(format!("the message is not one line that can be printed: {why:?}")) }
}

/// Checks that the output is CSV with a record for each row, and has the row's address in its column.
fn as_csv(list: &List, column: usize) -> Result<(), String> {
    let mut reader = ReaderBuilder::new();
    reader.delimiter(list.delimiter).has_headers(list.header).flexible(true);
    let mut reader = reader.from_reader(&*list.output);
    let records: Vec<_> =
        reader.byte_records().collect::<Result<_, _>>().map_err(|error| format!("no CSV: {error}"))?;
    if records.len() != list.rows.len() {
        return Err(format!("{} rows are written as {} records", list.rows.len(), records.len()));
    }
    for (record, row) in records.iter().zip(&list.rows) {
        let text = std::str::from_utf8(record.get(column).unwrap_or_default()).unwrap_or_default();
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let address = Address::parse(text).ok().map(|address| address.as_str().to_owned());
        if address != row.address {
            return Err(format!("{:?} is written as {address:?}", row.address));
        }
    }
    Ok(())
}

/// Checks that the output has a JSON object per line.
fn as_json(list: &List) -> Result<(), String> {
    let lines = list.output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut count = 0;
    for line in lines {
        count += 1;
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) if value.get("reason").is_some_and(serde_json::Value::is_string) => {}
            // Values are copied unchanged, so those that are too deep or too large for the parser are allowed.
            Err(error) if error.to_string().contains("limit") || error.to_string().contains("range") => {}
            other => return Err(format!("a line that is no object with a reason: {other:?}")),
        }
    }
    if count == list.rows.len() { Ok(()) } else { Err(format!("{} rows are {count} lines", list.rows.len())) }
}

/// A reader that returns one piece at a time.
struct Pieces {
    pieces: std::collections::VecDeque<Vec<u8>>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(piece) = self.pieces.front() else { return Ok(0) };
        let count = buffer.len().min(piece.len() - self.at);
        buffer[..count].copy_from_slice(&piece[self.at..self.at + count]);
        self.at += count;
        if self.at == piece.len() {
            self.pieces.pop_front();
            self.at = 0;
        }
        Ok(count)
    }
}
