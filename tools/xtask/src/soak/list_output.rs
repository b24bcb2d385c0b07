//! The output of `mailprobe clean` of a list of [`ListRows`], for `soak list`, `soak parts`, `soak lists` and `soak stops`: its
//! rows, the files beside it, and the search for plain addresses in those.

use super::list_rows::{CLEANED_HEADER, ListRows};
use super::outputs::OutputReader;
use crate::failure::ensure;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A part of the domain of every address of the lists.
pub const MARK: &str = "soaked";
/// The endings of the files beside an output that a run needs.
pub const BESIDE: [&str; 5] = [".partial", ".partial.closed", ".state", ".results", ".packed"];
/// Those in which no address may be readable.
const SECRET: [&str; 3] = [".partial.closed", ".state", ".results"];

/// An output and what must be in it.
pub struct ListOutput<'a> {
    /// The list.
    pub list: &'a ListRows,
    /// The file. It is compressed if its name ends with `.gz`.
    pub path: PathBuf,
    /// Whether its rows have the order of the list.
    pub is_ordered: bool,
    /// Whether its rows have more columns of results than `deliverable` and `reason`.
    pub has_more_columns: bool,
    /// The number of lines before its header.
    pub titles: usize,
}

impl ListOutput<'_> {
    /// The path of a file beside it.
    pub fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// An error if a file of the run is still beside it.
    pub fn nothing_beside(&self) -> Result<(), String> {
        let left: Vec<&str> = BESIDE.into_iter().filter(|ending| self.beside(ending).exists()).collect();
        ensure!(left.is_empty(), "left behind beside the output: {}", left.join(", "));
        Ok(())
    }

    /// The eyes that search for addresses in the files beside it.
    pub fn eyes(&self) -> Eyes {
        Eyes(SECRET.map(|ending| (ending, self.beside(ending), 0)))
    }

    /// Checks that each row of the list is written once, with its verdict, and at its position if order was requested.
    pub fn judge(&self) -> Result<(), String> {
        let (count, lines) = (self.rows(&self.path)?.len() as u64, self.list.lines);
        if count == lines { Ok(()) } else { Err(format!("{count} lines of {lines}")) }
    }

    /// The numbers of the complete rows of a file in the form of this output. Each must have the verdict that mailnet expects,
    /// once, and they must be in order if that was requested.
    pub fn rows(&self, path: &Path) -> Result<Vec<u64>, String> {
        let is_right = |row: &str, expected: &str| match self.has_more_columns {
            true => row.strip_prefix(expected).is_some_and(|more| more.starts_with(',')),
            false => row == expected,
        };
        let reader = OutputReader::open(path, self.titles)?;
        let header = &reader.header;
        ensure!(header.is_empty() || is_right(header, CLEANED_HEADER), "a strange header: {header}");
        let (mut came, mut rows) = (vec![false; self.list.lines as usize], Vec::new());
        for row in reader {
            let row = row?.text;
            let n = self.list.number(&row).ok_or_else(|| format!("a strange line: {row}"))?;
            let expected = self.list.cleaned(n);
            ensure!(is_right(&row, &expected), "{row}, not {expected}");
            ensure!(!std::mem::replace(&mut came[n as usize], true), "line {n} twice");
            if self.is_ordered && rows.last().is_some_and(|&last| last > n) {
                return Err(format!("line {n} is not in order"));
            }
            rows.push(n);
        }
        Ok(rows)
    }
}

/// Searches the files beside an output for addresses while they grow and change: each by its ending and its path, with the length
/// up to which it was searched.
pub struct Eyes([(&'static str, PathBuf, u64); 3]);

impl Eyes {
    /// An error if one of the files has an address in it.
    pub fn look(&mut self) -> Result<(), String> {
        for (ending, path, looked) in &mut self.0 {
            ensure!(!sees_an_address(path, looked), "OUT{ending} has an address in it");
        }
        Ok(())
    }
}

/// Searches the new part, and also the beginning each time, where blocks are reused.
fn sees_an_address(path: &Path, looked: &mut u64) -> bool {
    const AGAIN: u64 = 1 << 20;
    let Ok(mut file) = File::open(path) else { return false };
    let length = file.metadata().map_or(0, |data| data.len());
    let from = length.min(*looked).saturating_sub(MARK.len() as u64);
    *looked = length;
    let mut look = |from: u64, most: u64| {
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(from)).and_then(|_| (&file).take(most).read_to_end(&mut bytes));
        let folded = bytes.to_ascii_lowercase();
        read.is_ok() && folded.windows(MARK.len()).any(|window| window == MARK.as_bytes())
    };
    look(from, 64 << 20) || look(0, AGAIN)
}

/// The length of a file; 0 if there is none.
pub fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}
