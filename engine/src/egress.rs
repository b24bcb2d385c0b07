//! The pool of sources: from where mail servers are asked, under which name, and how each source fares.
//!
//! Which source a site is asked from, and how long one rests where it is blocked, is decided in
//! [`engine_proto::egress`]. A source that cannot be used is our fault: it makes an outage of its own, and no other
//! source takes over its sites.

pub(crate) mod connect;
pub(crate) mod rest;

use crate::config::{EngineConfig, Proxy, SourceConfig, SourceWay as Configured};
use crate::ehlo;
use crate::{SourceFigures, StartError};
use connect::ProxyPlace;
use engine_proto::address::Address;
use engine_proto::egress::{Families, choose};
use engine_proto::limits::{OUTAGE_WINDOW, SOURCES_MAX};
use engine_proto::outage::Connections;
use engine_proto::smtp::dialog::{DialogConfig, Patience};
use engine_proto::socks5::Credentials;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// All sources.
pub(crate) struct Pool {
    pub(crate) sources: Vec<Arc<Source>>,
    /// The operator named the sources. Without that there is one, which rests nowhere: a host that refuses it is left
    /// alone for a minute, and that is all.
    pub(crate) named: bool,
}

/// A source.
pub(crate) struct Source {
    /// A name that is the same as long as the source is, for the choice of sites.
    id: String,
    /// The name in logs and metrics.
    pub(crate) label: String,
    way: Way,
    families: Families,
    pub(crate) dialog: Arc<DialogConfig>,
    /// Whether any mail server can be reached from here.
    pub(crate) connections: Connections,
    /// How often it was sent to rest, and at how many sites it rests.
    rests: AtomicU64,
    resting: AtomicUsize,
    /// When its last fault was told of, in seconds since the engine's start, and one more; 0 for never.
    warned: AtomicU64,
    /// The addresses that the kernel chooses, once they are known.
    own_ipv4: OnceLock<Option<IpAddr>>,
    own_ipv6: OnceLock<Option<IpAddr>>,
}

/// The address that the kernel sends from to `destination`. A UDP socket that connects sends nothing.
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
    /// From whichever address the kernel chooses.
    Kernel,
    Address(IpAddr),
    Proxy {
        at: ProxyPlace,
        credentials: Option<Credentials>,
    },
}

impl Pool {
    /// As [`Pool::new`], with addresses that are this machine's.
    pub(crate) fn on_this_host(config: &EngineConfig) -> Result<Pool, StartError> {
        for source in &config.sources {
            if let Configured::Address(address) = source.way {
                own_address(address)?;
            }
        }
        Pool::new(config)
    }

    /// The pool of a configuration with an EHLO name and a reverse-path.
    ///
    /// # Errors
    /// A source that cannot be used, and the remedy.
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

    /// The source for a site whose hosts have these addresses.
    pub(crate) fn choose(&self, site: &str, addresses: impl Iterator<Item = IpAddr>) -> Option<usize> {
        let sources = self.sources.iter().map(|source| (source.id.as_str(), source.families));
        choose(sources, site, Families::of_all(addresses))
    }

    /// Whether any source reaches hosts on IPv6; `None` where that is the kernel's to know.
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
                // One proxy may let each of its users out somewhere else.
                (proxy.to_string(), proxy.place(), Way::Proxy { at, credentials }, families)
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

    /// The address of ours that a host at `destination` sees, as far as it is known here: not behind a proxy.
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

    /// Its address, if the source is an address of this machine.
    pub(crate) fn bound_address(&self) -> Option<IpAddr> {
        match self.way {
            Way::Address(address) => Some(address),
            Way::Kernel | Way::Proxy { .. } => None,
        }
    }

    /// Whether it reaches this address, as far as its family goes.
    pub(crate) fn serves(&self, address: IpAddr) -> bool {
        self.families.has(address)
    }

    /// The text after a destination in the traces of sessions.
    pub(crate) fn in_traces(&self) -> String {
        match self.way {
            Way::Kernel => String::new(),
            Way::Address(address) => format!(" from {address}"),
            Way::Proxy { .. } => format!(" through {}", self.label),
        }
    }

    /// The source could not be used, which is our fault. A log line tells the operator, from time to time.
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
        patience: Patience::default(),
    }
}

/// An address to which nothing can be bound would fail at every connection.
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

/// Whether an address no longer belongs to this machine.
fn is_gone(address: IpAddr) -> bool {
    bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// The proxy's name is looked up once, by the system: it is the operator's own, and may be in no public DNS.
fn proxy_place(proxy: &Proxy) -> Result<ProxyPlace, StartError> {
    let place = proxy.place();
    let unknown = |why: String| {
        StartError(format!(
            "the proxy {place} has no address ({why}): correct its name, or write its IP address"
        ))
    };
    let found = place.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    ProxyPlace::new(found).ok_or_else(|| unknown("the look-up found none".into()))
}

fn credentials(proxy: &Proxy) -> Result<Option<Credentials>, StartError> {
    let wrong = |what: &str| StartError(format!("the proxy {}: {what}", proxy.place()));
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
