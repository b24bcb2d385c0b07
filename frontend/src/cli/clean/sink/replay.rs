//! What an interrupted run has left, held against the list row by row.

use crate::cli::clean::CleanError;
use crate::cli::clean::seen::Keyed;
use crate::cli::clean::state::State;
use crate::cli::clean::state::table::Table;
use lists::ROW_BYTES_MAX;
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};

/// A file that is read from its beginning.
pub(super) struct Replay {
    file: File,
    /// What was read and not yet compared, from `at` on.
    ahead: Vec<u8>,
    at: usize,
    /// How much of the file was found to be right.
    good: u64,
}

/// What stands next in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The row, with the verdict of this code.
    Row(u8),
    /// Nothing more, or what a kill has cut off.
    End,
    /// Something else.
    Other,
}

const CHUNK: usize = 64 * 1024;
/// In the output each quote can take twice the room.
const LEFT_BYTES_MAX: usize = 3 * ROW_BYTES_MAX;

impl Replay {
    pub fn new(file: File) -> Replay {
        Replay { file, ahead: Vec::new(), at: 0, good: 0 }
    }

    /// Which of the rows stands next: `prefix` and one of the suffixes, by the verdict's code. It is passed over.
    pub fn next(&mut self, prefix: &[u8], suffixes: &[Vec<u8>]) -> Result<Found> {
        let longest = suffixes.iter().map(Vec::len).max().unwrap_or_default();
        self.fill(prefix.len() + longest)?;
        let rest = &self.ahead[self.at..];
        let Some(tail) = rest.strip_prefix(prefix) else {
            return Ok(if prefix.starts_with(rest) { Found::End } else { Found::Other });
        };
        if let Some(code) = code(suffixes, |suffix| tail.starts_with(suffix)) {
            self.pass(prefix.len() + suffixes[usize::from(code)].len());
            return Ok(Found::Row(code));
        }
        let cut = suffixes.iter().any(|suffix| suffix.starts_with(tail));
        Ok(if cut { Found::End } else { Found::Other })
    }

    /// Whether this stands next, in full; it is passed over.
    pub fn head(&mut self, head: &[u8]) -> Result<Found> {
        self.fill(head.len())?;
        let rest = &self.ahead[self.at..];
        if rest.starts_with(head) {
            self.pass(head.len());
            return Ok(Found::Row(0));
        }
        Ok(if head.starts_with(rest) { Found::End } else { Found::Other })
    }

    pub fn is_at_end(&mut self) -> Result<bool> {
        self.fill(1)?;
        Ok(self.at == self.ahead.len())
    }

    /// The file, cut behind what is good.
    pub fn cut(&mut self) -> Result<File> {
        let mut file = self.file.try_clone()?;
        file.set_len(self.good)?;
        file.seek(SeekFrom::Start(self.good))?;
        Ok(file)
    }

    /// Counts all rows that are whole. `quotes`: the end of a line within them ends no row. `None` where something
    /// stands there that is no row.
    ///
    /// # Errors
    /// When the state fails, or the file cannot be read, as `failed` puts it.
    pub fn tally(
        &mut self,
        state: &mut State,
        suffixes: &[Vec<u8>],
        quotes: bool,
        failed: impl Fn(&std::io::Error) -> CleanError,
    ) -> std::result::Result<Option<Tally>, CleanError> {
        let mut tally = Tally { keyed: Keyed::new()?, rows: Table::new(state.shares), left: 0 };
        loop {
            let Some(length) = self.row_length(quotes).map_err(|e| failed(&e))? else {
                return Ok(Some(tally));
            };
            let row = &self.ahead[self.at..self.at + length];
            let found = code(suffixes, |suffix| row.ends_with(suffix));
            let Some(code) = found.filter(|_| length <= LEFT_BYTES_MAX) else { return Ok(None) };
            let prefix = &row[..length - suffixes[usize::from(code)].len()];
            tally.add(state, prefix, code)?;
            self.pass(length);
        }
    }

    /// The length of the next row with its end; `None` where none is whole.
    fn row_length(&mut self, quotes: bool) -> Result<Option<usize>> {
        let (mut looked, mut quoted) = (0, false);
        loop {
            for (at, &byte) in self.ahead[self.at + looked..].iter().enumerate() {
                quoted ^= byte == b'"' && quotes;
                if byte == b'\n' && !quoted {
                    return Ok(Some(looked + at + 1));
                }
            }
            looked = self.ahead.len() - self.at;
            if looked > LEFT_BYTES_MAX {
                return Ok(Some(looked));
            }
            self.fill(looked + 1)?;
            if self.ahead.len() - self.at == looked {
                return Ok(None);
            }
        }
    }

    fn pass(&mut self, length: usize) {
        self.at += length;
        self.good += length as u64;
    }

    /// Reads on until so many octets are ahead, or the file ends.
    fn fill(&mut self, count: usize) -> Result<()> {
        let there = self.ahead.len() - self.at;
        if there < count {
            self.ahead.drain(..self.at);
            self.at = 0;
            let missing = (count - there).max(CHUNK) as u64;
            (&self.file).take(missing).read_to_end(&mut self.ahead)?;
        }
        Ok(())
    }
}

/// The verdict whose suffix fits.
fn code(suffixes: &[Vec<u8>], fits: impl Fn(&[u8]) -> bool) -> Option<u8> {
    let at = suffixes.iter().skip(1).position(|suffix| fits(suffix))?;
    u8::try_from(at + 1).ok()
}

/// The rows that an interrupted run has left in no order: how often each stands there, and with which verdict.
pub(super) struct Tally {
    keyed: Keyed,
    /// The count, and in the lowest octet the verdict's code.
    rows: Table,
    /// How many were not found in the list yet.
    left: u64,
}

impl Tally {
    fn add(&mut self, state: &mut State, prefix: &[u8], code: u8) -> std::result::Result<(), CleanError> {
        let key = self.keyed.hash(prefix);
        let before = self.rows.get(state, key)?.unwrap_or(0) >> 8;
        self.left += 1;
        self.rows.put(state, key, ((before + 1) << 8) | u64::from(code))
    }

    /// The code of the verdict with which this row was left, once for each time that it was.
    pub fn take(&mut self, state: &mut State, prefix: &[u8]) -> std::result::Result<Option<u8>, CleanError> {
        let key = self.keyed.hash(prefix);
        let Some(found) = self.rows.get(state, key)?.filter(|found| found >> 8 > 0) else { return Ok(None) };
        self.rows.put(state, key, found - (1 << 8))?;
        self.left -= 1;
        Ok(Some(found as u8))
    }

    pub fn left(&self) -> u64 {
        self.left
    }
}
