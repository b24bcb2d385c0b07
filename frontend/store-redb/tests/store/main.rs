//! The requirements on every implementation of the store, checked through its public interface: on redb, or on PostgreSQL
//! (`postgres.rs`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod batches;
mod connections;
mod deletion;
mod gateways;
mod keys;
mod limits;
mod link;
mod lists;
mod model;
mod nodes;
mod postgres;
mod previous;
mod results;
mod rules;
mod scenarios;
mod shares;
mod web;
mod webhooks;
mod world;
