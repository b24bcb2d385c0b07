//! The table of learned events, as `check`, `clean` and `serve` use it.

use super::installation;
use super::program::Failure;
use crate::config::{Config, StateFile};
use checks::keeper::Keeper;
use checks::own_evidence::OwnEvidence;
use learn::{Table, TableFile};
use std::sync::Arc;
use std::time::Duration;
use store::AccountId;
use store_rules::Store;

/// How often a server looks whether the table has changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The files of the table; `None`: the user wants none, or there is no folder for it.
pub(super) fn file(config: &Config) -> Option<TableFile> {
    let path = match &config.learned {
        Some(StateFile::None) => None,
        Some(StateFile::At(path)) => Some(path.clone()),
        None => installation::beside_state(config.state.as_ref(), "learned"),
    };
    path.map(TableFile::new)
}

/// The table, if there is one.
///
/// # Errors
/// It cannot be read.
pub(super) fn table(config: &Config) -> Result<Option<Table>, Failure> {
    let Some(file) = file(config) else { return Ok(None) };
    let table = file.read().map_err(|error| match config.learned {
        Some(_) => Failure::usage(error.0),
        None => Failure::failed(error.0),
    })?;
    if table.is_none() && config.learned.is_some() {
        tracing::warn!(
            "{} does not exist, so no bounce or delivery is used: make it with `mailprobe learn`",
            file.path().display()
        );
    }
    Ok(table)
}

/// The time in seconds since 1970.
pub(super) fn now() -> u64 {
    store::clock::now() / 1000
}

/// A time as text.
pub(super) fn date(at: u64) -> String {
    lists::utc_text(at)
}

/// The event of a rule, for people.
pub(super) fn name(rule: &str) -> &'static str {
    match rule {
        "own_delivery" => "a delivery of your own mail",
        _ => "a bounce of your own mail",
    }
}

/// Gives the table to a server, and again after each change of the file. `None`: no account uses it.
///
/// # Errors
/// No file is named, or the file or the store cannot be read.
pub(super) fn serve(
    config: &Config,
    store: &Store,
    evidence: &Arc<OwnEvidence>,
) -> Result<Option<Keeper>, Failure> {
    if config.learned_accounts.is_empty() {
        return Ok(None);
    }
    let Some(StateFile::At(path)) = &config.learned else {
        return Err(Failure::usage(
            "--learned-accounts needs the file of `mailprobe learn`: name it with --learned",
        ));
    };
    let mut accounts = Vec::new();
    for named in &config.learned_accounts {
        match account(store, named)? {
            Some(id) => accounts.push(id),
            // Its user may have deleted it. The other accounts need the server.
            None => tracing::warn!(
                "--learned-accounts: there is no account `{named}`; see `mailprobe account list`"
            ),
        }
    }
    let file = TableFile::new(path.clone());
    let (mut seen, mut warned) = (file.stamp(), None);
    evidence.replace(accounts.clone(), table(config)?);
    let evidence = Arc::clone(evidence);
    let look = move || {
        let stamp = file.stamp();
        if stamp == seen {
            return;
        }
        match file.read() {
            Ok(table) => {
                (seen, warned) = (stamp, None);
                match table {
                    Some(_) => tracing::info!("the table of learned events was read again"),
                    None => tracing::info!("the table of learned events was removed, so none is used"),
                }
                evidence.replace(accounts.clone(), table);
            }
            // It is read again at the next look.
            Err(error) => {
                let text = error.to_string();
                if warned.as_ref() != Some(&text) {
                    tracing::warn!(
                        "the table of learned events cannot be read, so the earlier one stays in use: {text}"
                    );
                    warned = Some(text);
                }
            }
        }
    };
    let keeper = Keeper::start("learned", LOOK_INTERVAL, look);
    keeper.map(Some).map_err(|error| {
        Failure::failed(format!("cannot start the thread that reads learned events: {error}"))
    })
}

fn account(store: &Store, named: &str) -> Result<Option<AccountId>, Failure> {
    let failed = |error: store::StoreError| Failure::failed(error.to_string());
    let now = store::clock::now();
    let found = match named.parse() {
        Ok(id) => store.account(id, now).wait().map_err(failed)?,
        Err(_) => store.account_named(named, now).wait().map_err(failed)?,
    };
    Ok(found.map(|account| account.id))
}
