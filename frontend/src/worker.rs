//! What a frontend thread has at hand.

use crate::assistants::Assistants;
use crate::batch::Door;
use crate::engine_client::EngineClient;
use crate::gate::Gate;
use crate::gateway::Gateways;
use crate::idempotency::InProgress;
use crate::known_domains::KnownDomains;
use crate::limiter::Limiter;
use crate::metrics::Tally;
use crate::routes::verify::full::flights::Flights;
use crate::status::Status;
use crate::web::Web;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use store::Store;

/// The state of one frontend thread.
pub struct Worker {
    /// Accounts, keys and credits.
    pub store: Arc<dyn Store>,
    /// How much keys and accounts may ask.
    pub limiter: Arc<Limiter>,
    /// The way to the engine.
    pub engine: Rc<EngineClient>,
    /// What fast checks found out about domains.
    pub domains: RefCell<KnownDomains>,
    /// The server's phase.
    pub status: Arc<Status>,
    /// Connections, and charged checks whose callers may be gone: what a drain waits for.
    pub gate: Rc<Gate>,
    /// What it shares with the other threads.
    pub commons: Arc<Commons>,
    /// What this thread counts.
    pub tally: Arc<Tally>,
}

/// What all frontend threads share, beside the store.
pub struct Commons {
    /// Charged checks under way.
    pub flights: Arc<Flights>,
    /// Idempotency keys under way.
    pub in_progress: Arc<InProgress>,
    /// The way to the feeder of batches.
    pub door: Arc<Door>,
    /// The API gateways whose secrets are known.
    pub gateways: Gateways,
    /// The description of the API.
    pub description: Vec<u8>,
    /// The same as a page's content.
    pub reference: String,
    /// The dashboard, where it is served.
    pub web: Option<Arc<Web>>,
    /// What connects assistants, where they can be.
    pub assistants: Option<Arc<Assistants>>,
}
