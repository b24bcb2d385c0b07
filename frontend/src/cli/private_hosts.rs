//! Finds domains with mail hosts that have no public address.
//!
//! The engine contacts no such address without `--allow-net`, so it finds that the domain takes no mail. In a network with names of
//! its own, that is a wrong verdict for existing mailboxes. The user is warned once, with the name of one such domain.

use crate::doctor::dns::{Reply, ask};
use engine::config::{EngineConfig, Network};
use engine::proto::dns::public::is_public;
use hickory_proto::rr::RecordType;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Maximum number of domains that are looked at. Each look takes a few queries, which the resolver answers from its cache.
const LOOKS_MAX: u32 = 100;
/// Maximum time of all looks. The rows of a list wait during a look.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum number of mail hosts of a domain that are looked at.
const HOSTS_MAX: usize = 8;

/// Looks at domains for which the engine has found no mail host, and warns once.
#[derive(Debug)]
pub(super) struct PrivateHosts {
    resolvers: Vec<SocketAddr>,
    allowed: Vec<Network>,
    looks_left: u32,
    time_taken: Duration,
    seen: HashSet<Box<str>>,
}

impl PrivateHosts {
    /// Asks the resolvers of this configuration, or those of the system.
    pub fn new(config: &EngineConfig) -> PrivateHosts {
        let resolvers = match config.resolvers.is_empty() {
            false => config.resolvers.clone(),
            true => engine::system_resolvers().unwrap_or_default(),
        };
        PrivateHosts {
            resolvers,
            allowed: config.allow_net.clone(),
            looks_left: LOOKS_MAX,
            time_taken: Duration::ZERO,
            seen: HashSet::new(),
        }
    }

    /// Looks at a domain without a mail host. A warning tells if its addresses are not public.
    pub fn look_at(&mut self, domain: &str) {
        if self.looks_left == 0 || !domain.is_ascii() || !self.seen.insert(domain.into()) {
            return;
        }
        self.looks_left -= 1;
        let began = Instant::now();
        let found = self.addresses(domain);
        self.time_taken += began.elapsed();
        if self.time_taken > LOOK_TIME_MAX {
            self.looks_left = 0;
        }
        let Some(addresses) = found else {
            // A resolver that does not answer must not delay the run again.
            self.looks_left = 0;
            return;
        };
        let may_contact =
            |address: &IpAddr| is_public(*address) || self.allowed.iter().any(|net| net.contains(*address));
        if addresses.is_empty() || addresses.iter().any(may_contact) {
            return;
        }
        self.looks_left = 0;
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        tracing::warn!(
            "{domain} has only non-public addresses ({}), which are not contacted; --allow-net allows them",
            addresses.join(", ")
        );
    }

    /// The addresses of the mail hosts of a domain; `None` if no resolver answers.
    fn addresses(&self, domain: &str) -> Option<Vec<IpAddr>> {
        let mut hosts = self.ask(domain, RecordType::MX)?.exchanges();
        if hosts.is_empty() {
            hosts.push(domain.to_owned());
        }
        let mut addresses = Vec::new();
        for host in hosts.iter().take(HOSTS_MAX) {
            for kind in [RecordType::A, RecordType::AAAA] {
                addresses.extend(self.ask(host, kind)?.addresses());
            }
        }
        Some(addresses)
    }

    fn ask(&self, name: &str, kind: RecordType) -> Option<Reply> {
        self.resolvers.iter().find_map(|resolver| ask(*resolver, name, kind).ok())
    }
}
