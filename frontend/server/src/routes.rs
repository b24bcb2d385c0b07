//! The handlers of the API, one file per resource. [`crate::router`] has the table that calls them. Handlers
//! get no headers: `http.rs` puts the values that they need into [`crate::call::Call`].

pub mod account;
pub mod batch;
pub mod docs;
pub mod health;
pub mod lists;
pub mod openapi;
mod page;
pub mod verify;
pub mod webhooks;
