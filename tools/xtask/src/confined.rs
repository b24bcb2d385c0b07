//! `cargo xtask confined`: the server runs on epoll where io_uring is refused, and reports that.
//!
//! Containers refuse io_uring in two ways: a seccomp filter answers its system calls with an error, or a memlock limit
//! leaves no memory for its rings. This test applies both, the second as an unprivileged user, since the limit does not
//! apply to root. The server must start, report that it runs on epoll, and answer.

#![expect(unsafe_code, reason = "limits, user and filter are set between fork and exec")]

use crate::failure::{Context, Failure};
use crate::interop::process::ServerProcess;
use crate::interop::report::Tally;
use crate::seccomp;
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::visitor::expect;
use crate::soak::world::listening;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Runs a server under every confinement.
pub fn run(options: &ConfinedOptions) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for case in &CASES {
        tally.check(case.name, try_case(&options.mailprobe, case).map_err(String::from));
    }
    Ok(tally)
}

/// Runs a server under the confinement, and returns its line about the engine's runtime.
fn try_case(binary: &Path, case: &Confinement) -> Result<String, Failure> {
    let folder = tempfile::Builder::new().prefix("mailprobe-confined-").tempdir().about("no folder")?;
    let folder = folder.path();
    // The unprivileged user cannot read the tree or a folder of root.
    let copy = folder.join("mailprobe");
    std::fs::copy(binary, &copy).at(binary)?;
    std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).at(folder)?;
    let mut command = Command::new(&copy);
    command.args(["serve", "--listen", "127.0.0.1:0", "--resolver", "127.0.0.1:9", "--data"]);
    command.arg(folder.join("data")).current_dir(folder);
    let confine = case.confine;
    // SAFETY: the child calls only setrlimit, setgroups, setresgid, setresuid and prctl before it execs.
    unsafe { command.pre_exec(confine) };
    let mut server = ServerProcess::start("mailprobe serve", command, &folder.join("log"))?;
    let address = listening(&mut server)?.ok_or_else(|| server.complain("it ended before it listened"))?;
    let log = server.log()?;
    let is_runtime = |line: &&str| line.starts_with("engine: ") || line.starts_with("frontend: ");
    let runtimes: Vec<&str> = log.lines().filter(is_runtime).collect();
    if let Some(line) = runtimes.iter().find(|line| !line.contains(case.says)) {
        return Err(Failure(format!("`{line}` does not say `{}`", case.says)));
    }
    expect(&mut HttpClient::program(address), &HttpRequest::get("/readyz"), 200)?;
    Ok(runtimes.last().copied().unwrap_or_default().to_owned())
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
