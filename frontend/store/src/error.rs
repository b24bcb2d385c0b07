//! The errors of the store, with one enum for each kind of operation. No text contains a key; names come only from the
//! caller.

use crate::rate_limit::limits::{LIMIT_MAX, LIMIT_MIN};
use crate::{CREDITS_MAX, HOLD_CREDITS_MAX, KEYS_MAX, SubscriptionStatus, TEXT_CHARS_MAX};
use std::fmt;
use std::path::PathBuf;

/// A failure of the store itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// The queue of writes is full. Nothing was done; a later attempt may succeed.
    Busy,
    /// The account or network has all of its share of something that others need too. Nothing was done. The text names the share, in
    /// one sentence for the caller.
    OverShare(String),
    /// As [`StoreError::OverShare`], for bytes: waiting does not help, but something smaller, or a deletion, does.
    OverQuota(String),
    /// The session, the password or the key that was verified before is not valid any more. Nothing was done.
    Outdated,
    /// The store was closed, or its writer has ended. The write was not done.
    Closed,
    /// The database did not answer in time, or other writes were in the way for long. A write was not done, except for the
    /// end of a hold: the store continues to try it. Nobody has to restart anything.
    Away(String),
    /// A resource outside of the tables, such as a key file, was not available. The write was not done, and may be
    /// tried again.
    NotDone(String),
    /// Reading or writing failed. The write was not done. After a failed write the store accepts no further writes
    /// until the process restarts.
    Failed(String),
    /// The write failed while it was made durable, so its result is unknown. With redb, otherwise as [`StoreError::Failed`].
    /// With PostgreSQL the store goes on, and finds out the result, but the caller has waited for long enough.
    Unknown(String),
    /// The database has a format that has no room for it. Nothing was done.
    OldFormat {
        /// The format of the database.
        found: u64,
        /// The format that it needs.
        needed: u32,
    },
}

impl StoreError {
    /// Whether the cause passes without an operator, so that a log has it as a warning.
    pub fn is_away(&self) -> bool {
        matches!(self, StoreError::Away(_))
    }
}

/// The message for a write with an unknown result.
pub const MAY_BE_DONE: &str = "the store failed during a write, which may have taken effect";

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Busy => f.write_str("too many writes are waiting; try again later"),
            StoreError::OverShare(share) | StoreError::OverQuota(share) => f.write_str(share),
            StoreError::Outdated => f.write_str(OUTDATED),
            StoreError::Closed => f.write_str("the store is closed"),
            StoreError::Away(why) => {
                write!(f, "the database is not available now ({why}); try again in some seconds")
            }
            StoreError::NotDone(why) => write!(f, "{why}; check the disk"),
            StoreError::Failed(why) => write!(f, "the store failed ({why}); check the disk, then restart"),
            StoreError::Unknown(why) => write!(f, "{MAY_BE_DONE} ({why})"),
            StoreError::OldFormat { found, needed } => write!(
                f,
                "the database has format {found}, and this needs format {needed}; \
                 run `mailprobe cluster upgrade` when all nodes have this version"
            ),
        }
    }
}

impl std::error::Error for StoreError {}

// Rust allows these conversions only in the crate of the type; store-redb uses them.
#[cfg(feature = "redb")]
macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<::redb::$error> for StoreError {
            fn from(error: ::redb::$error) -> StoreError {
                StoreError::Failed(error.to_string())
            }
        }
    )*};
}
#[cfg(feature = "redb")]
from_redb!(StorageError, TableError, TransactionError, CommitError);

/// The reason why a store did not open, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Another process has the store open.
    Locked(PathBuf),
    /// The folder does not exist and cannot be created, or it cannot be written.
    Folder(PathBuf, String),
    /// The file is no database of mailprobe, or is damaged.
    NotADatabase(PathBuf, String),
    /// A later version of mailprobe wrote the file.
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this version supports.
        known: u32,
    },
    /// Accounts are on a plan that the configuration lacks.
    PlanMissing {
        /// The id of the plan.
        plan: String,
        /// The number of accounts on it.
        accounts: u64,
    },
    /// The keys in the folder are not those of the database.
    OtherKeys {
        /// The folder of the keys.
        folder: PathBuf,
        /// The difference that was found.
        why: &'static str,
    },
    /// A key is damaged or missing.
    Keys {
        /// The folder of the keys.
        folder: PathBuf,
        /// The fault and its remedy. No part of a key is in it.
        why: String,
    },
    /// The folder does not fit the store of the configuration: it is not that of a node, or it has a database of its own.
    OtherKind {
        /// The data folder.
        folder: PathBuf,
        /// The fault and its remedy.
        why: &'static str,
    },
    /// Any other failure of the store.
    Store(StoreError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked(path) => write!(
                f,
                "{} is in use by another mailprobe; stop it, or choose another folder with --data",
                path.display()
            ),
            OpenError::Folder(path, why) => write!(
                f,
                "cannot use the data folder {} ({why}); make it writable for this user or choose another with --data",
                path.display()
            ),
            OpenError::NotADatabase(path, why) => write!(
                f,
                "{} is not a readable mailprobe database ({why}); restore a backup or move the file away",
                path.display()
            ),
            OpenError::Newer { path, found, known } => write!(
                f,
                "{} has format {found}, written by a newer mailprobe; this mailprobe reads formats up to {known}: \
                 upgrade mailprobe or restore an older backup",
                path.display()
            ),
            OpenError::PlanMissing { plan, accounts } => write!(
                f,
                "{accounts} account(s) are on plan {plan:?}, which the configuration does not define; define it \
                 until all of them are moved with `mailprobe account set-plan`"
            ),
            OpenError::OtherKeys { folder, why } => write!(
                f,
                "{} {why}; restore the folder that belongs to the database, from a backup of both. If the folder is lost, use \
                 `mailprobe accept-keys`: then all users need a new password from `mailprobe account set-password`, and batches, lists and \
                 stored results are lost",
                folder.display()
            ),
            OpenError::Keys { folder, why } => {
                write!(f, "cannot use the keys in {}: {why}", folder.display())
            }
            OpenError::OtherKind { folder, why } => write!(f, "{} {why}", folder.display()),
            OpenError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> OpenError {
        OpenError::Store(error)
    }
}

/// The reason why credits were not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldError {
    /// There is no such account.
    UnknownAccount,
    /// The account has fewer credits than requested.
    Insufficient {
        /// The credits that can be spent.
        available: u64,
    },
    /// The subscription is paused or canceled.
    Inactive {
        /// The status of the subscription.
        status: SubscriptionStatus,
        /// The credits that could be spent otherwise.
        available: u64,
    },
    /// A hold with this id already exists.
    Exists,
    /// The id is so old that the ledger may no longer have its first use.
    TooOld,
    /// The amount is zero, or more than [`HOLD_CREDITS_MAX`].
    BadAmount,
    /// The store itself failed.
    Store(StoreError),
}

/// The reason why a hold was not settled or voided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleError {
    /// There is no such account.
    UnknownAccount,
    /// There is no such hold, or it is so old that the ledger no longer has it.
    UnknownHold,
    /// The hold was already settled.
    AlreadySettled,
    /// The hold was already voided.
    AlreadyVoided,
    /// The store itself failed.
    Store(StoreError),
}

/// The text of errors about an [`Authority`](super::Authority) that does not hold any more.
pub(crate) const OUTDATED: &str = "the session or the key has ended, or the password has changed meanwhile";

/// The reason why an account or a key was not changed or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// There is no such account.
    UnknownAccount,
    /// There is no such key.
    UnknownKey,
    /// The plan table has no such plan.
    UnknownPlan,
    /// Another account has this name.
    NameTaken,
    /// The name has the form that is reserved for accounts of gateways' users.
    NameReserved,
    /// The gateway has the largest number of users that it may have.
    TooMany,
    /// The account has [`KEYS_MAX`](super::KEYS_MAX) unrevoked keys.
    TooManyKeys,
    /// A name, label or note is empty, too long, or has control characters, or a name has the form of an id.
    BadText,
    /// The amount is zero, more than [`CREDITS_MAX`], or makes the sum too large.
    BadAmount,
    /// A limit is out of its range.
    BadLimit,
    /// The expiry of a key is in the past, or more than [`KEY_LIFE_MS_MAX`](super::KEY_LIFE_MS_MAX) away.
    BadExpiry,
    /// The session or the password that was verified before is not valid any more.
    Outdated,
    /// The id is already in use.
    Exists,
    /// The id is so old that the ledger may no longer have its first use.
    TooOld,
    /// The store itself failed.
    Store(StoreError),
}

/// The reason why a batch was not created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// The idempotency key was used with another request.
    KeyReused,
    /// The rows cannot be charged. The hold has the number of rows as its amount and an id derived from the batch's.
    Hold(HoldError),
    /// The store itself failed.
    Store(StoreError),
}

impl From<HoldError> for BatchError {
    fn from(error: HoldError) -> BatchError {
        match error {
            HoldError::Store(error) => BatchError::Store(error),
            other => BatchError::Hold(other),
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::KeyReused => f.write_str("the idempotency key was already used with another request"),
            BatchError::Hold(error) => error.fmt(f),
            BatchError::Store(error) => error.fmt(f),
        }
    }
}

/// Makes errors that have a variant `Store` of a [`StoreError`].
macro_rules! from_store_error {
    ($($error:ident),*) => {$(
        impl From<StoreError> for $error {
            fn from(error: StoreError) -> $error {
                $error::Store(error)
            }
        }

        impl std::error::Error for $error {}
    )*};
}
pub(crate) use from_store_error;

from_store_error!(BatchError, HoldError, SettleError, ChangeError);

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::UnknownAccount => f.write_str("no such account"),
            HoldError::Insufficient { available } => write!(f, "not enough credits: {available} left"),
            HoldError::Inactive { status, .. } => write!(f, "the subscription is {status}"),
            HoldError::Exists => f.write_str("this hold was placed before"),
            HoldError::TooOld => f.write_str("the hold's id is too old"),
            HoldError::BadAmount => write!(f, "a hold has 1 to {HOLD_CREDITS_MAX} credits"),
            HoldError::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettleError::UnknownAccount => f.write_str("no such account"),
            SettleError::UnknownHold => f.write_str("no such hold"),
            SettleError::AlreadySettled => f.write_str("this hold was settled before"),
            SettleError::AlreadyVoided => f.write_str("this hold was voided before"),
            SettleError::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::UnknownAccount => f.write_str("no such account"),
            ChangeError::UnknownKey => f.write_str("no such key"),
            ChangeError::UnknownPlan => {
                f.write_str("the configuration defines no such plan; `mailprobe config` lists its plans")
            }
            ChangeError::NameTaken => f.write_str("another account has this name"),
            ChangeError::NameReserved => {
                f.write_str("names that begin with \"gateway:\" are reserved for users of gateways")
            }
            ChangeError::TooMany => f.write_str("the gateway has as many users as its users_max"),
            ChangeError::TooManyKeys => {
                write!(f, "the account has {KEYS_MAX} active keys; revoke a key that is not used")
            }
            ChangeError::BadText => write!(
                f,
                "a name, label or note has at most {TEXT_CHARS_MAX} characters and no control characters; a name is \
                 not empty and does not look like an account id"
            ),
            ChangeError::BadAmount => write!(f, "a grant has 1 to {CREDITS_MAX} credits"),
            ChangeError::BadLimit => write!(f, "a limit is a number from {LIMIT_MIN} to {LIMIT_MAX}"),
            ChangeError::BadExpiry => {
                f.write_str("a key expires in the future, and at most 10 years after its creation")
            }
            ChangeError::Exists => f.write_str("the id is already in use"),
            ChangeError::Outdated => f.write_str(OUTDATED),
            ChangeError::TooOld => f.write_str("the id is too old"),
            ChangeError::Store(error) => error.fmt(f),
        }
    }
}
