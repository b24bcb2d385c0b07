//! The parts of mailprobe's front end: the store with its accounts, keys and credits, and what stands on it.

pub mod auth;
pub mod cli;
pub mod config;
pub mod credits;
pub mod store;
