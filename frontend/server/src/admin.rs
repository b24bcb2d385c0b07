//! What operators do to accounts and keys: one [`Command`], and one [`execute`] for it, whether it comes over the
//! socket of a running server or from a command line that has opened the store itself.
//!
//! Ids and keys are made by whoever gives the command. So a command that is given again does nothing twice, and a
//! key in clear never leaves the process that made it.

pub mod access;
pub mod first_run;
pub mod server;
mod wire;

use serde::{Deserialize, Serialize};
use std::fmt;
use store::clock::{self, Fixed};
use store::rate_limit::{Limits, Overrides};
use store::{
    Account, AccountId, Audit, ChangeError, Entry, EntryId, EntryKind, Grant, KeyHash, KeyId, KeyInfo,
    KeyMode, NewAccount, NewKey, PasswordHash, Store, StoreError, SubscriptionStatus, TokenHash, UnixMs,
    UserError,
};

/// The socket's name in the data folder.
pub const SOCKET_FILE: &str = "admin.sock";

/// Entries of the ledger that [`Command::AccountShow`] brings.
const ENTRIES_SHOWN: usize = 20;

/// Accounts in one answer to [`Command::AccountList`].
pub const ACCOUNTS_PER_PAGE: usize = 500;

/// What an operator wants done. Accounts are named by id or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Make an account.
    AccountCreate {
        /// Its id.
        id: AccountId,
        /// Its name.
        name: String,
        /// The id of its plan.
        plan: String,
    },
    /// The next accounts, [`ACCOUNTS_PER_PAGE`] at most.
    AccountList {
        /// The last one of the page before.
        after: Option<AccountId>,
    },
    /// One account with its keys, the end of its ledger and an audit of all of it.
    AccountShow {
        /// Which.
        account: String,
    },
    /// Change the plan.
    AccountSetPlan {
        /// Whose.
        account: String,
        /// The id of the new one.
        plan: String,
    },
    /// Add pack credits.
    AccountGrant {
        /// To whom.
        account: String,
        /// The grant's id.
        id: EntryId,
        /// How many.
        credits: u64,
        /// Why.
        note: String,
    },
    /// Change the status. A usable one takes an announced end back.
    AccountSetStatus {
        /// Whose.
        account: String,
        /// The new one.
        status: SubscriptionStatus,
        /// Only with the end of the period; for [`SubscriptionStatus::Canceled`] alone.
        at_period_end: bool,
    },
    /// Give an account limits of its own in place of its plan's.
    AccountSetLimits {
        /// Whose.
        account: String,
        /// Forget first all that it had.
        reset: bool,
        /// The limits to set.
        set: Overrides,
    },
    /// Set the password of an account's user, and end all sessions.
    AccountSetPassword {
        /// Whose.
        account: String,
        /// The user's address, where it is new.
        email: Option<String>,
        /// The password's hash.
        password: PasswordHash,
    },
    /// Make a link that signs in to an account once.
    AccountSignInLink {
        /// Whose.
        account: String,
        /// SHA-256 of the link's token.
        hash: TokenHash,
    },
    /// Add a key.
    KeyCreate {
        /// For whom.
        account: String,
        /// The key's id.
        id: KeyId,
        /// Live or test.
        mode: KeyMode,
        /// SHA-256 of the key.
        hash: KeyHash,
        /// Its last four characters.
        last4: [u8; 4],
        /// What to call it.
        label: String,
    },
    /// An account's keys.
    KeyList {
        /// Whose.
        account: String,
    },
    /// Revoke a key for ever.
    KeyRevoke {
        /// Which.
        key: KeyId,
    },
    /// What a running server counts.
    Metrics,
    /// A backup of all of the store. Over the socket it follows the answer, to the end of the connection.
    Backup,
    /// Move the clock of a server that was started for tests forward.
    ClockAdvance {
        /// By how much.
        ms: u64,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The account as it stands now.
    Account(Account),
    /// A page of accounts.
    Accounts(Vec<Account>),
    /// All about one account.
    Shown(Box<Shown>),
    /// The account's limits as they stand now.
    Limits(LimitsShown),
    /// The key as it stands now.
    Key(KeyInfo),
    /// Keys.
    Keys(Vec<KeyInfo>),
    /// What is counted, in the text format of Prometheus.
    Metrics(String),
    /// The bytes of a backup come after this.
    BackupFollows,
    /// What the clock shows.
    Clock(UnixMs),
    /// It is done, and there is nothing to say of it.
    Done,
}

/// What an account may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsShown {
    /// The limits that hold.
    pub limits: Limits,
    /// Those of them that are the account's own; the others are its plan's.
    pub overrides: Overrides,
}

/// All about one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The account.
    pub account: Account,
    /// What it may ask.
    #[serde(flatten)]
    pub limits: LimitsShown,
    /// Its keys.
    pub keys: Vec<KeyInfo>,
    /// The end of its ledger, the newest first.
    pub entries: Vec<Entry>,
    /// Whether its ledger adds up.
    pub audit: Audit,
}

/// Why a command was not done: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// No account has this id or name.
    NoAccount(String),
    /// A status other than canceled was to wait for the end of the period.
    OnlyCancelWaits,
    /// There is nothing that counts.
    NoMetrics,
    /// A backup is no line: see [`access::StoreAccess::backup`].
    BackupIsNoLine,
    /// The clock stays as it is.
    ClockFixed(Fixed),
    /// The store refused.
    Refused(ChangeError),
    /// The user was not changed.
    User(UserError),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NoAccount(named) => write!(f, "no account has the id or the name {named:?}"),
            CommandError::OnlyCancelWaits => f.write_str("only canceled can wait for the end of the period"),
            CommandError::NoMetrics => f.write_str("only a running server has metrics"),
            CommandError::BackupIsNoLine => f.write_str("a backup is made by `mailprobe backup`"),
            CommandError::ClockFixed(Fixed::Real) => {
                f.write_str("the clock can be moved only on a server that was started with --test-clock")
            }
            CommandError::ClockFixed(Fixed::TooFar) => f.write_str("the clock stands too far ahead already"),
            CommandError::Refused(refusal) => refusal.fmt(f),
            CommandError::User(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<ChangeError> for CommandError {
    fn from(refusal: ChangeError) -> CommandError {
        CommandError::Refused(refusal)
    }
}

impl From<UserError> for CommandError {
    fn from(error: UserError) -> CommandError {
        CommandError::User(error)
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> CommandError {
        CommandError::Refused(error.into())
    }
}

/// Does what is wanted, and waits until it is durable.
///
/// # Errors
/// [`CommandError`]; then nothing was done, or it cannot be told (see [`StoreError`]).
pub fn execute(store: &dyn Store, command: Command, now: UnixMs) -> Result<Response, CommandError> {
    Ok(match command {
        Command::AccountCreate { id, name, plan } => {
            Response::Account(store.create_account(NewAccount { id, name, plan }, now).wait()?)
        }
        Command::AccountList { after } => {
            Response::Accounts(store.accounts(after, ACCOUNTS_PER_PAGE, now)?)
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
                // A caller that does not know whether it was done tries again.
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
        Command::AccountSetPassword { account, email, password } => {
            let id = find(store, &account, now)?.id;
            store.set_user(id, email, password, None, now).wait()?;
            Response::Done
        }
        Command::AccountSignInLink { account, hash } => {
            let id = find(store, &account, now)?.id;
            Response::Account(store.create_link(id, hash, now).wait()?)
        }
        Command::KeyCreate { account, id, mode, hash, last4, label } => {
            let account = find(store, &account, now)?.id;
            Response::Key(store.create_key(NewKey { id, account, mode, hash, last4, label }, now).wait()?)
        }
        Command::KeyList { account } => Response::Keys(store.keys(find(store, &account, now)?.id)?),
        Command::KeyRevoke { key } => Response::Key(store.revoke_key(key, now).wait()?),
        Command::Metrics => return Err(CommandError::NoMetrics),
        Command::Backup => return Err(CommandError::BackupIsNoLine),
        Command::ClockAdvance { ms } => {
            Response::Clock(clock::advance(ms).map_err(CommandError::ClockFixed)?)
        }
    })
}

/// Entries in which a repeated grant is looked for: those of an hour at a thousand charged checks a minute, and more.
const REPEAT_ENTRIES_MAX: usize = 100_000;

/// Whether these credits were granted under the id before.
fn is_granted(store: &dyn Store, account: AccountId, id: EntryId, credits: u64) -> Result<bool, StoreError> {
    let is_it = |entry: &Entry| entry.id == id && entry.kind == EntryKind::Pack && entry.granted == credits;
    Ok(store.entries(account, REPEAT_ENTRIES_MAX)?.iter().any(is_it))
}

/// By id, or else by name, or else by the address of its user; no name looks like an id.
fn find(store: &dyn Store, named: &str, now: UnixMs) -> Result<Account, CommandError> {
    let found = match named.parse() {
        Ok(id) => store.account(id, now)?,
        Err(_) => match store.account_named(named, now)? {
            Some(account) => Some(account),
            None => match store.user_of(named)? {
                Some(user) => store.account(user.account, now)?,
                None => None,
            },
        },
    };
    found.ok_or_else(|| CommandError::NoAccount(named.to_owned()))
}

fn show(store: &dyn Store, account: Account) -> Result<Shown, CommandError> {
    let id = account.id;
    let (keys, entries) = (store.keys(id)?, store.entries(id, ENTRIES_SHOWN)?);
    Ok(Shown { account, limits: limits(store, id)?, keys, entries, audit: store.audit(Some(id))? })
}

fn limits(store: &dyn Store, account: AccountId) -> Result<LimitsShown, CommandError> {
    let terms = store.terms(account).ok_or(ChangeError::UnknownAccount)?;
    Ok(LimitsShown { limits: terms.limits, overrides: terms.overrides })
}

fn set_status(
    store: &dyn Store,
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
