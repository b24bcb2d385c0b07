//! What is told of backups and of the store's size.

use crate::{OpenError, StoreError};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// Its length.
    pub bytes: u64,
    /// Rows, over all tables.
    pub rows: u64,
    /// Files of keys.
    pub key_files: u64,
}

/// What the store takes up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    /// All files of the data folder.
    pub folder_bytes: u64,
    /// Rows by table.
    pub rows: Vec<(String, u64)>,
}

/// Why there is no backup, or it was not restored: one line.
#[derive(Debug)]
pub enum BackupError {
    /// The store could not be read or made.
    Store(StoreError),
    /// The data folder could not be opened.
    Open(OpenError),
    /// Reading or writing the backup failed.
    Io(io::Error),
    /// It is none, or not whole.
    Damaged(&'static str),
    /// A later version of mailprobe made it.
    Newer,
    /// There is something in the folder that it should be restored to.
    NotEmpty(PathBuf),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Store(error) => error.fmt(f),
            BackupError::Open(error) => error.fmt(f),
            BackupError::Io(error) => error.fmt(f),
            BackupError::Damaged(what) => write!(f, "{what}; use another backup"),
            BackupError::Newer => f.write_str("a newer mailprobe made it; use that one"),
            BackupError::NotEmpty(path) => write!(
                f,
                "{} is not empty; move what is there away, or name a new folder with --data",
                path.display()
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
