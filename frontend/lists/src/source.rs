//! The input list: its format, and its rows one after another.

mod detect;
mod endings;
mod escapes;
mod open;
mod options;
mod shape;
mod unpack;

use crate::address::{CellAddress, in_cell};
pub use crate::bounded::ROW_BYTES_MAX;
use crate::bounded::{self, Bounded};
use crate::json::{self, Object};
use crate::numbers::counted;
use crate::{ConvertedSheet, SheetPlace};
use crate::{Format, ListError, ResultColumn, WrittenResults, columns};
use api::{Noted, Reason};
use csv::ByteRecord;
use detect::LineEnd;
pub use endings::{Endings, FoundRow, RowParts, RowScan};
use engine_proto::address::Address;
pub use open::is_spreadsheet;
pub use options::{Limits, ReadOptions};
pub use shape::Shape;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub use unpack::decompressed;

/// Maximum size of blank lines that one step reads, in bytes.
const STEP_BYTES: u64 = 256 * 1024;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A row was read.
    Row,
    /// The list has ended.
    End,
    /// Only blank lines so far: a row may follow.
    Later,
}

/// A row of the list, or another address of the same row.
#[derive(Debug, Default)]
pub struct Row {
    /// The output row up to its verdict, and what follows its verdict. [`Endings`] puts it together with the verdict.
    pub prefix: Vec<u8>,
    /// The address, if its column holds one.
    pub address: Option<Address>,
    /// The address that a cell without one perhaps means.
    pub suggestion: Option<Address>,
    /// Whether the cell of the address is empty. A cell without an address may also have another text.
    pub is_blank: bool,
    /// Whether this is another address of the last row, from another column.
    pub is_continued: bool,
    /// Position of the next row in the input, in bytes.
    pub end: u64,
}

/// What an earlier run has written about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierResult {
    pub reason: Reason,
    /// Its further results, if the list has such columns.
    pub results: WrittenResults,
}

/// Counts of unusual rows so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Notes {
    /// Rows with bytes that are no characters in the encoding of the list. They stay as they are.
    pub undecoded_rows: Noted,
    /// Cells with several addresses, of which the first one counts.
    pub cells_with_more: Noted,
    /// Rows with more values than the list has columns. The further values follow the verdict.
    pub long_rows: Noted,
    /// JSON objects with an array or an object in place of an address. They have no address.
    pub nested_values: Noted,
    /// Lines without any value, which are no rows. They are counted when the list is read to its end.
    pub empty_lines: u64,
}

impl Notes {
    /// The counts for people, one line each. `encoding` is the name of the encoding of the list.
    pub fn lines(&self, encoding: &str) -> Vec<String> {
        let Notes { undecoded_rows, cells_with_more, long_rows, nested_values, empty_lines } = *self;
        let line = |Noted { count, first_row }: Noted, one: &str, many: &str, rest: &str| {
            let first = if count == 1 { "" } else { "the first in " };
            (count > 0).then(|| format!("{} {rest} ({first}row {first_row})", counted(count, one, many)))
        };
        let undecoded = format!("not valid in {encoding}; their bytes stay as they are");
        let empty = counted(empty_lines, "empty line was left out", "empty lines were left out");
        let lines = [
            (empty_lines > 0).then_some(empty),
            line(undecoded_rows, "row is", "rows are", &undecoded),
            line(
                cells_with_more,
                "cell has",
                "cells have",
                "several addresses; only the first one is checked",
            ),
            line(long_rows, "row has", "rows have", "more values than columns; these follow the verdict"),
            line(
                nested_values,
                "row has",
                "rows have",
                "an array or an object in place of an address, so it was not checked; write one row per address",
            ),
        ];
        lines.into_iter().flatten().collect()
    }
}

/// An open list, which is read row by row.
pub struct Source {
    /// The form of its rows.
    shape: Shape,
    reader: Reader,
    /// The name of the list in messages.
    name: String,
    /// The format and the name of the sheet, if the list is a spreadsheet.
    sheet: Option<String>,
    sheet_place: Option<SheetPlace>,
    /// The other sheets with addresses, if they were looked for.
    unread: Vec<(String, bool)>,
    size: Option<u64>,
    /// Number of bytes before the reader's first byte.
    skipped: u64,
    /// The number of bytes read from the input, if the reader has other ones: the input is compressed or UTF-16.
    consumed: Option<unpack::Count>,
    /// The values or the line of the last row. They are reused to save allocations.
    fields: ByteRecord,
    line: Vec<u8>,
    /// How many addresses of the last row were returned, if it has more; else 0.
    returned: usize,
    /// The place of the last address among those of its row, from 0.
    place: usize,
    notes: Notes,
    /// Number of titles, headers and rows so far.
    records: u64,
    /// Number of line ends within the values of CSV so far.
    inner_line_ends: u64,
}

type Input = Bounded<Box<dyn Read>>;

enum Reader {
    Csv(Box<csv::Reader<Input>>),
    Lines { input: BufReader<Input>, line: u64, read: u64 },
}

impl Source {
    /// Opens a list: `-` is standard input.
    ///
    /// # Errors
    /// It cannot be read, is not text, or has no column of addresses.
    pub fn open(path: &Path, options: &ReadOptions<'_>) -> Result<Source, ListError> {
        // This says something about the name, and not only about this machine.
        let unreadable = |error: std::io::Error| {
            ListError::unreadable(format!("{} cannot be read: {error}", path.display()))
        };
        if is_stream(path) {
            return Source::new(Box::new(std::io::stdin()), "standard input", None, options);
        }
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            let path = path.display();
            return Err(ListError::unreadable(format!("{path} cannot be read: it is a folder; name a file")));
        }
        let size = metadata.is_file().then_some(metadata.len());
        let format = options.format.or_else(|| detect::by_name(path));
        let options = ReadOptions { format, ..*options };
        Source::new(Box::new(file), &path.display().to_string(), size, &options)
    }

    /// Opens a list from any reader; `name` is its name in messages.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn new(
        input: Box<dyn Read>,
        name: &str,
        size: Option<u64>,
        options: &ReadOptions<'_>,
    ) -> Result<Source, ListError> {
        open::open(input, name, size, options)
    }

    /// Opens the sheet of a spreadsheet. The limits and the columns of the options hold.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn of_sheet(
        sheet: &ConvertedSheet,
        name: &str,
        options: &ReadOptions<'_>,
    ) -> Result<Source, ListError> {
        open::open_sheet(sheet, name, options)
    }

    /// The form of its rows.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The values of the last row of CSV.
    pub(crate) fn fields(&self) -> &ByteRecord {
        &self.fields
    }

    /// The last line of plain text or JSON lines.
    pub(crate) fn line_bytes(&self) -> &[u8] {
        &self.line
    }

    /// The sheet that is read, if the list is a spreadsheet.
    pub fn sheet_place(&self) -> Option<&SheetPlace> {
        self.sheet_place.as_ref()
    }

    /// Its length in bytes, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Counts of unusual rows so far.
    pub fn notes(&self) -> Notes {
        self.notes
    }

    /// What an earlier run has written about the last address; `None` if there is no such result.
    pub fn earlier_result(&self) -> Option<EarlierResult> {
        let (reason, results) = match self.shape.format {
            Format::Csv => {
                let columns = self.shape.columns.earlier_verdicts.get(self.place)?.as_ref()?;
                let text = |at: usize| {
                    self.shape.encoding.text(self.fields.get(at).unwrap_or_default()).trim().to_owned()
                };
                let mut results = WrittenResults::default();
                for &(column, at) in &columns.further {
                    results.set(column, &text(at));
                }
                (columns::reason_of(&text(columns.verdict), &text(columns.verdict + 1))?, results)
            }
            Format::Jsonl => {
                json::earlier_result(&Object::parse(&self.line).ok()?, &self.shape.columns.verdicts[0])?
            }
            Format::Text => return None,
        };
        Some(EarlierResult { reason, results })
    }

    /// The further columns of results that an earlier run has added for the first column of addresses, in their order. The objects of
    /// JSON lines may have different ones: these are of the last row.
    pub fn earlier_columns(&self) -> Vec<ResultColumn> {
        match (self.shape.format, self.shape.columns.earlier_verdicts.first()) {
            (Format::Jsonl, _) => Object::parse(&self.line)
                .map(|object| json::earlier_columns(&object, &self.shape.columns.verdicts[0]))
                .unwrap_or_default(),
            (_, Some(Some(columns))) => columns.further.iter().map(|(column, _)| *column).collect(),
            _ => Vec::new(),
        }
    }

    /// Reads the next row into `row`; `false` at the end. Blank lines are skipped.
    ///
    /// # Errors
    /// Reading fails, a row is too long, or a line is not a JSON object.
    pub fn next(&mut self, row: &mut Row) -> Result<bool, ListError> {
        loop {
            match self.step(row)? {
                Step::Row => return Ok(true),
                Step::End => return Ok(false),
                Step::Later => {}
            }
        }
    }

    /// Number of decompressed and decoded bytes processed so far.
    pub fn passed(&self) -> u64 {
        match &self.reader {
            Reader::Csv(reader) => reader.position().byte(),
            Reader::Lines { read, .. } => *read,
        }
    }

    /// Like [`Source::next`], but with bounded work: it processes little more than the length of the longest row.
    ///
    /// # Errors
    /// As [`Source::next`].
    pub fn step(&mut self, row: &mut Row) -> Result<Step, ListError> {
        row.prefix.clear();
        row.is_continued = self.returned > 0;
        if row.is_continued {
            self.take_next_address(row);
            return Ok(Step::Row);
        }
        let step = self.record()?;
        if step != Step::Row {
            return Ok(step);
        }
        self.place = 0;
        match self.shape.format {
            Format::Csv => {
                self.shape.row(&self.fields, &mut row.prefix);
                self.take_cell(row, self.shape.columns.addresses[0]);
            }
            Format::Jsonl => {
                let object = Object::parse(&self.line).map_err(|why| self.broken(why))?;
                json::begin(&object, &self.shape.columns.verdicts[0], &mut row.prefix);
                let text = object.text(&self.shape.key);
                let is_nested = text.is_none() && object.is_nested(&self.shape.key);
                self.notes.nested_values.add(is_nested, self.records);
                row.is_blank = object.is_blank(&self.shape.key);
                self.take(row, text.map(|text| in_cell(&text)).unwrap_or_default());
            }
            Format::Text => {
                self.shape.values(std::iter::once(self.line.as_slice()), 1, &mut row.prefix);
                row.is_blank = false;
                let found = in_cell(&self.shape.encoding.text(&self.line));
                self.take(row, found);
            }
        }
        let is_undecoded = !self.shape.encoding.is_valid(&row.prefix);
        self.notes.undecoded_rows.add(is_undecoded, self.records);
        self.shape.encoding.encode(&mut row.prefix, 0);
        self.end_of_row(row, 1);
        row.end = match &self.consumed {
            Some(count) => count.get(),
            None => self.passed() + self.skipped,
        };
        Ok(Step::Row)
    }

    /// Takes the next address of the last row.
    fn take_next_address(&mut self, row: &mut Row) {
        let at = self.returned;
        self.place = at;
        self.take_cell(row, self.shape.columns.addresses[at]);
        self.end_of_row(row, at + 1);
    }

    /// Marks what follows the verdict of a row, after this number of its addresses.
    fn end_of_row(&mut self, row: &mut Row, returned: usize) {
        if returned < self.shape.addresses() {
            self.returned = returned;
            endings::mark_open(&mut row.prefix);
            return;
        }
        self.returned = 0;
        if self.shape.format == Format::Csv && self.fields.len() > self.shape.columns.width {
            self.notes.long_rows.add(true, self.records);
            let at = row.prefix.len();
            self.shape.end_line(&self.fields, &mut row.prefix);
            self.shape.encoding.encode(&mut row.prefix, at);
            endings::mark_tail(&mut row.prefix, at);
        }
    }

    /// Takes the address from a column of the last record.
    fn take_cell(&mut self, row: &mut Row, column: usize) {
        let text = self.shape.text(self.fields.get(column).unwrap_or_default());
        row.is_blank = text.trim().is_empty();
        let found = in_cell(&text);
        self.take(row, found);
    }

    fn take(&mut self, row: &mut Row, found: CellAddress) {
        self.notes.cells_with_more.add(found.has_more, self.records);
        (row.address, row.suggestion) = (found.address, found.suggestion);
    }

    /// Reads the values or the line of the next row.
    fn record(&mut self) -> Result<Step, ListError> {
        let result = match &mut self.reader {
            Reader::Csv(reader) => {
                reader.get_mut().refill();
                let line = reader.position().line();
                let came = reader.read_byte_record(&mut self.fields).map_err(io_error);
                if reader.position().line() > line + 1 && is_open(&self.fields, reader.get_ref()) {
                    return Err(self.unclosed(line));
                }
                came.map(|came| if came { Step::Row } else { Step::End })
            }
            Reader::Lines { input, line, read } => {
                let end = self.shape.dialect.line_end;
                next_line(input, end, &mut self.line, (line, read), &mut self.notes.empty_lines)
            }
        };
        let step = result.map_err(|error| self.unreadable(&error))?;
        self.records += u64::from(step == Step::Row);
        if let Reader::Csv(reader) = &self.reader {
            match step {
                Step::Row => self.inner_line_ends += line_ends(self.fields.as_slice()),
                // The reader skips empty lines, but counts them.
                Step::End => {
                    let unended = u64::from(!reader.get_ref().ends_with_line());
                    let lines = reader.position().line() - 1 + unended;
                    self.notes.empty_lines = lines.saturating_sub(self.records + self.inner_line_ends);
                }
                Step::Later => {}
            }
        }
        Ok(step)
    }

    fn unreadable(&self, error: &std::io::Error) -> ListError {
        let (name, line) = (&self.name, self.line());
        if bounded::is_too_long(error) {
            return ListError::unreadable(format!(
                "{name}: the row at line {line} is longer than 1 MiB: look for an unclosed quote or for many blank lines"
            ));
        }
        ListError::reading(format_args!("{name} cannot be read at line {line}"), error)
    }

    fn unclosed(&self, line: u64) -> ListError {
        ListError::unreadable(format!(
            "{}: a quote in the row at line {line} is not closed: close it, or write two quotes for one",
            self.name
        ))
    }

    fn broken(&self, why: &str) -> ListError {
        ListError::unreadable(format!("{}: line {} {why}: write one object per line", self.name, self.line()))
    }

    /// The number of the last line read.
    fn line(&self) -> u64 {
        match &self.reader {
            Reader::Csv(reader) => reader.position().line(),
            Reader::Lines { line, .. } => *line,
        }
    }
}

/// Whether the last value of the list has a quote that is not closed: it has line ends, and the list does not end with a quote.
fn is_open(fields: &ByteRecord, input: &Input) -> bool {
    let has_line_end = |value: &[u8]| value.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    input.has_ended() && !input.ends_with_quote() && fields.iter().next_back().is_some_and(has_line_end)
}

fn line_ends(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Whether the name means standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether both names mean the same file, also through links. Devices are no files.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    if is_stream(one) || is_stream(other) {
        return false;
    }
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => place(one) == place(other),
        _ => false,
    }
}

/// The path of a file that does not exist, with the links of its folder resolved.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn io_error(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// Reads the next line that is not blank, without its line end, and counts those before.
fn next_line(
    input: &mut BufReader<Input>,
    end: LineEnd,
    bytes: &mut Vec<u8>,
    (line, read): (&mut u64, &mut u64),
    empty: &mut u64,
) -> std::io::Result<Step> {
    let began = *read;
    while *read - began < STEP_BYTES {
        input.get_mut().refill();
        bytes.clear();
        *line += 1;
        let count = input.read_until(end.last(), bytes)?;
        *read += count as u64;
        if bytes.len() > ROW_BYTES_MAX {
            return Err(bounded::too_long());
        }
        if count == 0 {
            return Ok(Step::End);
        }
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        if !bytes.trim_ascii().is_empty() {
            return Ok(Step::Row);
        }
        *empty += 1;
    }
    Ok(Step::Later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn empty_lines_are_counted() {
        for (list, empty) in [
            ("a@b.co\n\nc@d.co\n \n", 2),
            ("email\na@b.co\nc@d.co\n", 0),
            ("email\na@b.co\nc@d.co", 0),
            ("\n\nemail\n\na@b.co\n\n\nc@d.co", 5),
            ("email,n\r\n\r\na@b.co,\"1\r\n\r\n2\"\r\nc@d.co,2\r\n", 1),
            ("email,n\na@b.co,\"1\n\"\n,\nc@d.co,2\n\n\n", 2),
            ("{\"email\":\"a@b.co\"}\n\n{\"email\":\"c@d.co\"}\n", 1),
        ] {
            let input = Box::new(Cursor::new(list));
            let mut source = Source::new(input, "x", None, &ReadOptions::default()).unwrap();
            while source.next(&mut Row::default()).unwrap() {}
            assert_eq!(source.notes().empty_lines, empty, "{list:?}");
        }
        let said = |empty_lines| Notes { empty_lines, ..Notes::default() }.lines("UTF-8").concat();
        assert_eq!(said(1), "1 empty line was left out");
        assert_eq!(said(1200), "1,200 empty lines were left out");
    }

    #[test]
    fn blank_lines_end_a_step() {
        let list =
            [b"a@example.com".to_vec(), vec![b'\n'; 3 * detect::READ_BYTES * 4], b"b@example.com".to_vec()]
                .concat();
        let mut source =
            Source::new(Box::new(Cursor::new(list)), "x", None, &ReadOptions::default()).unwrap();
        let mut row = Row::default();
        let mut steps = Vec::new();
        while steps.last() != Some(&Step::End) {
            let before = source.passed();
            steps.push(source.step(&mut row).unwrap());
            assert!(source.passed() - before < STEP_BYTES + 100);
        }
        assert_eq!(steps, [Step::Row, Step::Later, Step::Later, Step::Row, Step::End]);
    }
    #[test]
    fn json_objects_need_not_have_the_same_key_of_addresses() {
        let key = |list: String| {
            let list = Cursor::new(list.into_bytes());
            let source = Source::new(Box::new(list), "x.jsonl", None, &ReadOptions::default());
            source.map(|source| (source.shape.chosen.concat(), source.shape.left_out))
        };
        let (without, with, other) =
            ("{\"n\":1}\n", "{\"n\":2,\"email\":\"a@x.com\"}\n", "{\"mail\":\"b@x.com\"}\n");
        assert_eq!(key([without, with].concat()).unwrap().0, "email");
        assert_eq!(key([without, other].concat()).unwrap().0, "mail");
        for list in [[other, with], [with, other]] {
            let (chosen, left_out) = key(list.concat()).unwrap();
            let left_out: Vec<_> = left_out.iter().map(|left| (left.name.as_str(), left.rows)).collect();
            assert_eq!((chosen.as_str(), &left_out[..]), ("email", &[("mail", 1)][..]), "{list:?}");
        }
        let error = key(without.to_owned()).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "there is no key `email`: the list has n");
    }
}
