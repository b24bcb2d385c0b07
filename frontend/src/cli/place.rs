//! The location of the store for administrative commands.

use server::admin::Command;
use server::admin::access::{AccessError, StoreAccess};
use server::admin::{ACCOUNTS_PER_PAGE, Response};
use std::io;
use std::path::Path;
use store::{Account, PlanTable, UnixMs};

/// The store of a command.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The data folder.
    pub data: &'a Path,
    /// The plans, if no server runs. A running server has its own.
    pub plans: &'a PlanTable,
    /// The address at which users reach the server.
    pub base_url: &'a str,
    /// The current time.
    pub now: UnixMs,
}

/// Runs one command. `create` allows the creation of a store if there is none.
pub(super) fn execute(place: Place<'_>, create: bool, command: Command) -> Result<Response, String> {
    execute_or_tell(place, create, command).map_err(|error| error.to_string())
}

/// Like [`execute`], but its error shows whether the command may have taken effect.
pub(super) fn execute_or_tell(
    place: Place<'_>,
    create: bool,
    command: Command,
) -> Result<Response, AccessError> {
    StoreAccess::open(place.data, place.plans, create, place.now)?.execute(command, place.now)
}

/// Runs a command that needs a running server.
pub(super) fn execute_running(place: Place<'_>, command: Command) -> Result<Response, String> {
    match StoreAccess::running(place.data).map_err(|error| error.to_string())? {
        Some(mut access) => access.execute(command, place.now).map_err(|error| error.to_string()),
        None => Err(format!(
            "no server runs on {}; start it, or name its data folder with --data",
            place.data.display()
        )),
    }
}

/// Reads all accounts, page by page over one connection.
pub(super) fn all_accounts(place: Place<'_>) -> Result<Vec<Account>, String> {
    let mut access = open(place, false)?;
    let mut all: Vec<Account> = Vec::new();
    loop {
        let command = Command::AccountList { after: all.last().map(|account| account.id) };
        match access.execute(command, place.now).map_err(|error| error.to_string())? {
            Response::Accounts(page) => {
                let is_last = page.len() < ACCOUNTS_PER_PAGE;
                all.extend(page);
                if is_last {
                    return Ok(all);
                }
            }
            other => return Err(unexpected(&other)),
        }
    }
}

pub(super) fn open(place: Place<'_>, create: bool) -> Result<StoreAccess, String> {
    StoreAccess::open(place.data, place.plans, create, place.now)
        .map_err(|error: AccessError| error.to_string())
}

/// The error for an answer that does not fit the command.
pub(super) fn unexpected(response: &Response) -> String {
    let kind = match response {
        Response::Account(_) => "an account",
        Response::Accounts(_) => "accounts",
        Response::Shown(_) => "an account with its ledger",
        Response::Limits(_) => "limits",
        Response::Key(_) => "a key",
        Response::Keys(_) => "keys",
        Response::Metrics(_) => "metrics",
        Response::BackupFollows => "a backup",
        Response::Clock(_) => "the time",
        Response::Done => "a confirmation",
    };
    format!("the server answered with {kind}, which the command did not request")
}

/// The error for a failed write to standard output.
pub(super) fn output_failed(error: io::Error) -> String {
    format!("cannot write the output: {error}")
}
