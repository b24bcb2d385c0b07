//! One attempt: a POST request to an endpoint, within limits of time, bytes and destinations.
//!
//! Only the status of the answer matters. Redirects are not followed, and proxies are not used.

use crate::url::WebhookUrl;
use outbound::{AccountBytes, Bounded, Destinations, Trust, connect, look_up};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use store::webhooks::{AttemptFault, AttemptResult};

/// The longest time of an attempt, from the look-up of the name to the status.
pub const TIME_MAX: Duration = Duration::from_secs(15);
/// The longest time to connect to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 3;
/// The longest head of an answer, with those of interim answers, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most bytes of a body that are read, so that a short answer ends in order. Its content is thrown away.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// The longest time for these bytes.
const BODY_TIME_MAX: Duration = Duration::from_millis(500);
/// The most bytes that are read from a connection: the answer and the overhead of TLS, which is mostly certificates.
const RAW_BYTES_MAX: usize = 128 * 1024;
const HEADERS_MAX: usize = 100;

/// Finds the addresses of a host for an account, within a time limit.
pub type LookUp = dyn Fn(AccountBytes, &str, u16, Instant) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What attempts need besides their message.
pub struct Poster {
    trust: Trust,
    destinations: Destinations,
    look_up: Box<LookUp>,
    time_max: Duration,
}

/// The reason why an attempt got no status.
#[derive(Debug)]
enum Unsent {
    Failed(AttemptFault),
    /// There was no attempt, because too many others are under way.
    Busy,
}

impl From<AttemptFault> for Unsent {
    fn from(fault: AttemptFault) -> Unsent {
        Unsent::Failed(fault)
    }
}

/// A message that is ready to be sent.
pub struct Outgoing<'m> {
    /// The account of the endpoint, which has a share of the look-ups.
    pub account: AccountBytes,
    /// The header `webhook-id`.
    pub id: String,
    /// The header `webhook-timestamp`, in seconds since 1970.
    pub timestamp: u64,
    /// The header `webhook-signature`.
    pub signature: String,
    /// The body, which is JSON.
    pub body: &'m [u8],
}

impl Poster {
    /// Reads the system's list of certificate authorities.
    ///
    /// # Errors
    ///
    /// TLS is not available.
    pub fn new(destinations: Destinations) -> io::Result<Poster> {
        let trust = Trust::of_system()?;
        Ok(Poster { trust, destinations, look_up: Box::new(look_up), time_max: TIME_MAX })
    }

    /// A poster that finds addresses in this way.
    #[cfg(test)]
    pub fn with_look_up(
        destinations: Destinations,
        look_up: impl Fn(AccountBytes, &str, u16, Instant) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> io::Result<Poster> {
        Ok(Poster { look_up: Box::new(look_up), ..Poster::new(destinations)? })
    }

    /// The addresses that may be contacted.
    pub fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    /// Whether the system knows a certificate authority. Without one, no certificate is valid.
    pub fn has_authorities(&self) -> bool {
        self.trust.usable
    }

    /// Sends a message once. `None` if there was no attempt, because too many look-ups are under way.
    pub fn post(&self, url: &WebhookUrl, outgoing: &Outgoing<'_>) -> Option<AttemptResult> {
        match self.attempt(url, outgoing) {
            Ok(status) => Some(AttemptResult::Status(status)),
            Err(Unsent::Failed(fault)) => Some(AttemptResult::Failed(fault)),
            Err(Unsent::Busy) => None,
        }
    }

    fn attempt(&self, url: &WebhookUrl, outgoing: &Outgoing<'_>) -> Result<u16, Unsent> {
        let deadline = Instant::now() + self.time_max;
        let addresses = self.addresses(outgoing.account, url, deadline)?;
        let stream = connect(&addresses, deadline, CONNECT_TIME_MAX).map_err(|error| fault(&error))?;
        let mut stream = Bounded::new(stream, deadline, RAW_BYTES_MAX);
        let request = request(url, outgoing);
        if !url.is_https() {
            let (status, body_bytes) = converse(&mut stream, &request)?;
            stream.end_within(BODY_TIME_MAX);
            skip_body(&mut stream, body_bytes);
            return Ok(status);
        }
        let name = ServerName::try_from(url.host().to_owned()).map_err(|_| AttemptFault::Tls)?;
        let config = self.trust.config.clone();
        let mut connection = ClientConnection::new(config, name).map_err(|_| AttemptFault::Tls)?;
        while connection.is_handshaking() {
            // `complete_io` may return before the handshake is complete; its errors name the cause.
            connection.complete_io(&mut stream).map_err(|error| handshake_fault(&error))?;
        }
        let mut stream = StreamOwned::new(connection, stream);
        let (status, body_bytes) = converse(&mut stream, &request)?;
        stream.sock.end_within(BODY_TIME_MAX);
        skip_body(&mut stream, body_bytes);
        Ok(status)
    }

    /// The addresses that the connection may go to. There is no look-up after this one.
    fn addresses(
        &self,
        account: AccountBytes,
        url: &WebhookUrl,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Unsent> {
        let found = (self.look_up)(account, url.host(), url.port(), deadline);
        let found = found.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::QuotaExceeded => Unsent::Busy,
            io::ErrorKind::TimedOut => AttemptFault::Timeout.into(),
            _ => AttemptFault::NoAddress.into(),
        })?;
        if found.is_empty() {
            return Err(AttemptFault::NoAddress.into());
        }
        let permits = |address: &SocketAddr| match url.is_https() {
            true => self.destinations.permits(address.ip()),
            // Plain HTTP is for networks of the operator.
            false => self.destinations.is_allowed(address.ip()),
        };
        let permitted: Vec<SocketAddr> = found.into_iter().filter(permits).take(ADDRESSES_MAX).collect();
        if permitted.is_empty() { Err(AttemptFault::AddressNotAllowed.into()) } else { Ok(permitted) }
    }
}

fn fault(error: &io::Error) -> AttemptFault {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AttemptFault::Timeout,
        _ if is_of_tls(error) => AttemptFault::Tls,
        _ => AttemptFault::Connection,
    }
}

fn handshake_fault(error: &io::Error) -> AttemptFault {
    match fault(error) {
        AttemptFault::Connection if error.kind() == io::ErrorKind::UnexpectedEof => AttemptFault::Tls,
        fault => fault,
    }
}

fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// The whole request.
fn request(url: &WebhookUrl, outgoing: &Outgoing<'_>) -> Vec<u8> {
    let Outgoing { id, timestamp, signature, body, .. } = outgoing;
    let mut request = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: mailprobe\r\naccept: */*\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nwebhook-id: {id}\r\nwebhook-timestamp: {timestamp}\r\nwebhook-signature: {signature}\r\n\
         connection: close\r\n\r\n",
        url.target(),
        url.authority(),
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// Sends the request. Returns the status of the answer, and the bytes of the body that came with it.
fn converse(stream: &mut (impl Read + Write), request: &[u8]) -> Result<(u16, usize), AttemptFault> {
    // A server may answer before it has read everything.
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    read_status(stream).map_err(|error| sent.err().map_or(error, |error| fault(&error)))
}

/// Reads the rest of a body, until the stream ends or its deadline.
fn skip_body(stream: &mut impl Read, mut body_bytes: usize) {
    let mut piece = [0; 1024];
    while body_bytes < BODY_BYTES_MAX {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(length) => body_bytes += length,
        }
    }
}

/// Reads the head of the answer, after any interim ones (RFC 9110 15.2). Returns the status, and the bytes of the body that
/// came with it.
fn read_status(stream: &mut impl Read) -> Result<(u16, usize), AttemptFault> {
    let mut answer = Vec::new();
    let mut read = 0;
    let mut piece = [0; 2048];
    loop {
        while let Some((status, length)) = head(&answer)? {
            answer.drain(..length);
            if status >= 200 {
                return Ok((status, answer.len()));
            }
            if status == 101 {
                // Nothing asked for another protocol.
                return Err(AttemptFault::InvalidAnswer);
            }
        }
        if read > HEAD_BYTES_MAX {
            return Err(AttemptFault::InvalidAnswer);
        }
        match stream.read(&mut piece) {
            Ok(0) if read == 0 => return Err(AttemptFault::Connection),
            Ok(0) => return Err(AttemptFault::InvalidAnswer),
            Ok(length) => {
                read += length;
                answer.extend_from_slice(&piece[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fault(&error)),
        }
    }
}

/// The status and the length of a head; `None` if it is not complete.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize)>, AttemptFault> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => match head.code {
            Some(code @ 100..=999) => Ok(Some((code, length))),
            _ => Err(AttemptFault::InvalidAnswer),
        },
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(AttemptFault::InvalidAnswer),
    }
}

#[cfg(test)]
mod tests;
