//! The rows of an uploaded list: its content in the store, read within the limits for strangers.

use crate::conversions::Conversions;
use crate::temp::Refusal;
use lists::words::sentence;
use lists::{Limits, ListError, ReadOptions, ResultColumn, Row, Source, Step};
use std::fmt;
use std::io::{self, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use store::{List, StoreError};
use store_rules::Store;

/// Most decompressed bytes of a list. A list that was uploaded uncompressed can be larger.
const UNPACKED_BYTES_MAX: u64 = 2 << 30;
/// Most compressed bytes in sequence that decompress to nothing.
const HOLLOW_BYTES_MAX: u64 = 256 << 10;
/// Largest window of Zstandard, as a power of two: 8 MiB, which its levels up to 19 use.
const WINDOW_LOG_MAX: u32 = 23;
/// Most decompressed bytes of each part of a spreadsheet, and of its sheet as CSV.
const WORKBOOK_BYTES_MAX: u64 = 256 << 20;
/// Most work for a spreadsheet: about ten seconds. A small upload may cause less. The parts of usual spreadsheets have up to fifty
/// times the bytes of the file, and are read up to three times.
const WORKBOOK_WORK_MAX: u64 = 1 << 30;
const WORKBOOK_WORK_OF_ALL: u64 = 16 << 20;
const WORKBOOK_WORK_PER_BYTE: u64 = 200;
/// Most bytes of the texts that cells of a spreadsheet share. They are in memory while the sheet becomes CSV.
const WORKBOOK_TEXT_BYTES_MAX: usize = 64 << 20;
/// Most columns of a list.
const COLUMNS_MAX: usize = 1_000;

/// Most characters of the name of a list.
pub const NAME_CHARS_MAX: usize = 100;
/// The most columns that are named because they have addresses and are not checked.
pub const OTHER_COLUMNS_MAX: usize = 10;
/// The name of a list in messages.
const NAME: &str = "The list";
/// For the owner of a list that takes more than the share of temporary files.
pub(crate) const TOO_LARGE: &str =
    "The list takes more temporary space than an account may have. Split it, or save it as CSV.";
/// The work of a row besides its bytes, in bytes.
const ROW_WORK: u64 = 128;

/// The remedy at the end of a reason: in the words of the API, which are stored, and in those of the form of the dashboard.
type Remedy = (&'static str, &'static str);

const NAME_COLUMN: Remedy = (
    ": name the column of the addresses, or its number, as `column`",
    ". Enter the name of the column of the addresses, or its number, in the field Address column",
);
const OTHER_COLUMN: Remedy = (
    "; name one of them, or its number, as `column`",
    ". Enter one of them, or its number, in the field Address column",
);
const COLUMN_NUMBER: Remedy = (
    "; give its number as `column`, such as 1",
    ". Enter its number, such as 1, in the field Address column",
);
const OTHER_KEY: Remedy =
    ("; name one of them as `column`", ". Enter one of them in the field Address column");
const NO_COLUMN: Remedy = (": upload the list without `column`", ". Leave the field Address column empty");
/// The end of a message of the reader of lists.
const NO_HEADER: Remedy =
    (": omit the option for a header", ". Choose \u{201c}found by its content\u{201d} in the field Header");
/// The whole reason of a list in whose column no row has an address.
pub(crate) const NO_ADDRESS: &str = "The list has no address.";
const NO_ADDRESS_REMEDY: Remedy = (
    NO_ADDRESS,
    "The list has no address. If another column has the addresses, enter its name or its number in the field Address column",
);

/// The reason why a list cannot be checked, as sentences for the form of the dashboard: they name its fields in place of those of the
/// API. Reasons that earlier versions have stored are the same.
pub fn in_words_of_the_form(why: &str) -> String {
    let remedies =
        [NAME_COLUMN, OTHER_COLUMN, COLUMN_NUMBER, OTHER_KEY, NO_COLUMN, NO_HEADER, NO_ADDRESS_REMEDY];
    let of_form = |(of_api, of_form): Remedy| Some(format!("{}{of_form}", why.strip_suffix(of_api)?));
    let text = remedies.into_iter().find_map(of_form).unwrap_or_else(|| why.to_owned());
    sentence(text.strip_suffix('.').unwrap_or(&text))
}

/// The reason why a list cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceError {
    /// The store cannot be read now. The list can be read later.
    Store(StoreError),
    /// This machine lacks space or something else now; the line is for the log. The list can be read later.
    Machine(String),
    /// Other work of the account uses its share of temporary files. The list can be read later.
    Share,
    /// The list alone takes more than this share ([`TOO_LARGE`]).
    TooLarge,
    /// The code that reads the list has panicked.
    Panic,
    /// One line for the owner: the file cannot be read as a list.
    Unfit(String),
}

impl SourceError {
    /// The store's error that was the cause; otherwise that of the reader of lists.
    pub fn of(error: ListError, failure: &Failure) -> SourceError {
        if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return SourceError::Store(error);
        }
        SourceError::Unfit(match error {
            ListError::Machine(why) => return SourceError::Machine(why),
            ListError::Unreadable(message) | ListError::NoList(message) => message,
            ListError::NoAddress(message) => message + NAME_COLUMN.0,
            ListError::Column(message) => message + OTHER_COLUMN.0,
            ListError::NoHeader(message) => message + COLUMN_NUMBER.0,
            ListError::Key(message) => message + OTHER_KEY.0,
            ListError::NoColumns(message) => message + NO_COLUMN.0,
        })
    }
}

impl From<StoreError> for SourceError {
    fn from(error: StoreError) -> SourceError {
        SourceError::Store(error)
    }
}

impl From<Refusal> for SourceError {
    fn from(refusal: Refusal) -> SourceError {
        match refusal {
            Refusal::All => SourceError::Machine("the temporary files of lists have no more room".into()),
            Refusal::Share => SourceError::Share,
            Refusal::TooLarge => SourceError::TooLarge,
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Store(error) => error.fmt(f),
            SourceError::Machine(why) | SourceError::Unfit(why) => f.write_str(why),
            SourceError::Share => f.write_str("the share of temporary files of the account is used up"),
            SourceError::TooLarge => f.write_str(TOO_LARGE),
            SourceError::Panic => f.write_str("a panic"),
        }
    }
}

/// The error of the store that stopped a reader. The reader of lists turns errors into text.
pub(crate) type Failure = Arc<Mutex<Option<StoreError>>>;

/// Opens the contents of lists.
#[derive(Clone)]
pub(crate) struct Contents {
    pub store: Arc<Store>,
    pub conversions: Arc<Conversions>,
}

impl Contents {
    /// The rows of a list; `None` while a spreadsheet is converted: try again later.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn open(&self, list: &List) -> Result<Option<ListSource>, SourceError> {
        self.open_with(list, &[])
    }

    /// The same for an output with these columns of results after `deliverable` and `reason`.
    pub fn open_with(
        &self,
        list: &List,
        results: &[ResultColumn],
    ) -> Result<Option<ListSource>, SourceError> {
        let columns = Vec::from_iter(Some(list.column.clone()).filter(|column| !column.is_empty()));
        let limits = Some(limits(list));
        let header = list.header;
        let options = ReadOptions { columns: &columns, header, limits, results, ..ReadOptions::default() };
        let parts = || Parts::new(Arc::clone(&self.store), list);
        let is_spreadsheet = || {
            let (parts, failure) = parts();
            lists::is_spreadsheet(Box::new(parts), NAME, limits)
                .map_err(|error| SourceError::of(error, &failure))
        };
        if self.conversions.is_asked(list.id) || is_spreadsheet()? {
            let Some(sheet) = self.conversions.look(list) else { return Ok(None) };
            let (sheet, failure) = (sheet?, Failure::default());
            let source =
                Source::of_sheet(&sheet, NAME, &options).map_err(|error| SourceError::of(error, &failure))?;
            return Ok(Some(ListSource::new(source, failure)));
        }
        let (parts, failure) = parts();
        let source = Source::new(Box::new(parts), NAME, None, &options)
            .map_err(|error| SourceError::of(error, &failure))?;
        Ok(Some(ListSource::new(source, failure)))
    }
}

/// The limits of a list of a stranger.
pub(crate) fn limits(list: &List) -> Limits {
    let workbook_work = WORKBOOK_WORK_OF_ALL + list.bytes.saturating_mul(WORKBOOK_WORK_PER_BYTE);
    Limits {
        bytes: UNPACKED_BYTES_MAX.max(list.bytes),
        packed_without_output: HOLLOW_BYTES_MAX,
        window_log: WINDOW_LOG_MAX,
        workbook_bytes: WORKBOOK_BYTES_MAX,
        workbook_text_bytes: WORKBOOK_TEXT_BYTES_MAX,
        workbook_work: workbook_work.min(WORKBOOK_WORK_MAX),
        columns: COLUMNS_MAX,
    }
}

/// The rows of a list, and the error of the store if its content could not be read.
pub(crate) struct ListSource {
    source: Source,
    failure: Failure,
    /// The work for rows besides the bytes that were read.
    row_work: u64,
}

impl ListSource {
    /// The rows of an open list, of which none is read.
    pub fn new(source: Source, failure: Failure) -> ListSource {
        ListSource { source, failure, row_work: 0 }
    }

    /// Moves to the next row, as [`Source::step`].
    pub fn step(&mut self, row: &mut Row) -> Result<Step, SourceError> {
        let step = self.source.step(row).map_err(|error| SourceError::of(error, &self.failure))?;
        // A short row can be filled up to a thousand columns.
        self.row_work += ROW_WORK + row.prefix.len() as u64;
        Ok(step)
    }

    /// The work so far, in bytes. Slices are measured in it.
    pub fn worked(&self) -> u64 {
        self.source.passed() + self.row_work
    }
}

impl Deref for ListSource {
    type Target = Source;

    fn deref(&self) -> &Source {
        &self.source
    }
}

/// A reader of the content of a list, as it was uploaded.
pub(crate) struct Parts {
    store: Arc<Store>,
    list: List,
    next: u32,
    part: Vec<u8>,
    at: usize,
    /// Bytes that are not read yet.
    left: u64,
    failure: Failure,
}

impl Parts {
    /// A reader from the first byte on, and the place for its error.
    pub fn new(store: Arc<Store>, list: &List) -> (Parts, Failure) {
        let failure = Failure::default();
        let (left, list) = (list.bytes, list.clone());
        let parts =
            Parts { store, list, next: 0, part: Vec::new(), at: 0, left, failure: Arc::clone(&failure) };
        (parts, failure)
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let part = self.store.list_part(&self.list, self.next).wait().map_err(|error| {
                let text = error.to_string();
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                io::Error::other(text)
            })?;
            let Some(part) = part else {
                // The list was deleted. The parts that were read must not pass as the whole list.
                return if self.left == 0 { Ok(0) } else { Err(io::Error::other("a part is missing")) };
            };
            self.left = self.left.saturating_sub(part.len() as u64);
            (self.part, self.at, self.next) = (part, 0, self.next + 1);
        }
        let count = buffer.len().min(self.part.len() - self.at);
        buffer[..count].copy_from_slice(&self.part[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_fields_of_the_form() {
        let column = |message: &str| message.to_owned() + " in the field Address column.";
        let message = || "there is x".to_owned();
        for (error, said) in [
            (
                ListError::NoAddress(message()),
                column("There is x. Enter the name of the column of the addresses, or its number,"),
            ),
            (ListError::Column(message()), column("There is x. Enter one of them, or its number,")),
            (ListError::NoHeader(message()), column("There is x. Enter its number, such as 1,")),
            (ListError::Key(message()), column("There is x. Enter one of them")),
            (ListError::NoColumns(message()), "There is x. Leave the field Address column empty.".to_owned()),
            (ListError::Unreadable("The list is damaged".into()), "The list is damaged.".to_owned()),
        ] {
            let SourceError::Unfit(why) = SourceError::of(error, &Failure::default()) else {
                panic!("{said}")
            };
            assert_eq!(in_words_of_the_form(&why), said);
            assert!(!why.contains("field"), "{why}");
        }
        assert_eq!(in_words_of_the_form(TOO_LARGE), TOO_LARGE);
        assert!(in_words_of_the_form(NO_ADDRESS).starts_with(NO_ADDRESS));
        // The words of the reader of lists.
        let columns = ["email".to_owned()];
        let options = ReadOptions { columns: &columns, header: Some(true), ..ReadOptions::default() };
        let text = "{\"email\":\"a@example.com\"}\n";
        let Err(error) = Source::new(Box::new(text.as_bytes()), NAME, None, &options) else {
            panic!("{text}")
        };
        let SourceError::Unfit(why) = SourceError::of(error, &Failure::default()) else { panic!("{text}") };
        assert!(in_words_of_the_form(&why).ends_with("in the field Header."), "{why}");
    }
}
