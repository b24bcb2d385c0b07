//! The reading of a list, slice by slice: it counts the rows, and finds duplicates.

use super::{ROWS_MAX, SLICE_WORK};
use crate::contents::{Contents, ListSource, NAME_CHARS_MAX, OTHER_COLUMNS_MAX, SourceError};
use crate::distinct::{Addresses, Counted, DistinctError, Indexing};
use crate::temp::WorkFiles;
use lists::{Row, Source, Step};
use store::{AccountId, FoundAddresses, List};

/// A list in the state of reading.
pub(super) struct Reading {
    pub account: AccountId,
    files: WorkFiles,
    found: FoundAddresses,
    rows: u64,
    stage: ReadingStage,
}

enum ReadingStage {
    /// The list is not open yet.
    Opening,
    Rows(Box<ListSource>, Row, Box<Addresses>),
    /// A list of an earlier version, in which duplicates do not matter.
    RowsOnly(Box<ListSource>, Row, u64),
    Indexing(Box<Indexing>),
    /// A stage has failed, and the list must be read again.
    Failed,
}

/// What a slice of the reading has achieved.
pub(super) enum Slice {
    /// There are more slices.
    More,
    /// A spreadsheet is being converted.
    Waits,
    /// The numbers of rows and addresses.
    Done(u64, Counted),
}

/// The reason why the reading of a list ended.
pub(super) enum ReadError {
    /// The list cannot be read, now or at all.
    Source(SourceError),
    /// The list was deleted or cancelled.
    Gone,
}

impl From<SourceError> for ReadError {
    fn from(error: SourceError) -> ReadError {
        ReadError::Source(error)
    }
}

impl Reading {
    /// Nothing is read yet.
    pub(super) fn new(account: AccountId, files: WorkFiles) -> Reading {
        Reading { account, files, found: FoundAddresses::default(), rows: 0, stage: ReadingStage::Opening }
    }

    /// Where the addresses of the list are.
    pub(super) fn found(&self) -> FoundAddresses {
        self.found.clone()
    }

    /// Takes the next slice of the work.
    pub(super) fn step(&mut self, contents: &Contents, list: &List) -> Result<Slice, ReadError> {
        let (store, files) = (&contents.store, self.files.clone());
        let failed = |error: DistinctError| match error {
            DistinctError::Gone => ReadError::Gone,
            DistinctError::Store(error) => SourceError::Store(error).into(),
            DistinctError::File(error) => match files.refusal() {
                Some(refusal) => SourceError::from(refusal).into(),
                None => SourceError::Machine(error.message).into(),
            },
        };
        let stage = std::mem::replace(&mut self.stage, ReadingStage::Failed);
        self.stage = match stage {
            ReadingStage::Opening => {
                let Some(source) = contents.open(list)? else {
                    self.stage = ReadingStage::Opening;
                    return Ok(Slice::Waits);
                };
                self.found = found_in(&source);
                let (source, row) = (Box::new(source), Row::default());
                match list.by_row {
                    true => ReadingStage::RowsOnly(source, row, 0),
                    false => {
                        let addresses = Box::new(Addresses::new(self.files.clone()).map_err(failed)?);
                        ReadingStage::Rows(source, row, addresses)
                    }
                }
            }
            ReadingStage::Rows(mut source, mut row, mut addresses) => {
                let ended = slice(&mut source, &mut row, &mut self.rows, |row| match &row.address {
                    Some(address) => {
                        let hash = store.hash_address(&address.canonical());
                        addresses.push(store, list, hash).map_err(failed)
                    }
                    None => Ok(()),
                })?;
                self.found.cells_with_more = source.notes().cells_with_more;
                match ended {
                    true => ReadingStage::Indexing(Box::new(addresses.finish(store, list).map_err(failed)?)),
                    false => ReadingStage::Rows(source, row, addresses),
                }
            }
            ReadingStage::RowsOnly(mut source, mut row, mut addresses) => {
                let count = |row: &Row| {
                    addresses += u64::from(row.address.is_some());
                    Ok(())
                };
                if slice(&mut source, &mut row, &mut self.rows, count)? {
                    self.found.cells_with_more = source.notes().cells_with_more;
                    let counted = Counted { addresses, distinct: addresses, known: 0 };
                    return Ok(Slice::Done(self.rows, counted));
                }
                ReadingStage::RowsOnly(source, row, addresses)
            }
            ReadingStage::Indexing(mut indexing) => match indexing.step(store, list).map_err(failed)? {
                None => ReadingStage::Indexing(indexing),
                Some(counted) => return Ok(Slice::Done(self.rows, counted)),
            },
            ReadingStage::Failed => return Err(ReadError::Gone),
        };
        Ok(Slice::More)
    }
}

/// Where the addresses of an open list are.
fn found_in(source: &Source) -> FoundAddresses {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let shape = source.shape();
    let others = shape.left_out.iter().take(OTHER_COLUMNS_MAX).map(|column| shown(&column.name)).collect();
    let mut found = FoundAddresses { column: shown(&shape.key), others, ..FoundAddresses::default() };
    if let Some((width, &column)) = shape.input_width().zip(shape.input_columns().first()) {
        found.column = shown(&shape.column_name(column).unwrap_or_default());
        (found.column_number, found.columns) = (number(column + 1), number(width));
        found.header = Some(shape.header_row().is_some());
    }
    if let Some(place) = source.sheet_place() {
        found.sheet = shown(&place.name);
        (found.sheet_number, found.sheets) = (number(place.number), number(place.count));
    }
    found
}

/// A name of the file in one line of limited length.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(NAME_CHARS_MAX).collect()
}

/// Passes the rows of a slice to `each`. Returns whether the list has ended.
fn slice(
    source: &mut ListSource,
    row: &mut Row,
    rows: &mut u64,
    mut each: impl FnMut(&Row) -> Result<(), ReadError>,
) -> Result<bool, ReadError> {
    let until = source.worked() + SLICE_WORK;
    while source.worked() < until {
        match source.step(row)? {
            Step::Row => {}
            Step::End => return Ok(true),
            Step::Later => continue,
        }
        *rows += 1;
        if *rows > ROWS_MAX {
            let why = format!("The list has more than {ROWS_MAX} rows. Split the list.");
            return Err(SourceError::Unfit(why).into());
        }
        each(row)?;
    }
    Ok(false)
}
