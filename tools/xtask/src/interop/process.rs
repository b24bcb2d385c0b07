//! Child processes with an end: each has a time limit, an owner that stops it, and none outlives the run.
//!
//! Ctrl-C and SIGTERM set a flag that every wait looks at; the error unwinds through the owners, whose `Drop`
//! stops what they started. A panic unwinds the same way.

use super::Failure;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How often a wait looks again.
const LOOK: Duration = Duration::from_millis(20);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static OUTPUTS: AtomicU32 = AtomicU32::new(0);

/// From now on SIGINT and SIGTERM end the run in order.
pub fn watch_signals() -> Result<(), Failure> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))
            .map_err(|error| Failure(format!("no handler for signal {signal}: {error}")))?;
    }
    Ok(())
}

/// An error once somebody wants the run to end.
pub fn interrupted() -> Result<(), Failure> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Failure("interrupted".into())) } else { Ok(()) }
}

/// Sleeps for `pause`, or until somebody wants the run to end.
pub fn sleep(pause: Duration) -> Result<(), Failure> {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        interrupted()?;
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    interrupted()
}

/// Asks `ready` again and again until it says yes.
pub fn wait_until(
    what: &str,
    patience: Duration,
    mut ready: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let end = Instant::now() + patience;
    while !ready()? {
        if Instant::now() > end {
            return Err(Failure(format!("{what}: not within {} s", patience.as_secs())));
        }
        sleep(LOOK)?;
    }
    Ok(())
}

/// What a finished command left behind.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output, if the command succeeded.
    pub fn success(self, what: &str) -> Result<String, Failure> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(Failure(format!("{what}: {}\n{}{}", self.status, self.stdout, self.stderr)))
    }
}

/// Runs `command` to its end, giving it `input`; kills it after `limit`. What it writes passes through files in
/// `folder`, so no pipe can fill up.
pub fn run(mut command: Command, input: &str, folder: &Path, limit: Duration) -> Result<Finished, Failure> {
    let number = OUTPUTS.fetch_add(1, Ordering::Relaxed);
    let file = |kind: &str| folder.join(format!("{number}.{kind}"));
    let (stdin, stdout, stderr) = (file("in"), file("out"), file("err"));
    write_private(&stdin, input)?;
    command.stdin(open(&stdin)?).stdout(create(&stdout)?).stderr(create(&stderr)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = Running(spawn(&mut command)?);
    let mut status = None;
    wait_until(&name, limit, || {
        status = child.0.try_wait().map_err(|error| Failure(format!("{name}: {error}")))?;
        Ok(status.is_some())
    })?;
    let status = status.ok_or_else(|| Failure(format!("{name}: no status")))?;
    let finished = Finished { status, stdout: read(&stdout)?, stderr: read(&stderr)? };
    for path in [stdin, stdout, stderr] {
        fs::remove_file(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    Ok(finished)
}

/// A server of ours; stopped when dropped.
pub struct Server {
    name: String,
    log: PathBuf,
    child: Running,
}

impl Server {
    /// Starts `command`; both its outputs go to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Server, Failure> {
        let output = create(log)?;
        let errors = output.try_clone().map_err(|error| Failure(format!("{}: {error}", log.display())))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        Ok(Server { name: name.into(), log: log.into(), child: Running(spawn(&mut command)?) })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// An error if the server has ended.
    pub fn running(&mut self) -> Result<(), Failure> {
        match self.child.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure(format!("ended: {status}"))),
            Err(error) => Err(Failure(error.to_string())),
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.0.try_wait().map_err(|error| Failure(format!("{}: {error}", self.name)))
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) -> Result<(), Failure> {
        let killed = self.child.0.kill().and_then(|()| self.child.0.wait());
        killed.map(|_| ()).map_err(|error| Failure(format!("{}: {error}", self.name)))
    }

    /// What it wrote so far.
    pub fn log(&self) -> Result<String, Failure> {
        read(&self.log)
    }

    /// `complaint` with the end of the log.
    pub fn complain(&self, complaint: &str) -> Failure {
        let log = self.log().unwrap_or_else(|error| error.0);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        Failure(format!("{}: {complaint}\n{tail}", self.name))
    }

    /// Asks the server by SIGTERM to end.
    pub fn ask_to_end(&self) -> Result<(), Failure> {
        let kill = Command::new("kill").args(["-TERM", &self.child.0.id().to_string()]).status();
        if kill.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        Err(self.complain("could not be signalled"))
    }

    /// Asks the server by SIGTERM to end and waits for it.
    pub fn terminate(mut self, patience: Duration) -> Result<ExitStatus, Failure> {
        self.ask_to_end()?;
        let mut ended = None;
        let name = self.name.clone();
        wait_until(&format!("end of {name}"), patience, || {
            ended = self.child.0.try_wait().map_err(|error| Failure(format!("{name}: {error}")))?;
            Ok(ended.is_some())
        })?;
        ended.ok_or_else(|| self.complain("no status"))
    }
}

/// A child that dies with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL to a child that may have ended by itself: both errors mean that nothing runs any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child in a process group of its own: Ctrl-C is for us, and we stop the children in order.
fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure(format!("{} does not start: {error}", command.get_program().display())))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// Replies of peers need not be UTF-8.
fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The input may hold a key.
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure(format!("{}: {error}", path.display())))
}
