//! What the server counts, and how it is told: in the text format of Prometheus, version 0.0.4.
//!
//! Each frontend thread counts into a [`Tally`] of its own, under a lock that nobody else wants but for the moment in
//! which somebody reads; the sums are made when they are asked for. Labels are routes, methods, statuses and reasons
//! from tables of ours: no address, domain, account or key is in any of them, and their number is bounded.

pub mod endpoint;
mod process;
mod render;
mod text;

use checks::counters::Tally;
use checks::engine_client::EngineGauge;
use std::sync::Arc;
use store::Store;

/// All that can be told.
pub struct Metrics {
    tallies: Vec<Arc<Tally>>,
    store: Arc<dyn Store>,
    engine: EngineGauge,
    connections_max: usize,
    started: f64,
    /// How many lines of the log were dropped.
    log_dropped: fn() -> u64,
}

impl Metrics {
    /// For so many frontend threads, and the one that feeds batches; `now` is the time of the start.
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

    /// The tally of a frontend thread.
    pub fn tally(&self, thread: usize) -> Arc<Tally> {
        Arc::clone(&self.tallies[thread])
    }
}

#[cfg(test)]
mod tests;
