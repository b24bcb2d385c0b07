//! Checks over HTTP compared with a bare hyper server (bench/examples/hello.rs), with the same client, connections and
//! requests.
//!
//! The client is `mailprobe-loadtest`, which loads the two in turn. Both have one thread for HTTP; the server also has
//! one shard. The measured value is the processor time of the server per request: all its threads, with system time. It
//! depends on the number of requests that arrive at once, so only rows with the same load are comparable. The client
//! spins instead of sleeping. A sleeping client is woken for each answer of the slower server, and rarely for those of
//! the faster one, which would distort the comparison. With clients on other machines neither server has that cost.

use super::bench::Bench;
use super::loadtest::{LoadtestFigures, middle, verdict};
use super::wrk;
use crate::failure::{Context, Failure};
use crate::interop::process::ServerProcess;
use crate::interop::report::{self, Tally};
use crate::soak::world::listening;
use std::net::SocketAddr;
use std::process::Command;

/// The fewest fast checks per CPU second, as a share of the bare server's requests.
const SHARE_MIN: f64 = 0.5;
/// The most CPU time of a thousand full checks, in seconds.
const FULL_CPU_S_MAX: f64 = 0.12;
/// An unknown key with the length of a real one.
const KEY: &str = "mp_live_0000000000000000000000000000000000000000000000000";
const HOW_LONG: [&str; 5] = ["--spin", "--warm-up", "2s", "--duration", "8s"];
/// Options that give the reference and the server the same number of threads for HTTP.
const ONE_OF_EACH: [&str; 5] = ["--", "--frontends", "1", "--shards", "1"];

/// Measures, and counts whether the limits are kept.
///
/// # Errors
///
/// A run fails or takes too long. This applies to all measurements.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    bench.build_tools()?;
    report::line(
        "| server | load | requests/s | p99 ms | CPU us per request | requests per CPU s | relative to hyper |",
    );
    report::line("|---|---|---:|---:|---:|---:|---:|");
    let hello = Hello::start(bench, None)?;
    let mut shares = Vec::new();
    for load in [&["--clients", "64"][..], &["--rate", "10000", "--connections", "256", "--spread", "even"]] {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..bench.runs {
            bare.push(hello.load(bench, load)?);
            ours.push(spawned(bench, "fast=1", load)?);
        }
        let cost = |figures: &LoadtestFigures| figures.cpu_s_per_1000;
        let (bare, ours) = (middle(bare, cost)?, middle(ours, cost)?);
        let share = bare.cpu_s_per_1000 / ours.cpu_s_per_1000;
        row("hyper hello on monoio", load, &bare, 1.0);
        row("mailprobe, fast checks", load, &ours, share);
        shares.push(share);
        tally.passed += 1;
    }
    hello.stop()?;
    let load = ["--clients", "256"];
    let full = (0..bench.runs).map(|_| spawned(bench, "full=1", &load)).collect::<Result<Vec<_>, _>>()?;
    let full = middle(full, |figures| figures.cpu_s_per_1000)?;
    row("mailprobe, full checks", &load, &full, f64::NAN);
    tally.passed += 1;
    report::line("");
    let least = shares.into_iter().fold(f64::INFINITY, f64::min);
    verdict(
        &format!("fast checks per CPU s: {least:.2} of hyper's, at least {SHARE_MIN}"),
        least >= SHARE_MIN,
    );
    let cost = full.cpu_s_per_1000;
    verdict(
        &format!("{cost:.3} CPU s for 1,000 full checks, at most {FULL_CPU_S_MAX}"),
        cost <= FULL_CPU_S_MAX,
    );
    wrk::run(bench, tally)
}

fn spawned(bench: &Bench, mix: &str, load: &[&str]) -> Result<LoadtestFigures, Failure> {
    let mut flags = vec!["--spawn", "--mix", mix];
    flags.extend(load.iter().chain(&HOW_LONG).chain(&ONE_OF_EACH));
    bench.loadtest(&flags)
}

fn row(server: &str, load: &[&str], figures: &LoadtestFigures, share: f64) {
    let LoadtestFigures { rate, p99_ms, cpu_s_per_1000, .. } = figures;
    let load = match load {
        ["--clients", clients, ..] => format!("{clients} clients"),
        [_, rate, ..] => format!("{rate}/s"),
        _ => String::new(),
    };
    let share = if share.is_nan() { "-".to_owned() } else { format!("{share:.2}") };
    report::line(&format!(
        "| {server} | {load} | {rate:.0} | {p99_ms:.2} | {:.1} | {:.0} | {share} |",
        cpu_s_per_1000 * 1000.0,
        1000.0 / cpu_s_per_1000,
    ));
}

/// A running process of the bare server.
pub struct Hello {
    server: ServerProcess,
    /// The address at which it listens.
    pub address: SocketAddr,
    keys: String,
}

impl Hello {
    /// Starts the bare server on a driver, or on the best one.
    ///
    /// # Errors
    ///
    /// It does not print its address within the limit.
    pub fn start(bench: &Bench, driver: Option<&str>) -> Result<Hello, Failure> {
        let (log, keys) = (bench.world.path("hello.log"), bench.world.path("hello.keys"));
        std::fs::write(&keys, KEY).at(&keys)?;
        let mut command = Command::new(bench.example("hello"));
        command.args(driver);
        let mut server = ServerProcess::start("hello", command, &log)?;
        let address =
            listening(&mut server)?.ok_or_else(|| server.complain("it ended before it listened"))?;
        Ok(Hello { server, address, keys: keys.to_string_lossy().into_owned() })
    }

    fn load(&self, bench: &Bench, load: &[&str]) -> Result<LoadtestFigures, Failure> {
        let pid = self.server.id().to_string();
        let address = self.address.to_string();
        let mut flags = vec!["--server", &address, "--pid", &pid, "--key-file", &self.keys];
        flags.extend(["--mix", "fast=1"].iter().chain(load).chain(&HOW_LONG));
        bench.loadtest(&flags)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Ends the process and checks its status.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.server.kill()
    }
}
