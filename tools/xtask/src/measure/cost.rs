//! The cost of a process: wall time, CPU time and resident memory.
//!
//! During a run `/proc` gives the figures, in ticks that are too coarse for a short run. The total comes from
//! getrusage(2), in microseconds.

#![expect(unsafe_code, reason = "getrusage has no safe wrapper here")]

use crate::failure::Failure;
use crate::interop::process::interrupted;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The pause between two readings of a process. Wall times are at most this much too long.
const LOOK: Duration = Duration::from_millis(2);
/// The pause between two readings of its memory.
const SAMPLE: Duration = Duration::from_millis(100);
/// Clock ticks a second in `/proc/PID/stat`: the kernel's ABI has 100.
const TICKS: f64 = 100.0;

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
}

impl MeasuredChild {
    /// Starts `command`. Its output is written to `log`, standard output only unless it is piped.
    pub fn start(mut command: Command, log: &Path) -> Result<MeasuredChild, Failure> {
        let errors = File::create(log).map_err(|error| Failure(format!("{}: {error}", log.display())))?;
        let name = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| Failure(format!("{name} does not start: {error}")))?;
        Ok(MeasuredChild { child, started, sampled: started, cost: RunCost::default() })
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
        let stat = read(self.id(), "stat")?;
        // The second field, the name, may contain spaces; it ends at the last parenthesis.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        self.cost.cpu_s = (ticks(11) + ticks(12)) / TICKS;
        self.cost.wall = now - self.started;
        if fields.first().is_some_and(|state| *state == "Z") {
            return Ok(true);
        }
        if now - self.sampled >= SAMPLE {
            self.sampled = now;
            let resident = self.resident_kib()?;
            self.cost.samples.push((self.cost.wall, resident));
            self.cost.peak_kib = self.cost.peak_kib.max(field(&read(self.id(), "status")?, "VmHWM:"));
        }
        Ok(false)
    }

    /// The resident memory now, in KiB.
    pub fn resident_kib(&self) -> Result<u64, Failure> {
        Ok(field(&read(self.id(), "status")?, "VmRSS:"))
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
        let before = reaped_cpu_s()?;
        let status = self.child.wait().map_err(|error| Failure(error.to_string()))?;
        // No other child is reaped meanwhile, so the difference belongs to this child.
        self.cost.cpu_s = reaped_cpu_s()? - before;
        if status.success() {
            return Ok(std::mem::take(&mut self.cost));
        }
        let said = fs::read_to_string(log).unwrap_or_default();
        Err(Failure(format!("{status}: {said}")))
    }
}

/// User and system time of all reaped children, in seconds.
fn reaped_cpu_s() -> Result<f64, Failure> {
    // SAFETY: the structure consists of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(Failure(format!("getrusage: {}", std::io::Error::last_os_error())));
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

impl Drop for MeasuredChild {
    fn drop(&mut self) {
        // Both calls fail if the child has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(pid: u32, name: &str) -> Result<String, Failure> {
    fs::read_to_string(format!("/proc/{pid}/{name}"))
        .map_err(|error| Failure(format!("/proc/{pid}/{name}: {error}")))
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().split(' ').next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
