//! The server: from accepted connections to handlers, and what operators see of it.
//!
//! The way of a request: a thread accepts its connection ([`threads`]), [`http`] bounds and admits it, [`router`] finds its
//! handler in [`routes`], which asks [`checks`] and the [`store`]. Requests of the dashboard and of assistants take the same way
//! as far as [`http`], and then that of their own crates.
//!
//! - A connection can hold memory and time of a thread only within stated bounds; a panic costs its request alone.
//! - Each thread serves the connections that it accepted, from the first byte to the last. Threads share nothing but
//!   [`worker::SharedState`].
//! - Operators have [`metrics`] and [`admin`], neither of them on the port of the API.

pub mod admin;
pub mod connection_limit;
pub mod http;
pub mod listen;
pub mod metrics;
pub mod reference;
pub mod router;
pub mod routes;
pub mod status;
pub mod threads;
pub mod tls;
pub mod worker;
