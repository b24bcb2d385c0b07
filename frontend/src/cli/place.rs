//! Where the commands that administer a store find it.

use server::admin::Command;
use server::admin::access::{Access, AccessError};
use server::admin::{ACCOUNTS_PER_PAGE, Response};
use std::io;
use std::path::Path;
use store::{Account, PlanTable, UnixMs};

/// The store that a command is for.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The data folder.
    pub data: &'a Path,
    /// The plans, for when no server runs; one that runs has its own.
    pub plans: &'a PlanTable,
    /// Where people reach the server.
    pub base_url: &'a str,
    /// The time.
    pub now: UnixMs,
}

/// Does one command. `create` says whether a store may be made where there is none.
pub(super) fn execute(place: Place<'_>, create: bool, command: Command) -> Result<Response, String> {
    execute_or_tell(place, create, command).map_err(|error| error.to_string())
}

/// The same, for whoever has to know whether it may have been done all the same.
pub(super) fn execute_or_tell(
    place: Place<'_>,
    create: bool,
    command: Command,
) -> Result<Response, AccessError> {
    Access::open(place.data, place.plans, create, place.now)?.execute(command, place.now)
}

/// Does a command that only a running server can do.
pub(super) fn execute_running(place: Place<'_>, command: Command) -> Result<Response, String> {
    match Access::running(place.data).map_err(|error| error.to_string())? {
        Some(mut access) => access.execute(command, place.now).map_err(|error| error.to_string()),
        None => Err(format!(
            "no server runs on {}; start it, or name its folder with --data",
            place.data.display()
        )),
    }
}

/// All accounts, page by page over one connection.
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

pub(super) fn open(place: Place<'_>, create: bool) -> Result<Access, String> {
    Access::open(place.data, place.plans, create, place.now).map_err(|error: AccessError| error.to_string())
}

/// An answer of another kind than the command's: the server is not what it says.
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
        Response::Done => "that it is done",
    };
    format!("the server answered with {kind}, which was not asked for")
}

/// What a failed write to standard output means.
pub(super) fn output_failed(error: io::Error) -> String {
    format!("cannot write the output: {error}")
}
