//! What the server costs while it is asked: processor time and memory from /proc/PID, and figures of the engine from
//! the page of metrics, each second.

use crate::ask::ask;
use crate::http;
use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Gauges that are kept, each the sum over its labels, with what reports call them.
pub const GAUGES: [(&str, &str); 4] = [
    ("mailprobe_engine_tickets", "addresses under way"),
    ("mailprobe_engine_shard_sessions", "SMTP sessions"),
    ("mailprobe_store_queue", "store queue"),
    ("mailprobe_connections_open", "connections"),
];

/// Where [`GAUGES`] has the addresses under way and the SMTP sessions.
pub const UNDER_WAY: usize = 0;
pub const SESSIONS: usize = 1;

/// How it is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watched {
    /// The process, when it runs on this machine.
    pub pid: Option<u32>,
    /// Where its metrics are.
    pub metrics: Option<SocketAddr>,
}

/// One look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at: f64,
    /// User and system time since the process started.
    pub cpu_s: Option<f64>,
    /// Resident memory.
    pub rss_kib: Option<u64>,
    /// As [`GAUGES`] lists them.
    pub gauges: [Option<f64>; GAUGES.len()],
}

impl Watched {
    /// Looks now.
    pub fn look(&self, begin: Instant) -> Sample {
        let mut sample = Sample { at: begin.elapsed().as_secs_f64(), ..Sample::default() };
        if let Some(pid) = self.pid {
            sample.cpu_s = cpu_s(pid);
            sample.rss_kib = rss_kib(pid);
        }
        if let Some(page) = self.metrics.and_then(page) {
            for (slot, (name, _)) in sample.gauges.iter_mut().zip(GAUGES) {
                *slot = sum_of(&page, name);
            }
            sample.cpu_s = sample.cpu_s.or_else(|| sum_of(&page, "process_cpu_seconds_total"));
            sample.rss_kib = sample.rss_kib.or_else(|| {
                sum_of(&page, "process_resident_memory_bytes").map(|bytes| (bytes / 1024.0) as u64)
            });
        }
        sample
    }

    /// Looks each second until `stop` is gone.
    pub fn watch(&self, begin: Instant, stop: &Receiver<()>) -> Vec<Sample> {
        let mut samples = vec![self.look(begin)];
        let mut next = begin;
        loop {
            next += Duration::from_secs(1);
            let wait = next.saturating_duration_since(Instant::now());
            match stop.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => samples.push(self.look(begin)),
                _ => return samples,
            }
        }
    }
}

/// User and system time of a process, all its threads, those that have ended as well.
pub fn cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(&stat)? as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident memory.
pub fn rss_kib(pid: u32) -> Option<u64> {
    status_kib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// The fourteenth and the fifteenth field (proc(5)); the second, a name, may hold spaces and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn status_kib(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().split(' ').next()?.parse().ok()
}

fn page(metrics: SocketAddr) -> Option<String> {
    let mut request = String::new();
    http::get(&mut request, &metrics.to_string(), "/metrics", "");
    let (status, body) = ask(metrics, &request).ok()?;
    (status == 200).then(|| String::from_utf8(body).ok()).flatten()
}

/// A family's samples, added up over their labels.
fn sum_of(page: &str, family: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(family)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.trim().parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "12 (a (b) c) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(200));
        assert_eq!(ticks("nonsense"), None);
        assert_eq!(status_kib("VmHWM:\t  9 kB\nVmRSS:\t    1234 kB\n", "VmRSS:"), Some(1234));
        assert!(cpu_s(std::process::id()).is_some());
        assert!(rss_kib(std::process::id()).is_some_and(|kib| kib > 100));
    }

    #[test]
    fn families_are_summed_over_their_labels() {
        let page = "# HELP a b\na 1\na_total 5\nb{shard=\"0\"} 2\nb{shard=\"}1\"} 3.5\nc x\n";
        assert_eq!(sum_of(page, "a"), Some(1.0));
        assert_eq!(sum_of(page, "b"), Some(5.5));
        assert_eq!(sum_of(page, "c"), None);
    }
}
