//! Limits on the requests of keys and accounts: pure counters, with the time and the limits as arguments.
//!
//! Each key has a counter for each [`Row`] of the contract's table: at most the limit in any 60 seconds, which may come
//! as one burst ([`window`]). Each account has one bucket for the charged full checks of all its live keys: fair use
//! ([`fair_use`]). [`Counters`] shares both among threads.
//!
//! Refused requests are not counted. So a caller that waits for the stated time is admitted, however many requests were
//! refused.
//!
//! Times are wall-clock times, since counters survive the process. If the clock goes back, the recorded times change by
//! at most that step: times in the future then count as now. So it permits no second burst, and no caller waits longer
//! than a window.

pub mod fair_use;
pub mod limits;
pub mod permits;
mod shards;
pub mod window;

pub use fair_use::Bucket;
pub use limits::{Limits, Overrides, PerLimit};
pub use permits::Permits;
pub use window::{Step, Window};

use crate::{AccountId, KeyId, UnixMs};
use api::named;
use shards::Shards;
use std::collections::BTreeMap;

/// A clock that goes back by less than this is the reading of another thread, or is being adjusted slowly: time does
/// not advance until it is reached again.
const CLOCK_SLACK_MS: u64 = 1_000;

named! {
    /// A row in the contract's table of limits. Its name is that of the policy in headers, and of its limit in the configuration.
    Row {
        /// `/v1/verify` with `mode=fast`.
        Fast = "fast",
        /// `/v1/verify` in full mode.
        Verify = "verify",
        /// `POST /v1/verify/batch`.
        Batch = "batch",
        /// `GET /v1/verify/batch/{batch_id}`.
        Poll = "poll",
        /// `/v1/account`.
        Account = "account",
        /// The requests that create, upload, start, cancel, delete and download lists.
        List = "list",
        /// `/v1/verify` with `mode=fast` by all keys of an account together, so that many keys take no more of the server than ten.
        FastAccount = "fast_account",
    }
}

/// The state of a counter after a counted or refused request, for the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The name of the policy.
    pub policy: &'static str,
    /// The requests that the window allows.
    pub quota: u32,
    /// The length of the window in seconds.
    pub window_s: u64,
    /// The requests that are left now.
    pub remaining: u32,
    /// The time of this state.
    pub now: UnixMs,
    /// The time at which more requests are left; with none left, the time of the next admitted request.
    pub more_at: UnixMs,
}

impl Standing {
    /// The whole seconds until more requests are left, rounded up, and at least one.
    pub fn wait_s(&self) -> u64 {
        self.more_at.saturating_sub(self.now).div_ceil(1000).max(1)
    }
}

/// The error of a request over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited(pub Standing);

/// Permits that a node got from a shared window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// How many.
    pub granted: u32,
    /// How many the window has left after them.
    pub left: u32,
    /// The time at which it has more.
    pub more_at: UnixMs,
}

/// The key and the row of a counter. An account that is counted as a whole stands in the place of a key, by the bits of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId {
    /// The key that is counted.
    pub key: KeyId,
    /// The row that is counted.
    pub row: Row,
}

/// The counters in the form of the store. An empty counter means that it must be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The counters of keys.
    pub windows: BTreeMap<WindowId, Window>,
    /// The counters of accounts.
    pub fair_use: BTreeMap<AccountId, Bucket>,
}

impl Kept {
    /// Whether there are no counters at all.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.fair_use.is_empty()
    }
}

/// All counters, shared by all threads. Idle counters take no memory after [`Counters::collect`].
#[derive(Default)]
pub struct Counters {
    windows: Shards<WindowId, Window>,
    fair_use: Shards<AccountId, Bucket>,
}

impl Counters {
    /// Starts with the stored counters.
    pub fn new(kept: Kept) -> Counters {
        let counters = Counters::default();
        counters.windows.fill(kept.windows);
        counters.fair_use.fill(kept.fair_use);
        counters
    }

    /// Counts a request in its row.
    ///
    /// # Errors
    ///
    /// The limit is reached; the request is not counted.
    pub fn count(&self, id: WindowId, limit: u32, now: UnixMs) -> Result<Standing, RateLimited> {
        let (taken, remaining, more_at) = self.windows.change(id, |window| {
            let taken = window.take(limit, now);
            (taken, window.remaining(limit), window.more_at(limit))
        });
        let standing = Standing {
            policy: id.row.as_str(),
            quota: limit,
            window_s: window::WINDOW_MS / 1000,
            remaining,
            now,
            more_at: more_at.unwrap_or(now),
        };
        if taken { Ok(standing) } else { Err(RateLimited(standing)) }
    }

    /// Takes back the latest request of a counter: another limit has refused it.
    pub fn give_back(&self, id: WindowId) {
        self.windows.change(id, Window::give_back);
    }

    /// Takes one charged full check from an account's fair use.
    ///
    /// # Errors
    ///
    /// The fair use is used up; nothing is taken.
    pub fn take_fair_use(&self, account: AccountId, limits: &Limits, now: UnixMs) -> Result<(), RateLimited> {
        let (per_second, burst) = (limits.fair_use_per_second, limits.fair_use_burst);
        let taken = self.fair_use.change(account, |bucket| bucket.take(per_second, burst, now));
        taken.map_err(|wait_ms| fair_use::limited((per_second, burst), wait_ms, now))
    }

    /// Forgets counters that are idle and are not stored.
    pub fn forget_idle(&self, now: UnixMs) {
        self.windows.retain(|window| !window.is_idle(now));
    }

    /// Returns the part of a full check that was not charged.
    pub fn give_back_fair_use(&self, account: AccountId) {
        self.fair_use.change(account, Bucket::give_back);
    }

    /// Adds the changed counters to `kept`, and removes idle ones. `limits` returns the limits of an account.
    pub fn collect(&self, kept: &mut Kept, limits: impl Fn(AccountId) -> Limits, now: UnixMs) {
        self.windows.collect(&mut kept.windows, |_, window| window.is_idle(now));
        self.fair_use.collect(&mut kept.fair_use, |account, bucket| {
            bucket.is_idle(limits(*account).fair_use_per_second, now)
        });
    }
}

#[cfg(test)]
mod tests;
