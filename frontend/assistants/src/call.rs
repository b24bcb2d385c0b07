//! What handlers get: the request, and what all threads share.

use crate::oauth::document::Documents;
use crate::oauth::fetch::Fetcher;
use crate::oauth::site::Site;
use bytes::Bytes;
use checks::Checks;
use checks::throttle::Throttle;
use engine::config::Network;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use store::Connection;

/// What all threads share of assistants.
pub struct Assistants {
    /// Where we are.
    pub site: Site,
    /// Clients that are known by their metadata.
    pub documents: Documents,
    /// Whether documents can be fetched.
    pub(crate) documents_usable: bool,
    /// Registrations.
    pub throttle: Throttle,
}

/// What the operator has set.
pub struct Settings {
    /// The URL under which users and assistants reach the server.
    pub public_url: Option<String>,
    /// Where the server listens.
    pub listen: SocketAddr,
    /// Whether it listens with TLS.
    pub tls: bool,
    /// Networks that may be contacted although they are not public.
    pub allowed_networks: Vec<Network>,
    /// Whether peers have addresses of their own. Behind a proxy all have the same, and nothing can be said of their networks.
    pub networks_are_told: bool,
}

impl Assistants {
    /// Starts what they need; none where they cannot connect, which the log is told.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(settings: Settings) -> io::Result<Option<Arc<Assistants>>> {
        let Settings { public_url, listen, tls, allowed_networks, networks_are_told } = settings;
        let site = match Site::new(public_url.as_deref(), listen, tls) {
            Ok(site) => site,
            Err(why) => {
                tracing::info!("{why}");
                return Ok(None);
            }
        };
        let fetcher = Fetcher::start(allowed_networks)?;
        let documents_usable = fetcher.usable;
        let throttle = Throttle::new(networks_are_told);
        let documents = Documents::new(fetcher);
        Ok(Some(Arc::new(Assistants { site, documents, documents_usable, throttle })))
    }
}

/// What the head of a request says, as far as these endpoints care.
#[derive(Debug)]
pub struct Head {
    /// The values of `Authorization`.
    pub authorization: Vec<Vec<u8>>,
    /// The values of `Origin`.
    pub origin: Vec<Vec<u8>>,
    /// `MCP-Protocol-Version`; none where there are several, as for the next two.
    pub version: Option<String>,
    /// `Mcp-Method`.
    pub method: Option<String>,
    /// `Mcp-Name`.
    pub name: Option<String>,
    /// Who connected.
    pub peer: IpAddr,
}

/// One request, as handlers see it.
pub struct Call {
    /// The thread's state.
    pub checks: Rc<Checks>,
    /// What all threads share.
    pub assistants: Arc<Assistants>,
    /// The head.
    pub head: Head,
    /// Of which connection it is; there is one wherever the route asks for it.
    pub connection: Option<Connection>,
    /// The body; empty on GET.
    pub body: Bytes,
}
