//! A certificate for a server of a test.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::path::Path;
use std::sync::Arc;

/// The TLS of a host with this name. `authorities` becomes the file of certificates that a client trusts: that of the host if
/// `trusted`, and another one for the same name if not.
pub fn tls(authorities: &Path, name: &str, trusted: bool) -> Arc<ServerConfig> {
    let make = || generate_simple_self_signed([name.to_owned()]).unwrap();
    let (CertifiedKey { cert, signing_key }, other) = (make(), make());
    let known = if trusted { cert.pem() } else { other.cert.pem() };
    std::fs::write(authorities, known).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    Arc::new(config)
}
