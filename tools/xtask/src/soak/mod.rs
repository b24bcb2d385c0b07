//! `cargo xtask soak NAME`: campaigns that wear the product down instead of asking it one question.
//!
//! - `hostile` (hostile.rs): thousands of sessions with peers that misbehave in every way that mailnet knows;
//! - `crash` (crash.rs): `kill -9` of the server while hundreds of charged checks are under way;
//! - `kills` (kills/): `kill -9` and SIGTERM under a load of everything that callers do;
//! - `credits` (credits.rs): many clients spend the last credits of an account at once;
//! - `batches` (batches.rs): `kill -9` of a server that accepts and works on batches;
//! - `outage` (outage.rs): the server can ask nobody, at eight points of its work;
//! - `canary` (canary.rs): personal data is found nowhere, and nothing of it after its retention;
//! - `list` (list.rs): `mailprobe clean` of a long list, killed again and again;
//! - `slow` (slow.rs): thousands of connections that take their time, and one good client among them;
//! - `abuse` (abuse/): slow, greedy and malformed clients at once, over HTTP and over TLS, and good clients among them;
//! - `fuzz` (fuzz/): malformed input to everything that reads what strangers, operators and the store's file say;
//! - `evidence` (evidence/): servers that stop telling mailboxes apart, and honest ones beside them;
//! - `manners` (manners/): what a mail server sees of a client that must not look like a directory harvest;
//! - `power` (power/): the power fails while the ledger is written, and again while it recovers;
//! - `iofault` (iofault/): the disk fails at each operation of a server;
//! - `ssrf` (ssrf/): mail hosts and hosts of OAuth clients whose addresses are not public.
//!
//! Each has a small version with a fixed seed for `.ci/run`. docs/testing.md tells what each of them proves.

mod abuse;
mod batches;
mod canary;
pub mod client;
mod crash;
mod credits;
mod disk;
pub mod downloads;
mod evidence;
mod fuzz;
mod hostile;
pub mod http;
mod intercept;
mod iofault;
mod kills;
mod list;
mod load;
mod manners;
mod outage;
mod peers;
mod power;
mod slow;
mod slow_peers;
mod ssrf;
pub mod transport;
pub mod visitor;
pub mod world;

use crate::interop::process;
use crate::interop::report::{self, Tally};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

pub use crate::interop::Failure;

/// The seed of the small versions.
const SMALL_SEED: u64 = 1;

#[derive(Args)]
pub struct Options {
    /// Which campaign.
    #[arg(value_enum)]
    name: Name,
    /// The version for `.ci/run`: under a minute, debug builds, a fixed seed.
    #[arg(long)]
    small: bool,
    /// What all draws come from; without it the small version has its own and the full one takes the time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// fuzz: seconds for each target; in the small version of CPU time (4), in the full one the most (no limit).
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// kills: so many of them (1,000, small: 12).
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// fuzz: inputs for each target (each has a number of its own; together 10^9). Not for the small version.
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// fuzz: write what was found to the corpora in tools/fuzz/corpus. Not for the small version.
    #[arg(long)]
    keep: bool,
    /// Take `mailprobe` and `mailnet` (fuzz: `fuzz-TARGET`, which its small version does not need) from this folder instead
    /// of building them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
    /// abuse, evidence, manners, iofault, power, fuzz: only the servers, checks, faults, parts or targets whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// fuzz: only run this one input, as a failure prints it.
    #[arg(long, value_name = "TARGET:HEX")]
    replay: Option<String>,
    /// ssrf: this process has namespaces of its own, and this is the network namespace that it is not in.
    #[arg(long, hide = true)]
    outside: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// 10,000 sessions with peers that misbehave: no panic, no leak, right verdicts meanwhile.
    Hostile,
    /// The server is killed with 200 checks under way: every credit is accounted for.
    Crash,
    /// `kill -9` and SIGTERM, 1,000 times, under checks, batches, lists, sign-ups and assistants: what was answered stays.
    Kills,
    /// Many clients spend an account's last credits at once: not one too many.
    Credits,
    /// The server is killed while it accepts and works on batches: each is there once, whole and paid once.
    Batches,
    /// Nothing can be asked: no resolver, port 25 closed, a full queue, a drain. Credits come back, verdicts do not lie.
    Outage,
    /// Addresses that are easy to find, through every flow: in no log, metric, error or file, and gone after the retention.
    Canary,
    /// Thousands of connections that take their time: a good client among them hardly notices.
    Slow,
    /// Slow, greedy and malformed clients over HTTP and TLS: good clients hardly notice, and nothing smuggled is run.
    Abuse,
    /// A long list is cleaned and the run killed again and again: each line comes out once, with its verdict.
    List,
    /// Malformed replies, DNS messages, addresses, bodies, uploads, lists, messages, forms, settings and rows.
    Fuzz,
    /// What a mail server sees of us: refusals in an hour, control names, sessions after a 421, tarpits.
    Manners,
    /// Servers that stop telling mailboxes apart: no mailbox is confirmed or denied on the word of such a server.
    Evidence,
    /// Hosts at addresses that are not public: no packet is sent to them (root).
    Ssrf,
    /// The power fails while the ledger is written and while it recovers: nothing that was answered is lost.
    Power,
    /// The disk fails at each operation of a server: nothing that was answered is lost, and reads go on.
    Iofault,
}

impl Options {
    /// Whether something of this name is to be looked at.
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    fn seed(&self) -> u64 {
        let by_the_clock = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |since| since.as_secs())
        };
        self.seed.unwrap_or_else(|| if self.small { SMALL_SEED } else { by_the_clock() })
    }
}

/// Runs one campaign.
pub fn main(options: &Options) -> ExitCode {
    let outcome = process::watch_signals().and_then(|()| match options.name {
        Name::Hostile => hostile::run(options),
        Name::Crash => crash::run(options),
        Name::Kills => kills::run(options),
        Name::Credits => credits::run(options),
        Name::Batches => batches::run(options),
        Name::Canary => canary::run(options),
        Name::Outage => outage::run(options),
        Name::List => list::run(options),
        Name::Abuse => abuse::run(options),
        Name::Slow => slow::run(options),
        Name::Fuzz => fuzz::run(options),
        Name::Manners => manners::run(options),
        Name::Evidence => evidence::run(options),
        Name::Ssrf => ssrf::run(options),
        Name::Power => power::run(options),
        Name::Iofault => iofault::run(options),
    });
    match outcome {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(Tally { passed, failed })) => {
            report::line(&format!("{passed} passed, {failed} failed"));
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(Failure(message)) => {
            report::line(&format!("soak: {message}"));
            report::line("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}
