//! The counters of the server and their output in the text format of Prometheus, version 0.0.4.
//!
//! Each frontend thread counts in its own [`Tally`]. Its lock is contended only while the page is rendered, which adds
//! up all tallies. Labels are routes, methods, statuses and reasons from fixed tables. So their number is limited, and
//! they contain no address, domain, account or key.

pub mod endpoint;
mod process;
mod render;
mod text;

use checks::counters::Tally;
use checks::engine_client::EngineGauge;
use std::sync::Arc;
use store::Store;

/// The sources of all metrics.
pub struct Metrics {
    tallies: Vec<Arc<Tally>>,
    store: Arc<dyn Store>,
    engine: EngineGauge,
    connections_max: usize,
    started: f64,
    /// Returns how many lines of the log were dropped.
    log_dropped: fn() -> u64,
}

impl Metrics {
    /// Metrics for this many frontend threads and the thread that feeds batches; `now` is the start time.
    pub fn new(
        threads: usize,
        connections_max: usize,
        store: Arc<dyn Store>,
        engine: EngineGauge,
        log_dropped: fn() -> u64,
        now: store::UnixMs,
    ) -> Metrics {
        let tallies = (0..=threads).map(|_| Arc::default()).collect();
        let started = now as f64 / 1000.0;
        Metrics { tallies, store, engine, connections_max, started, log_dropped }
    }

    /// The tally of the thread that feeds batches.
    pub fn tally_of_batches(&self) -> Arc<Tally> {
        self.tally(self.tallies.len() - 1)
    }

    /// The tally of the frontend thread with this index.
    pub fn tally(&self, thread: usize) -> Arc<Tally> {
        Arc::clone(&self.tallies[thread])
    }
}

#[cfg(test)]
mod tests;
