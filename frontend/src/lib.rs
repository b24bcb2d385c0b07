//! mailprobe's front end: the command line, the HTTP API, and the store with its accounts, keys and credits.
//!
//! The way of a request: [`server`] accepts it, [`http`] bounds and admits it, [`router`] finds its handler in
//! [`routes`], which asks [`checks`] and the [`store`].

pub mod admin;
pub mod cli;
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod reference;
pub mod router;
pub mod routes;
pub mod server;
pub mod status;
pub mod tls;
pub mod worker;
