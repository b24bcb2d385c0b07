//! The dashboard from the view of a browser without script: pages, forms, cookies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod attacks;
mod browser;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/client.rs"]
mod client;
mod credentials;
mod deletion;
mod downloads;
mod keys;
mod lists;
#[path = "../http/scripted.rs"]
mod scripted;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/server.rs"]
mod server;
mod sessions;
mod sign_in;
mod sign_up;
mod webhooks;
