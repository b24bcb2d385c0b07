//! `mailprobe accept-keys` makes a database with lost keys usable again. Without it the server refuses to start.

use super::place::{Place, output_failed};
use clap::Args;
use std::io::Write;
use store_redb::{DATABASE_FILE, StoreOptions};

/// The text of `--help`.
pub const ABOUT: &str = "Accept the keys that are now in the data folder, if the keys of its database are lost. Stop the server first.

The server does not start if the folder `keys` is missing or belongs to another database. If you have a copy of the right folder, \
restore this copy and do not use this command.

This command keeps accounts, API keys and credits, but no user can sign in to these accounts. To give a user access to the old \
account, run `mailprobe account set-password ACCOUNT --email ADDRESS` before the user signs up again. Batches, lists and stored results \
can no longer be read. The endpoints of webhooks get no more messages: delete them, and create new ones. The rows of open batches \
are refunded 6 days after the creation of the batch.";

/// The command has no arguments of its own.
#[derive(Debug, Clone, Args)]
pub struct AcceptKeysArgs {}

/// Runs `mailprobe accept-keys`.
///
/// # Errors
/// One line for standard error.
pub fn run(_args: &AcceptKeysArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    if place.cluster.is_some() {
        return Err("the keys of a cluster are in its bundle and in the folder `keys` of each node, so `accept-keys` does not apply; \
                    install a bundle with `mailprobe cluster join FILE`, or restore a backup with `mailprobe restore`"
            .into());
    }
    if !place.data.join(DATABASE_FILE).exists() {
        return Err(format!(
            "there is no mailprobe data in {}; name the folder with --data",
            place.data.display()
        ));
    }
    let options = StoreOptions { accept_keys: true, ..StoreOptions::default() };
    let opened = store_redb::open(place.data, place.plans.clone(), options, place.now);
    drop(opened.map_err(|error| error.to_string())?);
    writeln!(out, "{}: the database now uses the keys in this folder", place.data.display())
        .map_err(output_failed)
}
