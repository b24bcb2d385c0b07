//! Lists of addresses (CSV, JSON lines, text, compressed, in several encodings): each row is written once, with its address and its
//! verdict in their columns, whatever the pieces of the list.
//!
//! An input is a byte for the requested column, and the list.

use crate::grammar::Grammar;
use crate::input::{Pieces, one, one_line};
use api::Reason;
use csv::ReaderBuilder;
use fastrand::Rng;
use flate2::Compression;
use flate2::write::GzEncoder;
use lists::{Encoding, Limits, ReadOptions, Row, Source, address_in_cell, reasons};
use std::io::{Cursor, Read, Write};
use std::sync::LazyLock;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar::of(include_str!("../../grammars/list.txt")));
const COLUMNS: [&[&str]; 7] = [&[], &[], &[], &["email"], &["2"], &["x"], &["1", "2"]];

pub fn grow(random: &mut Rng) -> Vec<u8> {
    if random.u8(..4) == 0 {
        return [&[random.u8(..)], &*spreadsheet(random)].concat();
    }
    let mut text = String::new();
    if random.u8(..6) == 0 {
        text.push('\u{feff}');
    }
    let end = one(random, &["\n", "\r\n", "\n\n"]);
    let parted = one(random, &[",", ";", "\t", ",", "|"]);
    let form = random.u8(..4);
    for row in 0..random.usize(..12) {
        let address = GRAMMAR.grow("address", random);
        match form {
            0 => text.push_str(&address),
            1 => text.push_str(&format!("{{\"email\":{},\"n\":[1,{{}}]}}", serde_json::json!(address))),
            _ if row == 0 && form == 2 => text.push_str(&["id", "E-Mail", "x"].join(parted)),
            _ => {
                let value = GRAMMAR.grow("value", random);
                text.push_str(&[&*value, &address.replace('"', "\"\""), &*value].join(parted));
            }
        }
        text.push_str(end);
    }
    let mut bytes = match random.u8(..6) {
        0 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        1 => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        2 => text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        _ => text.into_bytes(),
    };
    if random.u8(..8) == 0 {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory cannot fail; otherwise an empty list is used.
        bytes = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    }
    [&[random.u8(..)], &*bytes].concat()
}

/// A spreadsheet with random cells: xlsx or ods, in stored parts, so that changed bytes reach the parsers.
fn spreadsheet(random: &mut Rng) -> Vec<u8> {
    const SHEET: &str = "xl/worksheets/sheet1.xml";
    let is_ods = random.bool();
    let cells = GRAMMAR.grow(if is_ods { "ods" } else { "xlsx" }, random);
    if is_ods {
        let content = format!(
            "<d><table:table table:name=\"a\"><table:table-row>{cells}</table:table-row></table:table></d>"
        );
        return archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
            ("content.xml", &content),
        ]);
    }
    let sheet = format!("<worksheet><sheetData><row>{cells}</row></sheetData></worksheet>");
    archive(&[
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", "<workbook><sheets><sheet name=\"a\" r:id=\"r1\"/></sheets></workbook>"),
        (
            "xl/_rels/workbook.xml.rels",
            "<r><Relationship Id=\"r1\" Type=\"x/worksheet\" Target=\"worksheets/sheet1.xml\"/></r>",
        ),
        ("xl/styles.xml", "<s><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/></cellXfs></s>"),
        (
            "xl/sharedStrings.xml",
            "<sst uniqueCount=\"99999999999\"><si><t>x</t></si><si><t>a@b.example</t></si></sst>",
        ),
        (SHEET, &sheet),
    ])
}

/// A ZIP archive of stored parts (APPNOTE 4.3). Readers here do not compare checksums.
fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in parts {
        let start = bytes.len() as u32;
        let length = (content.len() as u32).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        // Version, flags, method, time, date and checksum are zeros.
        let common = [&[0; 14][..], &length, &length, &name_length, &[0; 2]].concat();
        bytes.extend([b"PK\x03\x04", &*common, name.as_bytes(), content.as_bytes()].concat());
        let rest = [&[0; 10][..], &start.to_le_bytes(), name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\0\0", &*common, &*rest].concat());
    }
    let count = (parts.len() as u16).to_le_bytes();
    let (length, start) = ((directory.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &length, &start, &[0; 2]].concat());
    bytes
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&column, bytes)) = input.split_first() else { return Ok(()) };
    let column = COLUMNS[usize::from(column) % COLUMNS.len()];
    let whole = list(Cursor::new(bytes.to_vec()), column);
    let again = list(Pieces::of(bytes), column);
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
    // The positions in a spreadsheet are those in its sheet as CSV.
    let is_spreadsheet = bytes.starts_with(b"PK\x03\x04");
    if !is_spreadsheet && list.rows.last().is_some_and(|row| row.end > bytes.len() as u64) {
        return Err("a row behind the end".into());
    }
    match list.columns {
        Some(columns) => as_csv(&list, columns),
        None => as_json(&list),
    }
}

/// The limits for lists here. The server has larger ones; smaller limits reach the same code sooner.
const LIST_LIMITS: Limits = Limits {
    bytes: 256 * 1024,
    packed_without_output: 4096,
    window_log: 20,
    workbook_bytes: 256 * 1024,
    workbook_text_bytes: 64 * 1024,
    workbook_work: 1 << 20,
    columns: 64,
};

/// The result of reading a list.
#[derive(Debug, PartialEq, Eq)]
struct List {
    /// The rows in their order.
    rows: Vec<ListRow>,
    /// The list in the output of `mailprobe clean` and the dashboard, each row with the same verdict, without its head.
    output: Vec<u8>,
    /// The columns of the output that have the address and the verdict; `None` for JSON lines.
    columns: Option<(usize, usize)>,
    /// What separates the values of the output.
    delimiter: u8,
    /// Whether quotes enclose values.
    has_quotes: bool,
    encoding: Encoding,
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
fn list(input: impl Read + 'static, columns: &[&str]) -> Result<List, String> {
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let options = ReadOptions { columns: &columns, limits: Some(LIST_LIMITS), ..ReadOptions::default() };
    let opened = Source::new(Box::new(input), "The list", None, &options);
    let mut source = opened.map_err(|error| error.to_string())?;
    let shape = source.shape();
    let endings = shape.endings();
    let mut list = List {
        rows: Vec::new(),
        output: Vec::new(),
        columns: shape.address_column().zip(shape.verdict_column()),
        delimiter: shape.delimiter(),
        has_quotes: shape.has_quotes(),
        encoding: shape.encoding,
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
        for bytes in endings.pieces(&row.prefix, reasons::code(REASON)) {
            list.output.extend_from_slice(bytes);
        }
        if !row.is_continued {
            let address = row.address.as_ref().map(|address| address.as_str().to_owned());
            list.rows.push(ListRow { address, end: row.end });
        }
    }
}

/// The reason of all rows.
const REASON: Reason = Reason::Unverifiable;

/// The part that does not depend on reading ahead: for a compressed list, without the positions before its end.
fn said(list: &List) -> (Vec<&Option<String>>, &[u8], bool) {
    (list.rows.iter().map(|row| &row.address).collect(), &list.output, list.broken.is_some())
}

/// The output in UTF-8, if it is in UTF-16.
fn readable(list: &List) -> Vec<u8> {
    let unit: fn([u8; 2]) -> u16 = match list.encoding.name() {
        "UTF-16LE" => u16::from_le_bytes,
        "UTF-16BE" => u16::from_be_bytes,
        _ => return list.output.clone(),
    };
    let units: Vec<u16> = list.output.chunks_exact(2).map(|bytes| unit([bytes[0], bytes[1]])).collect();
    String::from_utf16_lossy(&units).into_bytes()
}

/// Checks that the output is CSV with a record for each row, and has the row's address and verdict in their columns.
fn as_csv(list: &List, (address, verdict): (usize, usize)) -> Result<(), String> {
    let output = readable(list);
    let is_utf_16 = output.len() != list.output.len();
    let mut reader = ReaderBuilder::new();
    reader.delimiter(list.delimiter).quoting(list.has_quotes).has_headers(false).flexible(true);
    let mut reader = reader.from_reader(&*output);
    let records: Vec<_> =
        reader.byte_records().collect::<Result<_, _>>().map_err(|error| format!("no CSV: {error}"))?;
    if records.len() != list.rows.len() {
        return Err(format!("{} rows are written as {} records", list.rows.len(), records.len()));
    }
    for (record, row) in records.iter().zip(&list.rows) {
        let cell = record.get(address).unwrap_or_default();
        let text = if is_utf_16 { String::from_utf8_lossy(cell) } else { list.encoding.text(cell) };
        let found = address_in_cell(&text).map(|address| address.as_str().to_owned());
        if found != row.address {
            return Err(format!("{:?} is written as {found:?}", row.address));
        }
        let written = (record.get(verdict), record.get(verdict + 1));
        if written != (Some(reasons::deliverable_csv(REASON).as_bytes()), Some(REASON.as_str().as_bytes())) {
            return Err(format!("the verdict is not in its columns: {written:?}"));
        }
    }
    Ok(())
}

/// Checks that the output has a JSON object per line.
fn as_json(list: &List) -> Result<(), String> {
    let output = readable(list);
    let lines = output.split(|&byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    let mut count = 0;
    for line in lines {
        count += 1;
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) if ["reason", "mailprobe_reason"].iter().any(|key| value[*key].is_string()) => {}
            // Values are copied unchanged, so those that are too deep or too large for the parser are allowed.
            Err(error) if error.to_string().contains("limit") || error.to_string().contains("range") => {}
            other => return Err(format!("a line that is no object with a reason: {other:?}")),
        }
    }
    if count == list.rows.len() { Ok(()) } else { Err(format!("{} rows are {count} lines", list.rows.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreadsheets_are_read() {
        let mut random = Rng::with_seed(1);
        let all: Vec<_> = (0..200).map(|_| list(Cursor::new(spreadsheet(&mut random)), &[])).collect();
        // Many others have no address, or more columns than the limits allow.
        let read = all.iter().flatten().filter(|list| !list.rows.is_empty()).count();
        assert!(read > 20, "{read}");
    }
}
