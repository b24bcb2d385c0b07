//! The arguments and results of the store's methods.

mod accounts;
mod batches;
mod connections;
mod keys;
mod ledger;
mod lists;
mod plans;
mod process;
mod results;
mod users;

pub use accounts::*;
pub use batches::*;
pub use connections::*;
pub use keys::*;
pub use ledger::*;
pub use lists::*;
pub use plans::*;
pub use process::*;
pub use results::*;
pub use users::*;
