//! Connections to a server, over TCP alone or over TLS, with one type for both.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The name in the certificates of [`Certificate`].
const NAME: &str = "localhost";

/// The address of a server, and its TLS configuration if it uses TLS.
#[derive(Clone)]
pub struct ServerEndpoint {
    pub address: SocketAddr,
    /// The address of the client, if it is not left to the system.
    source: Option<IpAddr>,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection; one over TLS has completed its handshake.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A self-signed certificate with its key.
pub struct Certificate {
    pub certificate_pem: String,
    pub key_pem: String,
    der: CertificateDer<'static>,
}

impl From<SocketAddr> for ServerEndpoint {
    fn from(address: SocketAddr) -> ServerEndpoint {
        ServerEndpoint { address, source: None, tls: None }
    }
}

impl fmt::Display for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "HTTPS" } else { "HTTP" })
    }
}

impl Certificate {
    /// Makes a new certificate for `localhost`.
    pub fn make() -> Result<Certificate, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let der = made.cert.der().clone();
        Ok(Certificate { certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem(), der })
    }
}

impl ServerEndpoint {
    /// A server that uses this certificate.
    pub fn over_tls(address: SocketAddr, certificate: &Certificate) -> Result<ServerEndpoint, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = versions.with_root_certificates(roots).with_no_client_auth();
        Ok(ServerEndpoint { address, source: None, tls: Some(Arc::new(config)) })
    }

    /// The same server, for a client at another address of this machine: to the server it is another network.
    pub fn at_source(&self, source: IpAddr) -> ServerEndpoint {
        ServerEndpoint { source: Some(source), ..self.clone() }
    }

    /// Whether connections to it use TLS.
    pub fn is_over_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The value of `Origin` that browsers send (RFC 6454 7).
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// The first message of a TLS handshake; empty for a server without TLS.
    pub fn client_hello(&self) -> io::Result<Vec<u8>> {
        let mut hello = Vec::new();
        if let Some(config) = &self.tls {
            connection(config)?.write_tls(&mut hello)?;
        }
        Ok(hello)
    }

    /// Opens a connection. Reads block, and small writes are not delayed.
    pub fn connect(&self, limit: Duration) -> io::Result<Stream> {
        let Some(source) = self.source else {
            return self.over(TcpStream::connect_timeout(&self.address, limit)?, limit);
        };
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
        socket.connect_timeout(&self.address.into(), limit)?;
        self.over(socket.into(), limit)
    }

    /// Makes a connection of an open stream to this server. Reads block, and small writes are not delayed.
    pub fn over(&self, mut stream: TcpStream, limit: Duration) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let Some(config) = &self.tls else { return Ok(Stream::Plain(stream)) };
        let mut connection = connection(config)?;
        stream.set_read_timeout(Some(limit))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        stream.set_read_timeout(None)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }
}

fn connection(config: &Arc<ClientConfig>) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)
}

impl Stream {
    /// The TCP connection of the stream.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
