//! The deletion of accounts, in two parts.
//!
//! [`Txn::close_account`] is one transaction. After it, no key, password, session or token of the account is accepted, its name is
//! free, and it takes no new rows. The transaction also writes a note (`expiries`), which is the order to remove the rest.
//! [`Txn::delete_step`] removes a limited part of the rest in each transaction, so any process can continue after a crash. The sums
//! of the account agree with its ledger after each step. The last step removes both, and adds the sums to those of all deleted
//! accounts.

use crate::index::{KeyChange, key_info};
use crate::row::Fixed;
use crate::rows::{Rows, Walk};
use crate::sweep::sweep_account;
use crate::tables::{
    ACCOUNTS, BATCH_ROWS, BATCHES, CONNECTIONS, DAYS, EMAILS, EXPIRIES, Expiring, FAIR_USE,
    FORMAT_OF_KEY_RIGHTS, HOLDS, IDEMPOTENCY, KEYS, LEDGER, LIMITS, LISTS, META, META_DELETED, NAMES,
    STORED_BYTES, USERS, WEBHOOKS, account_range, carried_id, day_key, entry_key, expiring_row, expiry_key,
    join, split,
};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use std::collections::BTreeMap;
use store::webhooks::EventKind;
use store::{
    AccountId, Authority, CONNECTIONS_MAX, ChangeError, ConnectionId, DeletionStep, EntryKind, KeyId,
    KeyInfo, StoreError, SubscriptionStatus, UnixMs, WebhookId,
};
use vault::VaultKey;

/// How many batches a step ends and removes: each open one is sealed again.
const BATCHES_MAX: usize = 16;

/// How many small rows a step removes.
const ROWS_MAX: usize = 500;

/// How many accounts [`deleted_accounts`] returns.
const ACCOUNTS_MAX: usize = 16;

/// The note that orders the removal of an account's rows.
fn order(id: AccountId) -> [u8; 41] {
    expiry_key(Expiring::Account, 0, &join(id.to_bytes(), [0; 16]))
}

/// The closed accounts that still have rows, at most [`ACCOUNTS_MAX`].
pub(crate) fn deleted_accounts(rows: &dyn Rows) -> Result<Vec<AccountId>, StoreError> {
    let all = expiry_key(Expiring::Account, 0, &[0; 32])..=expiry_key(Expiring::Account, 0, &[0xff; 32]);
    let orders = EXPIRIES.keys(rows, all, ACCOUNTS_MAX)?;
    Ok(orders.iter().map(|order| AccountId::from_bytes(split(&expiring_row(order)).0)).collect())
}

/// The fault in the sums of all deleted accounts, if there is one.
pub(crate) fn audit_deleted(rows: &dyn Rows) -> Result<Option<String>, StoreError> {
    let [_, granted, spent, expired] = read_sums(rows)?;
    let fault = || format!("deleted accounts: {granted} granted, {spent} spent and {expired} expired");
    Ok((granted != spent.saturating_add(expired)).then(fault))
}

/// The number of deleted accounts, and the sums of their granted, spent and expired credits.
fn read_sums(rows: &dyn Rows) -> Result<[u64; 4], StoreError> {
    let mut sums = [0; 4];
    for (sum, name) in sums.iter_mut().zip(META_DELETED) {
        *sum = META.get(rows, name)?.map_or(0, |number| number.0);
    }
    Ok(sums)
}

impl Txn<'_> {
    /// Whether an account was deleted at any time.
    pub(crate) fn has_deleted(&self) -> Result<bool, StoreError> {
        Ok(read_sums(self.rows())?[0] > 0 || !deleted_accounts(self.rows())?.is_empty())
    }

    /// Ends every access to an account, and orders the removal of its rows.
    pub(crate) fn close_account(
        &mut self,
        id: AccountId,
        by: &Authority,
        now: UnixMs,
    ) -> Result<(), WriteError<ChangeError>> {
        if let Some(refusal) = self.lacks_format(FORMAT_OF_KEY_RIGHTS)? {
            return refuse(refusal.into());
        }
        let account = self.open_account(id, now)?;
        let mut account = account.ok_or(WriteError::Refused(ChangeError::UnknownAccount))?;
        if account.row.is_closed() {
            return Ok(());
        }
        if !self.holds(by, id, now)? {
            return refuse(ChangeError::Outdated);
        }
        self.remove_keys(id)?;
        self.remove_user(id)?;
        for key in CONNECTIONS.keys(self.rows(), account_range(id), CONNECTIONS_MAX)? {
            self.end_connection(id, ConnectionId::from_bytes(split(&key).1))?;
        }
        NAMES.remove(self.rows, account.row.name.as_str())?;
        account.row.name.clear();
        let step = account.row.subscription.change_status(SubscriptionStatus::Canceled, account.plan);
        self.record(&mut account, EntryKind::PlanChange, step, now)?;
        self.save(&account)?;
        self.expire_at(Expiring::Account, 0, &expiring_row(&order(id)), now)?;
        Ok(())
    }

    /// The keys of an account, also those of this transaction, which the index does not have yet.
    pub(crate) fn keys_of(&self, account: AccountId) -> BTreeMap<KeyId, KeyInfo> {
        let known = self.shared.index.of_account(account);
        let mut keys: BTreeMap<KeyId, KeyInfo> = known.into_iter().map(|key| (key.id, key)).collect();
        for change in &self.effects.key_changes {
            match change {
                KeyChange::Added(id, row) if row.account == account => {
                    keys.insert(*id, key_info(*id, row));
                }
                KeyChange::Revoked(id, at) => {
                    if let Some(key) = keys.get_mut(id) {
                        key.revoked_at = Some(*at);
                    }
                }
                KeyChange::Removed(id) => drop(keys.remove(id)),
                KeyChange::Closed(closed) if *closed == account => keys.clear(),
                _ => {}
            }
        }
        keys
    }

    fn remove_keys(&mut self, id: AccountId) -> Result<(), StoreError> {
        for key in self.keys_of(id).keys() {
            KEYS.remove(self.rows, &key.to_bytes())?;
        }
        LIMITS.remove(self.rows, &id.to_bytes())?;
        self.effects.key_changes.push(KeyChange::Closed(id));
        Ok(())
    }

    fn remove_user(&mut self, id: AccountId) -> Result<(), StoreError> {
        if let Some(user) = USERS.get(self.rows(), &id.to_bytes())? {
            EMAILS.remove(self.rows, &user.email_hash)?;
            USERS.remove(self.rows, &id.to_bytes())?;
        }
        self.end_sessions(id, None).map(drop)
    }

    /// Removes the next part of a closed account.
    pub(crate) fn delete_step(
        &mut self,
        id: AccountId,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<DeletionStep, StoreError> {
        // The account's row comes first: it guards the rest, which another node may be removing.
        let account = ACCOUNTS.get(self.rows(), &id.to_bytes())?;
        if !EXPIRIES.has(self.rows(), &order(id))? {
            return Ok(DeletionStep::Complete);
        }
        let Some(account) = account else {
            EXPIRIES.remove(self.rows, &order(id))?;
            return Ok(DeletionStep::Complete);
        };
        if self.remove_content(id, finishing_key, now)? {
            return Ok(DeletionStep::More);
        }
        if !HOLDS.keys(self.rows(), account_range(id), 1)?.is_empty() {
            return Ok(DeletionStep::ChecksUnderWay);
        }
        if sweep_account(self, id, UnixMs::MAX, ROWS_MAX as u64)? > 0 {
            return Ok(DeletionStep::More);
        }
        let balance = account.subscription.balance;
        let [accounts, granted, spent, expired] = read_sums(self.rows())?;
        // What is left of the credits expires with the account. It is added up from its parts, so that the audit can compare.
        let lost = balance.expired.saturating_add(balance.plan_left).saturating_add(balance.pack_left);
        let sums = [
            accounts.saturating_add(1),
            granted.saturating_add(balance.granted),
            spent.saturating_add(balance.spent),
            expired.saturating_add(lost),
        ];
        for (sum, name) in sums.into_iter().zip(META_DELETED) {
            META.put(self.rows, name, &Fixed(sum))?;
        }
        LEDGER.remove(self.rows, &entry_key(id, carried_id()))?;
        FAIR_USE.remove(self.rows, &id.to_bytes())?;
        ACCOUNTS.remove(self.rows, &id.to_bytes())?;
        EXPIRIES.remove(self.rows, &order(id))?;
        Ok(DeletionStep::Complete)
    }

    /// Removes a part of the webhooks, lists, batches and days of an account; returns whether there was any. Webhooks come first,
    /// so the ends of lists and batches cause no messages.
    fn remove_content(
        &mut self,
        id: AccountId,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<bool, StoreError> {
        if let Some(key) = WEBHOOKS.keys(self.rows(), account_range(id), 1)?.pop() {
            return self.delete_webhook(id, WebhookId::from_bytes(split(&key).1));
        }
        if let Some(key) = LISTS.keys(self.rows(), account_range(id), 1)?.pop() {
            return Ok(self.delete_list(key, finishing_key, now)?.is_some());
        }
        if self.remove_batches(id, finishing_key, now)? || self.remove_idempotency(id)? {
            return Ok(true);
        }
        let all = day_key(id, 0)..=day_key(id, u32::MAX);
        for day in STORED_BYTES.keys(self.rows(), all.clone(), ROWS_MAX)? {
            STORED_BYTES.remove(self.rows, &day)?;
        }
        let days = DAYS.keys(self.rows(), all, ROWS_MAX)?;
        for day in &days {
            DAYS.remove(self.rows, day)?;
        }
        Ok(!days.is_empty())
    }

    fn remove_batches(
        &mut self,
        id: AccountId,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<bool, StoreError> {
        let keys = BATCHES.keys(self.rows(), account_range(id), BATCHES_MAX)?;
        BATCHES.expect(self.rows(), &keys);
        BATCH_ROWS.expect(self.rows(), &keys);
        for key in &keys {
            drop(self.give_up(key, EventKind::BatchCancelled, finishing_key, now)?);
            if let Some(row) = BATCHES.get(self.rows(), key)? {
                self.unexpire(Expiring::Batch, row.expires_at(), key)?;
                BATCH_ROWS.remove(self.rows, key)?;
                BATCHES.remove(self.rows, key)?;
            }
        }
        Ok(!keys.is_empty())
    }

    fn remove_idempotency(&mut self, id: AccountId) -> Result<bool, StoreError> {
        let mut found = Vec::new();
        IDEMPOTENCY.walk(self.rows(), account_range(id), ROWS_MAX, |key, row| {
            found.push((key, row.expires_at()));
            Walk::On
        })?;
        for (key, expires_at) in &found {
            self.unexpire(Expiring::Idempotency, *expires_at, key)?;
            IDEMPOTENCY.remove(self.rows, key)?;
        }
        Ok(!found.is_empty())
    }
}
