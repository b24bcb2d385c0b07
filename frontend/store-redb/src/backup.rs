//! Backups: the whole store, as of one commit, in a file that any later version can read.
//!
//! A backup is written from a read snapshot, so other writes continue. It has rows instead of pages, so its size is
//! that of the data. It also has the files of `DIR/keys/`, without which the encrypted rows could not be read.
//! store-rules has the format. Restoring creates a new database and never changes an existing one.

mod load;

use super::folder::Folder;
use super::rows::ReadRows;
use ::redb::{Builder, Database, ReadableDatabase, ReadableTableMetadata, TableHandle};
pub use load::restore;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use store::backup::{BackupError, BackupSummary, Sizes};
use store::{OpenError, StoreError, UnixMs};
use store_rules::backup::BackupWriter;
pub use store_rules::backup::verify;
use store_rules::rows::Table;
use vault::Vault;

/// The length of the database before and after compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The length before, in bytes.
    pub before: u64,
    /// The length afterwards, in bytes.
    pub after: u64,
}

/// Writes a backup of the last commit.
pub(super) fn dump(
    database: &Database,
    vault: &Vault,
    now: UnixMs,
    sink: &mut dyn Write,
) -> Result<BackupSummary, BackupError> {
    // The snapshot precedes the keys: later rows may need a key that does not exist yet.
    let transaction = database.begin_read()?;
    let mut out = BackupWriter::begin(sink)?;
    out.keys(vault, now)?;
    if transaction.list_tables()?.count() != Table::KEPT.len() {
        return Err(
            StoreError::Failed("the database has tables that this version does not know".into()).into()
        );
    }
    out.tables(&ReadRows::new(transaction), vault)?;
    out.end()
}

/// The current size of the store.
pub(super) fn sizes(database: &Database, folder: Option<&Path>) -> Result<Sizes, StoreError> {
    let transaction = database.begin_read()?;
    let mut rows = Vec::new();
    for table in transaction.list_tables()? {
        let name = table.name().to_owned();
        rows.push((name, transaction.open_untyped_table(table)?.len()?));
    }
    let bytes = folder.map_or(Ok(0), folder_bytes);
    let folder_bytes = bytes.map_err(|error| StoreError::Failed(error.to_string()))?;
    Ok(Sizes { folder_bytes, rows })
}

/// The size of a data folder with files and one level of subfolders. Files that disappear meanwhile do not count.
fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
                bytes += files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>();
            }
            Ok(metadata) => bytes += metadata.len(),
            Err(_) => {}
        }
    }
    Ok(bytes)
}

/// Returns the unused space in the database of a stopped server to the file system. `None`: there is no database.
///
/// # Errors
///
/// [`OpenError`]: a server uses it, or it is damaged.
pub fn compact(folder: &Path) -> Result<Option<Compacted>, OpenError> {
    if !folder.join(super::DATABASE_FILE).exists() {
        return Ok(None);
    }
    let folder = Folder::lock(folder)?;
    let path = folder.database_path();
    let length = || fs::metadata(&path).map(|file| file.len()).map_err(|error| failed(error.to_string()));
    let before = length()?;
    let mut database = folder.open_database(&Builder::new(), |file| file)?;
    database.compact().map_err(|error| failed(error.to_string()))?;
    drop(database);
    Ok(Some(Compacted { before, after: length()? }))
}

fn failed(why: String) -> OpenError {
    OpenError::Store(StoreError::Failed(why))
}

#[cfg(test)]
mod tests;
