//! The HTTP client of all tests: one request with one answer, or a connection for many. It can also send invalid requests.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest wait for bytes of an answer. Longer than the slowest check, and than the pauses of a download that consists mostly
/// of blank lines.
const READ_TIMEOUT: Duration = Duration::from_secs(180);

/// A request.
#[derive(Clone)]
pub struct Call {
    method: String,
    path: String,
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

    pub fn encode(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: t\r\n{}", self.method, self.path, self.headers);
        let body = self.body.as_deref().unwrap_or_default();
        if self.body.is_some() || self.method == "POST" {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

/// Percent-encodes all characters that are special in a query or a form.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// One connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// Bytes that were read and not yet used.
    rest: Vec<u8>,
}

/// The stream below a connection.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        Connection::over_tcp(TcpStream::connect(address).unwrap())
    }

    pub fn over_tcp(stream: TcpStream) -> Connection {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        Connection::over(stream)
    }

    /// A connection on this stream.
    pub fn over(stream: impl Stream + 'static) -> Connection {
        Connection { stream: Box::new(stream), rest: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Whether all bytes could be sent.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a request and reads its answer, which must state its length.
    #[track_caller]
    pub fn call(&mut self, call: &Call) -> Answer {
        self.send(call.encode());
        let answer = self.read();
        assert!(answer.header("content-length").is_some(), "{answer:?}");
        answer
    }

    #[track_caller]
    pub fn read(&mut self) -> Answer {
        self.try_read().expect("the server closed the connection")
    }

    /// The next answer; `None` after the server has closed.
    pub fn try_read(&mut self) -> Option<Answer> {
        let head = self.read_head_text()?;
        let bytes = self.read_body(&head);
        Some(Answer::new(head, bytes))
    }

    /// The next answer to a HEAD request, or the head of an answer whose body is not read.
    #[track_caller]
    pub fn read_head(&mut self) -> Answer {
        let head = self.read_head_text().expect("the server closed the connection");
        Answer::new(head, Vec::new())
    }

    fn read_head_text(&mut self) -> Option<String> {
        let end = self.fill_until(b"\r\n\r\n")?;
        Some(String::from_utf8(self.rest.drain(..end).collect()).unwrap())
    }

    /// The body after a head that states its length, or says that it comes in chunks.
    fn read_body(&mut self, head: &str) -> Vec<u8> {
        if values(head, "transfer-encoding").next() != Some("chunked") {
            let length = values(head, "content-length").next().map_or(0, |text| text.parse().unwrap());
            return self.take(length);
        }
        let mut body = Vec::new();
        loop {
            let end = self.fill_until(b"\r\n").expect("the body breaks off");
            let line = self.take(end);
            let size = str::from_utf8(&line).unwrap().trim_end();
            let size = usize::from_str_radix(size, 16).unwrap();
            let chunk = self.take(size + 2);
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads until these bytes have come, and returns the position after them; `None` after the server has closed.
    fn fill_until(&mut self, end: &[u8]) -> Option<usize> {
        loop {
            if let Some(at) = self.rest.windows(end.len()).position(|bytes| bytes == end) {
                return Some(at + end.len());
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.rest.len() < length {
            self.fill().expect("the body breaks off");
        }
        self.rest.drain(..length).collect()
    }

    fn fill(&mut self) -> Option<()> {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                self.rest.extend_from_slice(&piece[..length]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

/// One answer.
pub struct Answer {
    pub status: u16,
    /// The line of the status and the headers.
    pub head: String,
    pub bytes: Vec<u8>,
    /// The body as a text. In a body that is no text, other characters replace the bytes that are none.
    pub body: String,
}

impl Answer {
    fn new(head: String, bytes: Vec<u8>) -> Answer {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status, head, bytes, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        values(&self.head, name).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The error code of an envelope, which has to be one.
    #[track_caller]
    pub fn error(&self) -> String {
        let body = self.json();
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        body["error"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.error().as_str()), (status, code), "{self:?}");
        crate::contract::shapes::error(&self.json());
    }

    /// A header that must be a whole number.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}: {self:?}"))
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.head, self.body)
    }
}

/// The values of a header in the head of an answer.
pub fn values<'h>(head: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    head.lines().skip(1).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
