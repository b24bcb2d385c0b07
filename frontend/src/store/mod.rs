//! The store: accounts, API keys and the ledger of credits, durable and shared by all threads.
//!
//! [`Store`] is the whole of it for everybody else; behind it stands redb, embedded, in one file. The rules that any
//! implementation keeps, and that one suite of tests checks for all of them:
//!
//! - One method is one transaction: all of it happens or nothing, and what is durable is what was answered.
//! - Reads are snapshots, taken on the caller's thread; they see every write that was answered before.
//! - Writes go to one writer, in the order in which they were called by any one thread, and come back as
//!   [`Pending`]. A write whose [`Pending`] is dropped happens all the same.
//! - Time is the caller's: every method that needs the wall clock is given it. A clock that goes back never brings a
//!   period back.
//! - At every commit, for every account: available + held + spent + expired = granted.
//!
//! docs/storage.md has the tables, the format and what a crash can and cannot do.

mod accounts;
mod audit;
pub mod backup;
#[cfg(test)]
mod crash;
mod error;
mod folder;
pub mod id;
mod index;
mod ledger;
mod migrations;
mod pending;
mod redb;
mod row;
mod sweep;
mod tables;
mod txn;
mod types;
mod writer;

pub use self::redb::{Opening, RedbStore, StoreOptions};

pub use error::{ChangeError, HoldError, OpenError, SettleError, StoreError};
pub use folder::DATABASE_FILE;
pub use id::{AccountId, EntryId, KeyId};
pub use pending::{Pending, Reply, pending};
pub use types::*;

use crate::credits::Balance;
pub use backup::Sizes;
use backup::{BackupError, BackupSummary};
use std::io::Write;

/// See the module. Every implementation is shared as `Arc<dyn Store>`.
pub trait Store: Send + Sync {
    /// The plans that it was opened with.
    fn plans(&self) -> &PlanTable;

    /// Whether writes are still taken; for readiness checks. From memory.
    ///
    /// # Errors
    /// Why they are not any longer: only a restart helps.
    fn health(&self) -> Result<(), StoreError>;

    // Accounts.

    /// The account, as of `now`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when it cannot be read, as for every read.
    fn account(&self, id: AccountId, now: UnixMs) -> Result<Option<Account>, StoreError>;

    /// The account of this name, as of `now`.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn account_named(&self, name: &str, now: UnixMs) -> Result<Option<Account>, StoreError>;

    /// Up to `limit` accounts after `after` in order of their ids, which is the order of their making; as of `now`.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Result<Vec<Account>, StoreError>;

    /// Makes an account; its first period begins now and brings the plan's credits.
    fn create_account(&self, new: NewAccount, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Changes the plan. Within the period the account gets the new plan's credits less what it has used of the
    /// period's so far: going up and down again gives nothing away.
    fn set_plan(&self, id: AccountId, plan: String, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Changes the status. A period that begins on a paused or canceled account brings no credits; they come when it
    /// becomes usable again, once in a period.
    fn set_status(
        &self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Pending<Account, ChangeError>;

    /// Says whether the subscription ends with the period. On a plan that never resets there is no such end, and it
    /// is canceled at once.
    fn set_cancel_at_period_end(
        &self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Pending<Account, ChangeError>;

    /// Adds pack credits, once for each id: the second grant of an id is [`ChangeError::Exists`].
    fn grant(&self, grant: Grant, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Makes the first account with its keys if the store never had an account; else does nothing and says `None`.
    /// Never twice, whatever crashes.
    fn first_run(&self, first: FirstRun, now: UnixMs) -> Pending<Option<Account>, ChangeError>;

    // Keys.

    /// The key of this hash. From memory: quick, takes no transaction, and sees a revocation the moment it is
    /// answered.
    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup>;

    /// The account's keys, revoked ones too, oldest first.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn keys(&self, account: AccountId) -> Result<Vec<KeyInfo>, StoreError>;

    /// Adds a key.
    fn create_key(&self, new: NewKey, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Revokes a key for ever; revoking it again changes nothing.
    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Notes that the key was used. Writes at most once a minute for each key and never waits; a note that finds the
    /// queue full is left to the next use.
    fn key_used(&self, id: KeyId, now: UnixMs);

    // The ledger.

    /// Sets credits aside, plan credits first, then pack credits. Refused with [`StoreError::Busy`] when too many
    /// writes are waiting; the answer is the balance afterwards.
    fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError>;

    /// Turns a hold into a charge, for good, together with what must be durable with it. Never refused for want of
    /// room: a hold that was placed can be answered.
    fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError>;

    /// Gives a hold's credits back to where they came from; plan credits of a period that has ended expire with it.
    /// Never refused for want of room.
    fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError>;

    /// The account's last entries, the newest first, at most `limit`.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn entries(&self, account: AccountId, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// Adds up the ledger of one account, or of all, from its entries and open holds and compares with the balances.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn audit(&self, account: Option<AccountId>) -> Result<Audit, StoreError>;

    // Operations.

    /// Writes all of the store, as of one commit, into `sink`, in a form that [`backup::restore`] takes; writes go on
    /// meanwhile. What has expired by `now` is left out.
    ///
    /// # Errors
    /// [`BackupError`]; then what `sink` got is of no use.
    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError>;

    /// What the store takes up.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn sizes(&self) -> Result<Sizes, StoreError>;

    /// What it is at. From memory.
    fn figures(&self) -> StoreFigures;
}
