//! The state file of `clean` and `check`: the secret of the installation, and the number of recipients that each site has
//! refused within the last hour. Unlike `OUT.state` it remains after a run. It contains no address and no domain name.
//!
//! Any number of runs use it at the same time. While they run, the counts are in a table in memory that they share
//! ([`RefusalTable`], in the file `STATE.live`), so a site's budget holds over all of them. The state file gets the counts from
//! there every few seconds ([`keeper`]), for the time after a restart of the machine, and for earlier releases. [`text`]
//! describes its format.
//!
//! The file `STATE.lock` is locked by each run: together with others if the runs share the table, and alone if the file system
//! cannot share it, or while a run makes the files. An earlier release locks it alone, too.

mod keeper;
mod text;

use super::program::Failure;
use crate::config::StateFile;
use engine::config::EngineConfig;
use engine::proto::limits::REFUSALS_RUNS_MAX;
use engine::{KeptRefusals, RefusalTable, TableFault};
pub(super) use keeper::Keeper;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time that a run waits for another one that has the files for itself.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Largest accepted file. A site takes at most some 400 bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The contents of the file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The key for the names of control recipients and for the hashes of the counts.
    pub secret: [u8; 32],
    /// The counts, by keyed hashes of sites and sources.
    pub refusals: Vec<KeptRefusals>,
}

/// Omits the secret.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("refusals", &self.refusals).finish_non_exhaustive()
    }
}

/// The open state file of an installation.
#[derive(Debug)]
pub(super) struct Installation {
    path: PathBuf,
    /// The secret, and the counts that are not in the table.
    kept: Kept,
    table: Arc<RefusalTable>,
    /// `None`: another run has the file for itself, and this run leaves its counts nowhere.
    lock: Option<File>,
}

/// What to do if another run has the file for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTaken {
    /// Refuse to run: each of two runs would use the whole budget.
    Refuse,
    /// Read the counts in the file, and keep none. For a few addresses.
    KeepNone,
}

/// The location of the state file.
#[derive(Debug, PartialEq, Eq)]
enum StatePlace {
    /// The path that the user gave.
    Named(PathBuf),
    /// A path below the user's state folder.
    Default(PathBuf),
    /// The user wants none.
    Unwanted,
    /// There is no folder for it.
    Nowhere,
}

fn place(choice: Option<&StateFile>, variable: impl Fn(&str) -> Option<PathBuf>) -> StatePlace {
    match choice {
        Some(StateFile::At(path)) => StatePlace::Named(path.clone()),
        Some(StateFile::None) => StatePlace::Unwanted,
        None => {
            // A relative path is invalid (XDG Base Directory Specification, "Basics").
            let absolute = |name| variable(name).filter(|path| path.is_absolute());
            let home = || absolute("HOME").map(|home| home.join(".local/state"));
            let folder = absolute("XDG_STATE_HOME").or_else(home);
            folder.map_or(StatePlace::Nowhere, |folder| StatePlace::Default(folder.join("mailprobe/state")))
        }
    }
}

/// A file in the folder of the state file. `None`: the user wants no files there, or there is no folder.
pub(super) fn beside_state(choice: Option<&StateFile>, name: &str) -> Option<PathBuf> {
    match place(choice, |name| std::env::var_os(name).map(PathBuf::from)) {
        StatePlace::Named(path) | StatePlace::Default(path) => Some(path.with_file_name(name)),
        StatePlace::Unwanted | StatePlace::Nowhere => None,
    }
}

/// Creates the folder of a file, which only this user may read.
pub(super) fn make_private_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// Opens the state file of this user, or creates it. `None`: the run keeps no counts, because the user wants none or for
/// the reason in a warning.
///
/// # Errors
/// One line that says what is wrong and what to do: the file is damaged or not a state file, it cannot be read or written, or
/// another run has it for itself.
pub(super) fn open(choice: Option<&StateFile>, if_taken: IfTaken) -> Result<Option<Installation>, String> {
    match place(choice, |name| std::env::var_os(name).map(PathBuf::from)) {
        StatePlace::Named(path) => Installation::open(&path, if_taken).map(Some),
        StatePlace::Unwanted => Ok(None),
        StatePlace::Default(path) => match make_folder(&path) {
            Ok(()) => Installation::open(&path, if_taken).map(Some),
            Err(error) => {
                warn_not_kept(&format!("cannot create {}: {error}", path.display()));
                Ok(None)
            }
        },
        StatePlace::Nowhere => {
            warn_not_kept("neither XDG_STATE_HOME nor HOME names a folder");
            Ok(None)
        }
    }
}

/// Tests that files can be created beside the file that the user has named, before anything else is done.
///
/// # Errors
/// They cannot: the name is wrong usage.
pub(super) fn try_named(choice: Option<&StateFile>) -> Result<(), Failure> {
    let Some(StateFile::At(path)) = choice else { return Ok(()) };
    // A link stays a link, as in `Installation::open`.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let tried = match path.is_dir() {
        true => Err(io::Error::from(ErrorKind::IsADirectory)),
        false => open_lock(&path).map(drop),
    };
    tried.map_err(|error| Failure::usage(unwritable(&path, &error)))
}

fn warn_not_kept(why: &str) {
    tracing::warn!(
        "the counts of refused recipients are not kept for the next run ({why}): name a file with --state, or use \
         --state none"
    );
}

/// Creates the folder of the file, and tests that files can be created there.
fn make_folder(path: &Path) -> io::Result<()> {
    make_private_folder(path)?;
    open_lock(path).map(drop)
}

impl Installation {
    /// Opens this file, or creates it.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, if_taken: IfTaken) -> Result<Installation, String> {
        // A link stays a link: its target is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let began = Instant::now();
        while began.elapsed() < LOCK_PATIENCE {
            if let Some(installation) = Installation::try_open(&path)? {
                return Ok(installation);
            }
            std::thread::sleep(LOCK_PATIENCE / 40);
        }
        match read(&path)? {
            Some(kept) if if_taken == IfTaken::KeepNone => {
                tracing::warn!(
                    "the counts of refused recipients of this run are not kept: another run has {} for itself",
                    path.display()
                );
                let table = table_in_memory(&path)?;
                Ok(Installation { path, kept, table, lock: None })
            }
            _ => Err(format!(
                "{} is in use by a run that cannot share it, because that run is of an earlier release, or runs cannot share \
                 files in this folder: wait until it ends, or name a file on a local disk with --state",
                path.display()
            )),
        }
    }

    /// Opens the file; `None` if another run has it for itself at this moment.
    fn try_open(path: &Path) -> Result<Option<Installation>, String> {
        let lock = open_lock(path).map_err(|error| unwritable(path, &error))?;
        let is_alone = match lock.try_lock() {
            // A file system without locks is found out below.
            Ok(()) | Err(TryLockError::Error(_)) => true,
            Err(TryLockError::WouldBlock) if lock.try_lock_shared().is_ok() => false,
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let mut kept = match read(path)? {
            Some(kept) => kept,
            // Another run makes it.
            None if !is_alone => return Ok(None),
            None => {
                let kept = Kept { secret: new_secret(path)?, refusals: Vec::new() };
                // The secret is valid from here on.
                write(path, &text::render(&kept))?;
                kept
            }
        };
        let live = with_ending(path, ".live");
        let table = match RefusalTable::open(&live, &kept.secret, &kept.refusals, is_alone) {
            // With this lock, other runs can come.
            Ok(_) if is_alone && matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) => {
                return Ok(None);
            }
            Ok(table) => {
                kept.refusals.clear();
                Arc::new(table)
            }
            Err(TableFault::Missing | TableFault::Busy) => return Ok(None),
            Err(TableFault::Io(_) | TableFault::Unsupported(_)) if !is_alone => return Ok(None),
            Err(TableFault::Io(error)) => alone(path, &error.to_string())?,
            Err(TableFault::Unsupported(why)) => alone(path, &why)?,
            Err(TableFault::Foreign) => {
                return Err(format!(
                    "{} is damaged, or not a file of mailprobe: remove it if no run uses {}, which has the same counts",
                    live.display(),
                    path.display()
                ));
            }
            Err(TableFault::OtherVersion) => {
                let path = path.display();
                return Err(format!("another version of mailprobe uses {path}: wait until its runs end"));
            }
            Err(TableFault::OtherSecret) => {
                let path = path.display();
                return Err(format!("{path} was replaced while other runs use it: wait until they end"));
            }
            Err(TableFault::Full) => {
                let path = path.display();
                return Err(format!("{REFUSALS_RUNS_MAX} runs use {path}: wait until one of them ends"));
            }
        };
        Ok(Some(Installation { path: path.to_owned(), kept, table, lock: Some(lock) }))
    }

    /// Gives the secret and the counts to the engine.
    pub fn give_to(&self, config: &mut EngineConfig) {
        config.installation = self.kept.secret;
        config.refusals.clone_from(&self.kept.refusals);
        config.table = Some(Arc::clone(&self.table));
    }
}

/// A table for a run that has the state file for itself.
fn alone(path: &Path, why: &str) -> Result<Arc<RefusalTable>, String> {
    tracing::warn!(
        "other runs cannot use {} until this run ends ({why}): to share the counts of refused recipients, name a file on a \
         local disk with --state",
        path.display()
    );
    table_in_memory(path)
}

fn table_in_memory(path: &Path) -> Result<Arc<RefusalTable>, String> {
    RefusalTable::in_memory(1).map(Arc::new).map_err(|error| unwritable(path, &error))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let path = with_ending(path, ".lock");
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// The contents of the file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<Kept>, String> {
    let name = path.display();
    let unreadable = |error: io::Error| format!("{name} cannot be read: {error}");
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{name} is not a state file of mailprobe: name another file with --state"));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::warn!(
            "users other than its owner can read {name}, which contains a secret: run `chmod 600` on it"
        );
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    match text::parse(&bytes) {
        Ok(kept) => Ok(Some(kept)),
        Err(text::StateFault::Foreign) => {
            Err(format!("{name} is not a state file of mailprobe: name another file with --state"))
        }
        Err(text::StateFault::Newer(version)) => Err(format!(
            "{name} has version {version}, which this mailprobe cannot read: use a newer mailprobe, or name another file \
             with --state"
        )),
        Err(text::StateFault::Damaged(line)) => Err(format!(
            "{name} is damaged at line {line}: restore a copy, or move the file away; without it the next run starts \
             with a new secret and without the counts of the last hour"
        )),
    }
}

/// Replaces the old file with a new one. After a crash one of the two is there, complete.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let new = with_ending(path, ".new");
    let put = || {
        // A file that a killed run left may have another mode.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
            .sync_all()
    };
    put().map_err(|error| unwritable(path, &error))
}

fn new_secret(path: &Path) -> Result<[u8; 32], String> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| unwritable(path, &io::Error::other(error)))?;
    Ok(secret)
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!(
        "{} cannot be written: {error}; name another state file with --state, or use --state none",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::KeptStep;

    fn kept(n: u64) -> Kept {
        let steps = vec![KeptStep { step: 5_943_212, refused: n as u32, accepted: 2 }];
        Kept { secret: [7; 32], refusals: vec![KeptRefusals { key: n, steps }] }
    }

    #[test]
    fn the_file_is_below_the_users_state_folder_unless_named() {
        let env = |xdg: Option<&'static str>, home: Option<&'static str>| {
            move |name: &str| {
                let value = if name == "XDG_STATE_HOME" { xdg } else { home };
                value.map(PathBuf::from)
            }
        };
        let default = |path: &str| StatePlace::Default(path.into());
        for (xdg, home, expected) in [
            (Some("/x"), Some("/h"), default("/x/mailprobe/state")),
            (None, Some("/h"), default("/h/.local/state/mailprobe/state")),
            (Some("x"), Some("/h"), default("/h/.local/state/mailprobe/state")),
            (Some(""), Some("h"), StatePlace::Nowhere),
            (None, None, StatePlace::Nowhere),
        ] {
            assert_eq!(place(None, env(xdg, home)), expected);
        }
        let named = StateFile::At("mine".into());
        assert_eq!(place(Some(&named), env(Some("/x"), None)), StatePlace::Named("mine".into()));
        assert_eq!(place(Some(&StateFile::None), env(Some("/x"), None)), StatePlace::Unwanted);
    }

    #[test]
    fn a_secret_is_made_once_and_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let first = Installation::open(&path, IfTaken::Refuse).unwrap().kept;
        assert_ne!(first.secret, [0; 32]);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Installation::open(&path, IfTaken::KeepNone).unwrap().kept, first);
        let other = Installation::open(&folder.path().join("other"), IfTaken::KeepNone).unwrap();
        assert_ne!(other.kept.secret, first.secret);
    }

    #[test]
    fn any_number_of_runs_share_the_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let first = Installation::open(&path, IfTaken::Refuse).unwrap();
        let second = Installation::open(&path, IfTaken::Refuse).unwrap();
        let third = Installation::open(&path, IfTaken::KeepNone).unwrap();
        assert!(second.kept == first.kept && third.lock.is_some());
        assert_eq!(folder.path().join("state.live").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // The file is replaced under the runs, which is found out.
        let other = Kept { secret: [9; 32], refusals: Vec::new() };
        write(&path, &text::render(&other)).unwrap();
        let said = Installation::open(&path, IfTaken::Refuse).unwrap_err();
        assert!(said.contains("state was replaced while other runs use it: wait until they end"), "{said}");
        drop((first, second, third));
        assert_eq!(Installation::open(&path, IfTaken::Refuse).unwrap().kept, other);
    }

    #[test]
    fn many_runs_that_begin_at_once_make_one_secret() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let open = || scope.spawn(|| Installation::open(&path, IfTaken::Refuse).unwrap());
            let runs: Vec<_> = (0..8).map(|_| open()).collect();
            runs.into_iter().map(|run| run.join().unwrap()).map(|run| run.kept.secret).collect()
        });
        assert!(secrets.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn a_run_that_cannot_share_has_the_file_for_itself() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        drop(Installation::open(&path, IfTaken::Refuse).unwrap());
        // An earlier release locks the file in this way, and so does a run without a table.
        let earlier = open_lock(&path).unwrap();
        earlier.try_lock().unwrap();
        let said = Installation::open(&path, IfTaken::Refuse).unwrap_err();
        assert!(
            said.contains("state is in use by a run that cannot share it, ") && !said.contains("none"),
            "{said}"
        );
        let beside = Installation::open(&path, IfTaken::KeepNone).unwrap();
        assert!(beside.lock.is_none());
        drop(earlier);
        let sharing = Installation::open(&path, IfTaken::Refuse).unwrap();
        let earlier = open_lock(&path).unwrap();
        assert!(earlier.try_lock().is_err(), "an earlier release does not run beside it");
        drop((sharing, beside, earlier));
        // A table that cannot be made.
        std::fs::remove_file(folder.path().join("state.live")).unwrap();
        std::os::unix::fs::symlink("no/such/folder", folder.path().join("state.live")).unwrap();
        let alone = Installation::open(&path, IfTaken::Refuse).unwrap();
        let said = Installation::open(&path, IfTaken::Refuse).unwrap_err();
        assert!(said.contains("is in use by a run that cannot share it, "), "{said}");
        drop(alone);
        Installation::open(&path, IfTaken::Refuse).unwrap();
    }

    #[test]
    fn a_table_that_is_none_is_told_and_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, live) = (folder.path().join("state"), folder.path().join("state.live"));
        for left in ["my notes\n", "x"] {
            std::fs::write(&live, left).unwrap();
            let said = Installation::open(&path, IfTaken::Refuse).unwrap_err();
            assert!(
                said.contains("state.live is damaged, or not a file of mailprobe: remove it if "),
                "{said}"
            );
            assert_eq!(std::fs::read_to_string(&live).unwrap(), left);
        }
        std::fs::remove_file(&live).unwrap();
        Installation::open(&path, IfTaken::Refuse).unwrap();
        // Removed while a run uses it, a second one would have counts of its own.
        let first = Installation::open(&path, IfTaken::Refuse).unwrap();
        std::fs::remove_file(&live).unwrap();
        assert!(Installation::open(&path, IfTaken::Refuse).is_err() && !live.exists());
        drop(first);
        Installation::open(&path, IfTaken::Refuse).unwrap();
    }

    #[test]
    fn what_is_torn_or_foreign_is_told_and_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let whole = text::render(&kept(3));
        for (left, expected) in [
            (whole[..whole.len() - 1].to_owned(), "state is damaged at line "),
            (whole[..40].to_owned(), "state is damaged at line 2: restore a copy, or move the file away; "),
            (whole.replace(":3:2", ":4:2"), "state is damaged at line 4"),
            (whole.replacen('1', "2", 1), "state has version 2, which this mailprobe cannot read: "),
            (String::new(), "state is not a state file of mailprobe: name another file with --state"),
            ("my notes\n".to_owned(), "state is not a state file of mailprobe: "),
        ] {
            std::fs::write(&path, &left).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            for if_taken in [IfTaken::Refuse, IfTaken::KeepNone] {
                let said = Installation::open(&path, if_taken).unwrap_err();
                assert!(said.contains(expected) && !said.contains('\n'), "{said}");
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), left);
        }
        let said = Installation::open(folder.path(), IfTaken::Refuse).unwrap_err();
        assert!(said.contains("is not a state file of mailprobe"), "{said}");
        let said = Installation::open(&folder.path().join("no/such"), IfTaken::Refuse).unwrap_err();
        assert!(said.contains("no/such cannot be written: ") && said.contains("--state none"), "{said}");
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_keeps_links() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, link) = (folder.path().join("state"), folder.path().join("link"));
        write(&path, &text::render(&kept(1))).unwrap();
        // A kill during a write leaves the old file and a part of a new file, which is ignored.
        std::fs::write(folder.path().join("state.new"), "mailprobe st").unwrap();
        assert_eq!(read(&path).unwrap(), Some(kept(1)));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let installation = Installation::open(&link, IfTaken::Refuse).unwrap();
        write(&installation.path, &text::render(&kept(2))).unwrap();
        assert_eq!(read(&path).unwrap(), Some(kept(2)));
        assert!(link.is_symlink() && !folder.path().join("state.new").exists());
    }
}
