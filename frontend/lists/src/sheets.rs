//! Writes an output as xlsx (ECMA-376), in constant memory.
//!
//! - Every cell is a text. A cell that begins with `=` is no formula.
//! - A sheet has at most 1,048,576 rows. Longer lists have several sheets, each with the header.
//! - The cells are first in temporary files without a name, in the folder of the output.

use crate::output::{OutputRows, RowCells, RowClasses};
use crate::{Class, Endings, Format, Shape};
use rust_xlsxwriter::{Workbook, XlsxError};
use std::fs::File;
use std::io::{BufWriter, Error, Read, Result};
use std::path::Path;

/// Most rows of a sheet.
const SHEET_ROWS_MAX: u32 = 1_048_576;
/// Most columns of a sheet.
pub const SHEET_COLUMNS_MAX: usize = 16_384;
/// Most characters of a cell, in units of UTF-16.
const CELL_UNITS_MAX: usize = 32_767;
/// From this number of bytes on, the parts of the file may need 64-bit sizes.
const LARGE_BYTES: u64 = 1 << 30;

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
    /// The length of the output in bytes.
    pub bytes: u64,
}

/// Writes the rows of these classes to a file.
///
/// # Errors
/// A file cannot be read or written, or the list has too many keys for a sheet.
pub fn write_sheets(
    source: &SheetSource<'_>,
    classes: &[Class],
    folder: &Path,
    to: File,
) -> Result<SheetNotes> {
    let SheetSource { shape, endings, open, bytes } = source;
    let head = shape.head();
    let mut cells = RowCells::new(shape, endings);
    if shape.format == Format::Jsonl {
        let mut rows = OutputRows::new(open()?, &head, endings)?;
        while let Some(row) = rows.next()? {
            if cells.add_keys(row)? > SHEET_COLUMNS_MAX {
                return Err(Error::other("the objects have more than 16,384 keys: write JSON lines"));
            }
        }
    }
    let mut sheets = SheetWriter::new(folder, *bytes > LARGE_BYTES, SHEET_ROWS_MAX)?;
    let (titles, has_header) = cells.head()?;
    sheets.begin(&titles, has_header)?;
    let row_classes = RowClasses::default();
    let mut rows = OutputRows::new(open()?, &head, endings)?;
    let mut texts = Vec::new();
    while let Some(row) = rows.next()? {
        if classes.contains(&row_classes.of(endings, row)?) {
            cells.of(row, &mut texts)?;
            sheets.row(&texts)?;
        }
    }
    sheets.save(to)
}

/// A spreadsheet that is being written.
struct SheetWriter {
    book: Workbook,
    /// The next row of the last sheet.
    next: u32,
    rows_max: u32,
    header: Option<Vec<String>>,
    notes: SheetNotes,
}

impl SheetWriter {
    fn new(folder: &Path, is_large: bool, rows_max: u32) -> Result<SheetWriter> {
        let mut book = Workbook::new();
        book.set_tempdir(folder).map_err(io_error)?;
        book.use_zip_large_file(is_large);
        let mut sheets = SheetWriter { book, next: 0, rows_max, header: None, notes: SheetNotes::default() };
        sheets.add_sheet()?;
        Ok(sheets)
    }

    /// Writes what is before the first row. A header is repeated on each sheet.
    fn begin(&mut self, head: &[Vec<String>], has_header: bool) -> Result<()> {
        for row in head {
            self.put(row)?;
        }
        self.header = head.last().filter(|_| has_header).cloned();
        Ok(())
    }

    fn row(&mut self, cells: &[String]) -> Result<()> {
        if self.next == self.rows_max {
            self.add_sheet()?;
            if let Some(header) = self.header.take() {
                self.put(&header)?;
                self.header = Some(header);
            }
        }
        self.notes.rows += 1;
        self.put(cells)
    }

    fn add_sheet(&mut self) -> Result<()> {
        self.book.add_worksheet_with_constant_memory().map_err(io_error)?;
        self.notes.sheets += 1;
        self.next = 0;
        Ok(())
    }

    fn put(&mut self, cells: &[String]) -> Result<()> {
        let sheet = self.book.worksheet_from_index(self.notes.sheets as usize - 1).map_err(io_error)?;
        for (column, text) in cells.iter().enumerate() {
            // Most cells are short: then the number of bytes is enough to know.
            let text = match text.len() > CELL_UNITS_MAX {
                true => cut(text),
                false => text.as_str(),
            };
            let has_room = column < SHEET_COLUMNS_MAX;
            self.notes.cut_cells += u64::from(!has_room || text.len() < cells[column].len());
            if has_room {
                sheet.write_string(self.next, column as u16, text).map_err(io_error)?;
            }
        }
        self.next += 1;
        Ok(())
    }

    fn save(mut self, to: File) -> Result<SheetNotes> {
        let mut out = BufWriter::new(&to);
        self.book.save_to_writer(&mut out).map_err(io_error)?;
        out.into_inner().map_err(|error| error.into_error())?;
        to.sync_all()?;
        Ok(self.notes)
    }
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

fn io_error(error: XlsxError) -> Error {
    match error {
        XlsxError::IoError(error) => error,
        other => Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::{Data, Reader as _, Xlsx, open_workbook};

    fn texts(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&text| text.to_owned()).collect()).collect()
    }

    #[test]
    fn long_lists_have_several_sheets_with_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.xlsx");
        let mut sheets = SheetWriter::new(folder.path(), false, 4).unwrap();
        sheets.begin(&texts(&[&["title"], &["a", "b"]]), true).unwrap();
        for n in 0..6 {
            sheets.row(&texts(&[&[&n.to_string(), "=1+1"]])[0]).unwrap();
        }
        let notes = sheets.save(File::create(&path).unwrap()).unwrap();
        assert_eq!(notes, SheetNotes { rows: 6, sheets: 3, cut_cells: 0 });
        let mut book: Xlsx<_> = open_workbook(&path).unwrap();
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
    fn cells_that_are_too_long_are_cut() {
        assert_eq!(cut("abc"), "abc");
        let long = "😀".repeat(20_000);
        assert_eq!(cut(&long).chars().count(), CELL_UNITS_MAX / 2);
        let folder = tempfile::tempdir().unwrap();
        let mut sheets = SheetWriter::new(folder.path(), false, 9).unwrap();
        sheets.row(&[long, "x".repeat(CELL_UNITS_MAX), "é".repeat(20_000)]).unwrap();
        sheets.row(&vec!["x".to_owned(); SHEET_COLUMNS_MAX + 2]).unwrap();
        let notes = sheets.save(File::create(folder.path().join("x.xlsx")).unwrap()).unwrap();
        assert_eq!(notes.cut_cells, 3);
    }
}
