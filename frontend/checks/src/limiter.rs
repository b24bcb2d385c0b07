//! The counters of [`rate_limit`](store::rate_limit) with the limits of each account, kept over restarts.
//!
//! The store gets the changes each second. So a restart, even after a kill, permits at most the requests of the last
//! second again.

use crate::keeper::Keeper;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::rate_limit::{Counters, Kept, Leased, Limits, Permits, RateLimited, Row, Standing, WindowId};
use store::{AccountId, KeyId, StoreError, UnixMs};
use store_rules::Store;

/// How often changed counters are written.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// How long a request waits for permits, and how long the store is then not asked for any.
const LEASE_TIME_MAX: Duration = Duration::from_millis(500);
const LEASE_REST_MS: u64 = 1_000;

/// The counters of all keys and accounts, which all frontend threads share.
pub struct Limiter {
    store: Arc<Store>,
    /// The counters of this process. With other nodes they count what this one has allowed, for the time without the database.
    counters: Counters,
    permits: Permits,
    /// The time until which the store is not asked for permits, since it did not answer.
    rests_until: AtomicU64,
}

/// A full check's part of the fair use of its account.
pub enum FairUse<'l> {
    /// It was taken.
    Taken(Share<'l>),
    /// The store takes it, since several nodes share it: the rate per second and the burst.
    Shared((u32, u32)),
}

impl Limiter {
    /// Opens the limiter with the counters in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn open(store: Arc<Store>) -> Result<Limiter, StoreError> {
        let kept = if store.has_nodes() { Kept::default() } else { store.kept_counters().wait()? };
        let (counters, permits) = (Counters::new(kept), Permits::default());
        Ok(Limiter { store, counters, permits, rests_until: AtomicU64::new(0) })
    }

    /// Counts a request of a key in a row. A fast check counts for the account too: it costs nothing, and an account has many keys.
    ///
    /// # Errors
    ///
    /// The limit of the row is reached, for the key or for the account. Then it is counted for neither.
    pub async fn count(
        &self,
        (account, key): (AccountId, KeyId),
        row: Row,
        limits: &Limits,
        now: UnixMs,
    ) -> Result<Standing, RateLimited> {
        let own = WindowId { key, row };
        let standing = self.count_one(own, limits.row(row), now).await?;
        if row == Row::Fast {
            let all = WindowId { key: KeyId::from_bytes(account.to_bytes()), row: Row::FastAccount };
            if let Err(limited) = self.count_one(all, limits.row(Row::FastAccount), now).await {
                self.counters.give_back(own);
                if self.store.has_nodes() {
                    self.permits.give_back(own);
                }
                return Err(limited);
            }
        }
        Ok(standing)
    }

    async fn count_one(&self, id: WindowId, limit: u32, now: UnixMs) -> Result<Standing, RateLimited> {
        if !self.store.has_nodes() {
            return self.counters.count(id, limit, now);
        }
        let counted = match self.permits.take(id, limit, now) {
            Ok(standing) => Ok(standing),
            // In a box, because servers without other nodes would have the space of its timer in each request.
            Err(want) => match Box::pin(self.lease(id, limit, want, now)).await {
                Some(leased) => match self.permits.granted(id, limit, leased, now) {
                    Some(standing) => Ok(standing),
                    None => return Err(RateLimited(self.permits.refused(id, limit, leased, now))),
                },
                // Without the database each node allows its part.
                None => return self.counters.count(id, (limit / self.store.live_nodes()).max(1), now),
            },
        };
        // Counted only for times without the database, so the result does not matter here.
        let _ = self.counters.count(id, limit, now);
        counted
    }

    /// Permits of the store; `None` if it does not answer soon.
    async fn lease(&self, id: WindowId, limit: u32, want: u32, now: UnixMs) -> Option<Leased> {
        if now < self.rests_until.load(Ordering::Relaxed) || !self.store.may_work() {
            return None;
        }
        let leased = self.store.lease_permits(id, limit, want, now);
        if let Ok(Ok(leased)) = monoio::time::timeout(LEASE_TIME_MAX, leased).await {
            return Some(leased);
        }
        self.rests_until.store(now.saturating_add(LEASE_REST_MS), Ordering::Relaxed);
        None
    }

    /// Takes one charged full check from the account's fair use, before the charge. All live keys of the account share
    /// it.
    ///
    /// # Errors
    ///
    /// The fair use is used up.
    pub fn fair_use(&self, account: AccountId, now: UnixMs) -> Result<FairUse<'_>, RateLimited> {
        let limits = self.limits(account);
        if self.store.has_nodes() {
            return Ok(FairUse::Shared((limits.fair_use_per_second, limits.fair_use_burst)));
        }
        self.counters.take_fair_use(account, &limits, now)?;
        Ok(FairUse::Taken(Share { limiter: self, account }))
    }

    /// For an unknown account the result does not matter, since it cannot be charged.
    fn limits(&self, account: AccountId) -> Limits {
        self.store.terms(account).map_or_else(Limits::default, |terms| terms.limits)
    }

    /// Gives the changes to the store. Changes that it does not accept stay in `changed` and go with the next write.
    fn keep(&self, changed: &mut Kept, now: UnixMs) -> Result<(), StoreError> {
        if self.store.has_nodes() {
            self.counters.forget_idle(now);
            self.permits.forget_idle(now);
            return Ok(());
        }
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
        Arc::new(Limiter::open(store).unwrap())
    }

    /// The count of a single process, which needs no runtime.
    fn count(limiter: &Limiter, key: KeyId, row: Row, now: UnixMs) -> Result<Standing, RateLimited> {
        let limits = Limits { poll: 3, fast: 4, fast_account: 5, ..Limits::default() };
        futures_lite::future::block_on(limiter.count((AccountId::new(NOW, 2), key), row, &limits, now))
    }

    #[test]
    fn all_keys_of_an_account_share_its_fast_checks() {
        let folder = tempfile::tempdir().unwrap();
        let limiter = limiter(folder.path(), NOW);
        let fast = |key: u128, at| count(&limiter, KeyId::new(NOW, key), Row::Fast, NOW + at);
        for at in 0..4 {
            assert_eq!(fast(1, at).map(|standing| standing.remaining), Ok(3 - at as u32));
        }
        assert_eq!(fast(1, 4).map_err(|limited| limited.0.policy), Err("fast"));
        assert!(fast(2, 5).is_ok());
        let refused = fast(3, 6).unwrap_err().0;
        assert_eq!((refused.policy, refused.quota, refused.wait_s()), ("fast_account", 5, 60));
        // What the account's limit refused does not count for the key: after the wait its own limit is there as a whole.
        for at in 0..4 {
            fast(3, 60_005 + at).unwrap();
        }
        assert!(count(&limiter, KeyId::new(NOW, 4), Row::Poll, NOW).is_ok());
    }

    fn charge(taken: Result<FairUse<'_>, RateLimited>) {
        match taken {
            Ok(FairUse::Taken(share)) => share.charged(),
            _ => panic!("it was not taken"),
        }
    }

    #[test]
    fn counters_outlive_the_process_and_go_when_they_are_idle() {
        let folder = tempfile::tempdir().unwrap();
        let (key, account) = (KeyId::new(NOW, 1), AccountId::new(NOW, 2));
        let first = limiter(folder.path(), NOW);
        let new = NewAccount { id: account, name: "a".into(), plan: "free".into() };
        first.store.create_account(new, NOW).wait().unwrap();
        for at in 0..3 {
            count(&first, key, Row::Poll, NOW + at).unwrap();
        }
        for _ in 0..600 {
            drop(first.fair_use(account, NOW).unwrap());
            charge(first.fair_use(account, NOW));
        }
        drop(keep(Arc::clone(&first), || NOW + 2).unwrap());
        drop(first);

        let second = limiter(folder.path(), NOW + 1_000);
        assert!(count(&second, key, Row::Poll, NOW + 59_000).is_err());
        assert!(count(&second, key, Row::Fast, NOW + 59_000).is_ok());
        assert!(second.fair_use(account, NOW + 100).is_err());
        assert!(second.fair_use(account, NOW + 200).is_ok());
        assert!(count(&second, key, Row::Poll, NOW + 60_002).is_ok());
        let mut changed = Kept::default();
        second.keep(&mut changed, NOW + 1_000_000).unwrap();
        assert!(changed.is_empty());
        assert_eq!(second.store.kept_counters().wait().unwrap(), Kept::default());
    }
}
