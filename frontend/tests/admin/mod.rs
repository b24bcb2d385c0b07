//! The commands for operators from the command line: on a stopped store and over the socket of a server.

mod commands;
mod first_run;
mod socket;

use clap::Parser;
use frontend::cli::{account, key};
use server::admin::server::AdminServer;
use std::path::Path;
use std::sync::Arc;
use store::{PlanTable, UnixMs};
use store_redb::StoreOptions;
use store_rules::Store;
use tempfile::TempDir;

/// 2027-01-31T09:00:00Z.
const NOW: UnixMs = 1_801_386_000_000;

#[derive(Parser)]
enum CommandLine {
    Account(account::AccountArgs),
    Key(key::KeyArgs),
}

/// Runs a command line as `mailprobe` does with this data folder.
fn run(folder: &Path, line: &[&str]) -> Result<String, String> {
    run_at(folder, true, line)
}

/// Runs a command line as `mailprobe` does. Unless the data folder is named, it is the default.
fn run_at(folder: &Path, data_is_named: bool, line: &[&str]) -> Result<String, String> {
    let plans = PlanTable::standard();
    let place = account::Place {
        data: folder,
        data_is_named,
        cluster: None,
        plans: &plans,
        base_url: "http://t",
        now: NOW,
    };
    let line = std::iter::once(&"mailprobe").chain(line);
    let mut out = Vec::new();
    match CommandLine::try_parse_from(line).map_err(|error| error.to_string())? {
        CommandLine::Account(args) => account::run(args, place, &mut out)?,
        CommandLine::Key(args) => key::run(args, place, &mut out)?,
    }
    Ok(String::from_utf8(out).unwrap())
}

fn open(folder: &Path) -> Arc<Store> {
    store_redb::open(folder, PlanTable::standard(), StoreOptions::default(), NOW).unwrap().0
}

/// A folder, with a server on it or without.
struct Site {
    folder: TempDir,
    server: Option<AdminServer>,
}

impl Site {
    fn stopped() -> Site {
        Site { folder: tempfile::tempdir().unwrap(), server: None }
    }

    fn running() -> Site {
        let mut site = Site::stopped();
        site.server = Some(AdminServer::start(site.path(), open(site.path()), || NOW, None).unwrap());
        site
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, line: &[&str]) -> Result<String, String> {
        run(self.path(), line)
    }
}
