//! `cargo xtask measure [NAME...]`: the cost of mailprobe, for docs/performance.md, and its accuracy, for docs/accuracy.md.
//!
//! Each name of [`MeasurementName`] has a file of its own; `drivers` is in hosts.rs, and `api` also has wrk.rs.
//!
//! No measurement fails because it is slow: the figures are for comparison by people. A wrong verdict is a failure, except in `accuracy`,
//! which writes a page about them.

mod accuracy;
mod api;
mod bench;
mod bursts;
mod cluster;
pub mod cost;
mod delay;
mod dns;
mod downloads;
mod hosts;
mod instructions;
mod intake;
mod link;
mod loadtest;
mod long;
mod outputs;
mod plot;
mod records;
mod resolvers;
mod sessions;
mod setting;
mod sick;
mod site;
mod verifiers;
mod wrk;

use crate::failure::Failure;
use crate::interop::process;
use crate::interop::report::Tally;
use crate::soak::world::CampaignFolder;
use bench::Bench;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// The options of `cargo xtask measure`.
#[derive(Args)]
pub struct MeasureOptions {
    /// Measurements [default: all except `long`, `outputs`, `api`, `downloads`, `intake`, `dns`, `records`, `bursts`, `instructions`, `cluster`, `verifiers` and `accuracy`]
    #[arg(value_enum)]
    names: Vec<MeasurementName>,
    /// Number of runs of each row; the table shows the run with the median CPU time.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// long, outputs: length of the longest list, in lines.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    lines: u64,
    /// verifiers: file for the plot, as SVG.
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    /// cluster: keep the data of PostgreSQL on the disk of the folder for temporary files, and measure the writes alone.
    #[arg(long)]
    disk: bool,
    /// Use `mailprobe` and `mailnet` from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
    /// More flags for `mailprobe clean`.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MeasurementName {
    /// CPU time for 20,000 addresses over 1,000 hosts that accept all, refuse all, or know half of the recipients.
    Hosts,
    /// CPU time of the same list on each runtime and driver, on one shard and on two.
    Drivers,
    /// CPU time for a million addresses of one site, compared with smtp-source.
    Site,
    /// Time with a round trip of 20 ms (root: it creates network namespaces).
    Delay,
    /// CPU time and memory for lists from ten thousand to ten million lines.
    Long,
    /// CPU time and memory of further columns, files per class, the report and a spreadsheet.
    Outputs,
    /// Memory of an open session.
    Sessions,
    /// Time for healthy sites beside three faulty ones among a thousand.
    Sick,
    /// CPU time of checks over HTTP, compared with a bare hyper server (wrk).
    Api,
    /// Latency of other requests during downloads, compared with a bare hyper server.
    Downloads,
    /// Rate and latency of accepting batches, compared with redb alone.
    Intake,
    /// CPU time of DNS look-ups, compared with dnsperf.
    Dns,
    /// Memory for 20,000 domains with 1.2 KB of MX records each.
    Records,
    /// Time and lost questions of a list beside Unbound, BIND, Knot Resolver and dnsmasq (root: it creates network namespaces).
    Bursts,
    /// Instructions of checks, rows of a batch and addresses of a list (valgrind).
    Instructions,
    /// Writes of the store in PostgreSQL, and three nodes beside one (root: it creates network namespaces).
    Cluster,
    /// CPU time beside public verifiers (npm; root: it creates a network namespace).
    Verifiers,
    /// Confusion matrices of verdicts, replies, lists and bounces, for docs/accuracy.md (npm; root: it creates a network namespace).
    Accuracy,
}

impl MeasurementName {
    /// The programs that a measurement needs, with what installs them: the build before it takes minutes.
    fn tools(self) -> &'static [(&'static str, &'static str)] {
        match self {
            MeasurementName::Api => &[("wrk", "apt-get install wrk")],
            MeasurementName::Dns => &[("dnsperf", "apt-get install dnsperf")],
            MeasurementName::Instructions => &[("valgrind", "apt-get install valgrind")],
            MeasurementName::Verifiers | MeasurementName::Accuracy => {
                &[("npm", "apt-get install npm"), ("node", "apt-get install nodejs")]
            }
            MeasurementName::Hosts | MeasurementName::Site => &[("smtp-sink", "apt-get install postfix")],
            MeasurementName::Bursts => &[
                ("ip", "apt-get install iproute2"),
                ("nsd", "apt-get install nsd"),
                ("unbound", "apt-get install unbound"),
                ("named", "apt-get install bind9"),
                ("kresd", "apt-get install knot-resolver"),
                ("dnsmasq", "apt-get install dnsmasq-base"),
                ("smtp-sink", "apt-get install postfix"),
            ],
            _ => &[],
        }
    }
}

/// Measures, prints a table for each name and counts whether the verdicts were right.
pub fn run(options: &MeasureOptions) -> Result<Tally, Failure> {
    let all = [
        MeasurementName::Hosts,
        MeasurementName::Drivers,
        MeasurementName::Site,
        MeasurementName::Delay,
        MeasurementName::Sessions,
        MeasurementName::Sick,
    ];
    let names = if options.names.is_empty() { &all[..] } else { &options.names };
    for name in names {
        process::require(name.tools())?;
    }
    let world = CampaignFolder::of(options.bin_dir.as_deref(), true)?;
    let given = options.bin_dir.is_some();
    let bench =
        Bench { world, given, runs: options.runs, lines: options.lines, flags: options.flags.clone() };
    let mut tally = Tally::default();
    for name in names {
        match name {
            MeasurementName::Hosts => hosts::run(&bench, &mut tally)?,
            MeasurementName::Drivers => hosts::drivers(&bench, &mut tally)?,
            MeasurementName::Site => site::run(&bench, &mut tally)?,
            MeasurementName::Delay => delay::run(&bench, &mut tally)?,
            MeasurementName::Long => long::run(&bench, &mut tally)?,
            MeasurementName::Outputs => outputs::run(&bench, &mut tally)?,
            MeasurementName::Sessions => sessions::run(&bench, &mut tally)?,
            MeasurementName::Sick => sick::run(&bench, &mut tally)?,
            MeasurementName::Api => api::run(&bench, &mut tally)?,
            MeasurementName::Downloads => downloads::run(&bench, &mut tally)?,
            MeasurementName::Intake => intake::run(&bench, &mut tally)?,
            MeasurementName::Dns => dns::run(&bench, &mut tally)?,
            MeasurementName::Records => records::run(&bench, &mut tally)?,
            MeasurementName::Bursts => bursts::run(&bench, &mut tally)?,
            MeasurementName::Instructions => instructions::run(&bench, &mut tally)?,
            MeasurementName::Cluster => cluster::run(&bench, options.disk, &mut tally)?,
            MeasurementName::Verifiers => verifiers::run(&bench, options.plot.as_deref(), &mut tally)?,
            MeasurementName::Accuracy => accuracy::run(&bench, &mut tally)?,
        }
    }
    Ok(tally)
}

/// Runs `bursts` once beside each resolver with the binaries of a folder, for the interop suite.
pub fn beside_resolvers(bin_dir: &Path, flags: &[String], tally: &mut Tally) -> Result<(), Failure> {
    let world = CampaignFolder::of(Some(bin_dir), true)?;
    let bench = Bench { world, given: true, runs: 1, lines: 0, flags: flags.to_vec() };
    bursts::beside_each(&bench, tally)
}
