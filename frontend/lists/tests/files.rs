//! Small files as spreadsheets, customer databases and mail programs write them (`files/`), and what is read of them
//! (`files.toml`). `UPDATE=1 cargo test -p lists --test files` writes the table: read every changed line of it.

use lists::{Format, ReadOptions, Row, Source, reasons};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is read of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// How it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    /// Which sheets with addresses are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unread: Option<String>,
    /// The address of each row; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    /// Why it is refused, at its opening or at a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Reads a file, and checks its output.
fn read(name: &str) -> Expected {
    let path = folder().join("files").join(name);
    let mut expected = Expected { read: None, unread: None, addresses: Vec::new(), refused: None };
    let without_folder = |why: String| why.replace(&path.display().to_string(), name);
    let mut source = match Source::open(&path, &ReadOptions::default()) {
        Ok(source) => source,
        Err(why) => {
            expected.refused = Some(without_folder(why.to_string()));
            return expected;
        }
    };
    expected.read = Some(source.description());
    expected.unread = source.unread_sheets().map(|(said, _)| said);
    let endings = source.shape().endings();
    let (mut row, mut output) = (Row::default(), Vec::new());
    loop {
        match source.next(&mut row) {
            Ok(true) => {}
            Ok(false) => break,
            Err(why) => {
                expected.refused = Some(without_folder(why.to_string()));
                break;
            }
        }
        let address = row.address.as_ref().map_or(String::new(), |address| address.as_str().to_owned());
        expected.addresses.push(address);
        for bytes in endings.pieces(&row.prefix, reasons::code(api::Reason::Unverifiable)) {
            output.extend_from_slice(bytes);
        }
    }
    check_output(name, &source, &output, expected.addresses.len());
    expected
}

/// The output has a record for each row, with the verdict in its columns.
fn check_output(name: &str, source: &Source, output: &[u8], rows: usize) {
    let shape = source.shape();
    if shape.format == Format::Jsonl {
        return;
    }
    let text = match shape.encoding.name() {
        "UTF-16LE" => utf_16(output, u16::from_le_bytes),
        "UTF-16BE" => utf_16(output, u16::from_be_bytes),
        _ => output.to_vec(),
    };
    let mut reader = csv::ReaderBuilder::new();
    reader.delimiter(shape.delimiter()).quoting(shape.has_quotes()).has_headers(false).flexible(true);
    let records: Vec<_> =
        reader.from_reader(&*text).into_byte_records().collect::<Result<_, _>>().expect("CSV");
    assert_eq!(records.len(), rows, "{name}");
    let column = shape.verdict_column().expect("a column");
    for record in records {
        let verdict = (record.get(column), record.get(column + 1));
        assert_eq!(verdict, (Some(&b"false"[..]), Some(&b"unverifiable"[..])), "{name}");
    }
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16(&units).expect("UTF-16").into_bytes()
}

/// The CSV of a spreadsheet, without its byte order mark.
#[track_caller]
fn check_sheet(name: &str, sheet: Option<&str>, expected: &str) {
    let path = folder().join("files").join(name);
    let options = ReadOptions { sheet, ..ReadOptions::default() };
    let mut source = Source::open(&path, &options).expect("a list");
    let (endings, mut output) = (source.shape().endings(), source.shape().head());
    let mut row = Row::default();
    while source.next(&mut row).expect("a row") {
        for bytes in endings.pieces(&row.prefix, reasons::code(api::Reason::Unverifiable)) {
            output.extend_from_slice(bytes);
        }
    }
    let output = String::from_utf8(output).expect("UTF-8").replace("\r\n", "\n");
    let output = output.replace(",deliverable,reason\n", "\n").replace(",false,unverifiable\n", "\n");
    assert_eq!(output, format!("\u{feff}{expected}"), "{name}");
}

#[test]
fn cells_of_spreadsheets_are_as_people_see_them() {
    for name in ["excel.xlsx", "libreoffice.xlsx"] {
        check_sheet(
            name,
            None,
            "Nr,Name,E-Mail,Eintritt,Betrag,Aktiv\n1,\"Müller, Ann\",ann@example.com,2024-01-02,1234.5,TRUE\n\
             2,\"Zeile\nzwei \"\"x\"\"\",bob@example.org,2024-01-03 10:30:00,0.1,FALSE\n491761234567,,,,,\n",
        );
    }
    check_sheet(
        "libreoffice.ods",
        Some("Kontakte"),
        "Nr,Name,E-Mail,Eintritt,Betrag,Aktiv\n1,\"Müller, Ann\",ann@example.com,2024-01-02,1234.5,1\n\
         2,\"Zeile\nzwei \"\"x\"\"\",bob@example.org,2024-01-03T10:30:00,0.1,0\n491761234567,,,,,\n",
    );
    check_sheet(
        "hand-written.xlsx",
        None,
        "氏名,メール,\n\"a\r\nb <c>\",ann@example.com,\n,bob@example.org,#N/A\n"
            .replace("\r\n", "\n")
            .as_str(),
    );
    let row = "ann@example.com,2.5\n";
    check_sheet("hand-written.ods", None, &format!("Email,\"A  B\ntwo\"\n{}", row.repeat(3)));
    check_sheet("several-sheets.xlsx", Some("Versteckt"), "Email\nhidden@example.com\n");
}

#[test]
fn files_of_other_programs_are_read() {
    let names = std::fs::read_dir(folder().join("files")).expect("a folder");
    let names = names.map(|entry| entry.expect("a file").file_name().into_string().expect("a name"));
    let found: BTreeMap<String, Expected> = names.map(|name| (name.clone(), read(&name))).collect();
    let table = folder().join("files.toml");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&table, toml::to_string(&found).expect("a table")).expect("a file");
    }
    let text = std::fs::read_to_string(&table).expect("a table");
    let mut expected: BTreeMap<String, Expected> = toml::from_str(&text).expect("a table");
    assert!(found.len() >= 60);
    for (name, found) in found {
        assert_eq!(Some(found), expected.remove(&name), "{name}");
    }
    assert!(expected.is_empty(), "files that do not exist: {:?}", expected.keys());
}
