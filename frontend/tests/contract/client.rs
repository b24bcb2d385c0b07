//! A caller's HTTP: one request with one answer, or a connection for many.

pub use crate::http::answer::Answer;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than the slowest check.
const PATIENCE: Duration = Duration::from_secs(70);

/// A request.
#[derive(Clone)]
pub struct Call {
    pub method: String,
    pub path: String,
    headers: String,
    body: Option<Vec<u8>>,
}

pub fn get(path: impl Into<String>) -> Call {
    Call::new("GET", path)
}

pub fn post(path: impl Into<String>, body: &Value) -> Call {
    Call::new("POST", path).header("Content-Type", "application/json").bytes(body.to_string())
}

impl Call {
    pub fn new(method: &str, path: impl Into<String>) -> Call {
        Call { method: method.to_owned(), path: path.into(), headers: String::new(), body: None }
    }

    pub fn key(self, key: &str) -> Call {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Call {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// A raw body with any type.
    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Call {
        self.body = Some(body.into());
        self
    }

    fn encode(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: contract\r\n{}", self.method, self.path, self.headers);
        let body = self.body.as_deref().unwrap_or_default();
        if self.body.is_some() || self.method == "POST" {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

/// Percent-encodes all characters that are special in a query.
pub fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// One connection for successive requests.
pub struct Connection {
    stream: TcpStream,
    /// Bytes that were read and not yet used.
    rest: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection { stream, rest: Vec::new() }
    }

    pub fn call(&mut self, call: &Call) -> Answer {
        self.send(call);
        self.read()
    }

    pub fn send(&mut self, call: &Call) {
        self.stream.write_all(&call.encode()).unwrap();
    }

    pub fn read(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill();
        };
        let head = String::from_utf8(self.rest.drain(..end).collect()).unwrap();
        let mut answer =
            Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: String::new() };
        let length =
            answer.header("content-length").expect("every answer says how long it is").parse().unwrap();
        while self.rest.len() < length {
            self.fill();
        }
        answer.body = String::from_utf8(self.rest.drain(..length).collect()).unwrap();
        answer
    }

    fn fill(&mut self) {
        let mut piece = [0; 16 * 1024];
        let length = self.stream.read(&mut piece).unwrap_or_else(|error| panic!("no answer: {error}"));
        assert!(length > 0, "the server closed the connection");
        self.rest.extend_from_slice(&piece[..length]);
    }
}

impl Answer {
    /// The body of an answer 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The status and the code of a refusal, after a check of its body.
    #[track_caller]
    pub fn refusal(&self) -> (u16, String) {
        assert!(self.status >= 400, "no refusal: {self:?}");
        crate::contract::shapes::error(&self.json());
        (self.status, self.json()["error"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!(self.refusal(), (status, code.to_owned()), "{self:?}");
    }

    /// A header that must be a whole number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}"))
    }
}
