//! The state file of `clean` and `check`: the secret of the installation, and the number of recipients that each site has
//! refused within the last hour. Unlike `OUT.state` it remains after a run. It contains no address and no domain name.
//!
//! A `clean` locks the file while it runs. The lock is a second file, because each write replaces the state file ([`text`]
//! describes its format). A `check` needs little time and no lock: it reads the secret and the counts, and takes the lock
//! only at its end, to add its own counts. If a `clean` has the lock then, the `check` adds nothing.

mod keeper;
mod text;

use crate::config::StateFile;
use engine::KeptRefusals;
use engine::config::EngineConfig;
pub(super) use keeper::Keeper;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that a run waits for the lock.
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

impl Kept {
    /// Gives the secret and the counts to the engine.
    pub fn give_to(&self, config: &mut EngineConfig) {
        config.installation = self.secret;
        config.refusals.clone_from(&self.refusals);
    }
}

/// The open state file of an installation.
#[derive(Debug)]
pub(super) struct Installation {
    path: PathBuf,
    /// While this is open, no other run writes the file. `None`: the counts are added at the end.
    lock: Option<File>,
    pub kept: Kept,
}

/// What to do if another run has the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Refuse to run: each of two runs would use the whole budget.
    Alone,
    /// Read the file, and add the own counts at the end.
    Beside,
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
/// One line that says what is wrong and what to do: another run has the file, it is damaged or not a state file, or it
/// cannot be read or written.
pub(super) fn open(choice: Option<&StateFile>, sharing: Sharing) -> Result<Option<Installation>, String> {
    match place(choice, |name| std::env::var_os(name).map(PathBuf::from)) {
        StatePlace::Named(path) => Installation::open(&path, sharing).map(Some),
        StatePlace::Unwanted => Ok(None),
        StatePlace::Default(path) => match make_folder(&path) {
            Ok(()) => Installation::open(&path, sharing).map(Some),
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
    pub fn open(path: &Path, sharing: Sharing) -> Result<Installation, String> {
        // A link stays a link: its target is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = match (sharing, path.exists()) {
            (Sharing::Beside, true) => None,
            _ => Some(lock(&path)?),
        };
        let kept = match read(&path)? {
            Some(kept) => kept,
            None => Kept { secret: new_secret(&path)?, refusals: Vec::new() },
        };
        if !path.exists() {
            // The secret is valid from here on.
            write(&path, &text::render(&kept))?;
        }
        let lock = lock.filter(|_| sharing == Sharing::Alone);
        Ok(Installation { path, lock, kept })
    }

    /// Adds the counts of a run without the lock, unless another run has the lock.
    ///
    /// # Errors
    /// The file cannot be read or written.
    fn add(&self, counted: Vec<KeptRefusals>) -> Result<(), String> {
        let free = open_lock(&self.path).ok().filter(|file| file.try_lock().is_ok());
        let Some(_lock) = free else { return Ok(()) };
        // Another run may have written or moved the file. With another secret the keys are meaningless.
        match read(&self.path)? {
            Some(kept) if kept.secret == self.kept.secret => {
                let refusals = keeper::sum(kept.refusals, &self.kept.refusals, counted);
                write(&self.path, &text::render(&Kept { refusals, ..kept }))
            }
            _ => Ok(()),
        }
    }
}

/// Opens and locks the lock file.
fn lock(path: &Path) -> Result<File, String> {
    let file = open_lock(path).map_err(|error| unwritable(path, &error))?;
    match try_lock(&file) {
        // The file system has no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "{} is in use by another run: wait until it ends, or give this run its own state file with --state FILE \
             (--state none keeps no counts)",
            path.display()
        )),
    }
}

/// Locks the file. A `check` that ends may have the lock for a moment.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PATIENCE / 20);
            }
            tried => return tried,
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(PathBuf::from(name))
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
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
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
        let first = Installation::open(&path, Sharing::Alone).unwrap().kept;
        assert_ne!(first.secret, [0; 32]);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Installation::open(&path, Sharing::Beside).unwrap().kept, first);
        let other = Installation::open(&folder.path().join("other"), Sharing::Beside).unwrap();
        assert_ne!(other.kept.secret, first.secret);
    }

    #[test]
    fn one_run_at_a_time_and_checks_beside_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state");
        let first = Installation::open(&path, Sharing::Alone).unwrap();
        let said = Installation::open(&path, Sharing::Alone).unwrap_err();
        assert!(said.contains("state is in use by another run: wait until it ends, or "), "{said}");
        let beside = Installation::open(&path, Sharing::Beside).unwrap();
        assert!(beside.lock.is_none() && beside.kept == first.kept);
        drop(first);
        let _beside = Installation::open(&path, Sharing::Beside).unwrap();
        Installation::open(&path, Sharing::Alone).expect("a check does not block a clean");
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
            for sharing in [Sharing::Alone, Sharing::Beside] {
                let said = Installation::open(&path, sharing).unwrap_err();
                assert!(said.contains(expected) && !said.contains('\n'), "{said}");
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), left);
        }
        let said = Installation::open(folder.path(), Sharing::Alone).unwrap_err();
        assert!(said.contains("is not a state file of mailprobe"), "{said}");
        let said = Installation::open(&folder.path().join("no/such"), Sharing::Alone).unwrap_err();
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
        let installation = Installation::open(&link, Sharing::Alone).unwrap();
        write(&installation.path, &text::render(&kept(2))).unwrap();
        assert_eq!(read(&path).unwrap(), Some(kept(2)));
        assert!(link.is_symlink() && !folder.path().join("state.new").exists());
    }
}
