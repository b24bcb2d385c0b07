//! The engine: it asks DNS and mail servers about addresses, on threads of its own.
//!
//! It knows nothing of accounts, credits or HTTP. A caller starts an [`Engine`], takes a [`Client`] for each of
//! its own threads, submits [`Request`]s with tickets of its making and gets one [`Answer`] for each.

#![deny(missing_docs)]

pub mod config;
#[expect(dead_code, reason = "shards come next")]
mod runtime;

use config::EngineConfig;
pub use engine_proto as proto;
use engine_proto::address::Address;
use engine_proto::verdict::Reason;
use std::time::Duration;

/// How urgent a request is: whose turn it is at a crowded site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits for the answer.
    Single,
    /// A row of a batch: asked again later when a server says "not now".
    Batch,
    /// A line of a list that is cleaned.
    List,
}

/// One address to ask about.
#[derive(Debug)]
pub struct Request {
    /// The caller's number for it; comes back with the answer.
    pub ticket: u64,
    /// The address.
    pub address: Address,
    /// How urgent it is.
    pub priority: Priority,
    /// Keep the whole story (DNS answers, commands, replies) in [`Answer::trace`].
    pub trace: bool,
}

/// What came out for one request. Every accepted request gets exactly one.
#[derive(Debug)]
pub struct Answer {
    /// The request's number.
    pub ticket: u64,
    /// What is said about the address, or why nothing can be.
    pub result: Result<Finding, Outage>,
    /// The story, a line a step, where the request asked for it.
    pub trace: Vec<String>,
}

/// A verdict with the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The verdict's reason; [`Reason::deliverable`] is the verdict.
    pub reason: Reason,
    /// Name of the rule that decided, as docs/verdicts.md lists them.
    pub rule: &'static str,
    /// The server asked for a later try (greylisting and other transient refusals): after this long.
    pub retry_after: Option<Duration>,
}

/// The engine itself cannot ask; nothing is said about the address and nothing may be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No resolver answers, or no outbound SMTP connection succeeds anywhere.
    Unavailable,
    /// The engine is stopping.
    Stopping,
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many requests are under way as there is room for; try again when an answer has come.
    Full,
    /// The engine is stopping.
    Stopping,
}

/// Why the engine did not start: one line that says what and what to do.
#[derive(Debug)]
pub struct StartError(pub String);

/// The running engine.
pub struct Engine {}

impl Engine {
    /// Starts the shards.
    ///
    /// # Errors
    /// [`StartError`] when no runtime can be had or the configuration cannot work on this host.
    pub fn start(config: EngineConfig) -> Result<Engine, StartError> {
        let _ = config;
        Err(StartError("the engine has no shards".into()))
    }

    /// A client with room for `capacity` requests under way, for use by one thread.
    pub fn client(&self, capacity: usize) -> Client {
        let _ = capacity;
        Client {}
    }

    /// One line that says which runtime and driver run on how many shards, and why.
    pub fn describe(&self) -> String {
        String::new()
    }

    /// Stops the shards: what is under way is answered with [`Outage::Stopping`].
    pub fn stop(self) {}
}

/// One thread's way to the engine.
pub struct Client {}

impl Client {
    /// Hands over a request.
    ///
    /// # Errors
    /// [`Refusal`]; the request was not taken and gets no answer.
    pub fn submit(&self, request: Request) -> Result<(), Refusal> {
        let _ = request;
        Err(Refusal::Stopping)
    }

    /// The next answer; waits for it on any executor, and on a wake-up from another thread.
    pub async fn answer(&self) -> Answer {
        std::future::pending().await
    }

    /// The next answer, for threads without an executor; `None` after `patience`.
    pub fn answer_blocking(&self, patience: Duration) -> Option<Answer> {
        std::thread::sleep(patience);
        None
    }
}
