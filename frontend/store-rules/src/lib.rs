//! The rules of the store over tables of bytes: accounts, the ledger of credits, results, batches, lists, users,
//! assistants and webhooks. Every database has the same rules.
//!
//! - [`rows`] is what the rules need of a database; [`tables`] has every table and row.
//! - [`txn::Txn`] is a transaction of writes; the modules beside it add the writes of their subject.
//! - [`Store`] has the operations, over a [`backend::Backend`], which is a database with its executor.
//! - The crate [`vault`] has the keys that seal data with an expiry, and [`index`] the API keys in memory.
//!
//! Invariants:
//!
//! - A rule has no state and no effects but its rows and [`txn::Effects`], so a database may call it again.
//! - A write that is refused leaves the tables unchanged, or in a state that is right without it.
//! - At every commit and for every account: available + held + spent + expired = granted.
//! - Sealed data cannot be read after its expiry, since its key is destroyed.

mod accounts;
mod audit;
pub mod backend;
pub mod backup;
pub mod batches;
pub mod clock_check;
mod connections;
mod days;
mod deletion;
pub mod disk;
pub mod folder;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateways;
pub mod index;
mod ledger;
mod limits;
mod lists;
pub mod opening;
mod purge;
mod reason;
mod refusals;
mod results;
pub mod row;
pub mod rows;
pub mod shared;
mod store;
pub mod sweep;
pub mod tables;
pub mod task;
pub mod txn;
mod users;
mod webhooks;
pub mod withdrawn;
pub mod write_error;

pub use self::store::{Store, clock_fault};
