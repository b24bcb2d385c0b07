//! The cost of the server during a run: CPU time and memory from /proc/PID, and the engine's figures from the page of
//! metrics, each second.

use crate::ask::ask;
use crate::http;
use crate::peer::Peer;
use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The recorded gauges, each the sum over its labels, with their names in reports.
pub const GAUGES: [(&str, &str); 4] = [
    ("mailprobe_engine_tickets", "addresses in progress"),
    ("mailprobe_engine_shard_sessions", "SMTP sessions"),
    ("mailprobe_store_queue", "store queue"),
    ("mailprobe_connections_open", "connections"),
];

/// The index of the addresses under way in [`GAUGES`].
pub const UNDER_WAY: usize = 0;
/// The index of the SMTP sessions in [`GAUGES`].
pub const SESSIONS: usize = 1;

/// The sources of the samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watched {
    /// The server's process, if it runs on this machine.
    pub pid: Option<u32>,
    /// The address of its metrics.
    pub metrics: Option<SocketAddr>,
    /// The process of mailnet, if this program has started it.
    pub mailnet: Option<u32>,
}

/// The values at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The seconds since the start of the run.
    pub at: f64,
    /// User and system time since the start of the process, in seconds.
    pub cpu_s: Option<f64>,
    /// The resident memory in KiB.
    pub rss_kib: Option<u64>,
    /// The values in the order of [`GAUGES`].
    pub gauges: [Option<f64>; GAUGES.len()],
}

impl Watched {
    /// Takes a sample now.
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

    /// Takes a sample each second until the sender of `stop` is dropped.
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

/// The time of all cores of this machine since its start, in ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineTimes {
    all: u64,
    idle: u64,
    cores: usize,
}

impl MachineTimes {
    /// The busy share since an earlier time; `None` if no tick has passed.
    pub fn busy_since(self, earlier: MachineTimes) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)?;
        Some(1.0 - self.idle.saturating_sub(earlier.idle) as f64 / all as f64)
    }

    /// The number of cores.
    pub fn cores(self) -> usize {
        self.cores
    }

    /// The first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal, and two parts of
    /// user and nice. Each core has a further line.
    fn read(stat: &str) -> Option<MachineTimes> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        let cores = stat.lines().skip(1).filter(|line| line.starts_with("cpu")).count().max(1);
        Some(MachineTimes { all: ticks.iter().sum(), idle, cores })
    }
}

/// The times of this machine now; `None` if the kernel does not tell them.
pub fn machine_times() -> Option<MachineTimes> {
    MachineTimes::read(&fs::read_to_string("/proc/stat").ok()?)
}

/// The user and system time of a process in seconds, over all threads, also ended ones.
pub fn cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(&stat, 14)? as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The resident memory of a process in KiB.
pub fn rss_kib(pid: u32) -> Option<u64> {
    status_kib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// The sum of two fields of /proc/PID/stat (proc(5)), of which `first` is the number of the first. The second field, a name, may
/// contain spaces and parentheses.
pub fn ticks(stat: &str, first: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(first - 3);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn status_kib(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().split(' ').next()?.parse().ok()
}

fn page(metrics: SocketAddr) -> Option<String> {
    let mut request = String::new();
    http::get(&mut request, &metrics.to_string(), "/metrics", "");
    let reply = ask(&Peer::plain(metrics), &request).ok()?;
    (reply.status == 200).then(|| String::from_utf8(reply.body).ok()).flatten()
}

/// The sum of a family's samples over their labels.
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
        let stat = "12 (a (b) c) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 1 0 5 6 7";
        assert_eq!((ticks(stat, 14), ticks(stat, 16)), (Some(200), Some(10)));
        assert_eq!((ticks("nonsense", 14), ticks("12 (a) S 1 1 1 0 -1 1 1 2 3 4 150 50", 16)), (None, None));
        assert_eq!(status_kib("VmHWM:\t  9 kB\nVmRSS:\t    1234 kB\n", "VmRSS:"), Some(1234));
        assert!(cpu_s(std::process::id()).is_some());
        assert!(rss_kib(std::process::id()).is_some_and(|kib| kib > 100));
    }

    #[test]
    fn the_busy_share_of_the_machine() {
        let before = MachineTimes::read("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1\n").unwrap();
        let after = MachineTimes::read("cpu  40 0 20 120 20 0 0 0 0 0\ncpu0 1\ncpu1 2\nintr 9\n").unwrap();
        assert_eq!((before.cores(), after.cores()), (1, 2));
        assert!(after.busy_since(before).is_some_and(|busy| (busy - 0.4).abs() < 1e-9));
        assert_eq!((before.busy_since(before), before.busy_since(after)), (None, None));
        assert_eq!(MachineTimes::read("cpu  1 x\n"), None);
        assert!(machine_times().is_some());
    }

    #[test]
    fn families_are_summed_over_their_labels() {
        let page = "# HELP a b\na 1\na_total 5\nb{shard=\"0\"} 2\nb{shard=\"}1\"} 3.5\nc x\n";
        assert_eq!(sum_of(page, "a"), Some(1.0));
        assert_eq!(sum_of(page, "b"), Some(5.5));
        assert_eq!(sum_of(page, "c"), None);
    }
}
