//! The store in PostgreSQL, for several nodes that share one database. No crate uses it yet: it has the connection
//! only, and not the trait `Store`.
//!
//! [`connect`] opens a connection to the writable server of a cluster, over TLS. Everything runs on one thread of monoio,
//! with io_uring or epoll, and no runtime of tokio exists.

pub mod connect;
