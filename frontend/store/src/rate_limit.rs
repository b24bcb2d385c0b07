//! How much a key and an account may ask: pure counters that take the time and the limits from their caller.
//!
//! Each key has a counter of its own for each [`Row`] of the contract's table: never more than the limit in any 60
//! seconds, a burst up to the limit allowed ([`window`]). Each account has one bucket over all its live keys for
//! charged full checks: fair use ([`fair_use`]). [`Counters`] shares both among threads.
//!
//! Refused requests are not counted, so a caller who waits as long as told is let through however often they asked.
//!
//! Times are wall-clock, as counters outlive the process. A clock that goes back makes nothing younger or older than
//! it is by more than the step: what then lies in the future counts as of now. So it opens no second burst, and
//! nobody waits longer than a window.

pub mod fair_use;
pub mod limits;
mod shards;
pub mod window;

pub use fair_use::Bucket;
pub use limits::{Limits, Overrides, PerLimit};
pub use window::{Step, Window};

use crate::{AccountId, KeyId, UnixMs};
use shards::Shards;
use std::collections::BTreeMap;

/// A clock that goes back by less is one thread's reading behind another's, or a clock that is being set slowly:
/// time stands still for as long.
const CLOCK_SLACK_MS: u64 = 1_000;

/// A row of the contract's table of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// `/v1/verify`, `mode=fast`.
    Fast,
    /// `/v1/verify`, full.
    Verify,
    /// `POST /v1/verify/batch`.
    Batch,
    /// `GET /v1/verify/batch/{batch_id}`.
    Poll,
    /// `/v1/account`.
    Account,
}

impl Row {
    /// All of them, in the contract's order.
    pub const ALL: [Row; 5] = [Row::Fast, Row::Verify, Row::Batch, Row::Poll, Row::Account];

    /// The name of its policy in headers, and of its limit in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Row::Fast => "fast",
            Row::Verify => "verify",
            Row::Batch => "batch",
            Row::Poll => "poll",
            Row::Account => "account",
        }
    }
}

/// Where a counter stands after a request, counted or refused: what the headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The name of the policy.
    pub policy: &'static str,
    /// Requests allowed within the window.
    pub quota: u32,
    /// The window's length.
    pub window_s: u64,
    /// Requests left now.
    pub remaining: u32,
    /// When this was true.
    pub now: UnixMs,
    /// When more will be left: at zero, when the next request is let through.
    pub more_at: UnixMs,
}

impl Standing {
    /// Whole seconds until more is left, never too few, and at least one.
    pub fn wait_s(&self) -> u64 {
        self.more_at.saturating_sub(self.now).div_ceil(1000).max(1)
    }
}

/// A request over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited(pub Standing);

/// Names a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId {
    /// Whose.
    pub key: KeyId,
    /// Of which row.
    pub row: Row,
}

/// Counters as the store keeps them. One that is empty is to be forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Those of keys.
    pub windows: BTreeMap<WindowId, Window>,
    /// Those of accounts.
    pub fair_use: BTreeMap<AccountId, Bucket>,
}

impl Kept {
    /// Whether there is nothing to keep or forget.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.fair_use.is_empty()
    }
}

/// All counters, shared by all threads. What is idle takes no memory once [`Counters::collect`] has passed.
#[derive(Default)]
pub struct Counters {
    windows: Shards<WindowId, Window>,
    fair_use: Shards<AccountId, Bucket>,
}

impl Counters {
    /// With what was kept.
    pub fn new(kept: Kept) -> Counters {
        let counters = Counters::default();
        counters.windows.fill(kept.windows);
        counters.fair_use.fill(kept.fair_use);
        counters
    }

    /// Counts a request against its row.
    ///
    /// # Errors
    /// The row is full; then it is not counted.
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

    /// Takes one charged full check out of an account's fair use.
    ///
    /// # Errors
    /// The account has used up its share; then nothing is taken.
    pub fn take_fair_use(&self, account: AccountId, limits: &Limits, now: UnixMs) -> Result<(), RateLimited> {
        let (per_second, burst) = (limits.fair_use_per_second, limits.fair_use_burst);
        let taken = self.fair_use.change(account, |bucket| bucket.take(per_second, burst, now));
        taken.map_err(|wait_ms| {
            RateLimited(Standing {
                policy: fair_use::POLICY,
                quota: burst,
                window_s: u64::from(burst.div_ceil(per_second.max(1))),
                remaining: 0,
                now,
                more_at: now.saturating_add(wait_ms),
            })
        })
    }

    /// Gives back one that came to nothing.
    pub fn give_back_fair_use(&self, account: AccountId) {
        self.fair_use.change(account, Bucket::give_back);
    }

    /// Adds to `kept` what has changed since the last time, and forgets what is idle. `limits` tells an account's.
    pub fn collect(&self, kept: &mut Kept, limits: impl Fn(AccountId) -> Limits, now: UnixMs) {
        self.windows.collect(&mut kept.windows, |_, window| window.is_idle(now));
        self.fair_use.collect(&mut kept.fair_use, |account, bucket| {
            bucket.is_idle(limits(*account).fair_use_per_second, now)
        });
    }
}

#[cfg(test)]
mod tests;
