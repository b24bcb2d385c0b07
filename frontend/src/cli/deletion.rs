//! `mailprobe account delete`: the deletion of an account with all its data.

use super::place::{Place, execute, output_failed, unexpected};
use super::table::write_json;
use clap::Args;
use lists::shell;
use serde::Serialize;
use server::admin::{Command, Response};
use std::io::Write;
use std::time::{Duration, Instant};
use store::AccountId;

/// How long the command waits for checks under way, which end within two minutes.
const WAIT_MAX: Duration = Duration::from_secs(150);

/// The pause between two looks at a deletion that waits for checks.
const PAUSE: Duration = Duration::from_millis(500);

/// The arguments of the command.
#[derive(Debug, Clone, Args)]
pub struct DeletionArgs {
    /// The account's id or name.
    account: String,
    /// Confirm the deletion. The command does nothing without this flag.
    #[arg(long)]
    yes: bool,
}

impl DeletionArgs {
    /// What the deletion would remove, if it is not confirmed.
    pub fn unconfirmed(&self) -> Option<String> {
        let account = shell::quoted(&self.account);
        (!self.yes).then(|| {
            format!(
                "nothing was deleted. The deletion of {account} cannot be undone: it ends its keys, sign-ins, lists and batches, and \
                 removes its credits, results and webhooks. `mailprobe account export {account}` saves its data; \
                 the same command with --yes deletes it"
            )
        })
    }
}

/// The output for scripts.
#[derive(Serialize)]
struct Deleted {
    account: AccountId,
    complete: bool,
}

/// Runs the command.
///
/// # Errors
/// One line for standard error.
pub fn run(args: DeletionArgs, json: bool, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    if let Some(line) = args.unconfirmed() {
        return Err(line);
    }
    let deleted = delete(args.account, place)?;
    let written = if json {
        write_json(out, &deleted)
    } else if deleted.complete {
        writeln!(out, "the account {} is deleted; earlier backups still have its data", deleted.account)
    } else {
        writeln!(out, "the account {} is closed; the server removes the rest of its data", deleted.account)
    };
    written.map_err(output_failed)
}

fn delete(named: String, place: Place<'_>) -> Result<Deleted, String> {
    let began = Instant::now();
    let (mut account, mut again) = (named, false);
    loop {
        let deleted = match execute(place, false, Command::AccountDelete { account, again })? {
            Response::Deleted { account, complete } => Deleted { account, complete },
            other => return Err(unexpected(&other)),
        };
        if deleted.complete || began.elapsed() >= WAIT_MAX {
            return Ok(deleted);
        }
        std::thread::sleep(PAUSE);
        // The name is gone.
        (account, again) = (deleted.account.to_string(), true);
    }
}
