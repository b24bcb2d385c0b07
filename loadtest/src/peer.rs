//! The server at the other end: its address, and its certificate if it speaks HTTPS.
//!
//! TLS is that of rustls with the system's authorities, or with those of `--ca`. New connections resume the session of an
//! earlier one if the server allows it, as most clients do.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The time limit of a single blocking request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The value of `--server`: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPlace {
    pub https: bool,
    /// The host without the brackets of IPv6.
    host: String,
    port: u16,
    /// The value of the header `Host`.
    pub authority: String,
}

/// The address of a server with its settings of TLS.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: SocketAddr,
    /// The further addresses of the host, in the order of the system's resolver. [`Peer::check`] tries them.
    others: Vec<SocketAddr>,
    /// The host and port as the user wrote them, for messages.
    pub name: String,
    tls: Option<PeerTls>,
}

#[derive(Debug, Clone)]
struct PeerTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The file of `--ca`.
    ca: Option<PathBuf>,
}

/// A connection with or without TLS.
#[derive(Debug)]
pub enum Channel {
    /// Plain HTTP.
    Plain(TcpStream),
    /// HTTPS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl FromStr for ServerPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerPlace, String> {
        let wrong = || format!("`{text}` is not HOST:PORT or https://HOST:PORT");
        let (https, place) = match text.split_once("://") {
            None => (false, text),
            Some(("http", place)) => (false, place.trim_end_matches('/')),
            Some(("https", place)) => (true, place.trim_end_matches('/')),
            Some((scheme, _)) => {
                return Err(format!("`{scheme}` is not a scheme of a server: use http or https"));
            }
        };
        if place.contains(['/', '@', '?', '#', ' ']) {
            return Err(format!("{}, without a path and a name of a user", wrong()));
        }
        let standard = if https { 443 } else { 80 };
        let (host, port) = match place.rsplit_once(':') {
            // An address of IPv6 without a port.
            Some(_) if place.ends_with(']') => (place, standard),
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None if text != place => (place, standard),
            None => return Err(wrong()),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(wrong());
        }
        Ok(ServerPlace { https, host: bare.to_owned(), port, authority: place.to_owned() })
    }
}

impl Peer {
    /// A server with plain HTTP.
    pub fn plain(address: SocketAddr) -> Peer {
        Peer { address, others: Vec::new(), name: address.to_string(), tls: None }
    }

    /// Looks a server up. `ca` has the certificates of private authorities.
    ///
    /// # Errors
    ///
    /// One line: the host is unknown, or the certificates cannot be read.
    pub fn of(place: &ServerPlace, ca: Option<&Path>) -> Result<Peer, String> {
        let found = (place.host.as_str(), place.port).to_socket_addrs();
        let mut found = found.ok().into_iter().flatten();
        let address = found.next().ok_or_else(|| format!("the host of {} is unknown", place.authority))?;
        let others = found.filter(|other| *other != address).collect();
        let tls = match (place.https, ca) {
            (false, None) => None,
            (false, Some(_)) => return Err("--ca needs a server with https://".into()),
            (true, ca) => Some(PeerTls {
                config: client_config(ca)?,
                name: ServerName::try_from(place.host.clone())
                    .map_err(|error| format!("{}: {error}", place.host))?,
                ca: ca.map(Path::to_owned),
            }),
        };
        Ok(Peer { address, others, name: place.authority.clone(), tls })
    }

    /// Wraps a connected or connecting stream.
    ///
    /// # Errors
    ///
    /// TLS is not available.
    pub fn channel(&self, stream: TcpStream) -> io::Result<Channel> {
        let Some(PeerTls { config, name, .. }) = &self.tls else { return Ok(Channel::Plain(stream)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        Ok(Channel::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// A blocking connection with time limits. It has made the handshake of TLS.
    ///
    /// # Errors
    ///
    /// The error of the socket or of TLS.
    pub fn connect(&self) -> io::Result<Channel> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut channel = self.channel(stream)?;
        if let Channel::Tls(stream) = &mut channel {
            let StreamOwned { conn, sock } = stream.as_mut();
            while conn.is_handshaking() {
                conn.complete_io(sock)?;
            }
        }
        Ok(channel)
    }

    /// Checks that the server accepts a connection, and that its certificate is valid. The host's first address that accepts a
    /// connection becomes the address of the server: `localhost` is often `::1` first, and a server may listen on 127.0.0.1 only.
    ///
    /// # Errors
    ///
    /// One line that says which option to set.
    pub fn check(&mut self) -> Result<(), String> {
        let mut outcome = self.connect();
        while let Err(error) = &outcome {
            if self.others.is_empty() || (self.is_https() && is_of_tls(error)) {
                break;
            }
            self.address = self.others.remove(0);
            outcome = self.connect();
        }
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(match &self.tls {
                Some(tls) if is_of_tls(&error) => self.fault_of_tls(tls, &error),
                _ => format!("cannot connect to {} ({error}); set the server with --server", self.name),
            }),
        }
    }

    /// Whether the connection uses TLS.
    pub fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// What is wrong with the server's TLS or its certificate, and how to mend it. The signature is bad if another authority
    /// has the same name.
    fn fault_of_tls(&self, tls: &PeerTls, error: &io::Error) -> String {
        use CertificateError::{BadSignature, UnknownIssuer};
        let name = &self.name;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(fault)) = inner else {
            return match inner {
                None => format!("{name} closes the connection during TLS: does this port serve HTTPS?"),
                Some(rustls::Error::InvalidMessage(_)) => {
                    format!("{name} does not answer with TLS: does this port serve HTTPS?")
                }
                Some(error) => format!("no TLS with {name}: {error}"),
            };
        };

        let why = match (fault, &tls.ca) {
            (UnknownIssuer | BadSignature, Some(ca)) => {
                format!("no certificate of {} signed it", ca.display())
            }
            (UnknownIssuer | BadSignature, None) => {
                "no authority of this system signed it. If its authority is private, give the authority's certificate \
                 with --ca FILE"
                    .into()
            }
            // rustls has no name of its own for this fault.
            (CertificateError::Other(other), _) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                "it is marked as an authority (CA:TRUE). Make it with -addext basicConstraints=critical,CA:FALSE"
                    .into()
            }
            (fault, _) => fault.to_string(),
        };
        format!("the certificate of {name} is not accepted: {why}")
    }
}

impl Channel {
    /// Whether the bytes of a read may be fewer than those that have arrived: TLS returns at most one record.
    pub fn has_records(&self) -> bool {
        matches!(self, Channel::Tls(_))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Plain(stream) => stream.as_fd(),
            Channel::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(buffer),
            Channel::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(bytes),
            Channel::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.flush(),
            Channel::Tls(stream) => stream.flush(),
        }
    }
}

/// Whether an error came after the connection was open: in TLS, or because the server closed during TLS.
fn is_of_tls(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionReset, InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof | ConnectionReset)
}

fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no certificates of authorities: give one with --ca FILE".into());
            }
        }
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| format!("--ca {}: {error}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
                roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"the file has no certificate in PEM"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder
        .map_err(|error| format!("TLS is not available: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_first_address_that_accepts_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::from(([127, 0, 0, 2], open.port()));
        let mut peer = Peer { others: vec![open], ..Peer::plain(closed) };
        assert_eq!((peer.check(), peer.address), (Ok(()), open));
        let mut peer = Peer { others: vec![closed], ..Peer::plain(closed) };
        assert!(peer.check().unwrap_err().contains("cannot connect to 127.0.0.2"));
    }

    #[test]
    fn places_of_servers_are_read() {
        let rows = [
            ("h:1", Some((false, "h", 1, "h:1"))),
            ("[::1]:2", Some((false, "::1", 2, "[::1]:2"))),
            ("http://h", Some((false, "h", 80, "h"))),
            ("https://h/", Some((true, "h", 443, "h"))),
            ("https://[::1]", Some((true, "::1", 443, "[::1]"))),
            ("https://h:8443", Some((true, "h", 8443, "h:8443"))),
            ("h", None),
            (":1", None),
            ("https://", None),
            ("h:99999", None),
            ("ftp://h:1", None),
            ("https://h:1/v1", None),
            ("https://joe@h:1", None),
        ];
        for (text, expected) in rows {
            let place = text.parse::<ServerPlace>().ok();
            let found =
                place.as_ref().map(|one| (one.https, one.host.as_str(), one.port, one.authority.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
