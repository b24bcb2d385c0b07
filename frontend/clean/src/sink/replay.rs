//! Compares the file of an earlier run with the list, row by row.

use crate::CleanError;
use crate::outcome::{Outcome, Outcomes};
use lists::{Endings, FoundRow, ROW_BYTES_MAX, RowParts, RowScan, WrittenResults};
use spill::State;
use spill::keyed::Keyed;
use spill::table::Table;
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};

/// The output of an earlier run, read from its beginning.
pub(crate) struct Replay {
    input: Box<dyn Read>,
    /// The bytes read ahead. Those from `at` on are not compared yet.
    ahead: Vec<u8>,
    at: usize,
    /// Number of bytes read at once.
    chunk: usize,
    /// Number of bytes that match the list.
    good: u64,
    /// Length of the last row that was found, and its further results.
    found: usize,
    pub results: WrittenResults,
}

/// The next contents of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The expected row, with the verdict of this code.
    Row(u8),
    /// The end of the file, perhaps with an incomplete row.
    End,
    /// Other contents.
    Other,
}

const CHUNK: usize = 64 * 1024;
/// Longest output row: each quote can take twice the space, and each character of UTF-16 too.
const LEFT_BYTES_MAX: usize = 6 * ROW_BYTES_MAX;

impl Replay {
    /// A comparison from the beginning of the file.
    pub fn new(input: Box<dyn Read>) -> Replay {
        Replay::with_chunk(input, CHUNK)
    }

    /// A comparison that reads `chunk` bytes at once.
    pub fn with_chunk(input: Box<dyn Read>, chunk: usize) -> Replay {
        let results = WrittenResults::default();
        Replay { input, ahead: Vec::new(), at: 0, chunk, good: 0, found: 0, results }
    }

    /// Skips the next line and returns it without its end; `None` if the rest of the file has no line of at most this length.
    pub fn line(&mut self, most: usize) -> Result<Option<Vec<u8>>> {
        let mut looked = 0;
        loop {
            self.fill(looked + 1)?;
            let rest = &self.ahead[self.at..];
            if let Some(at) = rest[looked..].iter().position(|&byte| byte == b'\n') {
                let line = rest[..looked + at].to_vec();
                self.pass(line.len() + 1);
                return Ok(Some(line));
            }
            if rest.len() == looked || looked > most {
                return Ok(None);
            }
            looked = rest.len();
        }
    }

    /// Compares the next row with this row and each of its possible verdicts, and skips it if it matches.
    pub fn next(&mut self, endings: &Endings, row: &[u8]) -> Result<Found> {
        if endings.has_further() {
            return self.next_further(endings, row);
        }
        let RowParts { prefix, verdicts, tail } = endings.parts(row);
        let longest = verdicts.iter().map(Vec::len).max().unwrap_or_default();
        self.fill(prefix.len() + longest + tail.len())?;
        let rest = &self.ahead[self.at..];
        let Some(rest) = rest.strip_prefix(prefix) else {
            return Ok(if prefix.starts_with(rest) { Found::End } else { Found::Other });
        };
        let is_match = |verdict: &Vec<u8>| {
            rest.strip_prefix(verdict.as_slice()).is_some_and(|rest| rest.starts_with(tail))
        };
        if let Some(at) = verdicts.iter().skip(1).position(is_match) {
            self.found = prefix.len() + verdicts[at + 1].len() + tail.len();
            self.pass(self.found);
            return Ok(u8::try_from(at + 1).map_or(Found::Other, Found::Row));
        }
        let is_cut = verdicts.iter().skip(1).any(|verdict| [verdict, tail].concat().starts_with(rest));
        Ok(if is_cut { Found::End } else { Found::Other })
    }

    /// The same for rows with further results.
    fn next_further(&mut self, endings: &Endings, row: &[u8]) -> Result<Found> {
        let Some(length) = self.row_length(endings)? else {
            let (rest, prefix) = (&self.ahead[self.at..], endings.parts(row).prefix);
            let is_cut = prefix.starts_with(rest) || rest.starts_with(prefix);
            return Ok(if is_cut { Found::End } else { Found::Other });
        };
        let Some(FoundRow { code, results, length }) =
            endings.read(row, &self.ahead[self.at..self.at + length])
        else {
            return Ok(Found::Other);
        };
        (self.results, self.found) = (results, length);
        self.pass(length);
        Ok(Found::Row(code))
    }

    /// The last row that was found.
    pub fn row(&self) -> &[u8] {
        &self.ahead[self.at - self.found..self.at]
    }

    /// Compares the next bytes with `head`, and skips them if they match.
    pub fn head(&mut self, head: &[u8]) -> Result<Found> {
        self.fill(head.len())?;
        let rest = &self.ahead[self.at..];
        if rest.starts_with(head) {
            self.pass(head.len());
            return Ok(Found::Row(0));
        }
        Ok(if head.starts_with(rest) { Found::End } else { Found::Other })
    }

    /// Whether the whole file was compared.
    pub fn is_at_end(&mut self) -> Result<bool> {
        self.fill(1)?;
        Ok(self.at == self.ahead.len())
    }

    /// The length of the next row with its line end; `None` if there is no complete row.
    fn row_length(&mut self, endings: &Endings) -> Result<Option<usize>> {
        let mut scan = RowScan::default();
        loop {
            if let Some(length) = endings.row_end(&self.ahead[self.at..], &mut scan) {
                return Ok(Some(length));
            }
            let looked = self.ahead.len() - self.at;
            if looked > LEFT_BYTES_MAX {
                return Ok(Some(looked));
            }
            self.fill(looked + 1)?;
            if self.ahead.len() - self.at == looked {
                return Ok(None);
            }
        }
    }

    /// Counts all complete rows. `None` if the file contains something that is not a row.
    ///
    /// # Errors
    /// The state fails, or the file cannot be read; `failed` makes that error.
    pub(super) fn tally(
        &mut self,
        state: &mut State,
        endings: &Endings,
        outcomes: &mut Outcomes,
        failed: impl Fn(&std::io::Error) -> CleanError,
    ) -> std::result::Result<Option<Tally>, CleanError> {
        let mut tally = Tally {
            keyed: Keyed::new()?,
            rows: Table::new(state.shares),
            outcomes: endings.has_further().then(|| Table::new(state.shares)),
            left: 0,
        };
        loop {
            let Some(length) = self.row_length(endings).map_err(|e| failed(&e))? else {
                return Ok(Some(tally));
            };
            if length > LEFT_BYTES_MAX {
                return Ok(None);
            }
            let bytes = &self.ahead[self.at..self.at + length];
            let found = match endings.has_further() {
                false => endings.split(bytes).map(|(code, row)| (Outcome::of_code(code), row)),
                true => endings
                    .split_further(bytes)
                    .map(|(found, row)| (outcomes.written(found.code, &found.results), row)),
            };
            let Some((outcome, row)) = found else { return Ok(None) };
            tally.add(state, &row, outcome)?;
            self.pass(length);
        }
    }

    fn pass(&mut self, length: usize) {
        self.at += length;
        self.good += length as u64;
    }

    /// Reads until `count` bytes are ahead, or the file ends.
    fn fill(&mut self, count: usize) -> Result<()> {
        let there = self.ahead.len() - self.at;
        if there < count {
            self.ahead.drain(..self.at);
            self.at = 0;
            let missing = (count - there).max(self.chunk) as u64;
            self.input.by_ref().take(missing).read_to_end(&mut self.ahead)?;
        }
        Ok(())
    }

    /// Truncates this file, which was compared, after the last matching row, and returns it for writing.
    pub fn cut(&self, file: &File) -> Result<File> {
        let mut file = file.try_clone()?;
        file.set_len(self.good)?;
        file.seek(SeekFrom::Start(self.good))?;
        Ok(file)
    }
}

/// The unordered rows of an interrupted run: how often the file contains each, and with which verdict.
pub(super) struct Tally {
    keyed: Keyed,
    /// The count of each row, and in the lowest byte the code of its verdict.
    rows: Table,
    /// The result of each row, if it is more than a code.
    outcomes: Option<Table>,
    /// Number of rows that are not found in the list yet.
    left: u64,
}

impl Tally {
    fn add(
        &mut self,
        state: &mut State,
        row: &[u8],
        outcome: Outcome,
    ) -> std::result::Result<(), CleanError> {
        let key = self.keyed.hash(row);
        let before = self.rows.get(state, key)?.unwrap_or(0) >> 8;
        self.left += 1;
        self.rows.put(state, key, ((before + 1) << 8) | u64::from(outcome.code()))?;
        match &mut self.outcomes {
            Some(outcomes) => Ok(outcomes.put(state, key, outcome.bits())?),
            None => Ok(()),
        }
    }

    /// The result of this row, once for each time that the file contains it.
    pub fn take(
        &mut self,
        state: &mut State,
        row: &[u8],
    ) -> std::result::Result<Option<Outcome>, CleanError> {
        let key = self.keyed.hash(row);
        let Some(found) = self.rows.get(state, key)?.filter(|found| found >> 8 > 0) else { return Ok(None) };
        self.rows.put(state, key, found - (1 << 8))?;
        self.left -= 1;
        let full = match &self.outcomes {
            Some(outcomes) => outcomes.get(state, key)?.map(Outcome::from_bits),
            None => None,
        };
        Ok(Some(full.unwrap_or(Outcome::of_code(found as u8))))
    }

    /// The number of rows that are not found in the list yet.
    pub fn left(&self) -> u64 {
        self.left
    }
}
