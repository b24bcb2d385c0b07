//! `OUT.closed`: the addresses that are unverifiable although a later check would not tell more, such as those of a server that
//! refuses this machine for good. `clean --retry OUT` leaves them out.
//!
//! The file exists beside an output that has no column for this, and beside each part of one. It has no addresses, only their keyed hashes:
//!
//! ```text
//! TITLE | 16 bytes: the key of the hashes | 16 bytes per address: its hash
//! ```
//!
//! A run writes `OUT.partial.closed`, and this gets its name when OUT is complete. So an earlier output keeps its file until then.
//! An address that is missing is checked again, and one that is in the file twice does no harm. So the file needs no care after a kill,
//! and a user may delete it.

use super::SpillError;
use super::keyed::Keyed;
use super::table::Table;
use super::{State, unreadable, unwritable};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const TITLE: &[u8] = b"mailprobe clean: unverifiable rows that --retry leaves out\n";
const HEAD: usize = TITLE.len() + Keyed::BYTES;
const RECORD: usize = size_of::<u128>();

/// The path of the file for the output `path`.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".closed");
    PathBuf::from(name)
}

/// The key of the hashes in the file at `path`; `None` if there is no such file, or its head is incomplete.
///
/// # Errors
/// It cannot be read, or is another file.
fn key(path: &Path) -> Result<Option<Keyed>, SpillError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| unreadable(path, &error))?,
    };
    let Some(key) = head.strip_prefix(TITLE) else {
        return match TITLE.starts_with(&head) {
            true => Ok(None),
            false => Err(SpillError::failed(format!(
                "{} exists and belongs to no output: move it, or name another output",
                path.display()
            ))),
        };
    };
    Ok(key.try_into().ok().map(Keyed::with_key))
}

/// Adds the addresses in the file at `path` to a table, as its keys.
///
/// # Errors
/// It cannot be read, or the state fails.
fn read(path: &Path, state: &mut State, table: &mut Table) -> Result<(), SpillError> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    file.seek(SeekFrom::Start(HEAD as u64)).map_err(failed)?;
    let mut record = [0; RECORD];
    loop {
        match file.read_exact(&mut record) {
            Ok(()) => table.put(state, u128::from_le_bytes(record), 0)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The file of an output that is being written.
struct ClosedFile {
    path: PathBuf,
    keyed: Keyed,
    /// `None` until there is an address.
    file: Option<File>,
    waiting: Vec<u8>,
}

impl ClosedFile {
    /// The file at `path`, for hashes with this key. If the run `continues` an interrupted one and the file has this key, it stays.
    /// Any other file of such rows goes.
    ///
    /// # Errors
    /// Another file has its name, or the old one cannot be removed.
    fn new(path: PathBuf, keyed: Keyed, continues: bool) -> Result<ClosedFile, SpillError> {
        let is_same = key(&path)?.is_some_and(|found| found.key() == keyed.key());
        if !(is_same && continues)
            && let Err(error) = std::fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(unwritable(&path.display().to_string(), &error));
        }
        Ok(ClosedFile { path, keyed, file: None, waiting: Vec::new() })
    }

    /// Adds an address by its hash.
    fn add(&mut self, hash: u128) {
        self.waiting.extend(hash.to_le_bytes());
    }

    /// Hands the added addresses to the system.
    ///
    /// # Errors
    /// The file cannot be written.
    fn flush(&mut self) -> Result<(), SpillError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.append()
    }

    fn append(&mut self) -> Result<(), SpillError> {
        let opened = match &mut self.file {
            Some(file) => Ok(file),
            none => opened(&self.path, &self.keyed).map(|file| none.insert(file)),
        };
        let written = opened.and_then(|file| file.write_all(&self.waiting));
        written.map_err(|error| unwritable(&self.path.display().to_string(), &error))?;
        self.waiting.clear();
        Ok(())
    }
}

/// The file, with its head and without half a record at its end.
fn opened(path: &Path, keyed: &Keyed) -> std::io::Result<File> {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let records = file.metadata()?.len().saturating_sub(HEAD as u64) / RECORD as u64;
    if records == 0 {
        file.set_len(0)?;
        file.write_all(&[TITLE, &keyed.key()].concat())?;
    }
    let end = HEAD as u64 + records * RECORD as u64;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    Ok(file)
}

/// What is known of addresses that stay unverifiable, of outputs without the column `rule`.
pub struct ClosedRows {
    /// The hash of this run's addresses.
    pub keyed: Keyed,
    /// The file of the earlier output that is retried, if its hashes are those of this run.
    earlier: Option<PathBuf>,
    earlier_rows: Option<Table>,
    /// The file of the new output.
    file: Option<ClosedFile>,
    /// The name of the new file until the output is complete, and at the end of the run.
    partial: Option<PathBuf>,
    delivered: Option<PathBuf>,
    /// Whether the run continues the file of an interrupted one.
    continues: bool,
    /// The new output needs a file, and does not have one.
    pub is_lost: bool,
}

impl ClosedRows {
    /// The rows of a run that retries the output `earlier`, and continues the file `own`. Its hashes have the key of the file beside
    /// one of them, if there is one.
    ///
    /// # Errors
    /// Another file has the name of the one with these rows.
    pub fn new(earlier: Option<&Path>, own: Option<&Path>) -> Result<ClosedRows, SpillError> {
        let [earlier, own] = [earlier, own].map(|path| path.map(beside));
        let mut found = None;
        for path in [&earlier, &own].into_iter().flatten() {
            found = match found {
                None => key(path)?,
                found => found,
            };
        }
        let keyed = found.map_or_else(Keyed::new, Ok)?;
        let (continues, is_lost) = (own.is_some(), false);
        let (earlier_rows, file, partial, delivered) = (None, None, None, None);
        Ok(ClosedRows { keyed, earlier, earlier_rows, file, partial, delivered, continues, is_lost })
    }

    /// Fixes the hash of the run, and opens the file beside `partial`, to which the run writes; `None`: it writes no file. At the end
    /// it goes beside `delivered`, which has the unverifiable rows. `needs_none`: the output itself tells the rule of each row, or
    /// cannot be retried, so it needs no file.
    ///
    /// # Errors
    /// The file of another run cannot be removed, or another file has one of the names.
    pub fn open(
        &mut self,
        keyed: Keyed,
        partial: Option<&Path>,
        delivered: Option<&Path>,
        needs_none: bool,
    ) -> Result<(), SpillError> {
        self.keyed = keyed;
        if let Some(path) = self.earlier.take() {
            let is_same_key = key(&path)?.is_some_and(|found| found.key() == keyed.key());
            self.earlier = Some(path).filter(|_| is_same_key);
        }
        self.is_lost = delivered.is_none() && !needs_none;
        self.delivered = delivered.map(beside);
        self.delivered.as_deref().map_or(Ok(None), key)?;
        let Some(path) = partial.map(beside) else { return Ok(()) };
        let file = ClosedFile::new(path.clone(), keyed, self.continues)?;
        self.partial = Some(path);
        self.file = (!needs_none).then_some(file);
        Ok(())
    }

    /// Creates the file of a part, which has it without rows too: a part without it has lost it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(&mut self) -> Result<(), SpillError> {
        self.file.as_mut().map_or(Ok(()), ClosedFile::append)
    }

    /// Whether the new output needs a file.
    pub fn needs_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether there are such rows of the earlier output.
    pub fn has_earlier(&self) -> bool {
        self.earlier.is_some()
    }

    /// Reads the rows of the earlier output.
    ///
    /// # Errors
    /// They cannot be read, or the state fails.
    pub fn read(&mut self, state: &mut State) -> Result<(), SpillError> {
        let Some(path) = &self.earlier else { return Ok(()) };
        read(path, state, self.earlier_rows.insert(Table::new(state.shares)))
    }

    /// Adds those of a part to the earlier rows: the hash of its addresses, if it has a file.
    ///
    /// # Errors
    /// They cannot be read, or the state fails.
    pub fn read_part(&mut self, part: &Path, state: &mut State) -> Result<Option<Keyed>, SpillError> {
        let path = beside(part);
        let keyed = key(&path)?;
        if keyed.is_some() {
            let table = Table::new(state.shares);
            read(&path, state, self.earlier_rows.get_or_insert(table))?;
        }
        Ok(keyed)
    }

    /// Whether the address with the hash `earlier` is closed in the earlier output. It stays so in the new one, with the hash `key`.
    ///
    /// # Errors
    /// The state fails.
    pub fn keeps(&mut self, state: &mut State, earlier: u128, key: u128) -> Result<bool, SpillError> {
        let Some(rows) = &self.earlier_rows else { return Ok(false) };
        let is_closed = rows.get(state, earlier)?.is_some();
        if is_closed {
            self.add(key);
        }
        Ok(is_closed)
    }

    /// The new output is complete. Returns its file, if it needs one. Such a file of an output that it replaces goes.
    ///
    /// # Errors
    /// The file that it needs cannot be renamed. Then it has none.
    pub fn deliver(&mut self) -> Result<Option<PathBuf>, SpillError> {
        let needs_file = self.file.take().is_some();
        let Some(to) = self.delivered.take() else { return Ok(None) };
        let is_compared = self.partial.is_none();
        let done = match self.partial.take().map(|from| std::fs::rename(from, &to)) {
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => std::fs::remove_file(&to),
            done => done.unwrap_or(Ok(())),
        };
        match done {
            Err(error) if error.kind() != ErrorKind::NotFound && needs_file => {
                self.is_lost = true;
                // That of the earlier output does not count for this one.
                let _ = std::fs::remove_file(&to);
                Err(unwritable(&to.display().to_string(), &error))
            }
            _ => Ok(Some(to).filter(|path| (needs_file || is_compared) && path.exists())),
        }
    }

    /// The run ends without a complete output: removes the file if that of its rows is gone.
    pub fn end(self) {
        if let Some(path) = &self.partial
            && !path.with_extension("").exists()
        {
            // A file that cannot be removed is removed by the next run.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Adds an address by its hash.
    pub fn add(&mut self, key: u128) {
        if let Some(file) = &mut self.file {
            file.add(key);
        }
    }

    /// Hands all addresses to the system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), SpillError> {
        self.file.as_mut().map_or(Ok(()), ClosedFile::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(path: &Path, state: &mut State) -> Vec<u128> {
        let mut table = Table::new(state.shares);
        read(path, state, &mut table).unwrap();
        (0..100).filter(|&hash| table.get(state, hash).unwrap().is_some()).collect()
    }

    #[test]
    fn the_addresses_of_all_runs_with_one_key_are_there_and_of_no_other() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = beside(&folder.path().join("out.csv"));
        let mut state = State::open(None, 1 << 20).unwrap();
        let keyed = Keyed::new().unwrap();
        assert!(key(&path).unwrap().is_none());
        let mut file = ClosedFile::new(path.clone(), keyed, true).unwrap();
        file.flush().unwrap();
        assert!(!path.exists(), "nothing to keep");
        for hash in 0..10 {
            file.add(hash);
            file.flush().unwrap();
        }
        assert_eq!(hashes(&path, &mut state), (0..10).collect::<Vec<_>>());
        // A kill cuts the file at any byte, and a run with the same key goes on.
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut file = ClosedFile::new(path.clone(), keyed, true).unwrap();
            file.add(50);
            file.flush().unwrap();
            let complete = cut.saturating_sub(HEAD) / RECORD;
            let expected: Vec<_> = (0..complete as u128).chain([50]).collect();
            assert_eq!(hashes(&path, &mut state), expected, "cut at {cut}");
        }
        assert_eq!(key(&path).unwrap().map(|found| found.key()), Some(keyed.key()));
        // A run with another key begins anew, and so does one that continues nothing: a retry has the key of its earlier output.
        for (keyed, continues) in [(Keyed::new().unwrap(), true), (keyed, true), (keyed, false)] {
            let mut file = ClosedFile::new(path.clone(), keyed, continues).unwrap();
            assert!(!path.exists());
            file.add(1);
            file.flush().unwrap();
        }
        std::fs::write(&path, "my own file\n").unwrap();
        let refused = ClosedFile::new(path, keyed, true).err().unwrap().message;
        assert!(refused.contains("out.csv.closed exists and belongs to no output: move it, "), "{refused}");
    }
}
