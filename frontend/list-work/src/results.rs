//! A list with its verdicts, which is the content of a download.

use super::BATCH_ADDRESSES;
use crate::index::Index;
use api::Reason;
use lists::{Class, Encoding, Format, Row, RowWriter, Source, Step, Verdict};
use std::sync::Arc;
use store::{List, ListState, Store};

/// Bytes per piece: less than a millisecond of work.
const PIECE_BYTES: usize = 32 * 1024;
/// Most bytes of the list that are read for one piece.
const PIECE_INPUT: u64 = 256 * 1024;

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// The format of the list; plain text becomes CSV without a header.
    Own,
    /// CSV.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// The rows of a list that a download has, and their format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The format.
    pub format: ResultFormat,
    /// The classes of verdicts; none stands for all rows.
    pub classes: Vec<Class>,
}

impl Selection {
    /// All rows in the format of the list.
    pub const ALL: Selection = Selection { format: ResultFormat::Own, classes: Vec::new() };
}

/// A list with its verdicts, piece by piece. A piece can be empty. After an error there are no more pieces.
pub struct Results {
    store: Arc<dyn Store>,
    list: List,
    classes: Vec<Class>,
    format: Format,
    source: Source,
    writer: RowWriter,
    row: Row,
    index: Index,
    answers: Answers,
    head: Option<Vec<u8>>,
    ended: bool,
}

/// The answers of a list by the number of the address.
struct Answers {
    /// The number of the first address in `answers`.
    first: u64,
    answers: Vec<Option<Reason>>,
    next_batch: u32,
    /// Whether later rows can have an earlier address. Then all answers stay: one byte each.
    keeps_all: bool,
}

impl Answers {
    /// The answer of an address; `None` if it was not asked.
    fn get(&mut self, store: &Arc<dyn Store>, list: &List, number: u64) -> Result<Option<Reason>, String> {
        if number >= list.submitted {
            return Ok(None);
        }
        while number >= self.first + self.answers.len() as u64 {
            if !self.keeps_all {
                self.first += self.answers.len() as u64;
                self.answers.clear();
            }
            let batch =
                store.list_answers(list, self.next_batch).wait().map_err(|error| error.to_string())?;
            let batch = batch.ok_or("the answers have expired")?;
            let first = u64::from(self.next_batch) * BATCH_ADDRESSES;
            if batch.len() as u64 != (list.submitted - first).min(BATCH_ADDRESSES) {
                return Err("an answer is missing".into());
            }
            self.answers.extend(batch);
            self.next_batch += 1;
        }
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        Ok(at.and_then(|at| self.answers.get(at).copied()).flatten())
    }
}

impl Results {
    /// Opens a list whose check has ended.
    ///
    /// # Errors
    /// A line for the log: the list cannot be read.
    pub fn open(store: Arc<dyn Store>, list: List, selection: Selection) -> Result<Results, String> {
        let source = super::source(Arc::clone(&store), &list)?;
        let wanted = match selection.format {
            ResultFormat::Own => None,
            ResultFormat::Csv => Some(Format::Csv),
            ResultFormat::Jsonl => Some(Format::Jsonl),
        };
        let writer = RowWriter::new(&source, wanted);
        let head = Some(writer.head(&source));
        let format = wanted.unwrap_or(source.shape().format);
        let keeps_all = list.to_check() < list.addresses;
        let answers = Answers { first: 0, answers: Vec::new(), next_batch: 0, keeps_all };
        let (row, index) = (Row::default(), Index::default());
        let classes = selection.classes;
        Ok(Results { store, list, classes, format, source, writer, row, index, answers, head, ended: false })
    }

    /// The format of the results.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The encoding of the results: that of the list, and UTF-8 for another format.
    pub fn encoding(&self) -> Encoding {
        let shape = self.source.shape();
        if self.format == shape.format { shape.encoding } else { Encoding::UTF_8 }
    }

    fn piece(&mut self) -> Result<Vec<u8>, String> {
        let mut piece = self.head.take().unwrap_or_default();
        let began = self.source.passed();
        while piece.len() < PIECE_BYTES && self.source.passed() - began < PIECE_INPUT {
            match self.source.step(&mut self.row).map_err(|error| error.to_string())? {
                Step::Row => {}
                Step::End => self.ended = true,
                Step::Later => break,
            }
            if self.ended {
                break;
            }
            let Some(reason) = self.reason()? else { continue };
            if self.classes.is_empty() || self.classes.contains(&Class::of(reason)) {
                self.writer.row(&self.source, &self.row, Verdict::from(reason), &mut piece);
            }
        }
        Ok(piece)
    }

    /// The reason of the present row; `None` if its address was not asked.
    fn reason(&mut self) -> Result<Option<Reason>, String> {
        if self.row.address.is_none() {
            return Ok(Some(Reason::InvalidSyntax));
        }
        let number = self.index.next(&self.store, &self.list)?;
        let reason = self.answers.get(&self.store, &self.list, number)?;
        if reason.is_none() && self.list.state != ListState::Cancelled {
            return Err("an answer is missing".into());
        }
        Ok(reason)
    }
}

impl Iterator for Results {
    type Item = Result<Vec<u8>, String>;

    fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        if self.ended {
            return None;
        }
        let piece = self.piece();
        self.ended |= piece.is_err();
        Some(piece)
    }
}
