//! What the engine finds out about this machine: its resolvers, its name, its IP addresses, and whether it has IPv6. Elsewhere, a
//! *host* is a mail server, so this module says *machine*.

use crate::StartError;
use crate::config::{EngineConfig, SourceWay};
use crate::ehlo;
use engine_proto::address::{Address, Domain};
use rustix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Completes a configuration with settings that are found on this machine, and checks the result.
///
/// # Errors
/// A setting is missing and cannot be found on this machine, or a setting cannot be used. The text says what to correct.
pub(crate) fn complete(config: &mut EngineConfig) -> Result<(), StartError> {
    if config.resolvers.is_empty() {
        config.resolvers = system_resolvers()?;
    }
    let ehlo = match config.ehlo.take() {
        Some(name) => ehlo::parse(&name).map_err(|why| StartError(format!("--ehlo: {why}")))?,
        // If every source has an EHLO name of its own, the name of the first source becomes the common one.
        None => config
            .sources
            .iter()
            .find_map(|source| source.ehlo.clone())
            .filter(|_| config.sources.iter().all(|source| source.ehlo.is_some()))
            .or_else(host_name)
            .unwrap_or_else(|| set_literals(config)),
    };
    for source in &mut config.sources {
        // A source without a reverse-path of its own gets the common one.
        source.mail_from = source.mail_from.take().or_else(|| config.mail_from.clone());
    }
    if config.mail_from.is_none() {
        config.mail_from = Some(format!("postmaster@{ehlo}"));
    } else if let Some(from) = config.mail_from.as_deref().filter(|from| !from.is_empty()) {
        Address::parse(from)
            .map_err(|error| StartError(format!("--mail-from is not an address: {error}")))?;
    }
    config.ehlo = Some(ehlo);
    if config.sessions == 0 {
        return Err(StartError("--sessions must be at least 1".into()));
    }
    if config.tickets_max == 0 {
        return Err(StartError("the engine must take at least 1 request at a time".into()));
    }
    Ok(())
}

/// Whether the operator has set the names that EHLO sends: the common one, or one for each source. Call this before [`complete`].
pub(crate) fn is_named(config: &EngineConfig) -> bool {
    let sources = &config.sources;
    config.ehlo.is_some() || !sources.is_empty() && sources.iter().all(|source| source.ehlo.is_some())
}

/// The resolvers of the system, from `/etc/resolv.conf`.
///
/// # Errors
/// The file cannot be read, or it names no resolver.
pub fn system_resolvers() -> Result<Vec<SocketAddr>, StartError> {
    let text = std::fs::read_to_string("/etc/resolv.conf").map_err(|error| {
        StartError(format!("/etc/resolv.conf cannot be read ({error}): name a resolver with --resolver"))
    })?;
    let resolvers = parse_resolvers(&text);
    if resolvers.is_empty() {
        return Err(StartError(
            "/etc/resolv.conf names no resolver: name a resolver with --resolver IP:PORT".into(),
        ));
    }
    Ok(resolvers)
}

fn parse_resolvers(text: &str) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.trim().parse::<IpAddr>().ok())
        .map(|address| SocketAddr::new(address, 53))
        .collect()
}

/// The fully qualified name of this machine: the kernel's host name, or if this has no dot, the full name for it in `/etc/hosts`.
/// `None` if there is no such name, or if it is not a valid domain name.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    name_of(name.trim(), &hosts)
}

fn name_of(name: &str, hosts: &str) -> Option<String> {
    let full = if name.contains('.') { Some(name.to_owned()) } else { full_name(hosts, name) };
    let domain = full.as_deref().and_then(|full| Domain::parse(full).ok());
    domain.map(|domain| domain.as_str().to_owned())
}

/// Chooses EHLO names on a machine without a full name: each source with an address and without a name gets the literal of its
/// address. Returns the literal of the machine's own address, for all other sources.
fn set_literals(config: &mut EngineConfig) -> String {
    let own = ehlo::literal(ehlo::own_address());
    for source in config.sources.iter_mut().filter(|source| source.ehlo.is_none()) {
        if let SourceWay::Address(address) = source.way {
            source.ehlo = Some(ehlo::literal(address));
        }
    }
    own
}

/// Warns if EHLO sends an address literal, unless all mail servers are on loopback. Call this after [`complete`], and only if
/// [`is_named`] was false before it.
pub(crate) fn warn_without_name(config: &EngineConfig) {
    if config.is_on_loopback() {
        return;
    }
    if let Some(own) = config.ehlo.as_deref().filter(|name| ehlo::is_literal(name)) {
        tracing::warn!(
            "this machine has no fully qualified name, so EHLO sends its address ({own}), and many mail servers refuse such \
             clients: set --ehlo to a name that resolves to the address of this machine, and let the address resolve to the name"
        );
    }
}

fn full_name(hosts: &str, name: &str) -> Option<String> {
    hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .map(|line| line.split_ascii_whitespace().skip(1).collect::<Vec<_>>())
        .find(|names| names.contains(&name))?
        .into_iter()
        .find(|candidate| candidate.contains('.'))
        .map(str::to_owned)
}

/// The processor time of this thread. `None` if the kernel does not count it.
pub(crate) fn thread_time() -> Option<Duration> {
    clock_gettime(ClockId::ThreadCPUTime).try_into().ok()
}

/// Whether hosts may be reachable over IPv6: the kernel has an IPv6 route to the public Internet, or the operator allows an IPv6
/// network.
pub(crate) fn has_ipv6(config: &EngineConfig) -> bool {
    // Connecting a UDP socket sends no packet, and fails if there is no route. The address is that of a root server.
    let root = Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30);
    let reachable =
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect((root, 53))).is_ok();
    reachable || config.allow_net.iter().any(|net| net.is_ipv6())
}

/// A source of connections as mail servers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the source in messages: an address, a proxy, or `default` if the configuration names no source.
    pub label: String,
    /// The address to which connections of the source are bound. `None` if the kernel or a proxy chooses the address.
    pub bind: Option<IpAddr>,
    /// Whether a proxy makes the connections.
    pub proxy: bool,
    /// The address from which connections leave this machine, before any NAT. `None` if a proxy makes the connections.
    pub address: Option<IpAddr>,
    /// The argument of EHLO.
    pub ehlo: String,
}

/// Returns the sources of a configuration as mail servers see them. Needs no engine.
///
/// # Errors
/// A setting cannot be used, as for [`crate::Engine::start`].
pub fn identities(config: &EngineConfig) -> Result<Vec<Identity>, StartError> {
    let mut config = config.clone();
    if config.resolvers.is_empty() {
        // The sources do not depend on the resolvers, and the system may have none.
        config.resolvers.push(SocketAddr::from(([127, 0, 0, 1], 53)));
    }
    complete(&mut config)?;
    let common = config.ehlo.clone().unwrap_or_default();
    let mut identities: Vec<Identity> = config
        .sources
        .iter()
        .map(|source| {
            let (label, address) = match &source.way {
                SourceWay::Address(address) => (address.to_string(), Some(*address)),
                SourceWay::Proxy(proxy) => (format!("{}:{}", proxy.host, proxy.port), None),
            };
            let ehlo = source.ehlo.clone().unwrap_or_else(|| common.clone());
            Identity { label, bind: address, proxy: address.is_none(), address, ehlo }
        })
        .collect();
    if identities.is_empty() {
        let (label, address) = ("default".into(), Some(ehlo::own_address()));
        identities.push(Identity { label, bind: None, proxy: false, address, ehlo: common });
    }
    Ok(identities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SourceConfig;

    #[test]
    fn resolvers_are_read_as_resolv_conf_has_them() {
        let text = "# nameserver 192.0.2.9\nnameserver 192.0.2.1\n  nameserver\t2001:db8::1 \nsearch example\nnameserver x\n";
        let expected: Vec<SocketAddr> =
            ["192.0.2.1:53", "[2001:db8::1]:53"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(parse_resolvers(text), expected);
    }

    #[test]
    fn a_name_that_is_none_is_not_said() {
        let hosts = "127.0.1.1 box.example.org box\n127.0.0.1 localhost other";
        for (name, expected) in [
            ("mx1.example.org", Some("mx1.example.org")),
            ("box", Some("box.example.org")),
            ("other", None),
            ("localhost", None),
            ("a_b.example", None),
            ("", None),
        ] {
            assert_eq!(name_of(name, hosts).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_host_without_a_name_says_its_addresses() {
        let source = |text| SourceConfig::parse_address(text).unwrap();
        let mut config = EngineConfig {
            sources: vec![source("192.0.2.7"), source("2001:db8::7"), source("192.0.2.8=mx8.example.org")],
            ..EngineConfig::default()
        };
        let own = set_literals(&mut config);
        assert!(ehlo::is_literal(&own), "{own}");
        let names: Vec<&str> = config.sources.iter().filter_map(|source| source.ehlo.as_deref()).collect();
        assert_eq!(names, ["[192.0.2.7]", "[IPv6:2001:db8::7]", "mx8.example.org"]);
    }

    #[test]
    fn a_literal_that_the_operator_has_chosen_is_a_name() {
        let with = |sources: &[&str]| EngineConfig {
            sources: sources.iter().map(|text| SourceConfig::parse_address(text).unwrap()).collect(),
            ..EngineConfig::default()
        };
        let (literal, name) = ("192.0.2.7=[192.0.2.7]", "192.0.2.8=mx8.example.org");
        assert!(is_named(&with(&[literal, name])));
        assert!(!is_named(&with(&[literal, "192.0.2.9"])) && !is_named(&with(&[])));
        assert!(is_named(&EngineConfig { ehlo: Some("[192.0.2.1]".into()), ..with(&[]) }));
    }

    #[test]
    fn a_limit_of_none_is_refused_by_its_own_name() {
        let resolvers = vec![([127, 0, 0, 1], 53).into()];
        let with = |sessions, tickets_max| {
            let mut config = EngineConfig {
                sessions,
                tickets_max,
                resolvers: resolvers.clone(),
                ..EngineConfig::default()
            };
            complete(&mut config).err().map(|error| error.0)
        };
        assert_eq!(with(1, 1), None);
        assert!(with(0, 1).is_some_and(|said| said.starts_with("--sessions ")));
        assert!(with(1, 0).is_some_and(|said| said.contains("request")));
    }

    #[test]
    fn what_is_neither_a_name_nor_a_literal_is_refused() {
        let complete = |name: &str| {
            let resolvers = vec![([127, 0, 0, 1], 53).into()];
            let mut config =
                EngineConfig { ehlo: Some(name.to_owned()), resolvers, ..EngineConfig::default() };
            super::complete(&mut config).map(|()| (config.ehlo, config.mail_from))
        };
        let said = complete("localhost").unwrap_err().0;
        assert!(
            said.starts_with("--ehlo: `localhost` is not a full name (") && said.contains("literal"),
            "{said}"
        );
        let literal = complete("[192.0.2.1]").unwrap();
        assert_eq!(literal, (Some("[192.0.2.1]".into()), Some("postmaster@[192.0.2.1]".into())));
    }

    #[test]
    fn the_full_name_comes_from_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n192.0.2.7 mx.example.org mx # ours\n";
        assert_eq!(full_name(hosts, "mx").as_deref(), Some("mx.example.org"));
        assert_eq!(full_name(hosts, "other"), None);
        assert_eq!(full_name("127.0.0.1 localhost mx", "mx"), None);
    }
}
