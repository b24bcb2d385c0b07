//! The rows of a list with the answers to their addresses.

use crate::BATCH_ADDRESSES;
use crate::index::Index;
use crate::work::{OTHER_RULE, has_our_rule};
use crate::{ListSource, SourceError};
use api::Reason;
use lists::{Row, Step};
use std::sync::Arc;
use store::{List, ListState, Store};

/// Most bytes of the list that are read for one piece.
const PIECE_INPUT: u64 = 256 * 1024;

/// The rows of a list, one after another.
pub(super) struct AnsweredRows {
    pub list: List,
    pub source: ListSource,
    /// The present row.
    pub row: Row,
    store: Arc<dyn Store>,
    index: Index,
    answers: Answers,
    /// Rows and addresses so far.
    passed: (u64, u64),
}

/// What [`AnsweredRows::next`] has found.
pub(super) enum NextRow {
    /// A row with its reason.
    Row(Reason),
    /// A row without an answer, because the list was cancelled first.
    Unasked,
    /// Nothing yet: the source has worked for long enough.
    Later,
    /// The end of the list.
    End,
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

impl AnsweredRows {
    /// The rows of a list after its check.
    pub fn open(store: Arc<dyn Store>, list: List) -> Result<AnsweredRows, String> {
        if !has_our_rule(&list) {
            return Err(OTHER_RULE.into());
        }
        let source = crate::source(Arc::clone(&store), &list).map_err(|error| error.to_string())?;
        let keeps_all = list.to_check() < list.addresses;
        let answers = Answers { first: 0, answers: Vec::new(), next_batch: 0, keeps_all };
        let (row, index) = (Row::default(), Index::default());
        Ok(AnsweredRows { list, source, row, store, index, answers, passed: (0, 0) })
    }

    /// The list from its beginning, without answers.
    pub fn source_again(&self) -> Result<ListSource, SourceError> {
        crate::source(Arc::clone(&self.store), &self.list)
    }

    /// Whether a piece that began at this position of the source may read more.
    pub fn goes_on(&self, began: u64) -> bool {
        goes_on(&self.source, began)
    }

    /// Moves to the next row.
    pub fn next(&mut self) -> Result<NextRow, String> {
        match self.source.step(&mut self.row).map_err(|error| error.to_string())? {
            Step::Row => self.passed.0 += 1,
            Step::End if self.passed == (self.list.rows, self.list.addresses) => return Ok(NextRow::End),
            Step::End => return Err("the list has other rows than were counted".into()),
            Step::Later => return Ok(NextRow::Later),
        }
        if self.row.address.is_none() {
            return Ok(NextRow::Row(Reason::InvalidSyntax));
        }
        self.passed.1 += 1;
        let number = self.index.next(&self.store, &self.list).map_err(|error| error.to_string())?;
        match self.answers.get(&self.store, &self.list, number)? {
            Some(reason) => Ok(NextRow::Row(reason)),
            None if self.list.state == ListState::Cancelled => Ok(NextRow::Unasked),
            None => Err("an answer is missing".into()),
        }
    }
}

/// Whether a piece that began at this position of a source may read more.
pub(super) fn goes_on(source: &lists::Source, began: u64) -> bool {
    source.passed() - began < PIECE_INPUT
}
