//! Opportunistic TLS (RFC 7435, RFC 3207): runs the TLS connections of rustls over the streams of a runtime.
//!
//! Any certificate is accepted. The name of a mail server proves nothing without DANE or MTA-STS, and mailprobe sends nothing that
//! it would not send in the clear. TLS is used if the server offers it, because some servers require it.

use crate::runtime::{ByteStream, Rented};
use engine_proto::limits::TLS_READ_BYTES;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

pub(crate) enum Transport<S> {
    Plain(S),
    Tls(Box<Tls<S>>),
    /// A handshake is under way or has failed, so nothing can be read or written.
    Broken,
}

pub(crate) struct Tls<S> {
    stream: S,
    connection: ClientConnection,
}

impl<S: ByteStream> Transport<S> {
    /// Waits for bytes, and reads those that have arrived into the empty `buffer`, up to its capacity. `Ok(0)`: the peer has closed
    /// the connection.
    pub(crate) async fn read(&mut self, buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        match self {
            Transport::Plain(stream) => stream.read(buffer, deadline).await,
            // The future is boxed, here and below, because otherwise each session in the clear would reserve memory for it.
            Transport::Tls(tls) => Box::pin(tls.read(buffer, deadline)).await,
            Transport::Broken => (Err(io::ErrorKind::NotConnected.into()), buffer),
        }
    }

    /// Writes all of `buffer`, and returns it empty.
    pub(crate) async fn write(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<()> {
        match self {
            Transport::Plain(stream) => stream.write(buffer, deadline).await,
            Transport::Tls(tls) => {
                let result = Box::pin(tls.write(&buffer, deadline)).await;
                buffer.clear();
                (result, buffer)
            }
            Transport::Broken => (Err(io::ErrorKind::NotConnected.into()), buffer),
        }
    }

    /// Does the TLS handshake with the host `name`. After an error the connection cannot be used any more.
    pub(crate) async fn start_tls(
        &mut self,
        config: &Arc<ClientConfig>,
        name: &str,
        address: IpAddr,
        deadline: Instant,
    ) -> io::Result<()> {
        let Transport::Plain(stream) = std::mem::replace(self, Transport::Broken) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let name = ServerName::try_from(name.to_owned()).unwrap_or(ServerName::IpAddress(address.into()));
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let mut tls = Box::new(Tls { stream, connection });
        tls.handshake(deadline).await?;
        *self = Transport::Tls(tls);
        Ok(())
    }
}

impl<S: ByteStream> Tls<S> {
    async fn handshake(&mut self, deadline: Instant) -> io::Result<()> {
        while self.connection.is_handshaking() {
            self.flush(deadline).await?;
            if self.connection.is_handshaking() && self.fill(deadline).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush(deadline).await
    }

    async fn read(&mut self, mut buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        buffer.resize(buffer.capacity().max(1), 0);
        let result = loop {
            match self.connection.reader().read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // If a peer closes the connection without close_notify, this is no error, because SMTP itself marks where a reply
                // ends.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break Ok(0),
                done => break done,
            }
            match self.fill(deadline).await {
                Ok(0) => break Ok(0),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
            // rustls may have to send something now, such as an alert or the reply to a key update.
            if let Err(error) = self.flush(deadline).await {
                break Err(error);
            }
        };
        buffer.truncate(*result.as_ref().unwrap_or(&0));
        (result, buffer)
    }

    async fn write(&mut self, mut plaintext: &[u8], deadline: Instant) -> io::Result<()> {
        while !plaintext.is_empty() {
            let taken = self.connection.writer().write(plaintext)?;
            plaintext = &plaintext[taken..];
            self.flush(deadline).await?;
        }
        Ok(())
    }

    /// Reads encrypted bytes from the peer and decrypts them. Returns the number of encrypted bytes; 0 if the peer has closed the
    /// connection.
    async fn fill(&mut self, deadline: Instant) -> io::Result<usize> {
        let (result, buffer) = self.stream.read(Vec::with_capacity(TLS_READ_BYTES), deadline).await;
        let count = result?;
        let mut unread = &buffer[..count];
        while !unread.is_empty() {
            self.connection.read_tls(&mut unread)?;
            self.connection.process_new_packets().map_err(io::Error::other)?;
        }
        Ok(count)
    }

    async fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        while self.connection.wants_write() {
            let mut ciphertext = Vec::new();
            self.connection.write_tls(&mut ciphertext)?;
            self.stream.write(ciphertext, deadline).await.0?;
        }
        Ok(())
    }
}

/// The configuration for TLS 1.2 and 1.3 in which any certificate is accepted.
pub(crate) fn client_config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// A copy of the configuration with its own store of TLS sessions that can be resumed. Each shard has such a copy, because the lock
/// of a common store would make the shards wait for each other. Little is lost, because one shard asks all hosts of a site (several
/// may with the profile `lab`).
pub(crate) fn with_own_store(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut own = config.clone();
    own.resumption = Resumption::default();
    Arc::new(own)
}

/// Accepts any certificate, but checks the signature of the handshake: the peer must have the private key of its certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
