//! Connections to a server, plain or over TLS, as the same thing to read from and to write to.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The name in the certificates of [`Certificate`].
const NAME: &str = "localhost";

/// Where a server listens, and how it is spoken to.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection; that over TLS has done its handshake.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A certificate that signs itself, and its key.
pub struct Certificate {
    pub certificate_pem: String,
    pub key_pem: String,
    der: CertificateDer<'static>,
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Server {
        Server { address, tls: None }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "HTTPS" } else { "HTTP" })
    }
}

impl Certificate {
    /// Makes one.
    pub fn make() -> Result<Certificate, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let der = made.cert.der().clone();
        Ok(Certificate { certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem(), der })
    }
}

impl Server {
    /// A server that shows this certificate.
    pub fn over_tls(address: SocketAddr, certificate: &Certificate) -> Result<Server, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = versions.with_root_certificates(roots).with_no_client_auth();
        Ok(Server { address, tls: Some(Arc::new(config)) })
    }

    /// Whether it is spoken to over TLS.
    pub fn is_over_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What browsers say in `Origin`.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// The first message of a TLS handshake; empty where none is made.
    pub fn client_hello(&self) -> io::Result<Vec<u8>> {
        let mut hello = Vec::new();
        if let Some(config) = &self.tls {
            connection(config)?.write_tls(&mut hello)?;
        }
        Ok(hello)
    }

    /// A connection. Reads block; nothing waits for more to be sent.
    pub fn connect(&self, limit: Duration) -> io::Result<Stream> {
        let mut stream = TcpStream::connect_timeout(&self.address, limit)?;
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
    /// The connection below.
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
