//! Limits of accounts, and the counters of [`rate_limit`](store::rate_limit) over a restart.
//!
//! Both are read completely when the store opens: limits into the index, counters by the limiter.

use super::index::KeyChange;
use super::row::Row;
use super::tables::{ACCOUNTS, AccountRow, FAIR_USE, LIMITS, WINDOWS, split_window_key, window_key};
use super::txn::Txn;
use super::write_error::{WriteError, refuse};
use ::redb::{Database, ReadableDatabase, ReadableTable};
use store::rate_limit::{Bucket, Kept, Overrides, Window};
use store::{AccountId, ChangeError, StoreError};

impl Txn<'_> {
    /// Adds to an account's own limits; `reset` removes the earlier ones first.
    pub fn set_overrides(
        &mut self,
        account: AccountId,
        reset: bool,
        set: &Overrides,
    ) -> Result<Overrides, WriteError<ChangeError>> {
        if !set.is_within_bounds() {
            return refuse(ChangeError::BadLimit);
        }
        if self.accounts.get(&account.to_bytes())?.is_none() {
            return refuse(ChangeError::UnknownAccount);
        }
        let mut limits = self.transaction.open_table(LIMITS)?;
        let key = account.to_bytes();
        let had = limits.get(&key)?.map(|row| Overrides::decode(row.value())).transpose()?;
        let own = had.filter(|_| !reset).unwrap_or_default().with(set);
        if own.is_none() {
            limits.remove(&key)?;
        } else {
            limits.insert(&key, own.encode().as_slice())?;
        }
        self.key_changes.push(KeyChange::Overrides(account, own));
        Ok(own)
    }

    /// Writes counters, and removes the empty ones.
    pub fn keep_counters(&mut self, changed: &Kept) -> Result<(), StoreError> {
        let mut windows = self.transaction.open_table(WINDOWS)?;
        for (id, window) in &changed.windows {
            if *window == Window::default() {
                windows.remove(&window_key(id))?;
            } else {
                windows.insert(&window_key(id), window.encode().as_slice())?;
            }
        }
        let mut fair_use = self.transaction.open_table(FAIR_USE)?;
        for (account, bucket) in &changed.fair_use {
            if bucket.level == 0 {
                fair_use.remove(&account.to_bytes())?;
            } else {
                fair_use.insert(&account.to_bytes(), bucket.encode().as_slice())?;
            }
        }
        Ok(())
    }
}

/// The plan, the name and the own limits of every account.
pub(super) fn read_terms(database: &Database) -> Result<Vec<KeyChange>, StoreError> {
    let transaction = database.begin_read()?;
    let mut terms = Vec::new();
    for account in transaction.open_table(ACCOUNTS)?.iter()? {
        let (id, row) = account?;
        let (id, row) = (AccountId::from_bytes(*id.value()), AccountRow::decode(row.value())?);
        terms.push(KeyChange::Plan(id, row.plan));
        terms.push(KeyChange::Named(id, row.name));
    }
    for own in transaction.open_table(LIMITS)?.iter()? {
        let (id, row) = own?;
        let own = Overrides::decode(row.value())?;
        terms.push(KeyChange::Overrides(AccountId::from_bytes(*id.value()), own));
    }
    Ok(terms)
}

/// Every stored counter.
pub(super) fn read_counters(database: &Database) -> Result<Kept, StoreError> {
    let transaction = database.begin_read()?;
    let mut kept = Kept::default();
    for window in transaction.open_table(WINDOWS)?.iter()? {
        let (key, row) = window?;
        let unknown = || StoreError::Failed("table windows has a row of no limit".into());
        let id = split_window_key(key.value()).ok_or_else(unknown)?;
        kept.windows.insert(id, Window::decode(row.value())?);
    }
    for bucket in transaction.open_table(FAIR_USE)?.iter()? {
        let (account, row) = bucket?;
        kept.fair_use.insert(AccountId::from_bytes(*account.value()), Bucket::decode(row.value())?);
    }
    Ok(kept)
}
