//! The program `mailprobe`: its command line ([`cli`]) and its configuration ([`config`]).
//!
//! Each command is a function of its arguments. `serve` starts the engine, the store and the server, and waits for a signal.
//! `check` and `clean` run the engine without a store. The other commands use the folder or the socket of a server.

pub mod cli;
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
