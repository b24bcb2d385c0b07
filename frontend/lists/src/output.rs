//! The rows of an output, read again: to select classes of them, or to write them in another format.

use crate::json::Object;
use crate::{Class, Endings, Format, ROW_BYTES_MAX, RowScan, Shape};
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Read, Result};

/// Number of bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Longest output row: each quote can take twice the space, and each character of UTF-16 too.
const OUTPUT_ROW_BYTES_MAX: usize = 6 * ROW_BYTES_MAX;

/// The rows of an output, one after another.
pub struct OutputRows<'a, R> {
    input: R,
    endings: &'a Endings,
    /// The bytes read ahead. Those before `at` were returned.
    ahead: Vec<u8>,
    at: usize,
}

impl<'a, R: Read> OutputRows<'a, R> {
    /// The rows of an output that begins with `head`, which is [`Shape::head`].
    ///
    /// # Errors
    /// The output cannot be read, or begins with something else.
    pub fn new(mut input: R, head: &[u8], endings: &'a Endings) -> Result<OutputRows<'a, R>> {
        let mut found = vec![0; head.len()];
        input.read_exact(&mut found)?;
        match found == head {
            true => Ok(OutputRows { input, endings, ahead: Vec::new(), at: 0 }),
            false => Err(foreign()),
        }
    }

    /// The next row with its line end; `None` at the end.
    ///
    /// # Errors
    /// Reading fails, or the last row has no end.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot return a part of itself")]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let mut scan = RowScan::default();
        loop {
            if let Some(length) = self.endings.row_end(&self.ahead[self.at..], &mut scan) {
                self.at += length;
                return Ok(Some(&self.ahead[self.at - length..self.at]));
            }
            let there = self.ahead.len() - self.at;
            self.ahead.drain(..self.at);
            self.at = 0;
            let read = self.input.by_ref().take(CHUNK as u64).read_to_end(&mut self.ahead)?;
            match read {
                0 if there == 0 => return Ok(None),
                0 => return Err(foreign()),
                _ if there > OUTPUT_ROW_BYTES_MAX => return Err(foreign()),
                _ => {}
            }
        }
    }
}

/// The error for an output that was changed by another program.
fn foreign() -> Error {
    Error::new(ErrorKind::InvalidData, "it has other contents than were written")
}

/// The class of the first verdict of an output row.
///
/// # Errors
/// The row has no verdict.
pub fn row_class(endings: &Endings, row: &[u8]) -> Result<Class> {
    let code = endings.code(row).ok_or_else(foreign)?;
    Ok(Class::of_code(code))
}

/// Splits output rows into the texts of their cells.
pub(crate) struct RowCells {
    /// The columns of the keys of JSON objects.
    keys: HashMap<String, usize>,
}

impl RowCells {
    /// A splitter for rows with these keys.
    pub fn new(keys: HashMap<String, usize>) -> RowCells {
        RowCells { keys }
    }

    /// Calls `take` with each key of an object.
    pub fn keys(endings: &Endings, row: &[u8], take: impl FnMut(&str)) -> Result<()> {
        let text = endings.decoded(row);
        let object = Object::parse(text.trim_ascii()).map_err(|_| foreign())?;
        object.keys().for_each(take);
        Ok(())
    }

    /// The cells of a row with their columns, in their order. Of JSON objects only those that the row has: a row takes no work for
    /// the keys of other rows.
    pub fn of(
        &self,
        shape: &Shape,
        endings: &Endings,
        row: &[u8],
        cells: &mut Vec<(usize, String)>,
    ) -> Result<()> {
        cells.clear();
        let text = endings.decoded(row);
        if shape.format == Format::Jsonl {
            let object = Object::parse(text.trim_ascii()).map_err(|_| foreign())?;
            for (key, value) in object.shown() {
                cells.push((*self.keys.get(key).ok_or_else(foreign)?, value));
            }
            cells.sort_by_key(|(column, _)| *column);
            // Of equal keys, the last one counts.
            cells.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    std::mem::swap(later, earlier);
                }
                is_same
            });
            return Ok(());
        }
        let mut rest = &*text;
        loop {
            let (cell, after) = endings.raw_cell(rest).ok_or_else(foreign)?;
            cells.push((cells.len(), shape.text(&cell).into_owned()));
            match after.strip_prefix(&[shape.delimiter()]) {
                Some(next) => rest = next,
                None => return Ok(()),
            }
        }
    }

    /// The rows before the first row of the list, without the line that names the separator, and whether the last one is a header.
    pub fn head(&self, shape: &Shape, endings: &Endings) -> Result<(Vec<Vec<String>>, bool)> {
        if shape.format == Format::Jsonl {
            let mut keys: Vec<(&String, &usize)> = self.keys.iter().collect();
            keys.sort_by_key(|(_, column)| **column);
            return Ok((vec![keys.into_iter().map(|(key, _)| key.clone()).collect()], true));
        }
        let head = shape.head();
        let skipped = shape.before_titles();
        let mut rows = OutputRows::new(&head[..], &skipped, endings)?;
        let (mut found, mut cells) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            self.of(shape, endings, row, &mut cells)?;
            found.push(cells.iter().map(|(_, text)| text.clone()).collect());
        }
        Ok((found, shape.has_header()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Results, Row, RowWriter, SheetKeys, Source};
    use std::io::Cursor;

    /// A key of one object costs the others nothing.
    #[test]
    fn a_row_of_objects_has_its_own_cells_only() {
        let keys: String = (0..16_000).map(|n| format!(",\"k{n}\":{n}")).collect();
        let list = format!(
            "{{\"email\":\"a@b.example\"{keys}}}\n{{\"k7\":1,\"email\":\"c@b.example\",\"k7\":\"last\",\"k5\":null}}\n"
        );
        let options = ReadOptions::default();
        let mut source = Source::new(Box::new(Cursor::new(list)), "x", None, &options).unwrap();
        let (writer, endings) = (RowWriter::new(&source, None), source.shape().endings());
        let (mut row, mut rows, mut keys) = (Row::default(), Vec::new(), SheetKeys::default());
        while source.next(&mut row).unwrap() {
            let mut line = Vec::new();
            writer.row(&source, &row, api::Reason::InvalidSyntax, &Results::default(), &mut line);
            keys.add(&endings, &line).unwrap();
            rows.push(line);
        }
        let (splitter, mut cells) = (RowCells::new(keys.into_numbers()), Vec::new());
        let mut cells_of = |row: &[u8]| {
            splitter.of(source.shape(), &endings, row, &mut cells).unwrap();
            cells.clone()
        };
        assert_eq!(cells_of(&rows[0]).len(), 16_003);
        let cell = |column: usize, text: &str| (column, text.to_owned());
        let verdict = [cell(16_001, "false"), cell(16_002, "invalid_syntax")];
        let own = [cell(0, "c@b.example"), cell(6, ""), cell(8, "last")];
        assert_eq!(cells_of(&rows[1]), [&own[..], &verdict].concat());
    }
}
