//! Fair use of an account: charged full checks, so many per second sustained, so many at once after a rest.
//!
//! A leaky bucket: each check adds to it, time lets it run dry, and what would overflow is refused.

use super::CLOCK_SLACK_MS;
use crate::UnixMs;

/// The name of the policy in headers.
pub const POLICY: &str = "fair_use";

/// What one check adds. In thousandths, so that a rate per second is a whole number per millisecond.
const CHECK: u64 = 1_000;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// What is in it, in thousandths of a check.
    pub level: u64,
    /// When that was true.
    pub at: UnixMs,
}

impl Bucket {
    /// Adds a check if there is room for it.
    ///
    /// # Errors
    /// How many milliseconds it takes until there is.
    pub fn take(&mut self, per_second: u32, burst: u32, now: UnixMs) -> Result<(), u64> {
        self.pass(per_second, now);
        let room = u64::from(burst.max(1)) * CHECK;
        // More than full where the burst was lowered: nobody waits longer than for a full one.
        self.level = self.level.min(room);
        let over = (self.level + CHECK).saturating_sub(room);
        if over > 0 {
            // The bucket's time may be ahead of the caller's by the slack.
            return Err(over.div_ceil(u64::from(per_second.max(1))) + self.at.saturating_sub(now));
        }
        self.level += CHECK;
        Ok(())
    }

    /// Takes a check out again.
    pub fn give_back(&mut self) {
        self.level = self.level.saturating_sub(CHECK);
    }

    /// Whether it is dry by now.
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
