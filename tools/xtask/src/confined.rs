//! `cargo xtask confined`: the server runs on epoll where io_uring is refused, and reports that.
//!
//! Containers refuse io_uring in two ways: a seccomp filter answers its system calls with an error, or a memlock limit
//! leaves no memory for its rings. This test applies both, the second as an unprivileged user, since the limit does not
//! apply to root. The server must start, report that it runs on epoll, and answer.

#![expect(unsafe_code, reason = "limits, user and filter are set between fork and exec")]

use crate::seccomp;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The options of `cargo xtask confined`.
#[derive(clap::Args)]
pub struct ConfinedOptions {
    /// Program to test; `cargo build --release --package frontend` builds the default
    #[arg(long, value_name = "PATH", default_value = "target/release/mailprobe")]
    mailprobe: PathBuf,
}

/// A confinement of a server, and the report that it must print.
struct Confinement {
    name: &'static str,
    confine: fn() -> io::Result<()>,
    says: &'static str,
}

const CASES: [Confinement; 4] = [
    Confinement { name: "free", confine: || Ok(()), says: "on io_uring" },
    Confinement { name: "seccomp ENOSYS", confine: || refuse_io_uring(libc::ENOSYS), says: "on epoll" },
    Confinement { name: "seccomp EPERM", confine: || refuse_io_uring(libc::EPERM), says: "on epoll" },
    Confinement { name: "memlock 64 KiB", confine: || lock_little(64 * 1024), says: "on epoll" },
];

/// The user `nobody` of Debian, who has no capabilities.
const NOBODY: u32 = 65534;

/// Runs every confinement; the exit code is 0 if all servers passed.
pub fn main(options: &ConfinedOptions) -> ExitCode {
    let mut failed = 0;
    for case in &CASES {
        match try_case(&options.mailprobe, case) {
            Ok(line) => say(&format!("ok    {}: {line}", case.name)),
            Err(error) => {
                failed += 1;
                say(&format!("FAIL  {}: {error}", case.name));
            }
        }
    }
    say(&format!("{} passed, {failed} failed", CASES.len() - failed));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a server under the confinement, and returns its line about the engine's runtime.
fn try_case(binary: &Path, case: &Confinement) -> Result<String, String> {
    let folder = std::env::temp_dir().join(format!("mailprobe-confined-{}", std::process::id()));
    let cannot = |error: io::Error| error.to_string();
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    // The unprivileged user cannot read the tree or a folder of root.
    let copy = folder.join("mailprobe");
    std::fs::copy(binary, &copy).map_err(|error| format!("{}: {error}", binary.display()))?;
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).map_err(cannot)?;
    let result = serve(&copy, &folder, case);
    std::fs::remove_dir_all(&folder).map_err(cannot)?;
    result
}

fn serve(binary: &Path, folder: &Path, case: &Confinement) -> Result<String, String> {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--resolver", "127.0.0.1:9", "--data"]);
    command.arg(folder.join("data")).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let confine = case.confine;
    // SAFETY: the child calls only setrlimit, setgroups, setresgid, setresuid and prctl before it execs.
    unsafe { command.pre_exec(confine) };
    let mut server = Guard(command.spawn().map_err(|error| format!("cannot start: {error}"))?);
    let output = server.0.stdout.take().ok_or("no standard output")?;
    let mut engine = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line.starts_with("engine: ") || line.starts_with("frontend: ") {
            if !line.contains(case.says) {
                return Err(format!("`{line}` does not say `{}`", case.says));
            }
            engine = line;
        } else if let Some(address) = line.strip_prefix("listening on http://") {
            answers(address)?;
            return Ok(engine);
        }
    }
    Err("it ended before it listened".into())
}

fn answers(address: &str) -> Result<(), String> {
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => Ok(()),
        Ok(answer) => Err(format!("/readyz answers {}", answer.lines().next().unwrap_or("nothing"))),
        Err(error) => Err(format!("/readyz: {error}")),
    }
}

/// A child that is killed at the end of its test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // The child may have ended by itself; `wait` reaps it in both cases.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Limits the memory that may be locked, and changes to a user to whom the limit applies.
fn lock_little(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: plain system calls; the limit outlives the call that reads it.
    unsafe {
        checked(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit))?;
        checked(libc::setgroups(0, std::ptr::null()))?;
        checked(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
        checked(libc::setresuid(NOBODY, NOBODY, NOBODY))
    }
}

/// Answers io_uring_setup, io_uring_enter and io_uring_register with an error, as container runtimes do.
pub fn refuse_io_uring(error: i32) -> io::Result<()> {
    let mut program = [
        seccomp::load(seccomp::NUMBER),
        seccomp::if_equal(libc::SYS_io_uring_setup as u32, 2, 0),
        seccomp::if_equal(libc::SYS_io_uring_enter as u32, 1, 0),
        seccomp::if_equal(libc::SYS_io_uring_register as u32, 0, 1),
        seccomp::end_with_error(error),
        seccomp::end(libc::SECCOMP_RET_ALLOW),
    ];
    seccomp::install(&mut program, 0).map(drop)
}

fn say(line: &str) {
    // If standard output is closed, there is no reader to inform.
    let _ = writeln!(io::stdout(), "{line}");
}
