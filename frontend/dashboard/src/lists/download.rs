//! `GET /lists/{id}/download`: the list as it came, with `deliverable` and `reason` behind every row.
//!
//! It is made piece by piece as the caller takes it, so that memory does not depend on its length, and on a thread of its own
//! ([`downloads`](super::downloads)).

use super::BATCH_ADDRESSES;
use super::downloads::Opened;
use crate::{Problem, Visit};
use api::Reason;
use http_core::Reply;
use lists::{Format, Row, Source, Step, Verdict};
use std::sync::Arc;
use store::{List, ListState, Store, StoreError};

/// How much is made at once: less than a millisecond's work.
const PIECE_BYTES: usize = 32 * 1024;
/// How much of the list a piece goes through, whatever comes of it.
const PIECE_INPUT: u64 = 256 * 1024;

/// `GET /lists/{id}/download`.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let list = super::pages::find(&visit)?;
    if list.state != ListState::Completed {
        return Err(Problem::new(409, "The list is not checked to its end yet."));
    }
    let not_opened = |error| match error {
        StoreError::Busy => {
            Problem::new(503, "Too many downloads are open just now. Wait until one ends, then try again.")
                .header("retry-after", "10")
        }
        error => Problem::unready().inside(format!("a list cannot be read: {error}")),
    };
    let Opened { format, pieces } = visit.dashboard.downloads.open(list).await.map_err(not_opened)?;
    let (kind, file) = match format {
        Format::Jsonl => ("application/x-ndjson", "mailprobe-list.jsonl"),
        Format::Csv | Format::Text => ("text/csv; charset=utf-8", "mailprobe-list.csv"),
    };
    visit.pieces.set(Some(pieces));
    let reply = Reply { status: 200, headers: Vec::new(), body: Vec::new() };
    Ok(reply
        .header("content-type", kind)
        .header("content-disposition", format!("attachment; filename=\"{file}\"")))
}

/// A list with its verdicts, piece by piece; one may be empty, and one that cannot be made is the last.
pub struct Cleaned {
    store: Arc<dyn Store>,
    list: List,
    source: Source,
    suffixes: Vec<Vec<u8>>,
    row: Row,
    /// Addresses that came so far.
    addresses: u64,
    answers: Vec<Reason>,
    head: Option<Vec<u8>>,
    ended: bool,
}

impl Cleaned {
    /// Opens the list.
    ///
    /// # Errors
    /// What the log is told: it cannot be read.
    pub fn open(store: Arc<dyn Store>, list: List) -> Result<Cleaned, String> {
        let source = super::source(Arc::clone(&store), &list)?;
        let (suffixes, head) = (source.shape().suffixes(), Some(source.shape().head()));
        let (row, answers) = (Row::default(), Vec::new());
        Ok(Cleaned { store, list, source, suffixes, row, addresses: 0, answers, head, ended: false })
    }

    /// The list's format.
    pub fn format(&self) -> Format {
        self.source.shape().format
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
            let verdict = match self.row.address {
                None => Verdict::INVALID_SYNTAX,
                Some(_) => self.verdict()?,
            };
            let suffix = self.suffixes.get(usize::from(verdict.code())).ok_or("a verdict without a code")?;
            piece.extend_from_slice(&self.row.prefix);
            piece.extend_from_slice(suffix);
        }
        Ok(piece)
    }

    /// Of the address that comes now.
    fn verdict(&mut self) -> Result<Verdict, String> {
        let (batch, at) = (self.addresses / BATCH_ADDRESSES, self.addresses % BATCH_ADDRESSES);
        if at == 0 {
            let number = u32::try_from(batch).map_err(|_| "too many addresses")?;
            let answers = self.store.list_answers(&self.list, number).map_err(|error| error.to_string())?;
            self.answers = answers.ok_or("the answers have expired")?;
        }
        self.addresses += 1;
        let reason = usize::try_from(at).ok().and_then(|at| self.answers.get(at));
        Ok(Verdict::from(*reason.ok_or("an answer is missing")?))
    }
}

impl Iterator for Cleaned {
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
