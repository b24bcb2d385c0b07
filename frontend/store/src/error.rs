//! The errors of the store, with one enum for each kind of operation. No text contains a key; names come only from the
//! caller.

use crate::rate_limit::limits::{LIMIT_MAX, LIMIT_MIN};
use crate::{CREDITS_MAX, HOLD_CREDITS_MAX, KEYS_MAX, SubscriptionStatus, TEXT_CHARS_MAX};
use std::path::PathBuf;
use thiserror::Error;
use usage::values::grouped;

/// A failure of the store itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The queue of writes is full. Nothing was done; a later attempt may succeed.
    #[error("too many writes are waiting; try again later")]
    Busy,
    /// The account or network has all of its share of something that others need too. Nothing was done. The text names the share, in
    /// one sentence for the caller.
    #[error("{0}")]
    OverShare(String),
    /// As [`StoreError::OverShare`], for bytes: waiting does not help, but something smaller, or a deletion, does.
    #[error("{0}")]
    OverQuota(String),
    /// The session, the password or the key that was verified before is not valid any more. Nothing was done.
    #[error("{OUTDATED}")]
    Outdated,
    /// The store was closed, or its writer has ended. The write was not done.
    #[error("the store is closed")]
    Closed,
    /// The database did not answer in time, or other writes were in the way for long. A write was not done, except for the
    /// end of a hold: the store continues to try it. Nobody has to restart anything.
    #[error("the database is not available now ({0}); try again in some seconds")]
    Away(String),
    /// A resource outside of the tables, such as a key file, was not available. The write was not done, and may be
    /// tried again.
    #[error("{0}; check the disk")]
    NotDone(String),
    /// Reading or writing failed. The write was not done. After a failed write the store accepts no further writes
    /// until the process restarts.
    #[error("the store failed ({0}); check the disk, then restart")]
    Failed(String),
    /// The write failed while it was made durable, so its result is unknown. With redb, otherwise as [`StoreError::Failed`].
    /// With PostgreSQL the store goes on, and finds out the result, but the caller has waited for long enough.
    #[error("{MAY_BE_DONE} ({0})")]
    Unknown(String),
    /// The database has a format that has no room for it. Nothing was done.
    #[error(
        "the database has format {found}, and this needs format {needed}; \
        run `mailprobe cluster upgrade` when all nodes have this version"
    )]
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
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error("{0} is in use by another mailprobe; stop it, or choose another folder with --data")]
    Locked(PathBuf),
    /// The folder does not exist and cannot be created, or it cannot be written.
    #[error(
        "cannot use the data folder {0} ({1}); make it writable for this user or choose another with --data"
    )]
    Folder(PathBuf, String),
    /// The file is no database of mailprobe, or is damaged.
    #[error("{0} is not a readable mailprobe database ({1}); restore a backup or move the file away")]
    NotADatabase(PathBuf, String),
    /// A later version of mailprobe wrote the file.
    #[error(
        "{path} has format {found}, written by a newer mailprobe; this mailprobe reads formats up to {known}: \
        upgrade mailprobe or restore an older backup"
    )]
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this version supports.
        known: u32,
    },
    /// Accounts are on plans that the configuration lacks: the plans, with their numbers of accounts.
    #[error(
        "accounts are on plans that the configuration does not define: {0}. The `[[plan]]` tables of the file replace the \
        built-in plans. Define these plans there too (`mailprobe config --default` shows the built-in ones), until all of their \
        accounts are moved with `mailprobe account set-plan`"
    )]
    PlansMissing(String),
    /// The keys in the folder are not those of the database.
    #[error(
        "{folder} {why}; restore the folder that belongs to the database, from a backup of both. If the folder is lost, use \
        `mailprobe accept-keys`: then all users need a new password from `mailprobe account set-password`, and batches, lists and \
        stored results are lost"
    )]
    OtherKeys {
        /// The folder of the keys.
        folder: PathBuf,
        /// The difference that was found.
        why: &'static str,
    },
    /// A key is damaged or missing.
    #[error("cannot use the keys in {folder}: {why}")]
    Keys {
        /// The folder of the keys.
        folder: PathBuf,
        /// The fault and its remedy. No part of a key is in it.
        why: String,
    },
    /// The folder does not fit the store of the configuration: it is not that of a node, or it has a database of its own.
    #[error("{folder} {why}")]
    OtherKind {
        /// The data folder.
        folder: PathBuf,
        /// The fault and its remedy.
        why: &'static str,
    },
    /// Any other failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why credits were not held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HoldError {
    /// There is no such account.
    #[error("no such account")]
    UnknownAccount,
    /// The account has fewer credits than requested.
    #[error("not enough credits: {available} left")]
    Insufficient {
        /// The credits that can be spent.
        available: u64,
    },
    /// The subscription is paused or canceled.
    #[error("the subscription is {status}")]
    Inactive {
        /// The status of the subscription.
        status: SubscriptionStatus,
        /// The credits that could be spent otherwise.
        available: u64,
    },
    /// A hold with this id already exists.
    #[error("this hold was placed before")]
    Exists,
    /// The id is so old that the ledger may no longer have its first use.
    #[error("the hold's id is too old")]
    TooOld,
    /// The amount is zero, or more than [`HOLD_CREDITS_MAX`].
    #[error("a hold has 1 to {HOLD_CREDITS_MAX} credits")]
    BadAmount,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a hold was not settled or voided.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettleError {
    /// There is no such account.
    #[error("no such account")]
    UnknownAccount,
    /// There is no such hold, or it is so old that the ledger no longer has it.
    #[error("no such hold")]
    UnknownHold,
    /// The hold was already settled.
    #[error("this hold was settled before")]
    AlreadySettled,
    /// The hold was already voided.
    #[error("this hold was voided before")]
    AlreadyVoided,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The text of errors about an [`Authority`](super::Authority) that does not hold any more.
pub(crate) const OUTDATED: &str = "the session or the key has ended, or the password has changed meanwhile";

/// The reason why an account or a key was not changed or created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// There is no such account.
    #[error("no such account")]
    UnknownAccount,
    /// There is no such key.
    #[error("no such key")]
    UnknownKey,
    /// The plan table has no such plan.
    #[error("the configuration defines no such plan; `mailprobe config` lists its plans")]
    UnknownPlan,
    /// Another account has this name.
    #[error("another account has this name")]
    NameTaken,
    /// The name has the form that is reserved for accounts of gateways' users.
    #[error("names that begin with \"gateway:\" are reserved for users of gateways")]
    NameReserved,
    /// The gateway has the largest number of users that it may have.
    #[error("the gateway has as many users as its users_max")]
    TooMany,
    /// The account has [`KEYS_MAX`](super::KEYS_MAX) unrevoked keys.
    #[error("the account has {KEYS_MAX} active keys; revoke a key that is not used")]
    TooManyKeys,
    /// A name, label or note is empty, too long, or has control characters, or a name has the form of an id.
    #[error(
        "a name, label or note has at most {TEXT_CHARS_MAX} characters and no control characters; a name is \
        not empty and does not look like an account id"
    )]
    BadText,
    /// The amount is zero, more than [`CREDITS_MAX`], or makes the sum too large.
    #[error("a grant has 1 to {} credits", grouped(CREDITS_MAX))]
    BadAmount,
    /// A limit is out of its range.
    #[error("a limit is a number from {LIMIT_MIN} to {}", grouped(LIMIT_MAX.into()))]
    BadLimit,
    /// The expiry of a key is in the past, or more than [`KEY_LIFE_MS_MAX`](super::KEY_LIFE_MS_MAX) away.
    #[error("a key expires in the future, and at most 10 years after its creation")]
    BadExpiry,
    /// The session or the password that was verified before is not valid any more.
    #[error("{OUTDATED}")]
    Outdated,
    /// The id is already in use.
    #[error("the id is already in use")]
    Exists,
    /// The id is so old that the ledger may no longer have its first use.
    #[error("the id is too old")]
    TooOld,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a batch was not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The idempotency key was used with another request.
    #[error("the idempotency key was already used with another request")]
    KeyReused,
    /// The rows cannot be charged. The hold has the number of rows as its amount and an id derived from the batch's.
    #[error(transparent)]
    Hold(HoldError),
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<HoldError> for BatchError {
    fn from(error: HoldError) -> BatchError {
        match error {
            HoldError::Store(error) => BatchError::Store(error),
            other => BatchError::Hold(other),
        }
    }
}
