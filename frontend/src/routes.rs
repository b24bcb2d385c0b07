//! The handlers, one resource a file.

pub mod account;
pub mod health;
pub mod verify;
