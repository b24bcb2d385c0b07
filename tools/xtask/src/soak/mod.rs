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

use crate::failure::Failure;
use crate::interop::process;
use crate::interop::report::{self, Tally};
use options::CampaignName;
pub use options::SoakOptions;
use std::process::ExitCode;

/// Runs one campaign and prints its counts; the exit code is 0 if nothing failed.
pub fn main(options: &SoakOptions) -> ExitCode {
    let mut tally = Tally::default();
    let outcome = process::watch_signals().and_then(|()| run(options, &mut tally));
    report::end("soak", outcome.map(|()| tally))
}

fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    match options.name {
        CampaignName::Hostile => hostile::run(options, tally),
        CampaignName::Crash => kills::run(options, &kills::CRASH, tally),
        CampaignName::Kills => kills::run(options, &kills::KILLS, tally),
        CampaignName::Credits => credits::run(options, tally),
        CampaignName::Batches => kills::run(options, &kills::BATCHES, tally),
        CampaignName::Canary => canary::run(options, tally),
        CampaignName::Outage => outage::run(options, tally),
        CampaignName::List => list::run(options, tally),
        CampaignName::Lists => lists::run(options, tally),
        CampaignName::Parts => list::parts::run(options, tally),
        CampaignName::Stops => stops::run(options, tally),
        CampaignName::Retry => retry::run(options, tally),
        CampaignName::Races => races::run(options, tally),
        CampaignName::Timeleft => timeleft::run(options, tally),
        CampaignName::State => state::run(options, tally),
        CampaignName::Abuse => abuse::run(options, tally),
        CampaignName::Unread => unread::run(options, tally),
        CampaignName::Tenants => tenants::run(options, tally),
        CampaignName::Cluster => cluster::run(options, tally),
        CampaignName::Fuzz => fuzz::run(options, tally),
        CampaignName::Manners => manners::run(options, tally),
        CampaignName::Evidence => evidence::run(options, tally),
        CampaignName::Ssrf => ssrf::run(options, tally),
        CampaignName::Power => power::run(options, tally),
        CampaignName::Iofault => iofault::run(options, tally),
    }
}
