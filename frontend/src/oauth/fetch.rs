//! Fetches the metadata of clients: a URL of a stranger's, so all about it is bounded.
//!
//! One thread, one fetch after another, a short queue. Only `https`, no redirects, so much time and so many bytes. The
//! addresses of the host pass the same filter as those of mail servers, and the address that was checked is the one
//! that is connected to: a name that says another address a moment later gets nobody inside.
//!
//! Certificates are judged by the system's own list of authorities (`SSL_CERT_FILE` names another).

use super::uri::Uri;
use crate::store::{Pending, Reply, StoreError, pending};
use engine::config::Network;
use engine::proto::dns::public::is_public;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Fetches that may wait.
const WAITING_MAX: usize = 8;
/// For all of one fetch but the look-up of the name, which the system bounds.
const TIME_MAX: Duration = Duration::from_secs(5);
/// For a connection to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 3;
/// Largest answer, with its head. Documents have some hundred bytes; the draft suggests 5 KiB.
const BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 64;

/// What was fetched.
#[derive(Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The body of a 200.
    pub body: Vec<u8>,
    /// For how long the answer may be kept, where it says so.
    pub max_age_s: Option<u64>,
}

/// Why nothing was fetched. No text has more of the URL than its owner wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// Too many wait.
    Busy,
    /// The host has no address that may be contacted.
    Address,
    /// No connection, or it broke, or the certificate is not good: what the system says.
    Connection(String),
    /// It took too long.
    Slow,
    /// The answer has another status.
    Status(u16),
    /// It is too large, or no HTTP, or not JSON.
    Answer(&'static str),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Busy => f.write_str("too much is being fetched; try again in a moment"),
            FetchError::Address => f.write_str("its host has no address that may be contacted"),
            FetchError::Connection(why) => write!(f, "no connection: {why}"),
            FetchError::Slow => f.write_str("it took too long"),
            FetchError::Status(status) => write!(f, "its host answered with status {status}"),
            FetchError::Answer(why) => f.write_str(why),
        }
    }
}

/// For the channel between threads, which is the store's: it says so when one end is gone.
impl From<StoreError> for FetchError {
    fn from(_: StoreError) -> FetchError {
        FetchError::Busy
    }
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> FetchError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => FetchError::Slow,
            _ => FetchError::Connection(error.to_string()),
        }
    }
}

/// See the module. The thread ends when this is dropped.
pub struct Fetcher {
    jobs: SyncSender<Job>,
    /// Some authority is known, so that some certificate can be good.
    pub usable: bool,
}

struct Job {
    uri: Uri,
    reply: Reply<Fetched, FetchError>,
}

impl Fetcher {
    /// Starts the thread. `allowed` are the networks that may be contacted though they are not public.
    ///
    /// # Errors
    /// The thread could not be started, or TLS cannot be had.
    pub fn start(allowed: Vec<Network>) -> io::Result<Fetcher> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let usable = !roots.is_empty();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let (jobs, queue) = sync_channel(WAITING_MAX);
        let work = move || work(&queue, &config, &allowed);
        thread::Builder::new().name("client-metadata".into()).spawn(work)?;
        Ok(Fetcher { jobs, usable })
    }

    /// Fetches; [`FetchError::Busy`] when too many wait.
    pub fn fetch(&self, uri: Uri) -> Pending<Fetched, FetchError> {
        let (reply, answer) = pending();
        match self.jobs.try_send(Job { uri, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                job.reply.answer(Err(FetchError::Busy));
            }
        }
        answer
    }
}

fn work(queue: &Receiver<Job>, config: &Arc<ClientConfig>, allowed: &[Network]) {
    while let Ok(Job { uri, reply }) = queue.recv() {
        reply.answer(fetch(&uri, config, allowed));
    }
}

fn fetch(uri: &Uri, config: &Arc<ClientConfig>, allowed: &[Network]) -> Result<Fetched, FetchError> {
    let addresses = (uri.host(), uri.port()).to_socket_addrs()?;
    let may_be = |address: &SocketAddr| {
        is_public(address.ip()) || allowed.iter().any(|network| network.contains(address.ip()))
    };
    let addresses: Vec<SocketAddr> = addresses.filter(may_be).take(ADDRESSES_MAX).collect();
    let deadline = Instant::now() + TIME_MAX;
    let stream = connect(&addresses, deadline)?;
    let name = ServerName::try_from(uri.host().to_owned()).map_err(|_| FetchError::Address)?;
    let connection = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| FetchError::Connection(error.to_string()))?;
    read(&converse(uri, StreamOwned::new(connection, stream), deadline)?)
}

fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, FetchError> {
    let mut last = FetchError::Address;
    for address in addresses {
        match TcpStream::connect_timeout(address, left(deadline)?.min(CONNECT_TIME_MAX)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn left(deadline: Instant) -> Result<Duration, FetchError> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(FetchError::Slow)
}

/// Asks, and reads all that is answered.
fn converse(
    uri: &Uri,
    mut stream: StreamOwned<ClientConnection, TcpStream>,
    deadline: Instant,
) -> Result<Vec<u8>, FetchError> {
    let host = uri.host();
    let authority = if uri.port() == 443 { host.to_owned() } else { format!("{host}:{}", uri.port()) };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\nUser-Agent: mailprobe\r\nConnection: close\r\n\r\n",
        uri.target()
    );
    stream.sock.set_write_timeout(Some(left(deadline)?))?;
    stream.sock.set_read_timeout(Some(left(deadline)?))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        stream.sock.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            // An end without TLS's own farewell; whether all is there, the answer's length says.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(answer),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if answer.len() > BYTES_MAX {
            return Err(FetchError::Answer("its document is too large"));
        }
    }
}

/// Reads an answer (RFC 9112) that ended with its connection.
fn read(answer: &[u8]) -> Result<Fetched, FetchError> {
    const NO_HTTP: FetchError = FetchError::Answer("its host does not talk HTTP");
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = head.parse(answer) else { return Err(NO_HTTP) };
    match head.code {
        Some(200) => {}
        Some(status) => return Err(FetchError::Status(status)),
        None => return Err(NO_HTTP),
    }
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    if !header("content-type").is_some_and(|kind| kind.to_ascii_lowercase().contains("json")) {
        return Err(FetchError::Answer("its document does not say that it is JSON"));
    }
    let rest = &answer[length..];
    let body = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => unchunk(rest).ok_or(NO_HTTP)?,
        (None, Some(length)) => {
            let length = length.parse::<usize>().map_err(|_| NO_HTTP)?;
            rest.get(..length).ok_or(FetchError::Answer("its document breaks off"))?.to_vec()
        }
        (None, None) => rest.to_vec(),
        _ => return Err(NO_HTTP),
    };
    Ok(Fetched { body, max_age_s: header("cache-control").and_then(max_age) })
}

/// RFC 9112 7.1, without trailers.
fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        let (chunk, behind) = rest.split_at_checked(size)?;
        body.extend_from_slice(chunk);
        rest = behind.strip_prefix(b"\r\n")?;
    }
}

/// RFC 9111 5.2.2: the seconds of `max-age`, and none at all where nothing may be kept.
fn max_age(control: &str) -> Option<u64> {
    let directives = || control.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives().any(|directive| directive == "no-store" || directive == "no-cache") {
        return Some(0);
    }
    directives().find_map(|directive| directive.strip_prefix("max-age=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: Result<(&str, Option<u64>), FetchError>) {
        let expected = expected.map(|(body, max_age_s)| Fetched { body: body.into(), max_age_s });
        assert_eq!(read(answer.as_bytes()), expected, "{answer}");
    }

    const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

    #[test]
    fn answers_are_read_in_every_form() {
        check(&format!("{JSON}Content-Length: 2\r\n\r\n{{}}more"), Ok(("{}", None)));
        check(&format!("{JSON}\r\n{{}}"), Ok(("{}", None)));
        let chunked = format!("{JSON}transfer-encoding: Chunked\r\n\r\n1;x=y\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n");
        check(&chunked, Ok(("{}", None)));
        check(&format!("{JSON}Cache-Control: public, Max-Age=60\r\n\r\n{{}}"), Ok(("{}", Some(60))));
        check(&format!("{JSON}Cache-Control: max-age=60, no-store\r\n\r\n{{}}"), Ok(("{}", Some(0))));
    }

    #[test]
    fn all_else_is_refused() {
        let no_http = || Err(FetchError::Answer("its host does not talk HTTP"));
        check("", no_http());
        check("220 mail.example ESMTP\r\n", no_http());
        check(&format!("{JSON}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"), no_http());
        check(&format!("{JSON}Transfer-Encoding: gzip\r\n\r\n{{}}"), no_http());
        check(&format!("{JSON}Transfer-Encoding: chunked\r\n\r\n5\r\n{{}}\r\n"), no_http());
        check(&format!("{JSON}Content-Length: x\r\n\r\n{{}}"), no_http());
        check(
            &format!("{JSON}Content-Length: 3\r\n\r\n{{}}"),
            Err(FetchError::Answer("its document breaks off")),
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}",
            Err(FetchError::Answer("its document does not say that it is JSON")),
        );
        check(
            "HTTP/1.1 302 Found\r\nLocation: https://169.254.169.254/\r\n\r\n",
            Err(FetchError::Status(302)),
        );
    }

    #[test]
    fn hosts_inside_are_not_contacted() {
        let fetcher = Fetcher::start(Vec::new()).unwrap();
        let uri = Uri::parse("https://localhost:1/client.json").unwrap();
        assert_eq!(fetcher.fetch(uri).wait(), Err(FetchError::Address));
        let allowed = vec![Network::parse("127.0.0.0/8").unwrap(), Network::parse("::1").unwrap()];
        let fetcher = Fetcher::start(allowed).unwrap();
        let uri = Uri::parse("https://localhost:1/client.json").unwrap();
        assert!(matches!(fetcher.fetch(uri).wait(), Err(FetchError::Connection(_))));
    }
}
