//! TLS 1.2 and 1.3 for callers (RFC 8446, RFC 5246): a certificate and a key from files in PEM (RFC 7468), which can be
//! replaced while the server runs.
//!
//! The handshake belongs to the first head of a connection: a client that has not sent its head [`HEAD_TIME_MAX`] after
//! connecting is cut off, also in the middle of the handshake.
//!
//! [`HEAD_TIME_MAX`]: crate::http::HEAD_TIME_MAX

use monoio::io::poll_io::{AsyncRead, AsyncWrite};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore, ServerConfig, ServerConnection};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tls_stream::{TlsStream, Truncation};

/// How much plaintext of a connection may wait for encryption and sending, in bytes: a record (RFC 8446 5.1).
const UNSENT_BYTES_MAX: usize = 16 * 1024;
/// Later than the end of any certificate in use: the year 2200.
const FAR: Duration = Duration::from_secs(7_258_118_400);
/// The protocol above TLS (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// A certificate and its key, as read from their files.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// One line that names the defective file and the defect.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Tls, String> {
        let current = RwLock::new(read(&certificate, &key)?);
        Ok(Tls { certificate, key, current })
    }

    /// Reads both files again, for [`Tls::replace`].
    ///
    /// # Errors
    ///
    /// As [`Tls::load`].
    pub fn read_again(&self) -> Result<Arc<ServerConfig>, String> {
        read(&self.certificate, &self.key)
    }

    /// New connections use these contents of the files.
    pub fn replace(&self, contents: Arc<ServerConfig>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = contents;
    }

    /// The server's side of a new connection.
    ///
    /// # Errors
    ///
    /// A defect: the configuration was valid when it was read.
    pub fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        ServerConnection::new(current)
    }
}

/// The encrypted stream of a connection. Its first read makes the handshake.
pub fn encrypted<T: AsyncRead + AsyncWrite + Unpin>(stream: T, connection: ServerConnection) -> TlsStream<T> {
    TlsStream::new(stream, connection, UNSENT_BYTES_MAX, Truncation::End)
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let chain = read_chain(certificate)
        .map_err(|why| format!("cannot read the certificate {}: {why}", certificate.display()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        format!("cannot read the key {}: {}", key.display(), explain(error, "private key"))
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = made.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "the key {} does not belong to the certificate {}; name a key and a certificate that belong together",
            key.display(),
            certificate.display()
        ),
        error => format!("cannot use {} with {}: {error}", certificate.display(), key.display()),
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// When a certificate expires, in seconds since 1970; `None` if that is far away.
///
/// # Errors
///
/// One line: the file cannot be read, or is no certificate.
pub fn expires_at(certificate: &Path) -> Result<Option<u64>, String> {
    let wrong = |why: String| format!("cannot read the certificate {}: {why}", certificate.display());
    let chain = read_chain(certificate).map_err(wrong)?;
    let own = chain.first().ok_or_else(|| wrong("it is empty".into()))?;
    // The library shows the end of the validity only to a verifier whose clock is behind it. It looks at the validity before
    // it looks for an issuer, so the certificate itself can stand for one.
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).map_err(|error| wrong(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| wrong(error.to_string()))?;
    let far = UnixTime::since_unix_epoch(FAR);
    let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
    match verifier.verify_server_cert(own, &[], &name, &[], far) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Ok(Some(not_after.as_secs()))
        }
        _ => Ok(None),
    }
}

/// The server's own certificate first, followed by the intermediate ones.
fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = CertificateDer::pem_file_iter(path).map_err(|error| explain(error, "certificate"))?;
    let chain: Result<Vec<_>, _> = sections.collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(explain(pem::Error::NoItemsFound, "certificate")),
        Ok(chain) => Ok(chain),
        Err(error) => Err(explain(error, "certificate")),
    }
}

/// The error in one line, without any content of the file, which may be a key.
fn explain(error: pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("it has no {what} in PEM"),
        _ => "it is no PEM".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use std::fs;

    fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn what_is_wrong_is_one_line_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name, content: &str| write(folder.path(), name, content);
        let ((certificate, key), (_, other)) = (pair(), pair());
        let (good, fits) = (at("cert", &certificate), at("key", &key));
        assert!(Tls::load(good.clone(), fits.clone()).is_ok());
        for (certificate, key, expected) in [
            (folder.path().join("nowhere"), fits.clone(), "nowhere: No such file"),
            (good.clone(), folder.path().join("nowhere"), "nowhere: No such file"),
            (fits.clone(), fits.clone(), "key: it has no certificate in PEM"),
            (good.clone(), good.clone(), "cert: it has no private key in PEM"),
            (at("empty", ""), fits.clone(), "empty: it has no certificate"),
            (at("broken", &certificate.replace("END", "")), fits.clone(), "broken: it is no PEM"),
            (good.clone(), at("other", &other), "other does not belong to the certificate"),
        ] {
            let why = Tls::load(certificate, key).map(drop).unwrap_err();
            assert!(why.contains(expected) && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn a_bad_pair_does_not_replace_a_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let ((certificate, key), (next, next_key)) = (pair(), pair());
        let paths = (write(folder.path(), "cert", &certificate), write(folder.path(), "key", &key));
        let tls = Tls::load(paths.0, paths.1).unwrap();
        let current = || Arc::as_ptr(&tls.current.read().unwrap());
        let before = current();
        write(folder.path(), "cert", &next);
        assert!(tls.read_again().is_err());
        assert_eq!(current(), before);
        write(folder.path(), "key", &next_key);
        tls.replace(tls.read_again().unwrap());
        assert_ne!(current(), before);
    }
}
