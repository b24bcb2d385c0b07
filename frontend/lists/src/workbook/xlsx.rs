//! Spreadsheets of the format xlsx (ECMA-376 part 1, SpreadsheetML).

use super::archive::{Archive, broken};
use super::numbers::{date, is_date_format, number};
use super::xml::{Xml, XmlEvent, attribute, name_in};
use super::{CELL_BYTES_MAX, Cells, SHEET_COLUMNS_MAX, Sheet, TakeRow, Workbook, WorkbookLimits};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Result;
use std::rc::Rc;

/// Most sheets, relationships and number formats. Files of other programs have a few.
const ENTRIES_MAX: usize = 10_000;

pub(super) struct Xlsx {
    archive: Archive,
    limits: WorkbookLimits,
    sheets: Vec<Sheet>,
    strings: Strings,
    /// Whether each cell format shows a date.
    is_date: Vec<bool>,
    is_1904: bool,
}

/// The strings that cells share, one after another.
#[derive(Default)]
struct Strings {
    chunks: Vec<String>,
    /// The chunk, start and length of each string.
    places: Vec<(u32, u32, u32)>,
    bytes: usize,
}

/// Number of bytes in a chunk. A growing text would be copied, and take twice the memory meanwhile.
const CHUNK: usize = 1 << 20;

impl Strings {
    fn push(&mut self, text: &str, most: usize) -> Result<()> {
        self.bytes += text.len() + size_of::<(u32, u32, u32)>();
        if self.bytes > most {
            return Err(broken("its texts take too much memory: save it as CSV"));
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() + text.len() > CHUNK) {
            self.chunks.push(String::with_capacity(CHUNK.max(text.len())));
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        self.places.push((at as u32, chunk.len() as u32, text.len() as u32));
        chunk.push_str(text);
        Ok(())
    }

    fn get(&self, number: usize) -> Option<&str> {
        let &(chunk, start, length) = self.places.get(number)?;
        self.chunks.get(chunk as usize)?.get(start as usize..(start + length) as usize)
    }
}

impl Xlsx {
    /// Reads everything but the cells.
    pub fn open(archive: Archive, limits: WorkbookLimits) -> Result<Xlsx> {
        let mut book = Xlsx {
            archive,
            limits,
            sheets: Vec::new(),
            strings: Strings::default(),
            is_date: Vec::new(),
            is_1904: false,
        };
        let targets = book.targets()?;
        book.read_sheets(&targets)?;
        book.read_formats()?;
        book.read_strings()?;
        Ok(book)
    }

    fn part(&self, name: &str) -> Result<Option<Xml>> {
        Ok(self.archive.read(name, self.limits.part_bytes)?.map(Xml::new))
    }

    /// The parts of worksheets by the ids of their relationships.
    fn targets(&self) -> Result<HashMap<String, Rc<str>>> {
        let mut targets = HashMap::new();
        let Some(mut xml) = self.part("xl/_rels/workbook.xml.rels")? else { return Ok(targets) };
        loop {
            match xml.next()? {
                XmlEvent::Start(start) if start.local_name().as_ref() == "Relationship" => {
                    let is_worksheet =
                        attribute(&start, "Type").is_some_and(|kind| kind.ends_with("/worksheet"));
                    if !is_worksheet {
                        continue;
                    }
                    if let (Some(id), Some(target)) = (name_in(&start, "Id")?, name_in(&start, "Target")?) {
                        let part = match target.strip_prefix('/') {
                            Some(whole) => whole.to_owned(),
                            None => format!("xl/{}", target.trim_start_matches("./")),
                        };
                        targets.insert(id, part.into());
                    }
                }
                XmlEvent::Done => return Ok(targets),
                _ => {}
            }
            check_count(targets.len())?;
        }
    }

    fn read_sheets(&mut self, targets: &HashMap<String, Rc<str>>) -> Result<()> {
        let mut xml = self.part("xl/workbook.xml")?.ok_or_else(|| broken("a part of it is missing"))?;
        loop {
            match xml.next()? {
                XmlEvent::Start(start) => match start.local_name().as_ref() {
                    "workbookPr" => {
                        let given = attribute(&start, "date1904");
                        self.is_1904 = given.is_some_and(|given| given == "1" || given == "true");
                    }
                    "sheet" => {
                        let part = attribute(&start, "id").and_then(|id| targets.get(&id));
                        if let (Some(name), Some(part)) = (name_in(&start, "name")?, part) {
                            let state = attribute(&start, "state");
                            let is_hidden = state.is_some_and(|state| state != "visible");
                            self.sheets.push(Sheet { name: name.into(), is_hidden, part: part.clone() });
                        }
                    }
                    _ => {}
                },
                XmlEvent::Done => return Ok(()),
                _ => {}
            }
            check_count(self.sheets.len())?;
        }
    }

    fn read_formats(&mut self) -> Result<()> {
        let Some(mut xml) = self.part("xl/styles.xml")? else { return Ok(()) };
        // Whether each format with a code of its own shows a date.
        let mut codes: HashMap<u32, bool> = HashMap::new();
        let mut is_in_cell_formats = false;
        loop {
            match xml.next()? {
                XmlEvent::Start(start) => match start.local_name().as_ref() {
                    "numFmt" => {
                        let id = attribute(&start, "numFmtId").and_then(|id| id.parse().ok());
                        if let (Some(id), Some(code)) = (id, attribute(&start, "formatCode")) {
                            codes.insert(id, is_date_format(id, Some(&code)));
                        }
                    }
                    "cellXfs" => is_in_cell_formats = true,
                    "xf" if is_in_cell_formats => {
                        let id = attribute(&start, "numFmtId").and_then(|id| id.parse().ok()).unwrap_or(0);
                        let is_date = codes.get(&id).copied().unwrap_or_else(|| is_date_format(id, None));
                        self.is_date.push(is_date);
                    }
                    _ => {}
                },
                XmlEvent::End(name) if name == "cellXfs" => is_in_cell_formats = false,
                XmlEvent::Done => return Ok(()),
                _ => {}
            }
            check_count(codes.len())?;
            check_count(self.is_date.len() / 7)?;
        }
    }

    fn read_strings(&mut self) -> Result<()> {
        let Some(mut xml) = self.part("xl/sharedStrings.xml")? else { return Ok(()) };
        let mut text = Text::default();
        loop {
            match xml.next()? {
                XmlEvent::Start(start) => match start.local_name().as_ref() {
                    "si" => text = Text::default(),
                    name => text.start(name),
                },
                XmlEvent::Text(piece) => text.push(&piece)?,
                XmlEvent::End(name) if name == "si" => {
                    self.strings.push(&unescaped(&text.text), self.limits.string_bytes)?;
                }
                XmlEvent::End(name) => text.end(&name),
                XmlEvent::Done => return Ok(()),
                XmlEvent::Other => {}
            }
        }
    }

    fn value(&self, cell: &CellValue) -> Cow<'_, str> {
        let text = &cell.text.text;
        Cow::Owned(match cell.kind.as_str() {
            "s" => {
                let number = text.trim().parse().ok();
                return Cow::Borrowed(number.and_then(|number| self.strings.get(number)).unwrap_or_default());
            }
            "b" => return Cow::Borrowed(if text.trim() == "1" { "TRUE" } else { "FALSE" }),
            "str" | "inlineStr" | "e" | "d" => unescaped(text),
            _ if text.trim().is_empty() => String::new(),
            _ if self.is_date.get(cell.format).is_some_and(|is_date| *is_date) => date(text, self.is_1904),
            _ => number(text),
        })
    }
}

impl Workbook for Xlsx {
    fn format(&self) -> &'static str {
        "spreadsheet (xlsx)"
    }

    fn sheets(&self) -> &[Sheet] {
        &self.sheets
    }

    fn rows(&mut self, sheet: usize, take: &mut TakeRow<'_>) -> Result<()> {
        let part = &self.sheets[sheet].part;
        let mut xml = self.part(part)?.ok_or_else(|| broken("a sheet of it is missing"))?;
        let (mut cells, mut cell, mut column, mut is_in_data) =
            (Cells::default(), CellValue::default(), 0, false);
        loop {
            match xml.next()? {
                XmlEvent::Start(start) => match start.local_name().as_ref() {
                    "sheetData" => is_in_data = true,
                    "row" => column = 0,
                    "c" if is_in_data => {
                        column = attribute(&start, "r").and_then(|place| column_of(&place)).unwrap_or(column);
                        cell = CellValue {
                            kind: attribute(&start, "t").unwrap_or_default(),
                            format: attribute(&start, "s").and_then(|style| style.parse().ok()).unwrap_or(0),
                            text: Text::default(),
                        };
                    }
                    name => cell.text.start(name),
                },
                XmlEvent::Text(piece) => cell.text.push(&piece)?,
                XmlEvent::End(name) => match name.as_str() {
                    "c" if is_in_data => {
                        cells.set(column, self.value(&cell))?;
                        column += 1;
                    }
                    "row" if is_in_data && !cells.end(take)? => return Ok(()),
                    "sheetData" => return Ok(()),
                    name => cell.text.end(name),
                },
                XmlEvent::Done => return Ok(()),
                XmlEvent::Other => {}
            }
        }
    }
}

#[derive(Default)]
struct CellValue {
    kind: String,
    /// The number of the cell format.
    format: usize,
    text: Text,
}

/// The text of a cell: the content of `v` and of `t`, but not the reading aids of Japanese.
#[derive(Default)]
struct Text {
    text: String,
    is_taken: bool,
    is_phonetic: bool,
}

impl Text {
    fn start(&mut self, name: &str) {
        match name {
            "rPh" => self.is_phonetic = true,
            "t" | "v" => self.is_taken = !self.is_phonetic,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "rPh" => self.is_phonetic = false,
            "t" | "v" => self.is_taken = false,
            _ => {}
        }
    }

    fn push(&mut self, piece: &str) -> Result<()> {
        if self.is_taken {
            self.text.push_str(piece);
        }
        if self.text.len() > CELL_BYTES_MAX {
            return Err(broken("it has a cell that is too long"));
        }
        Ok(())
    }
}

fn check_count(count: usize) -> Result<()> {
    if count > ENTRIES_MAX { Err(broken("it has too many sheets or formats")) } else { Ok(()) }
}

/// The column of a cell, from 0: `B7` is in column 1.
fn column_of(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic);
    let number = letters.fold(0usize, |number, letter| {
        (number * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1).min(2 * SHEET_COLUMNS_MAX)
    });
    number.checked_sub(1)
}

/// Replaces `_x000D_`, by which xlsx writes characters that XML does not allow.
fn unescaped(text: &str) -> String {
    if !text.contains("_x") {
        return text.to_owned();
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("_x") {
        let code = rest.get(at + 2..at + 6).filter(|_| rest[at + 6..].starts_with('_'));
        let character = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        let (length, taken) = if character.is_some() { (7, 0) } else { (2, 2) };
        out.push_str(&rest[..at + taken]);
        out.extend(character);
        rest = &rest[at + length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_escapes() {
        for (place, column) in
            [("A1", Some(0)), ("z9", Some(25)), ("AA1", Some(26)), ("XFD1", Some(16_383)), ("7", None)]
        {
            assert_eq!(column_of(place), column, "{place}");
        }
        for (text, expected) in [
            ("a_x000D_b", "a\rb"),
            ("_x005F_x000D_", "_x000D_"),
            ("_xyz_", "_xyz_"),
            ("_x000", "_x000"),
            ("_xé000_", "_xé000_"),
            ("_xD83D_", "_xD83D_"),
        ] {
            assert_eq!(unescaped(text), expected);
        }
    }

    #[test]
    fn strings_are_found_again() {
        let mut strings = Strings::default();
        let texts: Vec<String> = (0..100_000).map(|n| format!("text number {n}")).collect();
        texts.iter().for_each(|text| strings.push(text, usize::MAX).unwrap());
        assert!((0..100_000).all(|n| strings.get(n) == Some(texts[n].as_str())));
        assert_eq!(strings.get(100_000), None);
        assert!(strings.push("x", strings.bytes).is_err());
    }
}
