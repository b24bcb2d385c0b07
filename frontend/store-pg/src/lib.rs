//! The store in PostgreSQL, for several nodes that share one database. No crate uses it yet: it has the connection,
//! groups of writes and groups of reads, and not the trait `Store`.
//!
//! - [`connect`] opens a connection to the writable server of a cluster, over TLS.
//! - [`overlay`] has the rows that a group of jobs has fetched, and what the jobs have written.
//! - [`lane`] executes a group of writes in two round trips, and finds out, after the connection broke, whether the group was
//!   committed.
//! - [`reads`] executes a group of reads of one snapshot.
//!
//! Everything runs on one thread of monoio, with io_uring or epoll, and no runtime of tokio exists
//! (docs/decisions/0015-postgresql-client.md).

mod claims;
pub mod connect;
mod database;
mod feed;
mod job;
pub mod lane;
mod node;
pub mod overlay;
pub mod reads;
mod scan;
mod schema;
#[doc(hidden)]
pub mod sql;
mod worker;

pub use connect::Target;
pub use database::{PgOpening, PgOptions, PgStore, Postgres, open};
pub use node::NodeSettings;
pub use schema::SCHEMA;
