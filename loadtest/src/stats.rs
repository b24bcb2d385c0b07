//! The results of requests: a histogram of latencies, answers by status and failures by kind, for each endpoint.
//!
//! Latencies are in microseconds with three digits. A request counts at the time at which it was due, and its latency
//! begins then.

use crate::mix::{Endpoint, KINDS};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The largest latency of a histogram.
const MICROS_MAX: u64 = 3_600_000_000;
/// How many different reasons are counted; a server has 13.
const REASONS_MAX: usize = 64;

/// The reason why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// There was no connection, or it ended before the answer.
    Connection,
    /// There was no answer within the time limit.
    Timeout,
    /// The bytes are no valid answer.
    Malformed,
    /// The request was due, and no connection was free until the end.
    Unsent,
}

impl Failure {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Connection => "connection",
            Failure::Timeout => "timeout",
            Failure::Malformed => "malformed",
            Failure::Unsent => "unsent",
        }
    }
}

/// An empty histogram of microseconds.
pub fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, MICROS_MAX, digits).expect("the bounds are constant and sound")
}

/// Adds a latency to a histogram.
pub fn note(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record((latency.as_micros() as u64).max(1));
}

/// The results of one endpoint.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The latencies of all due requests, answered or not.
    pub latency: Histogram<u64>,
    /// The answers by status.
    pub status: BTreeMap<u16, u64>,
    /// The requests without an answer.
    pub failures: BTreeMap<Failure, u64>,
}

impl Seen {
    /// The number of all requests.
    pub fn requests(&self) -> u64 {
        self.answered() + self.failures.values().sum::<u64>()
    }

    /// The number of answered requests with any status.
    pub fn answered(&self) -> u64 {
        self.status.values().sum()
    }

    /// The number of requests without a 2xx, with refusals for the rate.
    pub fn errors(&self) -> u64 {
        let good = self.status.range(200..300).map(|(_, count)| count).sum::<u64>();
        self.requests() - good
    }

    /// The number of refusals for the rate (429).
    pub fn limited(&self) -> u64 {
        self.status.get(&429).copied().unwrap_or(0)
    }
}

/// The results of one thread, or of all.
#[derive(Debug, Clone)]
pub struct Stats {
    seen: [Seen; KINDS],
    /// The reasons in the answers to single checks.
    pub reasons: BTreeMap<String, u64>,
    /// Full checks that were repeats.
    pub cached: u64,
    /// Addresses in accepted batches.
    pub batch_rows: u64,
}

impl Stats {
    /// Empty results of all endpoints.
    pub fn new() -> Stats {
        let none = || Seen { latency: histogram(3), status: BTreeMap::new(), failures: BTreeMap::new() };
        Stats { seen: std::array::from_fn(|_| none()), reasons: BTreeMap::new(), cached: 0, batch_rows: 0 }
    }

    /// The results of an endpoint.
    pub fn of(&self, endpoint: Endpoint) -> &Seen {
        &self.seen[endpoint as usize]
    }

    /// The sum over all endpoints.
    pub fn all(&self) -> Seen {
        let mut all = Stats::new().seen[0].clone();
        for seen in &self.seen {
            merge(&mut all, seen);
        }
        all
    }

    /// Records an answer with its latency.
    pub fn answered(&mut self, endpoint: Endpoint, status: u16, latency: Duration) {
        let seen = &mut self.seen[endpoint as usize];
        note(&mut seen.latency, latency);
        *seen.status.entry(status).or_default() += 1;
    }

    /// Records a request without an answer.
    pub fn failed(&mut self, endpoint: Endpoint, failure: Failure, latency: Duration) {
        let seen = &mut self.seen[endpoint as usize];
        note(&mut seen.latency, latency);
        *seen.failures.entry(failure).or_default() += 1;
    }

    /// Counts the reason in an answer.
    pub fn reason(&mut self, reason: &str) {
        if let Some(count) = self.reasons.get_mut(reason) {
            *count += 1;
        } else if self.reasons.len() < REASONS_MAX {
            self.reasons.insert(reason.to_owned(), 1);
        }
    }

    /// Adds the results of another thread.
    pub fn add(&mut self, other: &Stats) {
        for (seen, more) in self.seen.iter_mut().zip(&other.seen) {
            merge(seen, more);
        }
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
        self.cached += other.cached;
        self.batch_rows += other.batch_rows;
    }
}

fn merge(seen: &mut Seen, more: &Seen) {
    seen.latency += &more.latency;
    for (status, count) in &more.status {
        *seen.status.entry(*status).or_default() += count;
    }
    for (failure, count) in &more.failures {
        *seen.failures.entry(*failure).or_default() += count;
    }
}

/// The percentiles in reports, with their names.
pub const SHOWN: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// A percentile in milliseconds.
pub fn quantile_ms(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    let micros = if quantile >= 1.0 { histogram.max() } else { histogram.value_at_quantile(quantile) };
    micros as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let (mut one, mut all) = (Stats::new(), Stats::new());
        one.answered(Endpoint::Fast, 200, Duration::from_millis(2));
        one.answered(Endpoint::Fast, 429, Duration::from_millis(1));
        one.failed(Endpoint::Full, Failure::Timeout, Duration::from_secs(9));
        one.reason("mailbox_exists");
        one.cached = 1;
        all.add(&one);
        all.add(&one);
        let fast = all.of(Endpoint::Fast);
        assert_eq!((fast.requests(), fast.answered(), fast.errors(), fast.limited()), (4, 4, 2, 2));
        let full = all.of(Endpoint::Full);
        assert_eq!((full.requests(), full.answered(), full.errors()), (2, 0, 2));
        assert_eq!((all.reasons["mailbox_exists"], all.cached), (2, 2));
        let sum = all.all();
        assert_eq!((sum.requests(), sum.errors()), (6, 4));
        assert!((quantile_ms(&sum.latency, 1.0) - 9000.0).abs() < 9.0);
        assert!((quantile_ms(&fast.latency, 0.5) - 1.0).abs() < 0.01);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut stats = Stats::new();
        for number in 0..1000 {
            stats.reason(&number.to_string());
        }
        assert_eq!(stats.reasons.len(), REASONS_MAX);
    }
}
