//! Work in a network namespace and a mount namespace of its own: only loopback, and another `/etc/resolv.conf`.
//!
//! A thread enters new namespaces, and every process that it starts is in them too. The rest of this process stays outside. The
//! kernel removes the namespaces with their last process, so nothing is left behind after a kill.

#![expect(unsafe_code, reason = "unshare has no safe wrapper")]

use crate::failure::Failure;
use crate::interop::process;
use std::fs;
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
        enter().map_err(|error| Failure(format!("no namespaces of its own (this needs root): {error}")))?;
        ip(folder, "link set lo up")?;
        let path = folder.join("resolv.conf");
        fs::write(&path, format!("nameserver {resolver}\n"))
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        // The mounts of these namespaces must not appear in the others.
        run(folder, "mount", &["--make-rprivate", "/"])?;
        run(folder, "mount", &["--bind", &path.display().to_string(), "/etc/resolv.conf"])?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|_| Err(Failure("the thread in the namespaces panicked".into())))
}

/// Runs a command of `ip` with these words.
///
/// # Errors
///
/// The command fails.
pub fn ip(folder: &Path, words: &str) -> Result<(), Failure> {
    run(folder, "ip", &words.split(' ').collect::<Vec<_>>())
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
