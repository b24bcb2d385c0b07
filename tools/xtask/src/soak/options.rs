//! The options of all campaigns.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The seed of the small versions.
const SMALL_SEED: u64 = 1;

/// Makes a struct of the figures of a campaign, each with its value in the full version and in the small one.
macro_rules! sizes {
    (
        $(#[$about:meta])*
        struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty = $full:expr, $small:expr;)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        struct $name { $($(#[$of_field])* $field: $type,)+ }

        impl $name {
            const fn of(small: bool) -> $name {
                if small { $name { $($field: $small,)+ } } else { $name { $($field: $full,)+ } }
            }
        }
    };
}
pub(super) use sizes;

/// The options of `cargo xtask soak`.
#[derive(Args)]
pub struct SoakOptions {
    /// Campaign.
    #[arg(value_enum)]
    pub(super) name: CampaignName,
    /// The version of `.ci/run`: debug builds, a fixed seed, under a minute (cluster: three minutes, and not in `.ci/run`).
    #[arg(long)]
    pub(super) small: bool,
    /// Seed of the random draws [default: a fixed seed with --small, otherwise the current time].
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// fuzz: longest time for each target, in seconds [default: 4 of CPU time with --small, otherwise no limit].
    #[arg(long, value_name = "N")]
    pub(super) seconds: Option<u64>,
    /// kills: number of kills [default: 12 with --small, otherwise 1,000].
    #[arg(long, value_name = "N")]
    pub(super) kills: Option<u32>,
    /// cluster: number of faults [default: 4 with --small, otherwise 200].
    #[arg(long, value_name = "N")]
    pub(super) faults: Option<usize>,
    /// fuzz: number of inputs for each target [default: a number per target, 10^9 in all]. Not with --small.
    #[arg(long, value_name = "N")]
    pub(super) runs: Option<u64>,
    /// fuzz: replace tools/fuzz/corpus by the inputs that reach new code. Not with --small.
    #[arg(long)]
    pub(super) keep: bool,
    /// Use `mailprobe` and `mailnet` (fuzz without --small: `fuzz-TARGET`) from this folder and do not build them.
    #[arg(long, value_name = "PATH")]
    pub(super) bin_dir: Option<PathBuf>,
    /// abuse, unread, races, evidence, manners, iofault, power, cluster, fuzz, timeleft: run only the parts with this text in their
    /// name. A part is an attack, a route, a server, a check, a fault, a target or a run, depending on the campaign.
    #[arg(long, value_name = "NAME")]
    pub(super) only: Option<String>,
    /// cluster: the `mailprobe` of an earlier version, from which `upgrade` starts and to which it goes back [default: the same].
    #[arg(long, value_name = "PATH")]
    pub(super) previous: Option<PathBuf>,
    /// fuzz: run only this input, in the form that a failure prints.
    #[arg(long, value_name = "TARGET:HEX")]
    pub(super) replay: Option<String>,
    /// ssrf: the outer network namespace, if this process already has namespaces of its own.
    #[arg(long, hide = true)]
    pub(super) outside: Option<PathBuf>,
}

/// The campaigns, by their names on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CampaignName {
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
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    pub(super) fn seed(&self) -> u64 {
        let by_the_clock = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |since| since.as_secs())
        };
        self.seed.unwrap_or_else(|| if self.small { SMALL_SEED } else { by_the_clock() })
    }
}
