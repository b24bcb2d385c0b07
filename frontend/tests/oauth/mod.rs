//! Assistants: the connection of a client, its rights, and the refusals.

pub mod assistant;
mod attacks;
mod connections;
mod consent;
mod documents;
mod mcp;
mod tokens;
