//! Opens a list: samples its beginning, and detects its encoding, format and columns.

use super::escapes::Marked;
use super::options::{Limits, ReadOptions};
use super::{Input, Notes, Reader, Shape, Source, Step, detect, unpack};
use crate::address::in_cell;
use crate::bounded::Bounded;
use crate::columns::{self, Columns, LeftOutColumn, Sample};
use crate::encoding::{self, Encoding, utf16};
use crate::json::{self, Object};
use crate::workbook::{self, ConvertedSheet, CreateFile, WorkbookLimits};
use crate::{Format, ListError, ResultColumn};
use csv::ByteRecord;
use std::collections::HashSet;
use std::io::{BufReader, Cursor, Read};

/// Size of the sample that determines the format, in bytes.
const SAMPLE_BYTES: u64 = 64 * 1024;
/// Maximum number of records in the sample.
const SAMPLE_RECORDS: usize = 1000;

/// How the names of spreadsheets end.
const SPREADSHEETS: [&str; 3] = [".xlsx", ".xlsm", ".ods"];
/// The files that can be read as a list.
const KINDS: &str =
    "a list is CSV, a spreadsheet (xlsx or ods), JSON lines, or plain text with one address per line";
/// The first bytes of an archive, which a spreadsheet is.
const ARCHIVE: &[u8] = b"PK\x03\x04";

/// The beginning of a list, and its rest.
struct Beginning {
    head: Vec<u8>,
    /// Whether the beginning is the list.
    is_whole: bool,
    rest: Box<dyn Read>,
    /// Number of bytes before the beginning.
    skipped: usize,
    consumed: Option<unpack::Count>,
}

impl Beginning {
    fn read(mut input: Box<dyn Read>, consumed: Option<unpack::Count>) -> std::io::Result<Beginning> {
        let mut head = Vec::new();
        input.by_ref().take(SAMPLE_BYTES).read_to_end(&mut head)?;
        let is_whole = (head.len() as u64) < SAMPLE_BYTES;
        Ok(Beginning { head, is_whole, rest: input, skipped: 0, consumed })
    }

    fn skip(&mut self, count: usize) {
        self.head.drain(..count);
        self.skipped += count;
    }

    /// Whether the list is an archive, as spreadsheets are.
    fn is_workbook(&self) -> bool {
        self.head.starts_with(ARCHIVE)
    }

    fn whole(self) -> Box<dyn Read> {
        Box::new(Cursor::new(self.head).chain(self.rest))
    }

    /// The beginning in UTF-8, if the list is UTF-16.
    fn decoded(self, encoding: Encoding) -> std::io::Result<Beginning> {
        let Some(order) = encoding.byte_order() else { return Ok(self) };
        let consumed = self.consumed.clone();
        let (raw, count) = unpack::counted(self.whole());
        Beginning::read(Box::new(utf16::Decoder::new(raw, order)), consumed.or(Some(count)))
    }

    /// The lines of the beginning that are complete and not blank, each with its number from 1.
    fn lines(&self, end: u8) -> impl Iterator<Item = (usize, &[u8])> {
        let complete = match self.is_whole {
            true => self.head.len(),
            false => self.head.iter().rposition(|&byte| byte == end).map_or(0, |at| at + 1),
        };
        let lines = self.head[..complete].split(move |&byte| byte == end).map(<[u8]>::trim_ascii);
        (1..).zip(lines).filter(|(_, line)| !line.is_empty())
    }
}

/// Whether a list is a spreadsheet, by its first bytes after decompression.
///
/// # Errors
/// It cannot be read.
pub fn is_spreadsheet(input: Box<dyn Read>, name: &str, limits: Option<Limits>) -> Result<bool, ListError> {
    let mut head = Vec::new();
    let read = unpack::open(input, limits)
        .and_then(|(input, _)| input.take(ARCHIVE.len() as u64).read_to_end(&mut head));
    read.map_err(|error| unreadable(name, &error))?;
    Ok(head == ARCHIVE)
}

fn beginning(input: Box<dyn Read>, name: &str, limits: Option<Limits>) -> Result<Beginning, ListError> {
    let unreadable = |error| unreadable(name, &error);
    let (input, consumed) = unpack::open(input, limits).map_err(unreadable)?;
    Beginning::read(input, consumed).map_err(unreadable)
}

fn unreadable(name: &str, error: &std::io::Error) -> ListError {
    ListError::reading(format_args!("{name} cannot be read"), error)
}

impl ConvertedSheet {
    /// Converts a list that is a spreadsheet. It takes much time: at most that for the work that the limits allow.
    ///
    /// # Errors
    /// It cannot be read, or has no such sheet.
    pub fn convert(
        input: Box<dyn Read>,
        name: &str,
        options: &ReadOptions<'_>,
        create: &CreateFile<'_>,
    ) -> Result<ConvertedSheet, ListError> {
        converted(beginning(input, name, options.limits)?, name, options, create)
    }
}

fn converted(
    beginning: Beginning,
    name: &str,
    options: &ReadOptions<'_>,
    create: &CreateFile<'_>,
) -> Result<ConvertedSheet, ListError> {
    let limits = options.limits.map_or(WorkbookLimits::OWN, |limits| WorkbookLimits {
        part_bytes: limits.workbook_bytes,
        string_bytes: limits.workbook_text_bytes,
        work: limits.workbook_work,
        names_unread: false,
    });
    workbook::convert(beginning.whole(), options.sheet, limits, create)
        .map_err(|error| unreadable(name, &error))
}

/// Opens a list from any reader; `name` is its name in messages.
pub(super) fn open(
    input: Box<dyn Read>,
    name: &str,
    size: Option<u64>,
    options: &ReadOptions<'_>,
) -> Result<Source, ListError> {
    let beginning = beginning(input, name, options.limits)?;
    if beginning.is_workbook() {
        return open_sheet(&converted(beginning, name, options, &workbook::own_file)?, name, options);
    }
    if options.sheet.is_some() {
        return Err(ListError::unreadable(format!("{name} is no spreadsheet: omit the name of the sheet")));
    }
    open_text(beginning, name, (size, None), options)
}

/// Opens the sheet of a spreadsheet.
pub(super) fn open_sheet(
    sheet: &ConvertedSheet,
    name: &str,
    options: &ReadOptions<'_>,
) -> Result<Source, ListError> {
    let beginning =
        Beginning::read(Box::new(sheet.csv.clone()), None).map_err(|error| unreadable(name, &error))?;
    let options = ReadOptions { format: None, ..*options };
    open_text(beginning, name, (Some(sheet.csv.length()), Some(sheet)), &options)
}

/// Opens a list that is text, or was converted to text.
fn open_text(
    mut beginning: Beginning,
    name: &str,
    (size, sheet): (Option<u64>, Option<&ConvertedSheet>),
    options: &ReadOptions<'_>,
) -> Result<Source, ListError> {
    let no_list = |what: &str, advice: &str| ListError::unreadable(format!("{name} {what}: {advice}"));
    if let Some((what, advice)) = detect::known_file(&beginning.head) {
        return Err(no_list(what, advice));
    }
    let encoding = encoding::detect(&beginning.head, beginning.is_whole);
    if sheet.is_none() && (encoding.is_err() || beginning.head.is_empty()) {
        let lower = name.to_ascii_lowercase();
        if let Some(ending) = SPREADSHEETS.iter().find(|ending| lower.ends_with(**ending)) {
            return Err(ListError::unreadable(format!(
                "{name} is damaged: its name ends with {ending}, but it is neither a spreadsheet nor text. Save it again, or as CSV in UTF-8"
            )));
        }
    }
    let encoding = encoding.map_err(|why| no_list(why.0, detect::SAVE))?;
    beginning.skip(encoding.bom().len());
    let beginning = beginning.decoded(encoding).map_err(|error| unreadable(name, &error))?;
    let (description, place) = sheet.map(|sheet| (sheet.description.clone(), sheet.place.clone())).unzip();
    let unread = sheet.map(|sheet| sheet.unread.clone()).unwrap_or_default();
    let (beginning, shape) = shape(beginning, encoding, name, options, description.as_deref())?;
    let (skipped, mut consumed) = (beginning.skipped as u64, beginning.consumed.clone());
    let mut input = beginning.whole();
    if shape.dialect.has_escapes && shape.format == Format::Csv {
        let (raw, count) = unpack::counted(input);
        input = Box::new(Marked::new(raw, &shape.dialect));
        consumed = consumed.or(Some(count));
    }
    let input: Input = Bounded::new(input);
    let reader = match shape.format {
        Format::Csv => Reader::Csv(Box::new(shape.dialect.reader(input))),
        Format::Jsonl | Format::Text => {
            Reader::Lines { input: BufReader::with_capacity(detect::READ_BYTES, input), line: 0, read: 0 }
        }
    };
    let mut source = Source {
        shape,
        reader,
        name: name.to_owned(),
        sheet: description,
        sheet_place: place,
        unread,
        size,
        skipped,
        consumed,
        fields: ByteRecord::new(),
        line: Vec::new(),
        returned: 0,
        place: 0,
        notes: Notes::default(),
        records: 0,
        inner_line_ends: 0,
    };
    source.read_header()?;
    Ok(source)
}

impl Source {
    /// Reads the titles and the header.
    fn read_header(&mut self) -> Result<(), ListError> {
        for _ in 0..self.shape.columns.titles {
            if self.record()? == Step::Row {
                self.shape.titles.push(self.fields.clone());
            }
        }
        if self.shape.columns.has_header && self.record()? == Step::Row {
            self.shape.header = self.fields.clone();
        }
        Ok(())
    }

    /// What to say about sheets that have addresses too and are not read, and the name of the first one; `None` if there are none.
    pub fn unread_sheets(&self) -> Option<(String, &str)> {
        let (first, _) = self.unread.first()?;
        let name = |(name, is_hidden): &(String, bool)| match is_hidden {
            true => format!("{name} (hidden)"),
            false => name.clone(),
        };
        let names = columns::listed(self.unread.iter().map(name));
        Some((format!("the spreadsheet has addresses in sheets that are not read: {names}"), first))
    }

    /// How the list is read, for people: its format, separator, encoding and columns of addresses.
    pub fn description(&self) -> String {
        let Shape { format, encoding, columns, key, .. } = &self.shape;
        let mut said = match &self.sheet {
            Some(sheet) => sheet.clone(),
            None => form(&self.shape),
        };
        match format {
            Format::Csv => {
                for &column in &columns.addresses {
                    said += &format!(", addresses in column {}", column + 1);
                    if let Some(name) = self.shape.column_name(column) {
                        said += &format!(" ({})", columns::listed(std::iter::once(name)));
                    }
                }
            }
            Format::Jsonl => {
                said += &format!(", addresses in {}", columns::listed(std::iter::once(key.clone())))
            }
            Format::Text => {}
        }
        if columns.titles > 0 {
            let rows = if columns.titles == 1 { "title row" } else { "title rows" };
            said += &format!(", after {} {rows}", columns.titles);
        }
        if *format == Format::Csv {
            said += &match self.shape.header_row() {
                Some(row) => format!(", header in row {row}"),
                None => ", without a header".to_owned(),
            };
        }
        if !columns.earlier.is_empty() {
            said += ", cleaned before";
        }
        if encoding.has_bom() && self.sheet.is_none() {
            said += ", with a byte order mark";
        }
        said
    }
}

/// The format, separator and encoding of a list.
fn form(shape: &Shape) -> String {
    let format = match shape.format {
        Format::Csv => format!("CSV, separated by {}", separator_name(shape.delimiter())),
        Format::Jsonl => "JSON lines".to_owned(),
        Format::Text => "plain text".to_owned(),
    };
    let quotes = match (shape.format, shape.quotes()) {
        (Format::Csv, "backslash") => ", with backslashes before quotes and separators in values",
        (Format::Csv, "none") => ", with quotes as a part of values",
        _ => "",
    };
    format!("{format}{quotes}, in {}", shape.encoding.name())
}

fn separator_name(separator: u8) -> String {
    match separator {
        b'\t' => "tabs".to_owned(),
        b' ' => "spaces".to_owned(),
        other => format!("`{}`", char::from(other)),
    }
}

/// Detects the form of a list. The rest of the beginning starts with the titles, the header or the first row.
fn shape(
    mut beginning: Beginning,
    encoding: Encoding,
    name: &str,
    options: &ReadOptions<'_>,
    sheet: Option<&str>,
) -> Result<(Beginning, Shape), ListError> {
    let is_workbook = sheet.is_some();
    let may_be_csv = options.format.is_none_or(|format| format == Format::Csv);
    let named = detect::separator_line(&beginning.head).filter(|_| may_be_csv && !is_workbook);
    let separator_line = named.map_or(Vec::new(), |(length, _)| beginning.head[..length].to_vec());
    beginning.skip(separator_line.len());
    let separator = named.map(|(_, separator)| separator).or(is_workbook.then_some(b','));
    let (head, is_whole) = (&beginning.head, beginning.is_whole);
    let mut dialect = detect::dialect(head, is_whole, encoding, separator);
    dialect.has_quotes |= is_workbook;
    let is_csv = !options.columns.is_empty() || options.header == Some(true);
    let by_content = || detect::by_content(head, &dialect, encoding, is_csv);
    let format = match separator {
        Some(_) => Format::Csv,
        None => options.format.unwrap_or_else(by_content),
    };
    if options.header.is_some() && (format == Format::Jsonl || format == Format::Text && is_csv) {
        return Err(ListError::unreadable(format!(
            "{name} is read without columns: omit the option for a header"
        )));
    }
    if format == Format::Csv && dialect.delimiter == b'|' && encoding.hides_pipes() {
        let encoding = encoding.name();
        return Err(ListError::unreadable(format!(
            "{name} is separated by `|` in {encoding}, where characters contain this byte: save it in UTF-8"
        )));
    }
    if format == Format::Text {
        (dialect.delimiter, dialect.has_quotes) = (b',', true);
    }
    if format != Format::Csv || is_workbook {
        dialect.has_escapes = false;
    }
    let mut shape = Shape {
        format,
        encoding,
        dialect,
        quoted_bytes: dialect.quoted_bytes(),
        separator_line,
        columns: Columns::single().with_further(options.results),
        titles: Vec::new(),
        header: ByteRecord::new(),
        key: String::new(),
        chosen: Vec::new(),
        left_out: Vec::new(),
    };
    let found = match format {
        Format::Csv => {
            let records = detect::records(head, &dialect, is_whole, SAMPLE_RECORDS);
            let sample = Sample { records, encoding, header: options.header };
            // Before anything is looked for in each column.
            if let Some(limits) = options.limits.filter(|limits| sample.width() > limits.columns) {
                return Err(ListError::unreadable(format!(
                    "{name} has more than {} columns",
                    limits.columns
                )));
            }
            columns::find(&sample, options.columns, options.results).map(|found| {
                let name = |&column: &usize| columns::option_name(&sample, &found, column);
                shape.chosen = found.addresses.iter().map(name).collect();
                shape.left_out = columns::left_out(&sample, &found);
                shape.columns = found;
            })
        }
        Format::Jsonl => key(name, &beginning, &mut shape, options.columns),
        Format::Text if !options.columns.is_empty() => {
            Err(ListError::NoColumns("plain text has no columns".to_owned()))
        }
        Format::Text => any_address(&beginning, &shape),
    };
    found.map_err(|error| match error {
        ListError::NoAddress(columns) => {
            let form = sheet.map_or_else(|| form(&shape), str::to_owned);
            let none = format!("{name} has no address in its first rows, read as {form}");
            match columns.is_empty() {
                true => ListError::NoList(format!("{none}, and no column of addresses: {KINDS}")),
                false => ListError::NoAddress(format!("{none}, with {columns}")),
            }
        }
        error => error,
    })?;
    Ok((beginning, shape))
}

/// Plain text without an address is something else.
fn any_address(beginning: &Beginning, shape: &Shape) -> Result<(), ListError> {
    let mut lines = beginning.lines(shape.dialect.line_end.last()).map(|(_, line)| line).peekable();
    let has_line = lines.peek().is_some();
    if has_line && !lines.any(|line| columns::has_address(line, shape.encoding)) {
        return Err(ListError::NoAddress(String::new()));
    }
    Ok(())
}

/// Finds the key of the addresses in the first object, and the names of the keys of verdicts.
fn key(name: &str, beginning: &Beginning, shape: &mut Shape, wanted: &[String]) -> Result<(), ListError> {
    let wanted = match wanted {
        [] => None,
        [wanted] => Some(wanted.as_str()),
        [_, another, ..] => {
            return Err(ListError::Key(format!(
                "a list of JSON objects has one key of addresses, not also `{another}`"
            )));
        }
    };
    shape.key = wanted.unwrap_or("email").to_owned();
    let end = shape.dialect.line_end.last();
    if beginning.head.trim_ascii_start().first() == Some(&b'[') && detect::is_json(&beginning.head) {
        return Err(ListError::unreadable(format!(
            "{name} is a JSON array: write one object per line, as `jq -c '.[]'` does"
        )));
    }
    // A line that is longer than the sample is parsed later, when it is read.
    let Some((line, first)) = beginning.lines(end).next() else { return Ok(()) };
    Object::parse(first).map_err(|why| {
        ListError::unreadable(format!("{name}: line {line} {why}: write one object per line"))
    })?;
    let objects = || beginning.lines(end).filter_map(|(_, line)| Object::parse(line).ok());
    let looked: Vec<Object<'_>> = objects().take(columns::LOOKED_AT).collect();
    // Objects need not have the same keys: a key counts if any of them has it.
    let mut seen = HashSet::new();
    let keys: Vec<&str> = looked.iter().flat_map(Object::keys).filter(|key| seen.insert(*key)).collect();
    let found = match wanted {
        Some(wanted) => keys.iter().find(|key| **key == wanted),
        None => keys
            .iter()
            .find(|key| **key == "email")
            .or_else(|| keys.iter().find(|key| columns::is_usual(key))),
    };
    let Some(&found) = found else {
        let keys = columns::listed(keys.iter().map(|key| (*key).to_owned()));
        return Err(ListError::Key(format!("there is no key `{}`: the list has {keys}", shape.key)));
    };
    shape.key = found.to_owned();
    shape.chosen = vec![shape.key.clone()];
    shape.columns.verdicts = vec![json::names(objects(), &shape.columns.further)];
    let names = &shape.columns.verdicts[0];
    // The results of an earlier run are no addresses of the list.
    let is_result = |key: &str| {
        ResultColumn::parse(key).is_some() || names.all().any(|name| name.as_slice() == key.as_bytes())
    };
    let others = keys.iter().filter(|key| **key != found && !is_result(key));
    let others = others.map(|key| {
        let texts = || looked.iter().filter_map(|object| object.text(key));
        let rows = texts().filter(|text| in_cell(text).address.is_some()).count();
        let filled = texts().filter(|text| !text.trim().is_empty()).count();
        let column = LeftOutColumn { name: (*key).to_owned(), rows, looked_at: looked.len() };
        (column, filled)
    });
    let others = others.filter(|(column, filled)| column.rows > 0 && column.rows * 2 >= *filled);
    shape.left_out = others.map(|(column, _)| column).collect();
    let mut values =
        objects().filter_map(|object| object.text(found)).filter(|text| !text.trim().is_empty()).peekable();
    let has_value = values.peek().is_some();
    if wanted.is_none() && has_value && !values.any(|text| in_cell(&text).address.is_some()) {
        return Err(ListError::NoAddress(format!(
            "the key {}",
            columns::listed(std::iter::once(found.to_owned()))
        )));
    }
    Ok(())
}
