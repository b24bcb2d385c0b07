//! The wall clock. All other code gets its value as an argument, so that tests can pass another.
//!
//! The clock of the operating system may be wrong for a while. The consequences would be permanent: periods end, and
//! expired data is removed. So a jump of more than an hour, in either direction, is followed only after the clock has
//! continued from there for a quarter of an hour. Until then the time continues by the monotonic clock, which cannot be
//! set.
//!
//! A node of several follows the clock of their database: [`follow`] corrects the time a little at each call, so that it never
//! jumps, except for the first call.
//!
//! A server that was started with `--test-clock` can be moved into the future: an offset, which only grows, is added to
//! the time of the operating system. In every other server the offset is 0.

use crate::UnixMs;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// The largest total offset of a movable clock in milliseconds: ten years.
pub const OFFSET_MS_MAX: i64 = 3653 * 24 * 60 * 60 * 1000;

/// A jump of the system's clock up to this length is followed at once: it is shorter than the precision of retention
/// and periods.
const JUMP_MS_MAX: i64 = 60 * 60 * 1000;
/// The smallest difference that is recorded.
const STEP_MS: i64 = 1_000;
/// How much one call of [`follow`] changes the clock after the first call.
const FOLLOW_STEP_MS: i64 = 200;
/// How long a larger jump must last before it is followed.
const JUMP_WAIT_MS: i64 = 15 * 60 * 1000;

/// The only clock of the process.
static CLOCK: Clock = Clock::new();

/// The current time in milliseconds. A clock before 1970 counts as 1970.
pub fn now() -> UnixMs {
    CLOCK.now()
}

/// Permits [`advance`] to move the clock, for the life of the process.
pub fn make_movable() {
    CLOCK.movable.store(true, Ordering::SeqCst);
}

/// Moves the clock forward for all threads at once, and returns the new time.
///
/// # Errors
///
/// [`Fixed`]: the clock is unchanged.
pub fn advance(ms: u64) -> Result<UnixMs, Fixed> {
    CLOCK.advance(ms)
}

/// Corrects the clock towards another one, which this process shares with others and which is ahead by so many milliseconds. Returns
/// how many milliseconds remain.
pub fn follow(ahead_ms: i64) -> i64 {
    CLOCK.follow(ahead_ms)
}

/// The reason why the clock was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fixed {
    /// The server uses the real clock.
    #[error("the clock can be moved only on a server that was started with --test-clock")]
    Real,
    /// The offset would exceed [`OFFSET_MS_MAX`].
    #[error("the clock cannot be moved further: it is too far ahead of the system's clock")]
    TooFar,
}

struct Clock {
    /// The offset from the system's time.
    offset_ms: AtomicI64,
    /// Whether the offset may grow.
    movable: AtomicBool,
    /// The correction by [`follow`]; [`i64::MIN`] before its first call.
    correction_ms: AtomicI64,
    steady: Steady,
}

/// A clock that follows one that can be set, except for sudden jumps. All times are in milliseconds.
struct Steady {
    /// The accepted difference to the monotonic clock; [`i64::MIN`] before it is known.
    ahead: AtomicI64,
    /// The difference after a jump, and the monotonic time of the jump.
    jump: Mutex<Option<(i64, i64)>>,
    /// Whether there may be a jump.
    has_jumped: AtomicBool,
}

impl Steady {
    const fn new() -> Steady {
        Steady { ahead: AtomicI64::new(i64::MIN), jump: Mutex::new(None), has_jumped: AtomicBool::new(false) }
    }

    fn jump(&self) -> MutexGuard<'_, Option<(i64, i64)>> {
        self.jump.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, given the value `set` of the clock that can be set and the value `unset` of the monotonic clock.
    fn now(&self, set: i64, unset: i64) -> i64 {
        let (ahead, known) = (set - unset, self.ahead.load(Ordering::Relaxed));
        if known == i64::MIN || (ahead - known).abs() <= JUMP_MS_MAX {
            // Small differences accumulate until they are recorded.
            if known == i64::MIN || (ahead - known).abs() >= STEP_MS {
                self.ahead.store(ahead, Ordering::Relaxed);
            }
            if self.has_jumped.load(Ordering::Relaxed) {
                self.has_jumped.store(false, Ordering::Relaxed);
                *self.jump() = None;
            }
            return set;
        }
        self.has_jumped.store(true, Ordering::Relaxed);
        let mut jump = self.jump();
        match *jump {
            Some((to, since)) if (ahead - to).abs() <= JUMP_MS_MAX && since <= unset => {
                if unset - since >= JUMP_WAIT_MS {
                    *jump = None;
                    self.ahead.store(ahead, Ordering::Relaxed);
                    tracing::warn!(
                        seconds = (ahead - known) / 1000,
                        "the server now uses the new time of the system's clock"
                    );
                    return set;
                }
            }
            _ => {
                *jump = Some((ahead, unset));
                tracing::warn!(
                    seconds = (ahead - known) / 1000,
                    "the system's clock was set to a very different time; the jump takes effect after it has lasted for 15 minutes"
                );
            }
        }
        unset + known
    }
}

/// The value of an operating system's clock in milliseconds.
fn ms(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

impl Clock {
    const fn new() -> Clock {
        Clock {
            offset_ms: AtomicI64::new(0),
            movable: AtomicBool::new(false),
            correction_ms: AtomicI64::new(i64::MIN),
            steady: Steady::new(),
        }
    }

    fn follow(&self, ahead_ms: i64) -> i64 {
        let (before, step) = match self.correction_ms.load(Ordering::Relaxed) {
            i64::MIN => (0, ahead_ms),
            before => (before, ahead_ms.clamp(-FOLLOW_STEP_MS, FOLLOW_STEP_MS)),
        };
        // The least value stands for none.
        self.correction_ms.store(before.saturating_add(step).max(i64::MIN + 1), Ordering::Relaxed);
        ahead_ms.saturating_sub(step)
    }

    fn now(&self) -> UnixMs {
        // `Boottime` cannot be set. It counts from the machine's start, also while the machine sleeps.
        let (set, unset) = (ms(ClockId::Realtime), ms(ClockId::Boottime));
        let system = UnixMs::try_from(self.steady.now(set, unset)).unwrap_or_default();
        let correction = match self.correction_ms.load(Ordering::Relaxed) {
            i64::MIN => 0,
            correction => correction,
        };
        system.saturating_add_signed(correction).saturating_add_signed(self.offset_ms.load(Ordering::SeqCst))
    }

    fn advance(&self, ms: u64) -> Result<UnixMs, Fixed> {
        if !self.movable.load(Ordering::SeqCst) {
            return Err(Fixed::Real);
        }
        let further = |offset: i64| offset.checked_add_unsigned(ms).filter(|&offset| offset <= OFFSET_MS_MAX);
        match self.offset_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, further) {
            Ok(_) => Ok(self.now()),
            Err(_) => Err(Fixed::TooFar),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward_where_it_may() {
        let clock = Clock::new();
        assert_eq!(clock.advance(1), Err(Fixed::Real));
        clock.movable.store(true, Ordering::SeqCst);
        let before = clock.now();
        let shown = clock.advance(3_600_000).unwrap();
        assert!(shown >= before + 3_600_000 && clock.now() >= shown);
        for ms in [OFFSET_MS_MAX as u64, u64::MAX] {
            assert_eq!(clock.advance(ms), Err(Fixed::TooFar));
        }
        assert!(clock.now() < before + 7_200_000);
    }

    #[test]
    fn it_follows_another_clock_at_once_and_then_in_small_steps() {
        let clock = Clock::new();
        let start = clock.now();
        assert_eq!(clock.follow(60_000), 0);
        assert!((start + 60_000..start + 61_000).contains(&clock.now()));
        assert_eq!(clock.follow(-5_000), -4_800);
        assert!((start + 59_800..start + 60_800).contains(&clock.now()));
        clock.follow(i64::MIN);
        clock.follow(i64::MAX);
        assert!((start + 59_800..start + 60_800).contains(&clock.now()));
    }

    #[test]
    fn a_jump_is_followed_once_it_has_lasted() {
        const DAY: i64 = 24 * 60 * 60 * 1000;
        let (steady, start) = (Steady::new(), 20_000 * DAY);
        assert_eq!(steady.now(start, 1_000), start, "whatever it says at first");
        // Small steps are followed in both directions.
        assert_eq!(steady.now(start + 60_000, 2_000), start + 60_000);
        assert_eq!(steady.now(start, 3_000), start);
        // The clock is 400 days ahead for a minute, and then right again.
        assert_eq!(steady.now(start + 400 * DAY, 4_000), start + 1_000);
        assert_eq!(steady.now(start + 400 * DAY + 60_000, 64_000), start + 61_000);
        assert_eq!(steady.now(start + 62_000, 65_000), start + 62_000);
        // This is another jump to the same time, much later.
        let passed = 4_935_000;
        assert_eq!(steady.now(start + 400 * DAY + passed, 65_000 + passed), start + 62_000 + passed);
        assert_eq!(steady.now(start + 62_000 + 5_935_000, 6_000_000), start + 62_000 + 5_935_000);
        // This jump lasts.
        let to = start + 400 * DAY + 10_000_000;
        for minute in 0..15 {
            let passed = minute * 60_000;
            let before = start + 62_000 + 9_935_000 + passed;
            assert_eq!(steady.now(to + passed, 10_000_000 + passed), before, "{minute}");
        }
        assert_eq!(steady.now(to + JUMP_WAIT_MS, 10_000_000 + JUMP_WAIT_MS), to + JUMP_WAIT_MS);
        // A jump back lasts as well.
        assert_eq!(steady.now(start, 20_000_000), to + 10_000_000);
        assert_eq!(steady.now(start + JUMP_WAIT_MS, 20_000_000 + JUMP_WAIT_MS), start + JUMP_WAIT_MS);
    }
}
