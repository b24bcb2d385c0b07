//! mailprobe's front end: the command line, the HTTP API, and the store with its accounts, keys and credits.
//!
//! The way of a request: [`server`] accepts it, [`http`] bounds and admits it, [`router`] finds its handler in
//! [`routes`], which asks the [`store`] and, through [`engine_client`], the engine.

pub mod admin;
pub mod assistants;
pub mod auth;
pub mod batch;
pub mod cli;
pub mod config;
pub mod convert;
pub mod detail;
pub mod digits;
pub mod engine_client;
mod engine_memory;
pub mod fast;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
pub mod gateway;
pub mod housekeeping;
pub mod http;
pub mod idempotency;
mod keeper;
pub mod known_domains;
pub mod limiter;
pub mod listen;
pub mod mcp;
pub mod metrics;
pub mod oauth;
pub mod peers;
pub mod query;
pub mod reference;
pub mod refusal;
pub mod router;
pub mod routes;
pub mod runtime;
pub mod server;
pub mod status;
pub mod survive;
pub mod tls;
pub mod web;
pub mod worker;
