//! The first account and its keys, which are created on an empty store.
//!
//! The keys are written to `DIR/first-keys` and synced before the account is created. So a crash in between loses
//! nothing: either the account exists and the file has its keys, or the next start writes the file again. If the file
//! is lost, `mailprobe key create default` creates another key.

use checks::auth::ApiKey;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::{
    Account, AccountId, ChangeError, FirstRun, KeyId, KeyMode, KeyScopes, NewAccount, NewKey, UnixMs, id,
};
use store_rules::Store;
use thiserror::Error;

/// The name of the file in the data folder.
pub const FIRST_KEYS_FILE: &str = "first-keys";

/// The name and the plan of the first account.
const NAME: &str = "default";
const PLAN: &str = "free";

/// The account and the keys of the first run.
pub struct FirstKeys {
    /// The first account of the store.
    pub account: Account,
    /// Its live key in plain text.
    pub live: ApiKey,
    /// Its test key in plain text.
    pub test: ApiKey,
    /// The path of the file with both keys, which has mode 0600.
    pub path: PathBuf,
}

/// The reason why the first account was not created, as one line.
#[derive(Debug, Error)]
pub enum FirstRunError {
    /// The file cannot be written.
    #[error("cannot write the first keys to {0} ({1}); make the data folder writable and start again")]
    File(PathBuf, io::Error),
    /// The operating system gave no random bits.
    #[error("cannot get random bits for the first keys: {0}")]
    Random(io::Error),
    /// The configuration lacks the plan of the first account.
    #[error(
        "the configuration defines no plan {PLAN:?} for the first account; create the account with `mailprobe \
        account create NAME --plan ID`, then start again"
    )]
    NoPlan,
    /// The store refused.
    #[error("cannot create the first account: {0}")]
    Store(ChangeError),
}

/// Creates the first account with a live and a test key, if the store never had an account.
///
/// # Errors
///
/// [`FirstRunError`]: the store is unchanged, and the next start tries again.
pub fn first_run(store: &Store, folder: &Path, now: UnixMs) -> Result<Option<FirstKeys>, FirstRunError> {
    let seen = store.accounts(None, 1, now).wait().map_err(|error| FirstRunError::Store(error.into()))?;
    if !seen.is_empty() {
        return Ok(None);
    }
    if store.plans().find(PLAN).is_none() {
        return Err(FirstRunError::NoPlan);
    }
    let generate = |mode| ApiKey::generate(mode).map_err(FirstRunError::Random);
    let (live, test) = (generate(KeyMode::Live)?, generate(KeyMode::Test)?);
    let account = NewAccount {
        id: AccountId::new(now, id::random_bits().map_err(FirstRunError::Random)?),
        name: NAME.into(),
        plan: PLAN.into(),
    };
    let keys = vec![new_key(&live, account.id, now)?, new_key(&test, account.id, now)?];
    let path = folder.join(FIRST_KEYS_FILE);
    write_keys(folder, &path, account.id, &live, &test)
        .map_err(|error| FirstRunError::File(path.clone(), error))?;
    let made = store.first_run(FirstRun { account, keys }, now).wait();
    match made {
        Ok(Some(account)) => Ok(Some(FirstKeys { account, live, test, path })),
        Ok(None) => {
            // Another process created an account meanwhile, so these keys belong to none.
            std::fs::remove_file(&path).map_err(|error| FirstRunError::File(path, error))?;
            Ok(None)
        }
        Err(ChangeError::UnknownPlan) => Err(FirstRunError::NoPlan),
        Err(error) => Err(FirstRunError::Store(error)),
    }
}

impl FirstKeys {
    /// Removes the file, after the operator has read the keys on a terminal.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn remove_file(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn new_key(key: &ApiKey, account: AccountId, now: UnixMs) -> Result<NewKey, FirstRunError> {
    Ok(NewKey {
        id: KeyId::new(now, id::random_bits().map_err(FirstRunError::Random)?),
        account,
        mode: key.mode(),
        hash: key.hash(),
        last4: key.last4(),
        label: "first run".into(),
        scopes: KeyScopes::ALL,
        expires_at: None,
    })
}

fn write_keys(
    folder: &Path,
    path: &Path,
    account: AccountId,
    live: &ApiKey,
    test: &ApiKey,
) -> io::Result<()> {
    // The file of an earlier attempt has keys that were never stored. A new file has the right mode from the start.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "account {account}\nlive {}\ntest {}", live.reveal(), test.reveal())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}
