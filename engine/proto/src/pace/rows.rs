//! How many sessions rows of batches and lists may have while single checks need the same processor.

use crate::limits::{LATE_ENOUGH, LATE_TOO_MUCH, LATE_USUALLY, ROWS_SESSIONS_MIN_SHARE, URGENT_LASTS};
use std::time::{Duration, Instant};

/// The number of sessions that groups with rows only may open. It is the total as long as nobody waits for a single check. Otherwise
/// it falls while the timers of the thread fire late, since the replies to single checks are then handled late too, and rises again
/// while they fire in time. It never falls below a tenth of the total.
#[derive(Debug)]
pub struct RowSessions {
    total: usize,
    most: usize,
    /// The time of the last single check.
    urgent: Option<Instant>,
    /// How late timers fire while rows have few sessions.
    usual: Duration,
}

impl RowSessions {
    /// `total`: the number of sessions that there may be at all.
    pub fn new(total: usize) -> RowSessions {
        RowSessions { total, most: total, urgent: None, usual: LATE_USUALLY }
    }

    /// A single check has arrived.
    pub fn on_urgent(&mut self, now: Instant) {
        self.urgent = Some(now);
    }

    /// Whether single checks have arrived lately.
    pub fn is_shared(&self, now: Instant) -> bool {
        self.urgent.is_some_and(|at| now.saturating_duration_since(at) < URGENT_LASTS)
    }

    /// The number of sessions that there may be at all.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Whether groups with rows only may have fewer sessions than there may be at all.
    pub fn is_limited(&self) -> bool {
        self.most < self.total
    }

    /// The number of sessions, of any kind, from which on no group with rows only begins another one.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Adapts the number. `late`: how late timers have fired lately, on average. `open`: how many sessions are open.
    pub fn adapt(&mut self, late: Duration, open: usize, now: Instant) {
        let least = (self.total / ROWS_SESSIONS_MIN_SHARE).max(1);
        self.usual = self.usual.min(late.max(LATE_USUALLY));
        if !self.is_shared(now) {
            self.most = self.total;
        } else if late >= self.usual + LATE_TOO_MUCH {
            if self.most == least {
                // Rows are not the cause, but the clock of the machine, or other programs.
                self.usual = late;
            }
            self.most = (self.most.min(open) * 3 / 4).max(least);
        } else if late < self.usual + LATE_ENOUGH {
            self.most = (self.most + (self.total / 32).max(1)).min(self.total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_give_way_while_timers_fire_late_and_single_checks_arrive() {
        let start = Instant::now();
        let mut rows = RowSessions::new(320);
        let late = |ms| Duration::from_millis(ms);
        rows.adapt(late(50), 320, start);
        assert_eq!(rows.most(), 320, "nobody waits for a single check");
        rows.on_urgent(start);
        let table = [
            (50, 320, 240),
            (50, 100, 75),
            (50, 75, 56),
            (1, 56, 66),
            (1, 66, 76),
            (50, 40, 32),
            // With the fewest sessions, timers are as late: this is not because of rows.
            (8, 32, 32),
            (8, 32, 42),
            (9, 42, 32),
            // And now they fire in time again.
            (1, 32, 42),
            (8, 42, 32),
        ];
        for (ms, open, most) in table {
            rows.adapt(late(ms), open, start);
            assert_eq!(rows.most(), most, "{ms} ms, {open} open");
        }
        (0..40).for_each(|_| rows.adapt(late(0), 320, start));
        assert_eq!(rows.most(), 320);
        rows.adapt(late(50), 320, start);
        rows.adapt(late(50), 320, start + URGENT_LASTS);
        assert_eq!(rows.most(), 320, "the last single check was long ago");
    }
}
