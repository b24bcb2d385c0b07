//! Child processes with an owner and a time limit: none outlives the run.
//!
//! Ctrl-C and SIGTERM set a flag that every wait checks. The error unwinds through the owners, whose `Drop` stops their
//! children. A panic unwinds in the same way.

use crate::failure::{Context, Failure};
use crate::proc;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The pause between two checks of a wait.
const LOOK: Duration = Duration::from_millis(20);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static OUTPUTS: AtomicU32 = AtomicU32::new(0);

/// Makes SIGINT and SIGTERM set the flag that ends the run.
///
/// # Errors
///
/// The handlers cannot be installed.
pub fn watch_signals() -> Result<(), Failure> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))
            .map_err(|error| Failure(format!("no handler for signal {signal}: {error}")))?;
    }
    Ok(())
}

/// Programs that a task needs, each with the command or package that installs it. A task looks for them before anything that
/// takes long or leaves files.
///
/// # Errors
///
/// The text names all programs that are neither in a folder of `PATH` nor in `/usr/sbin`, which users other than root lack there.
pub fn require(programs: &[(&str, &str)]) -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).collect();
    let is_installed = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let missing = programs.iter().filter(|(program, _)| !is_installed(program));
    let missing: Vec<String> = missing.map(|(program, remedy)| format!("{program} ({remedy})")).collect();
    if missing.is_empty() { Ok(()) } else { Err(Failure(format!("missing: {}", missing.join(", ")))) }
}

/// The path of this program.
pub fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().about("the path of this program is unknown")
}

/// The target folder of cargo that contains this program.
pub fn target_folder() -> Result<PathBuf, Failure> {
    let folder = own_path()?.parent().and_then(Path::parent).map(Path::to_owned);
    folder.ok_or_else(|| Failure("this program is not in a target folder".into()))
}

/// An error after SIGINT or SIGTERM.
pub fn interrupted() -> Result<(), Failure> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Failure("interrupted".into())) } else { Ok(()) }
}

/// Sleeps for `pause`; SIGINT or SIGTERM ends it with an error.
pub fn sleep(pause: Duration) -> Result<(), Failure> {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        interrupted()?;
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    interrupted()
}

/// Calls `ready` repeatedly until it returns true.
///
/// # Errors
///
/// The limit is reached, or `ready` fails.
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

/// The outputs and the status of a finished command.
pub struct Finished {
    /// The exit status of the command.
    pub status: ExitStatus,
    /// The bytes of standard output.
    pub stdout: String,
    /// The bytes of standard error.
    pub stderr: String,
}

impl Finished {
    /// The standard output, if the command succeeded.
    ///
    /// # Errors
    ///
    /// Any other exit status; the text has the standard error.
    pub fn success(self, what: &str) -> Result<String, Failure> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(Failure(format!("{what}: {}\n{}{}", self.status, self.stdout, self.stderr)))
    }
}

/// Runs `command` to its end with `input`, and kills it after `limit`. Its output goes to files in `folder`, so no pipe
/// can fill up.
pub fn run(mut command: Command, input: &str, folder: &Path, limit: Duration) -> Result<Finished, Failure> {
    let number = OUTPUTS.fetch_add(1, Ordering::Relaxed);
    // Another process of ours may use the same folder.
    let file = |kind: &str| folder.join(format!("{}-{number}.{kind}", std::process::id()));
    let (stdin, stdout, stderr) = (file("in"), file("out"), file("err"));
    write_private(&stdin, input)?;
    command.stdin(open(&stdin)?).stdout(create(&stdout)?).stderr(create(&stderr)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = ChildProcess(spawn(&mut command)?);
    let mut status = None;
    wait_until(&name, limit, || {
        status = child.0.try_wait().about(&name)?;
        Ok(status.is_some())
    })?;
    let status = status.ok_or_else(|| Failure(format!("{name}: no status")))?;
    let finished = Finished { status, stdout: read(&stdout)?, stderr: read(&stderr)? };
    for path in [stdin, stdout, stderr] {
        fs::remove_file(&path).at(&path)?;
    }
    Ok(finished)
}

/// Runs a command to its end, with the terminal of this process. The processes that it has started end with it if this wait is
/// interrupted.
pub fn accompany(mut command: Command) -> Result<ExitStatus, Failure> {
    let mut group = ProcessGroup(spawn(&mut command)?);
    loop {
        match group.0.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => sleep(LOOK)?,
            Err(error) => return Err(Failure(format!("{}: {error}", command.get_program().display()))),
        }
    }
}

/// A server process, which is stopped on drop.
pub struct ServerProcess {
    name: String,
    log: PathBuf,
    child: ChildProcess,
}

impl ServerProcess {
    /// Starts `command`; both its outputs are written to `log`.
    pub fn start(name: &str, command: Command, log: &Path) -> Result<ServerProcess, Failure> {
        let output = create(log)?;
        let errors = output.try_clone().at(log)?;
        ServerProcess::start_with(name, command, log, [output.into(), errors.into()])
    }

    /// Starts `command` with these standard output and standard error. `log` is the file that a complaint quotes.
    pub fn start_with(
        name: &str,
        mut command: Command,
        log: &Path,
        [output, errors]: [Stdio; 2],
    ) -> Result<ServerProcess, Failure> {
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        Ok(ServerProcess { name: name.into(), log: log.into(), child: ChildProcess(spawn(&mut command)?) })
    }

    /// The process id of the server.
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

    /// The exit status, if the server has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.0.try_wait().map_err(|error| Failure(format!("{}: {error}", self.name)))
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) -> Result<(), Failure> {
        let killed = self.child.0.kill().and_then(|()| self.child.0.wait());
        killed.map(|_| ()).map_err(|error| Failure(format!("{}: {error}", self.name)))
    }

    /// The output of the server so far.
    pub fn log(&self) -> Result<String, Failure> {
        read(&self.log)
    }

    /// A failure with the text `complaint` and the end of the log.
    pub fn complain(&self, complaint: &str) -> Failure {
        let log = self.log().unwrap_or_else(|error| error.0);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        Failure(format!("{}: {complaint}\n{tail}", self.name))
    }

    /// Sends SIGTERM to the server without waiting.
    pub fn ask_to_end(&self) -> Result<(), Failure> {
        self.signal(Signal::TERM)
    }

    /// Sends a signal to the server without waiting.
    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child.0), signal)
            .map_err(|error| self.complain(&format!("could not be signalled: {error}")))
    }

    /// Sends SIGTERM to the server and waits at most `patience`.
    pub fn terminate(mut self, patience: Duration) -> Result<ExitStatus, Failure> {
        self.end_by(Signal::TERM, patience)
    }

    /// Sends a signal to the server and waits for its end, at most `patience`.
    pub fn end_by(&mut self, signal: Signal, patience: Duration) -> Result<ExitStatus, Failure> {
        self.signal(signal)?;
        self.wait(patience)
    }

    /// Waits for the end of the server, at most `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus, Failure> {
        let mut ended = None;
        wait_until(&format!("end of {}", self.name), patience, || {
            ended = self.ended()?;
            Ok(ended.is_some())
        })?;
        ended.ok_or_else(|| self.complain("no status"))
    }

    /// The resident memory of the server in KiB; `None` if it has ended.
    pub fn resident_kib(&self) -> Option<u64> {
        proc::memory_kib(self.id(), "VmRSS")
    }
}

/// A child that is killed with its owner.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The child may have ended by itself: an error means that it no longer runs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command and the processes that it has started, which are all ended with their owner.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // If the command has ended and been reaped, its number no longer belongs to it.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// Starts a child in its own process group: Ctrl-C reaches only this process, which stops the children in order.
fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure(format!("{} does not start: {error}", command.get_program().display())))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).at(path)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).at(path)
}

/// Replies of peers may be invalid UTF-8.
fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).at(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file is private because the input may have a key.
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_what_installs_them() {
        assert!(require(&[("sh", "apt-get install dash")]).is_ok());
        let missing = require(&[("sh", "dash"), ("no-such-program", "cargo install it"), ("nor-this", "it")]);
        let Err(Failure(text)) = missing else { panic!("a program is missing") };
        assert_eq!(text, "missing: no-such-program (cargo install it), nor-this (it)");
    }

    #[test]
    fn two_processes_can_use_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..1000 {
            fs::write(folder.path().join(format!("{number}.in")), "of another process").unwrap();
        }
        let finished = run(Command::new("cat"), "mine", folder.path(), Duration::from_secs(10)).unwrap();
        assert_eq!(finished.stdout, "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1000);
    }
}
