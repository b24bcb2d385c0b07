//! Accounts, with their keys, plans and limits.

use super::Store;
use crate::accounts::view_account;
use crate::backend::{Class, Job, Lock};
use crate::rows::Walk;
use crate::shared::Shared;
use crate::tables::{ACCOUNTS, AccountRow, NAMES};
use crate::txn::{find_plan, read_account};
use crate::write_error::WriteError;
use crate::{batches, deletion};
use std::ops::Bound;
use store::rate_limit::Overrides;
use store::*;

impl Store {
    /// The account at the time `now`.
    pub fn account(&self, id: AccountId, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        self.read(None, move |shared, rows| {
            read_account(rows, id)?.map(|row| view_at(shared, id, row, now)).transpose()
        })
    }

    /// The account with this name at the time `now`.
    pub fn account_named(&self, name: &str, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        let name = name.to_owned();
        self.read(None, move |shared, rows| {
            let Some(id) = NAMES.get(rows, name.as_str())? else { return Ok(None) };
            read_account(rows, id)?.map(|row| view_at(shared, id, row, now)).transpose()
        })
    }

    /// Up to `limit` accounts after `after` at the time `now`, in the order of their ids, which is that of their
    /// creation.
    pub fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<Vec<Account>, StoreError> {
        self.read(None, move |shared, rows| {
            let start = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.to_bytes()));
            let mut page = Vec::new();
            ACCOUNTS.walk(rows, (start, Bound::Unbounded), limit, |id, row| {
                page.push(view_at(shared, AccountId::from_bytes(id), row, now));
                Walk::On
            })?;
            page.into_iter().collect()
        })
    }

    /// Creates an account. Its first period begins now and grants the plan's credits.
    pub fn create_account(&self, new: NewAccount, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(new.id, move |txn| txn.create_account(&new, now))
    }

    /// Changes the plan. Within the period the account gets the new plan's credits minus those it has already used in
    /// the period, so repeated changes bring no additional credits.
    pub fn set_plan(&self, id: AccountId, plan: String, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(id, move |txn| txn.set_plan(id, &plan, now))
    }

    /// Changes the status. A period that begins while the account is paused or canceled grants no credits. They are
    /// granted when the account is usable again, once in a period.
    pub fn set_status(
        &self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.write(Job::of(id, Class::New), move |txn| txn.set_status(id, status, now))
    }

    /// Sets whether the subscription ends with the period. With a plan that never resets, it is canceled at once.
    pub fn set_cancel_at_period_end(
        &self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.write(Job::of(id, Class::New), move |txn| txn.set_cancel_at_period_end(id, cancel, now))
    }

    /// Adds pack credits, once for each id: a second grant with an id is [`ChangeError::Exists`].
    pub fn grant(&self, grant: Grant, now: UnixMs) -> Pending<Account, ChangeError> {
        self.write(Job::of(grant.account, Class::New), move |txn| txn.grant(&grant, now))
    }

    /// Creates the first account with its keys if the store has no account and none was deleted; otherwise does nothing and returns
    /// `None`. It happens at most once, also after a crash.
    pub fn first_run(&self, first: FirstRun, now: UnixMs) -> Pending<Option<Account>, ChangeError> {
        self.change(first.account.id, move |txn| txn.first_run(&first, now))
    }

    /// The account of a gateway's user, if it exists and has this plan. It reads memory only.
    pub fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId> {
        self.shared().index.gateway_account(gateway, user, plan)
    }

    /// The account of a gateway's user, which is created if necessary and moved to the plan: once, for any number of
    /// simultaneous calls. [`ChangeError::TooMany`] if the gateway has the largest number of users.
    pub fn open_gateway_account(&self, user: GatewayUser, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(user.id, move |txn| txn.open_gateway_account(&user, now))
    }

    /// Deletes an account as far as others can see: its keys, user, sessions, connections and name are gone when this is answered,
    /// on other nodes within 2 seconds. The rest of its rows is removed by [`Store::delete_step`]. It cannot be undone. A
    /// repetition changes nothing.
    pub fn close_account(&self, id: AccountId, by: Authority, now: UnixMs) -> Pending<(), ChangeError> {
        self.change(id, move |txn| txn.close_account(id, &by, now))
    }

    /// Deleted accounts that still have rows, at most 16.
    pub fn closed_accounts(&self) -> Pending<Vec<AccountId>, StoreError> {
        self.read(None, |_, rows| deletion::deleted_accounts(rows))
    }

    /// Removes a limited part of the rows of a deleted account. It must be called until the deletion is complete; any process can
    /// continue it.
    pub fn delete_step(&self, id: AccountId, now: UnixMs) -> Pending<DeletionStep, StoreError> {
        Pending::begin(|| {
            let finishing_key = batches::finishing_key(&self.shared().vault, now)?;
            Ok(self.write(Job::of(id, Class::Answer), move |txn| {
                Ok(txn.delete_step(id, &finishing_key, now)?)
            }))
        })
    }

    /// The key with this hash. It reads memory only, without a transaction, and sees a revocation as soon as that is
    /// answered.
    pub fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup> {
        self.shared().index.look_up(hash)
    }

    /// Whether the account has this key, and it is neither revoked nor expired. It reads memory only, as [`Store::key_by_hash`].
    pub fn is_key_in_force(&self, id: KeyId, account: AccountId, now: UnixMs) -> bool {
        self.shared().index.is_in_force(id, account, now)
    }

    /// The account's keys with the revoked and expired ones, oldest first.
    pub fn keys(&self, account: AccountId) -> Pending<Vec<KeyInfo>, StoreError> {
        Pending::of(|| Ok(self.shared().index.of_account(account)))
    }

    /// Adds a key, if the account has fewer than [`KEYS_MAX`] that are neither revoked nor expired. Beyond [`KEYS_KEPT_MAX`] in
    /// all, the keys that ended first are removed. A database of an older format accepts only keys with all scopes and without
    /// an expiry.
    pub fn create_key(&self, new: NewKey, by: Authority, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        self.change(new.account, move |txn| txn.create_key(&new, &by, now))
    }

    /// Revokes a key permanently; a second revocation changes nothing.
    pub fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        let job = Job::general(Class::New).with_lock(Lock::Index);
        self.write(job, move |txn| txn.revoke_key(id, now))
    }

    /// Records a use of the key. It writes at most once a minute for each key and never waits; if the queue is full,
    /// the next use is recorded instead.
    pub fn key_used(&self, id: KeyId, now: UnixMs) {
        if !self.backend.is_crowded() && self.shared().index.note_use(id, now) {
            // No caller waits for it, and a lost record is repeated at the next use.
            drop(self.write(Job::general(Class::New), move |txn| -> Result<(), WriteError<StoreError>> {
                Ok(txn.note_key_use(id, now)?)
            }));
        }
    }

    /// The rights of the account. It reads memory only, without a transaction, and sees a change as soon as that is
    /// answered.
    pub fn terms(&self, account: AccountId) -> Option<Terms> {
        self.shared().index.terms(account, &self.shared().plans.get())
    }

    /// Gives an account its own limits instead of its plan's. With `reset` its earlier ones are removed first.
    pub fn set_overrides(
        &self,
        account: AccountId,
        reset: bool,
        set: Overrides,
    ) -> Pending<Overrides, ChangeError> {
        self.change(account, move |txn| txn.set_overrides(account, reset, &set))
    }
}

fn view_at(shared: &Shared, id: AccountId, mut row: AccountRow, now: UnixMs) -> Result<Account, StoreError> {
    let plans = shared.plans.get();
    let plan = find_plan(&plans, &row)?;
    row.subscription.roll(plan, shared.clock_check.of_periods(now));
    Ok(view_account(id, &row, plan))
}
