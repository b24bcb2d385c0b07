//! The wall clock. Everything that needs it is given its value, so that tests can give another.
//!
//! A server that was started with `--test-clock` can be told to live later: an offset, which only grows, is added to
//! what the operating system says. In every other server the offset stays 0.

use crate::store::UnixMs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::SystemTime;

/// How far a clock can be moved in all: ten years.
pub const OFFSET_MS_MAX: i64 = 3653 * 24 * 60 * 60 * 1000;

/// The one clock of the process.
static CLOCK: Clock = Clock { offset_ms: AtomicI64::new(0), movable: AtomicBool::new(false) };

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
}

impl Clock {
    fn now(&self) -> UnixMs {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let system: UnixMs = since.as_millis().try_into().unwrap_or(UnixMs::MAX);
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
        let clock = Clock { offset_ms: AtomicI64::new(0), movable: AtomicBool::new(false) };
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
}
