//! Figures of this process from the operating system (`/proc/self`).

use std::fs;

/// The figures of the process; unreadable ones are `None`.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Process {
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub threads: Option<u64>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
}

/// Ticks of processor time per second, which `/proc` uses on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the current figures from `/proc/self`.
pub fn look() -> Process {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let kib = |name: &str| field(&status, name).map(|kib| kib * 1024);
    Process {
        resident_bytes: kib("VmRSS:"),
        virtual_bytes: kib("VmSize:"),
        cpu_seconds: cpu_ticks(&stat).map(|ticks| ticks as f64 / TICKS_PER_SECOND),
        threads: field(&status, "Threads:"),
        // One of the descriptors belongs to this reading.
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64 - 1),
        max_fds: field(&limits, "Max open files"),
    }
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// User and system time. The name of the program, in parentheses, may contain any character; numbers follow.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let Process { resident_bytes, virtual_bytes, cpu_seconds, threads, open_fds, max_fds } = look();
        assert!(resident_bytes.unwrap() > 1 << 20 && virtual_bytes > resident_bytes);
        assert!(cpu_seconds.is_some() && threads.unwrap() >= 2);
        assert!(open_fds.unwrap() >= 3 && max_fds > open_fds);
    }

    #[test]
    fn a_programs_name_does_not_confuse() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks(""), None);
    }
}
