//! The reading of a list, slice by slice: it counts the rows, and finds duplicates.

use super::{ROWS_MAX, SLICE_BYTES};
use crate::distinct::{Addresses, Counted, DistinctError, Grouping, Indexing, Step as Stage};
use crate::{ListSource, NAME_CHARS_MAX, SourceError};
use lists::{Row, Source, Step};
use std::path::Path;
use std::sync::Arc;
use store::{FoundAddresses, List, Store};

/// A list in the state of reading.
pub(super) struct Reading {
    found: FoundAddresses,
    rows: u64,
    stage: ReadingStage,
}

enum ReadingStage {
    Rows(Box<ListSource>, Row, Addresses),
    /// A list of an earlier version, in which duplicates do not matter.
    RowsOnly(Box<ListSource>, Row, u64),
    Grouping(Grouping),
    Indexing(Indexing),
    /// A stage has failed, and the list must be read again.
    Failed,
}

/// The reason why the reading of a list ended.
pub(super) enum ReadError {
    /// The list cannot be checked, for this reason.
    Unfit(String),
    /// The list can be read later, or is gone.
    Later(DistinctError),
}

impl From<DistinctError> for ReadError {
    fn from(error: DistinctError) -> ReadError {
        ReadError::Later(error)
    }
}

impl From<SourceError> for ReadError {
    fn from(error: SourceError) -> ReadError {
        match error {
            SourceError::Store(error) => ReadError::Later(DistinctError::Store(error)),
            SourceError::Unfit(why) => ReadError::Unfit(why),
        }
    }
}

impl Reading {
    /// Opens a list. Temporary files are in this folder.
    pub(super) fn new(store: &Arc<dyn Store>, list: &List, folder: &Path) -> Result<Reading, ReadError> {
        let source = crate::source(Arc::clone(store), list)?;
        let found = found_in(&source);
        let (source, row) = (Box::new(source), Row::default());
        let stage = match list.by_row {
            true => ReadingStage::RowsOnly(source, row, 0),
            false => ReadingStage::Rows(source, row, Addresses::new(folder)),
        };
        Ok(Reading { found, rows: 0, stage })
    }

    /// Where the addresses of the list are.
    pub(super) fn found(&self) -> FoundAddresses {
        self.found.clone()
    }

    /// Takes the next slice of the work. Returns the numbers of rows and addresses at the end.
    pub(super) fn step(
        &mut self,
        store: &Arc<dyn Store>,
        list: &List,
    ) -> Result<Option<(u64, Counted)>, ReadError> {
        let stage = std::mem::replace(&mut self.stage, ReadingStage::Failed);
        self.stage = match stage {
            ReadingStage::Rows(mut source, mut row, mut addresses) => {
                let ended = slice(&mut source, &mut row, &mut self.rows, |row| match &row.address {
                    Some(address) => {
                        let hash = store.hash_address(&address.canonical());
                        addresses.push(store, list, hash).map_err(ReadError::from)
                    }
                    None => Ok(()),
                })?;
                match ended {
                    true => ReadingStage::Grouping(addresses.finish(store, list)?),
                    false => ReadingStage::Rows(source, row, addresses),
                }
            }
            ReadingStage::RowsOnly(mut source, mut row, mut addresses) => {
                let count = |row: &Row| {
                    addresses += u64::from(row.address.is_some());
                    Ok(())
                };
                if slice(&mut source, &mut row, &mut self.rows, count)? {
                    return Ok(Some((self.rows, Counted { addresses, distinct: addresses, known: 0 })));
                }
                ReadingStage::RowsOnly(source, row, addresses)
            }
            ReadingStage::Grouping(mut grouping) => match grouping.step()? {
                Stage::More => ReadingStage::Grouping(grouping),
                Stage::Done(()) => ReadingStage::Indexing(grouping.finish()?),
            },
            ReadingStage::Indexing(mut indexing) => match indexing.step(store, list)? {
                Stage::More => ReadingStage::Indexing(indexing),
                Stage::Done(counted) => return Ok(Some((self.rows, counted))),
            },
            ReadingStage::Failed => return Err(ReadError::Later(DistinctError::Gone)),
        };
        Ok(None)
    }
}

/// Where the addresses of an open list are.
fn found_in(source: &Source) -> FoundAddresses {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let shape = source.shape();
    let mut found = FoundAddresses { column: shown(&shape.key), ..FoundAddresses::default() };
    if let Some((width, &column)) = shape.input_width().zip(shape.input_columns().first()) {
        found.column = shown(&shape.column_name(column).unwrap_or_default());
        (found.column_number, found.columns) = (number(column + 1), number(width));
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
    let until = source.passed() + SLICE_BYTES;
    while source.passed() < until {
        match source.step(row)? {
            Step::Row => {}
            Step::End => return Ok(true),
            Step::Later => continue,
        }
        *rows += 1;
        if *rows > ROWS_MAX {
            return Err(ReadError::Unfit(format!("The list has more than {ROWS_MAX} rows. Split the list.")));
        }
        each(row)?;
    }
    Ok(false)
}
