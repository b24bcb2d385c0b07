//! The way to the store for the command line: over the socket of the server that runs on the data folder, or by
//! opening the folder where none does.

use super::wire::{ANSWER_BYTES_MAX, Answer, Lines, Outcome, Request, VERSION};
use super::{Command, Response, SOCKET_FILE, execute};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::backup::BackupError;
use store::{MAY_BE_DONE, OpenError, PlanTable, Store, UnixMs};
use store_redb::{DATABASE_FILE, RedbStore, StoreOptions};

/// How long a command may take: the server's own time for a line, and what other operators take before us.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a folder may be locked while nobody answers on the socket: a server that starts or stops.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// An open way to the store.
pub enum StoreAccess {
    /// A server runs.
    Running(Connection),
    /// None does; the store is ours while this lives.
    Stopped(Box<RedbStore>),
}

/// A connection to the server's admin socket.
pub struct Connection {
    lines: Lines,
    path: PathBuf,
}

/// Why a command was not done: one line.
#[derive(Debug)]
pub enum AccessError {
    /// There is no store in the folder.
    NoStore(PathBuf),
    /// The folder is in use and nobody answers on its socket.
    Silent(PathBuf),
    /// The store does not open.
    Open(OpenError),
    /// The server's connection broke.
    Broken(PathBuf, io::Error),
    /// The command was refused.
    Refused(String),
    /// The backup could not be read or written.
    Backup(BackupError),
}

impl AccessError {
    /// Whether the command may have been done all the same.
    pub fn may_be_done(&self) -> bool {
        match self {
            AccessError::Broken(..) => true,
            AccessError::Refused(why) => why.starts_with(MAY_BE_DONE),
            _ => false,
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::NoStore(folder) => write!(
                f,
                "there is no mailprobe data in {}; name the data folder with --data, or make it with `mailprobe serve` \
                 or `mailprobe account create`",
                folder.display()
            ),
            AccessError::Silent(folder) => write!(
                f,
                "{} is in use by another mailprobe, but nobody answers on its {SOCKET_FILE}; try again when it has \
                 started, or stop it",
                folder.display()
            ),
            AccessError::Open(error) => error.fmt(f),
            AccessError::Broken(path, error) => write!(
                f,
                "the server on {} did not answer ({error}); whether the command was done is not known",
                path.display()
            ),
            AccessError::Refused(why) => f.write_str(why),
            AccessError::Backup(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AccessError {}

impl StoreAccess {
    /// Finds the way. `create` says whether a store may be made where there is none.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn open(
        folder: &Path,
        plans: &PlanTable,
        create: bool,
        now: UnixMs,
    ) -> Result<StoreAccess, AccessError> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            if let Some(connection) = Connection::open(folder)? {
                return Ok(StoreAccess::Running(connection));
            }
            if !create && !folder.join(DATABASE_FILE).exists() {
                return Err(AccessError::NoStore(folder.to_owned()));
            }
            match RedbStore::open(folder, plans.clone(), StoreOptions::default(), now) {
                Ok((store, _)) => return Ok(StoreAccess::Stopped(Box::new(store))),
                Err(OpenError::Locked(_)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(OpenError::Locked(_)) => return Err(AccessError::Silent(folder.to_owned())),
                Err(error) => return Err(AccessError::Open(error)),
            }
        }
    }

    /// The way to a running server; `None` where none runs.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn running(folder: &Path) -> Result<Option<StoreAccess>, AccessError> {
        Ok(Connection::open(folder)?.map(StoreAccess::Running))
    }

    /// Does what is wanted. A running server goes by its own clock and plans.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn execute(&mut self, command: Command, now: UnixMs) -> Result<Response, AccessError> {
        match self {
            StoreAccess::Running(connection) => connection.execute(command),
            StoreAccess::Stopped(store) => {
                execute(&**store, command, now).map_err(|error| AccessError::Refused(error.to_string()))
            }
        }
    }

    /// Copies a backup into `sink`. Only what [`verify`](store_redb::backup::verify) takes came whole.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn backup(self, sink: &mut dyn Write, now: UnixMs) -> Result<(), AccessError> {
        match self {
            StoreAccess::Running(connection) => connection.backup(sink),
            StoreAccess::Stopped(store) => store.backup(sink, now).map(drop).map_err(AccessError::Backup),
        }
    }
}

impl Connection {
    /// `None` where nobody listens: no socket, or one that a killed server left.
    fn open(folder: &Path) -> Result<Option<Connection>, AccessError> {
        let path = folder.join(SOCKET_FILE);
        match UnixStream::connect(&path) {
            Ok(stream) => {
                Ok(Some(Connection { lines: Lines::new(stream, ANSWER_BYTES_MAX, PATIENCE), path }))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(AccessError::Broken(path, error))
            }
            Err(_) => Ok(None),
        }
    }

    fn backup(mut self, sink: &mut dyn Write) -> Result<(), AccessError> {
        match self.execute(Command::Backup)? {
            Response::BackupFollows => {}
            _ => return Err(AccessError::Broken(self.path, io::ErrorKind::InvalidData.into())),
        }
        let (mut stream, begun) = self.lines.into_parts();
        let mut copy = || {
            stream.set_read_timeout(Some(PATIENCE))?;
            sink.write_all(&begun)?;
            io::copy(&mut stream, sink)
        };
        copy().map(drop).map_err(|error| AccessError::Backup(error.into()))
    }

    fn execute(&mut self, command: Command) -> Result<Response, AccessError> {
        let broken = |error| AccessError::Broken(self.path.clone(), error);
        self.lines.write(&Request { version: VERSION, command }).map_err(broken)?;
        let line = self.lines.read().map_err(broken)?;
        let line = line.ok_or_else(|| broken(io::ErrorKind::UnexpectedEof.into()))?;
        let answer: Answer = serde_json::from_slice(&line).map_err(|error| broken(error.into()))?;
        match answer.outcome {
            Outcome::Done(response) => Ok(response),
            Outcome::Failed(why) => Err(AccessError::Refused(why)),
        }
    }
}
