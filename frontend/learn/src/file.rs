//! The table on disk: the file, its key beside it, and the lock of a writer.
//!
//! `learned` has the table, `learned.key` the key of its hashes, `learned.lock` is locked by a writer. The three have mode 0600.
//! A write makes a new file and renames it, so after a crash the old or the new table is there, complete.

use crate::table::{TABLE_ROWS_MAX, Table, TableFault, TableKey};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest accepted file in bytes: a table with the maximum number of rows is smaller.
const FILE_BYTES_MAX: u64 = 128 << 20;
const _: () = assert!(TABLE_ROWS_MAX as u64 * 64 <= FILE_BYTES_MAX);

/// The reason why the table cannot be used, as one line with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError(pub String);

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TableError {}

/// The files of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile(PathBuf);

impl TableFile {
    /// The table at this path. Nothing is opened.
    pub fn new(path: PathBuf) -> TableFile {
        TableFile(path)
    }

    /// The path of the table.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the table; `None` if there is none yet.
    ///
    /// # Errors
    /// The table or its key cannot be read, or is damaged.
    pub fn read(&self) -> Result<Option<Table>, TableError> {
        let Some(bytes) = self.bytes(&self.0)? else { return Ok(None) };
        let Some(key) = self.key()? else {
            return Err(TableError(format!(
                "{} has no key: restore {} from a copy, or remove the table and learn again",
                self.0.display(),
                self.beside(".key").display()
            )));
        };
        Table::from_bytes(key, &bytes).map(Some).map_err(|fault| self.fault(fault))
    }

    /// A value that differs after each write of the table: its inode and its time. `None`: there is no table.
    pub fn stamp(&self) -> Option<(u64, i64, i64)> {
        let metadata = fs::metadata(&self.0).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Changes the table on disk. Calls `change` with the table of the file, or with an empty table if there is no file. Then it
    /// replaces the file. A lock keeps other writers out during the call.
    ///
    /// # Errors
    /// As [`TableFile::read`]; another process writes the table; the change fails; or the table cannot be written. The old table
    /// stays then.
    pub fn update<T, E: From<TableError>>(
        &self,
        change: impl FnOnce(&mut Table) -> Result<T, E>,
    ) -> Result<T, E> {
        let _lock = self.lock()?;
        let mut table = match self.read()? {
            Some(table) => table,
            None => Table::new(self.key()?.map_or_else(|| self.new_key(), Ok)?),
        };
        let changed = change(&mut table)?;
        table.remove_oldest(TABLE_ROWS_MAX);
        self.replace(&self.0, &table.to_bytes())?;
        Ok(changed)
    }

    /// Removes the table and its key. Returns whether there was a table.
    ///
    /// # Errors
    /// Another process writes the table, or a file cannot be removed.
    pub fn forget_all(&self) -> Result<bool, TableError> {
        let _lock = self.lock()?;
        let mut is_removed = false;
        for path in [self.0.clone(), self.beside(".key")] {
            match fs::remove_file(&path) {
                Ok(()) => is_removed |= path == self.0,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(TableError(format!("{} cannot be removed: {error}", path.display())));
                }
            }
        }
        Ok(is_removed)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.0.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }

    fn lock(&self) -> Result<File, TableError> {
        let path = self.beside(".lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        match file.try_lock() {
            // The file system has no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(TableError(format!(
                "another `mailprobe learn` writes {}: wait until it ends",
                self.0.display()
            ))),
        }
    }

    fn key(&self) -> Result<Option<TableKey>, TableError> {
        let path = self.beside(".key");
        let Some(bytes) = self.bytes(&path)? else { return Ok(None) };
        match <[u8; 16]>::try_from(bytes) {
            Ok(key) => Ok(Some(TableKey(key))),
            Err(_) => Err(TableError(format!(
                "{} is damaged: restore it from a copy, or remove it and the table, and learn again",
                path.display()
            ))),
        }
    }

    fn new_key(&self) -> Result<TableKey, TableError> {
        let path = self.beside(".key");
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| unwritable(&path, &io::Error::other(error)))?;
        self.replace(&path, &key)?;
        Ok(TableKey(key))
    }

    /// The bytes of a file; `None` if there is no file.
    fn bytes(&self, path: &Path) -> Result<Option<Vec<u8>>, TableError> {
        let unreadable = |error: io::Error| TableError(format!("{} cannot be read: {error}", path.display()));
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(unreadable)?,
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return Err(self.fault(TableFault::Foreign));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        Ok(Some(bytes))
    }

    fn fault(&self, fault: TableFault) -> TableError {
        let name = self.0.display();
        TableError(match fault {
            TableFault::Foreign => format!("{name} is not a table of `mailprobe learn`: name another file"),
            TableFault::Newer => format!(
                "{name} has a version that this mailprobe cannot read: use a newer mailprobe, or name another file"
            ),
            TableFault::Damaged => format!(
                "{name} is damaged, or its key is another one: restore both from a copy, or remove both and learn again"
            ),
        })
    }

    /// Replaces a file with new contents.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), TableError> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let put = || {
            // A file that a killed run left may have another mode.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        put().map_err(|error| unwritable(path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> TableError {
    TableError(format!("{} cannot be written: {error}; name another file with --learned", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounce, Event, EventKind, Evidence};
    use engine_proto::address::Address;
    use std::os::unix::fs::PermissionsExt;

    fn event() -> Event {
        let address = Address::parse("joe.learned@example.com").unwrap();
        Event { address, kind: EventKind::Bounced(Bounce::NotFound), at: 1000 }
    }

    fn update<T>(file: &TableFile, change: impl FnOnce(&mut Table) -> T) -> Result<T, TableError> {
        file.update(|table| Ok(change(table)))
    }

    #[test]
    fn a_table_stays_on_disk_without_addresses() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = TableFile::new(folder.path().join("learned"));
        assert!(file.read().unwrap().is_none());
        update(&file, |table| table.add(&event())).unwrap();
        let known = file.read().unwrap().unwrap().evidence(&event().address, 2000);
        assert_eq!(known, Some(Evidence::Bounced { bounce: Bounce::NotFound, at: 1000 }));
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let bytes = fs::read(entry.path()).unwrap();
            assert!(!bytes.windows(3).any(|part| part == b"joe" || part == b"exa"));
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        assert_eq!(names, ["learned", "learned.key", "learned.lock"]);
        assert!(update(&file, |table| table.forget(&event().address)).unwrap());
        assert!(!update(&file, |table| table.forget(&event().address)).unwrap());
        assert!(file.forget_all().unwrap() && !file.forget_all().unwrap());
        assert!(file.read().unwrap().is_none() && !folder.path().join("learned.key").exists());
    }

    #[test]
    fn damage_is_told_and_the_old_file_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("learned");
        let file = TableFile::new(path.clone());
        update(&file, |table| table.add(&event())).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[40] ^= 1;
        let newer = [b"mailprobe learned 2\n", &whole[20..]].concat();
        for (bytes, expected) in [
            (&whole[..whole.len() - 1], "learned is damaged, or its key is another one: restore "),
            (&whole[..30], "learned is damaged"),
            (&changed, "learned is damaged"),
            (&newer, "learned has a version that this mailprobe cannot read"),
            (&b"my notes\n"[..], "learned is not a table of `mailprobe learn`"),
            (b"", "learned is not a table of `mailprobe learn`"),
        ] {
            fs::write(&path, bytes).unwrap();
            let said = update(&file, |table| table.add(&event())).unwrap_err().0;
            assert!(said.contains(expected) && !said.contains('\n'), "{said}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        fs::write(&path, &whole).unwrap();
        let key = folder.path().join("learned.key");
        fs::write(&key, [1; 16]).unwrap();
        assert!(file.read().unwrap_err().0.contains("its key is another one"));
        fs::write(&key, [1; 15]).unwrap();
        assert!(file.read().unwrap_err().0.contains("learned.key is damaged"));
        fs::remove_file(&key).unwrap();
        assert!(file.read().unwrap_err().0.contains("learned has no key: restore "));
    }

    #[test]
    fn one_writer_at_a_time() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = TableFile::new(folder.path().join("learned"));
        let said = update(&file, |_| update(&file, |_| ()).unwrap_err().0).unwrap();
        assert!(said.starts_with("another `mailprobe learn` writes "), "{said}");
    }
}
