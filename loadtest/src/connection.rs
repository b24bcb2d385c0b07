//! One connection to the server, kept open and never blocked on: a request at most is under way on it.

use crate::http::{self, Answer};
use crate::mix::Endpoint;
use crate::stats::Failure;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Read at once.
const READ_BYTES: usize = 16 * 1024;

/// More than the longest answer.
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// The request that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// What was asked.
    pub endpoint: Endpoint,
    /// When it was due.
    pub due: Instant,
    /// When it was sent, as far as this side can tell.
    pub sent: Instant,
}

/// A place for a connection; it opens when something is asked.
#[derive(Debug, Default)]
pub struct Connection {
    stream: Option<TcpStream>,
    /// The request, as far as it is not yet written.
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// The server has closed its side.
    ended: bool,
    /// What waits for its answer.
    pub job: Option<Job>,
}

/// What an event led to.
pub enum ReadStep {
    /// Nothing to tell yet.
    Waiting,
    /// An answer to the job; its bytes are [`Connection::body`] until [`Connection::done`].
    Answered(Answer),
    /// The job has none, or, without a job, the server closed.
    Failed(Failure),
}

impl Connection {
    /// Begins a request. Gives the stream if it is new and has to be watched.
    ///
    /// # Errors
    /// When not even the attempt to connect can begin.
    pub fn ask(&mut self, server: SocketAddr, request: &str, job: Job) -> io::Result<Option<&TcpStream>> {
        self.out.clear();
        self.out.extend_from_slice(request.as_bytes());
        (self.written, self.job) = (0, Some(job));
        if self.stream.is_some() {
            // What goes wrong here shows at the next event as well.
            let _ = self.write();
            return Ok(None);
        }
        self.input.clear();
        self.ended = false;
        Ok(Some(self.stream.insert(connect(server)?)))
    }

    /// The socket has something to tell; `ended` when that is the server's end of it.
    pub fn ready(&mut self, ended: bool, scratch: &mut [u8; READ_BYTES]) -> ReadStep {
        if self.stream.is_none() {
            return ReadStep::Waiting;
        }
        self.ended |= ended;
        match self.write().and_then(|()| self.read(scratch)) {
            Ok(()) => {}
            Err(_) => return ReadStep::Failed(Failure::Connection),
        }
        if self.job.is_none() {
            // Bytes that nobody asked for.
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

    /// The body of an answer.
    pub fn body(&self, answer: &Answer) -> &[u8] {
        &self.input[answer.body..answer.end]
    }

    /// The answer has been read; the connection is free.
    pub fn done(&mut self, answer: &Answer) {
        self.job = None;
        if answer.closes || self.ended || self.input.len() > answer.end {
            self.stream = None;
        }
        self.input.clear();
    }

    /// Gives the connection up, and the job with it.
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

    /// Reads all there is. A server that closes behind a whole answer has answered.
    fn read(&mut self, scratch: &mut [u8; READ_BYTES]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        loop {
            match stream.read(scratch) {
                Ok(0) if !self.input.is_empty() && matches!(http::answer(&self.input), Ok(Some(_))) => {
                    return Ok(());
                }
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    // A short read has emptied the socket, and what comes later raises another event. What is read
                    // is bounded: answers have an end, and who sends more than one is cut off.
                    let short = count < READ_BYTES && !self.ended;
                    if short || self.input.len() > ANSWER_BYTES_MAX {
                        return Ok(());
                    }
                }
                Err(error) if passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A buffer for [`Connection::ready`].
pub fn scratch() -> Box<[u8; READ_BYTES]> {
    Box::new([0; READ_BYTES])
}

/// Not yet, or not this time. A socket that still connects says ENOTCONN.
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
