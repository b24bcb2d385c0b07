//! Who may let an assistant act for them, and how: an authorization server for one resource, [`crate::mcp`].
//!
//! OAuth 2.1 with what the Model Context Protocol asks of it: metadata of resource and server (RFC 9728, RFC 8414),
//! clients that register themselves (RFC 7591) or are known by the URL of their metadata
//! (draft-ietf-oauth-client-id-metadata-document), codes with PKCE (RFC 7636), resource indicators (RFC 8707), the
//! issuer in answers (RFC 9207), rotation of refresh tokens (RFC 9700 4.14.2), revocation (RFC 7009). All clients are
//! public: none has a secret.
//!
//! The way of a connection: [`registration`] or [`document`] says who the client is, the dashboard asks the user, who is
//! signed in there, [`token`] gives tokens for the code. What is durable about it is the store's
//! ([`store::Connections`]).

pub mod client;
pub mod document;
pub mod fetch;
pub mod pkce;
pub mod registration;
pub mod secret;
pub mod site;
pub mod token;
pub mod uri;

use http_core::Reply;
use serde_json::{Value, json};
use std::fmt::Display;

/// An answer in JSON.
pub fn json_reply(status: u16, value: &Value) -> Reply {
    Reply { status, headers: Vec::new(), body: value.to_string().into_bytes() }
}

/// An error in the form of OAuth 2.1 3.2.4, RFC 7591 3.2.2 and RFC 7009 2.2.1.
pub fn json_error(status: u16, code: &str, why: &str) -> Reply {
    json_reply(status, &json!({ "error": code, "error_description": why }))
}

/// Something that only the operator can put right.
pub fn failed(error: &dyn Display) -> Reply {
    tracing::warn!("a connection of an assistant: {error}");
    let why = "the service cannot take this now; a retry is safe";
    json_error(503, "temporarily_unavailable", why).header("retry-after", "5")
}
