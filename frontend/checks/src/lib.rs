//! What a check is, whoever asks: who may, what it costs, what it answers.
//!
//! The API, batches, the dashboard, assistants and gateways call this crate alike. Each frontend thread has one [`Checks`].
//!
//! - [`verify::verify`] answers one address for a caller with a key: fast or full, live or test.
//! - [`fast::check`] asks DNS and lists alone. It is free.
//! - [`full::check`] holds a credit, asks the engine, and settles or voids. A repeat within 24 hours is free.
//! - [`batch::Feeder`] asks about the rows of batches and lists, account by account in turn.
//! - [`auth`] and [`gateway`] say who calls; [`limiter`] and [`throttle`] say how often they may.
//!
//! What holds: a credit that is held is settled with a durable answer, or given back; nothing that fails is charged. Errors are
//! [`CheckError`]: what they are called over HTTP is not known here.

pub mod auth;
pub mod batch;
pub mod convert;
pub mod counters;
pub mod detail;
pub mod drain;
pub mod engine_client;
pub mod engine_memory;
mod error;
pub mod fast;
pub mod full;
pub mod gateway;
pub mod housekeeping;
pub mod idempotency;
pub mod keeper;
pub mod known_domains;
pub mod limiter;
pub mod panics;
pub mod peers;
pub mod runtime;
pub mod test_mode;
pub mod throttle;
pub mod verify;

pub use error::CheckError;

use counters::Tally;
use drain::Drain;
use engine_client::EngineClient;
use full::shared::SharedChecks;
use known_domains::KnownDomains;
use limiter::Limiter;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use store::Store;

/// What checks need on one frontend thread.
pub struct Checks {
    /// Accounts, keys and credits.
    pub store: Arc<dyn Store>,
    /// How much keys and accounts may ask.
    pub limiter: Arc<Limiter>,
    /// The way to the engine.
    pub engine: Rc<EngineClient>,
    /// What fast checks found out about domains.
    pub domains: RefCell<KnownDomains>,
    /// Charged checks under way, on all threads.
    pub shared_checks: Arc<SharedChecks>,
    /// Charged work whose callers may be gone: a drain waits for it.
    pub drain: Rc<Drain>,
    /// What this thread counts.
    pub tally: Arc<Tally>,
}
