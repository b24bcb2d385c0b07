//! The cost of a process: wall time, CPU time and resident memory.
//!
//! During a run `/proc` gives the figures, in ticks that are too coarse for a short run. The total comes from wait4(2), in
//! microseconds.

#![expect(unsafe_code, reason = "wait4 has no safe wrapper here")]

use crate::failure::{Context, Failure};
use crate::interop::process::interrupted;
use crate::proc;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The pause between two readings of a process. Wall times are at most this much too long.
const LOOK: Duration = Duration::from_millis(2);
/// The pause between two readings of its memory.
const SAMPLE: Duration = Duration::from_millis(100);

/// The cost of a run of a process.
#[derive(Debug, Clone, Default)]
pub struct RunCost {
    pub wall: Duration,
    /// User and system time in seconds.
    pub cpu_s: f64,
    /// The peak of resident memory.
    pub peak_kib: u64,
    /// Samples of resident memory in KiB, with their times.
    pub samples: Vec<(Duration, u64)>,
}

/// A running child, which is killed on drop.
pub struct MeasuredChild {
    child: Child,
    started: Instant,
    sampled: Instant,
    cost: RunCost,
    /// Its end was waited for.
    is_reaped: bool,
}

impl MeasuredChild {
    /// Starts `command`. Its output is written to `log`, standard output only unless it is piped.
    pub fn start(mut command: Command, log: &Path) -> Result<MeasuredChild, Failure> {
        let errors = File::create(log).at(log)?;
        let name = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| Failure(format!("{name} does not start: {error}")))?;
        Ok(MeasuredChild { child, started, sampled: started, cost: RunCost::default(), is_reaped: false })
    }

    /// The process id of the child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, for access to its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Reads the figures once; true if the child has ended.
    pub fn look(&mut self) -> Result<bool, Failure> {
        interrupted()?;
        let now = Instant::now();
        let times = proc::times(self.id())?;
        self.cost.cpu_s = times.cpu_s;
        self.cost.wall = now - self.started;
        if times.is_zombie {
            return Ok(true);
        }
        if now - self.sampled >= SAMPLE {
            self.sampled = now;
            self.cost.samples.push((self.cost.wall, self.resident_kib()));
            let peak_kib = proc::memory_kib(self.id(), "VmHWM").unwrap_or_default();
            self.cost.peak_kib = self.cost.peak_kib.max(peak_kib);
        }
        Ok(false)
    }

    /// The resident memory now, in KiB.
    pub fn resident_kib(&self) -> u64 {
        proc::memory_kib(self.id(), "VmRSS").unwrap_or_default()
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// The child fails, or runs for longer than `limit`.
    pub fn wait(mut self, log: &Path, limit: Duration) -> Result<RunCost, Failure> {
        while !self.look()? {
            if self.started.elapsed() > limit {
                return Err(Failure(format!("not done within {} s", limit.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
        let status = self.reap()?;
        if status.success() {
            return Ok(std::mem::take(&mut self.cost));
        }
        let said = fs::read_to_string(log).unwrap_or_default();
        Err(Failure(format!("{status}: {said}")))
    }

    /// Takes the status of the child, and the processor time of the child and of the processes that it has waited for.
    fn reap(&mut self) -> Result<ExitStatus, Failure> {
        let mut status = 0;
        // SAFETY: the structure consists of numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places are writable and outlive the call.
        let reaped = unsafe { libc::wait4(self.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
        if reaped < 0 {
            return Err(Failure(format!("wait4: {}", std::io::Error::last_os_error())));
        }
        self.is_reaped = true;
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        self.cost.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        Ok(ExitStatus::from_raw(status))
    }
}

impl Drop for MeasuredChild {
    fn drop(&mut self) {
        // The number of a child that was waited for may already belong to another process.
        if !self.is_reaped {
            // Both calls fail if the child has already ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
