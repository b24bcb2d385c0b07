//! What the kernel says of a process: its processor time and its memory (proc_pid_stat(5), proc_pid_status(5)).

use crate::failure::{Context, Failure};
use std::fmt::Display;
use std::fs;

/// The processor time of a process, and whether the process still runs.
pub struct ProcessTimes {
    /// The process has ended, and its parent has not waited for it yet.
    pub is_zombie: bool,
    /// User and system time in seconds.
    pub cpu_s: f64,
}

/// Reads the times of a process by its id. The id of this process is `self`.
pub fn times(pid: impl Display) -> Result<ProcessTimes, Failure> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).about(&path)?;
    // The second field, the name, may contain spaces; it ends at the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let cpu_s = (ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64;
    Ok(ProcessTimes { is_zombie: fields.first() == Some(&"Z"), cpu_s })
}

/// The memory of a process in KiB, as a field such as `VmRSS` has it; `None` if the process has ended.
pub fn memory_kib(pid: impl Display, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().split(' ').next()?.parse().ok()
}
