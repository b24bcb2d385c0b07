//! A connection with limits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connects to the first of these addresses that accepts, each within `each_max`.
///
/// # Errors
///
/// [`io::ErrorKind::AddrNotAvailable`] if there is no address, otherwise the error of the last one.
pub fn connect(addresses: &[SocketAddr], deadline: Instant, each_max: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, left(deadline)?.min(each_max)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time until a deadline.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if it is over.
pub fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    left.ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// A connection with a deadline for all reads and writes, and a limit of bytes. TLS repeats reads until a record is
/// complete, so the deadline must apply below TLS.
pub struct Bounded {
    stream: TcpStream,
    deadline: Instant,
    bytes_left: usize,
}

impl Bounded {
    /// Limits a connection. At most `bytes_max` bytes are read from it.
    pub fn new(stream: TcpStream, deadline: Instant, bytes_max: usize) -> Bounded {
        Bounded { stream, deadline, bytes_left: bytes_max }
    }

    /// Moves the deadline to the end of this time, if it is later.
    pub fn end_within(&mut self, time_max: Duration) {
        self.deadline = self.deadline.min(Instant::now() + time_max);
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes_left == 0 {
            return Err(io::Error::other("its host sends too much"));
        }
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        let most = buffer.len().min(self.bytes_left);
        let length = self.stream.read(&mut buffer[..most])?;
        self.bytes_left -= length;
        Ok(length)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_earlier_end_holds() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let _host = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("a connection");
        let (stream, _) = listener.accept().expect("a connection");
        let began = Instant::now();
        let mut bounded = Bounded::new(stream, began + Duration::from_secs(20), 4);
        bounded.end_within(Duration::from_millis(50));
        bounded.end_within(Duration::from_secs(30));
        assert!(bounded.read(&mut [0; 3]).is_err());
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn no_more_than_so_much_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut host = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("a connection");
        let (stream, _) = listener.accept().expect("a connection");
        host.write_all(b"abcdef").expect("it is read");
        let mut bounded = Bounded::new(stream, Instant::now() + Duration::from_secs(5), 4);
        let mut piece = [0; 3];
        let mut read = || bounded.read(&mut piece);
        assert!(matches!((read(), read(), read()), (Ok(3), Ok(1), Err(_))));
    }
}
