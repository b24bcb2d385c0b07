//! The server: from accepted connections to handlers, and the interfaces for operators.
//!
//! The path of a request: a thread accepts its connection ([`threads`], [`listen`], [`tls`]). [`http`] limits and
//! authenticates it. [`router`] finds its handler in [`routes`], which uses [`checks`] and the [`store`]. Requests of
//! the dashboard and of assistants are converted in [`http`], and then handled by their own crates.
//! [`threads::FrontendThread::serve`] is the entry point of a thread.
//!
//! Invariants:
//!
//! - The memory and time of a connection are limited by named constants ([`http`], [`connection_limit`]), and so is the memory
//!   of all connections that wait for their peers ([`connection_memory`]). A panic ends only its own request.
//! - Each thread serves the connections that it accepted, from the first byte to the last. Threads share nothing except
//!   [`threads::Common`] and [`worker::SharedState`].
//! - The interfaces for operators, [`metrics`] and [`admin`], never use the port of the API.
//! - [`status::Status`] has the phase of the process: a draining server takes no new request, and finishes those under
//!   way within [`threads::DRAIN_TIME_MAX`].

pub mod admin;
pub mod call;
pub mod connection_limit;
pub mod connection_memory;
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
