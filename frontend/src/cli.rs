//! The command line: one subcommand a file.

pub mod clean;
