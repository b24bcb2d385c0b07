//! A client of HTTP/1.1 that keeps its connection and asks one thing after the other: no more than a load test needs,
//! and none of the server's own code.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longest that an answer may take: a full check waits for strangers' mail servers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// One connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    /// Connects to `host:port`.
    pub fn open(host: &str) -> io::Result<Connection> {
        let address =
            host.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("the host has no address"))?;
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream: BufReader::new(stream), host: host.to_owned() })
    }

    /// Posts a JSON body and reads the answer; its status code.
    pub fn post(&mut self, path: &str, key: &str, body: &str) -> io::Result<u16> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| io::Error::other("an answer without a status"))?;
        let mut length = 0;
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
                Some(_) => {}
            }
        }
        if length > ANSWER_BYTES_MAX {
            return Err(io::Error::other("an answer that is too long"));
        }
        io::copy(&mut self.stream.by_ref().take(length), &mut io::sink())?;
        Ok(code)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.by_ref().take(16 * 1024).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
