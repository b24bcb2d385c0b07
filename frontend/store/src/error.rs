//! What can go wrong, one enum per kind of operation. No text carries a key, and the only names in them are those
//! that the caller gave.

use super::types::{CREDITS_MAX, HOLD_CREDITS_MAX, KEYS_MAX, SubscriptionStatus, TEXT_CHARS_MAX};
use crate::rate_limit::limits::{LIMIT_MAX, LIMIT_MIN};
use std::fmt;
use std::path::PathBuf;

/// The store itself cannot do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// More writes are waiting than there is room for; nothing was done, trying again later may help.
    Busy,
    /// The store was closed, or its writer is gone. The write was not done.
    Closed,
    /// What the write needs beside the tables cannot be had, such as a key file. It was not done, and may be tried again.
    NotDone(String),
    /// Reading or writing failed. The write was not done. After a failed write the store takes no more of them: the process has to
    /// end and start anew.
    Failed(String),
    /// The write may have been done or not: it failed while it was made durable. Otherwise as [`StoreError::Failed`].
    Unknown(String),
}

/// How a write is told of that may have been done.
pub const MAY_BE_DONE: &str = "the store failed in the middle of a write, which may be done or not";

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Busy => f.write_str("too many writes are waiting; try again later"),
            StoreError::Closed => f.write_str("the store is closed"),
            StoreError::NotDone(why) => write!(f, "{why}; look at the disk"),
            StoreError::Failed(why) => write!(f, "the store failed ({why}); look at the disk, then restart"),
            StoreError::Unknown(why) => write!(f, "{MAY_BE_DONE} ({why}); look at the disk, then restart"),
        }
    }
}

impl std::error::Error for StoreError {}

// Rust allows these beside the type alone; store-redb asks for them.
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

/// Why a store did not open; each says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Another process has it open.
    Locked(PathBuf),
    /// There is no folder and none could be made, or it cannot be written.
    Folder(PathBuf, String),
    /// The file is no database of ours, or damaged.
    NotADatabase(PathBuf, String),
    /// A later version of mailprobe wrote it.
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// Accounts are on a plan that the configuration lacks.
    PlanMissing {
        /// The plan.
        plan: String,
        /// How many accounts.
        accounts: u64,
    },
    /// The keys in the folder are not those that the database was written with.
    OtherKeys {
        /// Where they should be.
        folder: PathBuf,
        /// What is wrong with them.
        why: &'static str,
    },
    /// Anything else.
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
                "{} is no readable mailprobe database ({why}); restore a backup or move the file away",
                path.display()
            ),
            OpenError::Newer { path, found, known } => write!(
                f,
                "{} has format {found}, written by a newer mailprobe; this one knows formats up to {known}: upgrade \
                 mailprobe or restore an older backup",
                path.display()
            ),
            OpenError::PlanMissing { plan, accounts } => write!(
                f,
                "{accounts} account(s) are on plan {plan:?}, which the configuration does not define; define it again \
                 until they have been moved with `mailprobe account set-plan`"
            ),
            OpenError::OtherKeys { folder, why } => write!(
                f,
                "{} {why}; put back the folder that belongs to the database, from a backup of both. If it is lost for good, \
                 `mailprobe accept-keys` goes on without: all users have to sign up anew, and batches, lists and stored results are lost",
                folder.display()
            ),
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

/// Why a hold was not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldError {
    /// No such account.
    UnknownAccount,
    /// Fewer credits are left than asked for.
    Insufficient {
        /// What is left.
        available: u64,
    },
    /// The subscription is paused or canceled.
    Inactive {
        /// Which of the two.
        status: SubscriptionStatus,
        /// What would be left to spend.
        available: u64,
    },
    /// A hold of this id was placed before.
    Exists,
    /// The id was made so long ago that the ledger cannot tell whether it was used.
    TooOld,
    /// No credits, or more than [`HOLD_CREDITS_MAX`].
    BadAmount,
    /// The store cannot do its work.
    Store(StoreError),
}

/// Why a hold was not settled or voided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleError {
    /// No such account.
    UnknownAccount,
    /// No such hold, or one so old that the ledger has forgotten it.
    UnknownHold,
    /// It was settled before.
    AlreadySettled,
    /// It was voided before.
    AlreadyVoided,
    /// The store cannot do its work.
    Store(StoreError),
}

/// Why an account or a key was not changed or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// No such account.
    UnknownAccount,
    /// No such key.
    UnknownKey,
    /// The table has no such plan.
    UnknownPlan,
    /// Another account has this name.
    NameTaken,
    /// The name is of the form that only the accounts of gateways' users have.
    NameReserved,
    /// The gateway has as many users as it may.
    TooMany,
    /// The account has [`KEYS_MAX`](super::KEYS_MAX) keys in force.
    TooManyKeys,
    /// A name, label or note is empty, too long, has control characters, or a name looks like an id.
    BadText,
    /// No credits, or more than [`CREDITS_MAX`], or the sum would be too much.
    BadAmount,
    /// A limit is not one that may be set.
    BadLimit,
    /// The id is in use already.
    Exists,
    /// The id was made so long ago that the ledger cannot tell whether it was used.
    TooOld,
    /// The store cannot do its work.
    Store(StoreError),
}

/// Why a batch was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// The idempotency key came before with another request.
    KeyReused,
    /// The rows cannot be charged; the number of rows and the batch's id count as amount and id of the hold.
    Hold(HoldError),
    /// The store cannot do its work.
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
            BatchError::KeyReused => f.write_str("the idempotency key came before with another request"),
            BatchError::Hold(error) => error.fmt(f),
            BatchError::Store(error) => error.fmt(f),
        }
    }
}

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
from_store_error!(BatchError, HoldError, SettleError, ChangeError);

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::UnknownAccount => f.write_str("no such account"),
            HoldError::Insufficient { available } => write!(f, "not enough credits: {available} left"),
            HoldError::Inactive { status, .. } => write!(f, "the subscription is {status}"),
            HoldError::Exists => f.write_str("this hold was placed before"),
            HoldError::TooOld => f.write_str("the hold's id is too old"),
            HoldError::BadAmount => write!(f, "a hold takes 1 to {HOLD_CREDITS_MAX} credits"),
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
            ChangeError::UnknownPlan => f.write_str(
                "the configuration defines no such plan; `mailprobe config` lists those that it does",
            ),
            ChangeError::NameTaken => f.write_str("another account has this name"),
            ChangeError::NameReserved => {
                f.write_str("names that begin with \"gateway:\" are those of gateways' users")
            }
            ChangeError::TooMany => f.write_str("the gateway has as many users as its users_max"),
            ChangeError::TooManyKeys => {
                write!(f, "the account has {KEYS_MAX} keys in force; revoke one that is not used")
            }
            ChangeError::BadText => write!(
                f,
                "a name, label or note has at most {TEXT_CHARS_MAX} characters and no control characters; a name is \
                 not empty and does not look like an account id"
            ),
            ChangeError::BadAmount => write!(f, "a grant takes 1 to {CREDITS_MAX} credits"),
            ChangeError::BadLimit => write!(f, "a limit is a number from {LIMIT_MIN} to {LIMIT_MAX}"),
            ChangeError::Exists => f.write_str("the id is in use already"),
            ChangeError::TooOld => f.write_str("the id is too old"),
            ChangeError::Store(error) => error.fmt(f),
        }
    }
}
