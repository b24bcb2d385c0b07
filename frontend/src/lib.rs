//! The program `mailprobe`: its command line ([`cli`]) and its configuration ([`config`]).
//!
//! Each command is a function of its arguments. `serve` starts the engine, the store and the server and waits for a signal;
//! `check` and `clean` drive the engine without a store; the others speak to a server's folder or socket.

pub mod cli;
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
