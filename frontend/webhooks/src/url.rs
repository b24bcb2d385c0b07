//! The URLs of endpoints. The parser is strict, so the host that is checked and the host that is connected to are the same.
//!
//! A URL has `https`, a DNS name, perhaps a port, a path and a query. User information, fragments and addresses in the place
//! of names are refused. The port is 443, or 1024 and above, so that no request goes to a server of another protocol. If the
//! operator allows networks ([`Destinations::has_allowed`]), plain `http` to them and their addresses are accepted too.

use outbound::Destinations;
use outbound::host::{is_name, split_port};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use store::webhooks::WEBHOOK_URL_BYTES_MAX;

/// The lowest port that needs no special right, and so belongs to no well-known protocol.
const FREE_PORT_MIN: u16 = 1024;

/// The URL of an endpoint. `Debug` shows only its host.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    text: String,
    is_https: bool,
    host: String,
    port: Option<u16>,
    /// Path and query; it begins with `/`.
    target: String,
}

/// The reason why a URL is refused, as a sentence for its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is empty or too long.
    #[error("must have 1 to 2048 bytes")]
    Length,
    /// It has characters that are not part of URLs.
    #[error("must have only the characters of URLs; write international names in A-labels (xn--)")]
    Character,
    /// It has a percent sign without two hexadecimal digits (RFC 3986 2.1).
    #[error("must have two hexadecimal digits after each percent sign; write it as %25")]
    Percent,
    /// It has another scheme.
    #[error("must begin with https://, unless the operator allows a network with `webhook_allow_net`")]
    Scheme,
    /// It has user information.
    #[error("must not have a user name")]
    UserInfo,
    /// It has a fragment.
    #[error("must not have a fragment")]
    Fragment,
    /// Its host is not a DNS name.
    #[error(
        "must have a public DNS name as its host, unless the operator allows its network with `webhook_allow_net`"
    )]
    Host,
    /// Its port is not allowed.
    #[error("must have no port, the port 443, or a port from 1024 to 65535")]
    Port,
}

impl WebhookUrl {
    /// Reads a URL. The host becomes lower-case.
    ///
    /// # Errors
    ///
    /// [`UrlFault`].
    pub fn parse(text: &str, destinations: &Destinations) -> Result<WebhookUrl, UrlFault> {
        if !(1..=WEBHOOK_URL_BYTES_MAX).contains(&text.len()) {
            return Err(UrlFault::Length);
        }
        if text.contains('#') {
            return Err(UrlFault::Fragment);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte)) {
            return Err(UrlFault::Character);
        }
        let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if !text.split('%').skip(1).all(is_escape) {
            return Err(UrlFault::Percent);
        }
        let (scheme, behind) = text.split_once("://").ok_or(UrlFault::Scheme)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" if destinations.has_allowed() => false,
            _ => return Err(UrlFault::Scheme),
        };
        let end = behind.find(['/', '?']).unwrap_or(behind.len());
        let (authority, rest) = behind.split_at(end);
        if authority.contains('@') {
            return Err(UrlFault::UserInfo);
        }
        let authority = authority.to_ascii_lowercase();
        let (host, port) = split_port(&authority).ok_or(UrlFault::Port)?;
        if !fits(host, destinations) {
            return Err(UrlFault::Host);
        }
        let standard = if is_https { 443 } else { 80 };
        if port.is_some_and(|port| port != standard && port < FREE_PORT_MIN) {
            return Err(UrlFault::Port);
        }
        let slash = if rest.starts_with('/') { "" } else { "/" };
        Ok(WebhookUrl {
            text: format!("{}://{authority}{rest}", if is_https { "https" } else { "http" }),
            is_https,
            host: host.to_owned(),
            port,
            target: format!("{slash}{rest}"),
        })
    }

    /// The URL, with its scheme and host in lower case. It may have a secret in its path or query.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The host as a name for a certificate and for a look-up: an address of IPv6 has no brackets.
    pub fn host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_https { 443 } else { 80 })
    }

    /// The value of the header `Host`.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// Path and query, for a request.
    pub fn target(&self) -> &str {
        &self.target
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({})", self.host)
    }
}

/// Whether a host is a name that can be public, or in an allowed network.
fn fits(host: &str, destinations: &Destinations) -> bool {
    if let Some(address) = literal(host) {
        return destinations.is_allowed(address);
    }
    let is_public = host.contains('.') && !host.ends_with(".localhost") && !host.ends_with(".local");
    is_name(host) && (is_public || destinations.has_allowed())
}

/// The address of a host in its normal form.
fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::config::Network;

    fn open() -> Destinations {
        let network = |text| Network::parse(text).expect("a network");
        Destinations::new(vec![network("127.0.0.0/8"), network("::1")])
    }

    #[test]
    fn urls_are_read() {
        for (text, host, port, authority, target) in [
            ("https://a.example/in?x=1", "a.example", 443, "a.example", "/in?x=1"),
            ("https://a.example", "a.example", 443, "a.example", "/"),
            ("https://a.example?x", "a.example", 443, "a.example", "/?x"),
            ("HTTPS://A.Example:8443/In", "a.example", 8443, "a.example:8443", "/In"),
            ("https://a.example:443/", "a.example", 443, "a.example:443", "/"),
            ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/"),
            ("https://a.example/@b", "a.example", 443, "a.example", "/@b"),
            ("https://a.example/%c3%A9?%2F", "a.example", 443, "a.example", "/%c3%A9?%2F"),
        ] {
            let url = WebhookUrl::parse(text, &Destinations::default()).expect(text);
            let read = (url.host(), url.port(), url.authority(), url.target());
            assert_eq!(read, (host, port, authority.into(), target), "{text}");
            assert!(url.is_https());
            assert_eq!(WebhookUrl::parse(url.as_str(), &Destinations::default()), Ok(url), "{text}");
        }
        let tested = [
            ("http://127.0.0.1:8080/x", "127.0.0.1", 8080, false),
            ("http://[::1]:8080/x", "::1", 8080, false),
            ("http://localhost/x", "localhost", 80, false),
            ("https://127.0.0.1/", "127.0.0.1", 443, true),
            ("https://localhost:9000/", "localhost", 9000, true),
        ];
        for (text, host, port, is_https) in tested {
            let url = WebhookUrl::parse(text, &open()).expect(text);
            assert_eq!((url.host(), url.port(), url.is_https()), (host, port, is_https), "{text}");
            assert!(WebhookUrl::parse(text, &Destinations::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn all_others_are_refused() {
        use UrlFault::{Character, Fragment, Host, Length, Percent, Port, Scheme, UserInfo};
        for (text, fault) in [
            ("", Length),
            ("a.example", Scheme),
            ("//a.example/", Scheme),
            ("http://a.example/", Scheme),
            ("ftp://a.example/", Scheme),
            ("file:///etc/passwd", Scheme),
            ("gopher://a.example/", Scheme),
            ("https://", Host),
            ("https:///x", Host),
            ("https://user@a.example/", UserInfo),
            ("https://user:pw@a.example/", UserInfo),
            ("https://a.example@127.0.0.1/", UserInfo),
            ("https://a.example/#x", Fragment),
            ("https://a.example#@127.0.0.1/", Fragment),
            ("https://a.example\\@127.0.0.1/", Character),
            ("https://a.example/ x", Character),
            ("https://a.example/\r\nx", Character),
            ("https://a.exam\tple/", Character),
            ("https://127.0.0.1\n.a.example/", Character),
            ("\thttps://a.example/", Character),
            ("https:\\\\a.example/", Character),
            ("https:/a.example/", Scheme),
            ("https:a.example/", Scheme),
            ("https://b\u{fc}cher.example/", Character),
            ("https://127\u{3002}0\u{3002}0\u{3002}1/", Character),
            ("https://\u{2460}27.0.0.1/", Character),
            ("https://a.example/%", Percent),
            ("https://a.example/%2", Percent),
            ("https://a.example/?100%&x", Percent),
            ("https://a..example/", Host),
            ("https://a.example./", Host),
            ("https://127.0.0.1/", Host),
            ("https://127.0.0.1./", Host),
            ("https://127.1/", Host),
            ("https://2130706433/", Host),
            ("https://0x7f000001/", Host),
            ("https://0x7f.1/", Host),
            ("https://0177.0.0.1/", Host),
            ("https://017700000001/", Host),
            ("https://127.0.0.0x1/", Host),
            ("https://0/", Host),
            ("https://0.0.0.0/", Host),
            ("https://192.0.1.1/", Host),
            ("https://[::1]/", Host),
            ("https://[::ffff:127.0.0.1]/", Host),
            ("https://[fe80::1%25eth0]/", Host),
            ("https://[fe80::1%eth0]/", Percent),
            ("https://[0:0:0:0:0:0:0:1]/", Host),
            ("https://[::1", Port),
            ("https://::1/", Port),
            ("https://127.0.0.1%2f.a.example/", Host),
            ("https://a.example%2e/", Host),
            ("https://0x7f.0.0.0x/", Host),
            ("https://1.2.3.4.5/", Host),
            ("https://[::]/", Host),
            ("https://[64:ff9b::7f00:1]/", Host),
            ("https://localhost/", Host),
            ("https://a.localhost/", Host),
            ("https://LOCALHOST/", Host),
            ("https://printer.local/", Host),
            ("https://intranet/", Host),
            ("https://a_b.example/", Host),
            ("https://%31%32%37.0.0.1/", Host),
            ("https://a.example:/", Port),
            ("https://a.example:0/", Port),
            ("https://a.example:25/", Port),
            ("https://a.example:80/", Port),
            ("https://a.example:1023/", Port),
            ("https://a.example:0443/", Port),
            ("https://a.example:65536/", Port),
            ("https://a.example:443:443/", Port),
            ("https://a.example:+443/", Port),
        ] {
            assert_eq!(WebhookUrl::parse(text, &Destinations::default()), Err(fault), "{text}");
        }
        let long = format!("https://a.example/{}", "x".repeat(WEBHOOK_URL_BYTES_MAX));
        assert_eq!(WebhookUrl::parse(&long, &Destinations::default()), Err(Length));
        for text in ["http://10.0.0.1/", "https://[::2]/", "http://127.1/", "http://[::ffff:127.0.0.1]/"] {
            assert_eq!(WebhookUrl::parse(text, &open()), Err(Host), "{text}");
        }
    }

    #[test]
    fn debug_shows_no_path_and_no_query() {
        let url = WebhookUrl::parse("https://a.example/secret?token=x", &Destinations::default());
        assert_eq!(format!("{:?}", url.expect("a URL")), "WebhookUrl(a.example)");
    }
}
