//! Fetches the metadata of clients. The URLs come from strangers, so every part of a fetch is bounded.
//!
//! One thread makes one fetch after another, from a short queue. It uses only `https`, follows no redirects, and limits time
//! and bytes. The crate `outbound` checks the addresses of the host, and connects to a checked address only.

use super::uri::Uri;
use engine::config::Network;
use outbound::{Bounded, Destinations, Trust, connect};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use store::{Pending, Reply, StoreError, pending};

/// Most fetches that wait.
const WAITING_MAX: usize = 8;
/// Longest time for a fetch and the fetches before it. It protects users from slow name lookups of the system.
pub const WAIT_MAX: Duration = Duration::from_secs(15);
/// Longest time for one fetch, without the lookup of the name, which the system limits.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time to connect to one address.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 3;
/// Largest answer, with its head, in bytes. Documents have some hundred bytes; the draft suggests 5 KiB.
const BYTES_MAX: usize = 32 * 1024;
/// Most bytes that are read from a connection: the answer and the overhead of TLS, which is mostly certificates.
const RAW_BYTES_MAX: usize = 128 * 1024;
const HEADERS_MAX: usize = 64;

/// The result of a fetch.
#[derive(Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The body of an answer with status 200.
    pub body: Vec<u8>,
    /// How long the answer can be kept, in seconds, if it says so.
    pub max_age_s: Option<u64>,
}

/// The reason why a fetch failed. No text contains more of the URL than its owner wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// Too many fetches wait.
    Busy,
    /// The host has no address that can be contacted.
    Address,
    /// The connection failed or broke, or the certificate is not valid; with the message of the system.
    Connection(String),
    /// The fetch took too long.
    Slow,
    /// The status of the answer is not 200.
    Status(u16),
    /// The answer is too large, not HTTP, or not JSON.
    Answer(&'static str),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Busy => f.write_str("too many documents are being fetched; try again in a moment"),
            FetchError::Address => f.write_str("its host has no address that may be contacted"),
            FetchError::Connection(why) => write!(f, "no connection: {why}"),
            FetchError::Slow => f.write_str("it took too long"),
            FetchError::Status(status) => write!(f, "its host answered with status {status}"),
            FetchError::Answer(why) => f.write_str(why),
        }
    }
}

/// The channel between threads is from the store. It reports an error when one end is gone.
impl From<StoreError> for FetchError {
    fn from(_: StoreError) -> FetchError {
        FetchError::Busy
    }
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> FetchError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => FetchError::Slow,
            io::ErrorKind::ResourceBusy => FetchError::Busy,
            _ => FetchError::Connection(error.to_string()),
        }
    }
}

/// Handle of the fetching thread. The thread ends when this is dropped.
pub struct Fetcher {
    jobs: SyncSender<Job>,
    /// Whether the system knows at least one authority. Without one, no certificate is valid.
    pub usable: bool,
}

struct Job {
    uri: Uri,
    asked: Instant,
    began: Arc<AtomicBool>,
    reply: Reply<Fetched, FetchError>,
}

/// A requested fetch, which may still wait.
pub struct Fetching {
    began: Arc<AtomicBool>,
    /// The result of the fetch, when it has ended.
    pub answer: Pending<Fetched, FetchError>,
}

impl Fetching {
    /// Whether the fetch has begun. From then on, the host causes any delay.
    pub fn began(&self) -> bool {
        self.began.load(Ordering::Relaxed)
    }
}

impl Fetcher {
    /// Starts the thread. The networks in `allowed` can be contacted although they are not public.
    ///
    /// # Errors
    /// The thread could not be started, or TLS is not available.
    pub fn start(allowed: Vec<Network>) -> io::Result<Fetcher> {
        let Trust { config, usable } = Trust::of_system()?;
        let destinations = Destinations::new(allowed);
        let (jobs, queue) = sync_channel(WAITING_MAX);
        let work = move || work(&queue, &config, &destinations);
        thread::Builder::new().name("client-metadata".into()).spawn(work)?;
        Ok(Fetcher { jobs, usable })
    }

    /// Requests a fetch; [`FetchError::Busy`] if too many fetches wait.
    pub fn fetch(&self, uri: Uri) -> Fetching {
        let (reply, answer) = pending();
        let began = Arc::new(AtomicBool::new(false));
        let job = Job { uri, asked: Instant::now(), began: Arc::clone(&began), reply };
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                job.reply.answer(Err(FetchError::Busy));
            }
        }
        Fetching { began, answer }
    }
}

fn work(queue: &Receiver<Job>, config: &Arc<ClientConfig>, destinations: &Destinations) {
    while let Ok(Job { uri, asked, began, reply }) = queue.recv() {
        if asked.elapsed() >= WAIT_MAX {
            // The requester no longer waits for this fetch.
            reply.answer(Err(FetchError::Busy));
            continue;
        }
        began.store(true, Ordering::Relaxed);
        reply.answer(fetch(&uri, config, destinations));
    }
}

fn fetch(uri: &Uri, config: &Arc<ClientConfig>, destinations: &Destinations) -> Result<Fetched, FetchError> {
    let addresses = (uri.host(), uri.port()).to_socket_addrs()?;
    let permitted = addresses.filter(|address| destinations.permits(address.ip()));
    let addresses: Vec<SocketAddr> = permitted.take(ADDRESSES_MAX).collect();
    if addresses.is_empty() {
        return Err(FetchError::Address);
    }
    let deadline = Instant::now() + TIME_MAX;
    let stream = connect(&addresses, deadline, CONNECT_TIME_MAX)?;
    let name = ServerName::try_from(uri.host().to_owned()).map_err(|_| FetchError::Address)?;
    let connection = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| FetchError::Connection(error.to_string()))?;
    let stream = Bounded::new(stream, deadline, RAW_BYTES_MAX);
    read(&converse(uri, StreamOwned::new(connection, stream))?)
}

/// Sends the request and reads the whole answer.
fn converse(uri: &Uri, mut stream: StreamOwned<ClientConnection, Bounded>) -> Result<Vec<u8>, FetchError> {
    let host = uri.host();
    let authority = if uri.port() == 443 { host.to_owned() } else { format!("{host}:{}", uri.port()) };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\nUser-Agent: mailprobe\r\nConnection: close\r\n\r\n",
        uri.target()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            // The connection ended without a close_notify of TLS. The length of the answer shows whether it is complete.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(answer),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if answer.len() > BYTES_MAX {
            return Err(FetchError::Answer("its document is too large"));
        }
    }
}

/// Parses a whole answer (RFC 9112). The connection has ended.
///
/// # Errors
/// [`FetchError::Status`] or [`FetchError::Answer`].
pub fn read(answer: &[u8]) -> Result<Fetched, FetchError> {
    const NO_HTTP: FetchError = FetchError::Answer("its host does not answer with valid HTTP");
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
        return Err(FetchError::Answer("its document is not declared as JSON"));
    }
    let rest = &answer[length..];
    let body = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => unchunk(rest).ok_or(NO_HTTP)?,
        (None, Some(length)) => {
            let length = length.parse::<usize>().map_err(|_| NO_HTTP)?;
            rest.get(..length).ok_or(FetchError::Answer("its document is incomplete"))?.to_vec()
        }
        (None, None) => rest.to_vec(),
        _ => return Err(NO_HTTP),
    };
    Ok(Fetched { body, max_age_s: header("cache-control").and_then(max_age) })
}

/// Decodes a chunked body (RFC 9112 7.1), without trailers.
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

/// The seconds of `max-age` (RFC 9111 5.2.2); 0 if the answer must not be kept.
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
    use rustls::RootCertStore;
    use std::net::{TcpListener, TcpStream};

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
        let no_http = || Err(FetchError::Answer("its host does not answer with valid HTTP"));
        check("", no_http());
        check("220 mail.example ESMTP\r\n", no_http());
        check(&format!("{JSON}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"), no_http());
        check(&format!("{JSON}Transfer-Encoding: gzip\r\n\r\n{{}}"), no_http());
        check(&format!("{JSON}Transfer-Encoding: chunked\r\n\r\n5\r\n{{}}\r\n"), no_http());
        check(&format!("{JSON}Content-Length: x\r\n\r\n{{}}"), no_http());
        check(
            &format!("{JSON}Content-Length: 3\r\n\r\n{{}}"),
            Err(FetchError::Answer("its document is incomplete")),
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}",
            Err(FetchError::Answer("its document is not declared as JSON")),
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
        assert_eq!(fetcher.fetch(uri).answer.wait(), Err(FetchError::Address));
        let allowed = vec![Network::parse("127.0.0.0/8").unwrap(), Network::parse("::1").unwrap()];
        let fetcher = Fetcher::start(allowed).unwrap();
        let uri = Uri::parse("https://localhost:1/client.json").unwrap();
        assert!(matches!(fetcher.fetch(uri).answer.wait(), Err(FetchError::Connection(_))));
    }

    fn tls() -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Arc::new(config.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }

    #[test]
    fn a_host_that_drips_is_cut_off_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let host = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The head of the longest record of a handshake.
            let mut sent = stream.write_all(&[22, 3, 3, 0x40, 0]);
            let until = Instant::now() + Duration::from_secs(10);
            while sent.is_ok() && Instant::now() < until {
                sent = stream.write_all(&[0]);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(500);
        let stream = Bounded::new(TcpStream::connect(address).unwrap(), deadline, RAW_BYTES_MAX);
        let connection = ClientConnection::new(tls(), ServerName::try_from("localhost").unwrap()).unwrap();
        let uri = Uri::parse("https://localhost/client.json").unwrap();
        assert_eq!(converse(&uri, StreamOwned::new(connection, stream)), Err(FetchError::Slow));
        assert!(Instant::now() < deadline + Duration::from_secs(5), "it held the thread");
        host.join().unwrap();
    }

    #[test]
    fn it_is_known_whether_a_fetch_began() {
        let (jobs, queue) = sync_channel(WAITING_MAX);
        let fetcher = Fetcher { jobs, usable: false };
        let uri = Uri::parse("https://localhost:1/client.json").unwrap();
        let first = fetcher.fetch(uri.clone());
        let (reply, late) = pending();
        let asked = Instant::now().checked_sub(WAIT_MAX).unwrap();
        let began = Arc::new(AtomicBool::new(false));
        fetcher.jobs.send(Job { uri, asked, began: Arc::clone(&began), reply }).unwrap();
        assert!(!first.began());
        drop(fetcher);
        work(&queue, &tls(), &Destinations::default());
        assert!(first.began());
        assert_eq!(first.answer.wait(), Err(FetchError::Address));
        assert!(!began.load(Ordering::Relaxed), "no requester waits for it");
        assert_eq!(late.wait(), Err(FetchError::Busy));
    }
}
