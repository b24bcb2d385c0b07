//! A connection to the server that stays open and never blocks: at most one request is under way on it.

use crate::http::{self, Answer};
use crate::mix::Endpoint;
use crate::peer::{Channel, Peer};
use crate::stats::Failure;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// How many bytes are read at once.
const READ_BYTES: usize = 16 * 1024;

/// More bytes than the longest answer has.
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// The endpoint of the request.
    pub endpoint: Endpoint,
    /// The time at which it was due.
    pub due: Instant,
    /// The time at which it was sent by this side.
    pub sent: Instant,
}

/// A connection that opens with its first request.
#[derive(Debug, Default)]
pub struct Connection {
    stream: Option<Channel>,
    /// The part of the request that is not yet written.
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// Whether the server has closed its side.
    ended: bool,
    /// The request that waits for its answer.
    pub job: Option<Job>,
}

/// The result of an event.
pub enum ReadStep {
    /// There is no answer yet.
    Waiting,
    /// The job has an answer; its bytes are [`Connection::body`] until [`Connection::done`].
    Answered(Answer),
    /// The job has no answer; without a job, the server has closed.
    Failed(Failure),
}

impl Connection {
    /// Starts a request. Returns the stream if it is new and must be watched.
    ///
    /// # Errors
    ///
    /// The attempt to connect cannot be started.
    pub fn ask(&mut self, server: &Peer, request: &str, job: Job) -> io::Result<Option<&Channel>> {
        self.out.clear();
        self.out.extend_from_slice(request.as_bytes());
        (self.written, self.job) = (0, Some(job));
        if self.stream.is_some() {
            // A failure also shows at the next event.
            let _ = self.write();
            return Ok(None);
        }
        self.input.clear();
        self.ended = false;
        Ok(Some(self.stream.insert(server.channel(connect(server.address)?)?)))
    }

    /// Handles an event of the socket; `ended` states that the server has closed.
    pub fn ready(&mut self, ended: bool, scratch: &mut [u8; READ_BYTES]) -> ReadStep {
        if self.stream.is_none() {
            return ReadStep::Waiting;
        }
        self.ended |= ended;
        // With TLS, a read may end the handshake, and only then the request can be written.
        match self.write().and_then(|()| self.read(scratch)).and_then(|()| self.write()) {
            Ok(()) => {}
            Err(_) => return ReadStep::Failed(Failure::Connection),
        }
        if self.job.is_none() {
            // Bytes without a request.
            return if self.input.is_empty() {
                ReadStep::Waiting
            } else {
                ReadStep::Failed(Failure::Malformed)
            };
        }
        match http::answer(&self.input) {
            Ok(None) => ReadStep::Waiting,
            Ok(Some(answer)) => ReadStep::Answered(answer),
            Err(_) => ReadStep::Failed(Failure::Malformed),
        }
    }

    /// The body of the last answer.
    pub fn body(&self, answer: &Answer) -> &[u8] {
        &self.input[answer.body..answer.end]
    }

    /// Removes the answer, so that the connection is free again.
    pub fn done(&mut self, answer: &Answer) {
        self.job = None;
        if answer.closes || self.ended || self.input.len() > answer.end {
            self.stream = None;
        }
        self.input.clear();
    }

    /// Closes the connection and drops its job.
    pub fn close(&mut self) {
        *self = Connection::default();
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all available bytes. A server that closes after a complete answer has answered.
    fn read(&mut self, scratch: &mut [u8; READ_BYTES]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        loop {
            match stream.read(scratch) {
                Ok(0) if complete(&self.input) => return Ok(()),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    // A short read has emptied the socket, and later bytes cause another event. The number of bytes is
                    // limited: an answer has an end, and a server that sends more than one is disconnected.
                    let short = count < READ_BYTES && !self.ended && !stream.has_records();
                    if short || self.input.len() > ANSWER_BYTES_MAX {
                        return Ok(());
                    }
                }
                Err(error) if passing(&error) => return Ok(()),
                // An end without close_notify: HTTP marks the end of an answer itself.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && complete(&self.input) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the bytes contain a whole answer.
fn complete(input: &[u8]) -> bool {
    !input.is_empty() && matches!(http::answer(input), Ok(Some(_)))
}

/// A buffer for [`Connection::ready`].
pub fn scratch() -> Box<[u8; READ_BYTES]> {
    Box::new([0; READ_BYTES])
}

/// Whether the error is temporary. A connecting socket reports ENOTCONN.
fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}
