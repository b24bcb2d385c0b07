//! The use of the cores of this machine during a run: by the server, by this client, by mailnet, and by other programs.

use crate::run::MACHINE_BUSY;
use crate::sampler::{MachineTimes, Watched, cpu_s, machine_times, ticks};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::net::{IpAddr, UdpSocket};

/// Average numbers of busy cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoresUsed {
    /// All cores of the machine, busy or not.
    pub all: usize,
    pub busy: f64,
    /// `None` if the server runs on another machine, or if its processor time is unknown.
    pub server: Option<f64>,
    pub client: f64,
    /// `None` if this program has not started mailnet.
    pub mailnet: Option<f64>,
    /// The rest; `None` if it may contain the server.
    pub others: Option<f64>,
}

/// The processor times at one moment.
#[derive(Debug, Clone, Copy)]
pub struct CoreTimes {
    machine: Option<MachineTimes>,
    /// This process, with the programs that it started and that have ended.
    client: f64,
    mailnet: Option<f64>,
}

impl CoreTimes {
    /// The times of the machine, of this process with its ended children, and of mailnet up to now.
    pub fn now(watched: Watched) -> CoreTimes {
        let client = clock_gettime(ClockId::ProcessCPUTime);
        CoreTimes {
            machine: machine_times(),
            client: client.tv_sec as f64 + client.tv_nsec as f64 / 1e9 + ended_children_s(),
            mailnet: watched.mailnet.and_then(cpu_s),
        }
    }

    /// The busy share of all cores since an earlier time.
    pub fn busy_since(&self, before: &CoreTimes) -> Option<f64> {
        self.machine?.busy_since(before.machine?)
    }

    /// The use since an earlier time. `server` is the processor time of the server in `seconds`.
    pub fn used_since(
        &self,
        before: &CoreTimes,
        seconds: f64,
        server: Option<f64>,
        server_is_here: bool,
    ) -> Option<CoresUsed> {
        let seconds = seconds.max(0.001);
        let all = self.machine?.cores();
        let busy = self.busy_since(before)? * all as f64;
        let client = (self.client - before.client) / seconds;
        let mailnet =
            self.mailnet.zip(before.mailnet).map(|(after, before)| (after - before).max(0.0) / seconds);
        let server = server.filter(|_| server_is_here).map(|server| server / seconds);
        let own = client + mailnet.unwrap_or(0.0) + server.unwrap_or(0.0);
        let others = (server.is_some() || !server_is_here).then(|| (busy - own).max(0.0));
        Some(CoresUsed { all, busy, server, client, mailnet, others })
    }
}

impl CoresUsed {
    /// The busy share of all cores.
    pub fn share(&self) -> f64 {
        self.busy / self.all as f64
    }

    /// Whether other programs use more than half of the busy time.
    pub fn is_of_others(&self) -> bool {
        self.others.is_some_and(|others| others > self.busy / 2.0)
    }

    /// One line for reports.
    pub fn line(&self) -> String {
        let parts = [
            ("the server", self.server),
            ("this client", Some(self.client)),
            ("mailnet", self.mailnet),
            ("other programs", self.others),
        ];
        let parts = parts.iter().filter_map(|(name, cores)| Some(format!("{name} {:.2}", (*cores)?)));
        let cores = if self.all == 1 { "core".into() } else { format!("{} cores", self.all) };
        let parts: Vec<String> = parts.collect();
        format!(
            "machine: {:.0} % busy; of its {cores}, these are used: {}",
            self.share() * 100.0,
            parts.join(", ")
        )
    }

    /// A warning if the machine was full.
    pub fn warning(&self) -> Option<String> {
        let busy = format!("this machine was {:.0} % busy", self.share() * 100.0);
        match self.others {
            _ if self.share() <= MACHINE_BUSY => None,
            Some(others) if self.is_of_others() => {
                Some(format!("{busy}, and {}", others_of_all(others, self.all)))
            }
            _ => Some(format!("{busy}, so the figures may show the limit of its CPU")),
        }
    }
}

/// The work of other programs, with the advice.
pub fn others_of_all(others: f64, all: usize) -> String {
    let cores = if all == 1 { "the only core".into() } else { format!("the {all} cores") };
    format!("other programs used {others:.2} of {cores}: end them and repeat")
}

/// The processor time of the programs that this process started and that have ended, in seconds; 0 if it is unknown.
fn ended_children_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").ok();
    stat.and_then(|stat| ticks(&stat, 16)).unwrap_or(0) as f64
        / rustix::param::clock_ticks_per_second() as f64
}

/// Whether an address belongs to this machine: only then a socket can have it.
pub fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busy: f64, server: Option<f64>, server_is_here: bool) -> CoresUsed {
        let others = (server.is_some() || !server_is_here).then(|| busy - server.unwrap_or(0.0) - 0.1);
        CoresUsed { all: 2, busy, server, client: 0.1, mailnet: None, others }
    }

    #[test]
    fn a_full_machine_has_a_warning_that_names_the_others() {
        assert_eq!(used(1.7, Some(1.5), true).warning(), None);
        let own = used(1.98, Some(1.5), true).warning().unwrap();
        assert_eq!(own, "this machine was 99 % busy, so the figures may show the limit of its CPU");
        let others = used(1.98, Some(0.08), true).warning().unwrap();
        let wanted =
            "this machine was 99 % busy, and other programs used 1.80 of the 2 cores: end them and repeat";
        assert_eq!(others, wanted);
        // The server may be the rest.
        let unknown = used(1.98, None, true);
        assert!(!unknown.is_of_others() && unknown.warning().unwrap().contains("limit of its CPU"));
        assert!(used(1.98, None, false).is_of_others(), "the server is elsewhere");
        let line = "machine: 99 % busy; of its 2 cores, these are used: the server 0.08, this client 0.10, other programs 1.80";
        assert_eq!(used(1.98, Some(0.08), true).line(), line);
    }

    #[test]
    fn the_use_of_this_process_is_measured() {
        let before = CoreTimes::now(Watched::default());
        let began = std::time::Instant::now();
        let mut sum = 0u64;
        while began.elapsed().as_millis() < 100 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let seconds = began.elapsed().as_secs_f64();
        let used = CoreTimes::now(Watched::default()).used_since(&before, seconds, Some(0.0), true).unwrap();
        assert!(used.all > 0 && used.busy > 0.0 && used.client > 0.0, "{used:?}");
        assert!(is_here("127.0.0.1".parse().unwrap()) && !is_here("192.0.2.1".parse().unwrap()));
    }
}
