//! A list for `mailprobe clean`, and its cost.

use crate::sampler::{cpu_s, rss_kib};
use crate::scenario::Scenario;
use crate::world::{Counted, Process, Setting, World};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two readings of a process.
const LOOK: Duration = Duration::from_millis(20);
/// The longest duration of a list.
const LIMIT: Duration = Duration::from_secs(300);
/// How many domains alternate in a list.
const BLOCK: u64 = 50;
/// The limit on open sessions.
const SESSIONS: u64 = 1000;

/// A list with this number of addresses for each domain of a scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListWorkload {
    pub scenario: Scenario,
    pub each: u64,
}

/// The measured cost of a list.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub cpu_s: f64,
    pub seconds: f64,
    pub counted: Counted,
}

impl ListWorkload {
    /// The number of its addresses.
    pub fn addresses(&self) -> u64 {
        self.scenario.domains * self.each
    }

    /// The domain and the number of the row with this index: domains come in blocks and alternate within a block, as in
    /// a list that is neither sorted nor shuffled by domains.
    fn row(&self, index: u64) -> (u64, u64) {
        let block = index / (BLOCK * self.each);
        let width = BLOCK.min(self.scenario.domains - block * BLOCK);
        let within = index - block * BLOCK * self.each;
        (block * BLOCK + within % width + 1, within / width)
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "email")?;
        for index in 0..self.addresses() {
            let (domain, user) = self.row(index);
            writeln!(file, "user-{user}@d{domain}.example")?;
        }
        file.flush()
    }

    /// Cleans the list `runs` times; returns the run with the median CPU time.
    ///
    /// # Errors
    ///
    /// One line: a run failed.
    pub fn clean(&self, at: &Place<'_>, runs: u32) -> Result<Cost, String> {
        let mut costs = Vec::new();
        for _ in 0..runs.max(1) {
            let (world, process, began) = self.start(at, SESSIONS)?;
            let cpu_s = wait(process, began, at.stop)?;
            let seconds = began.elapsed().as_secs_f64();
            costs.push(Cost { cpu_s, seconds, counted: world.stop()? });
        }
        costs.sort_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s));
        let median = costs.len() / 2;
        costs.get(median).copied().ok_or_else(|| "no runs".into())
    }

    /// The resident memory in KiB while its hosts keep all sessions open.
    ///
    /// # Errors
    ///
    /// One line: the run failed.
    pub fn resident(&self, at: &Place<'_>) -> Result<(f64, f64), String> {
        let (_world, process, began) = self.start(at, self.addresses())?;
        let enough = self.addresses() - self.addresses() / 50;
        let (mut open, mut settled) = (0, None);
        loop {
            thread::sleep(Duration::from_millis(200));
            if at.stop.load(Ordering::Relaxed) || began.elapsed() > LIMIT {
                return Err("the sessions do not open".into());
            }
            open = sockets(process.pid()).ok_or("clean ended before its sessions were open")?.max(open);
            // Memory that was needed only to open the sessions is released.
            if open >= enough && settled.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(3) {
                let resident = rss_kib(process.pid()).ok_or("clean ended during the measurement")?;
                return Ok((open as f64, resident as f64));
            }
        }
    }

    fn start(&self, at: &Place<'_>, sessions: u64) -> Result<(World, Process, Instant), String> {
        let world = at.world(&self.scenario)?;
        let (input, output) = (world.path("list.csv"), world.path("out.csv"));
        self.write(&input).map_err(|error| format!("{}: {error}", input.display()))?;
        let mut command = world.mailprobe("clean")?;
        command.arg(&input).arg("-o").arg(&output).args(["--no-progress", "--format", "csv"]);
        command.args(["--column", "email", "--sessions", &sessions.to_string()]).args(world.flags());
        let began = Instant::now();
        let process = Process::start("mailprobe clean", command, &world.path("clean.log"))?;
        Ok((world, process, began))
    }
}

/// The environment in which workloads run.
pub struct Place<'a> {
    pub bin_dir: PathBuf,
    pub flags: &'a [String],
    pub stop: &'a AtomicBool,
}

impl Place<'_> {
    /// Starts a mail internet.
    ///
    /// # Errors
    ///
    /// One line: mailnet did not start.
    pub fn world(&self, scenario: &Scenario) -> Result<World, String> {
        World::start(Setting {
            bin_dir: self.bin_dir.clone(),
            scenario: scenario.text(),
            flags: self.flags.to_vec(),
            https: false,
            ca: None,
        })
    }
}

/// Waits for the end; returns the CPU time, which `/proc` has until the process is reaped.
fn wait(mut process: Process, began: Instant, stop: &AtomicBool) -> Result<f64, String> {
    let pid = process.pid();
    let id = Pid::from_raw(pid as i32).map(WaitId::Pid).ok_or("the process has no id")?;
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if waitid(id.clone(), options).map_err(|error| error.to_string())?.is_some() {
            let cpu = cpu_s(pid).ok_or("the process is not in /proc")?;
            process.ended()?;
            return Ok(cpu);
        }
        if stop.load(Ordering::Relaxed) {
            return Err("ended by a signal".into());
        }
        if began.elapsed() > LIMIT {
            return Err(format!("a list took longer than {} s", LIMIT.as_secs()));
        }
        thread::sleep(LOOK);
    }
}

/// The number of a process's descriptors that are sockets; a few of them are of UDP.
fn sockets(pid: u32) -> Option<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_socket = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Some(entries.filter_map(Result::ok).filter(is_socket).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_list_has_every_address_once() {
        for (domains, each) in [(1, 7), (49, 3), (50, 2), (120, 5)] {
            let workload = ListWorkload { scenario: Scenario::of(domains), each };
            let rows: HashSet<(u64, u64)> =
                (0..workload.addresses()).map(|index| workload.row(index)).collect();
            assert_eq!(rows.len() as u64, domains * each);
            assert!(rows.iter().all(|&(domain, user)| (1..=domains).contains(&domain) && user < each));
        }
    }
}
