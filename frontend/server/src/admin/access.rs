//! Access to the store for the command line: over the socket of the server that runs on the data folder, or by opening
//! the store if no server runs. The caller opens it, because only the caller knows which kind of store it is.

use super::wire::{ANSWER_BYTES_MAX, Answer, Lines, Outcome, Request, VERSION};
use super::{Command, Response, SOCKET_FILE, execute};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::backup::BackupError;
use store::{MAY_BE_DONE, OpenError, UnixMs};
use store_rules::Store;
use thiserror::Error;

/// The time limit of a command: the server's own limit for a line, and the commands of other operators before it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a folder may be locked without an answer on its socket, while a server starts or stops.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// An open access to the store.
pub enum StoreAccess {
    /// A server runs on the folder.
    Running(Connection),
    /// No server runs; this process has the store open.
    Stopped(Arc<Store>),
}

/// Opens the store of a folder without a running server; `None`: there is no store.
pub type OpenStopped<'o> = dyn Fn() -> Result<Option<Arc<Store>>, OpenError> + 'o;

/// A connection to the server's admin socket.
pub struct Connection {
    lines: Lines,
    path: PathBuf,
}

/// The reason why a command failed, as one line.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The folder has no store.
    #[error(
        "there is no mailprobe data in {0}; name the data folder with --data (`serve`, `account create` and `restore` create the \
        folder that --data names)"
    )]
    NoStore(PathBuf),
    /// The folder is in use, and its socket does not answer.
    #[error(
        "{0} is in use by another mailprobe, but no server answers on its {SOCKET_FILE}; try again when the server has started, \
        or stop it"
    )]
    Silent(PathBuf),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(OpenError),
    /// The connection to the server failed.
    #[error("{}", broken(.0, .1))]
    Broken(PathBuf, io::Error),
    /// The server refused the command.
    #[error("{0}")]
    Refused(String),
    /// The backup could not be read or written.
    #[error(transparent)]
    Backup(BackupError),
}

/// The text of [`AccessError::Broken`].
fn broken(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "{path} belongs to another user: run the command as the user of the server; nothing was changed"
            )
        }
        _ => format!(
            "the server on {path} did not answer ({error}); it is unknown whether the command took effect"
        ),
    }
}

impl AccessError {
    /// Whether the command may nevertheless have been executed.
    pub fn may_be_done(&self) -> bool {
        match self {
            AccessError::Broken(..) => true,
            AccessError::Refused(why) => why.starts_with(MAY_BE_DONE),
            _ => false,
        }
    }
}

impl StoreAccess {
    /// Connects to the server that runs on a folder. If none runs, the store is opened.
    ///
    /// # Errors
    ///
    /// [`AccessError`]: the folder cannot be used.
    pub fn open(folder: &Path, open_stopped: &OpenStopped<'_>) -> Result<StoreAccess, AccessError> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            if let Some(connection) = Connection::open(folder)? {
                return Ok(StoreAccess::Running(connection));
            }
            match open_stopped() {
                Ok(Some(store)) => return Ok(StoreAccess::Stopped(store)),
                Ok(None) => return Err(AccessError::NoStore(folder.to_owned())),
                Err(OpenError::Locked(_)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(OpenError::Locked(_)) => return Err(AccessError::Silent(folder.to_owned())),
                Err(error) => return Err(AccessError::Open(error)),
            }
        }
    }

    /// Connects to a running server; `None` if none runs.
    ///
    /// # Errors
    ///
    /// [`AccessError`]: the socket cannot be used.
    pub fn running(folder: &Path) -> Result<Option<StoreAccess>, AccessError> {
        Ok(Connection::open(folder)?.map(StoreAccess::Running))
    }

    /// Executes a command. A running server uses its own clock and plans instead of `now`.
    ///
    /// # Errors
    ///
    /// [`AccessError`]: the command failed, or its result is unknown ([`AccessError::may_be_done`]).
    pub fn execute(&mut self, command: Command, now: UnixMs) -> Result<Response, AccessError> {
        match self {
            StoreAccess::Running(connection) => connection.execute(command),
            StoreAccess::Stopped(store) => {
                execute(store, command, now).map_err(|error| AccessError::Refused(error.to_string()))
            }
        }
    }

    /// Copies a backup to `sink`. The copy is complete only if `verify` of store-rules accepts it.
    ///
    /// # Errors
    ///
    /// [`AccessError`]: the backup cannot be read or written.
    pub fn backup(self, sink: &mut dyn Write, now: UnixMs) -> Result<(), AccessError> {
        match self {
            StoreAccess::Running(connection) => connection.backup(sink),
            StoreAccess::Stopped(store) => store.backup(sink, now).map(drop).map_err(AccessError::Backup),
        }
    }
}

impl Connection {
    /// `None` if no process listens: there is no socket, or a killed server left it.
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
