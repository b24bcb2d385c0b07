//! Checks of addresses for every kind of caller: rights, price, answer.
//!
//! The API, batches, the dashboard, assistants and gateways all use this crate. Each frontend thread has one
//! [`Checks`].
//!
//! - [`verify::verify`] answers one address for a caller with a key: fast or full, live or test.
//! - [`fast::check`] uses only DNS and lists. It is free.
//! - [`full::check`] holds a credit, asks the engine, and settles or voids. A repeat within 24 hours is free.
//! - [`batch::Feeder`] asks about the rows of batches and lists, with the accounts in turn.
//! - [`auth`] and [`gateway`] authenticate callers; [`limiter`] and [`throttle`] limit their rate.
//! - [`evidence`] tells on what an answer is based.
//! - [`own_evidence`] changes open answers to the operator's own accounts.
//! - [`engine_client`] has the interface to the engine, so that tests can replace it.
//!
//! Invariants: a held credit is settled with a durable answer, or voided; a request that fails is not charged. Errors
//! are [`CheckError`]; their form over HTTP is decided in http-core.

pub mod auth;
pub mod batch;
pub mod convert;
pub mod counters;
pub mod deletion;
pub mod detail;
pub mod drain;
pub mod engine_client;
pub mod engine_memory;
mod error;
pub mod evidence;
pub mod export;
pub mod fast;
pub mod faults;
pub mod full;
pub mod gateway;
pub mod housekeeping;
pub mod idempotency;
pub mod keeper;
pub mod known_domains;
pub mod limiter;
pub mod own_evidence;
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
use own_evidence::OwnEvidence;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use store_rules::Store;

/// The objects that checks of one frontend thread need.
pub struct Checks {
    /// Accounts, keys and credits.
    pub store: Arc<Store>,
    /// The limits on requests of keys and accounts.
    pub limiter: Arc<Limiter>,
    /// The connection to the engine.
    pub engine: Rc<EngineClient>,
    /// The cache of domains for fast checks.
    pub domains: RefCell<KnownDomains>,
    /// The charged checks under way on all threads.
    pub shared_checks: Arc<SharedChecks>,
    /// The charged work that a drain waits for, even if its callers have gone.
    pub drain: Rc<Drain>,
    /// The learned events of the operator's own mail.
    pub own_evidence: Arc<OwnEvidence>,
    /// The counters of this thread.
    pub tally: Arc<Tally>,
}
