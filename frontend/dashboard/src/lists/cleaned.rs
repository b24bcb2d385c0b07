//! A list with its verdicts, which is the content of a download.

use super::BATCH_ADDRESSES;
use api::Reason;
use lists::{Encoding, Endings, Format, Row, Source, Step, Verdict};
use std::sync::Arc;
use store::{List, Store};

/// Bytes per piece: less than a millisecond of work.
const PIECE_BYTES: usize = 32 * 1024;
/// Most bytes of the list that are read for one piece.
const PIECE_INPUT: u64 = 256 * 1024;

/// A list with its verdicts, piece by piece. A piece can be empty. After an error there are no more pieces.
pub struct Cleaned {
    store: Arc<dyn Store>,
    list: List,
    source: Source,
    endings: Endings,
    row: Row,
    /// Addresses read so far.
    addresses: u64,
    answers: Vec<Reason>,
    head: Option<Vec<u8>>,
    ended: bool,
}

impl Cleaned {
    /// Opens the list.
    ///
    /// # Errors
    /// A line for the log: the list cannot be read.
    pub fn open(store: Arc<dyn Store>, list: List) -> Result<Cleaned, String> {
        let source = super::source(Arc::clone(&store), &list)?;
        let (endings, head) = (source.shape().endings(), Some(source.shape().head()));
        let (row, answers) = (Row::default(), Vec::new());
        Ok(Cleaned { store, list, source, endings, row, addresses: 0, answers, head, ended: false })
    }

    /// The format of the list.
    pub fn format(&self) -> Format {
        self.source.shape().format
    }

    /// The encoding of the list.
    pub fn encoding(&self) -> Encoding {
        self.source.shape().encoding
    }

    fn piece(&mut self) -> Result<Vec<u8>, String> {
        let mut piece = self.head.take().unwrap_or_default();
        let began = self.source.passed();
        while piece.len() < PIECE_BYTES && self.source.passed() - began < PIECE_INPUT {
            match self.source.step(&mut self.row).map_err(|error| error.to_string())? {
                Step::Row => {}
                // Another release may find an address in other cells. Then the answers would belong to other rows.
                Step::End if self.addresses != self.list.addresses => {
                    return Err("the list has another number of addresses than when it was checked".into());
                }
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
            for bytes in self.endings.pieces(&self.row.prefix, verdict.code()) {
                piece.extend_from_slice(bytes);
            }
        }
        Ok(piece)
    }

    /// The verdict of the next address.
    fn verdict(&mut self) -> Result<Verdict, String> {
        let (batch, at) = (self.addresses / BATCH_ADDRESSES, self.addresses % BATCH_ADDRESSES);
        if at == 0 {
            let number = u32::try_from(batch).map_err(|_| "too many addresses")?;
            let answers =
                self.store.list_answers(&self.list, number).wait().map_err(|error| error.to_string())?;
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
