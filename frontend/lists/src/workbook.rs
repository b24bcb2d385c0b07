//! Spreadsheets: xlsx (ECMA-376) and ods (OpenDocument 1.3). A sheet becomes CSV in an encrypted temporary file, which is read as
//! every other list.
//!
//! The parts of a spreadsheet are read event by event. In memory are one row, and the shared strings of an xlsx file. The library
//! `calamine` keeps whole ods files in memory, and reserves as much memory for shared strings as an xlsx file tells it to
//! (`docs/decisions/0020-spreadsheets.md`). Spreadsheets of strangers need bounds.
//!
//! - The first visible sheet with an address in its first rows is read, or the one that the user names. Only the first visible sheets
//!   are examined ([`SAMPLE_SHEETS_MAX`]).
//! - Blank rows are no rows. Cells are as people see them, except that numbers have all their digits, and dates are in ISO 8601.

mod archive;
mod numbers;
mod ods;
mod spool;
mod xlsx;
mod xml;

use crate::Encoding;
use crate::address::in_cell;
use crate::bounded::ROW_BYTES_MAX;
use archive::{Archive, Work, broken};
pub use spool::CreateFile;
use spool::SpoolWriter;
pub(crate) use spool::{Spool, own_file};
use std::borrow::Cow;
use std::io::{Read, Result, Write};
use std::rc::Rc;

/// Most sheets in which an address is looked for.
const SAMPLE_SHEETS_MAX: usize = 50;
/// Number of rows in which a sheet must have an address.
const SAMPLE_ROWS: u64 = 1000;
/// Number of bytes of the cells of these rows.
const SAMPLE_BYTES: usize = 4 << 20;
/// The most work to find the sheets that are not read: some seconds.
const UNREAD_WORK_MAX: u64 = 1 << 30;
/// The work for a cell of a row, besides its bytes.
const CELL_WORK: u64 = 4;
/// Most columns of a sheet, in both formats.
const SHEET_COLUMNS_MAX: usize = 16_384;
/// Longest cell in bytes. Spreadsheets allow 32,767 characters.
const CELL_BYTES_MAX: usize = 256 * 1024;

/// Limits of a spreadsheet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkbookLimits {
    /// Maximum number of bytes of the file, of each decompressed part, and of the CSV.
    pub part_bytes: u64,
    /// Maximum number of bytes of shared strings.
    pub string_bytes: usize,
    /// Most work: bytes that are read, and bytes and cells of rows. An ods file has all sheets in one part, which is read for their
    /// names, for each sheet in which an address is looked for, and for the rows.
    pub work: u64,
    /// Whether the other sheets with addresses are looked for, which are not read.
    pub names_unread: bool,
}

impl WorkbookLimits {
    /// Limits for `mailprobe clean`: a damaged file cannot fill memory or disk.
    pub const OWN: WorkbookLimits =
        WorkbookLimits { part_bytes: 16 << 30, string_bytes: 512 << 20, work: 256 << 30, names_unread: true };
}

/// A sheet of a spreadsheet as CSV, in a temporary file. Clones have the same file.
#[derive(Clone)]
pub struct ConvertedSheet {
    /// UTF-8 with a byte order mark, separated by commas, with CR LF.
    pub(crate) csv: Spool,
    /// The format and the name of the sheet, for people.
    pub(crate) description: String,
    /// The sheet among those of the spreadsheet.
    pub(crate) place: SheetPlace,
    /// The other sheets with an address in their first rows, if they were looked for: their names, and whether they are hidden.
    pub(crate) unread: Vec<(String, bool)>,
}

impl ConvertedSheet {
    /// Whether there are clones or open lists that have the same file.
    pub fn is_shared(&self) -> bool {
        self.csv.is_shared()
    }
}

/// A sheet among those of its spreadsheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetPlace {
    /// The name of the sheet.
    pub name: String,
    /// The number of the sheet, from 1.
    pub number: usize,
    /// The number of sheets of the spreadsheet, with hidden ones.
    pub count: usize,
}

/// Reads a spreadsheet.
///
/// # Errors
/// It is none, is damaged, exceeds the limits, or does not have the wanted sheet.
pub(crate) fn convert(
    input: impl Read,
    wanted: Option<&str>,
    limits: WorkbookLimits,
    create: &CreateFile<'_>,
) -> Result<ConvertedSheet> {
    let mut writer = SpoolWriter::new(create)?;
    std::io::copy(&mut input.take(limits.part_bytes.saturating_add(1)), &mut writer)?;
    if writer.length() > limits.part_bytes {
        return Err(broken("it is too large: save it as CSV"));
    }
    let work = Work::new(limits.work);
    work.spend(writer.length())?;
    let archive = Archive::open(writer.finish()?, work.clone())?;
    let mut book: Box<dyn Workbook> = if archive.has("content.xml") {
        Box::new(ods::Ods::open(archive, limits)?)
    } else if archive.has("[Content_Types].xml") && archive.has("xl/workbook.xml") {
        Box::new(xlsx::Xlsx::open(archive, limits)?)
    } else {
        return Err(broken("it is an archive without a spreadsheet of the formats xlsx and ods"));
    };
    let sheets = book.sheets().to_vec();
    if let Some(wanted) = wanted {
        let Some(at) = sheets.iter().position(|sheet| &*sheet.name == wanted) else {
            let names = crate::columns::listed(sheets.iter().map(|sheet| sheet.name.to_string()));
            return Err(broken(&format!("there is no sheet `{wanted}`: it has {names}")));
        };
        return converted(&mut *book, at, &sheets[at], (limits, work), create);
    }
    let mut first = None;
    let visible = sheets.iter().enumerate().filter(|(_, sheet)| !sheet.is_hidden);
    for (at, sheet) in visible.take(SAMPLE_SHEETS_MAX) {
        let sample = sampled(&mut *book, at, &work)?;
        if sample.has_address {
            let mut found = converted(&mut *book, at, sheet, (limits, work.clone()), create)?;
            if limits.names_unread {
                found.unread = unread(&mut *book, at, &work);
            }
            return Ok(found);
        }
        if sample.rows > 0 && first.is_none() {
            first = Some(at);
        }
    }
    match first.or((!sheets.is_empty()).then_some(0)) {
        Some(at) => converted(&mut *book, at, &sheets[at], (limits, work), create),
        None => Err(broken("it has no sheet")),
    }
}

/// Looks for an address in the first rows of a sheet.
fn sampled(book: &mut dyn Workbook, at: usize, work: &Work) -> Result<Sampler> {
    let mut sample = Sampler::default();
    book.rows(at, &mut |row| {
        work.spend(row_work(row))?;
        Ok(sample.take(row))
    })?;
    Ok(sample)
}

/// The sheets with addresses besides the one that is read. A damaged sheet, or one beyond the work that this is worth, ends the search.
fn unread(book: &mut dyn Workbook, read: usize, work: &Work) -> Vec<(String, bool)> {
    work.lower_to(UNREAD_WORK_MAX);
    let sheets = book.sheets().to_vec();
    let others = sheets.into_iter().enumerate().take(SAMPLE_SHEETS_MAX).filter(|(at, _)| *at != read);
    let sampled = others.map_while(|(at, sheet)| Some((sheet, sampled(book, at, work).ok()?)));
    let found = sampled.filter(|(_, sample)| sample.has_address);
    found.map(|(sheet, _)| (sheet.name.to_string(), sheet.is_hidden)).collect()
}

fn converted(
    book: &mut dyn Workbook,
    at: usize,
    sheet: &Sheet,
    (limits, work): (WorkbookLimits, Work),
    create: &CreateFile<'_>,
) -> Result<ConvertedSheet> {
    let mut writer = SpoolWriter::new(create)?;
    writer.write_all(Encoding::utf_8(true).bom())?;
    let mut line = Vec::new();
    book.rows(at, &mut |row| {
        work.spend(row_work(row))?;
        line.clear();
        write_row(row, &mut line);
        writer.write_all(&line)?;
        if writer.length() > limits.part_bytes {
            return Err(broken("its sheet is too large: save it as CSV"));
        }
        Ok(true)
    })?;
    let place = SheetPlace { name: sheet.name.to_string(), number: at + 1, count: book.sheets().len() };
    let name = crate::columns::listed(std::iter::once(place.name.clone()));
    let description = format!("{}, sheet {name}", book.format());
    Ok(ConvertedSheet { csv: writer.finish()?, description, place, unread: Vec::new() })
}

/// The work for a row.
fn row_work(row: &[String]) -> u64 {
    row.iter().map(|cell| cell.len() as u64 + CELL_WORK).sum()
}

fn write_row(row: &[String], line: &mut Vec<u8>) {
    for (at, cell) in row.iter().enumerate() {
        if at > 0 {
            line.push(b',');
        }
        // A row of one cell that is empty otherwise would be a blank line.
        if cell.contains(['"', ',', '\r', '\n']) || row.len() == 1 {
            line.push(b'"');
            line.extend(cell.replace('"', "\"\"").bytes());
            line.push(b'"');
        } else {
            line.extend_from_slice(cell.as_bytes());
        }
    }
    line.extend_from_slice(b"\r\n");
}

/// A sheet of a spreadsheet.
#[derive(Debug, Clone)]
struct Sheet {
    name: Rc<str>,
    is_hidden: bool,
    /// The part with its cells. Many sheets can name one part.
    part: Rc<str>,
}

/// Takes a row without empty cells at its end; `false` ends the reading.
type TakeRow<'a> = dyn FnMut(&[String]) -> Result<bool> + 'a;

trait Workbook {
    /// Its format, for people.
    fn format(&self) -> &'static str;

    /// Its sheets in their order.
    fn sheets(&self) -> &[Sheet];

    /// Reads the rows of a sheet that are not blank.
    fn rows(&mut self, sheet: usize, take: &mut TakeRow<'_>) -> Result<()>;
}

/// Looks for an address in the first rows of a sheet.
#[derive(Default)]
struct Sampler {
    rows: u64,
    bytes: usize,
    has_address: bool,
}

impl Sampler {
    fn take(&mut self, row: &[String]) -> bool {
        self.rows += 1;
        self.bytes += row.iter().map(String::len).sum::<usize>();
        self.has_address = row.iter().any(|cell| cell.contains('@') && in_cell(cell).address.is_some());
        !self.has_address && self.rows < SAMPLE_ROWS && self.bytes < SAMPLE_BYTES
    }
}

/// The cells of a row.
#[derive(Default)]
struct Cells {
    texts: Vec<String>,
    /// Number of bytes of all cells.
    bytes: usize,
}

impl Cells {
    /// Sets a cell, and copies its text only if the row has room for it. Empty cells take no space at the end of the row.
    ///
    /// # Errors
    /// The row is too long, or it has the cell already.
    fn set(&mut self, column: usize, text: Cow<'_, str>) -> Result<()> {
        if column >= SHEET_COLUMNS_MAX || text.len() > CELL_BYTES_MAX {
            return Err(broken("it has too many columns or a cell that is too long"));
        }
        if text.is_empty() {
            return Ok(());
        }
        self.bytes += text.len();
        if self.bytes > ROW_BYTES_MAX {
            return Err(broken("it has a row that is too long"));
        }
        if self.texts.len() <= column {
            self.texts.resize(column + 1, String::new());
        }
        // A cell that is written again and again would take time, and no space.
        if !self.texts[column].is_empty() {
            return Err(broken("it has two cells in one place"));
        }
        self.texts[column] = text.into_owned();
        Ok(())
    }

    /// Hands the row over, unless it is blank.
    fn end(&mut self, take: &mut TakeRow<'_>) -> Result<bool> {
        let goes_on = self.texts.is_empty() || take(&self.texts)?;
        self.texts.clear();
        self.bytes = 0;
        Ok(goes_on)
    }
}

#[cfg(test)]
mod tests;
