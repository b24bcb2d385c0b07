//! Connections to hosts that strangers name: the URLs of clients' metadata, and of webhooks.
//!
//! Every connection is bounded in time and bytes. The addresses of a host pass the same filter as those of mail servers
//! ([`Destinations`]). The connection goes to the address that was checked, without another look-up. So a name that resolves to
//! another address later gives no access to internal hosts.
//!
//! Certificates are verified with the system's list of authorities (`SSL_CERT_FILE` names another list).
//!
//! No HTTP client is used. It must connect to the checked address. ureq has a hook for this (`ureq::unversioned`), but the hook is
//! not a stable interface.

mod destinations;
pub mod host;
mod lookup;
mod stream;

pub use destinations::Destinations;
pub use lookup::{AccountBytes, LOOKUPS, look_up, shares};
pub use stream::{Bounded, connect, left};

use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;

/// The settings of TLS for clients.
pub struct Trust {
    /// The settings, with the system's list of authorities.
    pub config: Arc<ClientConfig>,
    /// Whether the system knows at least one authority. Without one, no certificate is valid.
    pub usable: bool,
}

impl Trust {
    /// Reads the system's list of authorities.
    ///
    /// # Errors
    ///
    /// TLS is not available.
    pub fn of_system() -> io::Result<Trust> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let usable = !roots.is_empty();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Trust { config: Arc::new(config), usable })
    }
}
