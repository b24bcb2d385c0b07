//! Self-signed certificates, which are created for every mail internet (RFC 3207, RFC 7435).

use crate::values::Certificate;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{error::Error, sync::Arc};

/// One configuration for each kind of certificate.
#[derive(Debug)]
pub(crate) struct Certificates {
    self_signed: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
}

impl Certificates {
    pub(crate) fn new() -> Result<Certificates, Box<dyn Error + Send + Sync>> {
        Ok(Certificates { self_signed: config(2099)?, expired: config(2001)? })
    }

    pub(crate) fn find(&self, kind: Certificate) -> Arc<ServerConfig> {
        match kind {
            Certificate::SelfSigned => self.self_signed.clone(),
            Certificate::Expired => self.expired.clone(),
        }
    }
}

/// A certificate that expires at the end of a year.
fn config(last_year: i32) -> Result<Arc<ServerConfig>, Box<dyn Error + Send + Sync>> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["mailnet.example".to_owned()])?;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(last_year, 12, 31);
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok(Arc::new(config))
}
