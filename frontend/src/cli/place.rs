//! The location of the store for administrative commands.

use super::program::VERSION;
use server::admin::Command;
use server::admin::access::{AccessError, StoreAccess};
use server::admin::{ACCOUNTS_PER_PAGE, ListedAccount, Response};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use store::{OpenError, PlanTable, UnixMs};
use store_pg::{ClusterPlace, NodeFolder};
use store_redb::{DATABASE_FILE, StoreOptions};
use store_rules::Store;

/// The store of a command.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The data folder.
    pub data: &'a Path,
    /// Whether the operator named the data folder. Otherwise `data` is the default.
    pub data_is_named: bool,
    /// The database of the cluster; `None`: the store is in the data folder.
    pub cluster: Option<&'a ClusterPlace>,
    /// The plans, if no server runs. A running server has its own.
    pub plans: &'a PlanTable,
    /// The address at which users reach the server, if no server runs. A running server knows its own.
    pub base_url: &'a str,
    /// The current time.
    pub now: UnixMs,
}

impl Place<'_> {
    /// The address at which users reach the server. If no server runs, it is that of the configuration, and a note on standard error
    /// says so.
    pub fn base_url(self) -> String {
        match execute_running(self, Command::BaseUrl) {
            Ok(Response::BaseUrl(url)) => url,
            // No server runs, or one of an earlier version.
            Ok(_) | Err(_) => {
                note("no running server told its address, so this is the address of the configuration");
                self.base_url.to_owned()
            }
        }
    }

    /// Refuses to create the default data folder: whoever forgot `--data` would get a second store, unknown to the server.
    ///
    /// # Errors
    ///
    /// The folder does not exist, and the operator did not name it.
    pub(super) fn refuse_default(self) -> Result<(), AccessError> {
        let is_there = self.data_is_named || self.data.exists();
        if is_there { Ok(()) } else { Err(AccessError::NoStore(self.data.to_owned())) }
    }

    /// Opens the store, if no server runs; `None`: there is none. `create` allows the creation of a store.
    fn open_stopped(self, create: bool) -> Result<Option<Arc<Store>>, OpenError> {
        let (plans, now) = (self.plans.clone(), self.now);
        if let Some(cluster) = self.cluster {
            let folder = NodeFolder::open(self.data)?;
            let store = store_pg::open_for_command(cluster, folder, VERSION.into(), plans, now);
            return store.map(Some).map_err(in_cluster);
        }
        refuse_node(self.data)?;
        if !create && !self.data.join(DATABASE_FILE).exists() {
            return Ok(None);
        }
        let (is_new, had_folder) = (!self.data.join(DATABASE_FILE).exists(), self.data.exists());
        let (store, _) = store_redb::open(self.data, plans, StoreOptions::default(), now)?;
        if is_new {
            // It may be a typing mistake: then the server would not know what the command has done.
            let made = if had_folder { "a new database in the folder" } else { "a new data folder at" };
            let data = self.data.display();
            note(&format!("created {made} {data}; a server uses the folder that its own --data names"));
        }
        Ok(Some(store))
    }
}

/// Tells the operator something besides the result, which does not depend on it.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

/// Refuses the folder of a node if the configuration names no PostgreSQL: a database in it would be one more.
///
/// # Errors
///
/// [`OpenError::OtherKind`].
pub(super) fn refuse_node(data: &Path) -> Result<(), OpenError> {
    let why = "is the folder of a node of a cluster, and the configuration names no PostgreSQL; set store_url or store_url_file";
    if store_pg::has_identity(data) && !data.join(DATABASE_FILE).exists() {
        return Err(OpenError::OtherKind { folder: data.to_owned(), why });
    }
    Ok(())
}

/// The remedy for wrong keys in a cluster.
pub(super) fn in_cluster(error: OpenError) -> OpenError {
    match error {
        OpenError::OtherKeys { folder, .. } => {
            let why = "has the keys of another cluster; name an empty folder with --data, and use `mailprobe cluster join FILE` with \
                       the bundle of this cluster";
            OpenError::OtherKind { folder, why }
        }
        other => other,
    }
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
    if create {
        place.refuse_default()?;
    }
    StoreAccess::open(place.data, &|| place.open_stopped(create))?.execute(command, place.now)
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
pub(super) fn all_accounts(place: Place<'_>) -> Result<Vec<ListedAccount>, String> {
    let mut access = open(place, false)?;
    let mut all: Vec<ListedAccount> = Vec::new();
    loop {
        let command = Command::AccountList { after: all.last().map(|listed| listed.account.id) };
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
    StoreAccess::open(place.data, &|| place.open_stopped(create))
        .map_err(|error: AccessError| error.to_string())
}

/// The error for an answer that does not fit the command.
pub(super) fn unexpected(response: &Response) -> String {
    let kind = match response {
        Response::Account(_) => "an account",
        Response::Accounts(_) => "accounts",
        Response::Shown(_) => "an account with its ledger",
        Response::Deleted { .. } => "a deletion",
        Response::Exported(_) => "an export",
        Response::Limits(_) => "limits",
        Response::Key(_) => "a key",
        Response::Keys(_) => "keys",
        Response::Metrics(_) => "metrics",
        Response::BackupFollows => "a backup",
        Response::Clock(_) => "the time",
        Response::BaseUrl(_) => "an address",
        Response::Done => "a confirmation",
    };
    format!("the server answered with {kind}, which the command did not request")
}

/// The error for a failed write to standard output.
pub(super) fn output_failed(error: io::Error) -> String {
    format!("cannot write the output: {error}")
}
