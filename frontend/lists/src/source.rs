//! The input list: its format, and its rows one after another.

mod bounded;
mod detect;
mod shape;
mod unpack;

use crate::columns::{self, Columns};
use crate::json::{self, Object};
use crate::{Format, ListError};
use bounded::Bounded;
pub use bounded::ROW_BYTES_MAX;
use csv::ByteRecord;
use engine_proto::address::Address;
pub use shape::Shape;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;
pub use unpack::decompressed;

/// Size of the sample that determines the format, in bytes.
const SAMPLE_BYTES: u64 = 64 * 1024;
/// Maximum number of records in the sample.
const SAMPLE_RECORDS: usize = 100;
/// Size of the read buffer, in bytes.
const BUFFER: usize = 64 * 1024;

/// Maximum size of blank lines that one step reads, in bytes.
const STEP_BYTES: u64 = 256 * 1024;

/// Limits for lists from untrusted users.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of bytes after decompression.
    pub bytes: u64,
    /// Maximum number of compressed bytes in sequence that give no output.
    pub packed_without_output: u64,
    /// Largest window of Zstandard, as a power of two. The window is in memory.
    pub window_log: u32,
    /// Maximum number of columns. Shorter rows are filled up to the number of columns of the first row.
    pub columns: usize,
}

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

/// A row of the list.
#[derive(Debug, Default)]
pub struct Row {
    /// The output row up to its verdict.
    pub prefix: Vec<u8>,
    /// The address, if its column holds one.
    pub address: Option<Address>,
    /// Position of the next row in the input, in bytes.
    pub end: u64,
}

/// An open list, which is read row by row.
pub struct Source {
    /// The form of its rows.
    shape: Shape,
    reader: Reader,
    /// The name of the list in messages.
    name: String,
    size: Option<u64>,
    /// Number of bytes before the reader's first byte.
    skipped: u64,
    /// The number of compressed bytes read, if the input is compressed.
    packed: Option<unpack::Count>,
    /// The values or the line of the last row. They are reused to save allocations.
    fields: ByteRecord,
    line: Vec<u8>,
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
    pub fn open(path: &Path, format: Option<Format>, column: Option<&str>) -> Result<Source, ListError> {
        let unreadable = |why: &dyn std::fmt::Display| {
            ListError::unreadable(format!("{} cannot be read: {why}", path.display()))
        };
        if is_stream(path) {
            return Source::new(Box::new(std::io::stdin()), "standard input", None, format, column, None);
        }
        let file = File::open(path).map_err(|e| unreadable(&e))?;
        let metadata = file.metadata().map_err(|e| unreadable(&e))?;
        if metadata.is_dir() {
            return Err(unreadable(&"it is a folder; name a file"));
        }
        let size = metadata.is_file().then_some(metadata.len());
        let format = format.or_else(|| detect::by_name(path));
        Source::new(Box::new(file), &path.display().to_string(), size, format, column, None)
    }

    /// Opens a list from any reader; `name` is its name in messages.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn new(
        input: Box<dyn Read>,
        name: &str,
        size: Option<u64>,
        format: Option<Format>,
        column: Option<&str>,
        limits: Option<Limits>,
    ) -> Result<Source, ListError> {
        let unreadable = |e| ListError::unreadable(format!("{name} cannot be read: {e}"));
        let (mut input, packed) = unpack::open(input, limits).map_err(unreadable)?;
        let mut head = Vec::new();
        input.by_ref().take(SAMPLE_BYTES).read_to_end(&mut head).map_err(unreadable)?;
        let whole = (head.len() as u64) < SAMPLE_BYTES;
        detect::refuse_what_is_no_text(name, &head)?;
        let bom = head.starts_with(detect::BOM);
        let skipped = if bom { detect::BOM.len() } else { 0 };
        head.drain(..skipped);
        let format = format.unwrap_or_else(|| detect::by_content(&head, column.is_some()));
        let mut shape = Shape {
            format,
            delimiter: detect::delimiter(&head),
            crlf: detect::is_crlf(&head),
            bom,
            columns: Columns { address: 0, header: false, count: 1 },
            header: ByteRecord::new(),
            key: String::new(),
        };
        match format {
            Format::Csv => shape.columns = columns::find(&sample(&head, shape.delimiter, whole), column)?,
            Format::Jsonl => shape.key = key(name, &head, whole, column)?,
            Format::Text if column.is_some() => {
                return Err(ListError::NoColumns("plain text has no columns".to_owned()));
            }
            Format::Text => {}
        }
        if let Some(limits) = limits.filter(|limits| shape.columns.count > limits.columns) {
            return Err(ListError::unreadable(format!("{name} has more than {} columns", limits.columns)));
        }
        let input = Bounded::new(Box::new(Cursor::new(head).chain(input)) as Box<dyn Read>);
        let reader = match format {
            Format::Csv => Reader::Csv(Box::new(csv_reader(shape.delimiter, input))),
            Format::Jsonl | Format::Text => {
                Reader::Lines { input: BufReader::with_capacity(BUFFER, input), line: 0, read: 0 }
            }
        };
        let mut source = Source {
            shape,
            reader,
            name: name.to_owned(),
            size,
            skipped: skipped as u64,
            packed,
            fields: ByteRecord::new(),
            line: Vec::new(),
        };
        if source.shape.columns.header && source.record()? == Step::Row {
            source.shape.header = source.fields.clone();
        }
        Ok(source)
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

    /// Its length in bytes, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
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

    /// Number of decompressed bytes processed so far.
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
        let step = self.record()?;
        if step != Step::Row {
            return Ok(step);
        }
        row.prefix.clear();
        row.address = match self.shape.format {
            Format::Csv => {
                self.shape.values(self.fields.iter(), &mut row.prefix);
                self.fields.get(self.shape.columns.address).and_then(parse)
            }
            Format::Jsonl => {
                let object = Object::parse(&self.line).map_err(|why| self.broken(why))?;
                json::begin(&object, &mut row.prefix);
                object.text(&self.shape.key).and_then(|text| parse(text.as_bytes()))
            }
            Format::Text => {
                self.shape.values(std::iter::once(self.line.as_slice()), &mut row.prefix);
                parse(&self.line)
            }
        };
        row.end = match &self.packed {
            Some(count) => count.get(),
            None => self.passed() + self.skipped,
        };
        Ok(Step::Row)
    }

    /// Reads the values or the line of the next row.
    fn record(&mut self) -> Result<Step, ListError> {
        let result = match &mut self.reader {
            Reader::Csv(reader) => {
                reader.get_mut().refill();
                let came = reader.read_byte_record(&mut self.fields).map_err(io_error);
                came.map(|came| if came { Step::Row } else { Step::End })
            }
            Reader::Lines { input, line, read } => next_line(input, &mut self.line, line, read),
        };
        result.map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &std::io::Error) -> ListError {
        let (name, line) = (&self.name, self.line());
        ListError::unreadable(if bounded::is_too_long(error) {
            format!(
                "{name}: the row at line {line} is longer than 1 MiB: look for an unclosed quote or for many blank lines"
            )
        } else {
            format!("{name} cannot be read at line {line}: {error}")
        })
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

/// Whether the name means standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn parse(field: &[u8]) -> Option<Address> {
    Address::parse(columns::trimmed(field)?).ok()
}

fn csv_reader<R: Read>(delimiter: u8, input: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(BUFFER)
        .from_reader(input)
}

fn io_error(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// Reads the next line that is not blank, without its line end.
fn next_line(
    input: &mut BufReader<Input>,
    bytes: &mut Vec<u8>,
    line: &mut u64,
    read: &mut u64,
) -> std::io::Result<Step> {
    let began = *read;
    while *read - began < STEP_BYTES {
        input.get_mut().refill();
        bytes.clear();
        *line += 1;
        let count = input.read_until(b'\n', bytes)?;
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
    }
    Ok(Step::Later)
}

/// The first records. The last one is omitted if the sample may have cut it.
fn sample(head: &[u8], delimiter: u8, whole: bool) -> Vec<ByteRecord> {
    let mut reader = csv_reader(delimiter, head);
    let mut records: Vec<ByteRecord> = reader.byte_records().flatten().take(SAMPLE_RECORDS).collect();
    if !whole && records.len() > 1 && records.len() < SAMPLE_RECORDS {
        records.pop();
    }
    records
}

/// The key of the address in the first object.
fn key(name: &str, head: &[u8], whole: bool, wanted: Option<&str>) -> Result<String, ListError> {
    let mut lines = head.split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let Some((at, line)) = lines.next() else { return Ok(wanted.unwrap_or("email").to_owned()) };
    if line.trim_ascii_start().first() == Some(&b'[') {
        return Err(ListError::unreadable(format!(
            "{name} is a JSON array: write one object per line, as `jq -c '.[]'` does"
        )));
    }
    if !whole && line.len() == head.len() {
        // The line is longer than the sample, so it is parsed later, when it is read.
        return Ok(wanted.unwrap_or("email").to_owned());
    }
    let object = Object::parse(line).map_err(|why| {
        ListError::unreadable(format!("{name}: line {} {why}: write one object per line", at + 1))
    })?;
    let found = match wanted {
        Some(wanted) => object.keys().find(|key| *key == wanted),
        None => object
            .keys()
            .find(|key| *key == "email")
            .or_else(|| object.keys().find(|key| columns::is_usual_name(key.as_bytes()))),
    };
    found.map(str::to_owned).ok_or_else(|| {
        let wanted = wanted.unwrap_or("email");
        let keys = columns::listed(object.keys().map(str::to_owned));
        ListError::Key(format!("there is no key `{wanted}`: the list has {keys}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_end_a_step() {
        let list =
            [b"a@example.com".to_vec(), vec![b'\n'; 3 * BUFFER * 4], b"b@example.com".to_vec()].concat();
        let mut source = Source::new(Box::new(Cursor::new(list)), "x", None, None, None, None).unwrap();
        let mut row = Row::default();
        let mut steps = Vec::new();
        while steps.last() != Some(&Step::End) {
            let before = source.passed();
            steps.push(source.step(&mut row).unwrap());
            assert!(source.passed() - before < STEP_BYTES + 100);
        }
        assert_eq!(steps, [Step::Row, Step::Later, Step::Later, Step::Row, Step::End]);
    }
}
