//! `--metrics ADDR`: the page over HTTP, on a separate listener and thread.
//!
//! It answers `GET /metrics`, one connection at a time, and closes. A scraper sends a short head at once; a slower
//! client is cut off. It needs no key, so its address should be loopback or a private network.

use super::Metrics;
use super::text::CONTENT_TYPE;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit for the head, and for the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest head in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The listener, which ends on drop.
pub struct Endpoint {
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
    /// The address, with the assigned port if 0 was requested.
    pub address: SocketAddr,
}

impl Endpoint {
    /// Binds the address, so that a used port is reported before the server starts.
    ///
    /// # Errors
    ///
    /// One line that names the cause and a remedy.
    pub fn bind(address: SocketAddr) -> Result<Endpoint, String> {
        let bound = TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound
            .map_err(|error| format!("cannot listen on {address} ({error}); choose another --metrics"))?;
        Ok(Endpoint { listener: Arc::new(listener), thread: None, address })
    }

    /// Starts the thread that answers.
    ///
    /// # Errors
    ///
    /// The operating system has no thread for it.
    pub fn start(&mut self, metrics: Arc<Metrics>) -> io::Result<()> {
        let listener = Arc::clone(&self.listener);
        let serve = move || serve(&listener, &metrics);
        self.thread = Some(std::thread::Builder::new().name("metrics".into()).spawn(serve)?);
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let woken = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            // The thread ends after its current connection.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, metrics: &Metrics) {
    loop {
        match listener.accept() {
            // A scraper may end its connection in any way.
            Ok((stream, _)) => drop(converse(stream, metrics)),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn converse(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let (status, body) = match std::str::from_utf8(line).unwrap_or_default().split(' ').collect::<Vec<_>>()[..]
    {
        ["GET", "/metrics", _] => ("200 OK", metrics.render()),
        [_, "/metrics", _] => ("405 Method Not Allowed", String::new()),
        [_, _, _] => ("404 Not Found", "metrics are at /metrics\n".into()),
        _ => ("400 Bad Request", String::new()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 2048];
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    Ok(head)
}
