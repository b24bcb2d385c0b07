//! `cargo xtask soak NAME`: long campaigns that stress the product and check its invariants.
//!
//! [`CampaignName`] says what each proves; its code is in the file or folder with its name (`crash` and `batches`: in kills/). The
//! others are shared: servers and their ledgers (world.rs), clients (api.rs, client.rs, visitor.rs, crowd.rs), and the comparison
//! of what clients were told with the ledger (judge.rs).
//!
//! Each has a small version with a fixed seed for `.ci/run`. A campaign returns an error if it cannot be set up, or if a step of it
//! fails in an unexpected way; what its checks find is in its counts. docs/testing.md describes what each of them proves.

mod abuse;
pub mod api;
mod assistants;
mod canary;
pub mod client;
pub mod cluster;
mod credits;
pub mod crowd;
mod customer;
mod disk;
pub mod downloads;
mod evidence;
mod fuzz;
mod hostile;
mod installation;
mod intercept;
mod iofault;
mod judge;
mod kills;
mod list;
mod list_output;
mod list_rows;
mod lists;
mod load;
mod manners;
mod options;
mod outage;
mod outputs;
mod peers;
mod power;
mod races;
mod retry;
mod slow_peers;
mod ssrf;
mod state;
mod stops;
mod store_test;
mod tenants;
mod timeleft;
pub mod transport;
mod unread;
pub mod visitor;
pub mod world;

use crate::interop::process;
use crate::interop::report;
use options::CampaignName;
pub use options::SoakOptions;
use std::process::ExitCode;

/// Runs one campaign and prints its counts; the exit code is 0 if nothing failed.
pub fn main(options: &SoakOptions) -> ExitCode {
    let outcome = process::watch_signals().and_then(|()| match options.name {
        CampaignName::Hostile => hostile::run(options),
        CampaignName::Crash => kills::run(options, &kills::CRASH),
        CampaignName::Kills => kills::run(options, &kills::KILLS),
        CampaignName::Credits => credits::run(options),
        CampaignName::Batches => kills::run(options, &kills::BATCHES),
        CampaignName::Canary => canary::run(options),
        CampaignName::Outage => outage::run(options),
        CampaignName::List => list::run(options),
        CampaignName::Lists => lists::run(options),
        CampaignName::Parts => list::parts::run(options),
        CampaignName::Stops => stops::run(options),
        CampaignName::Retry => retry::run(options),
        CampaignName::Races => races::run(options),
        CampaignName::Timeleft => timeleft::run(options),
        CampaignName::State => state::run(options),
        CampaignName::Abuse => abuse::run(options),
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
    report::end("soak", outcome)
}
