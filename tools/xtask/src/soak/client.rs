//! A client of HTTP/1.1 that acts like a program, or like a browser without script: open connections, cookies, forms.
//!
//! The ledger may contain a charge for a request whose answer was lost, but not for one that was never sent. So the
//! client distinguishes the two.

use super::transport::{ServerEndpoint, Stream};
use crate::interop::process::interrupted;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

/// Longer than any time that the server allows itself for an answer, or for the next part of one.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How often a wait checks for a signal that ends the run.
const LOOK: Duration = Duration::from_millis(500);
/// More than the results of the longest list.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The connection failed: the server has not seen the request.
    NotSent,
    /// The server may have executed the request.
    NoAnswer(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NotSent => f.write_str("no connection"),
            Lost::NoAnswer(why) => write!(f, "no answer: {why}"),
        }
    }
}

/// A complete answer of the server.
#[derive(Debug, Clone)]
pub struct HttpReply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A request, without the headers that every request has.
#[derive(Debug, Default, Clone)]
pub struct HttpRequest {
    method: &'static str,
    path: String,
    /// Complete header lines.
    headers: String,
    body: Vec<u8>,
}

/// A client with at most one connection.
pub struct HttpClient {
    server: ServerEndpoint,
    stream: Option<Stream>,
    /// `None` for a program, which keeps no cookies.
    cookies: Option<BTreeMap<String, String>>,
}

impl HttpRequest {
    /// A `GET` request for a path.
    pub fn get(path: impl Into<String>) -> HttpRequest {
        HttpRequest { method: "GET", path: path.into(), ..HttpRequest::default() }
    }

    /// A request with any method and body.
    pub fn new(method: &'static str, path: impl Into<String>, body: impl Into<Vec<u8>>) -> HttpRequest {
        HttpRequest { method, path: path.into(), headers: String::new(), body: body.into() }
    }

    /// A `POST` request with a JSON body.
    pub fn json(path: impl Into<String>, body: &Value) -> HttpRequest {
        HttpRequest::new("POST", path, body.to_string()).header("Content-Type", "application/json")
    }

    /// A `POST` request with the fields of a form.
    pub fn form(path: impl Into<String>, fields: &[(&str, &str)]) -> HttpRequest {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        HttpRequest::new("POST", path, pairs.join("&"))
            .header("Content-Type", "application/x-www-form-urlencoded")
    }

    /// A `POST` request of a multipart form with a file (RFC 7578).
    pub fn upload(path: &str, fields: &[(&str, &str)], file: (&str, &[u8])) -> HttpRequest {
        let mut body = String::new();
        for (name, value) in fields {
            let _ =
                write!(body, "--soak\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        }
        let (name, content) = file;
        let _ = write!(
            body,
            "--soak\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        let body = [body.as_bytes(), content, b"\r\n--soak--\r\n"].concat();
        HttpRequest::new("POST", path, body).header("Content-Type", "multipart/form-data; boundary=soak")
    }

    /// A `POST` request with a text as its body.
    pub fn content(path: impl Into<String>, body: &[u8]) -> HttpRequest {
        HttpRequest::new("POST", path, body).header("Content-Type", "text/csv")
    }

    /// The path of the request.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Adds a header to the request.
    pub fn header(mut self, name: &str, value: &str) -> HttpRequest {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// Adds a key or a token as a bearer token (RFC 6750 2.1).
    pub fn bearer(self, secret: &str) -> HttpRequest {
        self.header("Authorization", &format!("Bearer {secret}"))
    }
}

impl HttpClient {
    /// A client that acts like a program, without cookies.
    pub fn program(server: impl Into<ServerEndpoint>) -> HttpClient {
        HttpClient { server: server.into(), stream: None, cookies: None }
    }

    /// A client that acts like a browser, with cookies and the headers that browsers send with forms.
    pub fn browser(server: impl Into<ServerEndpoint>) -> HttpClient {
        HttpClient { server: server.into(), stream: None, cookies: Some(BTreeMap::new()) }
    }

    /// Another client with the same cookies and its own connection.
    pub fn beside(&self) -> HttpClient {
        HttpClient { server: self.server.clone(), stream: None, cookies: self.cookies.clone() }
    }

    /// The same at another server, which has the same data.
    pub fn at(&self, server: &ServerEndpoint) -> HttpClient {
        HttpClient { server: server.clone(), ..self.beside() }
    }

    /// Closes the connection, because its server has ended.
    pub fn hang_up(&mut self) {
        self.stream = None;
    }

    /// Sends a request and reads the complete answer. It does not follow redirects.
    ///
    /// # Errors
    ///
    /// There is no answer: [`Lost`] says whether the request was sent.
    pub fn send(&mut self, request: &HttpRequest) -> Result<HttpReply, Lost> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().map_err(|_| Lost::NotSent)?,
        };
        let lost = |error: io::Error| Lost::NoAnswer(error.to_string());
        stream.write_all(&self.encode(request)).map_err(lost)?;
        let (reply, open) = read(&mut stream).map_err(lost)?;
        if open {
            self.stream = Some(stream);
        }
        if let Some(cookies) = &mut self.cookies {
            let of_cookies = reply.headers.iter().filter(|(name, _)| name == "set-cookie");
            of_cookies.for_each(|(_, cookie)| keep(cookies, cookie));
        }
        Ok(reply)
    }

    /// Sends a request that must be answered.
    ///
    /// # Errors
    ///
    /// There is no answer; the text names the path.
    pub fn ask(&mut self, request: &HttpRequest) -> Result<HttpReply, String> {
        self.send(request).map_err(|lost| format!("{}: {lost}", request.path))
    }

    fn connect(&self) -> io::Result<Stream> {
        let stream = self.server.connect(CONNECT_LIMIT)?;
        stream.tcp().set_read_timeout(Some(LOOK))?;
        Ok(stream)
    }

    /// The bytes of the request, for a caller that sends it on its own connection.
    pub fn encode(&self, request: &HttpRequest) -> Vec<u8> {
        let HttpRequest { method, path, headers, body } = request;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}", self.server.address);
        if let Some(cookies) = &self.cookies {
            if *method == "POST" {
                let _ = write!(head, "Origin: {}\r\nSec-Fetch-Site: same-origin\r\n", self.server.origin());
            }
            if !cookies.is_empty() {
                let all: Vec<String> =
                    cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let _ = write!(head, "Cookie: {}\r\n", all.join("; "));
            }
        }
        if *method != "GET" {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

impl HttpReply {
    /// The value of a header; names ignore case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A text field of the JSON body; empty if it is missing.
    pub fn word(&self, field: &str) -> String {
        self.json()[field].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the answer is a copy of an earlier one, for the same Idempotency-Key.
    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Whether the answer states that nothing was charged. The ledger must agree.
    pub fn nothing_was_charged(&self) -> bool {
        self.text().contains("nothing was charged")
    }

    /// The hidden fields of the page's first form with this action; `None` if there is no such form.
    pub fn form(&self, action: &str) -> Option<Vec<(String, String)>> {
        hidden_fields(&self.text(), action)
    }

    /// The value of a hidden field of the page's first form with this action.
    pub fn hidden(&self, action: &str, name: &str) -> Option<String> {
        self.form(action)?.into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// The request of the page's first form with this action: its hidden fields, and more fields. `None` if there is no such form.
    pub fn filled(&self, action: &str, more: &[(&str, &str)]) -> Option<HttpRequest> {
        let hidden = self.form(action)?;
        let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Some(HttpRequest::form(action, &hidden.chain(more.iter().copied()).collect::<Vec<_>>()))
    }
}

impl fmt::Display for HttpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.text())
    }
}

/// The hidden fields of the first form with this action in a part of a page.
pub fn hidden_fields(page: &str, action: &str) -> Option<Vec<(String, String)>> {
    let forms = page.split("<form").skip(1).filter_map(|piece| piece.split("</form>").next());
    let form = forms.into_iter().find(|form| attribute(form, "action").as_deref() == Some(action))?;
    let inputs = form.split("<input").skip(1).filter_map(|input| input.split('>').next());
    let hidden = inputs.filter(|input| attribute(input, "type").as_deref() == Some("hidden"));
    Some(
        hidden
            .filter_map(|input| {
                Some((attribute(input, "name")?, attribute(input, "value").unwrap_or_default()))
            })
            .collect(),
    )
}

/// The unescaped value of an attribute of a tag.
pub fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let value = rest.split('"').next()?;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

/// Percent-encodes a text for a form or a query.
pub fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

fn keep(cookies: &mut BTreeMap<String, String>, header: &str) {
    let Some((name, rest)) = header.split_once('=') else { return };
    if header.contains("Max-Age=0") {
        cookies.remove(name);
    } else {
        cookies.insert(name.to_owned(), rest.split(';').next().unwrap_or_default().to_owned());
    }
}

/// A stream whose reads wait for bytes until the limit or a signal that ends the run.
struct Waiting<'s, S>(&'s mut S);

impl<S: Read> Read for Waiting<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    interrupted().map_err(|failure| io::Error::other(failure.0))?;
                }
                other => return other,
            }
        }
    }
}

/// Reads an answer, and whether the connection can be used again. An answer that breaks off does not count.
fn read(stream: &mut impl Read) -> io::Result<(HttpReply, bool)> {
    let mut input = BufReader::new(Waiting(stream).take(ANSWER_BYTES_MAX));
    let reply = read_reply(&mut input)?;
    if !input.buffer().is_empty() {
        return Err(io::Error::other("bytes after the answer"));
    }
    let open = reply.header("connection") != Some("close");
    Ok((reply, open))
}

/// Reads the next answer. Its end must be there.
pub fn read_reply(input: &mut impl BufRead) -> io::Result<HttpReply> {
    let status = line(input)?;
    let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no status"))?;
    let mut reply = HttpReply { status, headers: Vec::new(), body: Vec::new() };
    loop {
        let field = line(input)?;
        if field.is_empty() {
            break;
        }
        if let Some((name, value)) = field.split_once(':') {
            reply.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    if matches!(status, 100..=199 | 204 | 304) {
        return Ok(reply);
    }
    if let Some(length) = reply.header("content-length") {
        let length = length.parse().map_err(io::Error::other)?;
        reply.body = exactly(input, length)?;
    } else if reply.header("transfer-encoding") == Some("chunked") {
        loop {
            let length = usize::from_str_radix(&line(input)?, 16).map_err(io::Error::other)?;
            reply.body.extend(exactly(input, length)?);
            if exactly(input, 2)? != b"\r\n" {
                return Err(io::Error::other("a chunk of another length"));
            }
            if length == 0 {
                break;
            }
        }
    }
    Ok(reply)
}

/// A line without its end.
fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let whole = line.strip_suffix("\r\n").map(str::to_owned);
    whole.ok_or_else(|| io::Error::other(format!("closed after {line:?}")))
}

fn exactly(input: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match input.take(length as u64).read_to_end(&mut bytes)? {
        read if read == length => Ok(bytes),
        read => Err(io::Error::other(format!("closed after {read} bytes of {length}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        for whole in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ] {
            let (reply, open) = read(&mut whole.as_bytes()).unwrap();
            assert_eq!((reply.status, reply.text().as_str(), open), (200, "ab", true));
            for end in 0..whole.len() {
                assert!(read(&mut &whole.as_bytes()[..end]).is_err(), "{end} bytes of {whole:?}");
            }
            assert!(read(&mut format!("{whole}c").as_bytes()).is_err());
        }
        let closing = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        let (reply, open) = read(&mut &closing[..]).unwrap();
        assert!(!open && reply.json().is_null() && reply.word("reason").is_empty());
    }

    #[test]
    fn hidden_fields_are_of_the_form_that_is_asked_for() {
        let page = "<form action=\"/a\"><input type=\"hidden\" name=\"csrf\" value=\"1\"></form>\
            <form method=\"post\" action=\"/b\"><input type=\"hidden\" name=\"csrf\" value=\"&lt;2\"><input name=\"x\"></form>";
        assert_eq!(hidden_fields(page, "/b").unwrap(), [("csrf".to_owned(), "<2".to_owned())]);
        assert!(hidden_fields(page, "/c").is_none());
    }

    #[test]
    fn cookies_come_and_go() {
        let mut cookies = BTreeMap::new();
        keep(&mut cookies, "a=1; Path=/; Max-Age=9");
        assert_eq!(cookies["a"], "1");
        keep(&mut cookies, "a=; Path=/; Max-Age=0");
        assert!(cookies.is_empty());
    }
}
