//! Sending bytes on a new connection and reading all answers to them.

use super::super::client::read_reply;
use super::super::transport::ServerEndpoint;
use crate::interop::process::interrupted;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Longer than the time after which the server gives up an incomplete request.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a wait checks whether it is over.
const LOOK: Duration = Duration::from_millis(100);

/// The answers of the server on one connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// The statuses of the answers in their order, without interim ones (1xx).
    pub statuses: Vec<u16>,
    /// Bytes after the last complete answer.
    pub rest: Vec<u8>,
    /// The server has closed.
    pub closed: bool,
}

/// Sends `bytes` and reads until the server closes, or sends nothing for `quiet` after an answer.
///
/// # Errors
///
/// The connection fails, or neither an answer nor an end comes in time.
pub fn of(server: &ServerEndpoint, bytes: &[u8], quiet: Duration) -> io::Result<AnswerCounts> {
    let mut stream = server.connect(LIMIT)?;
    stream.tcp().set_read_timeout(Some(LOOK))?;
    stream.tcp().set_write_timeout(Some(LIMIT))?;
    // The server may close before it has read everything. Its answers may still be readable.
    let closed = |error: &io::Error| {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    };
    match stream.write_all(bytes) {
        Err(error) if !closed(&error) => return Err(error),
        _ => {}
    }
    let (end, mut came, mut last, mut piece) =
        (Instant::now() + LIMIT, Vec::new(), Instant::now(), [0; 16 * 1024]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(AnswerCounts { closed: true, ..split(&came) }),
            Ok(length) => {
                came.extend_from_slice(&piece[..length]);
                last = Instant::now();
            }
            Err(error) if closed(&error) => return Ok(AnswerCounts { closed: true, ..split(&came) }),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                interrupted().map_err(|failure| io::Error::other(failure.0))?;
                let so_far = split(&came);
                if !so_far.statuses.is_empty() && last.elapsed() > quiet {
                    return Ok(so_far);
                }
                if Instant::now() > end {
                    return Err(io::Error::other(format!("neither an end nor an answer: {so_far:?}")));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Splits bytes into the complete answers.
pub fn split(mut bytes: &[u8]) -> AnswerCounts {
    let mut answers = AnswerCounts::default();
    let mut rest = bytes;
    while let Ok(reply) = read_reply(&mut rest) {
        if reply.status >= 200 {
            answers.statuses.push(reply.status);
        }
        bytes = rest;
    }
    answers.rest = bytes.to_vec();
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_counted() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        let bad = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        let again = "HTTP/1.1 100 Continue\r\n\r\n";
        let check = |text: String, statuses: &[u16], rest: &str| {
            let answers = split(text.as_bytes());
            assert_eq!((answers.statuses.as_slice(), answers.rest.as_slice()), (statuses, rest.as_bytes()));
        };
        check(String::new(), &[], "");
        check(format!("{ok}{bad}"), &[200, 400], "");
        check(format!("{again}{chunked}{ok}"), &[200, 200], "");
        check(format!("{ok}HTTP/1.1 2"), &[200], "HTTP/1.1 2");
        check(ok[..ok.len() - 1].to_owned(), &[], &ok[..ok.len() - 1]);
    }
}
