//! The admin socket of a running server: `DIR/admin.sock`, for its owner alone (mode 0600).
//!
//! One thread serves one connection at a time, as operators are few and commands short; who connects meanwhile waits
//! in the kernel's queue. A connection has to send its line within a few seconds, so it cannot keep others out. A
//! backup takes as long as it takes: a thread of its own sends it, one at a time.

use super::wire::{Answer, AnyVersion, Lines, Outcome, REQUEST_BYTES_MAX, Request, VERSION};
use super::{Command, CommandError, Response, SOCKET_FILE, execute};
use crate::metrics::Metrics;
use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use store::{Store, UnixMs};

/// How long one line may take to come or go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Commands on one connection; then it is closed and others have their turn.
const COMMANDS_MAX: usize = 1000;

/// The socket, until it is dropped.
pub struct AdminServer {
    path: PathBuf,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

/// What commands are done with.
struct Desk<C> {
    store: Arc<dyn Store>,
    metrics: Option<Arc<Metrics>>,
    clock: C,
    backup: Option<Sending>,
}

/// A backup on its way.
struct Sending {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

/// Why there is no admin socket: one line that says what to do.
#[derive(Debug)]
pub enum AdminError {
    /// Another server answers on it.
    InUse(PathBuf),
    /// It cannot be made.
    Socket(PathBuf, io::Error),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::InUse(path) => {
                write!(f, "another mailprobe answers on {}; stop it first", path.display())
            }
            AdminError::Socket(path, error) => write!(
                f,
                "cannot make the socket {} ({error}); the data folder must be writable and its path shorter than \
                 about 90 bytes",
                path.display()
            ),
        }
    }
}

impl std::error::Error for AdminError {}

impl AdminServer {
    /// Makes the socket in the data folder and answers on it. A socket that a killed server left is replaced.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn start(
        folder: &Path,
        store: Arc<dyn Store>,
        clock: impl Fn() -> UnixMs + Send + 'static,
        metrics: Option<Arc<Metrics>>,
    ) -> Result<AdminServer, AdminError> {
        let path = folder.join(SOCKET_FILE);
        if UnixStream::connect(&path).is_ok() {
            return Err(AdminError::InUse(path));
        }
        let failed = |error| AdminError::Socket(path.clone(), error);
        let listener = Arc::new(bind(folder, &path).map_err(failed)?);
        let thread = std::thread::Builder::new().name("admin".into()).spawn({
            let listener = Arc::clone(&listener);
            move || serve(&listener, Desk { store, metrics, clock, backup: None })
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(AdminServer { path, listener, thread })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // The socket may be gone already, with its folder; the server stops either way.
        let _ = std::fs::remove_file(&self.path);
        let woken = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Binds where nobody else can look, sets the mode, and only then moves the socket to its place: at no moment can
/// another user connect, whatever the umask.
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
            // A connection that breaks is its client's business; the client sees it too.
            Ok((stream, _)) => drop(desk.converse(stream)),
            // The socket was shut down: the server stops.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of descriptors, or a client that was gone at once: not for ever.
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
                    return lines.write(&failed(format!("the request did not come whole: {error}")));
                }
            };
            let now = (self.clock)();
            match read(&line) {
                Ok(Command::Backup) => return self.send_backup(lines, now),
                Ok(Command::Metrics) => {
                    let page = self.metrics.as_ref().map(|metrics| Response::Metrics(metrics.render()));
                    lines.write(&answer(page.ok_or(CommandError::NoMetrics)))?;
                }
                Ok(command) => lines.write(&answer(execute(&*self.store, command, now)))?,
                Err(why) => lines.write(&failed(why))?,
            }
        }
        Ok(())
    }

    fn send_backup(&mut self, mut lines: Lines, now: UnixMs) -> io::Result<()> {
        if self.backup.as_ref().is_some_and(|sending| !sending.thread.is_finished()) {
            return lines.write(&failed("another backup is under way; try again when it is done".into()));
        }
        lines.write(&answer(Ok(Response::BackupFollows)))?;
        let (mut stream, _) = lines.into_parts();
        stream.set_write_timeout(Some(PATIENCE))?;
        let store = Arc::clone(&self.store);
        let kept = stream.try_clone()?;
        let thread = std::thread::Builder::new().name("backup".into()).spawn(move || {
            match store.backup(&mut stream, now) {
                Ok(sent) => tracing::info!(bytes = sent.bytes, rows = sent.rows, "a backup was made"),
                Err(error) => tracing::warn!("a backup broke off: {error}"),
            }
            // The descriptor that is kept beside would hold the connection open.
            let _ = stream.shutdown(Shutdown::Both);
        })?;
        self.backup = Some(Sending { stream: kept, thread });
        Ok(())
    }
}

/// The store is not left to a thread that the server's end does not wait for.
impl<C> Drop for Desk<C> {
    fn drop(&mut self) {
        if let Some(sending) = self.backup.take() {
            // It may have ended by itself.
            let _ = sending.stream.shutdown(Shutdown::Both);
            let _ = sending.thread.join();
        }
    }
}

/// What a line asks for.
fn read(line: &[u8]) -> Result<Command, String> {
    match serde_json::from_slice::<AnyVersion>(line) {
        Ok(AnyVersion { version: VERSION }) => {}
        Ok(AnyVersion { version }) => {
            return Err(format!(
                "the server speaks version {VERSION} of the admin protocol, not {version}; use the mailprobe that runs"
            ));
        }
        Err(error) => return Err(format!("not a request: {error}")),
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
