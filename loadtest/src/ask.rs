//! Single blocking requests: those before a run, and the page of metrics each second.

use crate::http;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit of a single request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer in bytes.
const BYTES_MAX: u64 = 2 << 20;

/// Sends a request and returns the status and the body.
///
/// # Errors
///
/// The error of the socket, or an answer that is not HTTP.
pub fn ask(server: SocketAddr, request: &str) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let (mut input, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(answer) = http::answer(&input).map_err(io::Error::other)? {
            input.truncate(answer.end);
            return Ok((answer.status, input.split_off(answer.body)));
        }
        let count = stream.read(&mut piece)?;
        if count == 0 || input.len() as u64 > BYTES_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        input.extend_from_slice(&piece[..count]);
    }
}
