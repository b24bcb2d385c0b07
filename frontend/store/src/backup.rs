//! The results of a backup, and the size of the store.

use crate::{OpenError, StoreError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The contents of a backup in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// The length of the backup in bytes.
    pub bytes: u64,
    /// The number of rows in all tables.
    pub rows: u64,
    /// The number of key files.
    pub key_files: u64,
}

/// The size of the store on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The size of all files in the data folder, in bytes.
    pub folder_bytes: u64,
    /// The number of rows by table.
    pub rows: Vec<(String, u64)>,
}

/// The reason why a backup failed or was not restored, as one line.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The store could not be read or created.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data folder could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The backup could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no backup, or is incomplete.
    #[error("{0}; use another backup")]
    Damaged(&'static str),
    /// A later version of mailprobe wrote it.
    #[error("a newer mailprobe made it; use that version")]
    Newer,
    /// The folder to restore to is not empty.
    #[error("{0} is not empty; move its content away, or name a new folder with --data")]
    NotEmpty(PathBuf),
    /// An older version of mailprobe made it, and its format cannot be restored to PostgreSQL.
    #[error(
        "it has format {found}, and PostgreSQL needs format {needed}; restore it to a folder, then move this folder with \
        `mailprobe cluster init --from-data`"
    )]
    Older {
        /// The format of the backup.
        found: u64,
        /// The format of the tables in PostgreSQL.
        needed: u32,
    },
    /// The schema to restore to has data, or a node uses it.
    #[error(
        "the schema {schema} has {has}; name another schema with --store-schema, or remove this one with DROP SCHEMA"
    )]
    SchemaInUse {
        /// The name of the schema.
        schema: String,
        /// What it has.
        has: &'static str,
    },
}

#[cfg(feature = "redb")]
macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<::redb::$error> for BackupError {
            fn from(error: ::redb::$error) -> BackupError {
                BackupError::Store(error.into())
            }
        }
    )*};
}
#[cfg(feature = "redb")]
from_redb!(StorageError, TableError, TransactionError, CommitError);
