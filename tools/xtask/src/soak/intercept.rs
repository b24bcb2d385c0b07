//! System calls of a child that change its data folder. Each is counted, can be recorded, and can be made to fail.
//!
//! The child installs a seccomp filter with user notification (seccomp_unotify(2)) before it executes. This process
//! answers with an error, or lets the kernel continue. So the test runs the released binary, which gets the errors of a
//! defective or full disk.

#![expect(unsafe_code, reason = "seccomp's notifications have no safe wrapper")]

use super::crowd::lock;
use super::disk::FolderChange;
use crate::failure::Failure;
use crate::seccomp;
use libc::{seccomp_notif, seccomp_notif_resp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The failure from the planned operation on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO for one operation.
    Error,
    /// ENOSPC for every operation that needs space, until the restart.
    Full,
    /// The first write is done by half, and then there is no space.
    Short,
    /// The first sync takes [`SLOW`].
    SlowSync,
}

/// How long a slow sync takes.
pub const SLOW: Duration = Duration::from_secs(2);

/// The number of the filter's descriptor in the child: the child cannot report another number.
const LISTENER: i32 = 200;
/// How often the thread checks whether a slow sync is over: 20 ms.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const PATH_MAX: usize = 4096;

/// The calls that notify. For calls that may create a file, their flags decide.
const CALLS: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_openat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    // Newer architectures have only the calls above.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// The handling of the calls, which are always counted.
#[derive(Debug, Clone, Copy)]
pub enum InterceptPlan {
    Nothing,
    /// The calls fail from the operation with this number on.
    Fail(u64, Fault),
    /// Each call is recorded.
    Record,
}

/// A child with intercepted system calls.
pub struct Intercepted {
    shared: Arc<InterceptState>,
    thread: Option<JoinHandle<()>>,
}

struct InterceptState {
    folder: PathBuf,
    plan: InterceptPlan,
    recorded: Mutex<Vec<FolderChange>>,
    done: AtomicU64,
    met: AtomicBool,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// Makes the child of this command install the filter.
pub fn ask_us(command: &mut Command) {
    // SAFETY: the child calls only prctl, seccomp, dup2 and close before it executes.
    unsafe { command.pre_exec(install) };
}

fn install() -> io::Result<()> {
    // The program loads the number of the call, and jumps to the last step for each call that notifies.
    let mut program = [seccomp::load(seccomp::NUMBER); CALLS.len() + 3];
    for (place, call) in CALLS.iter().enumerate() {
        program[place + 1] = seccomp::if_equal(*call as u32, (CALLS.len() - place) as u8, 0);
    }
    program[CALLS.len() + 1] = seccomp::end(libc::SECCOMP_RET_ALLOW);
    program[CALLS.len() + 2] = seccomp::end(libc::SECCOMP_RET_USER_NOTIF);
    let listener = seccomp::install(&mut program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // The copy stays open over the exec, so that the parent can duplicate it. SAFETY: plain system calls on
    // descriptors.
    unsafe {
        if libc::dup2(listener, LISTENER) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(listener);
    }
    Ok(())
}

impl Intercepted {
    /// Answers the calls of a child that was started by a command of [`ask_us`]. Operations on files below `folder` are
    /// counted from 1.
    ///
    /// # Errors
    ///
    /// The filter's descriptor cannot be taken from the child.
    pub fn attach(pid: u32, folder: &Path, plan: InterceptPlan) -> Result<Intercepted, Failure> {
        let wrong = |error: io::Error| Failure(format!("cannot answer the system calls of {pid}: {error}"));
        let child = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let child = child.ok_or_else(|| wrong(io::Error::other("it is no process")))?;
        let process = pidfd_open(child, PidfdFlags::empty()).map_err(|error| wrong(error.into()))?;
        let listener = pidfd_getfd(&process, LISTENER, PidfdGetfdFlags::empty());
        let listener = listener.map_err(|error| wrong(error.into()))?;
        let shared = Arc::new(InterceptState {
            folder: folder.to_owned(),
            plan,
            recorded: Mutex::default(),
            done: AtomicU64::new(0),
            met: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            if let Err(error) = theirs.answer_all(&process, &listener) {
                *lock(&theirs.failure) = Some(error.to_string());
            }
        });
        Ok(Intercepted { shared, thread: Some(thread) })
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.shared.done.load(Ordering::SeqCst)
    }

    /// Whether the planned fault has happened.
    pub fn is_met(&self) -> bool {
        self.shared.met.load(Ordering::SeqCst)
    }

    /// Waits for the end of the child and returns the recorded changes.
    ///
    /// # Errors
    ///
    /// A call could not be answered.
    pub fn finish(mut self) -> Result<Vec<FolderChange>, Failure> {
        self.join();
        let failure = lock(&self.shared.failure).take();
        match failure {
            Some(why) => Err(Failure(format!("the system calls were not answered: {why}"))),
            None => Ok(std::mem::take(&mut lock(&self.shared.recorded))),
        }
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // The thread stores its failures in `failure`, and has no panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Intercepted {
    fn drop(&mut self) {
        self.join();
    }
}

/// The answer to a call.
enum CallAnswer {
    Continue,
    Value(i64),
    Error(i32),
    Later(Instant),
}

impl InterceptState {
    fn answer_all(&self, process: &OwnedFd, listener: &OwnedFd) -> io::Result<()> {
        let mut slow: Option<(Instant, u64)> = None;
        loop {
            if let Some((end, id)) = slow
                && Instant::now() >= end
            {
                respond(listener, id, &CallAnswer::Continue)?;
                slow = None;
            }
            let mut ready = [PollFd::new(listener, PollFlags::IN)];
            poll(&mut ready, Some(&LOOK))?;
            let ready = ready[0].revents();
            if ready.contains(PollFlags::HUP) {
                return Ok(());
            }
            if !ready.contains(PollFlags::IN) {
                // The last thread of the child may end without a notification.
                if self.stop.load(Ordering::SeqCst) && slow.is_none() {
                    return Ok(());
                }
                continue;
            }
            // SAFETY: the structure has only numbers, and the kernel requires zeros.
            let mut asked: seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the structure is the kernel's, and outlives the call.
            let received =
                unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) };
            if received != 0 {
                // The calling thread was killed.
                continue;
            }
            match self.decide(process, &asked)? {
                CallAnswer::Later(end) => slow = Some((end, asked.id)),
                answer => respond(listener, asked.id, &answer)?,
            }
        }
    }

    fn decide(&self, process: &OwnedFd, asked: &seccomp_notif) -> io::Result<CallAnswer> {
        let Some(change) = self.change(asked)? else { return Ok(CallAnswer::Continue) };
        let is_write = matches!(change, FolderChange::Write(..));
        let is_sync = matches!(change, FolderChange::Sync(_));
        let needs_space = is_write || matches!(change, FolderChange::Make(..) | FolderChange::MakeFolder(_));
        if matches!(self.plan, InterceptPlan::Record) {
            lock(&self.recorded).push(change);
        }
        // The counter changes after the record, so a reader of the counter finds at least as many changes.
        let number = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        let InterceptPlan::Fail(at, fault) = self.plan else { return Ok(CallAnswer::Continue) };
        if number < at {
            return Ok(CallAnswer::Continue);
        }
        let is_first = !self.is_met();
        Ok(match fault {
            Fault::Error if number == at => self.meet(CallAnswer::Error(libc::EIO)),
            Fault::Full if needs_space => self.meet(CallAnswer::Error(libc::ENOSPC)),
            Fault::Short if is_write && is_first => self.meet(CallAnswer::Value(write_half(process, asked)?)),
            Fault::Short if needs_space && !is_first => CallAnswer::Error(libc::ENOSPC),
            Fault::SlowSync if is_sync && is_first => self.meet(CallAnswer::Later(Instant::now() + SLOW)),
            _ => CallAnswer::Continue,
        })
    }

    fn is_met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }

    fn meet(&self, answer: CallAnswer) -> CallAnswer {
        self.met.store(true, Ordering::SeqCst);
        answer
    }

    /// The change that a call is about to make in the folder; `None` for other files. Only a record has the bytes of a write.
    fn change(&self, asked: &seccomp_notif) -> io::Result<Option<FolderChange>> {
        let ([first, second, third, fourth, ..], pid) = (asked.data.args, asked.pid);
        let call = libc::c_long::from(asked.data.nr);
        let path = match call {
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ftruncate => file_of(pid, first),
            libc::SYS_openat if third & libc::O_CREAT as u64 == 0 => return Ok(None),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_rename | libc::SYS_unlink => path_at(pid, first),
            _ => path_at(pid, second),
        };
        let Some(path) = path.ok().filter(|path| path.starts_with(&self.folder)) else { return Ok(None) };
        let written = || match self.plan {
            InterceptPlan::Record => memory(pid, second, third),
            _ => Ok(Vec::new()),
        };
        Ok(Some(match call {
            libc::SYS_write => FolderChange::Write(path, position(pid, first)?, written()?),
            libc::SYS_pwrite64 => FolderChange::Write(path, fourth, written()?),
            libc::SYS_fsync | libc::SYS_fdatasync => FolderChange::Sync(path),
            libc::SYS_ftruncate => FolderChange::SetLen(path, second),
            libc::SYS_openat => FolderChange::Make(path, third & libc::O_TRUNC as u64 != 0),
            libc::SYS_mkdirat => FolderChange::MakeFolder(path),
            libc::SYS_renameat | libc::SYS_renameat2 => FolderChange::Rename(path, path_at(pid, fourth)?),
            libc::SYS_unlinkat => FolderChange::Remove(path),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => FolderChange::MakeFolder(path),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => FolderChange::Rename(path, path_at(pid, second)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => FolderChange::Remove(path),
            other => return Err(io::Error::other(format!("system call {other} is not known"))),
        }))
    }
}

/// The path of an open file.
fn file_of(pid: u32, descriptor: u64) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{descriptor}"))
}

/// The offset of the next write to an open file.
fn position(pid: u32, descriptor: u64) -> io::Result<u64> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"))?;
    let position = info.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok());
    position.ok_or_else(|| io::Error::other("no position in fdinfo"))
}

fn memory(pid: u32, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// The path at this address of the child's memory.
fn path_at(pid: u32, at: u64) -> io::Result<PathBuf> {
    let mut bytes = [0; PATH_MAX];
    let read = File::open(format!("/proc/{pid}/mem"))?.read_at(&mut bytes, at)?;
    let end = bytes[..read].iter().position(|&byte| byte == 0);
    let path = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    path.map(PathBuf::from).ok_or_else(|| io::Error::other("no path in memory"))
}

/// Does half of a write instead of the child.
fn write_half(process: &OwnedFd, asked: &seccomp_notif) -> io::Result<i64> {
    let [descriptor, at, len, offset, ..] = asked.data.args;
    let bytes = memory(asked.pid, at, len / 2)?;
    let number = i32::try_from(descriptor).unwrap_or(-1);
    let file = File::from(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?);
    if libc::c_long::from(asked.data.nr) == libc::SYS_pwrite64 {
        file.write_all_at(&bytes, offset)?;
    } else {
        // The copy shares the file position of the child.
        io::Write::write_all(&mut &file, &bytes)?;
    }
    Ok(bytes.len() as i64)
}

fn respond(listener: &OwnedFd, id: u64, answer: &CallAnswer) -> io::Result<()> {
    let mut response = seccomp_notif_resp { id, val: 0, error: 0, flags: 0 };
    match answer {
        CallAnswer::Continue | CallAnswer::Later(_) => {
            response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        }
        CallAnswer::Value(value) => response.val = *value,
        CallAnswer::Error(error) => response.error = -error,
    }
    // SAFETY: the structure is the kernel's and outlives the call.
    let sent =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    match io::Error::last_os_error() {
        _ if sent == 0 => Ok(()),
        // The calling thread was killed meanwhile.
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        error => Err(error),
    }
}
