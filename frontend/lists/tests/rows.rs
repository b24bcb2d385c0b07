//! Random lists: the rows come back exactly, none lost, doubled or moved, and each verdict is in its columns.

use lists::{ReadOptions, Row, Source, reasons};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::io::Cursor;

/// How a list is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    charset: Charset,
    has_mark: bool,
    delimiter: char,
    line_end: &'static str,
    has_header: bool,
    /// Whether all values have quotes.
    quotes_all: bool,
    /// Whether the line `sep=` names the delimiter.
    names_delimiter: bool,
    /// Whether the random rows come after many others, so that the sample does not have them.
    is_long: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    Utf8,
    Utf16Le,
    Utf16Be,
    Latin1,
}

const WIDTH: usize = 4;
/// The column of addresses.
const ADDRESS: usize = 2;

fn form() -> impl Strategy<Value = Form> {
    let charset = select(vec![Charset::Utf8, Charset::Utf16Le, Charset::Utf16Be, Charset::Latin1]);
    let delimiter = select(vec![',', ';', '\t', '|']);
    let line_end = select(vec!["\n", "\r\n", "\r"]);
    (charset, any::<bool>(), delimiter, line_end, any::<[bool; 4]>()).prop_map(
        |(charset, has_mark, delimiter, line_end, [has_header, quotes_all, names_delimiter, is_long])| Form {
            charset,
            has_mark: has_mark && charset != Charset::Latin1,
            delimiter,
            line_end,
            has_header,
            quotes_all,
            names_delimiter,
            is_long,
        },
    )
}

/// A value without an address.
fn value() -> impl Strategy<Value = String> {
    let piece =
        select(vec!["a", "b c", ",", ";", "\t", "|", "\"", "\n", "\r\n", "ä", "é", " ", "12", "1,5", "true"]);
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// What stands around an address, and whether the address is asked for.
const AROUND: [(&str, bool); 14] = [
    ("{}", true),
    (" {}\t", true),
    ("'{}", true),
    ("\"{}\"", true),
    ("<{}>", true),
    ("«{}»", true),
    ("\u{a0}{}\u{ad}", true),
    ("Last, First <{}>", true),
    ("mailto://{}?subject=x", true),
    ("SMTP:{}", true),
    ("[Name](mailto:{})", true),
    ("<a href=\"mailto:{}\">Name</a>", true),
    ("={}", false),
    ("%20{}", false),
];

/// The address that is asked for in a cell.
fn asked(cell: &str) -> Option<String> {
    let (_, is_asked) = AROUND.iter().rfind(|(around, _)| {
        let (before, behind) = around.split_once("{}").expect("a place");
        cell.starts_with(before) && cell.ends_with(behind)
    })?;
    let (start, end) =
        (cell.find("user").or(cell.find("first"))?, cell.find("@example.")? + "@example.com".len());
    is_asked.then(|| cell[start..end].to_owned())
}

/// A row of any length, with an address if it is long enough.
fn row() -> impl Strategy<Value = Vec<String>> {
    (vec(value(), 0..WIDTH + 3), 0..1000u32, 0..2 * AROUND.len()).prop_map(|(mut row, number, around)| {
        if let Some((cell, (around, _))) = row.get_mut(ADDRESS).zip(AROUND.get(around)) {
            *cell = around.replace("{}", &format!("user{number}@example.com"));
        }
        // Such a row is a blank line, or a value that another program would read otherwise.
        if row.len() < 2 {
            row = vec!["x".to_owned(), "y".to_owned()];
        }
        row
    })
}

fn written(form: Form, rows: &[Vec<String>]) -> Vec<u8> {
    let mut text = String::new();
    if form.names_delimiter {
        text += &format!("sep={}{}", form.delimiter, form.line_end);
    }
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| {
                let is_special = cell.contains([form.delimiter, '"', '\n', '\r']);
                if is_special || form.quotes_all {
                    format!("\"{}\"", cell.replace('"', "\"\""))
                } else {
                    cell.clone()
                }
            })
            .collect();
        text += &cells.join(&form.delimiter.to_string());
        text += form.line_end;
    }
    encoded(form, &text)
}

fn encoded(form: Form, text: &str) -> Vec<u8> {
    let marked = if form.has_mark { format!("\u{feff}{text}") } else { text.to_owned() };
    match form.charset {
        Charset::Utf8 => marked.into_bytes(),
        Charset::Utf16Le => marked.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Charset::Utf16Be => marked.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Charset::Latin1 => marked.chars().map(|c| u8::try_from(c).expect("Latin-1")).collect(),
    }
}

fn decoded(form: Form, bytes: &[u8]) -> String {
    let units = |unit: fn([u8; 2]) -> u16| -> String {
        assert_eq!(bytes.len() % 2, 0);
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).expect("UTF-16")
    };
    match form.charset {
        Charset::Utf8 => String::from_utf8(bytes.to_vec()).expect("UTF-8"),
        Charset::Utf16Le => units(u16::from_le_bytes),
        Charset::Utf16Be => units(u16::from_be_bytes),
        Charset::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// The output, and the address of each row.
fn read(list: Vec<u8>) -> (Vec<u8>, Vec<Option<String>>) {
    let mut source =
        Source::new(Box::new(Cursor::new(list)), "x", None, &ReadOptions::default()).expect("a list");
    let (endings, mut output) = (source.shape().endings(), source.shape().head());
    let (mut row, mut addresses) = (Row::default(), Vec::new());
    while source.next(&mut row).expect("a row") {
        for bytes in endings.pieces(&row.prefix, reasons::code(api::Reason::Unverifiable)) {
            output.extend_from_slice(bytes);
        }
        addresses.push(row.address.as_ref().map(|address| address.as_str().to_owned()));
    }
    (output, addresses)
}

fn check(form: Form, random: &[Vec<String>]) {
    let header = ["n", "näme", "E-Mail", "note"].map(str::to_owned).to_vec();
    let first = |n: usize| vec![n.to_string(), "x".into(), format!("first{n}@example.org"), "y, z; é".into()];
    // The sample has addresses, so that the column is found.
    let firsts = if form.is_long { 4000 } else { random.len() + 2 };
    let mut rows: Vec<Vec<String>> = (0..firsts).map(first).collect();
    rows.extend_from_slice(random);
    let all: Vec<Vec<String>> =
        form.has_header.then_some(header).into_iter().chain(rows.iter().cloned()).collect();
    let (output, addresses) = read(written(form, &all));
    let width = if form.is_long { WIDTH } else { all.iter().map(Vec::len).max().unwrap_or(WIDTH) };

    let expected: Vec<Option<String>> =
        rows.iter().map(|row| row.get(ADDRESS).and_then(|cell| asked(cell))).collect();
    assert_eq!(addresses, expected);

    let text = decoded(form, &output);
    let text = if form.has_mark { text.strip_prefix('\u{feff}').expect("a mark") } else { &text };
    let line = format!("sep={}{}", form.delimiter, form.line_end);
    let text = if form.names_delimiter { text.strip_prefix(&line).expect("the line") } else { text };
    let mut reader = csv::ReaderBuilder::new();
    reader.delimiter(form.delimiter as u8).has_headers(false).flexible(true);
    let records = reader.from_reader(text.as_bytes()).into_records();
    let found: Vec<Vec<String>> =
        records.map(|record| record.expect("CSV").iter().map(str::to_owned).collect()).collect();
    let with_verdict = |(n, row): (usize, &Vec<String>)| {
        let verdict =
            if form.has_header && n == 0 { ["deliverable", "reason"] } else { ["false", "unverifiable"] };
        let mut cells: Vec<String> = row.iter().take(width).cloned().collect();
        cells.resize(width, String::new());
        cells.extend(verdict.map(str::to_owned));
        cells.extend(row.iter().skip(width).cloned());
        cells
    };
    let expected: Vec<Vec<String>> = all.iter().enumerate().map(with_verdict).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rows_come_back(form in form(), random in vec(row(), 0..8)) {
        check(form, &random);
    }
}
