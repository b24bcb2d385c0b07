//! Assistants: the connection of a client, its rights, and the refusals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod assistant;
mod attacks;
mod connections;
mod consent;
mod documents;
mod mcp;
mod tokens;
