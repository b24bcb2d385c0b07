//! The store in one file of redb, embedded, for one process.
//!
//! [`RedbStore`] implements [`store::Store`]. `tables.rs` has every table; `txn.rs` and the modules beside it have what a write
//! does; `writer.rs` is the one thread that writes and groups commits; `index.rs` keeps API keys in memory. What is sealed has
//! its keys in files of their own ([`vault`](self)): the folder `keys`.
//!
//! - What was answered is durable. A group of writes is one commit, and is answered after its sync.
//! - After a write or sync that failed nothing is written any more (`fail_stop.rs`); reads go on.
//! - A folder belongs to one process at a time, and to the keys that it was made with.
//!
//! docs/storage.md has the tables, the format, and what a crash can and cannot do.

mod accounts;
mod audit;
pub mod backup;
mod batches;
mod clock_check;
mod connections;
#[cfg(test)]
mod crash;
mod days;
mod fail_stop;
mod folder;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateways;
mod index;
#[cfg(test)]
mod index_check;
mod key_check;
mod ledger;
mod limits;
mod lists;
mod migrations;
mod purge;
mod reason;
mod redb;
mod refusals;
mod results;
#[cfg(test)]
mod retention;
mod row;
mod sweep;
mod tables;
mod txn;
mod users;
mod vault;
mod withdrawn;
mod writer;

pub use self::redb::{Opening, RedbStore, StoreOptions};
pub use folder::DATABASE_FILE;
pub use vault::KEY_FOLDER;
