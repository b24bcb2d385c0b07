//! The wall clock. Everything that needs it is given its value, so that tests can give another.
//!
//! The clock of the operating system may be set wrong for a while. What happens then cannot be undone: periods end, and what is past
//! its time is removed. So a jump of more than an hour, either way, is followed only once the clock has gone on from there for a
//! quarter of an hour. Until then time goes on as it did before, by the clock that nobody can set.
//!
//! A server that was started with `--test-clock` can be told to live later: an offset, which only grows, is added to
//! what the operating system says. In every other server the offset stays 0.

use crate::UnixMs;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a clock can be moved in all: ten years.
pub const OFFSET_MS_MAX: i64 = 3653 * 24 * 60 * 60 * 1000;

/// A jump of the system's clock that is followed at once: less than retention and periods are exact to.
const JUMP_MS_MAX: i64 = 60 * 60 * 1000;
/// A difference that is worth noting.
const STEP_MS: i64 = 1_000;
/// How long a further jump has to last before it is followed.
const JUMP_WAIT_MS: i64 = 15 * 60 * 1000;

/// The one clock of the process.
static CLOCK: Clock =
    Clock { offset_ms: AtomicI64::new(0), movable: AtomicBool::new(false), steady: Steady::new() };

/// Now. A clock that stands before 1970 counts as 1970.
pub fn now() -> UnixMs {
    CLOCK.now()
}

/// Lets [`advance`] move the clock, for as long as the process runs.
pub fn make_movable() {
    CLOCK.movable.store(true, Ordering::SeqCst);
}

/// Moves the clock forward, for all threads at once, and says what it shows then.
///
/// # Errors
/// [`Fixed`].
pub fn advance(ms: u64) -> Result<UnixMs, Fixed> {
    CLOCK.advance(ms)
}

/// Why the clock was not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixed {
    /// It is the real one.
    Real,
    /// It would stand more than [`OFFSET_MS_MAX`] ahead.
    TooFar,
}

struct Clock {
    /// What is added to the system's time.
    offset_ms: AtomicI64,
    /// Whether it may grow.
    movable: AtomicBool,
    steady: Steady,
}

/// Follows a clock that can be set, but no sudden jump of it. All times are in ms.
struct Steady {
    /// How far that clock is believed to be ahead of the one that nobody can set; [`i64::MIN`] before it is known.
    ahead: AtomicI64,
    /// Where it has jumped to, and since when on the other clock.
    jump: Mutex<Option<(i64, i64)>>,
    /// It may have.
    has_jumped: AtomicBool,
}

impl Steady {
    const fn new() -> Steady {
        Steady { ahead: AtomicI64::new(i64::MIN), jump: Mutex::new(None), has_jumped: AtomicBool::new(false) }
    }

    fn jump(&self) -> MutexGuard<'_, Option<(i64, i64)>> {
        self.jump.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, where the clock says `set` and the one that nobody can set `unset`.
    fn now(&self, set: i64, unset: i64) -> i64 {
        let (ahead, known) = (set - unset, self.ahead.load(Ordering::Relaxed));
        if known == i64::MIN || (ahead - known).abs() <= JUMP_MS_MAX {
            // Small steps add up.
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
                        "the new time of the clock is followed now"
                    );
                    return set;
                }
            }
            _ => {
                *jump = Some((ahead, unset));
                tracing::warn!(
                    seconds = (ahead - known) / 1000,
                    "the clock was set to a time far from before; it is followed if it still goes on from there in 15 minutes"
                );
            }
        }
        unset + known
    }
}

/// What a clock of the operating system shows, in ms.
fn ms(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

impl Clock {
    fn now(&self) -> UnixMs {
        // Nobody can set `Boottime`. It counts from the machine's start, and goes on while the machine sleeps.
        let (set, unset) = (ms(ClockId::Realtime), ms(ClockId::Boottime));
        let system = UnixMs::try_from(self.steady.now(set, unset)).unwrap_or_default();
        system.saturating_add_signed(self.offset_ms.load(Ordering::SeqCst))
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
        let clock =
            Clock { offset_ms: AtomicI64::new(0), movable: AtomicBool::new(false), steady: Steady::new() };
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
    fn a_jump_is_followed_once_it_has_lasted() {
        const DAY: i64 = 24 * 60 * 60 * 1000;
        let (steady, start) = (Steady::new(), 20_000 * DAY);
        assert_eq!(steady.now(start, 1_000), start, "whatever it says at first");
        // Small steps are followed, back and forth.
        assert_eq!(steady.now(start + 60_000, 2_000), start + 60_000);
        assert_eq!(steady.now(start, 3_000), start);
        // 400 days ahead for a minute, and back.
        assert_eq!(steady.now(start + 400 * DAY, 4_000), start + 1_000);
        assert_eq!(steady.now(start + 400 * DAY + 60_000, 64_000), start + 61_000);
        assert_eq!(steady.now(start + 62_000, 65_000), start + 62_000);
        // It is another jump to the same place, much later.
        let passed = 4_935_000;
        assert_eq!(steady.now(start + 400 * DAY + passed, 65_000 + passed), start + 62_000 + passed);
        assert_eq!(steady.now(start + 62_000 + 5_935_000, 6_000_000), start + 62_000 + 5_935_000);
        // This one lasts.
        let to = start + 400 * DAY + 10_000_000;
        for minute in 0..15 {
            let passed = minute * 60_000;
            let before = start + 62_000 + 9_935_000 + passed;
            assert_eq!(steady.now(to + passed, 10_000_000 + passed), before, "{minute}");
        }
        assert_eq!(steady.now(to + JUMP_WAIT_MS, 10_000_000 + JUMP_WAIT_MS), to + JUMP_WAIT_MS);
        // And so does one back.
        assert_eq!(steady.now(start, 20_000_000), to + 10_000_000);
        assert_eq!(steady.now(start + JUMP_WAIT_MS, 20_000_000 + JUMP_WAIT_MS), start + JUMP_WAIT_MS);
    }
}
