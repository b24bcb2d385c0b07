//! What every implementation of the store must do, checked through its public face alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limits;
mod model;
mod rules;
mod world;
