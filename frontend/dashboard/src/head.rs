//! The head of a request, as far as pages care.

use std::net::IpAddr;

/// What the head of a request says, as far as pages care.
pub struct Head {
    /// The path.
    pub path: String,
    /// The query, as it came.
    pub query: String,
    /// `Host`.
    pub host: Option<String>,
    /// There is an `Origin`, whether it can be read or not.
    pub has_origin: bool,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// The values of `Cookie`.
    pub cookies: Vec<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `User-Agent`.
    pub agent: String,
    /// Who connected.
    pub peer: IpAddr,
}
