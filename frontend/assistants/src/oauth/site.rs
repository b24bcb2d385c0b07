//! The URLs of this server for assistants and their users. Tokens and metadata contain them.
//!
//! The URLs must be trustworthy. If the host came from a request, the sender of the request could choose the audience of a
//! token (RFC 9728 7.4). So assistants can connect only if the operator configured the URL of the server, or if the server
//! listens only on this computer.

use super::uri::Uri;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The only scope of a connection.
pub const SCOPE: &str = "verify";

/// Path of the protected resource: the MCP endpoint.
pub const MCP: &str = "/mcp";
/// Path of the consent page (OAuth 2.1 4.1.1), which belongs to the dashboard.
pub const AUTHORIZE: &str = "/oauth/authorize";
/// Path of the token endpoint (OAuth 2.1 3.2).
pub const TOKEN: &str = "/oauth/token";
/// Path of the revocation endpoint (RFC 7009).
pub const REVOKE: &str = "/oauth/revoke";
/// Path of the registration endpoint (RFC 7591).
pub const REGISTER: &str = "/oauth/register";
/// Path of the metadata of the protected resource (RFC 9728 3.1).
pub const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// The origin of this server, and the URLs below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Scheme and authority, without a slash at the end.
    origin: String,
}

impl Site {
    /// The site from the setting `public_url`, otherwise from the address of the listener.
    ///
    /// # Errors
    /// One sentence with the reason why assistants cannot connect.
    pub fn new(public_url: Option<&str>, listen: SocketAddr, tls: bool) -> Result<Site, &'static str> {
        let Some(url) = public_url else {
            let scheme = if tls { "https" } else { "http" };
            return if listen.ip().is_loopback() {
                Ok(Site { origin: format!("{scheme}://{listen}") })
            } else {
                Err("assistants cannot connect: set public_url to the URL of this server")
            };
        };
        let origin = url.trim_end_matches('/');
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        if authority.contains('/') {
            return Err("assistants cannot connect: public_url must not have a path");
        }
        if !origin.starts_with("https://") && Uri::parse(origin).is_none() {
            return Err("assistants cannot connect: public_url must be https");
        }
        Ok(Site { origin: origin.to_ascii_lowercase() })
    }

    /// The issuer of tokens (RFC 8414 2), and the `Origin` of pages of this server.
    pub fn issuer(&self) -> &str {
        &self.origin
    }

    /// A URL of this server.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// The resource that tokens are for (RFC 8707 2).
    pub fn resource(&self) -> String {
        self.url(MCP)
    }

    /// Whether this is the resource that tokens are for. Scheme and host are compared without regard to case.
    pub fn is_resource(&self, resource: &str) -> bool {
        let (origin, path) = resource.split_at_checked(self.origin.len()).unwrap_or((resource, ""));
        origin.eq_ignore_ascii_case(&self.origin) && path == MCP
    }

    /// Metadata of the protected resource (RFC 9728 2).
    pub fn resource_metadata(&self) -> Value {
        json!({
            "resource": self.resource(),
            "authorization_servers": [self.issuer()],
            "scopes_supported": [SCOPE],
            "bearer_methods_supported": ["header"],
            "resource_name": "mailprobe",
        })
    }

    /// Metadata of the authorization server (RFC 8414 2).
    pub fn server_metadata(&self) -> Value {
        json!({
            "issuer": self.issuer(),
            "authorization_endpoint": self.url(AUTHORIZE),
            "token_endpoint": self.url(TOKEN),
            "registration_endpoint": self.url(REGISTER),
            "revocation_endpoint": self.url(REVOKE),
            "scopes_supported": [SCOPE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": [super::pkce::METHOD],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
            "protected_resources": [self.resource()],
        })
    }

    /// The challenge in a 401 answer (RFC 6750 3, RFC 9728 5.1). It contains `error` if the request had a token.
    pub fn challenge(&self, with_token: bool) -> String {
        let error = if with_token { "error=\"invalid_token\", " } else { "" };
        let metadata = self.url(RESOURCE_METADATA);
        format!("Bearer realm=\"mailprobe\", {error}scope=\"{SCOPE}\", resource_metadata=\"{metadata}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(url: Option<&str>, listen: &str) -> Result<Site, &'static str> {
        Site::new(url, listen.parse().unwrap(), false)
    }

    #[test]
    fn it_is_where_the_operator_says_or_on_this_computer() {
        let issuer = |url, listen| site(url, listen).ok().map(|site| site.issuer().to_owned());
        let check =
            |url, listen, expected: Option<&str>| assert_eq!(issuer(url, listen).as_deref(), expected);
        check(None, "127.0.0.1:8080", Some("http://127.0.0.1:8080"));
        check(None, "[::1]:1", Some("http://[::1]:1"));
        check(None, "0.0.0.0:8080", None);
        check(Some("https://API.example.com/"), "0.0.0.0:1", Some("https://api.example.com"));
        check(Some("http://localhost:3000"), "0.0.0.0:1", Some("http://localhost:3000"));
        check(Some("http://[::1]"), "0.0.0.0:1", Some("http://[::1]"));
        check(Some("http://api.example.com"), "127.0.0.1:1", None);
        check(Some("http://localhost.example.com"), "127.0.0.1:1", None);
        check(Some("https://example.com/api"), "127.0.0.1:1", None);
        let tls = Site::new(None, "127.0.0.1:1".parse().unwrap(), true).unwrap();
        assert_eq!(tls.issuer(), "https://127.0.0.1:1");
    }

    #[test]
    fn tokens_are_for_one_resource() {
        let site = site(Some("https://api.example.com"), "127.0.0.1:1").unwrap();
        assert!(site.is_resource("https://api.example.com/mcp"));
        assert!(site.is_resource("HTTPS://Api.Example.com/mcp"));
        for other in [
            "",
            "https://api.example.com",
            "https://api.example.com/mcp/",
            "https://api.example.com/MCP",
            "https://api.example.com/mcp#x",
            "http://api.example.com/mcp",
            "https://evil.example/mcp",
            "https://api.example.com.evil.example/mcp",
        ] {
            assert!(!site.is_resource(other), "{other}");
        }
    }
}
