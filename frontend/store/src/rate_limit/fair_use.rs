//! The fair use of an account: a sustained rate of charged full checks per second, and a number of checks at once after
//! a pause.
//!
//! It is a leaky bucket: each check adds to its level, time reduces the level, and a check that would exceed the burst
//! is refused.

use super::{CLOCK_SLACK_MS, RateLimited, Standing};
use crate::UnixMs;

/// The name of the policy in headers.
pub const POLICY: &str = "fair_use";

/// The error of a check over the fair use, which has room after `wait_ms`.
pub fn limited((per_second, burst): (u32, u32), wait_ms: u64, now: UnixMs) -> RateLimited {
    RateLimited(Standing {
        policy: POLICY,
        quota: burst,
        window_s: u64::from(burst.div_ceil(per_second.max(1))),
        remaining: 0,
        now,
        more_at: now.saturating_add(wait_ms),
    })
}

/// The level of one check, in thousandths, so that a rate per second is a whole number per millisecond.
const CHECK: u64 = 1_000;

/// A leaky bucket of full checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The level in thousandths of a check.
    pub level: u64,
    /// The time of this level.
    pub at: UnixMs,
}

impl Bucket {
    /// Adds a check if there is room for it.
    ///
    /// # Errors
    ///
    /// The milliseconds until there is room.
    pub fn take(&mut self, per_second: u32, burst: u32, now: UnixMs) -> Result<(), u64> {
        self.pass(per_second, now);
        let room = u64::from(burst.max(1)) * CHECK;
        // After the burst was lowered, the level may exceed it. No caller waits longer than for a full bucket.
        self.level = self.level.min(room);
        let over = (self.level + CHECK).saturating_sub(room);
        if over > 0 {
            // The bucket's time may be ahead of the caller's by the slack.
            return Err(over.div_ceil(u64::from(per_second.max(1))) + self.at.saturating_sub(now));
        }
        self.level += CHECK;
        Ok(())
    }

    /// Removes one check from the level.
    pub fn give_back(&mut self) {
        self.level = self.level.saturating_sub(CHECK);
    }

    /// Whether the level is zero at `now`.
    pub fn is_idle(&mut self, per_second: u32, now: UnixMs) -> bool {
        self.pass(per_second, now);
        self.level == 0
    }

    fn pass(&mut self, per_second: u32, now: UnixMs) {
        if now > self.at {
            self.level = self.level.saturating_sub((now - self.at).saturating_mul(per_second.max(1).into()));
            self.at = now;
        } else if self.at - now > CLOCK_SLACK_MS {
            self.at = now;
        }
    }
}
