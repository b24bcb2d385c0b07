//! What a frontend thread has at hand.

use crate::connection_limit::ConnectionLimit;
use crate::status::Status;
use checks::Checks;
use checks::batch::NewBatches;
use checks::gateway::Gateways;
use checks::idempotency::InProgress;
use dashboard::Dashboard;
use std::rc::Rc;
use std::sync::Arc;

/// The state of one frontend thread.
pub struct Worker {
    /// What charges and asks.
    pub checks: Rc<Checks>,
    /// The server's phase.
    pub status: Arc<Status>,
    /// Connections.
    pub limit: Rc<ConnectionLimit>,
    /// What it shares with the other threads.
    pub shared: Arc<SharedState>,
}

/// What all frontend threads share, beside the store.
pub struct SharedState {
    /// Idempotency keys under way.
    pub in_progress: Arc<InProgress>,
    /// The way to the feeder of batches.
    pub new_batches: Arc<NewBatches>,
    /// The API gateways whose secrets are known.
    pub gateways: Gateways,
    /// The description of the API.
    pub description: Vec<u8>,
    /// The same as a page's content.
    pub reference: Arc<str>,
    /// The dashboard, where it is served, and what connects assistants.
    pub dashboard: Option<Arc<Dashboard>>,
}
