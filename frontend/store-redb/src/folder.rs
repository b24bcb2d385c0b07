//! The data folder, locked by the process that uses it, with the database in it.

use ::redb::backends::FileBackend;
use ::redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::OpenError;
pub use store_rules::folder::DATABASE_FILE;
use store_rules::folder::FolderLock;
use vault::Vault;

/// A locked data folder with its database.
pub(super) struct Folder {
    lock: FolderLock,
    /// Whether users other than its owner may read it.
    pub open_to_others: bool,
}

impl Folder {
    /// Creates the folder if necessary, and locks it.
    pub fn lock(path: &Path) -> Result<Folder, OpenError> {
        let lock = FolderLock::take(path)?;
        let open_to_others = lock.open_to_others;
        Ok(Folder { lock, open_to_others })
    }

    /// The path of the database.
    pub fn database_path(&self) -> PathBuf {
        self.lock.path().join(DATABASE_FILE)
    }

    /// The path of the data folder.
    pub fn path(&self) -> &Path {
        self.lock.path()
    }

    /// The path of a database during its creation.
    pub fn draft_path(&self) -> PathBuf {
        self.lock.path().join(format!("{DATABASE_FILE}.new"))
    }

    /// Opens the database, or creates an empty one. `backend` wraps its file.
    pub fn open_database<B: StorageBackend>(
        &self,
        builder: &Builder,
        backend: impl FnOnce(FileBackend) -> B,
    ) -> Result<Database, OpenError> {
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
        let database = FileBackend::new(file).and_then(|file| builder.create_with_backend(backend(file)));
        database.map_err(|error| self.refusal(&path, error))
    }

    /// Opens the keys of the folder.
    pub fn open_vault(&self) -> Result<Vault, OpenError> {
        Vault::open(self.path())
    }

    /// redb cannot open a file whose creation was interrupted, so it is created under another name and renamed.
    fn make_database(&self, builder: &Builder, path: &Path) -> Result<(), OpenError> {
        let draft = self.draft_path();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&draft);
        let file = file.map_err(|error| self.unusable(&error))?;
        drop(builder.create_file(file).map_err(|error| self.refusal(&draft, error))?);
        let placed = std::fs::rename(&draft, path).and_then(|()| File::open(self.path())?.sync_all());
        placed.map_err(|error| self.unusable(&error))
    }

    fn refusal(&self, path: &Path, error: DatabaseError) -> OpenError {
        match error {
            // An error of the system (no space, no permission) concerns the disk and not the contents of the file.
            DatabaseError::Storage(StorageError::Io(error)) if error.raw_os_error().is_some() => {
                self.unusable(&error)
            }
            other => refusal(path, other),
        }
    }

    fn unusable(&self, error: &std::io::Error) -> OpenError {
        OpenError::Folder(self.path().to_owned(), error.to_string())
    }
}

/// The error for the operator that corresponds to redb's.
pub(super) fn refusal(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked(path.to_owned()),
        other => OpenError::NotADatabase(path.to_owned(), other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RedbStore, open_redb};
    use crate::{KEY_FOLDER, StoreOptions};
    use std::os::unix::fs::PermissionsExt;
    use store::PlanTable;
    use store_rules::tables;

    fn open(path: &Path) -> Result<RedbStore, OpenError> {
        open_redb(path, PlanTable::standard(), StoreOptions::default(), 1).map(|(store, _)| store)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[track_caller]
    fn check_refusal(path: &Path, says: &[&str]) {
        let refusal = open(path).map(drop).unwrap_err().to_string();
        for part in says {
            assert!(refusal.contains(part), "{refusal}");
        }
        assert!(!refusal.contains('\n'));
    }

    #[test]
    fn what_is_made_is_for_its_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        drop(open(&folder).unwrap());
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join(DATABASE_FILE)), 0o600);
        let left: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2);
        assert_eq!(mode(&folder.join(KEY_FOLDER)), 0o700);
        assert_eq!(mode(&folder.join(KEY_FOLDER).join("hash")), 0o600);
    }

    #[test]
    fn a_folder_that_others_can_read_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        for (bits, open_to_others) in [(0o700, false), (0o750, true), (0o701, true)] {
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(bits)).unwrap();
            let plans = PlanTable::standard();
            let (_, opening) = open_redb(folder.path(), plans, StoreOptions::default(), 1).unwrap();
            assert_eq!(opening.folder_open_to_others, open_to_others);
            assert_eq!(mode(folder.path()), bits);
        }
    }

    #[test]
    fn a_folder_in_use_is_refused_until_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        check_refusal(folder.path(), &["in use by another mailprobe", "stop it"]);
        drop(store);
        open(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, "x").unwrap();
        check_refusal(&file, &["cannot use the data folder", "--data"]);
        check_refusal(&file.join("below"), &["cannot use the data folder", "--data"]);
        // Not even root can create a folder here.
        check_refusal(Path::new("/proc/mailprobe"), &["cannot use the data folder", "--data"]);
    }

    #[test]
    fn a_file_that_is_no_database_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(DATABASE_FILE);
        for content in [&b""[..], b"x", b"redb", &[7; 100_000]] {
            std::fs::write(&file, content).unwrap();
            check_refusal(folder.path(), &["not a readable mailprobe database", "restore a backup"]);
            assert_eq!(std::fs::read(&file).unwrap(), content);
        }
        // A truncated database.
        std::fs::remove_file(&file).unwrap();
        drop(open(folder.path()).unwrap());
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..5_000]).unwrap();
        check_refusal(folder.path(), &["not a readable mailprobe database"]);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()).unwrap());
        let database = Database::open(folder.path().join(DATABASE_FILE)).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut rows = crate::rows::WriteRows::new(&transaction);
        tables::META.put(&mut rows, tables::META_FORMAT, &store_rules::row::Fixed(99)).unwrap();
        drop(rows);
        transaction.commit().unwrap();
        drop(database);
        let known = format!("formats up to {}", tables::FORMAT);
        check_refusal(folder.path(), &["has format 99", &known, "upgrade"]);
    }

    #[test]
    fn a_start_that_was_cut_short_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let draft = folder.path().join(format!("{DATABASE_FILE}.new"));
        std::fs::write(&draft, [0; 4096]).unwrap();
        open(folder.path()).unwrap();
        assert!(!draft.exists());
    }
}
