//! Batches: from the rows in the store to their answers in the store.
//!
//! One thread, the [`Feeder`], has a line of its own to the engine and asks about the rows of all batches, account by
//! account in turn ([`queue`]); frontend threads tell it of new batches over the [`NewBatches`]. What it holds in memory
//! is all in the store: after a restart, in good order or not, it takes up the batches that are not finished.

mod feeder;
mod new_batches;
pub mod queue;

pub use feeder::Feeder;
pub use new_batches::NewBatches;
pub use queue::Limits;
