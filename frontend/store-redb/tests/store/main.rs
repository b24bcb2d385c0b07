//! What every implementation of the store must do, checked through its public face alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod connections;
mod gateways;
mod idempotency;
mod limits;
mod model;
mod previous;
mod results;
mod rules;
mod web;
mod world;
