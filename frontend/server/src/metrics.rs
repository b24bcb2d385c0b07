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
use engine::proto::sharing::ShareUse;
use std::sync::{Arc, OnceLock};
use store_rules::Store;

/// The sources of all metrics.
pub struct Metrics {
    tallies: Vec<Arc<Tally>>,
    store: Arc<Store>,
    engine: EngineGauge,
    /// What accounts and networks share; empty while the server starts.
    shares: OnceLock<Vec<Arc<ShareUse>>>,
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
        store: Arc<Store>,
        engine: EngineGauge,
        log_dropped: fn() -> u64,
        now: store::UnixMs,
    ) -> Metrics {
        let tallies = (0..=threads).map(|_| Arc::default()).collect();
        let started = now as f64 / 1000.0;
        let shares = OnceLock::new();
        Metrics { tallies, store, engine, shares, connections_max, started, log_dropped }
    }

    /// Sets what accounts and networks share, once all parts of the server have started.
    pub fn set_shares(&self, shares: Vec<Arc<ShareUse>>) {
        self.shares.get_or_init(|| shares);
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
