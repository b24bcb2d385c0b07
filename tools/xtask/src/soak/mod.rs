//! `cargo xtask soak NAME`: long campaigns that stress the product and check its invariants.
//!
//! - `hostile` (hostile.rs): thousands of sessions with peers that misbehave in every way that mailnet supports;
//! - `crash` (crash.rs): `kill -9` of the server while hundreds of charged checks are under way;
//! - `kills` (kills/): `kill -9` and SIGTERM under a load of every kind of request;
//! - `credits` (credits.rs): many clients spend the last credits of an account at once;
//! - `batches` (batches.rs): `kill -9` of a server that accepts and works on batches;
//! - `outage` (outage.rs): the server reaches no resolver or mail server, at eight points of its work;
//! - `canary` (canary.rs): personal data is found nowhere, and nothing of it after its retention;
//! - `list` (list.rs): `mailprobe clean` of a long list, killed again and again;
//! - `lists` (lists.rs): `kill -9` of the server during the upload, the check and the download of a list over the API;
//! - `parts` (parts.rs): `mailprobe clean --part` of a long list, each part killed once, and `--join`;
//! - `stops` (stops/): `mailprobe clean` stopped by signals and `kill -9` again and again, and resumed;
//! - `retry` (retry/): `mailprobe clean --retry` of outputs with open rows, round after round;
//! - `timeleft` (timeleft/): the time left that `mailprobe clean` shows, beside the time that it takes;
//! - `state` (state.rs): `mailprobe clean` four times at once on one state file, with kills;
//! - `slow` (slow.rs): thousands of slow connections, and one good client beside them;
//! - `unread` (unread.rs): thousands of connections whose clients read no answer, and the memory of the server;
//! - `abuse` (abuse/): slow, greedy and malformed clients at once, over HTTP and over TLS, and good clients beside
//!   them;
//! - `tenants` (tenants/): other accounts, or strangers, take of each shared thing as much as they may, beside a customer;
//! - `races` (races/): what is begun with a password, a session or a key, while it is replaced, deleted or revoked;
//! - `fuzz` (fuzz/): malformed input to every parser of data from strangers, operators and the store's file;
//! - `evidence` (evidence/): servers that stop distinguishing mailboxes, and honest ones beside them;
//! - `manners` (manners/): a client must not look like a directory harvest to a mail server;
//! - `power` (power/): the power fails while the ledger is written, and again while it recovers;
//! - `iofault` (iofault/): the disk fails at each operation of a server;
//! - `cluster` (cluster/): faults of nodes, of their PostgreSQL servers and of the network between them;
//! - `ssrf` (ssrf/): mail hosts and hosts of OAuth clients whose addresses are not public.
//!
//! Each has a small version with a fixed seed for `.ci/run`. docs/testing.md describes what each of them proves.

mod abuse;
mod batches;
mod canary;
pub mod client;
pub mod cluster;
mod crash;
mod credits;
mod disk;
pub mod downloads;
mod evidence;
mod fuzz;
mod hostile;
pub mod http;
mod installation;
mod intercept;
mod iofault;
mod kills;
mod list;
mod list_output;
mod list_rows;
mod lists;
mod load;
mod manners;
mod outage;
mod parts;
mod peers;
mod power;
mod races;
mod retry;
mod slow;
mod slow_peers;
mod ssrf;
mod state;
mod stops;
mod tenants;
mod timeleft;
pub mod transport;
mod unread;
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

/// The options of `cargo xtask soak`.
#[derive(Args)]
pub struct SoakOptions {
    /// Campaign.
    #[arg(value_enum)]
    name: CampaignName,
    /// The version of `.ci/run`: debug builds, a fixed seed, under a minute (cluster: three minutes, and not in `.ci/run`).
    #[arg(long)]
    small: bool,
    /// Seed of the random draws [default: a fixed seed with --small, otherwise the current time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// fuzz: longest time for each target, in seconds [default: 4 of CPU time with --small, otherwise no limit].
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// kills: number of kills [default: 12 with --small, otherwise 1,000].
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// cluster: number of faults [default: 4 with --small, otherwise 200].
    #[arg(long, value_name = "N")]
    faults: Option<usize>,
    /// fuzz: number of inputs for each target [default: a number per target, 10^9 in all]. Not with --small.
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// fuzz: replace tools/fuzz/corpus by the inputs that reach new code. Not with --small.
    #[arg(long)]
    keep: bool,
    /// Use `mailprobe` and `mailnet` (fuzz without --small: `fuzz-TARGET`) from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    bin_dir: Option<PathBuf>,
    /// abuse, unread, races, evidence, manners, iofault, power, cluster, fuzz, timeleft: run only the parts with this text in their name.
    /// A part is an attack, a route, a server, a check, a fault, a target or a run, depending on the campaign.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// cluster: the `mailprobe` of an earlier version, from which `upgrade` starts and to which it goes back [default: the same].
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
    /// fuzz: run only this input, in the form that a failure prints.
    #[arg(long, value_name = "TARGET:HEX")]
    replay: Option<String>,
    /// ssrf: the outer network namespace, if this process already has namespaces of its own.
    #[arg(long, hide = true)]
    outside: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CampaignName {
    /// 10,000 sessions with misbehaving peers: no panic, no leak, right verdicts.
    Hostile,
    /// Kill the server with 200 checks in progress: no credit is lost.
    Crash,
    /// Kill the server 1,000 times under all kinds of requests: answers stay valid.
    Kills,
    /// Many clients spend the last credits of an account at the same time: the server charges no more than there are.
    Credits,
    /// Kill the server while it accepts and processes batches: each batch is complete and charged once.
    Batches,
    /// No resolver, port 25 closed, a full queue, a drain: 503, no wrong verdict, and no credit is lost.
    Outage,
    /// Addresses with a marker in their text, in every flow: no log, metric, refusal or file has them, and they expire.
    Canary,
    /// Thousands of slow connections: a good client still gets fast answers.
    Slow,
    /// Thousands of connections that read no answers, on every route, over HTTP and TLS: the memory of the server stays bounded.
    Unread,
    /// Accounts and strangers take of each shared thing as much as they may: the requests of another account succeed, and soon.
    Tenants,
    /// Slow, greedy and malformed requests over HTTP and TLS: good clients get their answers, and no hidden request runs.
    Abuse,
    /// Kill `clean` of a long list several times: each line is in the output once, with its verdict.
    List,
    /// Kill the server during upload, check and download of a list over the API: each row is there once, each address paid once.
    Lists,
    /// Clean a long list in three parts, each killed once: their join is the output of one run, and no row is checked again.
    Parts,
    /// Stop `clean` 200 times by SIGINT, SIGTERM and kill -9: the output is as without a stop, and nobody is asked twice.
    Stops,
    /// Retry outputs with open rows in ten rounds: only those are asked about, and all other rows keep their bytes.
    Retry,
    /// Sign-ins, keys, consents, uploads and tokens, while the password is replaced or the key revoked: nothing works afterwards.
    Races,
    /// The time left on the terminal, every second in 20 runs of `clean`, beside the true one.
    Timeleft,
    /// Four `clean` at once on one state file, some killed: no run is refused, and each budget holds over all of them.
    State,
    /// Kill, pause and cut off nodes, PostgreSQL servers and etcd: each answered request is in the ledger once (root).
    Cluster,
    /// Malformed input for every parser.
    Fuzz,
    /// The behaviour that a mail server sees: refusals per hour, control recipients, sessions after a 421, tarpits.
    Manners,
    /// Servers that stop distinguishing mailboxes: no list confirms a mailbox wrongly.
    Evidence,
    /// Hosts at addresses that are not public: they get no packet (root).
    Ssrf,
    /// The power fails during writes and during recovery: no answered write is lost.
    Power,
    /// The disk fails at each operation of a server: no answered write is lost, and reads continue.
    Iofault,
}

impl SoakOptions {
    /// Whether the option `only` admits this name.
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

/// Runs one campaign and prints its counts; the exit code is 0 if nothing failed.
pub fn main(options: &SoakOptions) -> ExitCode {
    let outcome = process::watch_signals().and_then(|()| match options.name {
        CampaignName::Hostile => hostile::run(options),
        CampaignName::Crash => crash::run(options),
        CampaignName::Kills => kills::run(options),
        CampaignName::Credits => credits::run(options),
        CampaignName::Batches => batches::run(options),
        CampaignName::Canary => canary::run(options),
        CampaignName::Outage => outage::run(options),
        CampaignName::List => list::run(options),
        CampaignName::Lists => lists::run(options),
        CampaignName::Parts => parts::run(options),
        CampaignName::Stops => stops::run(options),
        CampaignName::Retry => retry::run(options),
        CampaignName::Races => races::run(options),
        CampaignName::Timeleft => timeleft::run(options),
        CampaignName::State => state::run(options),
        CampaignName::Abuse => abuse::run(options),
        CampaignName::Slow => slow::run(options),
        CampaignName::Unread => unread::run(options),
        CampaignName::Tenants => tenants::run(options),
        CampaignName::Cluster => cluster::run(options),
        CampaignName::Fuzz => fuzz::run(options),
        CampaignName::Manners => manners::run(options),
        CampaignName::Evidence => evidence::run(options),
        CampaignName::Ssrf => ssrf::run(options),
        CampaignName::Power => power::run(options),
        CampaignName::Iofault => iofault::run(options),
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
