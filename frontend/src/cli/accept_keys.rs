//! `mailprobe accept-keys` makes a database usable whose keys are lost. Without it the server refuses to start.

use super::place::{Place, output_failed};
use clap::Args;
use std::io::Write;
use store_redb::{DATABASE_FILE, RedbStore, StoreOptions};

/// What `--help` says.
pub const ABOUT: &str = "Use the keys that are in the data folder from now on, because those of its database are lost for good. Stop the server first.

A server does not start where the folder `keys` is missing or belongs to another database: put back the right one if there is any copy \
of it. Without it accounts, API keys and credits remain. Users of the dashboard have to sign up anew, and batches, lists and stored \
results cannot be read any longer: open rows are refunded when their time is over.";

/// Its arguments: none of its own.
#[derive(Debug, Clone, Args)]
pub struct AcceptKeysArgs {}

/// `mailprobe accept-keys`.
///
/// # Errors
/// One line for standard error.
pub fn run(_args: &AcceptKeysArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    if !place.data.join(DATABASE_FILE).exists() {
        return Err(format!(
            "there is no mailprobe data in {}; name the folder with --data",
            place.data.display()
        ));
    }
    let options = StoreOptions { accept_keys: true, ..StoreOptions::default() };
    let opened = RedbStore::open(place.data, place.plans.clone(), options, place.now);
    drop(opened.map_err(|error| error.to_string())?);
    writeln!(out, "{}: its keys are those of its database from now on", place.data.display())
        .map_err(output_failed)
}
