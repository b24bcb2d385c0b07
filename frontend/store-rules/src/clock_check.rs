//! A check that a clock which is ahead does not remove data: a destroyed key cannot be restored.
//!
//! A running process does not follow a jump of its clock at once ([`clock`](store::clock)). This module covers the time
//! before its start. The store records when it last removed expired data. If it is opened much later, it was stopped
//! for long or the clock is wrong: nothing is removed until the clock has advanced for a while. If it is opened much
//! earlier, the clock is or was wrong: periods do not change until then.

use crate::row::Fixed;
use crate::rows::{Rows, RowsMut};
use crate::tables::{META, META_SEEN};
use store::{StoreError, UnixMs};

const HOUR_MS: UnixMs = 60 * 60 * 1000;
/// After a stop longer than this the clock may be wrong.
const STOPPED_MAX_MS: UnixMs = 24 * HOUR_MS;
/// How long the clock must advance then.
const WAIT_MS: UnixMs = 15 * 60 * 1000;
/// The precision of the recorded time, since one write for each removal would be too many.
const STEP_MS: UnixMs = HOUR_MS;

/// The times until which the clock is not trusted.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClockCheck {
    /// No data is removed before this time.
    removes_from: UnixMs,
    /// Before this time, periods are at least those of `seen`.
    rolls_from: UnixMs,
    seen: UnixMs,
}

impl ClockCheck {
    /// The check of a store that is opened now.
    pub fn read(rows: &dyn Rows, now: UnixMs) -> Result<ClockCheck, StoreError> {
        let seen = META.get(rows, META_SEEN)?.map_or(now, |seen| seen.0);
        let until = |is_far: bool| if is_far { now.saturating_add(WAIT_MS) } else { 0 };
        Ok(ClockCheck {
            removes_from: until(now.saturating_sub(seen) > STOPPED_MAX_MS),
            rolls_from: until(seen.saturating_sub(now) > STOPPED_MAX_MS),
            seen,
        })
    }

    /// Whether expired data may be removed.
    pub fn removes(&self, now: UnixMs) -> bool {
        now >= self.removes_from
    }

    /// The time that determines periods.
    pub fn of_periods(&self, now: UnixMs) -> UnixMs {
        if now < self.rolls_from { now.max(self.seen) } else { now }
    }
}

/// Records that expired data is being removed now.
pub(crate) fn note(rows: &mut dyn RowsMut, now: UnixMs) -> Result<(), StoreError> {
    let seen = META.get(&*rows, META_SEEN)?;
    if seen.is_none_or(|seen| now.abs_diff(seen.0) >= STEP_MS) {
        META.put(rows, META_SEEN, &Fixed(now))?;
    }
    Ok(())
}
