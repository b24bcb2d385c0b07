//! A small HTTP client that can send invalid requests.

pub use crate::http::answer::Answer;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
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

    /// The next answer; `None` after the server has closed.
    pub fn try_read(&mut self) -> Option<Answer> {
        self.read_answer(false)
    }

    pub fn read(&mut self) -> Answer {
        self.try_read().expect("the server closed the connection")
    }

    /// The next answer to a HEAD request.
    pub fn read_head(&mut self) -> Answer {
        self.read_answer(true).expect("the server closed the connection")
    }

    fn read_answer(&mut self, head_only: bool) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill()?;
        };
        let head = String::from_utf8(self.rest.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        if !head_only {
            while self.rest.len() < length {
                self.fill().expect("the body breaks off");
            }
            // A compressed body is no text.
            let body: Vec<u8> = self.rest.drain(..length).collect();
            answer.body = String::from_utf8_lossy(&body).into_owned();
        }
        Some(answer)
    }

    fn fill(&mut self) -> Option<()> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                self.rest.extend_from_slice(&piece[..length]);
                Some(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

impl Answer {
    /// The error code of an envelope, which has to be one.
    pub fn error(&self) -> String {
        let body = self.json();
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        body["error"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}
