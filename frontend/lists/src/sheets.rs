//! Writes rows as xlsx (ECMA-376) while they come. Nothing is kept: neither memory nor a file holds the rows.
//!
//! - Every cell is a text. A cell that begins with `=` is no formula.
//! - A sheet has at most 1,048,576 rows. Longer lists have several sheets, each with the header.
//! - The parts of the file stand in the order in which they are known: the sheets, then what names them.
//!
//! The cells are ours and not those of `rust_xlsxwriter`: it writes them to temporary files in clear text first, and a server
//! must not (`docs/decisions/0021-outputs-of-lists.md`).

use crate::output::{OutputRows, RowCells, row_class};
use crate::{Class, Endings, Format, Shape};
use std::collections::HashMap;
use std::io::{Error, Read, Result, Write};
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

/// Most rows of a sheet.
const SHEET_ROWS_MAX: u32 = 1_048_576;
/// Most columns of a sheet.
pub const SHEET_COLUMNS_MAX: usize = 16_384;
/// Most characters of a cell, in units of UTF-16.
const CELL_UNITS_MAX: usize = 32_767;
/// Most bytes of a sheet. Parts with more need ZIP64, which some programs do not read. A longer sheet has fewer rows.
const SHEET_BYTES_MAX: u64 = 3 << 30;
/// Most bytes of all keys of JSON objects.
const KEYS_BYTES_MAX: usize = 4 << 20;
/// The level of Deflate: most of the gain for a third of the time.
const DEFLATE_LEVEL: i64 = 3;

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const DOCUMENT: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const CONTENT: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// What was written to a spreadsheet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SheetNotes {
    /// Number of rows, without headers and titles.
    pub rows: u64,
    /// Number of sheets.
    pub sheets: u32,
    /// Number of cells that are longer than a spreadsheet allows, or beyond its last column. What is beyond the limit is missing.
    pub cut_cells: u64,
}

/// The output that becomes a spreadsheet.
pub struct SheetSource<'a> {
    /// The form of the list.
    pub shape: &'a Shape,
    /// The ends of its rows.
    pub endings: &'a Endings,
    /// Opens the output. It is read once, or twice if it has JSON objects.
    pub open: &'a dyn Fn() -> Result<Box<dyn Read>>,
}

/// Writes the rows of these classes of an output as a spreadsheet.
///
/// # Errors
/// The output cannot be read, the spreadsheet cannot be written, or the list has too many keys for a sheet.
pub fn write_sheets(source: &SheetSource<'_>, classes: &[Class], to: impl Write) -> Result<SheetNotes> {
    let SheetSource { shape, endings, open } = source;
    let head = shape.head();
    let mut keys = SheetKeys::default();
    if shape.format == Format::Jsonl {
        let mut rows = OutputRows::new(open()?, &head, endings)?;
        while let Some(row) = rows.next()? {
            keys.add(endings, row)?;
        }
    }
    let mut sheets = SheetRows::new(to, shape, endings, keys)?;
    let mut rows = OutputRows::new(open()?, &head, endings)?;
    while let Some(row) = rows.next()? {
        if classes.contains(&row_class(endings, row)?) {
            sheets.row(shape, endings, row)?;
        }
    }
    sheets.finish()
}

/// The keys of JSON objects, which become the columns of a spreadsheet.
#[derive(Default)]
pub struct SheetKeys {
    numbers: HashMap<String, usize>,
    bytes: usize,
}

impl SheetKeys {
    /// Adds those of a row of an output of JSON lines.
    ///
    /// # Errors
    /// The row is no object, or there are more keys than a sheet can have columns.
    pub fn add(&mut self, endings: &Endings, row: &[u8]) -> Result<()> {
        RowCells::keys(endings, row, |key| {
            if !self.numbers.contains_key(key) {
                self.bytes += key.len();
                self.numbers.insert(key.to_owned(), self.numbers.len());
            }
        })?;
        if self.numbers.len() > SHEET_COLUMNS_MAX || self.bytes > KEYS_BYTES_MAX {
            return Err(Error::other(
                "the objects have more than 16,384 keys, or 4 MiB of them: write JSON lines",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
impl SheetKeys {
    /// The keys with the numbers of their columns.
    pub(crate) fn into_numbers(self) -> HashMap<String, usize> {
        self.numbers
    }
}

/// Writes the rows of an output as a spreadsheet, one after another.
pub struct SheetRows<W: Write> {
    cells: RowCells,
    texts: Vec<(usize, String)>,
    sheets: SheetWriter<W>,
}

impl<W: Write> SheetRows<W> {
    /// Begins a spreadsheet with what the output has before its first row. `keys` are those of all rows of JSON lines.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(to: W, shape: &Shape, endings: &Endings, keys: SheetKeys) -> Result<SheetRows<W>> {
        let cells = RowCells::new(keys.numbers);
        let (titles, has_header) = cells.head(shape, endings)?;
        let mut sheets = SheetWriter::new(to, SHEET_ROWS_MAX)?;
        sheets.begin(&titles, has_header)?;
        Ok(SheetRows { cells, texts: Vec::new(), sheets })
    }

    /// Writes a row of the output.
    ///
    /// # Errors
    /// Writing fails, or the row has another form.
    pub fn row(&mut self, shape: &Shape, endings: &Endings, row: &[u8]) -> Result<()> {
        self.cells.of(shape, endings, row, &mut self.texts)?;
        self.sheets.row(self.texts.iter().map(|(column, text)| (*column, text.as_str())))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(self) -> Result<SheetNotes> {
        self.sheets.finish()
    }
}

/// A spreadsheet that is being written.
struct SheetWriter<W: Write> {
    zip: ZipWriter<StreamWriter<W>>,
    options: SimpleFileOptions,
    /// The next row of the last sheet.
    next: u32,
    rows_max: u32,
    /// The bytes of the last sheet.
    bytes: u64,
    header: Option<Vec<String>>,
    /// The names of columns so far: `A`, `B`, ...
    columns: Vec<String>,
    xml: Vec<u8>,
    notes: SheetNotes,
}

impl<W: Write> SheetWriter<W> {
    fn new(to: W, rows_max: u32) -> Result<SheetWriter<W>> {
        let mut sheets = SheetWriter {
            zip: ZipWriter::new_stream(to),
            options: SimpleFileOptions::default().compression_level(Some(DEFLATE_LEVEL)),
            next: 0,
            rows_max,
            bytes: 0,
            header: None,
            columns: Vec::new(),
            xml: Vec::new(),
            notes: SheetNotes::default(),
        };
        sheets.begin_sheet()?;
        Ok(sheets)
    }

    /// Writes what is before the first row. A header is repeated on each sheet.
    fn begin(&mut self, head: &[Vec<String>], has_header: bool) -> Result<()> {
        for row in head {
            self.put(numbered(row))?;
        }
        self.header = head.last().filter(|_| has_header).cloned();
        Ok(())
    }

    /// Writes a row: cells with their columns, in their order.
    fn row<'a>(&mut self, cells: impl Iterator<Item = (usize, &'a str)>) -> Result<()> {
        if self.next == self.rows_max || self.bytes > SHEET_BYTES_MAX {
            self.end_sheet()?;
            self.begin_sheet()?;
            if let Some(header) = self.header.take() {
                self.put(numbered(&header))?;
                self.header = Some(header);
            }
        }
        self.notes.rows += 1;
        self.put(cells)
    }

    fn begin_sheet(&mut self) -> Result<()> {
        self.notes.sheets += 1;
        (self.next, self.bytes) = (0, 0);
        self.part(&format!("xl/worksheets/sheet{}.xml", self.notes.sheets))?;
        write!(self.zip, "{XML}<worksheet xmlns=\"{MAIN}\"><sheetData>")
    }

    fn end_sheet(&mut self) -> Result<()> {
        self.zip.write_all(b"</sheetData></worksheet>")
    }

    fn part(&mut self, name: &str) -> Result<()> {
        self.zip.start_file(name, self.options).map_err(Error::from)
    }

    fn put<'a>(&mut self, cells: impl Iterator<Item = (usize, &'a str)>) -> Result<()> {
        self.next += 1;
        let row = self.next.to_string();
        self.xml.clear();
        self.xml.extend_from_slice(b"<row r=\"");
        self.xml.extend_from_slice(row.as_bytes());
        self.xml.extend_from_slice(b"\">");
        for (at, whole) in cells {
            if at >= SHEET_COLUMNS_MAX {
                self.notes.cut_cells += 1;
                continue;
            }
            // Most cells are short: then the number of bytes is enough to know.
            let text = if whole.len() > CELL_UNITS_MAX { cut(whole) } else { whole };
            self.notes.cut_cells += u64::from(text.len() < whole.len());
            if text.is_empty() {
                continue;
            }
            while self.columns.len() <= at {
                self.columns.push(column_name(self.columns.len()));
            }
            self.xml.extend_from_slice(b"<c r=\"");
            self.xml.extend_from_slice(self.columns[at].as_bytes());
            self.xml.extend_from_slice(row.as_bytes());
            let has_space = text.starts_with(is_space) || text.ends_with(is_space) || text.contains('\n');
            self.xml.extend_from_slice(match has_space {
                true => b"\" t=\"inlineStr\"><is><t xml:space=\"preserve\">",
                false => b"\" t=\"inlineStr\"><is><t>",
            });
            escape(text, &mut self.xml);
            self.xml.extend_from_slice(b"</t></is></c>");
        }
        self.xml.extend_from_slice(b"</row>");
        self.bytes += self.xml.len() as u64;
        self.zip.write_all(&self.xml)
    }

    /// Writes the parts that name the sheets, and ends the file.
    fn finish(mut self) -> Result<SheetNotes> {
        self.end_sheet()?;
        let sheets = 1..=self.notes.sheets;
        let each = |form: &dyn Fn(u32) -> String| sheets.clone().map(form).collect::<String>();
        let names = each(&|n| format!("<sheet name=\"Sheet{n}\" sheetId=\"{n}\" r:id=\"rId{n}\"/>"));
        let targets = each(&|n| {
            format!(
                "<Relationship Id=\"rId{n}\" Type=\"{DOCUMENT}/worksheet\" Target=\"worksheets/sheet{n}.xml\"/>"
            )
        });
        let kinds = each(&|n| {
            format!(
                "<Override PartName=\"/xl/worksheets/sheet{n}.xml\" ContentType=\"{CONTENT}.worksheet+xml\"/>"
            )
        });
        let parts = [
            (
                "xl/workbook.xml",
                format!(
                    "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{DOCUMENT}\"><sheets>{names}</sheets></workbook>"
                ),
            ),
            (
                "xl/_rels/workbook.xml.rels",
                format!("<Relationships xmlns=\"{RELATIONS}\">{targets}</Relationships>"),
            ),
            (
                "_rels/.rels",
                format!(
                    "<Relationships xmlns=\"{RELATIONS}\"><Relationship Id=\"rId1\" \
                     Type=\"{DOCUMENT}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
                ),
            ),
            (
                "[Content_Types].xml",
                format!(
                    "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
                     <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
                     <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
                     <Override PartName=\"/xl/workbook.xml\" ContentType=\"{CONTENT}.sheet.main+xml\"/>{kinds}</Types>"
                ),
            ),
        ];
        for (name, text) in parts {
            self.part(name)?;
            write!(self.zip, "{XML}{text}")?;
        }
        self.zip.finish().map_err(Error::from)?.into_inner().flush()?;
        Ok(self.notes)
    }
}

/// Texts with the numbers of their columns.
fn numbered(texts: &[String]) -> impl Iterator<Item = (usize, &str)> {
    texts.iter().map(String::as_str).enumerate()
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// The name of a column: `A` to `Z`, then `AA` and so on.
fn column_name(mut at: usize) -> String {
    let mut name = Vec::new();
    loop {
        name.push(char::from(b'A' + (at % 26) as u8));
        if at < 26 {
            break;
        }
        at = at / 26 - 1;
    }
    name.into_iter().rev().collect()
}

/// Writes a text as the content of an element. What XML cannot contain is written as `_xHHHH_`, and text that looks like this gets
/// its first character so (ECMA-376 part 1, 22.9.2.19).
fn escape(text: &str, out: &mut Vec<u8>) {
    for (at, c) in text.char_indices() {
        match c {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '\t' | '\n' => out.push(c as u8),
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => {
                out.extend_from_slice(format!("_x{:04X}_", u32::from(c)).as_bytes());
            }
            '_' if is_escape(&text.as_bytes()[at..]) => out.extend_from_slice(b"_x005F_"),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Whether a text begins like an escape of a character.
fn is_escape(text: &[u8]) -> bool {
    let is_hex = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
    matches!(text, [b'_', b'x', digits @ .., ] if digits.len() >= 5 && digits[4] == b'_' && is_hex(&digits[..4]))
}

/// The beginning of a text that fits into a cell.
fn cut(text: &str) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > CELL_UNITS_MAX
    });
    end.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::{Data, Reader as _, Xlsx};
    use std::io::Cursor;

    fn texts(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&text| text.to_owned()).collect()).collect()
    }

    fn book(bytes: &[u8]) -> Xlsx<Cursor<Vec<u8>>> {
        Xlsx::new(Cursor::new(bytes.to_vec())).unwrap()
    }

    #[test]
    fn long_lists_have_several_sheets_with_a_header() {
        let mut bytes = Vec::new();
        let mut sheets = SheetWriter::new(&mut bytes, 4).unwrap();
        sheets.begin(&texts(&[&["title"], &["a", "b"]]), true).unwrap();
        for n in 0..6 {
            sheets.row(numbered(&texts(&[&[&n.to_string(), "=1+1"]])[0])).unwrap();
        }
        let notes = sheets.finish().unwrap();
        assert_eq!(notes, SheetNotes { rows: 6, sheets: 3, cut_cells: 0 });
        let mut book = book(&bytes);
        let mut found = Vec::new();
        for name in book.sheet_names() {
            let sheet = book.worksheet_range(&name).unwrap();
            assert!(book.worksheet_formula(&name).unwrap().is_empty());
            found.push(
                sheet.rows().map(|row| row.iter().map(Data::to_string).collect()).collect::<Vec<Vec<_>>>(),
            );
        }
        let number = |n: &str| vec![n.to_owned(), "=1+1".to_owned()];
        let header = texts(&[&["a", "b"]])[0].clone();
        assert_eq!(found[0][1..], [header.clone(), number("0"), number("1")]);
        assert_eq!(found[1], [header.clone(), number("2"), number("3"), number("4")]);
        assert_eq!(found[2], [header, number("5")]);
    }

    #[test]
    fn texts_come_back() {
        let cells = ["<b>&\"'", " x ", "a\nb", "\u{1}_x0041_", "_x00", "é😀", "", "007", "_x0041_"];
        let mut bytes = Vec::new();
        let mut sheets = SheetWriter::new(&mut bytes, 9).unwrap();
        sheets.row(numbered(&texts(&[&cells])[0])).unwrap();
        sheets.finish().unwrap();
        let range = book(&bytes).worksheet_range("Sheet1").unwrap();
        let row: Vec<String> = range.rows().next().unwrap().iter().map(Data::to_string).collect();
        assert_eq!(row, cells);
    }

    #[test]
    fn columns_have_letters() {
        for (at, name) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")] {
            assert_eq!(column_name(at), name);
        }
    }

    #[test]
    fn cells_that_are_too_long_are_cut() {
        assert_eq!(cut("abc"), "abc");
        let long = "😀".repeat(20_000);
        assert_eq!(cut(&long).chars().count(), CELL_UNITS_MAX / 2);
        let mut sheets = SheetWriter::new(Vec::new(), 9).unwrap();
        sheets.row(numbered(&[long, "x".repeat(CELL_UNITS_MAX), "é".repeat(20_000)])).unwrap();
        sheets.row(numbered(&vec!["x".to_owned(); SHEET_COLUMNS_MAX + 2])).unwrap();
        assert_eq!(sheets.finish().unwrap().cut_cells, 3);
    }
}
