//! The part of a request head that pages use.

use std::net::IpAddr;

/// The fields of a request head that pages use.
pub struct Head {
    /// The path of the request.
    pub path: String,
    /// The query, not decoded.
    pub query: String,
    /// The value of `Host`.
    pub host: Option<String>,
    /// Whether the request has an `Origin` header, readable or not.
    pub has_origin: bool,
    /// The value of `Origin`, if it is readable.
    pub origin: Option<String>,
    /// The value of `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// The values of `Cookie`.
    pub cookies: Vec<String>,
    /// The value of `Content-Type`.
    pub content_type: Option<String>,
    /// The value of `User-Agent`; empty if it is missing.
    pub agent: String,
    /// The IP address of the peer.
    pub peer: IpAddr,
}
