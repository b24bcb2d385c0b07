//! Restoring a backup to a data folder.

use crate::folder::Folder;
use crate::rows::{WithTypes, WriteRows, with_types};
use ::redb::{Builder, Database, Key, Value};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use store::UnixMs;
use store::backup::{BackupError, BackupSummary};
use store_rules::backup::{BackupReader, DAMAGED, Record, open, verify};
use store_rules::rows::{RowsMut, Table};
use vault::KEY_FOLDER;

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
    let mut rows = WriteRows::new(&transaction);
    let mut table = None;
    while let Some(record) = reader.next_record()? {
        match record {
            Record::KeyFile { name, content } => {
                if vault::is_kept(&name, now) {
                    write_key(&keys.join(name), &content)?;
                }
            }
            Record::Table { name } => {
                let known = Table::KEPT.into_iter().find(|table| table.name() == name).ok_or(DAMAGED)?;
                WriteRows::create(&transaction, known)?;
                table = Some(known);
            }
            Record::Row { key, value } => {
                let table = table.filter(|&table| with_types(table, Fits(&key, &value))).ok_or(DAMAGED)?;
                rows.put(table, &key, &value)?;
            }
        }
    }
    drop(rows);
    File::open(keys)?.sync_all()?;
    // The checksum was right a second time.
    Ok(transaction.commit()?)
}

fn write_key(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    Ok(file.sync_all()?)
}

/// Whether a key and a value have the types of a table.
struct Fits<'a>(&'a [u8], &'a [u8]);

impl WithTypes for Fits<'_> {
    type Output = bool;

    fn with<K: Key + 'static, V: Value + 'static>(self, _: &'static str) -> bool {
        fits::<K>(self.0) && fits::<V>(self.1)
    }
}

/// Whether the bytes can be a value of this type; redb would panic for other bytes.
fn fits<T: Value>(bytes: &[u8]) -> bool {
    let is_text = T::type_name() == <&str>::type_name();
    T::fixed_width().is_none_or(|width| width == bytes.len())
        && (!is_text || std::str::from_utf8(bytes).is_ok())
}
