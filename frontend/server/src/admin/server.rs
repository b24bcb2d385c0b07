//! The admin socket of a running server: `DIR/admin.sock`, for its owner only (mode 0600).
//!
//! One thread serves one connection at a time, since operators are few and commands short. Further connections wait in
//! the kernel's queue. A connection must send its line within a few seconds, so it cannot block others for long. A
//! backup has no time limit: a separate thread sends it, one at a time.

use super::wire::{Answer, AnyVersion, Lines, Outcome, REQUEST_BYTES_MAX, Request, VERSION};
use super::{Command, CommandError, Response, SOCKET_FILE, execute};
use crate::metrics::Metrics;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use store::UnixMs;
use store_rules::Store;
use thiserror::Error;

/// The time limit for receiving or sending one line.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many commands a connection may send before it is closed, so that other connections are served.
const COMMANDS_MAX: usize = 1000;

/// The server of the socket, which ends on drop.
pub struct AdminServer {
    path: PathBuf,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

/// The parts of a whole server that commands read.
pub struct Running {
    /// The counters of requests, checks and connections.
    pub metrics: Arc<Metrics>,
    /// The address at which users reach the server, without a path.
    pub base_url: String,
}

/// The objects that commands need.
struct Desk<C> {
    store: Arc<Store>,
    running: Option<Running>,
    clock: C,
    backup: Option<Sending>,
}

/// A backup that is being sent.
struct Sending {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

/// The reason why there is no admin socket, as one line that names a remedy.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Another server answers on the socket.
    #[error("another mailprobe answers on {0}; stop it first")]
    InUse(PathBuf),
    /// The socket cannot be created.
    #[error(
        "cannot create the socket {0} ({1}); the data folder must be writable and its path shorter than about 90 bytes"
    )]
    Socket(PathBuf, io::Error),
}

impl AdminServer {
    /// Creates the socket in the data folder and answers on it. It replaces a socket that a killed server left.
    ///
    /// # Errors
    ///
    /// [`AdminError`]: another server uses it, or it cannot be created.
    pub fn start(
        folder: &Path,
        store: Arc<Store>,
        clock: impl Fn() -> UnixMs + Send + 'static,
        running: Option<Running>,
    ) -> Result<AdminServer, AdminError> {
        let path = folder.join(SOCKET_FILE);
        if UnixStream::connect(&path).is_ok() {
            return Err(AdminError::InUse(path));
        }
        let failed = |error| AdminError::Socket(path.clone(), error);
        let listener = Arc::new(bind(folder, &path).map_err(failed)?);
        let thread = std::thread::Builder::new().name("admin".into()).spawn({
            let listener = Arc::clone(&listener);
            move || serve(&listener, Desk { store, running, clock, backup: None })
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(AdminServer { path, listener, thread })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // The socket may already be gone with its folder; the server stops in both cases.
        let _ = std::fs::remove_file(&self.path);
        let woken = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Binds in a private folder, sets the mode, and only then moves the socket to its path. So at no time can another user
/// connect, whatever the umask.
fn bind(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    let private = folder.join(".adm");
    let draft = private.join("s");
    let _ = std::fs::remove_file(&draft);
    let _ = std::fs::remove_dir(&private);
    DirBuilder::new().mode(0o700).create(&private)?;
    let listener = UnixListener::bind(&draft)?;
    std::fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
    std::fs::rename(&draft, path)?;
    std::fs::remove_dir(&private)?;
    Ok(listener)
}

fn serve(listener: &UnixListener, mut desk: Desk<impl Fn() -> UnixMs>) {
    loop {
        match listener.accept() {
            // The client also sees that its connection failed.
            Ok((stream, _)) => drop(desk.converse(stream)),
            // The socket was shut down, because the server stops.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // The process has no free descriptors, or a client closed at once. Both are temporary.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl<C: Fn() -> UnixMs> Desk<C> {
    fn converse(&mut self, stream: UnixStream) -> io::Result<()> {
        let mut lines = Lines::new(stream, REQUEST_BYTES_MAX, PATIENCE);
        for _ in 0..COMMANDS_MAX {
            let line = match lines.read() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => {
                    return lines.write(&failed(format!("the request is incomplete: {error}")));
                }
            };
            let now = (self.clock)();
            match read(&line) {
                Ok(Command::Backup) => return self.send_backup(lines, now),
                Ok(Command::Metrics) => {
                    let page =
                        self.running.as_ref().map(|running| Response::Metrics(running.metrics.render()));
                    lines.write(&answer(page.ok_or(CommandError::NotServing)))?;
                }
                Ok(Command::BaseUrl) => {
                    let url =
                        self.running.as_ref().map(|running| Response::BaseUrl(running.base_url.clone()));
                    lines.write(&answer(url.ok_or(CommandError::NotServing)))?;
                }
                Ok(command) => lines.write(&answer(execute(&self.store, command, now)))?,
                Err(why) => lines.write(&failed(why))?,
            }
        }
        Ok(())
    }

    fn send_backup(&mut self, mut lines: Lines, now: UnixMs) -> io::Result<()> {
        if self.backup.as_ref().is_some_and(|sending| !sending.thread.is_finished()) {
            return lines
                .write(&failed("another backup is in progress; try again when it is complete".into()));
        }
        lines.write(&answer(Ok(Response::BackupFollows)))?;
        let (mut stream, _) = lines.into_parts();
        stream.set_write_timeout(Some(PATIENCE))?;
        let store = Arc::clone(&self.store);
        let kept = stream.try_clone()?;
        let thread = std::thread::Builder::new().name("backup".into()).spawn(move || {
            match store.backup(&mut stream, now) {
                Ok(sent) => tracing::info!(bytes = sent.bytes, rows = sent.rows, "a backup was sent"),
                Err(error) => tracing::warn!("a backup failed: {error}"),
            }
            // The duplicate of the descriptor would keep the connection open.
            let _ = stream.shutdown(Shutdown::Both);
        })?;
        self.backup = Some(Sending { stream: kept, thread });
        Ok(())
    }
}

/// The thread of a backup must not use the store after the server's end.
impl<C> Drop for Desk<C> {
    fn drop(&mut self) {
        if let Some(sending) = self.backup.take() {
            // The thread may already have ended.
            let _ = sending.stream.shutdown(Shutdown::Both);
            let _ = sending.thread.join();
        }
    }
}

/// Reads the command of a line.
fn read(line: &[u8]) -> Result<Command, String> {
    match serde_json::from_slice::<AnyVersion>(line) {
        Ok(AnyVersion { version: VERSION }) => {}
        Ok(AnyVersion { version }) => {
            return Err(format!(
                "the server uses version {VERSION} of the admin protocol, not {version}; use the mailprobe of this server"
            ));
        }
        Err(error) => return Err(format!("not a valid request: {error}")),
    }
    let request = serde_json::from_slice::<Request>(line);
    request
        .map(|request| request.command)
        .map_err(|error| format!("the server does not know this command: {error}"))
}

fn answer(outcome: Result<Response, CommandError>) -> Answer {
    match outcome {
        Ok(response) => Answer { version: VERSION, outcome: Outcome::Done(response) },
        Err(error) => failed(error.to_string()),
    }
}

fn failed(why: String) -> Answer {
    Answer { version: VERSION, outcome: Outcome::Failed(why) }
}
