//! Spreadsheets of the format ods (OpenDocument 1.3, part 3).

use super::archive::{Archive, broken};
use super::numbers::number;
use super::xml::{Xml, XmlEvent, attribute, name_in};
use super::{CELL_BYTES_MAX, Cells, SHEET_COLUMNS_MAX, Sheet, TakeRow, Workbook, WorkbookLimits};
use quick_xml::events::BytesStart;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Result;

/// Most sheets and rows, as in the programs of the format.
const SHEETS_MAX: usize = 10_000;
const SHEET_ROWS_MAX: u64 = 1_048_576;

pub(super) struct Ods {
    archive: Archive,
    limits: WorkbookLimits,
    sheets: Vec<Sheet>,
}

impl Ods {
    /// Reads the names of the sheets.
    pub fn open(archive: Archive, limits: WorkbookLimits) -> Result<Ods> {
        let mut book = Ods { archive, limits, sheets: Vec::new() };
        let (mut xml, mut depth) = (book.content()?, 0);
        let mut hidden_styles: HashSet<String> = HashSet::new();
        let mut style = None;
        loop {
            match xml.next()? {
                XmlEvent::Start(start) => match start.local_name().as_ref() {
                    "style" => style = name_in(&start, "name")?,
                    "table-properties" if attribute(&start, "display").as_deref() == Some("false") => {
                        hidden_styles.extend(style.take());
                    }
                    "table" => {
                        depth += 1;
                        if depth == 1 {
                            let name = name_in(&start, "name")?.unwrap_or_default();
                            let of_style = attribute(&start, "style-name");
                            let is_hidden = of_style.is_some_and(|style| hidden_styles.contains(&style));
                            book.sheets.push(Sheet {
                                name: name.into(),
                                is_hidden,
                                part: "content.xml".into(),
                            });
                        }
                    }
                    _ => {}
                },
                XmlEvent::End(name) if name == "table" => depth -= 1,
                XmlEvent::Done => return Ok(book),
                _ => {}
            }
            if book.sheets.len() > SHEETS_MAX || hidden_styles.len() > SHEETS_MAX {
                return Err(broken("it has too many sheets"));
            }
        }
    }

    fn content(&self) -> Result<Xml> {
        let part = self.archive.read("content.xml", self.limits.part_bytes)?;
        part.map(Xml::new).ok_or_else(|| broken("a part of it is missing"))
    }
}

impl Workbook for Ods {
    fn format(&self) -> &'static str {
        "spreadsheet (ods)"
    }

    fn sheets(&self) -> &[Sheet] {
        &self.sheets
    }

    fn rows(&mut self, sheet: usize, take: &mut TakeRow<'_>) -> Result<()> {
        let mut xml = self.content()?;
        let mut reading = Reading::new(sheet);
        loop {
            let goes_on = match xml.next()? {
                XmlEvent::Start(start) => reading.start(&start),
                XmlEvent::Text(piece) => reading.text(&piece),
                XmlEvent::End(name) => reading.end(&name, take),
                XmlEvent::Done => Ok(false),
                XmlEvent::Other => Ok(true),
            };
            if !goes_on? {
                return Ok(());
            }
        }
    }
}

/// The state of reading a sheet.
struct Reading {
    /// Number of sheets before the wanted one that have not begun.
    before: usize,
    is_in_sheet: bool,
    /// Depth of tables: a cell may have tables in it.
    depth: usize,
    cells: Cells,
    column: usize,
    rows: u64,
    row_repeats: u64,
    cell_repeats: usize,
    /// The value of the cell if its text is not the value.
    value: Option<String>,
    text: String,
    paragraphs: usize,
    is_in_paragraph: bool,
    /// Depth of comments, which are no text of the cell.
    comments: usize,
}

impl Reading {
    fn new(before: usize) -> Reading {
        Reading {
            before,
            is_in_sheet: false,
            depth: 0,
            cells: Cells::default(),
            column: 0,
            rows: 0,
            row_repeats: 1,
            cell_repeats: 1,
            value: None,
            text: String::new(),
            paragraphs: 0,
            is_in_paragraph: false,
            comments: 0,
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<bool> {
        let repeats = |name| attribute(start, name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
        match start.local_name().as_ref() {
            "table" => {
                self.depth += 1;
                if self.depth == 1 {
                    self.is_in_sheet = self.before == 0;
                    self.before = self.before.wrapping_sub(1);
                }
            }
            _ if !self.is_in_sheet || self.depth > 1 => {}
            "annotation" => self.comments += 1,
            "table-row" => {
                self.row_repeats = repeats("number-rows-repeated");
                self.column = 0;
            }
            "table-cell" | "covered-table-cell" => {
                self.cell_repeats =
                    repeats("number-columns-repeated").min(2 * SHEET_COLUMNS_MAX as u64) as usize;
                self.value = match attribute(start, "value-type").as_deref() {
                    Some("float" | "percentage" | "currency") => {
                        attribute(start, "value").map(|text| number(&text))
                    }
                    Some("date") => attribute(start, "date-value"),
                    Some("boolean") => attribute(start, "boolean-value").map(|value| value.to_uppercase()),
                    _ => None,
                };
                self.text.clear();
                self.paragraphs = 0;
            }
            "p" if self.comments == 0 => {
                if self.paragraphs > 0 {
                    self.text.push('\n');
                }
                self.paragraphs += 1;
                self.is_in_paragraph = true;
            }
            "s" if self.is_in_paragraph => {
                let count = repeats("c").min(1000) as usize;
                self.text.extend(std::iter::repeat_n(' ', count));
            }
            "tab" if self.is_in_paragraph => self.text.push('\t'),
            "line-break" if self.is_in_paragraph => self.text.push('\n'),
            _ => {}
        }
        self.check_text()
    }

    fn text(&mut self, piece: &str) -> Result<bool> {
        if self.is_in_paragraph && self.comments == 0 {
            self.text.push_str(piece);
        }
        self.check_text()
    }

    fn check_text(&self) -> Result<bool> {
        if self.text.len() > CELL_BYTES_MAX {
            Err(broken("it has a cell that is too long"))
        } else {
            Ok(true)
        }
    }

    fn end(&mut self, name: &str, take: &mut TakeRow<'_>) -> Result<bool> {
        match name {
            "table" => {
                self.depth = self.depth.saturating_sub(1);
                return Ok(self.depth > 0 || !self.is_in_sheet);
            }
            _ if !self.is_in_sheet || self.depth > 1 => {}
            "annotation" => self.comments = self.comments.saturating_sub(1),
            "p" => self.is_in_paragraph = false,
            "table-cell" | "covered-table-cell" => self.end_cell()?,
            "table-row" => return self.end_row(take),
            _ => {}
        }
        Ok(true)
    }

    fn end_cell(&mut self) -> Result<()> {
        let text = self.value.take().unwrap_or_else(|| std::mem::take(&mut self.text));
        if !text.is_empty() {
            for n in 0..self.cell_repeats {
                self.cells.set(self.column + n, Cow::Borrowed(&text))?;
            }
        }
        self.column += self.cell_repeats;
        Ok(())
    }

    fn end_row(&mut self, take: &mut TakeRow<'_>) -> Result<bool> {
        // Blank rows up to the end of the sheet are one repeated row.
        let repeats = if self.cells.texts.is_empty() { 0 } else { self.row_repeats };
        self.rows = self.rows.saturating_add(repeats);
        if self.rows > SHEET_ROWS_MAX {
            return Err(broken("it has too many rows"));
        }
        let row = std::mem::take(&mut self.cells);
        for _ in 0..repeats {
            if !take(&row.texts)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
