//! The store in one file of redb, for one process.
//!
//! [`open`] is the entry point: it gives a [`Store`](store_rules::Store). [`backup`] reads and restores backups. `rows.rs` has the
//! tables. `writer.rs` is the only thread that writes, and groups commits. Sealed data has its keys in separate files, in the folder
//! `keys`.
//!
//! Invariants:
//!
//! - Everything that was answered is durable. A group of writes is one commit, and is answered after its sync.
//! - After a failed write or sync nothing is written again (`fail_stop.rs`); reads continue.
//! - A folder belongs to one process at a time, and to the keys with which it was created.
//! - A backup is restored without expired keys.
//!
//! docs/storage.md describes the tables, the format, and the effects of a crash.

pub mod backup;
mod database;
mod fail_stop;
mod folder;
mod key_check;
mod migrations;
mod rows;
#[cfg(test)]
mod tests;
mod writer;

pub use database::{Opening, StoreOptions, open};
pub use folder::DATABASE_FILE;
pub use vault::KEY_FOLDER;
