//! What the tests of servers share: the HTTP client, the process of a server, and the scripted engine.

pub mod certificate;
pub mod client;
pub mod scripted;
pub mod server;
