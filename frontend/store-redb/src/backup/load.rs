//! Restoring a backup to a data folder.

use super::format::{BackupReader, Record};
use crate::folder::Folder;
use crate::tables::{self, FORMAT, META, META_FORMAT, TableVisitor};
use crate::vault::{self, KEY_FOLDER};
use ::redb::{Builder, Database, Key, TableDefinition, TableHandle, Value, WriteTransaction};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use store::UnixMs;
use store::backup::{BackupError, BackupSummary};

/// The longest name of a key file.
const NAME_BYTES_MAX: usize = 200;

/// Reads a backup to its end and returns its summary.
///
/// # Errors
///
/// [`BackupError`]: it could not be restored.
pub fn verify(backup: &Path) -> Result<BackupSummary, BackupError> {
    let mut reader = open(backup)?;
    let mut names = Names::default();
    tables::for_each_table(&mut names)?;
    let mut table = None;
    let mut format = None;
    while let Some(record) = reader.next()? {
        match record {
            Record::KeyFile { name, .. } if !is_plain(&name) => return Err(DAMAGED),
            Record::KeyFile { .. } => {}
            // Each table occurs once, and all are known.
            Record::Table { name } if !names.0.remove(name.as_str()) => return Err(BackupError::Newer),
            Record::Table { name } => table = Some(name),
            Record::Row { key, value } => match &table {
                None => return Err(DAMAGED),
                Some(name) if name == META.name() && key == META_FORMAT.as_bytes() => {
                    format = Some(<[u8; 8]>::try_from(value).map_err(|_| DAMAGED)?);
                }
                Some(_) => {}
            },
        }
    }
    match format.map(u64::from_le_bytes) {
        Some(format) if format > u64::from(FORMAT) => Err(BackupError::Newer),
        Some(_) => Ok(reader.summary()),
        None => Err(DAMAGED),
    }
}

/// Creates a data folder from a backup, after the whole backup was verified. Keys that have expired at `now` are left
/// out.
///
/// # Errors
///
/// [`BackupError`]: the folder is empty, as before.
pub fn restore(backup: &Path, folder: &Path, now: UnixMs) -> Result<BackupSummary, BackupError> {
    verify(backup)?;
    let folder = Folder::lock(folder)?;
    if fs::read_dir(folder.path())?.next().is_some() {
        return Err(BackupError::NotEmpty(folder.path().to_owned()));
    }
    let draft = folder.draft_path();
    let restored = fill(backup, &folder, &draft, now);
    if restored.is_err() {
        // The first error is returned. A file that cannot be removed is reported by the next attempt.
        let _ = fs::remove_file(&draft);
        let _ = fs::remove_dir_all(folder.path().join(KEY_FOLDER));
    }
    restored
}

const DAMAGED: BackupError = BackupError::Damaged("it is damaged");

fn open(backup: &Path) -> Result<BackupReader<impl BufRead>, BackupError> {
    BackupReader::begin(BufReader::with_capacity(1 << 16, File::open(backup)?))
}

/// The database gets its name last: a folder with a database is complete.
fn fill(backup: &Path, folder: &Folder, draft: &Path, now: UnixMs) -> Result<BackupSummary, BackupError> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(draft)?;
    let database = Builder::new().create_file(file);
    let database = database.map_err(|error| crate::folder::refusal(draft, error))?;
    let mut reader = open(backup)?;
    let keys = folder.path().join(KEY_FOLDER);
    DirBuilder::new().mode(0o700).create(&keys)?;
    load(&database, &mut reader, &keys, now)?;
    drop(database);
    File::open(draft)?.sync_all()?;
    fs::rename(draft, folder.database_path())?;
    File::open(folder.path())?.sync_all()?;
    Ok(reader.summary())
}

fn load(
    database: &Database,
    reader: &mut BackupReader<impl BufRead>,
    keys: &Path,
    now: UnixMs,
) -> Result<(), BackupError> {
    let transaction = database.begin_write()?;
    let mut next = reader.next()?;
    loop {
        next = match next {
            Some(Record::KeyFile { name, content }) => {
                if vault::is_kept(&name, now) {
                    write_key(&keys.join(name), &content)?;
                }
                reader.next()?
            }
            Some(Record::Table { name }) => {
                let mut load = TableLoad { transaction: &transaction, reader, name, next: None };
                tables::for_each_table(&mut load)?;
                load.next
            }
            Some(Record::Row { .. }) => return Err(DAMAGED),
            None => break,
        };
    }
    File::open(keys)?.sync_all()?;
    // The checksum was right a second time.
    Ok(transaction.commit()?)
}

fn write_key(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    Ok(file.sync_all()?)
}

/// Whether a name has no path separators and is not special.
fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.chars().all(fits)
}

/// The names of all tables.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl TableVisitor for Names {
    type Error = BackupError;

    fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<(), BackupError> {
        self.0.insert(definition.name().to_owned());
        Ok(())
    }
}

/// Fills the table with this name from the following rows.
struct TableLoad<'a, R> {
    transaction: &'a WriteTransaction,
    reader: &'a mut BackupReader<R>,
    name: String,
    /// The first record that is no row.
    next: Option<Record>,
}

impl<R: BufRead> TableVisitor for TableLoad<'_, R> {
    type Error = BackupError;

    fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<(), BackupError> {
        if definition.name() != self.name {
            return Ok(());
        }
        let mut table = self.transaction.open_table(definition)?;
        loop {
            match self.reader.next()? {
                Some(Record::Row { key, value }) if fits::<K>(&key) && fits::<V>(&value) => {
                    table.insert(K::from_bytes(&key), V::from_bytes(&value))?;
                }
                Some(Record::Row { .. }) => return Err(DAMAGED),
                other => {
                    self.next = other;
                    return Ok(());
                }
            }
        }
    }
}

/// Whether the bytes can be a value of this type; redb would panic for other bytes.
fn fits<T: Value>(bytes: &[u8]) -> bool {
    let is_text = T::type_name() == <&str>::type_name();
    T::fixed_width().is_none_or(|width| width == bytes.len())
        && (!is_text || std::str::from_utf8(bytes).is_ok())
}
