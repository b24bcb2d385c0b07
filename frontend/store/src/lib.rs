//! The store as everybody else sees it: accounts, API keys and the ledger of credits, durable and shared by all threads.
//!
//! [`Store`] is the whole of it. The crate `store-redb` implements it in one file of redb, embedded. The rules that any
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
//! Beside it stand the pure rules that every implementation shares: [`credits`], [`rate_limit`], and the [`clock`].

pub mod backup;
pub mod clock;
mod connections;
pub mod credits;
mod error;
pub mod histogram;
pub mod id;
mod pending;
pub mod rate_limit;
mod types;
mod web;

pub use backup::Sizes;
pub use connections::Connections;
pub use error::{BatchError, ChangeError, HoldError, MAY_BE_DONE, OpenError, SettleError, StoreError};
pub use id::{AccountId, BatchId, ClientId, ConnectionId, EntryId, KeyId, ListId};
pub use pending::{Pending, Reply, pending};
pub use types::*;
pub use web::{ListStore, WebStore};

use backup::{BackupError, BackupSummary};
use credits::Balance;
use engine::KeptRefusals;
use rate_limit::{Kept, Overrides};
use std::io::Write;

/// See the module. Every implementation is shared as `Arc<dyn Store>`.
pub trait Store: Connections + ListStore + WebStore + Send + Sync {
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

    /// The account of a gateway's user, if there is one and it is on this plan. From memory.
    fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId>;

    /// The account of a gateway's user, made if there is none, and put on the plan if it is on another: once, however
    /// many ask at the same time. [`ChangeError::TooMany`] where the gateway has all the users that it may.
    fn open_gateway_account(&self, user: GatewayUser, now: UnixMs) -> Pending<Account, ChangeError>;

    // Keys.

    /// The key of this hash. From memory: quick, takes no transaction, and sees a revocation the moment it is
    /// answered.
    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup>;

    /// The account's keys, revoked ones too, oldest first.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn keys(&self, account: AccountId) -> Result<Vec<KeyInfo>, StoreError>;

    /// Adds a key, if the account has less than [`KEYS_MAX`] in force. Of more than [`KEYS_KEPT_MAX`] in all those that
    /// were revoked first are forgotten.
    fn create_key(&self, new: NewKey, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Revokes a key for ever; revoking it again changes nothing.
    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Notes that the key was used. Writes at most once a minute for each key and never waits; a note that finds the
    /// queue full is left to the next use.
    fn key_used(&self, id: KeyId, now: UnixMs);

    // Limits.

    /// What the account may do. From memory: quick, takes no transaction, and sees a change the moment it is
    /// answered.
    fn terms(&self, account: AccountId) -> Option<Terms>;

    /// Gives an account limits of its own in place of its plan's, after forgetting all that it had if `reset` is set.
    fn set_overrides(
        &self,
        account: AccountId,
        reset: bool,
        set: Overrides,
    ) -> Pending<Overrides, ChangeError>;

    /// Keeps counters over a restart, and forgets those that are empty.
    fn keep_counters(&self, changed: Kept) -> Pending<(), StoreError>;

    /// Every counter that is kept.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn kept_counters(&self) -> Result<Kept, StoreError>;

    // What the engine has learned.

    /// The secret of this installation, which is made with the data folder and lasts. From memory.
    fn installation(&self) -> [u8; 32];

    /// Keeps counts of refused recipients over a restart, in place of those of the same key; counts without a step are
    /// removed.
    fn keep_refusals(&self, changed: Vec<KeptRefusals>) -> Pending<(), StoreError>;

    /// All counts of refused recipients that are kept, also those that no longer count.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn kept_refusals(&self) -> Result<Vec<KeptRefusals>, StoreError>;

    /// Withdraws evidence: no verdict that rests on it and was found until `now` is used again, neither as a repeat nor
    /// for another account. What batches say stays as it is.
    fn withdraw(&self, evidence: Vec<u64>, now: UnixMs) -> Pending<(), StoreError>;

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

    // Results.

    /// Keyed hash of an address in its canonical form (ASCII case folded, the domain in A-labels). From memory.
    fn hash_address(&self, canonical: &str) -> AddressHash;

    /// What is known of an address, for this account.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn known(&self, account: AccountId, address: &AddressHash, now: UnixMs) -> Result<Known, StoreError>;

    /// Charges a credit for [`Known::Shared`]: a hold, its settlement and the account's own record at once. Refused
    /// as [`Store::hold`] is.
    fn charge_known(&self, hold: HoldRef, record: ResultRecord, now: UnixMs) -> Pending<Balance, HoldError>;

    // Batches.

    /// Charges a batch, makes it and remembers its idempotency key, at once. A key that is remembered is answered
    /// before the credits are looked at. Rows of which the account has its own result of the last 24 hours are
    /// answered from it, and so the batch may be complete at once.
    ///
    /// The batch's credits are a hold that opening the store does not void; it is answered when the batch completes.
    fn create_batch(&self, new: NewBatch, now: UnixMs) -> Pending<BatchCreated, BatchError>;

    /// Every batch with unanswered rows, in the order of their making.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn open_batches(&self) -> Result<Vec<OpenBatch>, StoreError>;

    /// The unanswered rows of a batch, in order; none of one that is complete or that there is not.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn unanswered(&self, batch: BatchId) -> Result<Vec<OpenRow>, StoreError>;

    /// Answers rows, of one batch or several; says which batches are complete by it. A row that was answered before,
    /// or that there is not, is left alone. Never refused for want of room.
    fn answer_rows(&self, answers: Vec<RowAnswer>, now: UnixMs) -> Pending<Vec<BatchId>, StoreError>;

    /// A batch of this account; none once [`BATCH_KEEP_MS`] have passed since its completion.
    ///
    /// # Errors
    /// As [`Store::account`].
    fn batch(&self, account: AccountId, id: BatchId, now: UnixMs) -> Result<Option<BatchView>, StoreError>;

    /// Removes what is past its time, a bounded part of it: expired results, batches, idempotency keys and keys of
    /// the vault; ends batches that stayed unfinished for [`BATCH_OPEN_MS`]. What is past its time is not to be read
    /// even before. To be called each minute, and again while it says that there is more.
    fn purge(&self, now: UnixMs) -> Pending<Purged, StoreError>;

    // The ledger, read.

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
