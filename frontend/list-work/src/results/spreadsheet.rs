//! The rows of a list as a spreadsheet. A list of JSON lines is read twice: its keys are the columns.

use super::rows::{AnsweredRows, NextRow, goes_on};
use super::{PIECE_BYTES, Piece, Selection};
use crate::contents::{ListSource, SourceError};
use api::Reason;
use lists::{Endings, Format, Row, RowWriter, SheetKeys, SheetRows, Step};
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// Makes a spreadsheet piece by piece.
pub(super) struct Spreadsheet {
    rows: AnsweredRows,
    selection: Selection,
    /// Writes a row in the format of the list, from which its cells are read.
    writer: RowWriter,
    endings: Endings,
    stage: Stage,
    made: Made,
    line: Vec<u8>,
}

enum Stage {
    /// The keys of JSON objects are collected.
    Keys(Box<ListSource>, SheetKeys),
    Rows(Box<SheetRows<Made>>),
    Ended,
}

/// The bytes of the spreadsheet that no piece has taken yet.
#[derive(Clone, Default)]
struct Made(Rc<RefCell<Vec<u8>>>);

impl Write for Made {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Spreadsheet {
    /// A spreadsheet of the rows of a list.
    pub fn new(rows: AnsweredRows, selection: Selection) -> Result<Spreadsheet, SourceError> {
        let (writer, endings) = (RowWriter::new(&rows.source, None), rows.source.shape().endings());
        let made = Made::default();
        let stage = match rows.source.shape().format {
            Format::Jsonl => Stage::Keys(Box::new(rows.source_again()?), SheetKeys::default()),
            Format::Csv | Format::Text => {
                let sheet = sheet(&rows, &endings, &made, SheetKeys::default());
                Stage::Rows(Box::new(sheet.map_err(SourceError::Unfit)?))
            }
        };
        Ok(Spreadsheet { rows, selection, writer, endings, stage, made, line: Vec::new() })
    }

    /// Works for a short time, and returns the next piece.
    pub fn piece(&mut self) -> Result<Piece, String> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Keys(mut source, mut keys) => {
                self.stage = match self.keys(&mut source, &mut keys)? {
                    true => Stage::Rows(Box::new(sheet(&self.rows, &self.endings, &self.made, keys)?)),
                    false => Stage::Keys(source, keys),
                };
            }
            Stage::Rows(mut sheet) => match self.write(&mut sheet)? {
                true => drop(sheet.finish().map_err(|error| error.to_string())?),
                false => self.stage = Stage::Rows(sheet),
            },
            Stage::Ended => {}
        }
        let bytes = std::mem::take(&mut *self.made.0.borrow_mut());
        Ok(Piece { bytes, is_last: matches!(self.stage, Stage::Ended) })
    }

    /// Collects keys. Returns whether all are known.
    fn keys(&mut self, source: &mut ListSource, keys: &mut SheetKeys) -> Result<bool, String> {
        let (began, mut row) = (source.worked(), Row::default());
        while goes_on(source, began) {
            match source.step(&mut row).map_err(|error| error.to_string())? {
                Step::Row => {
                    self.line.clear();
                    let none = lists::Results::default();
                    self.writer.row(source, &row, Reason::InvalidSyntax, &none, &mut self.line);
                    keys.add(&self.endings, &self.line).map_err(|error| error.to_string())?;
                }
                Step::Later => return Ok(false),
                Step::End => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Writes rows. Returns whether all are written.
    fn write(&mut self, sheet: &mut SheetRows<Made>) -> Result<bool, String> {
        let began = self.rows.source.worked();
        while self.made.0.borrow().len() < PIECE_BYTES && self.rows.goes_on(began) {
            match self.rows.next()? {
                NextRow::Row(reason) if self.selection.has(reason) => {
                    self.line.clear();
                    self.rows.write(&self.writer, reason, &mut self.line);
                    sheet
                        .row(self.rows.source.shape(), &self.endings, &self.line)
                        .map_err(|error| error.to_string())?;
                }
                NextRow::Row(_) | NextRow::Unasked => {}
                NextRow::Later => break,
                NextRow::End => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn sheet(
    rows: &AnsweredRows,
    endings: &Endings,
    made: &Made,
    keys: SheetKeys,
) -> Result<SheetRows<Made>, String> {
    SheetRows::new(made.clone(), rows.source.shape(), endings, keys).map_err(|error| error.to_string())
}
