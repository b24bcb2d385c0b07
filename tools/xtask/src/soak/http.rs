//! A small client of HTTP/1.1 for checks and batches: one request, one connection, one complete answer.
//!
//! A body that is shorter than its Content-Length is no answer, since the crash campaign counts answers.

use crate::interop::process::interrupted;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longer than any time that the server allows itself for a check.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How often a wait checks for a signal that ends the run.
const LOOK: Duration = Duration::from_millis(500);

/// A complete answer of the API.
#[derive(Debug)]
pub struct ApiAnswer {
    /// The status code.
    pub status: u16,
    /// The answer is a copy of an earlier one, for the same Idempotency-Key.
    pub replayed: bool,
    /// The answer has a `Retry-After` header.
    pub retry_after: bool,
    /// The body.
    pub body: Value,
}

impl ApiAnswer {
    /// A text field of the body; empty if it is missing.
    pub fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Sends `POST /v1/verify` for an address.
///
/// # Errors
///
/// There is no complete answer. This is the only error of all functions here.
pub fn verify(server: SocketAddr, key: &str, address: &str) -> Result<ApiAnswer, String> {
    raw(server, key, &serde_json::json!({ "email": address }).to_string())
}

/// Sends `POST /v1/verify/batch`, with the Idempotency-Key `once` unless that is empty.
pub fn submit(server: SocketAddr, key: &str, once: &str, addresses: &[String]) -> Result<ApiAnswer, String> {
    let field = if once.is_empty() { String::new() } else { format!("Idempotency-Key: {once}\r\n") };
    post(server, key, "/v1/verify/batch", &field, &serde_json::json!({ "emails": addresses }).to_string())
}

/// Asks for the state of a batch by `GET /v1/verify/batch/{id}`.
pub fn poll(server: SocketAddr, key: &str, id: &str) -> Result<ApiAnswer, String> {
    get(server, key, &format!("/v1/verify/batch/{id}"))
}

/// Sends `GET` of any path, with a key.
pub fn get(server: SocketAddr, key: &str, path: &str) -> Result<ApiAnswer, String> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {key}\r\n");
    send(server, &format!("{head}Connection: close\r\n\r\n"))
}

/// Sends a request with any method, path and JSON body.
pub fn call(
    server: SocketAddr,
    key: &str,
    (method, path): (&str, &str),
    body: &str,
) -> Result<ApiAnswer, String> {
    send(server, &with_body(server, key, (method, path), "", body))
}

/// Sends `POST /v1/verify` with any body.
pub fn raw(server: SocketAddr, key: &str, body: &str) -> Result<ApiAnswer, String> {
    post(server, key, "/v1/verify", "", body)
}

/// Sends any request with a key, further header lines and a body.
pub fn request(
    server: SocketAddr,
    key: &str,
    (method, path): (&str, &str),
    fields: &str,
    body: &[u8],
) -> Result<ApiAnswer, String> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {key}\r\n{fields}\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = exchange(server, &[head.as_bytes(), body].concat()).map_err(|error| error.to_string())?;
    parse(&answer).ok_or_else(|| format!("no whole answer in {} bytes", answer.len()))
}

/// Reads a body of unknown length to its end.
///
/// # Errors
///
/// The status is not 200, or the body broke off.
pub fn download(server: SocketAddr, key: &str, path: &str) -> Result<Vec<u8>, String> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {key}\r\n");
    let mut stream = TcpStream::connect_timeout(&server, CONNECT_LIMIT).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    let read = stream
        .write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())
        .and_then(|()| stream.read_to_end(&mut all));
    read.map_err(|error| error.to_string())?;
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")?;
    if !all.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&all[..end]).into_owned());
    }
    joined(&all[end + 4..]).ok_or_else(|| "the body broke off".to_owned())
}

/// The content of a body in chunks; `None` if its end is missing.
fn joined(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

/// Sends `GET` of a path that needs no key.
pub fn open(server: SocketAddr, path: &str) -> Result<ApiAnswer, String> {
    send(server, &format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"))
}

fn post(server: SocketAddr, key: &str, path: &str, fields: &str, body: &str) -> Result<ApiAnswer, String> {
    send(server, &with_body(server, key, ("POST", path), fields, body))
}

fn with_body(
    server: SocketAddr,
    key: &str,
    (method, path): (&str, &str),
    fields: &str,
    body: &str,
) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {key}\r\n{fields}\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn send(server: SocketAddr, request: &str) -> Result<ApiAnswer, String> {
    let answer = exchange(server, request.as_bytes()).map_err(|error| error.to_string())?;
    parse(&answer).ok_or_else(|| format!("no whole answer in {} bytes", answer.len()))
}

fn exchange(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, CONNECT_LIMIT)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_nodelay(true)?;
    stream.write_all(request)?;
    read_to_end(&mut stream)
}

/// Reads until the server closes, the limit is reached or a signal ends the run.
fn read_to_end(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (end, mut answer, mut piece) = (Instant::now() + ANSWER_LIMIT, Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(length) if answer.len() + length <= ANSWER_BYTES_MAX => {
                answer.extend_from_slice(&piece[..length])
            }
            Ok(_) => return Err(io::Error::other("an answer without end")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                interrupted().map_err(|failure| io::Error::other(failure.0))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn parse(bytes: &[u8]) -> Option<ApiAnswer> {
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let body = &bytes[head_end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let field = |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let retry_after = field("retry-after").is_some();
    if status == 204 {
        return body.is_empty().then_some(ApiAnswer {
            status,
            replayed: false,
            retry_after,
            body: Value::Null,
        });
    }
    let length: usize = field("content-length")?.1.trim().parse().ok()?;
    let replayed = field("idempotent-replayed").is_some_and(|(_, value)| value.trim() == "true");
    if body.len() != length {
        return None;
    }
    Some(ApiAnswer { status, replayed, retry_after, body: serde_json::from_slice(body).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_body_with_its_end_is_whole() {
        let whole = b"3\r\na\nb\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
        assert_eq!(joined(whole).as_deref(), Some(&b"a\nb0123456789abcdef"[..]));
        for end in 0..whole.len() - 4 {
            assert_eq!(joined(&whole[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn only_a_whole_answer_is_one() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"reason\":\"\"}";
        let answer = parse(whole).unwrap();
        assert_eq!((answer.status, answer.text("reason"), answer.text("email")), (200, "", ""));
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_none(), "{end} bytes");
        }
    }
}
