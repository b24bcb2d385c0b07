//! The authorities that prove a server, and the name that its certificate must have (RFC 8446, RFC 5280, RFC 9525).

use super::target::Protection;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// One server as TLS sees it: the trusted authorities and the expected name.
pub struct Endpoint {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl Endpoint {
    /// The server `host`, proven by `config`; without one, TLS is not used.
    pub fn new(config: Option<Arc<ClientConfig>>, host: &str) -> Endpoint {
        Endpoint { config, host: host.into() }
    }

    /// The client's side of a new connection.
    ///
    /// # Errors
    ///
    /// The host can be no name in a certificate.
    pub fn begin(self) -> io::Result<ClientConnection> {
        let config = self.config.ok_or(io::ErrorKind::Unsupported)?;
        let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
        ClientConnection::new(config, name).map_err(io::Error::other)
    }
}

/// The configuration of TLS; `None` without encryption. It is read once, when the store opens.
///
/// # Errors
///
/// One line: there is no authority, or the file is defective.
pub fn configuration(protection: &Protection) -> Result<Option<Arc<ClientConfig>>, String> {
    let roots = match protection {
        Protection::Plain => return Ok(None),
        Protection::SystemAuthorities => system_authorities()?,
        Protection::AuthoritiesIn(path) => read_authorities(path)
            .map_err(|why| format!("cannot read the authorities in {}: {why}", path.display()))?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

fn system_authorities() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no certificate authorities; install them or set `sslrootcert`".into());
    }
    Ok(roots)
}

fn read_authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(explain)? {
        roots.add(certificate.map_err(explain)?).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it has no certificate in PEM".into()) } else { Ok(roots) }
}

/// The error in one line, without any content of the file.
fn explain(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it has no certificate in PEM".into(),
        _ => "it is no PEM".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;

    #[test]
    fn a_defective_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let pem = generate_simple_self_signed(["db.example".to_owned()]).unwrap().cert.pem();
        let complaint = |name: &str, content: Option<&str>| {
            let path = folder.path().join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            configuration(&Protection::AuthoritiesIn(path)).map(|config| assert!(config.is_some()))
        };
        assert_eq!(complaint("good", Some(&pem)), Ok(()));
        for (name, content, expected) in [
            ("nowhere", None, "nowhere: No such file"),
            ("empty", Some(""), "empty: it has no certificate"),
            ("broken", Some(pem.replace("END", "").as_str()), "broken: it is no PEM"),
        ] {
            let why = complaint(name, content).unwrap_err();
            assert!(why.contains(expected) && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn plain_connections_need_no_authorities() {
        assert!(configuration(&Protection::Plain).unwrap().is_none());
        assert!(Endpoint::new(None, "db").begin().is_err());
    }
}
