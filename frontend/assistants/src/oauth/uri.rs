//! URIs of clients: redirect URIs, and URLs of their metadata. The parser is strict, so the host that is shown to a user,
//! the host that is compared and the host that is connected to are the same.
//!
//! Two kinds are accepted: `https` with a name, and `http` with a name or address of the user's computer, on which a program
//! waits for its answer (RFC 8252 7.3). User information and fragments are refused. All characters must be printable ASCII,
//! and hosts must be lower-case.

use outbound::host::{is_name, split_port};
use store::URI_BYTES_MAX;

/// A URI of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    text: String,
    https: bool,
    host: String,
    port: Option<u16>,
    /// Path and query, from the first `/` or `?`; empty if there is neither.
    rest: String,
}

impl Uri {
    /// Parses a URI; `None` if it is of neither kind.
    pub fn parse(text: &str) -> Option<Uri> {
        let fits = text.len() <= URI_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(&byte));
        let (scheme, behind) = text.split_once("://").filter(|_| fits)?;
        let https = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let end = behind.find(['/', '?']).unwrap_or(behind.len());
        let (authority, rest) = behind.split_at(end);
        let (host, port) = split_port(authority)?;
        let known = if https { is_name(host) } else { is_loopback(host) };
        known.then(|| Uri {
            text: text.to_owned(),
            https,
            host: host.to_owned(),
            port,
            rest: rest.to_owned(),
        })
    }

    /// The URI as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, as users see it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the URI leads to a program on the user's computer.
    pub fn is_loopback(&self) -> bool {
        !self.https
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// Path and query, for a request.
    pub fn target(&self) -> &str {
        &self.rest
    }

    /// Whether the URI can name the metadata of a client (draft-ietf-oauth-client-id-metadata-document 3): `https`, with
    /// a path without dot segments, and without a query.
    pub fn names_a_document(&self) -> bool {
        let dots = |segment: &str| matches!(segment, "." | "..");
        self.https && self.rest.len() > 1 && !self.rest.contains('?') && !self.rest.split('/').any(dots)
    }

    /// Whether the URI equals a registered one, character by character. The port of a program on the user's computer can
    /// differ, because such a program uses any free port (RFC 8252 7.3).
    pub fn is(&self, registered: &Uri) -> bool {
        let alike = self.is_loopback() && registered.is_loopback();
        self.text == registered.text
            || (alike && self.host == registered.host && self.rest == registered.rest)
    }

    /// The URI with these parameters, at least one, added to its query.
    pub fn with(&self, parameters: &[(&str, &str)]) -> String {
        let mark = if self.rest.contains('?') { '&' } else { '?' };
        format!("{}{mark}{}", self.text, query(parameters))
    }
}

/// A query of `name=value` pairs.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in parameters {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        push_encoded(&mut text, value);
    }
    text
}

/// Appends a value. All characters except the unreserved ones become percent escapes (RFC 3986 2.3).
fn push_encoded(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let digit = |four: u8| char::from(b"0123456789ABCDEF"[usize::from(four)]);
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_kinds_are_read() {
        for (text, host, port, rest) in [
            ("https://a.example/cb?x=1", "a.example", 443, "/cb?x=1"),
            ("https://xn--bcher-kva.example:8443/", "xn--bcher-kva.example", 8443, "/"),
            ("https://localhost:9/c", "localhost", 9, "/c"),
            ("https://0x7f000001.a.example/c", "0x7f000001.a.example", 443, "/c"),
            ("https://a.0xg/c", "a.0xg", 443, "/c"),
            ("http://localhost", "localhost", 80, ""),
            ("http://127.0.0.1:3000/callback", "127.0.0.1", 3000, "/callback"),
            ("http://[::1]:1/x", "[::1]", 1, "/x"),
        ] {
            let uri = Uri::parse(text).unwrap();
            assert_eq!((uri.host(), uri.port(), uri.target(), uri.as_str()), (host, port, rest, text));
        }
    }

    #[test]
    fn all_others_are_refused() {
        for text in [
            "",
            "https://",
            "https:///x",
            "HTTPS://a.example/",
            "https://A.example/",
            "http://a.example/cb",
            "http://localhost.a.example/cb",
            "http://127.0.0.2/cb",
            "http://127.0.0.1.a.example/",
            "https://a.example@b.example/",
            "https://user:pw@a.example/",
            "http://localhost@b.example/",
            "https://a.example/#f",
            "https://a.example\\@b.example/",
            "https://a.example/ x",
            "https://a.example/\r\nx",
            "https://a..example/",
            "https://-a.example/",
            "https://192.0.2.1/cb",
            "https://0x7f000001/cb",
            "https://127.0.0.0x1/cb",
            "https://0x7f.1/cb",
            "https://2130706433/cb",
            "https://0x/cb",
            "https://127.1/cb",
            "https://0177.0.0.1/cb",
            "https://1.2.3.4.5/cb",
            "https://a.example./cb",
            "https://a.example%2e/cb",
            "https://a.exam\tple/cb",
            "https:\\\\a.example/cb",
            "https:/a.example/cb",
            "http://[::1%25eth0]/cb",
            "http://[0:0:0:0:0:0:0:1]/cb",
            "http://127.1/cb",
            "http://localhost./cb",
            "https://[2001:db8::1]/cb",
            "https://a.example:/cb",
            "https://a.example:0/cb",
            "https://a.example:080/cb",
            "https://a.example:65536/cb",
            "https://a.example:+1/cb",
            "https://bücher.example/",
            "javascript:alert(1)",
            "cursor://anysphere/cb",
            "data:text/html,x",
            "//a.example/cb",
            "http://[::1]x/cb",
        ] {
            assert_eq!(Uri::parse(text), None, "{text}");
        }
        assert_eq!(Uri::parse(&format!("https://a.example/{}", "x".repeat(URI_BYTES_MAX))), None);
    }

    #[test]
    fn a_port_may_vary_on_this_computer_alone() {
        let check = |registered: &str, asked: &str, same: bool| {
            let (registered, asked) = (Uri::parse(registered).unwrap(), Uri::parse(asked).unwrap());
            assert_eq!(asked.is(&registered), same, "{registered:?} {asked:?}");
        };
        check("https://a.example/cb", "https://a.example/cb", true);
        check("https://a.example/cb", "https://a.example/cb/", false);
        check("https://a.example/cb", "https://a.example/cb?x", false);
        check("https://a.example/cb", "https://a.example:8443/cb", false);
        check("https://a.example/cb", "https://b.example/cb", false);
        check("http://127.0.0.1/cb", "http://127.0.0.1:51000/cb", true);
        check("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true);
        check("http://127.0.0.1:1/cb", "http://127.0.0.1:2/other", false);
        check("http://127.0.0.1:1/cb", "http://localhost:1/cb", false);
        check("https://localhost:1/cb", "https://localhost:2/cb", false);
    }

    #[test]
    fn parameters_are_added_and_encoded() {
        let with = |uri: &str| Uri::parse(uri).unwrap().with(&[("a", "x y&=#é"), ("b", "\"%")]);
        assert_eq!(with("https://a.example/cb"), "https://a.example/cb?a=x%20y%26%3D%23%C3%A9&b=%22%25");
        assert_eq!(with("http://localhost/?k=v"), "http://localhost/?k=v&a=x%20y%26%3D%23%C3%A9&b=%22%25");
        assert_eq!(query(&[("a", "\0\x7f"), ("b", "")]), "a=%00%7F&b=");
    }

    #[test]
    fn documents_have_a_path() {
        for (text, names) in [
            ("https://a.example/client.json", true),
            ("https://a.example:8443/x/y", true),
            ("https://a.example/", false),
            ("https://a.example", false),
            ("https://a.example/x?y", false),
            ("https://a.example/x/../y", false),
            ("https://a.example/./y", false),
            ("http://localhost/client.json", false),
        ] {
            assert_eq!(Uri::parse(text).unwrap().names_a_document(), names, "{text}");
        }
    }
}
