//! `cargo xtask measure [NAME...]`: what mailprobe costs, for docs/performance.md.
//!
//! - `hosts` (hosts.rs): 20,000 addresses over 1,000 MX hosts that accept all, refuse all, or know their users;
//! - `drivers` (hosts.rs): the same list on each runtime and driver, on one shard and on two;
//! - `site` (site.rs): a million addresses of one site, beside smtp-source;
//! - `delay` (delay.rs): 20 ms between the client and the servers (root: it makes two network namespaces);
//! - `long` (long.rs): lists from ten thousand to ten million lines;
//! - `sessions` (sessions.rs): the memory of an open session;
//! - `sick` (sick.rs): three sick sites among a thousand;
//! - `api` (api.rs): checks over HTTP beside a bare hyper server;
//! - `intake` (intake.rs): batches accepted, beside redb alone;
//! - `instructions` (instructions.rs): instructions of checks, rows of a batch and addresses of a list, by valgrind;
//! - `downloads` (downloads.rs): what others wait while downloads of bombs run, beside a bare hyper server;
//! - `dns` (dns.rs): look-ups beside dnsperf;
//! - `records` (records.rs): the memory of 20,000 domains with 1.2 KB of MX records each;
//! - `bursts` (bursts.rs): a list beside Unbound, BIND, Knot Resolver and dnsmasq (root: it makes network namespaces).
//!
//! Nothing here fails for being slow: figures are for people to compare. A wrong verdict does fail.

mod api;
mod bursts;
mod cost;
mod delay;
mod dns;
mod downloads;
mod hosts;
mod instructions;
mod intake;
mod link;
mod loadtest;
mod long;
mod records;
mod resolvers;
mod sessions;
mod setting;
mod sick;
mod site;

use crate::interop::process;
use crate::interop::report::{self, Tally};
use crate::soak::world::World;
use clap::{Args, ValueEnum};
use cost::Cost;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use crate::interop::Failure;

#[derive(Args)]
pub struct Options {
    /// Which measurements [default: all but `long`, `api`, `downloads`, `intake`, `dns`, `records`, `bursts` and `instructions`]
    #[arg(value_enum)]
    names: Vec<Name>,
    /// Runs of each row; the one with the median CPU time is shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// long: the longest list, in lines.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    lines: u64,
    /// Take `mailprobe` and `mailnet` from this folder instead of building them for release.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
    /// Further flags for `mailprobe clean`.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// CPU where 1,000 hosts accept all, refuse all, or know their users.
    Hosts,
    /// CPU on each runtime and driver.
    Drivers,
    /// CPU where all are at one site.
    Site,
    /// Time where every answer takes 20 ms.
    Delay,
    /// CPU and memory where the list is long.
    Long,
    /// Memory of an open session.
    Sessions,
    /// Time that well sites take beside sick ones.
    Sick,
    /// CPU of checks over HTTP.
    Api,
    /// What others wait while costly downloads run.
    Downloads,
    /// How fast batches are accepted.
    Intake,
    /// CPU of look-ups.
    Dns,
    /// Memory where domains have many MX records.
    Records,
    /// Time and losses of a list's questions beside real resolvers.
    Bursts,
    /// Instructions of checks, rows of a batch and addresses of a list (valgrind).
    Instructions,
}

/// Measures, prints a table for each name and counts whether the verdicts were right.
pub fn main(options: &Options) -> ExitCode {
    report::end("measure", process::watch_signals().and_then(|()| run(options)))
}

fn run(options: &Options) -> Result<Tally, Failure> {
    let all = [Name::Hosts, Name::Drivers, Name::Site, Name::Delay, Name::Sessions, Name::Sick];
    let names = if options.names.is_empty() { &all[..] } else { &options.names };
    let world = World::of(options.bin_dir.as_deref(), true)?;
    let given = options.bin_dir.is_some();
    let bench =
        Bench { world, given, runs: options.runs, lines: options.lines, flags: options.flags.clone() };
    let mut tally = Tally::default();
    for name in names {
        match name {
            Name::Hosts => hosts::run(&bench, &mut tally)?,
            Name::Drivers => hosts::drivers(&bench, &mut tally)?,
            Name::Site => site::run(&bench, &mut tally)?,
            Name::Delay => delay::run(&bench, &mut tally)?,
            Name::Long => long::run(&bench, &mut tally)?,
            Name::Sessions => sessions::run(&bench, &mut tally)?,
            Name::Sick => sick::run(&bench, &mut tally)?,
            Name::Api => api::run(&bench, &mut tally)?,
            Name::Downloads => downloads::run(&bench, &mut tally)?,
            Name::Intake => intake::run(&bench, &mut tally)?,
            Name::Dns => dns::run(&bench, &mut tally)?,
            Name::Records => records::run(&bench, &mut tally)?,
            Name::Bursts => bursts::run(&bench, &mut tally)?,
            Name::Instructions => instructions::run(&bench, &mut tally)?,
        }
    }
    Ok(tally)
}

/// One run of `bursts` beside each resolver with the binaries of a folder, for the interop suite.
pub fn beside_resolvers(bin_dir: &Path, flags: &[String], tally: &mut Tally) -> Result<(), Failure> {
    let world = World::of(Some(bin_dir), true)?;
    let bench = Bench { world, given: true, runs: 1, lines: 0, flags: flags.to_vec() };
    bursts::beside_each(&bench, tally)
}

/// What all measurements have in common.
struct Bench {
    world: World,
    /// The binaries were given, and are not to be built.
    given: bool,
    runs: u32,
    lines: u64,
    flags: Vec<String>,
}

/// A line of a table.
struct Row {
    client: String,
    peer: String,
    addresses: u64,
    /// Verdicts that are what they should be; none where a client gives no verdicts.
    right: Option<u64>,
    cost: Cost,
}

impl Row {
    fn head() {
        report::line("| client | peer | addresses | right | s | CPU s | CPU s per 1,000 | MiB |");
        report::line("|---|---|---:|---:|---:|---:|---:|---:|");
    }

    fn print(&self) {
        let right = self.right.map_or_else(|| "-".to_owned(), |right| right.to_string());
        report::line(&format!(
            "| {} | {} | {} | {right} | {:.2} | {:.2} | {:.4} | {:.0} |",
            self.client,
            self.peer,
            self.addresses,
            self.cost.wall.as_secs_f64(),
            self.cost.cpu_s,
            self.per_thousand(),
            self.cost.peak_kib as f64 / 1024.0,
        ));
    }

    fn per_thousand(&self) -> f64 {
        self.cost.cpu_s * 1000.0 / self.addresses.max(1) as f64
    }

    /// Prints it and counts whether all its verdicts are right.
    fn check(&self, tally: &mut Tally) {
        self.print();
        if self.right.is_some_and(|right| right != self.addresses) {
            tally.failed += 1;
        } else {
            tally.passed += 1;
        }
    }
}

/// The run with the median CPU time.
fn median(mut costs: Vec<Cost>) -> Option<Cost> {
    costs.sort_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
    let middle = costs.len() / 2;
    (middle < costs.len()).then(|| costs.swap_remove(middle))
}
