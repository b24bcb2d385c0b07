//! The settings of the engine.

mod source;

use crate::RefusalTable;
use crate::seed;
use engine_proto::address::Address;
use engine_proto::lists::Lists;
use engine_proto::pace::Profile;
use engine_proto::refusals::KeptRefusals;
pub use source::{Proxy, SourceConfig, SourceWay};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, PoisonError, RwLock};

/// The port of the mail servers of the Internet (RFC 5321 4.5.4.2).
const SMTP_PORT: u16 = 25;

/// The settings of the engine. [`Default`] has the defaults of `mailprobe serve`, with a new secret.
#[derive(Clone)]
pub struct EngineConfig {
    /// The recursive resolvers, of which the first [`engine_proto::limits::DNS_UPSTREAMS_MAX`] are used. As long as all of them
    /// answer, each lookup begins with the first one. Empty: those of the system (`/etc/resolv.conf`).
    pub resolvers: Vec<SocketAddr>,
    /// The port of the mail servers.
    pub smtp_port: u16,
    /// Networks that the engine may contact although they are not public.
    pub allow_net: Vec<Network>,
    /// The argument of EHLO, a name or an address literal, for sources without one of their own. `None`: the fully qualified name
    /// of this machine, else an address literal ([`SourceConfig::ehlo`]).
    pub ehlo: Option<String>,
    /// The reverse-path of MAIL, for sources without one of their own; empty for `<>`. `None`: `postmaster@` followed by the EHLO
    /// name.
    pub mail_from: Option<String>,
    /// The sources of sessions: addresses of this machine, or proxies. All domains with the same hosts use the same source. Empty:
    /// one source, with the address that the kernel chooses.
    pub sources: Vec<SourceConfig>,
    /// The number of shards, each on a thread of its own. 0: one per core. There are never more shards than `sessions`.
    pub shards: usize,
    /// The runtime that drives the shards.
    pub runtime: RuntimeChoice,
    /// The kernel interface that the runtime uses.
    pub driver: DriverChoice,
    /// The profile of the pace at sites.
    pub pace: Pace,
    /// The most SMTP sessions that may be open at once, over all shards.
    pub sessions: usize,
    /// The most requests that may be in progress at once, over all clients.
    pub tickets_max: usize,
    /// The lists that checks use: those of the operator and the built-in ones.
    pub lists: SharedLists,
    /// The secret of this installation: 32 random bytes. It is the key of the keyed hashes that leave the engine. The name of the
    /// control recipient of a domain is made from it too, and changes once a day.
    pub installation: [u8; 32],
    /// The counts of refused recipients of an earlier run with the same secret, from [`crate::Engine::refusals`].
    pub refusals: Vec<KeptRefusals>,
    /// The table for the counts of refused recipients, for example one that several runs share. `None`: a new table in memory.
    pub table: Option<Arc<RefusalTable>>,
    /// The number of this node, if several nodes have the same secret. Each node then counts refused recipients separately.
    pub node: Option<i64>,
    /// The number of nodes that ask from the same addresses, including this node. It may change at any time. These nodes divide the
    /// ceilings of sites and the budgets of refused recipients.
    pub egress_nodes: Arc<AtomicU32>,
    /// Existing mailboxes of the operator. A host that accepts one of them does not refuse everyone.
    pub canaries: Vec<Address>,
}

/// The secret of the installation is left out, because the text may be logged.
impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("resolvers", &self.resolvers)
            .field("smtp_port", &self.smtp_port)
            .field("allow_net", &self.allow_net)
            .field("ehlo", &self.ehlo)
            .field("mail_from", &self.mail_from)
            .field("sources", &self.sources)
            .field("shards", &self.shards)
            .field("runtime", &self.runtime)
            .field("driver", &self.driver)
            .field("pace", &self.pace)
            .field("sessions", &self.sessions)
            .field("tickets_max", &self.tickets_max)
            .field("lists", &self.lists.get())
            .field("refusals", &self.refusals.len())
            .field("table", &self.table)
            .field("node", &self.node)
            .field("egress_nodes", &self.egress_nodes)
            .field("canaries", &self.canaries.len())
            .finish_non_exhaustive()
    }
}

/// The lists that all threads use. They can be replaced while the engine runs.
#[derive(Clone, Default)]
pub struct SharedLists(Arc<RwLock<Arc<Lists>>>);

impl SharedLists {
    /// Shares these lists among threads.
    pub fn new(lists: Lists) -> SharedLists {
        SharedLists(Arc::new(RwLock::new(Arc::new(lists))))
    }

    /// The current lists. Until they are replaced, this is always the same object.
    pub fn get(&self) -> Arc<Lists> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the lists for all later checks.
    pub fn replace(&self, lists: Lists) {
        let mut lists = Arc::new(lists);
        // The old lists are dropped after the lock is released, because dropping them may take long.
        std::mem::swap(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), &mut lists);
    }
}

/// The runtime that drives the shards: `--runtime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeChoice {
    /// The runtime that needs less processor time for an address according to the benchmark in docs/performance.md: monoio.
    Auto,
    /// monoio, on io_uring or epoll.
    Monoio,
    /// glommio, on io_uring only.
    Glommio,
}

/// The kernel interface of the runtime: `--driver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring if the kernel allows it, otherwise epoll.
    Auto,
    /// io_uring. If the kernel does not allow it, the engine does not start.
    IoUring,
    /// epoll, which every kernel has.
    Epoll,
}

/// The profile of the pace at sites: `--pace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Below the limits that providers set for senders.
    Polite,
    /// At the limits that most servers have.
    Fast,
    /// Without a ceiling for sessions and recipients, for your own servers and benchmarks. Only the number of refusals in a session
    /// has a ceiling. The pace still adapts to the site.
    Lab,
}

impl From<Pace> for Profile {
    fn from(pace: Pace) -> Profile {
        match pace {
            Pace::Polite => Profile::Polite,
            Pace::Fast => Profile::Fast,
            Pace::Lab => Profile::Lab,
        }
    }
}

/// A network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Parses a network such as `192.0.2.0/24` or `2001:db8::/32`, or a single address.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is not a network: write it as 192.0.2.0/24 or 2001:db8::/32");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        if prefix > longest { Err(wrong()) } else { Ok(Network { address, prefix }) }
    }

    /// Whether all addresses of the network are loopback addresses.
    pub fn is_loopback(&self) -> bool {
        // 127.0.0.0/8 (RFC 1122 3.2.1.3); in IPv6 loopback is one address (RFC 4291 2.5.3).
        let shortest = if self.address.is_ipv4() { 8 } else { 128 };
        self.address.is_loopback() && self.prefix >= shortest
    }

    /// Whether this is an IPv6 network.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether the network contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let cut = |bits: u128, width: u32| bits >> (width - u32::from(self.prefix)).min(127);
        match (self.address, address) {
            _ if self.prefix == 0 => self.address.is_ipv4() == address.is_ipv4(),
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                cut(ours.to_bits().into(), 32) == cut(theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => cut(ours.to_bits(), 128) == cut(theirs.to_bits(), 128),
            _ => false,
        }
    }
}

/// Writes the network as [`Network::parse`] reads it.
impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl EngineConfig {
    /// Whether the mail servers are on loopback, as in a test: the port is not 25, and the operator allowed loopback networks and
    /// no others. On loopback, no mail server judges the name of this machine.
    pub fn is_on_loopback(&self) -> bool {
        self.smtp_port != SMTP_PORT
            && !self.allow_net.is_empty()
            && self.allow_net.iter().all(Network::is_loopback)
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            resolvers: Vec::new(),
            smtp_port: SMTP_PORT,
            allow_net: Vec::new(),
            ehlo: None,
            mail_from: None,
            sources: Vec::new(),
            shards: 0,
            runtime: RuntimeChoice::Auto,
            driver: DriverChoice::Auto,
            pace: Pace::Polite,
            sessions: 1000,
            tickets_max: 16_384,
            lists: SharedLists::default(),
            installation: seed::secret(),
            refusals: Vec::new(),
            table: None,
            node: None,
            egress_nodes: Arc::new(AtomicU32::new(1)),
            canaries: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_configuration_has_no_secret_and_no_canary() {
        let canaries = vec![Address::parse("canary@ours.example").expect("an address")];
        let config = EngineConfig { installation: [0xab; 32], canaries, ..EngineConfig::default() };
        let shown = format!("{config:?} {config:#?}");
        assert!(!shown.contains("171") && !shown.to_lowercase().contains("ab, "), "{shown}");
        assert!(!shown.contains("ours.example"), "{shown}");
    }

    #[test]
    fn mail_servers_are_on_loopback_if_nothing_else_is_allowed_on_another_port() {
        for (nets, smtp_port, expected) in [
            (&["127.0.0.0/8"][..], 2525, true),
            (&["127.0.0.0/8", "::1"], 2525, true),
            (&["127.0.0.1"], 2525, true),
            (&["127.0.0.0/8"], 25, false),
            (&[], 2525, false),
            (&["127.0.0.0/8", "10.0.0.0/8"], 2525, false),
            (&["127.0.0.0/7"], 2525, false),
            (&["::1/127"], 2525, false),
        ] {
            let allow_net = nets.iter().map(|net| Network::parse(net).expect("a network")).collect();
            let config = EngineConfig { allow_net, smtp_port, ..EngineConfig::default() };
            assert_eq!(config.is_on_loopback(), expected, "{nets:?}, port {smtp_port}");
        }
    }
}
