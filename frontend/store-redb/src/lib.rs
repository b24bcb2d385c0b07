//! The store in one file of redb, for one process.
//!
//! [`RedbStore`] implements [`store::Store`]; [`RedbStore::open`] is the entry point, and [`backup`] reads and restores
//! backups. `tables.rs` has every table. `txn.rs` and the modules beside it execute writes. `writer.rs` is the only
//! thread that writes, and groups commits. `index.rs` has the API keys in memory. Sealed data has its keys in separate
//! files, in the folder `keys` (`vault.rs`).
//!
//! Invariants:
//!
//! - Everything that was answered is durable. A group of writes is one commit, and is answered after its sync.
//! - After a failed write or sync nothing is written again (`fail_stop.rs`); reads continue.
//! - A folder belongs to one process at a time, and to the keys with which it was created.
//! - Sealed data cannot be read after its expiry, since its key is destroyed. A backup is restored without expired
//!   keys.
//!
//! docs/storage.md describes the tables, the format, and the effects of a crash.

mod accounts;
mod audit;
pub mod backup;
mod batches;
mod clock_check;
mod connections;
mod days;
mod fail_stop;
mod folder;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateways;
mod index;
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
mod row;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod txn;
mod users;
mod vault;
mod withdrawn;
mod write_error;
mod writer;

pub use self::redb::{Opening, RedbStore, StoreOptions};
pub use folder::DATABASE_FILE;
pub use vault::KEY_FOLDER;
