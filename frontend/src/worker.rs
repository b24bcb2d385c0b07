//! What a frontend thread has at hand.

use crate::engine_client::EngineClient;
use crate::gate::Gate;
use crate::metrics::Tally;
use crate::status::Status;
use crate::store::Store;
use std::rc::Rc;
use std::sync::Arc;

/// The state of one frontend thread.
pub struct Worker {
    /// Accounts, keys and credits.
    pub store: Arc<dyn Store>,
    /// The way to the engine.
    pub engine: Rc<EngineClient>,
    /// The server's phase.
    pub status: Arc<Status>,
    /// Connections, and charged checks whose callers may be gone: what a drain waits for.
    pub gate: Rc<Gate>,
    /// What this thread counts.
    pub tally: Arc<Tally>,
}
