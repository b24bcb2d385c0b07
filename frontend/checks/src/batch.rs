//! Batches: from the rows in the store to their answers in the store.
//!
//! One thread, the [`Feeder`], has its own connection to the engine. It asks about the rows of all batches, with the
//! accounts in turn ([`queue`]). Frontend threads announce new batches over [`NewBatches`]. The store has all data that
//! the feeder has in memory: after a restart, also after a crash, the feeder continues the unfinished batches.

mod feeder;
mod new_batches;
pub mod queue;

pub use feeder::Feeder;
pub use new_batches::NewBatches;
pub use queue::Limits;
