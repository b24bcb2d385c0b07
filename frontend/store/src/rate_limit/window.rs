//! The counter of one key and row: at most the limit in any 60 seconds.
//!
//! Requests are recorded in steps of at most a second, with their number and the times of the first and last. A step
//! leaves the window as a whole, 60 seconds after its last request. So the count is never too low, and needs memory for
//! about 60 steps, whatever the limit.

use super::permits::PERMIT_MS;
use super::{CLOCK_SLACK_MS, Leased};
use crate::UnixMs;
use std::collections::VecDeque;

/// The length of the window in milliseconds.
pub const WINDOW_MS: u64 = 60_000;
/// The longest step in milliseconds.
const STEP_MS: u64 = 1_000;

/// The requests of at most one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time of the first request.
    pub began: UnixMs,
    /// The time of the last request.
    pub last: UnixMs,
    /// The number of requests.
    pub count: u32,
}

/// The requests of the last 60 seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// The steps in the order of time.
    steps: VecDeque<Step>,
}

impl Window {
    /// A window from stored steps; `None` if they are not in the order of time.
    pub fn from_steps(steps: impl IntoIterator<Item = Step>) -> Option<Window> {
        let steps: VecDeque<Step> = steps.into_iter().collect();
        let in_order = steps.iter().all(|step| step.began <= step.last)
            && steps.iter().zip(steps.iter().skip(1)).all(|(one, next)| one.last <= next.last);
        in_order.then_some(Window { steps })
    }

    /// The steps in the order of time.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &Step> {
        self.steps.iter()
    }

    /// Counts a request if the limit allows it; returns whether it does.
    pub fn take(&mut self, limit: u32, now: UnixMs) -> bool {
        let now = self.pass(now);
        if self.used() >= u64::from(limit) {
            return false;
        }
        self.count(1, now);
        true
    }

    /// Takes back the latest request.
    pub fn give_back(&mut self) {
        if let Some(step) = self.steps.back_mut() {
            step.count = step.count.saturating_sub(1);
            if step.count == 0 {
                self.steps.pop_back();
            }
        }
    }

    fn count(&mut self, number: u32, now: UnixMs) {
        match self.steps.back_mut() {
            Some(step) if now.saturating_sub(step.began) < STEP_MS => {
                step.last = now;
                step.count = step.count.saturating_add(number);
            }
            _ => self.steps.push_back(Step { began: now, last: now, count: number }),
        }
    }

    /// Counts up to `want` permits of a node, as many as the limit allows. They leave the window later than requests, by the
    /// time in which they may be used.
    pub fn lease(&mut self, limit: u32, want: u32, now: UnixMs) -> Leased {
        let stay = WINDOW_MS + PERMIT_MS;
        let now = self.pass_after(stay, now);
        let room = u64::from(limit).saturating_sub(self.used());
        let granted = want.min(u32::try_from(room).unwrap_or(u32::MAX));
        if granted > 0 {
            self.count(granted, now);
        }
        let more_at = self.more_at(limit).map_or(now, |at| at.saturating_add(PERMIT_MS));
        Leased { granted, left: self.remaining(limit), more_at }
    }

    /// How many requests the limit allows at the time of the last call.
    pub fn remaining(&self, limit: u32) -> u32 {
        u64::from(limit).saturating_sub(self.used()).try_into().unwrap_or(u32::MAX)
    }

    /// The time at which more requests are allowed, as of the last call; `None` for an empty window.
    pub fn more_at(&self, limit: u32) -> Option<UnixMs> {
        // After the limit was lowered, the window may have more requests than the limit. Then several steps must leave
        // it.
        let mut left = self.used();
        let enough = left.min(u64::from(limit));
        let leaves = self.steps.iter().find(|step| {
            left -= u64::from(step.count);
            left < enough
        });
        leaves.map(|step| step.last.saturating_add(WINDOW_MS))
    }

    /// Whether the window is empty at `now`.
    pub fn is_idle(&mut self, now: UnixMs) -> bool {
        self.pass(now);
        self.steps.is_empty()
    }

    fn used(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.count)).sum()
    }

    /// Removes steps that have left the window; returns the time that applies.
    fn pass(&mut self, now: UnixMs) -> UnixMs {
        self.pass_after(WINDOW_MS, now)
    }

    /// [`Window::pass`] for steps that leave after this time.
    fn pass_after(&mut self, stay: u64, now: UnixMs) -> UnixMs {
        let newest = self.steps.back().map_or(now, |step| step.last);
        let behind = newest.saturating_sub(now);
        if behind > CLOCK_SLACK_MS {
            self.pull_back(now);
        }
        let now = if behind <= CLOCK_SLACK_MS { now.max(newest) } else { now };
        while self.steps.front().is_some_and(|step| step.last.saturating_add(stay) <= now) {
            self.steps.pop_front();
        }
        now
    }

    /// After the clock has gone back, requests in the future become one step at `now`.
    fn pull_back(&mut self, now: UnixMs) {
        let past = self.steps.partition_point(|step| step.last <= now);
        let future = self.steps.split_off(past);
        let began = future.front().map_or(now, |step| step.began.min(now));
        let count = future.iter().fold(0, |sum: u32, step| sum.saturating_add(step.count));
        self.steps.push_back(Step { began, last: now, count });
    }
}
