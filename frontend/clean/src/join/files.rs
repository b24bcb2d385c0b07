//! The files of the parts: finds, opens and compares them.

use super::Stop;
use crate::CleanError;
use crate::sink::{Found, LINE_BYTES_MAX, Replay};
use lists::part::{ListPart, NAME_MIDDLE, NAME_START, PartTitle, number};
use lists::{Endings, Source, decompressed};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The bytes that are read of a part at once: the share of `--memory`, within these limits.
const CHUNK_BYTES_MIN: usize = 4 * 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// How many missing parts a message names.
const NAMED_MAX: usize = 5;

/// The open file of a part.
pub(super) struct PartFile {
    path: PathBuf,
    rows: Replay<Box<dyn Read>>,
}

/// Opens all parts of the list at `output`, in their order, and compares their titles and heads with the list.
///
/// # Errors
/// A part is missing, incomplete, superfluous or of another list, or it cannot be read.
pub(super) fn open_all(output: &Path, source: &Source, memory: usize) -> Result<Vec<PartFile>, CleanError> {
    let count = NamesFound::beside(output)?.count(output)?;
    let chunk = (memory / count as usize).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    let (mut files, mut fast) = (Vec::new(), None);
    for index in 0..count {
        let part = ListPart::new(index, count).map_err(CleanError::failed)?;
        let (file, title) = PartFile::open(part.file(output), chunk)?;
        let fast = *fast.get_or_insert(title.fast);
        if let Some(difference) = title.difference(&PartTitle::new(part, source, fast)) {
            return Err(CleanError::failed(format!("{} {difference}", file.path.display())));
        }
        files.push(file.with_head(&source.shape().head())?);
    }
    Ok(files)
}

impl PartFile {
    /// Opens the file and reads its title.
    fn open(path: PathBuf, chunk: usize) -> Result<(PartFile, PartTitle), CleanError> {
        let file = File::open(&path).map_err(|e| unopened(&path, &e))?;
        let plain = decompressed(Box::new(file)).map_err(|e| CleanError::unreadable(&path, &e))?;
        let mut rows = Replay::with_chunk(plain, chunk);
        let line = rows.line(LINE_BYTES_MAX).map_err(|e| CleanError::unreadable(&path, &e))?;
        let Some(title) = line.and_then(|line| PartTitle::read(&line)) else {
            let name = path.display();
            return Err(CleanError::failed(format!("{name} is no part of a list: --part writes such files")));
        };
        Ok((PartFile { path, rows }, title))
    }

    /// Compares and skips what is before the first row.
    fn with_head(mut self, head: &[u8]) -> Result<PartFile, CleanError> {
        match self.rows.head(head) {
            Ok(Found::Row(_)) => Ok(self),
            Ok(_) => {
                let name = self.path.display();
                Err(CleanError::failed(format!("{name} has another header than INPUT: {CHANGED}")))
            }
            Err(error) => Err(CleanError::unreadable(&self.path, &error)),
        }
    }

    /// The code of the verdict of the next row, which must be the row `number` of INPUT.
    pub fn next(&mut self, endings: &Endings, row: &[u8], number: u64) -> Result<u8, Stop> {
        let name = self.path.display();
        let why = match self.rows.next(endings, row) {
            Ok(Found::Row(code)) => return Ok(code),
            Ok(Found::End) => format!("{name} ends before row {number} of INPUT: {CHANGED}"),
            Ok(Found::Other) => {
                format!("row {number} of INPUT is not the next row of {name}: {CHANGED}")
            }
            Err(error) => return Err(CleanError::unreadable(&self.path, &error).into()),
        };
        Err(Stop::Refused(CleanError::failed(why)))
    }

    /// The bytes of the last row that was found.
    pub fn row(&self) -> &[u8] {
        self.rows.row()
    }

    /// The part must have no more rows.
    pub fn end(&mut self) -> Result<(), Stop> {
        match self.rows.is_at_end() {
            Ok(true) => Ok(()),
            Ok(false) => {
                let name = self.path.display();
                Err(Stop::Refused(CleanError::failed(format!("{name} has more rows than INPUT: {CHANGED}"))))
            }
            Err(error) => Err(CleanError::unreadable(&self.path, &error).into()),
        }
    }
}

/// The error of a file that cannot be opened. The files of all parts are open at the same time.
fn unopened(path: &Path, error: &std::io::Error) -> CleanError {
    let is_at_limit = error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
    let error = CleanError::unreadable(path, error);
    match is_at_limit {
        true => error.with("; raise the limit of open files (`ulimit -n`) above the number of parts"),
        false => error,
    }
}

/// What to do if INPUT and a part differ.
const CHANGED: &str = "INPUT or the part has changed; use the same INPUT, or make the part again";

/// The names of parts beside an output file.
#[derive(Debug, Default, PartialEq, Eq)]
struct NamesFound {
    /// Complete parts: the number of parts and the index.
    complete: BTreeSet<(u32, u32)>,
    /// Parts that a run has not ended.
    partial: BTreeSet<(u32, u32)>,
}

impl NamesFound {
    fn beside(output: &Path) -> Result<NamesFound, CleanError> {
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let own = output.file_name().unwrap_or_default().as_bytes();
        let mut found = NamesFound::default();
        for entry in folder.read_dir().map_err(|e| CleanError::unreadable(folder, &e))? {
            let name = entry.map_err(|e| CleanError::unreadable(folder, &e))?.file_name();
            if let Some(rest) = name.as_bytes().strip_prefix(own) {
                found.add(rest);
            }
        }
        Ok(found)
    }

    /// Adds a name by what follows the name of the whole list. Other names are not of parts.
    fn add(&mut self, rest: &[u8]) {
        let rest = std::str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix(NAME_START));
        let Some((index, rest)) = rest.and_then(|rest| rest.split_once(NAME_MIDDLE)) else { return };
        let (count, names) = match rest.strip_suffix(".partial") {
            Some(count) => (count, &mut self.partial),
            None => (rest, &mut self.complete),
        };
        if let (Some(index), Some(count)) = (number(index), number(count)) {
            names.insert((count, index));
        }
    }

    /// The number of parts, all of which are there.
    fn count(&self, output: &Path) -> Result<u32, CleanError> {
        let failed = |why: String| Err(CleanError::failed(why));
        let name = output.display();
        let counts: BTreeSet<u32> = self.complete.union(&self.partial).map(|(count, _)| *count).collect();
        let count = match counts.iter().copied().collect::<Vec<_>>()[..] {
            [] => return failed(format!("{name} has no parts: make them with --part I/N")),
            [count] => count,
            [first, second, ..] => {
                return failed(format!(
                    "{name} has parts of {first} and parts of {second}: move those that you do not need to another folder"
                ));
            }
        };
        let surplus =
            self.complete.union(&self.partial).find_map(|&(_, index)| ListPart::new(index, count).err());
        if let Some(why) = surplus {
            return failed(format!("a file beside {name} has the name of a part that cannot exist: {why}"));
        }
        if let Some((_, index)) = self.partial.first() {
            return failed(format!(
                "part {index} of {count} is not finished: continue it with --part {index}/{count} --resume"
            ));
        }
        let missing: Vec<u32> =
            (0..count).filter(|index| !self.complete.contains(&(count, *index))).collect();
        match missing[..] {
            [] => Ok(count),
            [index] => {
                failed(format!("part {index} of {count} is missing: make it with --part {index}/{count}"))
            }
            [..] => failed(format!(
                "{} of {count} parts are missing ({}): make them with --part I/{count}",
                missing.len(),
                listed(&missing)
            )),
        }
    }
}

/// The first numbers, separated by commas.
fn listed(numbers: &[u32]) -> String {
    let named: Vec<String> = numbers.iter().take(NAMED_MAX).map(u32::to_string).collect();
    named.join(", ") + if numbers.len() > NAMED_MAX { ", ..." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of parts, or the error, for files with these names beside `out`.
    #[track_caller]
    fn check(names: &[&str], expected: Result<u32, &str>) {
        let mut found = NamesFound::default();
        names.iter().for_each(|name| found.add(name.as_bytes()));
        let count = found.count(Path::new("out")).map_err(|error| error.message);
        assert_eq!(count.as_ref().copied().map_err(String::as_str), expected, "{names:?}");
    }

    #[test]
    fn all_parts_of_one_number_are_needed() {
        check(&[".part-0-of-1"], Ok(1));
        check(
            &[".part-1-of-2", ".part-0-of-2", ".part-0-of-2.state", ".part-0-of-2.old", ".part-00-of-2", ""],
            Ok(2),
        );
        check(&[], Err("out has no parts: make them with --part I/N"));
        check(
            &[".partial", ".part-0-of-", "x.part-0-of-1"],
            Err("out has no parts: make them with --part I/N"),
        );
        check(&[".part-0-of-3", ".part-2-of-3"], Err("part 1 of 3 is missing: make it with --part 1/3"));
        check(
            &[".part-7-of-9"],
            Err("8 of 9 parts are missing (0, 1, 2, 3, 4, ...): make them with --part I/9"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2.partial"],
            Err("part 1 of 2 is not finished: continue it with --part 1/2 --resume"),
        );
        // A second run of a complete part.
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-0-of-2.partial"],
            Err("part 0 of 2 is not finished: continue it with --part 0/2 --resume"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-1-of-3"],
            Err("out has parts of 2 and parts of 3: move those that you do not need to another folder"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-2-of-2"],
            Err(
                "a file beside out has the name of a part that cannot exist: the first of 2 parts is 0, the last one is 1",
            ),
        );
        check(
            &[".part-0-of-5000"],
            Err(
                "a file beside out has the name of a part that cannot exist: the number of parts is 1 to 4096",
            ),
        );
    }
}
