//! Single blocking requests: those before a run, and the page of metrics each second.

use crate::http;
use crate::peer::Peer;
use std::io::{self, Read, Write};

/// The longest answer in bytes.
const BYTES_MAX: u64 = 2 << 20;

/// The answer to a single request.
pub struct Reply {
    pub status: u16,
    /// The head with the line of the status.
    pub head: Vec<u8>,
    pub body: Vec<u8>,
}

/// Sends a request on a connection of its own.
///
/// # Errors
///
/// The error of the socket, or an answer that is not HTTP.
pub fn ask(server: &Peer, request: &str) -> io::Result<Reply> {
    let mut stream = server.connect()?;
    stream.write_all(request.as_bytes())?;
    let (mut input, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(answer) = http::answer(&input).map_err(io::Error::other)? {
            input.truncate(answer.end);
            let body = input.split_off(answer.body);
            return Ok(Reply { status: answer.status, head: input, body });
        }
        let count = stream.read(&mut piece)?;
        if count == 0 || input.len() as u64 > BYTES_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        input.extend_from_slice(&piece[..count]);
    }
}
