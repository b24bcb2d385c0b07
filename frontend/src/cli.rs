//! The command line, one subcommand per file.

pub mod account;
pub mod key;
mod place;
mod table;
