//! The handlers, one resource a file.

pub mod account;
pub mod batch;
pub mod docs;
pub mod health;
pub mod openapi;
pub mod verify;
