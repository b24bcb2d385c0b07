//! The files of the parts: finds, opens and compares them.

use super::Stop;
use crate::CleanError;
use crate::sink::{Found, LINE_BYTES_MAX, Replay};
use lists::part::{ListPart, PartNames, PartTitle};
use lists::{Endings, Source, decompressed};
use rustix::io::Errno;
use spill::keyed::Keyed;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The bytes that are read of a part at once: the share of `--memory`, within these limits.
const CHUNK_BYTES_MIN: usize = 4 * 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The open file of a part.
pub(super) struct PartFile {
    pub path: PathBuf,
    /// The hash of its closed rows, if it has their file.
    pub keyed: Option<Keyed>,
    rows: Replay,
}

/// Opens all parts of the list at `output`, in their order, and compares their titles and heads with the list.
///
/// # Errors
/// A part is missing, incomplete, superfluous or of another list, or it cannot be read.
pub(super) fn open_all(output: &Path, source: &Source, memory: usize) -> Result<Vec<PartFile>, CleanError> {
    let count = count_beside(output)?;
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
        Ok((PartFile { path, keyed: None, rows }, title))
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

/// The number of parts of the list at `output`, all of which are there.
fn count_beside(output: &Path) -> Result<u32, CleanError> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let own = output.file_name().unwrap_or_default().as_bytes();
    let mut found = PartNames::default();
    for entry in folder.read_dir().map_err(|e| CleanError::unreadable(folder, &e))? {
        let name = entry.map_err(|e| CleanError::unreadable(folder, &e))?.file_name();
        if let Some(rest) = name.as_bytes().strip_prefix(own) {
            found.add(rest);
        }
    }
    found.count(output).map_err(CleanError::failed)
}
