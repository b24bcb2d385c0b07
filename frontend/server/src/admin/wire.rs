//! The protocol of the admin socket: lines of one JSON object each, ended by a line feed. The length and the time of
//! every line are limited.

use super::{Command, Response};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The version of the protocol. A server answers only its own version.
pub(super) const VERSION: u32 = 1;

/// The longest request: names, labels and notes are limited, and JSON escapes them to at most six times their length.
pub(super) const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// The longest answer: a page of accounts, or the keys of one account (several thousand).
pub(super) const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub version: u32,
    pub command: Command,
}

/// The part of a request that is read for any version.
#[derive(Debug, Deserialize)]
pub(super) struct AnyVersion {
    pub version: u32,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub version: u32,
    pub outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Done(Response),
    /// An error as one line of text.
    Failed(String),
}

/// One end of a connection, with a time limit for each line in both directions.
pub(super) struct Lines {
    stream: UnixStream,
    /// The bytes after the last line.
    rest: Vec<u8>,
    bytes_max: usize,
    patience: Duration,
}

impl Lines {
    /// Reads lines of at most `bytes_max` bytes. Each line, in or out, may take `patience`.
    pub fn new(stream: UnixStream, bytes_max: usize, patience: Duration) -> Lines {
        Lines { stream, rest: Vec::new(), bytes_max, patience }
    }

    /// The next line without its end; `None` after the peer has closed.
    ///
    /// # Errors
    ///
    /// The line is too long, is too late, or the connection fails.
    pub fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + self.patience;
        let mut scanned = 0;
        loop {
            if let Some(end) = self.rest[scanned..].iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=scanned + end).collect();
                line.pop();
                return Ok(Some(line));
            }
            scanned = self.rest.len();
            if scanned > self.bytes_max {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
            }
            let mut piece = [0; 8192];
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            match self.stream.read(&mut piece) {
                Ok(0) if self.rest.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.rest.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The connection, and the bytes that were already read from it.
    pub fn into_parts(self) -> (UnixStream, Vec<u8>) {
        (self.stream, self.rest)
    }

    /// Sends a value as one line.
    ///
    /// # Errors
    ///
    /// The peer does not take the line in time, or the connection fails.
    pub fn write(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let deadline = Instant::now() + self.patience;
        let mut unsent = line.as_slice();
        while !unsent.is_empty() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            match self.stream.write(unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => unsent = &unsent[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
