//! The data folder: created with mode 0700, and locked by the process that uses it.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use store::OpenError;

/// The name of the redb database in the data folder of a server without PostgreSQL.
pub const DATABASE_FILE: &str = "mailprobe.redb";

/// A locked data folder. The lock belongs to the folder itself (`flock`), so it also covers the creation of files in it.
/// It ends with the process in every case.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    _lock: File,
    /// Whether users other than its owner may read it.
    pub open_to_others: bool,
}

impl FolderLock {
    /// Creates the folder if necessary, and locks it.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`], or [`OpenError::Folder`] with the reason of the system.
    pub fn take(path: &Path) -> Result<FolderLock, OpenError> {
        let unusable = |error: std::io::Error| OpenError::Folder(path.to_owned(), error.to_string());
        // An existing folder keeps its mode: it may be shared, and the files are private in any case.
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let lock = File::open(path).map_err(unusable)?;
        let metadata = lock.metadata().map_err(unusable)?;
        if !metadata.is_dir() {
            return Err(OpenError::Folder(path.to_owned(), "not a folder".into()));
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let open_to_others = metadata.mode() & 0o077 != 0;
        Ok(FolderLock { path: path.to_owned(), _lock: lock, open_to_others })
    }

    /// The path of the data folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
