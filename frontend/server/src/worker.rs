//! The state that the handlers of a frontend thread use.

use crate::connection_limit::ConnectionLimit;
use crate::connection_memory::ConnectionMemory;
use crate::status::Status;
use checks::Checks;
use checks::batch::NewBatches;
use checks::faults::Faults;
use checks::gateway::Gateways;
use checks::idempotency::InProgress;
use dashboard::Dashboard;
use engine::proto::sharing::ShareUse;
use list_work::ListWork;
use outbound::Destinations;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};

/// The state of one frontend thread.
pub struct Worker {
    /// The charged and free checks of this thread.
    pub checks: Rc<Checks>,
    /// The phase of the server.
    pub status: Arc<Status>,
    /// The limit on connections.
    pub limit: Rc<ConnectionLimit>,
    /// The state that all threads share.
    pub shared: Arc<SharedState>,
}

/// The state that all frontend threads share, apart from the store.
pub struct SharedState {
    /// The idempotency keys of requests under way.
    pub in_progress: Arc<InProgress>,
    /// The channel to the feeder of batches.
    pub new_batches: Arc<NewBatches>,
    /// The API gateways with known secrets. The operator can replace them while the server runs.
    pub gateways: RwLock<Arc<Gateways>>,
    /// The addresses that webhooks may contact.
    pub webhook_destinations: Destinations,
    /// The memory of connections that wait for their peers.
    pub memory: Arc<ConnectionMemory>,
    /// What accounts and networks share, and how much of it is taken.
    pub shares: Vec<Arc<ShareUse>>,
    /// The faults of this machine.
    pub faults: Arc<Faults>,
    /// The OpenAPI description of the API.
    pub description: Vec<u8>,
    /// The reference of the API as the content of a page.
    pub reference: Arc<str>,
    /// The work on lists.
    pub lists: Arc<ListWork>,
    /// The dashboard with the endpoints of assistants, if it is served.
    pub dashboard: Option<Arc<Dashboard>>,
}

impl SharedState {
    /// The API gateways of the moment.
    pub fn gateways(&self) -> Arc<Gateways> {
        Arc::clone(&self.gateways.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the API gateways for all later requests.
    pub fn replace_gateways(&self, gateways: Gateways) {
        *self.gateways.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(gateways);
    }
}
