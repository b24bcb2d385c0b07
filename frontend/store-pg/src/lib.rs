//! The store in PostgreSQL, for several nodes that share one database.
//!
//! - [`open_node`] opens the store for a server, in its [`NodeFolder`]; [`open_for_command`] for a command of an operator.
//! - [`cluster`] has what an operator does with the whole cluster, and [`restore`] fills an empty schema.
//! - [`connect`] opens a connection to the writable server of a cluster, over TLS.
//! - [`overlay`] has the rows that a group of jobs has fetched, and what the jobs have written.
//! - [`lane`] executes a group of writes in two round trips, and finds out, after the connection broke, whether the group was
//!   committed.
//! - [`reads`] executes a group of reads of one snapshot.
//!
//! Everything runs on one thread of monoio, with io_uring or epoll, and no runtime of tokio exists
//! (docs/decisions/0015-postgresql-client.md).

mod claims;
pub mod cluster;
pub mod connect;
mod database;
mod feed;
mod folder;
mod job;
pub mod lane;
mod node;
pub mod overlay;
pub mod reads;
pub mod restore;
mod scan;
mod schema;
#[doc(hidden)]
pub mod sql;
mod worker;

pub use cluster::ClusterPlace;
pub use connect::Target;
pub use database::{NodeTraits, PgOpening, PgOptions, open, open_for_command, open_node};
pub use folder::{NODE_FILE, NewNode, NewNodeError, NodeFolder, has_identity};
pub use node::NodeSettings;
pub use schema::{SCHEMA, is_name as is_schema_name};
