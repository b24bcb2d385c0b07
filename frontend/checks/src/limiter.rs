//! The counters of [`rate_limit`](store::rate_limit) with the limits of each account, kept over restarts.
//!
//! The store gets the changes each second. So a restart, even after a kill, permits at most the requests of the last
//! second again.

use crate::keeper::Keeper;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::rate_limit::{Counters, Kept, Limits, RateLimited, Row, Standing, WindowId};
use store::{AccountId, KeyId, Store, StoreError, UnixMs};

/// How often changed counters are written.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// The counters of all keys and accounts, which all frontend threads share.
pub struct Limiter {
    store: Arc<dyn Store>,
    counters: Counters,
}

impl Limiter {
    /// Opens the limiter with the counters in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn open(store: Arc<dyn Store>) -> Result<Limiter, StoreError> {
        let counters = Counters::new(store.kept_counters().wait()?);
        Ok(Limiter { store, counters })
    }

    /// Counts a request of a key in a row.
    ///
    /// # Errors
    ///
    /// The limit of the row is reached.
    pub fn count(&self, key: KeyId, row: Row, limits: &Limits, now: UnixMs) -> Result<Standing, RateLimited> {
        self.counters.count(WindowId { key, row }, limits.row(row), now)
    }

    /// Takes one charged full check from the account's fair use, before the charge. All live keys of the account share
    /// it.
    ///
    /// # Errors
    ///
    /// The fair use is used up.
    pub fn take_fair_use(&self, account: AccountId, now: UnixMs) -> Result<Share<'_>, RateLimited> {
        self.counters.take_fair_use(account, &self.limits(account), now)?;
        Ok(Share { limiter: self, account })
    }

    /// For an unknown account the result does not matter, since it cannot be charged.
    fn limits(&self, account: AccountId) -> Limits {
        self.store.terms(account).map_or_else(Limits::default, |terms| terms.limits)
    }

    /// Gives the changes to the store. Changes that it does not accept stay in `changed` and go with the next write.
    fn keep(&self, changed: &mut Kept, now: UnixMs) -> Result<(), StoreError> {
        self.counters.collect(changed, |account| self.limits(account), now);
        if !changed.is_empty() {
            self.store.keep_counters(changed.clone()).wait()?;
            *changed = Kept::default();
        }
        Ok(())
    }
}

/// A full check's part of its account's fair use. It is returned if it is dropped before [`Share::charged`], on every
/// path without a charge.
#[must_use = "it is given back at once"]
pub struct Share<'l> {
    limiter: &'l Limiter,
    account: AccountId,
}

impl Share<'_> {
    /// Keeps the part: the check is charged.
    pub fn charged(self) {
        std::mem::forget(self);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.limiter.counters.give_back_fair_use(self.account);
    }
}

/// Starts the thread that stores a limiter's counters periodically, and once more on drop.
///
/// # Errors
///
/// The operating system has no thread for it.
pub fn keep(limiter: Arc<Limiter>, clock: impl Fn() -> UnixMs + Send + 'static) -> io::Result<Keeper> {
    let (mut changed, mut failing) = (Kept::default(), false);
    Keeper::start("limits", KEEP_EVERY, move || {
        let kept = limiter.keep(&mut changed, clock());
        if let (Err(error), false) = (&kept, failing) {
            tracing::warn!("the counters of rate limits are not kept: {error}");
        }
        failing = kept.is_err();
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use store::{NewAccount, PlanTable};
    use store_redb::StoreOptions;

    const NOW: UnixMs = 1_801_386_000_000;

    fn limiter(folder: &Path, now: UnixMs) -> Arc<Limiter> {
        let store = store_redb::open(folder, PlanTable::standard(), StoreOptions::default(), now).unwrap().0;
        Arc::new(Limiter::open(Arc::new(store)).unwrap())
    }

    #[test]
    fn counters_outlive_the_process_and_go_when_they_are_idle() {
        let folder = tempfile::tempdir().unwrap();
        let (key, account) = (KeyId::new(NOW, 1), AccountId::new(NOW, 2));
        let limits = Limits { poll: 3, ..Limits::default() };
        let first = limiter(folder.path(), NOW);
        let new = NewAccount { id: account, name: "a".into(), plan: "free".into() };
        first.store.create_account(new, NOW).wait().unwrap();
        for at in 0..3 {
            first.count(key, Row::Poll, &limits, NOW + at).unwrap();
        }
        for _ in 0..600 {
            drop(first.take_fair_use(account, NOW).unwrap());
            first.take_fair_use(account, NOW).unwrap().charged();
        }
        drop(keep(Arc::clone(&first), || NOW + 2).unwrap());
        drop(first);

        let second = limiter(folder.path(), NOW + 1_000);
        assert!(second.count(key, Row::Poll, &limits, NOW + 59_000).is_err());
        assert!(second.count(key, Row::Fast, &limits, NOW + 59_000).is_ok());
        assert!(second.take_fair_use(account, NOW + 100).is_err());
        assert!(second.take_fair_use(account, NOW + 200).is_ok());
        assert!(second.count(key, Row::Poll, &limits, NOW + 60_002).is_ok());
        let mut changed = Kept::default();
        second.keep(&mut changed, NOW + 1_000_000).unwrap();
        assert!(changed.is_empty());
        assert_eq!(second.store.kept_counters().wait().unwrap(), Kept::default());
    }
}
