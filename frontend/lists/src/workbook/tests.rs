//! Spreadsheets of a few kilobytes that ask for much memory, disk or time.

use super::*;
use spill::TemporaryFile;
use std::io::Cursor;
use zip::write::{SimpleFileOptions, ZipWriter};

const LIMITS: WorkbookLimits =
    WorkbookLimits { part_bytes: 16 << 20, string_bytes: 1 << 20, work: 64 << 20, names_unread: true };

fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An ods file with these sheets, each with its rows.
fn ods(sheets: &[(&str, &str)]) -> Vec<u8> {
    let table =
        |(name, rows): &(&str, &str)| format!("<table:table table:name=\"{name}\">{rows}</table:table>");
    let tables: String = sheets.iter().map(table).collect();
    archive(&[("content.xml", &format!("<d>{tables}</d>"))])
}

/// A row of an ods file with one cell, which is repeated.
fn repeated(count: usize, text: &str) -> String {
    format!(
        "<table:table-row><table:table-cell table:number-columns-repeated=\"{count}\"><text:p>{text}</text:p></table:table-cell>\
         </table:table-row>"
    )
}

/// An xlsx file with a sheet of these rows, which has other sheets of the same part.
fn xlsx(rows: &str, string: &str, sheets: usize) -> Vec<u8> {
    let sheets: String = (0..sheets).map(|n| format!("<sheet name=\"s{n}\" r:id=\"r\"/>")).collect();
    archive(&[
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", &format!("<workbook><sheets>{sheets}</sheets></workbook>")),
        (
            "xl/_rels/workbook.xml.rels",
            "<r><Relationship Id=\"r\" Type=\"x/worksheet\" Target=\"worksheets/sheet1.xml\"/></r>",
        ),
        ("xl/sharedStrings.xml", &format!("<sst><si><t>{string}</t></si></sst>")),
        ("xl/worksheets/sheet1.xml", &format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")),
    ])
}

fn read(file: Vec<u8>) -> std::result::Result<String, String> {
    read_with(file, LIMITS)
}

fn read_with(file: Vec<u8>, limits: WorkbookLimits) -> std::result::Result<String, String> {
    let sheet = convert(Cursor::new(file), None, limits, &own_file);
    let mut csv = sheet.map_err(|error| error.to_string())?.csv;
    let mut text = String::new();
    csv.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[track_caller]
fn check_refused(file: Vec<u8>, expected: &str) {
    assert!(file.len() < 1 << 20, "a small file");
    assert_eq!(read(file).map(|text| text.len()), Err(expected.to_owned()));
}

#[test]
fn a_row_takes_no_more_than_the_longest_row() {
    let too_long = "it has a row that is too long";
    let text = "x".repeat(CELL_BYTES_MAX);
    assert_eq!(read(ods(&[("a", &repeated(4, &text))])).map(|text| text.len()), Ok(3 + (1 << 20) + 3 + 2));
    check_refused(ods(&[("a", &repeated(5, &text))]), too_long);
    check_refused(ods(&[("a", &repeated(SHEET_COLUMNS_MAX, &text))]), too_long);
    let shared = |count| format!("<row>{}</row>", "<c t=\"s\"><v>0</v></c>".repeat(count));
    assert!(read(xlsx(&shared(4), &text, 1)).is_ok());
    check_refused(xlsx(&shared(5), &text, 1), too_long);
    check_refused(xlsx(&shared(SHEET_COLUMNS_MAX), &text, 1), too_long);
}

#[test]
fn sheets_with_addresses_that_are_not_read_are_named() {
    let (row, other) = (repeated(1, "a@b.example"), repeated(1, "x"));
    let sheets = [("empty", ""), ("a", &*row), ("notes", &other), ("b", &row), ("c", &row)];
    let unread = |wanted, limits| {
        let sheet = convert(Cursor::new(ods(&sheets)), wanted, limits, &own_file).unwrap();
        sheet.unread.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(unread(None, LIMITS), ["b", "c"]);
    assert_eq!(unread(Some("c"), LIMITS), [""; 0], "the user has chosen");
    assert_eq!(unread(None, WorkbookLimits { names_unread: false, ..LIMITS }), [""; 0]);
    // The search spoils no list.
    let damaged = ods(&[("a", &row), ("b", &repeated(1, &"x".repeat(CELL_BYTES_MAX + 1)))]);
    assert_eq!(read(damaged), Ok("\u{feff}\"a@b.example\"\r\n".to_owned()));
}

#[test]
fn a_cell_is_written_once() {
    let cells = "<c r=\"A1\" t=\"s\"><v>0</v></c>".repeat(2);
    check_refused(xlsx(&format!("<row>{cells}</row>"), "x", 1), "it has two cells in one place");
}

#[test]
fn spaces_count_in_the_length_of_a_cell() {
    let spaces = "<text:s text:c=\"1000\"/>".repeat(1 + CELL_BYTES_MAX / 1000);
    check_refused(ods(&[("a", &repeated(1, &spaces))]), "it has a cell that is too long");
}

#[test]
fn open_elements_and_names_are_bounded() {
    let deep = |depth| ods(&[("a", &format!("{}{}", "<x>".repeat(depth), "</x>".repeat(depth)))]);
    assert!(read(deep(200)).is_ok());
    check_refused(deep(300), "its elements are too deep, or have names that are too long");
    let long = "x".repeat(1000);
    let row = repeated(1, "a@b.example");
    let element = ods(&[("a", &format!("<{long}/>{row}"))]);
    check_refused(element, "its elements are too deep, or have names that are too long");
    let too_long = "it has a name that is too long";
    check_refused(ods(&[(&long, &row)]), too_long);
    let style = format!("<style:style style:name=\"{long}\"/>");
    check_refused(archive(&[("content.xml", &format!("<d>{style}<table:table/></d>"))]), too_long);
    let book = |name: &str, id: &str, target: &str| {
        archive(&[
            ("[Content_Types].xml", "<Types/>"),
            ("xl/workbook.xml", &format!("<w><sheet name=\"{name}\" r:id=\"r\"/></w>")),
            (
                "xl/_rels/workbook.xml.rels",
                &format!("<r><Relationship Id=\"{id}\" Type=\"x/worksheet\" Target=\"{target}\"/></r>"),
            ),
            ("xl/s.xml", "<worksheet/>"),
        ])
    };
    assert!(read(book("a", "r", "s.xml")).is_ok());
    for (name, id, target) in [(&*long, "r", "s.xml"), ("a", &*long, "s.xml"), ("a", "r", &*long)] {
        check_refused(book(name, id, target), too_long);
    }
}

/// Codes of formats are as long as an event, and are not kept.
#[test]
fn dates_have_formats_with_codes() {
    let styles = "<s><numFmts><numFmt numFmtId=\"164\" formatCode=\"yyyy\"/><numFmt numFmtId=\"14\" formatCode=\"0\"/></numFmts>\
        <cellXfs><xf numFmtId=\"164\"/><xf numFmtId=\"14\"/><xf numFmtId=\"22\"/></cellXfs></s>";
    let cells: String = (0..3).map(|style| format!("<c s=\"{style}\"><v>45292</v></c>")).collect();
    let file = archive(&[
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", "<w><sheet name=\"a\" r:id=\"r\"/></w>"),
        (
            "xl/_rels/workbook.xml.rels",
            "<r><Relationship Id=\"r\" Type=\"x/worksheet\" Target=\"s.xml\"/></r>",
        ),
        ("xl/styles.xml", styles),
        ("xl/s.xml", &format!("<worksheet><sheetData><row>{cells}</row></sheetData></worksheet>")),
    ]);
    assert_eq!(read(file), Ok("\u{feff}2024-01-01,45292,2024-01-01\r\n".to_owned()));
}

const TOO_MUCH_WORK: &str = "it takes too much work for its size: save it as CSV";

/// A part decompresses to less than the limit, but is read again for each sheet.
#[test]
fn all_reads_of_parts_together_are_bounded() {
    let limits = |work| WorkbookLimits { work, ..LIMITS };
    let rows = repeated(1, &"x".repeat(40_000));
    let names: Vec<String> = (0..30).map(|n| format!("s{n}")).collect();
    let mut sheets: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*rows)).collect();
    let last = repeated(1, "a@b.example");
    sheets.push(("last", &last));
    assert!(read_with(ods(&sheets), limits(64 << 20)).unwrap().contains("a@b.example"));
    assert_eq!(read_with(ods(&sheets), limits(8 << 20)), Err(TOO_MUCH_WORK.to_owned()));
    let blank = "<row><c t=\"s\"><v>9</v></c></row>".repeat(10_000);
    assert!(read_with(xlsx(&blank, "x", 1), limits(4 << 20)).is_ok());
    assert_eq!(read_with(xlsx(&blank, "x", 10_000), limits(4 << 20)), Err(TOO_MUCH_WORK.to_owned()));
}

/// What an archive makes of few bytes takes work: rows and cells that are repeated, and empty cells before a far one.
#[test]
fn rows_and_cells_take_work() {
    let limits = WorkbookLimits { work: 1 << 20, ..LIMITS };
    let of_rows = |count: u32, row: &str| {
        let row = row.replace(
            "<table:table-row>",
            &format!("<table:table-row table:number-rows-repeated=\"{count}\">"),
        );
        ods(&[("a", &row)])
    };
    let address = repeated(1, "a@b.example");
    assert_eq!(read_with(of_rows(1_000, &address), limits).map(|text| text.lines().count()), Ok(1_000));
    assert_eq!(read_with(of_rows(1_000_000, &address), limits), Err(TOO_MUCH_WORK.to_owned()));
    let wide = repeated(SHEET_COLUMNS_MAX, "x");
    assert_eq!(read_with(of_rows(100, &wide), limits), Err(TOO_MUCH_WORK.to_owned()));
    let far = "<row><c r=\"XFD1\" t=\"s\"><v>0</v></c></row>";
    assert_eq!(read_with(xlsx(&far.repeat(100), "a@b.example", 1), limits), Err(TOO_MUCH_WORK.to_owned()));
    // Blank rows up to the end of the sheet are no rows.
    let blank = of_rows(1_000_000, &repeated(SHEET_COLUMNS_MAX, ""));
    assert_eq!(read_with(blank, limits), Ok("\u{feff}".to_owned()));
}

/// A temporary file that fails after some operations.
struct FailingFile {
    left: std::sync::Arc<std::sync::atomic::AtomicU32>,
    file: std::fs::File,
}

impl FailingFile {
    fn operation(&self) -> Result<()> {
        match self.left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            1 => Err(std::io::Error::from_raw_os_error(28)),
            _ => Ok(()),
        }
    }
}

impl TemporaryFile for FailingFile {
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.operation()?;
        self.file.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.operation()?;
        self.file.read_exact_at(bytes, at)
    }
}

#[test]
fn errors_of_temporary_files_are_those_of_the_machine() {
    use crate::{ListError, ReadOptions};
    let file = xlsx("<row><c t=\"s\"><v>0</v></c></row>", "a@b.example", 1);
    for fails_at in 1.. {
        let left = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(fails_at));
        let create = || -> Result<Box<dyn TemporaryFile>> {
            let file = FailingFile { left: left.clone(), file: tempfile::tempfile()? };
            file.operation()?;
            Ok(Box::new(file))
        };
        let input = Box::new(Cursor::new(file.clone()));
        match ConvertedSheet::convert(input, "The list", &ReadOptions::default(), &create) {
            Ok(_) => {
                assert!(fails_at > 5, "{fails_at}");
                break;
            }
            Err(ListError::Machine(why)) => assert!(why.contains("No space left on device"), "{why}"),
            Err(other) => panic!("operation {fails_at}: {other}"),
        }
    }
}

#[test]
fn an_address_is_looked_for_in_the_first_sheets() {
    let (other, address) = (repeated(1, "x"), repeated(1, "a@b.example"));
    for (at, expected) in [(0, "a@b.example"), (49, "a@b.example"), (50, "x")] {
        let sheets: Vec<(&str, &str)> =
            (0..60).map(|n| ("s", if n == at { &*address } else { &*other })).collect();
        assert_eq!(read(ods(&sheets)), Ok(format!("\u{feff}\"{expected}\"\r\n")), "{at}");
    }
    let long = repeated(4, &"x".repeat(CELL_BYTES_MAX));
    let rows = |count| [&*long.repeat(count), &*address].concat();
    for (count, expected) in [(3, true), (5, false)] {
        let csv = read_with(ods(&[("a", "<r/>"), ("b", &other), ("c", &rows(count))]), LIMITS).unwrap();
        assert_eq!(csv.contains("a@b.example"), expected);
    }
}

/// The beginning of an archive that has no end, and counts how much of it is read.
struct Endless<'a>(&'a mut u64);

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        buffer.fill(b'P');
        *self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }
}

#[test]
fn a_file_that_is_too_large_is_not_copied_to_its_end() {
    let mut read = 0;
    // Without a limit, the copy ends too.
    let input = Endless(&mut read).take(64 << 20);
    let refused = convert(input, None, WorkbookLimits { part_bytes: 1 << 20, ..LIMITS }, &own_file);
    assert_eq!(
        refused.err().map(|error| error.to_string()),
        Some("it is too large: save it as CSV".to_owned())
    );
    assert!(read <= (1 << 20) + 64 * 1024, "{read}");
}
