//! What a frontend thread counts. `GET /metrics` adds up what all threads have counted.
//!
//! Each thread counts into a [`Tally`] of its own, under a lock that nobody else wants but for the moment in which somebody
//! reads. Labels are routes, methods, statuses and reasons from tables of ours: no address, domain, account or key is in any of
//! them, and their number is bounded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::histogram::{Histogram, REQUEST_US};

/// What one frontend thread counts.
#[derive(Default)]
pub struct Tally {
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Those that have ended.
    pub ended: AtomicU64,
    /// Those that were closed at once, as their peer had too many.
    pub refused: AtomicU64,
    /// Those that gave way to a newer one while they were idle.
    pub gave_way: AtomicU64,
    /// Those that were cut off as their peer was too slow.
    pub too_slow: AtomicU64,
    /// Answers of the engine that a site's budget of refused recipients is used up.
    pub over_budget: AtomicU64,
    counts: Mutex<Counts>,
}

/// Requests and checks by what they were.
#[derive(Default)]
pub struct Counts {
    /// Requests that were answered.
    pub requests: BTreeMap<Answered, u64>,
    /// By route and method.
    pub latencies: BTreeMap<(&'static str, &'static str), Histogram>,
    /// Addresses that got a verdict.
    pub checks: BTreeMap<CountedCheck, u64>,
}

/// What is counted of a request. All of it comes from tables: of routes, methods and statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// The route's path, or `-`.
    pub route: &'static str,
    /// The method, or `-`.
    pub method: &'static str,
    /// The status.
    pub status: u16,
}

/// What is counted of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedCheck {
    /// `full`, `fast`, `batch` or `test`.
    pub mode: &'static str,
    /// The reason, as the API spells it.
    pub reason: &'static str,
}

impl Tally {
    /// Counts a request that was answered.
    pub fn answered(&self, what: Answered, took: Duration) {
        let mut counts = self.counts();
        *counts.requests.entry(what).or_default() += 1;
        let latency = counts.latencies.entry((what.route, what.method));
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        latency.or_insert_with(|| Histogram::new(REQUEST_US)).record(took);
    }

    /// Counts an address that got a verdict.
    pub fn checked(&self, what: CountedCheck) {
        *self.counts().checks.entry(what).or_default() += 1;
    }

    /// A look at the counts. Nothing is counted as long as it lasts.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one more.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
