//! The interface of the store: accounts, API keys and the ledger of credits, durable and shared by all threads.
//!
//! The trait [`Store`] has all operations, with its parts [`Connections`], [`WebStore`], [`ListStore`] and
//! [`WebhookStore`]. The crate `store-redb` implements it in one file of redb. Every implementation has these
//! invariants, which one test suite checks:
//!
//! - A method is one transaction, which happens completely or not at all. Everything that was answered is durable.
//! - A read is a snapshot on the caller's thread. It sees every write that was answered before.
//! - One writer executes the writes of each thread in the order of their calls, and answers by [`Pending`]. Dropping a
//!   [`Pending`] does not cancel its write.
//! - Methods that need the wall clock take it as an argument. A clock that goes back never returns to an earlier
//!   period.
//! - At every commit and for every account: available + held + spent + expired = granted.
//!
//! The crate also has the pure rules that implementations share: [`credits`], [`rate_limit`], [`webhooks`], and the
//! [`clock`].

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
pub mod webhooks;

pub use backup::Sizes;
pub use connections::Connections;
pub use error::{BatchError, ChangeError, HoldError, MAY_BE_DONE, OpenError, SettleError, StoreError};
pub use id::{AccountId, BatchId, ClientId, ConnectionId, EntryId, KeyId, ListId, MessageId, WebhookId};
pub use pending::{Pending, Reply, pending};
pub use types::*;
pub use web::{ListStore, WebStore};
pub use webhooks::WebhookStore;

use backup::{BackupError, BackupSummary};
use credits::Balance;
use engine::KeptRefusals;
use engine::proto::sharing::ShareUse;
use rate_limit::{Kept, Leased, Overrides, WindowId};
use std::io::Write;
use std::sync::Arc;

/// The store of all persistent data. It is shared as `Arc<dyn Store>`.
pub trait Store: Connections + ListStore + WebStore + WebhookStore + Send + Sync {
    /// The plans of the moment: those with which the store was opened, or their replacement.
    fn plans(&self) -> Arc<PlanTable>;

    /// Replaces the plans for all later operations. The credits of a period that has begun stay as they are. It waits for
    /// the writes under way.
    ///
    /// # Errors
    ///
    /// [`OpenError::PlanMissing`] if an account has a plan that the table lacks; nothing changes then.
    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError>;

    /// Whether the store accepts writes, for readiness checks. It reads memory only.
    ///
    /// # Errors
    ///
    /// The reason why the store no longer accepts writes: only a restart helps.
    fn health(&self) -> Result<(), StoreError>;

    /// Whether new requests should come to this process: it is healthy, and its clock is that of the other nodes. It reads memory
    /// only.
    ///
    /// # Errors
    ///
    /// As [`Store::health`]; [`StoreError::Away`] also if the clock of this machine is wrong.
    fn readiness(&self) -> Result<(), StoreError>;

    // Accounts.

    /// The account at the time `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if it cannot be read, as for every read.
    fn account(&self, id: AccountId, now: UnixMs) -> Pending<Option<Account>, StoreError>;

    /// The account with this name at the time `now`.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn account_named(&self, name: &str, now: UnixMs) -> Pending<Option<Account>, StoreError>;

    /// Up to `limit` accounts after `after` at the time `now`, in the order of their ids, which is that of their
    /// creation.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<Vec<Account>, StoreError>;

    /// Creates an account. Its first period begins now and grants the plan's credits.
    fn create_account(&self, new: NewAccount, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Changes the plan. Within the period the account gets the new plan's credits minus those it has already used in
    /// the period, so repeated changes bring no additional credits.
    fn set_plan(&self, id: AccountId, plan: String, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Changes the status. A period that begins while the account is paused or canceled grants no credits. They are
    /// granted when the account is usable again, once in a period.
    fn set_status(
        &self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Pending<Account, ChangeError>;

    /// Sets whether the subscription ends with the period. With a plan that never resets, it is canceled at once.
    fn set_cancel_at_period_end(
        &self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Pending<Account, ChangeError>;

    /// Adds pack credits, once for each id: a second grant with an id is [`ChangeError::Exists`].
    fn grant(&self, grant: Grant, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Creates the first account with its keys if the store has no account and none was deleted; otherwise does nothing and returns
    /// `None`. It happens at most once, also after a crash.
    fn first_run(&self, first: FirstRun, now: UnixMs) -> Pending<Option<Account>, ChangeError>;

    /// The account of a gateway's user, if it exists and has this plan. It reads memory only.
    fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId>;

    /// The account of a gateway's user, which is created if necessary and moved to the plan: once, for any number of
    /// simultaneous calls. [`ChangeError::TooMany`] if the gateway has the largest number of users.
    fn open_gateway_account(&self, user: GatewayUser, now: UnixMs) -> Pending<Account, ChangeError>;

    /// Deletes an account as far as others can see: its keys, user, sessions, connections and name are gone when this is answered,
    /// on other nodes within 2 seconds. The rest of its rows is removed by [`Store::delete_step`]. It cannot be undone. A
    /// repetition changes nothing.
    fn close_account(&self, id: AccountId, by: Authority, now: UnixMs) -> Pending<(), ChangeError>;

    /// Deleted accounts that still have rows, at most 16.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn closed_accounts(&self) -> Pending<Vec<AccountId>, StoreError>;

    /// Removes a limited part of the rows of a deleted account. It must be called until the deletion is complete; any process can
    /// continue it.
    fn delete_step(&self, id: AccountId, now: UnixMs) -> Pending<DeletionStep, StoreError>;

    // Keys.

    /// The key with this hash. It reads memory only, without a transaction, and sees a revocation as soon as that is
    /// answered.
    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup>;

    /// Whether the account has this key, and it is neither revoked nor expired. It reads memory only, as [`Store::key_by_hash`].
    fn is_key_in_force(&self, id: KeyId, account: AccountId, now: UnixMs) -> bool;

    /// The account's keys with the revoked and expired ones, oldest first.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn keys(&self, account: AccountId) -> Pending<Vec<KeyInfo>, StoreError>;

    /// Adds a key, if the account has fewer than [`KEYS_MAX`] that are neither revoked nor expired. Beyond [`KEYS_KEPT_MAX`] in
    /// all, the keys that ended first are removed. A database of an older format accepts only keys with all scopes and without
    /// an expiry.
    fn create_key(&self, new: NewKey, by: Authority, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Revokes a key permanently; a second revocation changes nothing.
    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError>;

    /// Records a use of the key. It writes at most once a minute for each key and never waits; if the queue is full,
    /// the next use is recorded instead.
    fn key_used(&self, id: KeyId, now: UnixMs);

    // Limits.

    /// The rights of the account. It reads memory only, without a transaction, and sees a change as soon as that is
    /// answered.
    fn terms(&self, account: AccountId) -> Option<Terms>;

    /// Gives an account its own limits instead of its plan's. With `reset` its earlier ones are removed first.
    fn set_overrides(
        &self,
        account: AccountId,
        reset: bool,
        set: Overrides,
    ) -> Pending<Overrides, ChangeError>;

    /// Takes permits from the window that all nodes share, at most `want`.
    ///
    /// # Errors
    ///
    /// As [`Store::account`]; then none was taken, or they are lost.
    fn lease_permits(&self, id: WindowId, limit: u32, want: u32, now: UnixMs) -> Pending<Leased, StoreError>;

    /// The number of live nodes that share the database, with this one.
    fn live_nodes(&self) -> u32;

    /// The place of this process among the nodes.
    fn place(&self) -> NodePlace;

    /// Stores counters for the next start, and removes empty ones.
    fn keep_counters(&self, changed: Kept) -> Pending<(), StoreError>;

    /// All stored counters.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn kept_counters(&self) -> Pending<Kept, StoreError>;

    // The engine's knowledge.

    /// The secret of this installation, which is created with the data folder and never changes. It reads memory only.
    fn installation(&self) -> [u8; 32];

    /// Stores counts of refused recipients for the next start, replacing those with the same key. Counts without a step
    /// are removed.
    fn keep_refusals(&self, changed: Vec<KeptRefusals>) -> Pending<(), StoreError>;

    /// Removes stored counts of refused recipients with these keys, except those that another node has added to since, so that they
    /// count at `now`.
    fn forget_refusals(&self, keys: Vec<u64>, now: UnixMs) -> Pending<(), StoreError>;

    /// All stored counts of refused recipients, also those that no longer apply.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn kept_refusals(&self) -> Pending<Vec<KeptRefusals>, StoreError>;

    /// Withdraws evidence. A verdict that depends on it and was found before `now` is not used again, neither as a
    /// repeat nor for another account. The results of batches are unchanged.
    fn withdraw(&self, evidence: Vec<u64>, now: UnixMs) -> Pending<(), StoreError>;

    // The ledger.

    /// Holds credits, plan credits first, then pack credits. The answer is the balance after it. Refused with
    /// [`StoreError::Busy`] if too many writes are waiting.
    fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError>;

    /// Turns a hold into a charge, permanently, together with the data that must be durable with it. It is accepted
    /// even if the queue is full, so every hold can be answered.
    fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError>;

    /// Returns the credits of a hold to their source; plan credits of a past period expire. It is accepted even if the
    /// queue is full.
    fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError>;

    // Results.

    /// The keyed hash of an address in its canonical form (ASCII in lower case, the domain in A-labels). It reads
    /// memory only.
    fn hash_address(&self, canonical: &str) -> AddressHash;

    /// The stored result of an address for this account.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn known(&self, account: AccountId, address: &AddressHash, now: UnixMs) -> Pending<Known, StoreError>;

    /// [`Store::known`] for each of these accounts and addresses, in their order, by one snapshot.
    ///
    /// # Errors
    ///
    /// As [`Store::account`]; then none of them is known.
    fn known_many(
        &self,
        questions: Vec<(AccountId, AddressHash)>,
        now: UnixMs,
    ) -> Pending<Vec<Known>, StoreError>;

    /// Begins a check for one credit: looks at what is known of the address, and charges or holds the credit accordingly. With
    /// a connection, one of its full checks is used in the same transaction. The caller begins no other check of this account
    /// and address before this one has ended. Refused as [`Store::hold`] is.
    fn begin_check(&self, check: NewCheck, now: UnixMs) -> Pending<Begun, AttemptError>;

    // Batches.

    /// Charges a batch, creates it and stores its idempotency key in one transaction. A known key is answered before
    /// the credits are checked. Rows with the account's own result of the last 24 hours are answered from it, so the
    /// batch may be complete at once.
    ///
    /// The batch's credits are a hold that is not voided when the store opens. It is settled when the batch completes.
    fn create_batch(&self, new: NewBatch, by: Authority, now: UnixMs) -> Pending<BatchCreated, BatchError>;

    /// Every batch with unanswered rows, in the order of creation.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn open_batches(&self) -> Pending<Vec<OpenBatch>, StoreError>;

    /// Claims unfinished batches that nobody works on, oldest first: those from before the start, and those of nodes that have
    /// died. Each is returned once.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError>;

    /// Whether other nodes use the same database: then batches and lists are claimed, and limits are shared.
    fn has_nodes(&self) -> bool;

    /// Whether this process may work on what it has claimed. A node without a lease must not: others take over its work.
    fn may_work(&self) -> bool;

    /// The unanswered rows of a batch in order; none for a complete or missing batch.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn unanswered(&self, batch: BatchId) -> Pending<Vec<OpenRow>, StoreError>;

    /// Answers rows of one or several batches, and returns the batches that are complete by it. A row that is missing
    /// or was already answered is ignored. It is accepted even if the queue is full.
    fn answer_rows(&self, answers: Vec<RowAnswer>, now: UnixMs) -> Pending<Vec<BatchId>, StoreError>;

    /// A batch of this account; `None` after [`BATCH_KEEP_MS`] from its completion.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn batch(&self, account: AccountId, id: BatchId, now: UnixMs) -> Pending<Option<BatchView>, StoreError>;

    /// The account's readable batches before `after`, newest first, at most `limit`. A page can have fewer although there is a
    /// next one, because batches of lists are left out.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn batches(
        &self,
        account: AccountId,
        after: Option<BatchId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<BatchPage, StoreError>;

    /// Ends a batch of this account. Rows without an answer become `unverifiable` and are refunded, and a later answer to them is
    /// ignored. A complete batch stays as it is. `None` as in [`Store::batch`], and for a batch of a list.
    fn cancel_batch(
        &self,
        account: AccountId,
        id: BatchId,
        now: UnixMs,
    ) -> Pending<Option<BatchView>, StoreError>;

    /// Those of these batches that have unanswered rows.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn still_open(&self, batches: Vec<BatchId>) -> Pending<Vec<BatchId>, StoreError>;

    /// Removes a limited amount of expired data: results, batches, idempotency keys and keys of the vault. Ends batches
    /// that were unfinished for [`BATCH_OPEN_MS`]. Expired data cannot be read even before. It must be called each
    /// minute, and again while there is more to remove.
    fn purge(&self, now: UnixMs) -> Pending<Purged, StoreError>;

    // Reading the ledger.

    /// The account's last entries, newest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn entries(&self, account: AccountId, limit: usize) -> Pending<Vec<Entry>, StoreError>;

    /// Adds up the entries and open holds of one account or of all, and compares the sums with the balances.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn audit(&self, account: Option<AccountId>) -> Pending<Audit, StoreError>;

    // Operations.

    /// Writes the whole store, as of one commit, to `sink`, in the format that `restore` of store-redb reads. Other writes
    /// continue meanwhile. Data that has expired at `now` is left out.
    ///
    /// # Errors
    ///
    /// [`BackupError`]: the bytes in `sink` are useless.
    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError>;

    /// The size of the store.
    ///
    /// # Errors
    ///
    /// As [`Store::account`].
    fn sizes(&self) -> Pending<Sizes, StoreError>;

    /// The current figures of the store. It reads memory only.
    fn figures(&self) -> StoreFigures;

    /// What accounts share in the store, for metrics: the disk of the data folder, unless the database is elsewhere.
    fn shares(&self) -> Vec<Arc<ShareUse>>;
}
