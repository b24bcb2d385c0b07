//! The parts of a request head that pages use.

use std::net::IpAddr;

/// The parts of a request head that pages use.
pub struct Head {
    /// The path.
    pub path: String,
    /// The query, not decoded.
    pub query: String,
    /// `Host`.
    pub host: Option<String>,
    /// Whether the request has an `Origin` header, readable or not.
    pub has_origin: bool,
    /// `Origin`, if it is readable.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// The values of `Cookie`.
    pub cookies: Vec<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `User-Agent`.
    pub agent: String,
    /// The IP address of the peer.
    pub peer: IpAddr,
}
