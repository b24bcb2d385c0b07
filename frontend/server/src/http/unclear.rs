//! Requests that a proxy in front of the server may read differently (request smuggling, RFC 9112 11.2). If the two
//! disagree about the end of a request, one of them reads a part of it as a second request.
//!
//! hyper refuses most of them. The others are refused here, and the connection is closed, so that nothing after such a
//! request is read.

use api::ErrorCode;
use http_core::Refusal;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Version};

/// The refusal of an ambiguous request; `None` for all others.
pub fn refuse(method: &Method, version: Version, headers: &HeaderMap) -> Option<Refusal> {
    let why = if !is_coding_known(headers) {
        "`Transfer-Encoding` can only be `chunked`."
    } else if !is_host_clear(version, headers) {
        "Send one `Host`, with a name or an address and perhaps a port."
    } else if method == Method::CONNECT {
        "There are no tunnels here."
    } else {
        return None;
    };
    Some(Refusal::new(ErrorCode::InvalidRequest, why).header("connection", "close"))
}

/// RFC 9112 6.1: a server must not guess the length of a body with an unknown coding.
fn is_coding_known(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

/// RFC 9112 3.2: there must be exactly one field `Host`, and its value must be a host.
fn is_host_clear(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => is_host(host.as_bytes()),
        (None, _) => version < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

fn is_host(value: &[u8]) -> bool {
    // Nearly all hosts are plain names. Parsing them costs 360 instructions, 0.7 % of a fast check.
    let colon = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
    let (name, port) = value.split_at(colon);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if colon > 0 && name.iter().all(is_plain) && port.iter().skip(1).all(u8::is_ascii_digit) {
        return true;
    }
    let Ok(authority) = Authority::try_from(value) else { return value.is_empty() };
    let port = authority.as_str().strip_prefix(authority.host());
    port.is_some_and(|rest| match rest.strip_prefix(':') {
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()),
        None => rest.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn is_refused(method: Method, version: Version, fields: &[(HeaderName, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        refuse(&method, version, &headers).is_some()
    }

    #[test]
    fn one_host_that_is_one() {
        let check = |hosts: &[&str], refused: bool| {
            let fields: Vec<_> = hosts.iter().map(|host| (header::HOST, *host)).collect();
            assert_eq!(is_refused(Method::GET, Version::HTTP_11, &fields), refused, "{hosts:?}");
        };
        for host in ["t", "t.example:8080", "192.0.2.1:80", "[2001:db8::1]", "[2001:db8::1]:443", "t:", ""] {
            check(&[host], false);
        }
        for host in ["t/u", "t u", "u@t", "t, u", "t:port", "t:80:80", "t?u", "[2001:db8::1"] {
            check(&[host], true);
        }
        check(&[], true);
        check(&["t", "t"], true);
        assert!(!is_refused(Method::GET, Version::HTTP_10, &[]));
        assert!(is_refused(Method::CONNECT, Version::HTTP_11, &[(header::HOST, "t:80")]));
    }

    #[test]
    fn one_coding_that_is_chunked() {
        let check = |codings: &[&str], refused: bool| {
            let mut fields = vec![(header::HOST, "t")];
            fields.extend(codings.iter().map(|coding| (header::TRANSFER_ENCODING, *coding)));
            assert_eq!(is_refused(Method::POST, Version::HTTP_11, &fields), refused, "{codings:?}");
        };
        check(&[], false);
        check(&["chunked"], false);
        check(&["Chunked "], false);
        for coding in ["identity, chunked", "gzip, chunked", ", chunked", "chunked, chunked", ""] {
            check(&[coding], true);
        }
        check(&["chunked", "chunked"], true);
        check(&["identity", "chunked"], true);
    }
}
