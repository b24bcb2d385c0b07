//! The counter of one key and row: never more than the limit in any 60 seconds.
//!
//! Requests are kept as steps of at most a second: how many came from when to when. A step leaves the window whole,
//! 60 seconds after its last request. So the count is never too low, and some 60 steps are all the memory it takes,
//! whatever the limit.

use super::CLOCK_SLACK_MS;
use crate::UnixMs;
use std::collections::VecDeque;

/// The window's length.
pub const WINDOW_MS: u64 = 60_000;
/// The longest step.
const STEP_MS: u64 = 1_000;

/// Requests of about one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time of the first.
    pub began: UnixMs,
    /// The time of the last.
    pub last: UnixMs,
    /// How many.
    pub count: u32,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// In order of time.
    steps: VecDeque<Step>,
}

impl Window {
    /// From steps that were kept; `None` where they are not in order of time.
    pub fn from_steps(steps: impl IntoIterator<Item = Step>) -> Option<Window> {
        let steps: VecDeque<Step> = steps.into_iter().collect();
        let in_order = steps.iter().all(|step| step.began <= step.last)
            && steps.iter().zip(steps.iter().skip(1)).all(|(one, next)| one.last <= next.last);
        in_order.then_some(Window { steps })
    }

    /// Its steps, in order of time.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &Step> {
        self.steps.iter()
    }

    /// Counts a request if there is room for it.
    pub fn take(&mut self, limit: u32, now: UnixMs) -> bool {
        let now = self.pass(now);
        if self.used() >= u64::from(limit) {
            return false;
        }
        match self.steps.back_mut() {
            Some(step) if now.saturating_sub(step.began) < STEP_MS => {
                step.last = now;
                step.count = step.count.saturating_add(1);
            }
            _ => self.steps.push_back(Step { began: now, last: now, count: 1 }),
        }
        true
    }

    /// How many requests there is room for, as of the last look.
    pub fn remaining(&self, limit: u32) -> u32 {
        u64::from(limit).saturating_sub(self.used()).try_into().unwrap_or(u32::MAX)
    }

    /// When there is room for more, as of the last look; `None` in an empty window.
    pub fn more_at(&self, limit: u32) -> Option<UnixMs> {
        // Where the limit was lowered, more than it may be in the window: then the first to leave are not enough.
        let mut left = self.used();
        let enough = left.min(u64::from(limit));
        let leaves = self.steps.iter().find(|step| {
            left -= u64::from(step.count);
            left < enough
        });
        leaves.map(|step| step.last.saturating_add(WINDOW_MS))
    }

    /// Whether it is empty by now.
    pub fn is_idle(&mut self, now: UnixMs) -> bool {
        self.pass(now);
        self.steps.is_empty()
    }

    fn used(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.count)).sum()
    }

    /// Lets go what has left the window; gives the time to go by.
    fn pass(&mut self, now: UnixMs) -> UnixMs {
        let newest = self.steps.back().map_or(now, |step| step.last);
        let behind = newest.saturating_sub(now);
        if behind > CLOCK_SLACK_MS {
            self.pull_back(now);
        }
        let now = if behind <= CLOCK_SLACK_MS { now.max(newest) } else { now };
        while self.steps.front().is_some_and(|step| step.last.saturating_add(WINDOW_MS) <= now) {
            self.steps.pop_front();
        }
        now
    }

    /// What lies in the future, after the clock has gone back, counts as of now: one step.
    fn pull_back(&mut self, now: UnixMs) {
        let past = self.steps.partition_point(|step| step.last <= now);
        let future = self.steps.split_off(past);
        let began = future.front().map_or(now, |step| step.began.min(now));
        let count = future.iter().fold(0, |sum: u32, step| sum.saturating_add(step.count));
        self.steps.push_back(Step { began, last: now, count });
    }
}
