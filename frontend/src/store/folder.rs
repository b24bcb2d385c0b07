//! The data folder: made with mode 0700, locked by the process that uses it, with the database in it.

use super::OpenError;
use ::redb::{Builder, Database, DatabaseError};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The database's name in the data folder.
pub const DATABASE_FILE: &str = "mailprobe.redb";

/// A locked data folder. The lock is the folder's own (`flock`), so that it also covers the making of the file, and
/// ends with the process however that ends.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
    /// Others than its owner may look into it.
    pub open_to_others: bool,
}

impl Folder {
    /// Makes the folder if need be, and locks it.
    pub fn lock(path: &Path) -> Result<Folder, OpenError> {
        let unusable = |error: std::io::Error| OpenError::Folder(path.to_owned(), error.to_string());
        // One that exists keeps its mode: it may be a shared place, and the files are for their owner alone anyway.
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
        Ok(Folder { path: path.to_owned(), _lock: lock, open_to_others })
    }

    /// Where the database stands.
    pub fn database_path(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }

    /// Opens the database, or makes an empty one.
    pub fn open_database(&self, builder: &Builder) -> Result<Database, OpenError> {
        let path = self.database_path();
        let missing = !path.try_exists().map_err(|error| self.unusable(&error))?;
        if missing {
            self.make_database(builder, &path)?;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| self.unusable(&error))?;
        let empty = file.metadata().map_err(|error| self.unusable(&error))?.len() == 0;
        if empty {
            return Err(OpenError::NotADatabase(path, "it is empty".into()));
        }
        builder.create_file(file).map_err(|error| refusal(&path, error))
    }

    /// redb cannot go on with a file whose making was cut short; so it is made under another name, and renamed.
    fn make_database(&self, builder: &Builder, path: &Path) -> Result<(), OpenError> {
        let draft = self.path.join(format!("{DATABASE_FILE}.new"));
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&draft);
        let file = file.map_err(|error| self.unusable(&error))?;
        drop(builder.create_file(file).map_err(|error| refusal(&draft, error))?);
        let placed = std::fs::rename(&draft, path).and_then(|()| File::open(&self.path)?.sync_all());
        placed.map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &std::io::Error) -> OpenError {
        OpenError::Folder(self.path.clone(), error.to_string())
    }
}

/// What redb's refusal means to whoever starts mailprobe.
pub(super) fn refusal(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(path.to_owned()),
        other => OpenError::NotADatabase(path.to_owned(), other.to_string()),
    }
}
