//! The pool of sources. A source is an IP address of this machine, or a proxy, from which mail servers are asked.
//!
//! [`engine_proto::egress`] decides which source asks a site, and how long a source rests at a site that blocks it. If a source
//! cannot be used, for example because its proxy is down, checks of e-mail addresses at its sites get an outage. No other source
//! takes over.

pub(crate) mod connect;
pub(crate) mod rest;

use crate::config::{EngineConfig, Proxy, SourceConfig, SourceWay as Configured};
use crate::ehlo;
use crate::{SourceFigures, StartError};
use connect::ProxyAddresses;
use engine_proto::address::Address;
use engine_proto::egress::{Families, choose};
use engine_proto::limits::{OUTAGE_WINDOW, SOURCES_MAX};
use engine_proto::outage::Connections;
use engine_proto::smtp::dialog::{DialogConfig, ReplyTimeouts};
use engine_proto::socks5::Credentials;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) struct Pool {
    pub(crate) sources: Vec<Arc<Source>>,
    /// Whether the configuration names the sources. Otherwise there is one source, for which the kernel chooses the address. This
    /// source never rests at a whole site: if a host refuses the source, only the route to this host is out of use, for a minute.
    pub(crate) named: bool,
}

pub(crate) struct Source {
    /// The name by which [`choose`] finds the source of a site. If it changed, the sites would get other sources.
    id: String,
    /// The name in logs, metrics and traces, and in the key of each budget of refused recipients (`refusals.rs`).
    pub(crate) label: String,
    way: Way,
    families: Families,
    pub(crate) dialog: Arc<DialogConfig>,
    /// Whether any mail server can be reached from this source.
    pub(crate) connections: Connections,
    /// How many times the source has begun to rest at a site.
    rests: AtomicU64,
    /// The number of sites at which the source rests now.
    resting: AtomicUsize,
    /// When a fault of the source was last logged, in seconds since the start of the engine, plus 1. 0 if none has been logged yet.
    warned: AtomicU64,
    /// For [`Way::Kernel`]: the address from which the kernel sends over IPv4, found at its first use. `None` if there is no route.
    own_ipv4: OnceLock<Option<IpAddr>>,
    /// Like `own_ipv4`, but over IPv6.
    own_ipv6: OnceLock<Option<IpAddr>>,
}

/// Finds the address from which the kernel sends to `destination`. Connecting a UDP socket sends no packet.
fn chosen_by_kernel(destination: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((destination, 25)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

enum Way {
    /// The kernel chooses the address.
    Kernel,
    Address(IpAddr),
    Proxy {
        at: ProxyAddresses,
        credentials: Option<Credentials>,
    },
}

impl Pool {
    /// Like [`Pool::new`], but first checks that the addresses of the sources belong to this machine.
    pub(crate) fn on_this_host(config: &EngineConfig) -> Result<Pool, StartError> {
        for source in &config.sources {
            if let Configured::Address(address) = source.way {
                own_address(address)?;
            }
        }
        Pool::new(config)
    }

    /// Makes the pool. The configuration must have an EHLO name (`machine::complete`).
    ///
    /// # Errors The first fault that is found in the sources, usually with a remedy.
    pub(crate) fn new(config: &EngineConfig) -> Result<Pool, StartError> {
        let named = !config.sources.is_empty();
        if config.sources.len() > SOURCES_MAX {
            return Err(StartError(format!("there are more than {SOURCES_MAX} sources: name fewer")));
        }
        let mut sources: Vec<Arc<Source>> = Vec::new();
        for configured in &config.sources {
            let source = Source::new(configured, config)?;
            if sources.iter().any(|other| other.id == source.id) {
                return Err(StartError(format!("the source {} is named twice: remove one", source.label)));
            }
            sources.push(Arc::new(source));
        }
        if !named {
            let dialog = dialog(config.ehlo.as_deref(), config.mail_from.as_deref());
            let label = "default".to_owned();
            sources.push(Arc::new(Source::with(String::new(), label, Way::Kernel, Families::ALL, dialog)));
        }
        Ok(Pool { sources, named })
    }

    /// The index of the source for a site with hosts at these addresses. `None` if no source uses the family (IPv4 or IPv6) of any
    /// of these addresses.
    pub(crate) fn choose(&self, site: &str, addresses: impl Iterator<Item = IpAddr>) -> Option<usize> {
        let sources = self.sources.iter().map(|source| (source.id.as_str(), source.families));
        choose(sources, site, Families::of_all(addresses))
    }

    /// Whether any source can reach hosts over IPv6. `None` if the configuration names no sources: then the kernel decides.
    pub(crate) fn has_ipv6(&self) -> Option<bool> {
        self.named.then(|| self.sources.iter().any(|source| source.families.ipv6))
    }

    pub(crate) fn figures(&self, now: Duration) -> Vec<SourceFigures> {
        let look = |source: &Arc<Source>| SourceFigures {
            name: source.label.clone(),
            rests: source.rests.load(Ordering::Relaxed),
            resting: source.resting.load(Ordering::Relaxed),
            down: source.connections.are_down(now),
        };
        self.sources.iter().map(look).collect()
    }
}

impl Source {
    fn new(configured: &SourceConfig, config: &EngineConfig) -> Result<Source, StartError> {
        let (id, label, way, families) = match &configured.way {
            Configured::Address(address) => {
                let name = address.to_string();
                (name.clone(), name, Way::Address(*address), Families::of(*address))
            }
            Configured::Proxy(proxy) => {
                let (at, credentials) = (proxy_place(proxy)?, credentials(proxy)?);
                let families = Families { ipv4: true, ipv6: proxy.ipv6 };
                // The id contains the user, because a proxy may use a different public address for each user.
                (proxy.to_string(), proxy.host_and_port(), Way::Proxy { at, credentials }, families)
            }
        };
        let ehlo = match &configured.ehlo {
            Some(name) => Some(
                ehlo::parse(name)
                    .map_err(|why| StartError(format!("the EHLO name of the source {label}: {why}")))?,
            ),
            None => config.ehlo.clone(),
        };
        let label = match (&way, &ehlo) {
            (Way::Proxy { .. }, Some(name)) => format!("{label} as {name}"),
            _ => label,
        };
        if let Some(from) = configured.mail_from.as_deref().filter(|from| !from.is_empty()) {
            Address::parse(from).map_err(|error| {
                StartError(format!("mail_from of the source {label} is not an address: {error}"))
            })?;
        }
        let dialog = dialog(ehlo.as_deref(), configured.mail_from.as_deref());
        Ok(Source::with(id, label, way, families, dialog))
    }

    fn with(id: String, label: String, way: Way, families: Families, dialog: DialogConfig) -> Source {
        Source {
            id,
            label,
            way,
            families,
            dialog: Arc::new(dialog),
            connections: Connections::default(),
            rests: AtomicU64::new(0),
            resting: AtomicUsize::new(0),
            warned: AtomicU64::new(0),
            own_ipv4: OnceLock::new(),
            own_ipv6: OnceLock::new(),
        }
    }

    /// The address from which we connect to `destination`. The host sees the same address, unless there is a NAT. If the kernel
    /// chooses the address, this is its choice for the first destination of the same family (IPv4 or IPv6). `None` for a proxy, or
    /// if the kernel had no route to that destination.
    pub(crate) fn address_towards(&self, destination: IpAddr) -> Option<IpAddr> {
        match &self.way {
            Way::Address(address) => Some(*address),
            Way::Kernel => {
                let known = if destination.is_ipv4() { &self.own_ipv4 } else { &self.own_ipv6 };
                *known.get_or_init(|| chosen_by_kernel(destination))
            }
            Way::Proxy { .. } => None,
        }
    }

    /// The configured address of the source. `None` if the kernel or a proxy chooses the address.
    pub(crate) fn bound_address(&self) -> Option<IpAddr> {
        match self.way {
            Way::Address(address) => Some(address),
            Way::Kernel | Way::Proxy { .. } => None,
        }
    }

    /// Whether the source uses the family (IPv4 or IPv6) of this address.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        self.families.has(address)
    }

    /// The words about the source that follow a destination in a trace.
    pub(crate) fn in_traces(&self) -> String {
        match self.way {
            Way::Kernel => String::new(),
            Way::Address(address) => format!(" from {address}"),
            Way::Proxy { .. } => format!(" through {}", self.label),
        }
    }

    /// Records that the source cannot be used. Logs this at most once in [`OUTAGE_WINDOW`].
    pub(crate) fn on_failed(&self, why: &str, now: Duration) {
        self.connections.on_failed_ourselves(now);
        let last = self.warned.load(Ordering::Relaxed);
        let due = last == 0 || now.as_secs() + 1 >= last + OUTAGE_WINDOW.as_secs();
        let stamp = now.as_secs() + 1;
        let swap = |last| self.warned.compare_exchange(last, stamp, Ordering::Relaxed, Ordering::Relaxed);
        if due && swap(last).is_ok() {
            tracing::warn!(
                "the source {} cannot be used: {why}; until it can be used, the addresses of its sites get no verdict",
                self.label
            );
        }
    }
}

fn dialog(ehlo: Option<&str>, mail_from: Option<&str>) -> DialogConfig {
    let ehlo = ehlo.unwrap_or_default();
    DialogConfig {
        ehlo: ehlo.into(),
        reverse_path: mail_from.map_or_else(|| format!("postmaster@{ehlo}").into(), Into::into),
        timeouts: ReplyTimeouts::default(),
    }
}

/// Checks that the address is that of a single host, and that sockets can be bound to it. Otherwise every connection from the
/// address would fail.
fn own_address(address: IpAddr) -> Result<(), StartError> {
    if address.is_unspecified() || address.is_multicast() {
        return Err(StartError(format!(
            "the source {address} is not the address of a single host: name an address of this machine"
        )));
    }
    bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => StartError(format!(
            "the source {address} is not an address of this machine: add it to an interface, or remove the source"
        )),
        _ => StartError(format!("the source {address} cannot be used ({error}): remove it")),
    })
}

fn bind(address: IpAddr) -> io::Result<()> {
    UdpSocket::bind((address, 0)).map(drop)
}

/// Whether the address does not belong to this machine any more.
fn is_gone(address: IpAddr) -> bool {
    bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Looks up the name of a proxy at the start, with the resolver of the system, because public DNS may not know the name.
fn proxy_place(proxy: &Proxy) -> Result<ProxyAddresses, StartError> {
    let place = proxy.host_and_port();
    let unknown = |why: String| {
        StartError(format!(
            "the proxy {place} has no address ({why}): correct its name, or write its IP address"
        ))
    };
    let found = place.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    ProxyAddresses::new(found).ok_or_else(|| unknown("the look-up found none".into()))
}

fn credentials(proxy: &Proxy) -> Result<Option<Credentials>, StartError> {
    let wrong = |what: &str| StartError(format!("the proxy {}: {what}", proxy.host_and_port()));
    match (&proxy.user, &proxy.password) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(wrong("there is a password and no user name: write socks5://USER@HOST:PORT")),
        (Some(_), None) => {
            Err(wrong("there is a user name and no password: set a password, preferably with password_file"))
        }
        (Some(user), Some(password)) => match Credentials::new(user, password) {
            Some(credentials) => Ok(Some(credentials)),
            None => Err(wrong("the user name and the password must have 1 to 255 bytes each (RFC 1929)")),
        },
    }
}

#[cfg(test)]
mod tests;
