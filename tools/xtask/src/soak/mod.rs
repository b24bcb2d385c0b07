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
mod options;
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

use crate::failure::Failure;
use crate::interop::process;
use crate::interop::report::{self, Tally};
use options::CampaignName;
pub use options::SoakOptions;
use std::process::ExitCode;

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
