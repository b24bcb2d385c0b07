//! The results of a backup, and the size of the store.

use crate::{OpenError, StoreError};
use std::fmt;
use std::io;
use std::path::PathBuf;

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
#[derive(Debug)]
pub enum BackupError {
    /// The store could not be read or created.
    Store(StoreError),
    /// The data folder could not be opened.
    Open(OpenError),
    /// The backup could not be read or written.
    Io(io::Error),
    /// The file is no backup, or is incomplete.
    Damaged(&'static str),
    /// A later version of mailprobe wrote it.
    Newer,
    /// The folder to restore to is not empty.
    NotEmpty(PathBuf),
    /// An older version of mailprobe made it, and its format cannot be restored to PostgreSQL.
    Older {
        /// The format of the backup.
        found: u64,
        /// The format of the tables in PostgreSQL.
        needed: u32,
    },
    /// The schema to restore to has data, or a node uses it.
    SchemaInUse {
        /// The name of the schema.
        schema: String,
        /// What it has.
        has: &'static str,
    },
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Store(error) => error.fmt(f),
            BackupError::Open(error) => error.fmt(f),
            BackupError::Io(error) => error.fmt(f),
            BackupError::Damaged(what) => write!(f, "{what}; use another backup"),
            BackupError::Newer => f.write_str("a newer mailprobe made it; use that version"),
            BackupError::NotEmpty(path) => write!(
                f,
                "{} is not empty; move its content away, or name a new folder with --data",
                path.display()
            ),
            BackupError::Older { found, needed } => write!(
                f,
                "it has format {found}, and PostgreSQL needs format {needed}; restore it to a folder, then move this folder with \
                 `mailprobe cluster init --from-data`"
            ),
            BackupError::SchemaInUse { schema, has } => write!(
                f,
                "the schema {schema} has {has}; name another schema with --store-schema, or remove this one with DROP SCHEMA"
            ),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> BackupError {
        BackupError::Store(error)
    }
}

impl From<OpenError> for BackupError {
    fn from(error: OpenError) -> BackupError {
        BackupError::Open(error)
    }
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> BackupError {
        BackupError::Io(error)
    }
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
