//! The commands of operators on accounts and keys. One [`Command`] has one [`execute`], which runs in a server that
//! gets it over its socket, or in a command line that has opened the store itself.
//!
//! The sender of a command creates its ids and keys. So a repeated command has no further effect, and a plain key never
//! leaves the process that created it.

pub mod access;
pub mod first_run;
pub mod server;
mod wire;

use checks::deletion::remove_rows;
use checks::export::export;
use futures_lite::future::block_on;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, Instant};
use store::clock::{self, Fixed};
use store::rate_limit::{Limits, Overrides};
use store::{
    Account, AccountId, Audit, Authority, ChangeError, Entry, EntryId, EntryKind, Grant, KeyHash, KeyId,
    KeyInfo, KeyMode, KeyScopes, LEDGER_ENTRIES_READ, LedgerLine, NewAccount, NewKey, PasswordHash,
    StoreError, SubscriptionStatus, TokenHash, UnixMs, UserError, ledger_lines,
};
use store_rules::Store;
use thiserror::Error;

/// The name of the socket in the data folder.
pub const SOCKET_FILE: &str = "admin.sock";

/// How many lines of the ledger [`Command::AccountShow`] returns.
const LINES_SHOWN: usize = 20;

/// The time limit of a deletion within one command: other commands wait for it, and the answer must arrive in time.
const DELETION_TIME_MAX: Duration = Duration::from_secs(2);

/// How many accounts an answer to [`Command::AccountList`] has at most.
pub const ACCOUNTS_PER_PAGE: usize = 500;

/// An operation of an operator. Accounts are named by id, by name or by their user's email address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Create an account.
    AccountCreate {
        /// The id of the account.
        id: AccountId,
        /// The name of the account.
        name: String,
        /// The id of its plan.
        plan: String,
    },
    /// List the next accounts, at most [`ACCOUNTS_PER_PAGE`].
    AccountList {
        /// The last account of the page before.
        after: Option<AccountId>,
    },
    /// Show one account with its keys, the end of its ledger and an audit of its ledger.
    AccountShow {
        /// The account by id, name or email.
        account: String,
    },
    /// Change the plan of an account.
    AccountSetPlan {
        /// The account by id, name or email.
        account: String,
        /// The id of the new plan.
        plan: String,
    },
    /// Add pack credits to an account.
    AccountGrant {
        /// The account by id, name or email.
        account: String,
        /// The grant's id.
        id: EntryId,
        /// The number of credits.
        credits: u64,
        /// A note for the ledger.
        note: String,
    },
    /// Change the status of a subscription. A usable status withdraws an announced end.
    AccountSetStatus {
        /// The account by id, name or email.
        account: String,
        /// The new status.
        status: SubscriptionStatus,
        /// Wait for the end of the period; allowed for [`SubscriptionStatus::Canceled`] only.
        at_period_end: bool,
    },
    /// Give an account its own limits instead of its plan's.
    AccountSetLimits {
        /// The account by id, name or email.
        account: String,
        /// Remove all its own limits first.
        reset: bool,
        /// The limits to set.
        set: Overrides,
    },
    /// Return the data of an account.
    AccountExport {
        /// The account by id, name or email.
        account: String,
    },
    /// Delete an account with all its data. It cannot be undone. A repetition continues the deletion.
    AccountDelete {
        /// The account by id, name or email.
        account: String,
        /// The account was found before: if it is missing, its deletion is complete.
        again: bool,
    },
    /// Set the password of an account's user, and end all its sessions.
    AccountSetPassword {
        /// The account by id, name or email.
        account: String,
        /// The user's email address, if it changes.
        email: Option<String>,
        /// The hash of the password.
        password: PasswordHash,
    },
    /// Create a link that signs in to an account once.
    AccountSignInLink {
        /// The account by id, name or email.
        account: String,
        /// SHA-256 of the link's token.
        hash: TokenHash,
    },
    /// Add a key to an account.
    KeyCreate {
        /// The account by id, name or email.
        account: String,
        /// The key's id.
        id: KeyId,
        /// Live or test.
        mode: KeyMode,
        /// SHA-256 of the key.
        hash: KeyHash,
        /// The last four characters of the key.
        last4: [u8; 4],
        /// The label of the key.
        label: String,
        /// The parts of the API that the key may use. An older command line does not send them.
        #[serde(default)]
        scopes: KeyScopes,
        /// The time from which the key is refused, if it expires.
        #[serde(default)]
        expires_at: Option<UnixMs>,
    },
    /// List an account's keys.
    KeyList {
        /// The account by id, name or email.
        account: String,
    },
    /// Revoke a key permanently.
    KeyRevoke {
        /// The id of the key.
        key: KeyId,
    },
    /// Return the counters of a running server.
    Metrics,
    /// Return the address at which users reach a running server.
    BaseUrl,
    /// Return a backup of the whole store. Over the socket it follows the answer, to the end of the connection.
    Backup,
    /// Move the clock of a server that was started for tests.
    ClockAdvance {
        /// The milliseconds by which it moves forward.
        ms: u64,
    },
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The account after the command.
    Account(Account),
    /// A page of accounts.
    Accounts(Vec<ListedAccount>),
    /// The details of one account.
    Shown(Box<Shown>),
    /// The account's limits after the command.
    Limits(LimitsShown),
    /// The data of the account.
    Exported(Value),
    /// The account is deleted.
    Deleted {
        /// The id of the account.
        account: AccountId,
        /// Whether all of its rows are removed. Otherwise the server continues.
        complete: bool,
    },
    /// The key after the command.
    Key(KeyInfo),
    /// A list of keys.
    Keys(Vec<KeyInfo>),
    /// The counters in the text format of Prometheus.
    Metrics(String),
    /// The address at which users reach the server, without a path.
    BaseUrl(String),
    /// The bytes of a backup follow.
    BackupFollows,
    /// The time of the clock after the command.
    Clock(UnixMs),
    /// The command has succeeded, and has no other result.
    Done,
}

/// The limits of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsShown {
    /// The limits that apply.
    pub limits: Limits,
    /// The limits that belong to the account; the others are its plan's.
    pub overrides: Overrides,
}

/// A row of the list of accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAccount {
    /// The account itself, with plan and balance.
    #[serde(flatten)]
    pub account: Account,
    /// The address with which its user signs in; `None` without a user.
    #[serde(default)]
    pub user: Option<String>,
}

/// The details of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The account itself, with plan and balance.
    pub account: Account,
    /// The limits that apply to it.
    #[serde(flatten)]
    pub limits: LimitsShown,
    /// Its keys.
    pub keys: Vec<KeyInfo>,
    /// The end of its ledger, newest first.
    pub entries: Vec<LedgerLine>,
    /// The result of the audit of its ledger.
    pub audit: Audit,
}

/// The reason why a command failed, as one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandError {
    /// No account has this id, name or email.
    #[error("no account has the id or the name {0:?}")]
    NoAccount(String),
    /// Only a cancellation can wait for the end of the period.
    #[error("only the status canceled can take effect at the end of the period")]
    OnlyCancelWaits,
    /// No server runs, so there are no counters and no address.
    #[error("only a running server has metrics and an address")]
    NotServing,
    /// A backup is not sent as a line: see [`access::StoreAccess::backup`].
    #[error("a backup is made by `mailprobe backup`")]
    BackupIsNoLine,
    /// The clock cannot be moved.
    #[error(transparent)]
    ClockFixed(#[from] Fixed),
    /// The store refused.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// The user was not changed.
    #[error(transparent)]
    User(#[from] UserError),
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> CommandError {
        CommandError::Refused(error.into())
    }
}

/// Executes a command, and waits until its effect is durable.
///
/// # Errors
///
/// [`CommandError`]: nothing was done. After a [`StoreError`] the effect may be unknown.
pub fn execute(store: &Store, command: Command, now: UnixMs) -> Result<Response, CommandError> {
    Ok(match command {
        Command::AccountCreate { id, name, plan } => {
            Response::Account(store.create_account(NewAccount { id, name, plan }, now).wait()?)
        }
        Command::AccountList { after } => {
            let accounts = store.accounts(after, ACCOUNTS_PER_PAGE, now).wait()?;
            let listed = accounts.into_iter().map(|account| {
                let user = store.user(account.id).wait()?.map(|user| user.email);
                Ok(ListedAccount { account, user })
            });
            Response::Accounts(listed.collect::<Result<_, StoreError>>()?)
        }
        Command::AccountShow { account } => {
            Response::Shown(Box::new(show(store, find(store, &account, now)?)?))
        }
        Command::AccountSetPlan { account, plan } => {
            let id = find(store, &account, now)?.id;
            Response::Account(store.set_plan(id, plan, now).wait()?)
        }
        Command::AccountGrant { account, id, credits, note } => {
            let account = find(store, &account, now)?.id;
            match store.grant(Grant { id, account, credits, note }, now).wait() {
                Ok(account) => Response::Account(account),
                // A caller that does not know the result repeats the command.
                Err(ChangeError::Exists) if is_granted(store, account, id, credits)? => {
                    Response::Account(find(store, &account.to_string(), now)?)
                }
                Err(error) => return Err(error.into()),
            }
        }
        Command::AccountSetStatus { account, status, at_period_end } => {
            let account = find(store, &account, now)?;
            Response::Account(set_status(store, account, status, at_period_end, now)?)
        }
        Command::AccountSetLimits { account, reset, set } => {
            let id = find(store, &account, now)?.id;
            store.set_overrides(id, reset, set).wait()?;
            Response::Limits(limits(store, id)?)
        }
        Command::AccountExport { account } => {
            let id = find(store, &account, now)?.id;
            let exported = block_on(export(store, id, now))?;
            Response::Exported(exported.ok_or(CommandError::NoAccount(account))?)
        }
        Command::AccountDelete { account, again } => {
            let account = match (find(store, &account, now), account.parse()) {
                (Err(CommandError::NoAccount(_)), Ok(account)) if again => {
                    return Ok(Response::Deleted { account, complete: true });
                }
                (found, _) => found?.id,
            };
            store.close_account(account, Authority::OPERATOR, now).wait()?;
            let began = Instant::now();
            let removed =
                block_on(remove_rows(store, account, clock::now, || began.elapsed() < DELETION_TIME_MAX));
            // The account is closed. The periodic work of the server continues.
            let complete = removed.unwrap_or_else(|error| {
                tracing::warn!("the rows of a deleted account could not be removed yet: {error}");
                false
            });
            Response::Deleted { account, complete }
        }
        Command::AccountSetPassword { account, email, password } => {
            let id = find(store, &account, now)?.id;
            store.set_user(id, email, password, Authority::OPERATOR, now).wait()?;
            Response::Done
        }
        Command::AccountSignInLink { account, hash } => {
            let id = find(store, &account, now)?.id;
            Response::Account(store.create_link(id, hash, now).wait()?)
        }
        Command::KeyCreate { account, id, mode, hash, last4, label, scopes, expires_at } => {
            let account = find(store, &account, now)?.id;
            let new = NewKey { id, account, mode, hash, last4, label, scopes, expires_at };
            Response::Key(store.create_key(new, Authority::OPERATOR, now).wait()?)
        }
        Command::KeyList { account } => Response::Keys(store.keys(find(store, &account, now)?.id).wait()?),
        Command::KeyRevoke { key } => Response::Key(store.revoke_key(key, now).wait()?),
        Command::Metrics | Command::BaseUrl => return Err(CommandError::NotServing),
        Command::Backup => return Err(CommandError::BackupIsNoLine),
        Command::ClockAdvance { ms } => Response::Clock(clock::advance(ms)?),
    })
}

/// How many entries are searched for a repeated grant: more than those of an hour at a thousand charged checks a
/// minute.
const REPEAT_ENTRIES_MAX: usize = 100_000;

/// Whether these credits were already granted under this id.
fn is_granted(store: &Store, account: AccountId, id: EntryId, credits: u64) -> Result<bool, StoreError> {
    let is_it = |entry: &Entry| entry.id == id && entry.kind == EntryKind::Pack && entry.granted == credits;
    Ok(store.entries(account, REPEAT_ENTRIES_MAX).wait()?.iter().any(is_it))
}

/// Finds an account by id, name, or the email address of its user. No name has the form of an id.
fn find(store: &Store, named: &str, now: UnixMs) -> Result<Account, CommandError> {
    let found = match named.parse() {
        Ok(id) => store.account(id, now).wait()?,
        Err(_) => match store.account_named(named, now).wait()? {
            Some(account) => Some(account),
            None => match store.user_of(named).wait()? {
                Some(user) => store.account(user.account, now).wait()?,
                None => None,
            },
        },
    };
    found.ok_or_else(|| CommandError::NoAccount(named.to_owned()))
}

fn show(store: &Store, account: Account) -> Result<Shown, CommandError> {
    let id = account.id;
    let mut entries = ledger_lines(store.entries(id, LEDGER_ENTRIES_READ).wait()?);
    entries.truncate(LINES_SHOWN);
    let keys = store.keys(id).wait()?;
    Ok(Shown { account, limits: limits(store, id)?, keys, entries, audit: store.audit(Some(id)).wait()? })
}

fn limits(store: &Store, account: AccountId) -> Result<LimitsShown, CommandError> {
    let terms = store.terms(account).ok_or(ChangeError::UnknownAccount)?;
    Ok(LimitsShown { limits: terms.limits.stated(), overrides: terms.overrides })
}

fn set_status(
    store: &Store,
    account: Account,
    status: SubscriptionStatus,
    at_period_end: bool,
    now: UnixMs,
) -> Result<Account, CommandError> {
    if at_period_end {
        return if status == SubscriptionStatus::Canceled {
            Ok(store.set_cancel_at_period_end(account.id, true, now).wait()?)
        } else {
            Err(CommandError::OnlyCancelWaits)
        };
    }
    if account.cancel_at_period_end {
        store.set_cancel_at_period_end(account.id, false, now).wait()?;
    }
    Ok(store.set_status(account.id, status, now).wait()?)
}
