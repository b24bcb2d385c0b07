//! The counters of a frontend thread. `GET /metrics` adds up those of all threads.
//!
//! Each thread counts in its own [`Tally`], whose lock is contended only during a read. Labels are routes, methods,
//! statuses and reasons from fixed tables. So their number is limited, and they contain no address, domain, account or
//! key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::histogram::{Histogram, REQUEST_US};

/// The counters of one frontend thread.
#[derive(Default)]
pub struct Tally {
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections that have ended.
    pub ended: AtomicU64,
    /// Connections that were closed at once, because their peer had too many.
    pub refused: AtomicU64,
    /// Idle connections that were closed for a newer one.
    pub gave_way: AtomicU64,
    /// Connections that were closed because their peer was too slow.
    pub too_slow: AtomicU64,
    /// Connections that were closed because others need the memory that they held while they waited for their peers.
    pub memory: AtomicU64,
    /// Answers of the engine that the budget of a site's refused recipients is used up.
    pub over_budget: AtomicU64,
    /// Rows of batches without an answer, as of the last turn of the feeder.
    pub rows_waiting: AtomicU64,
    counts: Mutex<Counts>,
}

/// Requests and checks by their labels.
#[derive(Default)]
pub struct Counts {
    /// Requests that were answered.
    pub requests: BTreeMap<Answered, u64>,
    /// The latencies of requests, by route and method.
    pub latencies: BTreeMap<(&'static str, &'static str), Histogram>,
    /// Addresses that got a verdict.
    pub checks: BTreeMap<CountedCheck, u64>,
}

/// The labels of a request, all from tables of routes, methods and statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// The path of the route, or `-`.
    pub route: &'static str,
    /// The method of the request, or `-`.
    pub method: &'static str,
    /// The status of the answer.
    pub status: u16,
}

/// The labels of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedCheck {
    /// `full`, `fast`, `batch` or `test`.
    pub mode: &'static str,
    /// The reason in the API's spelling.
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

    /// A view of the counts. The thread cannot count while it exists.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds one to a counter.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
