//! Network namespaces: those of `ip netns`, and a nameless one with a mount namespace, in which only loopback and another
//! `/etc/resolv.conf` are.
//!
//! For the nameless one, a thread enters new namespaces, and every process that it starts is in them too. The rest of this process stays outside. The
//! kernel removes the namespaces with their last process, so nothing is left behind after a kill.

#![expect(unsafe_code, reason = "unshare has no safe wrapper")]

use crate::failure::{Context, Failure, thread_result};
use crate::interop::process;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Runs `work` on a thread in new namespaces, in which `resolver` is the only resolver of the system. `folder` is for files.
///
/// # Errors
///
/// `work` fails, or the namespaces cannot be made, which needs root.
pub fn isolated<T: Send>(
    folder: &Path,
    resolver: &str,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let inside = || {
        enter().about("no namespaces of its own (this needs root)")?;
        ip("link set lo up")?;
        let path = folder.join("resolv.conf");
        fs::write(&path, format!("nameserver {resolver}\n")).at(&path)?;
        // The mounts of these namespaces must not appear in the others.
        run(folder, "mount", &["--make-rprivate", "/"])?;
        run(folder, "mount", &["--bind", &path.display().to_string(), "/etc/resolv.conf"])?;
        work()
    };
    thread_result(thread::scope(|scope| scope.spawn(inside).join()), "the thread in the namespaces")
}

/// A network namespace of `ip netns`, by its name.
#[derive(Debug, Clone)]
pub struct Namespace(pub String);

impl Namespace {
    /// A command that runs `program` in the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// The same program with the same arguments, in the namespace.
    pub fn command_of(&self, other: &Command) -> Command {
        let mut command = self.command(other.get_program());
        command.args(other.get_args());
        command
    }

    /// Moves this thread into the namespace, for the rest of its life. The threads that it starts are in the namespace too.
    ///
    /// # Errors
    ///
    /// There is no such namespace, or this process is not root.
    pub fn enter(&self) -> Result<(), Failure> {
        let path = Path::new("/run/netns").join(&self.0);
        let space = File::open(&path).at(&path)?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).at(&path)
    }

    /// Runs `work` on a thread in the namespace, so that the sockets it opens are in that namespace.
    ///
    /// # Errors
    ///
    /// The thread cannot enter the namespace, or `work` fails.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
        let enter = || self.enter().and_then(|()| work());
        thread_result(thread::scope(|scope| scope.spawn(enter).join()), &format!("the thread in {}", self.0))
    }
}

/// Runs a command of `ip` with these words.
///
/// # Errors
///
/// The command fails.
pub fn ip(words: &str) -> Result<(), Failure> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.about("ip (package iproute2) does not start")?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(arguments);
    process::run(command, "", folder, COMMAND_LIMIT)?
        .success(&format!("{program} {}", arguments.join(" ")))
        .map(drop)
}

/// Moves this thread into new namespaces.
fn enter() -> std::io::Result<()> {
    // SAFETY: the call takes no pointers, and the thread shares its file descriptors with the process as before.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
