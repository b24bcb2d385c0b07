//! Who may let an assistant act for them, and how: an authorization server for one resource, [`crate::mcp`].
//!
//! OAuth 2.1 with what the Model Context Protocol asks of it: metadata of resource and server (RFC 9728, RFC 8414),
//! clients that register themselves (RFC 7591) or are known by the URL of their metadata
//! (draft-ietf-oauth-client-id-metadata-document), codes with PKCE (RFC 7636), resource indicators (RFC 8707), the
//! issuer in answers (RFC 9207), rotation of refresh tokens (RFC 9700 4.14.2), revocation (RFC 7009). All clients are
//! public: none has a secret.
//!
//! The way of a connection: [`registration`] or [`document`] says who the client is, [`authorize`] asks the user, who
//! is signed in to the dashboard, [`token`] gives tokens for the code. What is durable about it is the store's
//! ([`crate::store::Connections`]).

pub mod base64;
pub mod pkce;
pub mod secret;
pub mod site;
pub mod uri;
