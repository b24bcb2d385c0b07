//! The authorization server for assistants. It protects one resource, [`crate::mcp`].
//!
//! OAuth 2.1 with the parts that the Model Context Protocol requires: metadata of resource and server (RFC 9728, RFC 8414),
//! clients that register themselves (RFC 7591) or are known by the URL of their metadata
//! (draft-ietf-oauth-client-id-metadata-document), codes with PKCE (RFC 7636), resource indicators (RFC 8707), the
//! issuer in answers (RFC 9207), rotation of refresh tokens (RFC 9700 4.14.2), revocation (RFC 7009). All clients are
//! public: no client has a secret.
//!
//! The steps of a connection: [`registration`] or [`document`] identifies the client. The dashboard asks the signed-in user
//! for consent. [`token`] exchanges the code for tokens. The store keeps the durable state.

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

/// An error in the format of OAuth 2.1 3.2.4, RFC 7591 3.2.2 and RFC 7009 2.2.1.
pub fn json_error(status: u16, code: &str, why: &str) -> Reply {
    json_reply(status, &json!({ "error": code, "error_description": why }))
}

/// The answer after an error that only the operator can correct. The error is logged.
pub fn failed(error: &dyn Display) -> Reply {
    tracing::warn!("a connection of an assistant: {error}");
    let why = "the service cannot process this request now; a retry is safe";
    json_error(503, "temporarily_unavailable", why).header("retry-after", "5")
}
