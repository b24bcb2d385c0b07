//! Fetches the metadata of clients. The URLs come from strangers, so every part of a fetch is bounded.
//!
//! Each fetch has a thread and a place until it ends. An account and a network have a share of the places, so hosts that do not
//! answer take nothing from others. A fetch uses only `https`, follows no redirects, and limits time and bytes. The crate
//! `outbound` looks up the host, checks its addresses, and connects to a checked address only.

use super::uri::Uri;
use checks::peers::site;
use engine::config::Network;
use engine::proto::sharing::{Bounds, Quota, ShareUse, Taken, UsedUp};
use outbound::{Bounded, Destinations, Trust, connect, look_up};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use store::{AccountId, Pending, Reply, StoreError, pending};
use thiserror::Error;

/// The most fetches at once, of one account and in all.
const ACCOUNTS: Bounds = Bounds { share: 2, all: 96 };
/// The most fetches at once, of one network and in all, if networks can be distinguished.
const NETWORKS: Bounds = Bounds { share: 8, ..ACCOUNTS };
/// Longest time for one fetch, from the look-up of the name to the end of the answer.
const TIME_MAX: Duration = Duration::from_secs(10);
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
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// Too many fetches are under way.
    #[error("too many documents are being fetched; try again in a moment")]
    Busy,
    /// The account or the network has all of its share of the fetches.
    #[error("{0}")]
    OverShare(&'static str),
    /// The host has no address that can be contacted.
    #[error("its host has no address that may be contacted")]
    Address,
    /// The connection failed or broke, or the certificate is not valid; with the message of the system.
    #[error("no connection: {0}")]
    Connection(String),
    /// The fetch took too long.
    #[error("it took too long")]
    Slow,
    /// The status of the answer is not 200.
    #[error("its host answered with status {0}")]
    Status(u16),
    /// The answer is too large, not HTTP, or not JSON.
    #[error("{0}")]
    Answer(&'static str),
}

impl FetchError {
    /// Whether the document was not asked for, so that nothing is known of it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, FetchError::Busy | FetchError::OverShare(_))
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
            io::ErrorKind::QuotaExceeded => FetchError::OverShare(
                "This account has all of its share of the look-ups of names. Try again when they have ended.",
            ),
            _ => FetchError::Connection(error.to_string()),
        }
    }
}

/// Starts fetches and counts them.
pub struct Fetcher {
    config: Arc<ClientConfig>,
    destinations: Arc<Destinations>,
    accounts: Arc<Quota<AccountId>>,
    networks: Option<Arc<Quota<IpAddr>>>,
    /// Whether the system knows at least one authority. Without one, no certificate is valid.
    pub usable: bool,
}

/// The place of a fetch, until it ends.
type Place = (Taken<AccountId>, Option<Taken<IpAddr>>);

impl Fetcher {
    /// Prepares TLS. The networks in `allowed` can be contacted although they are not public. `networks_are_told` states whether the
    /// peer's address distinguishes callers.
    ///
    /// # Errors
    /// TLS is not available.
    pub fn start(allowed: Vec<Network>, networks_are_told: bool) -> io::Result<Fetcher> {
        let Trust { config, usable } = Trust::of_system()?;
        let destinations = Arc::new(Destinations::new(allowed));
        let accounts = Quota::new("client_metadata", ACCOUNTS);
        let networks = networks_are_told.then(|| Quota::new("client_metadata_of_networks", NETWORKS));
        Ok(Fetcher { config, destinations, accounts, networks, usable })
    }

    /// The fetches under way, by account and by network.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        let of_networks = self.networks.as_ref().map(|networks| networks.figures());
        [self.accounts.figures()].into_iter().chain(of_networks).collect()
    }

    /// Starts a fetch for an account, from the page that this peer has opened. It ends within 10 seconds.
    pub fn fetch(&self, uri: Uri, account: AccountId, peer: IpAddr) -> Pending<Fetched, FetchError> {
        match self.place(account, peer) {
            Ok(place) => self.begin(uri, account, place),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn place(&self, account: AccountId, peer: IpAddr) -> Result<Place, FetchError> {
        let of_account = self.accounts.take(account, 1).map_err(|used_up| match used_up {
            UsedUp::Share => FetchError::OverShare(
                "This account has all of its share of the fetches of assistants' metadata. Try again when they have ended.",
            ),
            UsedUp::All => FetchError::Busy,
        })?;
        let of_network = self.networks.as_ref().map(|networks| networks.take(site(peer), 1)).transpose();
        let of_network = of_network.map_err(|used_up| match used_up {
            UsedUp::Share => FetchError::OverShare(
                "Your network has all of its share of the fetches of assistants' metadata. Try again when they have ended.",
            ),
            UsedUp::All => FetchError::Busy,
        })?;
        Ok((of_account, of_network))
    }

    fn begin(&self, uri: Uri, account: AccountId, place: Place) -> Pending<Fetched, FetchError> {
        let (reply, answer): (Reply<Fetched, FetchError>, _) = pending();
        let (config, destinations) = (Arc::clone(&self.config), Arc::clone(&self.destinations));
        let work = move || {
            let fetched = fetch(&uri, account, &config, &destinations);
            drop(place);
            reply.answer(fetched);
        };
        // Without a thread the reply is dropped, which is an answer too: too many fetches.
        if let Err(error) = thread::Builder::new().name("client-metadata".into()).spawn(work) {
            tracing::warn!("a thread for the metadata of an assistant could not be started: {error}");
        }
        answer
    }
}

fn fetch(
    uri: &Uri,
    account: AccountId,
    config: &Arc<ClientConfig>,
    destinations: &Destinations,
) -> Result<Fetched, FetchError> {
    let deadline = Instant::now() + TIME_MAX;
    let found = look_up(account.to_bytes(), uri.host(), uri.port(), deadline)?;
    let permitted = found.into_iter().filter(|address| destinations.permits(address.ip()));
    let addresses: Vec<SocketAddr> = permitted.take(ADDRESSES_MAX).collect();
    if addresses.is_empty() {
        return Err(FetchError::Address);
    }
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
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

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

    fn account(number: u128) -> AccountId {
        AccountId::new(1, number)
    }

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn hosts_inside_are_not_contacted() {
        let fetch = |allowed: &[&str]| {
            let allowed = allowed.iter().map(|network| Network::parse(network).unwrap()).collect();
            let uri = Uri::parse("https://localhost:1/client.json").unwrap();
            Fetcher::start(allowed, true).unwrap().fetch(uri, account(1), PEER).wait()
        };
        assert_eq!(fetch(&[]), Err(FetchError::Address));
        assert!(matches!(fetch(&["127.0.0.0/8", "::1"]), Err(FetchError::Connection(_))));
    }

    #[test]
    fn accounts_and_networks_have_shares_of_the_places() {
        let fetcher = Fetcher::start(Vec::new(), true).unwrap();
        let peer = |network: u8| IpAddr::from([192, 0, 2, network]);
        let place = |holder: u8, network: u8| fetcher.place(account(holder.into()), peer(network));
        let of_one: Vec<Place> = (0..9).map_while(|network| place(1, network).ok()).collect();
        assert_eq!(of_one.len() as u64, ACCOUNTS.share);
        let refused = place(1, 9).err();
        assert!(
            matches!(refused, Some(FetchError::OverShare(why)) if why.contains("account")),
            "{refused:?}"
        );
        let of_a_network: Vec<Place> = (2..90).map_while(|account| place(account, 200).ok()).collect();
        assert_eq!(of_a_network.len() as u64, NETWORKS.share);
        let refused = place(99, 200).err();
        assert!(
            matches!(refused, Some(FetchError::OverShare(why)) if why.contains("network")),
            "{refused:?}"
        );
        let others: Vec<Place> = (100..200).map_while(|both| place(both, both).ok()).collect();
        assert_eq!(others.len() as u64, ACCOUNTS.all - ACCOUNTS.share - NETWORKS.share);
        assert_eq!(place(201, 201).err(), Some(FetchError::Busy));
        assert!(fetcher.shares().iter().all(|share| share.is_used_up()));
        drop((of_one, of_a_network, others));
        assert!(fetcher.shares().iter().all(|share| share.used() == 0), "refusals take nothing");
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
}
