//! Assistants: the connection of a client, its rights, and the refusals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assistant;
mod attacks;
#[path = "../web/browser.rs"]
mod browser;
#[path = "../http/certificate.rs"]
mod certificate;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/client.rs"]
mod client;
mod connections;
mod consent;
mod documents;
mod mcp;
#[path = "../http/scripted.rs"]
mod scripted;
#[expect(dead_code, reason = "shared with the tests of the API, which use all of it")]
#[path = "../http/server.rs"]
mod server;
mod tokens;
