//! The server from the view of its callers and operators: a process, sockets, signals, exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod answer;
mod auth;
mod backup;
mod batches;
mod budgets;
pub mod certificate;
mod charging;
mod clean;
pub mod client;
mod clock;
mod commands;
mod connections;
mod detail;
mod docs;
mod fast;
mod faults;
mod gateway;
mod idempotency;
mod learn;
mod lifecycle;
mod limits;
mod lists;
mod metrics;
mod openapi;
mod repeats;
mod requests;
mod scopes;
pub mod scripted;
pub mod server;
mod test_mode;
mod tls;
mod webhooks;
