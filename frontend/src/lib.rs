//! The program `mailprobe`: its command line ([`cli`]) and its configuration ([`config`]).
//!
//! [`cli::main`] parses the arguments and runs one command. `serve` starts the engine, the store and the server, and
//! waits for a signal. `check` and `clean` run the engine without a store. The crate [`clean`] has the work on a list. The
//! other commands use the folder or the socket of a server. [`config::Config::load`] resolves every setting from flag,
//! environment, file or default, in this order of precedence.
//!
//! Invariants: results go to standard output and everything else to standard error. An error is one line, and names a
//! remedy. No error contains a key or a password, and no address except those in the arguments of the command.

pub mod cli;
pub mod config;
pub mod doctor;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
