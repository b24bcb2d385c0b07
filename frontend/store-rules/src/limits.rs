//! Limits of accounts, and the counters of [`rate_limit`](store::rate_limit) over a restart.
//!
//! Both are read completely when the store opens: limits into the index, counters by the limiter.

use crate::index::KeyChange;
use crate::rows::Rows;
use crate::tables::{ACCOUNTS, FAIR_USE, FORMAT_OF_LISTS, LIMITS, WINDOWS, split_window_key, window_key};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use store::rate_limit::{Bucket, Kept, Leased, Overrides, Window, WindowId};
use store::{AccountId, AttemptError, ChangeError, StoreError, UnixMs};

impl Txn<'_> {
    /// Adds to an account's own limits; `reset` removes the earlier ones first.
    pub(crate) fn set_overrides(
        &mut self,
        account: AccountId,
        reset: bool,
        set: &Overrides,
    ) -> Result<Overrides, WriteError<ChangeError>> {
        if !set.is_within_bounds() {
            return refuse(ChangeError::BadLimit);
        }
        if !self.has_account(account)? {
            return refuse(ChangeError::UnknownAccount);
        }
        if set.list.is_some()
            && let Some(refusal) = self.lacks_format(FORMAT_OF_LISTS)?
        {
            return refuse(refusal.into());
        }
        let key = account.to_bytes();
        let had = LIMITS.get(self.rows(), &key)?;
        let own = had.filter(|_| !reset).unwrap_or_default().with(set);
        if own.is_none() {
            LIMITS.remove(self.rows, &key)?;
        } else {
            LIMITS.put(self.rows, &key, &own)?;
        }
        self.effects.key_changes.push(KeyChange::Overrides(account, own));
        Ok(own)
    }

    /// Takes permits from a shared window.
    pub(crate) fn lease_permits(
        &mut self,
        id: WindowId,
        limit: u32,
        want: u32,
        now: UnixMs,
    ) -> Result<Leased, StoreError> {
        let key = window_key(&id);
        let mut window = WINDOWS.get(self.rows(), &key)?.unwrap_or_default();
        let leased = window.lease(limit, want, now);
        if leased.granted > 0 {
            WINDOWS.put(self.rows, &key, &window)?;
        }
        Ok(leased)
    }

    /// An account's fair use with one check more. It is not written, because the charge may be refused.
    pub(crate) fn take_fair_use(
        &self,
        account: AccountId,
        (per_second, burst): (u32, u32),
        now: UnixMs,
    ) -> Result<Bucket, WriteError<AttemptError>> {
        let mut bucket = FAIR_USE.get(self.rows(), &account.to_bytes())?.unwrap_or_default();
        match bucket.take(per_second, burst, now) {
            Ok(()) => Ok(bucket),
            Err(wait_ms) => refuse(AttemptError::FairUse { wait_ms }),
        }
    }

    /// Writes an account's fair use.
    pub(crate) fn put_fair_use(&mut self, account: AccountId, bucket: &Bucket) -> Result<(), StoreError> {
        FAIR_USE.put(self.rows, &account.to_bytes(), bucket)
    }

    /// Gives back a check that was not charged.
    pub(crate) fn give_back_fair_use(&mut self, account: AccountId) -> Result<(), StoreError> {
        let key = account.to_bytes();
        let Some(mut bucket) = FAIR_USE.get(self.rows(), &key)? else { return Ok(()) };
        bucket.give_back();
        FAIR_USE.put(self.rows, &key, &bucket)
    }

    /// Writes counters, and removes the empty ones.
    pub(crate) fn keep_counters(&mut self, changed: &Kept) -> Result<(), StoreError> {
        for (id, window) in &changed.windows {
            let key = window_key(id);
            if *window == Window::default() {
                WINDOWS.remove(self.rows, &key)?;
            } else {
                WINDOWS.put(self.rows, &key, window)?;
            }
        }
        for (account, bucket) in &changed.fair_use {
            let key = account.to_bytes();
            if bucket.level == 0 {
                FAIR_USE.remove(self.rows, &key)?;
            } else {
                FAIR_USE.put(self.rows, &key, bucket)?;
            }
        }
        Ok(())
    }
}

/// The plan, the name and the own limits of every account.
pub(crate) fn read_terms(rows: &dyn Rows) -> Result<Vec<KeyChange>, StoreError> {
    let mut terms = Vec::new();
    ACCOUNTS.walk_all(rows, |id, row| {
        let id = AccountId::from_bytes(id);
        terms.push(KeyChange::Plan(id, row.plan));
        terms.push(KeyChange::Named(id, row.name));
    })?;
    LIMITS.walk_all(rows, |id, own| terms.push(KeyChange::Overrides(AccountId::from_bytes(id), own)))?;
    Ok(terms)
}

/// Every stored counter.
pub(crate) fn read_counters(rows: &dyn Rows) -> Result<Kept, StoreError> {
    let mut kept = Kept::default();
    let mut is_known = true;
    WINDOWS.walk_all(rows, |key, window| match split_window_key(&key) {
        Some(id) => drop(kept.windows.insert(id, window)),
        None => is_known = false,
    })?;
    if !is_known {
        return Err(StoreError::Failed("table windows has a row of no limit".into()));
    }
    FAIR_USE.walk_all(rows, |account, bucket| {
        kept.fair_use.insert(AccountId::from_bytes(account), bucket);
    })?;
    Ok(kept)
}
