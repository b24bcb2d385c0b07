//! Lists as people and programs write them (`written.toml`), and what is read of them. `UPDATE=1 cargo test -p lists --test written`
//! writes what is read into the table: read every changed line of it.

use lists::{Format, ReadOptions, Row, Source, reasons};
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::path::PathBuf;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    list: Vec<List>,
}

/// A list, and what is read of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    name: String,
    text: String,
    /// UTF-8, or UTF-16 without a byte order mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    header: Option<bool>,
    /// How it is read, or why it is not.
    #[serde(default)]
    read: String,
    /// The address of each row; in brackets a suggestion.
    #[serde(default)]
    addresses: Vec<String>,
    /// The output, if it is not the list with verdicts behind its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

fn encoded(text: &str, encoding: Option<&str>) -> Vec<u8> {
    match encoding {
        Some("UTF-16LE") => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Some("UTF-16BE") => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        _ => text.as_bytes().to_vec(),
    }
}

fn read(list: &List) -> List {
    let mut found = List { read: String::new(), addresses: Vec::new(), output: None, ..list.clone() };
    let columns = Vec::from_iter(list.column.clone());
    let options = ReadOptions { columns: &columns, header: list.header, ..ReadOptions::default() };
    let bytes = encoded(&list.text, list.encoding.as_deref());
    let mut source = match Source::new(Box::new(Cursor::new(bytes)), "x", None, &options) {
        Ok(source) => source,
        Err(why) => return List { read: why.to_string(), ..found },
    };
    found.read = source.description();
    let endings = source.shape().endings();
    let (mut row, mut output) = (Row::default(), source.shape().head());
    loop {
        match source.next(&mut row) {
            Ok(true) => {}
            Ok(false) => break,
            Err(why) => {
                found.read = why.to_string();
                return found;
            }
        }
        let suggestion = row.suggestion.as_ref().map(|it| format!("({})", it.as_str()));
        let address = row.address.as_ref().map(|it| it.as_str().to_owned());
        found.addresses.push(address.or(suggestion).unwrap_or_default());
        let pieces = endings.pieces(&row.prefix, reasons::code(api::Reason::Unverifiable));
        let line = pieces.concat();
        // The row ends where it ends, and its verdict is found again.
        assert_eq!(endings.row_end(&line, &mut lists::RowScan::default()), Some(line.len()), "{}", list.name);
        assert!(endings.split(&line).is_some(), "{}", list.name);
        output.extend_from_slice(&line);
    }
    found.read += &source.notes().lines("").iter().map(|line| format!("; {line}")).collect::<String>();
    let delimiter = char::from(source.shape().delimiter());
    let end = if list.text.ends_with('\n') { "" } else { "\n" };
    let plain = |verdict: [&str; 2]| format!("{delimiter}{}{delimiter}{}", verdict[0], verdict[1]);
    let text = match list.encoding.as_deref() {
        None => String::from_utf8(output).expect("UTF-8"),
        Some(name) => {
            let unit = if name == "UTF-16LE" { u16::from_le_bytes } else { u16::from_be_bytes };
            let units: Vec<u16> = output.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
            String::from_utf16(&units).expect("UTF-16")
        }
    };
    let without =
        text.replace(&plain(["false", "unverifiable"]), "").replace(&plain(["deliverable", "reason"]), "");
    let is_kept = source.shape().format != Format::Jsonl && without == format!("{}{end}", list.text);
    found.output = (!is_kept).then_some(text);
    found
}

#[test]
fn lists_are_read_as_the_table_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/written.toml");
    let table: Table = toml::from_str(&std::fs::read_to_string(&path).expect("a table")).expect("a table");
    assert!(table.list.len() >= 60);
    let found: Vec<List> = table.list.iter().map(read).collect();
    if std::env::var_os("UPDATE").is_some() {
        let table = toml::to_string(&Table { list: found }).expect("a table");
        return std::fs::write(&path, table).expect("a file");
    }
    for (found, expected) in found.iter().zip(&table.list) {
        assert_eq!(found, expected);
    }
}
