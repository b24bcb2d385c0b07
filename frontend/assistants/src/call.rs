//! The input of handlers: the request, and the state that all threads share.

use crate::oauth::document::Documents;
use crate::oauth::fetch::Fetcher;
use crate::oauth::site::Site;
use bytes::Bytes;
use checks::Checks;
use checks::throttle::Throttle;
use engine::config::Network;
use engine::proto::sharing::ShareUse;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use store::Connection;

/// The state of assistants that all threads share.
pub struct Assistants {
    /// The URLs of this server.
    pub site: Site,
    /// Clients that are known by the URL of their metadata.
    pub documents: Documents,
    /// Whether documents can be fetched.
    pub(crate) documents_usable: bool,
    /// The limit on registrations of clients, per network and in total.
    pub throttle: Throttle,
}

/// The settings of the operator.
pub struct Settings {
    /// The URL under which users and assistants reach the server.
    pub public_url: Option<String>,
    /// The address of the listener.
    pub listen: SocketAddr,
    /// Whether the listener uses TLS.
    pub tls: bool,
    /// Networks that can be contacted although they are not public.
    pub allowed_networks: Vec<Network>,
    /// Whether each peer connects from its own address. Behind a proxy all peers have the same address, so networks
    /// cannot be distinguished.
    pub networks_are_told: bool,
}

impl Assistants {
    /// Starts the state of assistants. If assistants cannot connect, logs the reason and returns `None`.
    ///
    /// # Errors
    /// TLS is not available.
    pub fn start(settings: Settings) -> io::Result<Option<Arc<Assistants>>> {
        let Settings { public_url, listen, tls, allowed_networks, networks_are_told } = settings;
        let site = match Site::new(public_url.as_deref(), listen, tls) {
            Ok(site) => site,
            Err(why) => {
                tracing::info!("{why}");
                return Ok(None);
            }
        };
        let fetcher = Fetcher::start(allowed_networks, networks_are_told)?;
        let documents_usable = fetcher.usable;
        let throttle = Throttle::new(networks_are_told);
        let documents = Documents::new(fetcher);
        Ok(Some(Arc::new(Assistants { site, documents, documents_usable, throttle })))
    }

    /// What accounts and networks share.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.documents.shares()
    }
}

/// The parts of a request head that these endpoints use.
#[derive(Debug)]
pub struct Head {
    /// The values of `Authorization`.
    pub authorization: Vec<Vec<u8>>,
    /// The values of `Origin`.
    pub origin: Vec<Vec<u8>>,
    /// The value of `MCP-Protocol-Version`; `None` if it is missing or present twice. The same holds for the next two.
    pub version: Option<String>,
    /// The value of the header `Mcp-Method`.
    pub method: Option<String>,
    /// The value of the header `Mcp-Name`.
    pub name: Option<String>,
    /// The IP address of the peer.
    pub peer: IpAddr,
}

/// One request, as the handler gets it.
pub struct Call {
    /// The state of the thread.
    pub checks: Rc<Checks>,
    /// The state that all threads share.
    pub assistants: Arc<Assistants>,
    /// The parts of the head that handlers use.
    pub head: Head,
    /// The connection of the request; always `Some` if the route requires it.
    pub connection: Option<Connection>,
    /// The body; empty for GET.
    pub body: Bytes,
}
