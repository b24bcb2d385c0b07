//! Files and helpers of the tests.

use super::*;
use crate::contents::SourceError;
use crate::results::{Results, Wanted};
use std::io::{Cursor, Write};
use std::thread;
use std::time::Duration;
use store::List;
use store_rules::Store;
use zip::write::{SimpleFileOptions, ZipWriter};

pub fn contents(store: &Arc<Store>) -> Contents {
    contents_with(store, &TempFiles::new(&std::env::temp_dir()))
}

pub fn contents_with(store: &Arc<Store>, files: &Arc<TempFiles>) -> Contents {
    let conversions = Conversions::start(Arc::clone(store), Arc::clone(files)).unwrap();
    Contents { store: Arc::clone(store), conversions: Arc::new(conversions) }
}

/// Opens results, and waits for a conversion.
pub fn opened(contents: &Contents, list: &List, wanted: &Wanted) -> Result<Results, SourceError> {
    loop {
        match Results::open(contents, list, wanted)? {
            Some(results) => return Ok(results),
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An xlsx file with a sheet of these rows, and this number of sheets that are the same part.
pub fn xlsx(rows: &str, sheets: usize) -> Vec<u8> {
    let sheets: String = (0..sheets).map(|n| format!("<sheet name=\"s{n}\" r:id=\"r\"/>")).collect();
    archive(&[
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", &format!("<workbook><sheets>{sheets}</sheets></workbook>")),
        (
            "xl/_rels/workbook.xml.rels",
            "<r><Relationship Id=\"r\" Type=\"x/worksheet\" Target=\"worksheets/sheet1.xml\"/></r>",
        ),
        ("xl/worksheets/sheet1.xml", &format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")),
    ])
}

/// An xlsx file with an address in each row.
pub fn xlsx_of(addresses: impl Iterator<Item = String>) -> Vec<u8> {
    let row = |address| format!("<row><c t=\"inlineStr\"><is><t>{address}</t></is></c></row>");
    xlsx(&addresses.map(row).collect::<String>(), 1)
}

/// An ods file with one sheet of these rows.
pub fn ods(rows: &str) -> Vec<u8> {
    archive(&[("content.xml", &format!("<d><table:table table:name=\"a\">{rows}</table:table></d>"))])
}
