//! The rows of a list with the answers to their addresses.

use crate::contents::{Contents, ListSource, SourceError};
use crate::index::Index;
use crate::work::{BATCH_ADDRESSES, OTHER_RULE, has_our_rule};
use api::Reason;
use lists::{ResultColumn, Row, RowWriter, Step};
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Basis, KeyMode, List, ListState, Verdict, clock};
use store_rules::Store;

/// Most work for one piece: some milliseconds.
const PIECE_WORK: u64 = 256 * 1024;

/// The rows of a list, one after another.
pub(super) struct AnsweredRows {
    pub list: List,
    pub source: ListSource,
    /// The present row.
    pub row: Row,
    contents: Contents,
    index: Index,
    answers: Answers,
    columns: &'static [ResultColumn],
    verdicts: Option<Verdicts>,
    /// The basis of the verdict in the present row, if it is wanted and kept.
    basis: Option<Arc<Basis>>,
    /// Rows and addresses so far.
    passed: (u64, u64),
}

/// What [`AnsweredRows::next`] has found.
pub(super) enum NextRow {
    /// A row with its reason.
    Row(Reason),
    /// A row without an answer, because the list was cancelled or given up first.
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
    fn get(&mut self, store: &Arc<Store>, list: &List, number: u64) -> Result<Option<Reason>, String> {
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

/// The account's stored verdicts on the addresses of a list. They are read ahead, so that one look in the store finds many of them.
struct Verdicts {
    source: ListSource,
    row: Row,
    /// Those of the addresses from the present row on.
    ahead: VecDeque<Option<Verdict>>,
    is_at_end: bool,
}

impl Verdicts {
    /// Reads on if none is left. Returns whether it has worked for long enough and found none.
    fn read_on(&mut self, store: &Arc<Store>, list: &List) -> Result<bool, SourceError> {
        if self.is_at_end || !self.ahead.is_empty() {
            return Ok(false);
        }
        let (began, mut hashes) = (self.source.worked(), Vec::new());
        while (hashes.len() as u64) < BATCH_ADDRESSES && goes_on(&self.source, began) {
            match self.source.step(&mut self.row) {
                Ok(Step::Row) => {
                    let address = self.row.address.as_ref();
                    hashes.extend(address.map(|address| store.hash_address(&address.canonical())));
                    continue;
                }
                Ok(Step::Later) => {}
                // The reader of the rows tells of a fault.
                Ok(Step::End) | Err(SourceError::Unfit(_)) => self.is_at_end = true,
                Err(error) => return Err(error),
            }
            break;
        }
        self.ahead.extend(store.kept_verdicts(list.account, hashes, clock::now()).wait()?);
        Ok(self.ahead.is_empty() && !self.is_at_end)
    }
}

impl AnsweredRows {
    /// The rows of a list after its check; `None` while a spreadsheet is converted.
    pub fn open(
        contents: &Contents,
        list: &List,
        columns: &'static [ResultColumn],
    ) -> Result<Option<AnsweredRows>, SourceError> {
        if !has_our_rule(list) {
            return Err(SourceError::Unfit(OTHER_RULE.into()));
        }
        let Some(source) = contents.open_with(list, columns)? else { return Ok(None) };
        let mut verdicts = None;
        if !columns.is_empty() && list.mode == KeyMode::Live {
            let Some(source) = contents.open(list)? else { return Ok(None) };
            verdicts =
                Some(Verdicts { source, row: Row::default(), ahead: VecDeque::new(), is_at_end: false });
        }
        let (contents, list) = (contents.clone(), list.clone());
        let keeps_all = list.to_check() < list.addresses;
        let answers = Answers { first: 0, answers: Vec::new(), next_batch: 0, keeps_all };
        let (row, index) = (Row::default(), Index::default());
        let (basis, passed) = (None, (0, 0));
        let rows =
            AnsweredRows { list, source, row, contents, index, answers, columns, verdicts, basis, passed };
        Ok(Some(rows))
    }

    /// The list from its beginning, without answers.
    pub fn source_again(&self) -> Result<ListSource, SourceError> {
        let source = self.contents.open_with(&self.list, self.columns)?;
        source.ok_or_else(|| SourceError::Unfit("a list of JSON lines has become a spreadsheet".into()))
    }

    /// Whether a piece may go on that began after this work of the source.
    pub fn goes_on(&self, began: u64) -> bool {
        goes_on(&self.source, began)
    }

    /// Writes the present row with this verdict.
    pub fn write(&self, writer: &RowWriter, reason: Reason, out: &mut Vec<u8>) {
        let basis = self.basis.as_deref();
        let reply = basis.and_then(|basis| basis.reply);
        let status = reply.and_then(|reply| reply.status).map(|status| status.to_string());
        let results = lists::Results {
            rule: basis.map_or("", |basis| &basis.rule),
            scope: reply.map_or("", |reply| reply.scope.as_str()),
            reply_code: reply.map(|reply| reply.code),
            enhanced_code: status.as_deref().unwrap_or_default(),
            checked_at: basis.map(|basis| basis.observed_at / 1000),
            ..lists::Results::default()
        };
        writer.row(&self.source, &self.row, reason, &results, out);
    }

    /// Moves to the next row.
    pub fn next(&mut self) -> Result<NextRow, String> {
        self.basis = None;
        if let Some(verdicts) = &mut self.verdicts
            && verdicts.read_on(&self.contents.store, &self.list).map_err(|error| error.to_string())?
        {
            return Ok(NextRow::Later);
        }
        let step = match self.source.step(&mut self.row) {
            // What was answered before the list became unfit can be read, up to the fault.
            Err(SourceError::Unfit(_)) if self.list.state == ListState::Unfit => return Ok(NextRow::End),
            step => step.map_err(|error| error.to_string())?,
        };
        match step {
            Step::Row => self.passed.0 += 1,
            Step::End if self.passed == (self.list.rows, self.list.addresses) => return Ok(NextRow::End),
            Step::End => return Err("the list has other rows than were counted".into()),
            Step::Later => return Ok(NextRow::Later),
        }
        if self.row.address.is_none() {
            return Ok(NextRow::Row(Reason::InvalidSyntax));
        }
        self.passed.1 += 1;
        let stored = self.verdicts.as_mut().and_then(|verdicts| verdicts.ahead.pop_front().flatten());
        let store = &self.contents.store;
        let number = match self.index.next(store, &self.list) {
            Err(SourceError::Unfit(_)) if self.list.state == ListState::Unfit => return Ok(NextRow::End),
            number => number.map_err(|error| error.to_string())?,
        };
        match self.answers.get(store, &self.list, number)? {
            Some(reason) => {
                let verdict = stored.filter(|verdict| verdict.reason == reason);
                self.basis = verdict.and_then(|verdict| verdict.basis);
                Ok(NextRow::Row(reason))
            }
            None if matches!(self.list.state, ListState::Cancelled | ListState::Unfit) => {
                Ok(NextRow::Unasked)
            }
            None => Err("an answer is missing".into()),
        }
    }
}

/// Whether a piece may go on that began after this work of a source.
pub(super) fn goes_on(source: &ListSource, began: u64) -> bool {
    source.worked() - began < PIECE_WORK
}
