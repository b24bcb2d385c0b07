//! The rules of the store. This is a part, for the crate store-pg to compile.

pub mod backend;
pub mod row;
pub mod rows;
