//! Resolvers, port 25, names and reputation of the sources, IPv6, and the clock.

use super::dns::{Reply, ask, receive_buffer, reversed};
use super::report::Finding;
use engine::Identity;
use engine::proto::dns::public::is_public;
use engine::proto::limits::BANNER_TIMEOUT;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use store::clock as wall_clock;

/// A resolver that needs longer for a name in its cache slows every check down.
const SLOW: Duration = Duration::from_millis(300);
/// Time for a connection to a mail server.
const CONNECT: Duration = Duration::from_secs(6);
const BANNER_BYTES_MAX: usize = 2048;
/// The most addresses of a mail server that are tried.
const ADDRESSES_MAX: usize = 3;
/// Names of the codes of RFC 8914 that say that the answer is not that of the zone.
const FORGED: [(u16, &str); 5] =
    [(4, "forged"), (15, "blocked"), (16, "censored"), (17, "filtered"), (18, "prohibited")];
const NO_NAMES: &str = "no address can be checked";

/// The resolvers, each asked for a name that exists and one that does not.
pub fn resolvers(resolvers: &[SocketAddr]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = resolvers.iter().map(|resolver| resolver_finding(*resolver)).collect();
    findings.push(buffer());
    findings
}

fn resolver_finding(resolver: SocketAddr) -> Finding {
    let finding = |found: String| Finding::ok("resolver", resolver.to_string(), found);
    let root = match ask(resolver, ".", RecordType::NS) {
        Ok(reply) => reply,
        Err(why) => {
            let remedy = "with --resolver, name a resolver that answers, or let this machine reach this one (UDP and TCP port 53)";
            return finding(why).failure(format!("{NO_NAMES} through this resolver"), remedy);
        }
    };
    if root.code() != ResponseCode::NoError || !root.has(RecordType::NS) {
        let answer = match root.code() {
            ResponseCode::NoError => "it answered without a record".to_owned(),
            code => code.to_string(),
        };
        let found = format!("it does not know the root zone ({answer})");
        let remedy = "use a recursive resolver, such as Unbound on this machine, and not a filter or a zone's own server";
        return finding(found).failure(NO_NAMES, remedy);
    }
    if let Some(name) = root.extended_errors().into_iter().find_map(forged) {
        return filters(finding(format!("it says that its answers are {name}")));
    }
    // A name below a top-level domain that cannot exist (RFC 2606 2), so that every honest resolver denies it.
    let denied = match ask(resolver, &unknown_name(), RecordType::MX) {
        Ok(reply) => reply,
        Err(why) => {
            let remedy = "with --resolver, name a resolver that also answers for unknown names";
            return finding(format!("{why} about a name that does not exist"))
                .failure("addresses at unknown domains wait for long, and end as outages", remedy);
        }
    };
    judge_denial(finding, &root, &denied)
}

fn judge_denial(finding: impl Fn(String) -> Finding, root: &Reply, denied: &Reply) -> Finding {
    if let Some(name) = denied.extended_errors().into_iter().find_map(forged) {
        return filters(finding(format!("it says that its answers are {name}")));
    }
    if denied.code() != ResponseCode::NXDomain || !denied.addresses().is_empty() {
        let found = format!("it answers {} for a name that does not exist", denied.code());
        return filters(finding(found));
    }
    if !denied.has_soa() {
        let remedy = "use a resolver whose denials have an SOA record (RFC 2308), such as Unbound or Knot Resolver on this machine";
        return finding("it denies names without proof (no SOA record)".into())
            .failure("denials without proof count as outages, not as `no_mx`", remedy);
    }
    let took = root.took.max(denied.took);
    let found = format!("answers in {} ms, and proves its denials", took.as_millis());
    if took > SLOW {
        let remedy = "use a resolver on this machine or in its network";
        return finding(found).warning("every first address of a domain waits for this", remedy);
    }
    finding(found)
}

fn filters(finding: Finding) -> Finding {
    finding.failure(
        "filtered domains look as if they had no mail servers",
        "use a resolver that does not filter, such as Unbound on this machine, with --resolver",
    )
}

fn forged(code: u16) -> Option<&'static str> {
    FORGED.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

fn unknown_name() -> String {
    format!("mailprobe-doctor-{:x}.invalid", wall_clock::now())
}

fn buffer() -> Finding {
    let finding = |found: String| Finding::ok("receive buffer", "", found);
    match receive_buffer() {
        Err(error) => finding(error.to_string()).failure(NO_NAMES, "allow this user to make sockets"),
        Ok((kept, wanted)) if kept >= wanted => finding(format!("{} KiB for DNS", kept / 1024)),
        Ok((kept, wanted)) => {
            finding(format!("{} KiB for DNS; {} KiB are better", kept / 1024, wanted / 1024)).warning(
                "in bulk, answers of DNS get lost and are asked for again",
                format!("run `sysctl -w net.core.rmem_max={wanted}`, and add the line to /etc/sysctl.d"),
            )
        }
    }
}

/// The check of the port of mail servers, whatever its number is.
const PORT: &str = "port 25";

/// Whether mail servers can be reached: each source to each host, until one answers. `is_named`: the operator has chosen the hosts.
/// The others listen at port 25 alone.
pub fn mail_port(
    sources: &[Identity],
    hosts: &[String],
    is_named: bool,
    port: u16,
    resolvers: &[SocketAddr],
) -> Vec<Finding> {
    if port != 25 && !is_named {
        let found = format!(
            "not checked: the setting smtp_port is {port}, and the mail servers that this command knows listen at port 25"
        );
        let remedy = format!("with --mx, name a mail server that listens at port {port}");
        return vec![
            Finding::ok(PORT, "", found)
                .warning("it is not known whether mail servers can be reached", remedy),
        ];
    }
    let tried = |source| Finding {
        heading: Some(format!("port {port}")),
        ..source_reaches(source, hosts, is_named, port, resolvers)
    };
    sources.iter().map(tried).collect()
}

fn source_reaches(
    source: &Identity,
    hosts: &[String],
    is_named: bool,
    port: u16,
    resolvers: &[SocketAddr],
) -> Finding {
    let finding = |found: String| Finding::of_source(PORT, source.label.clone(), found);
    if source.proxy {
        return finding("not checked: a proxy makes the connections".into());
    }
    let mut tries = Vec::new();
    for host in hosts {
        // One address of a host may be out of order, or of a family without a route, while another one answers.
        let addresses = resolve(host, source, resolvers);
        let mut best = Reach::Unresolved;
        for address in addresses.iter().take(ADDRESSES_MAX) {
            best = best.max(reach(source.bind, SocketAddr::new(*address, port), BANNER_TIMEOUT));
            if let Reach::Greeted = best {
                return finding(format!("{host} answers at {}", port_words(port)));
            }
        }
        tries.push((host, best));
    }
    let found: Vec<String> = tries.iter().map(|(host, reach)| format!("{host} {reach}")).collect();
    let worst = tries.iter().map(|(_, reach)| reach.clone()).max().unwrap_or(Reach::Unresolved);
    judge_reach(finding(format!("{}: {}", port_words(port), found.join(", "))), &worst, is_named, port)
}

/// The port that was tried, and its origin if it is not the usual one.
fn port_words(port: u16) -> String {
    if port == 25 { "port 25".to_owned() } else { format!("port {port} (the setting smtp_port)") }
}

/// What a mail server did, the clearest sign last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Unresolved,
    Unreachable(String),
    Silent,
    Mute,
    Refused,
    Reset,
    Rejected(String),
    Greeted,
}

impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reach::Unresolved => f.write_str("has no address"),
            Reach::Unreachable(why) => write!(f, "cannot be reached ({why})"),
            Reach::Silent => f.write_str("does not answer"),
            Reach::Mute => write!(
                f,
                "accepts the connection, but sends no greeting within {} s",
                BANNER_TIMEOUT.as_secs()
            ),
            Reach::Refused => f.write_str("refuses the connection"),
            Reach::Reset => f.write_str("resets the connection"),
            Reach::Rejected(banner) => write!(f, "rejects us ({banner})"),
            Reach::Greeted => f.write_str("answers"),
        }
    }
}

fn judge_reach(finding: Finding, worst: &Reach, is_named: bool, port: u16) -> Finding {
    let none = "full checks cannot ask mail servers; fast checks still work";
    let blocked = format!(
        "ask the provider to open outbound port {port}, use another machine, or name a SOCKS5 proxy with --proxy"
    );
    match worst {
        Reach::Greeted => finding,
        Reach::Unresolved => finding.failure(none, "check the resolver above, or name other hosts with --mx"),
        Reach::Unreachable(_) => finding.failure(none, "give this machine a route to the Internet"),
        Reach::Silent => finding.failure(format!("{none}: a firewall drops outbound port {port}"), blocked),
        Reach::Mute => finding.failure(
            format!("{none}: a firewall or proxy on the way holds the connections, or these servers are out of order"),
            format!("try other hosts with --mx; if none greets, ask the provider to open outbound port {port}, or use another machine"),
        ),
        // The hosts that the operator names may be any machine, also one without a mail server.
        Reach::Refused | Reach::Reset if is_named => finding.failure(
            format!("{none}: no mail server listens at port {port} of the host of --mx, or a firewall answers in its place"),
            format!("check the host and its port (--mx, --smtp-port); if a mail server listens there, {blocked}"),
        ),
        Reach::Refused | Reach::Reset => {
            finding.failure(format!("{none}: a firewall answers in place of the mail servers"), blocked)
        }
        Reach::Rejected(_) => finding.failure(
            "these mail servers reject this source at once, and others probably too",
            "check the lines on reverse DNS and blocklists, or use another source with --source",
        ),
    }
}

/// The address that a host of `--mx` is, if it is no name.
pub fn as_address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn resolve(host: &str, source: &Identity, resolvers: &[SocketAddr]) -> Vec<IpAddr> {
    if let Some(address) = as_address(host) {
        return vec![address];
    }
    let kinds = match source.bind {
        Some(IpAddr::V4(_)) => &[RecordType::A][..],
        Some(IpAddr::V6(_)) => &[RecordType::AAAA],
        None => &[RecordType::A, RecordType::AAAA],
    };
    let look_up = |kind: &RecordType| first_answer(resolvers, host, *kind);
    kinds.iter().filter_map(look_up).flat_map(|reply| reply.addresses()).collect()
}

fn first_answer(resolvers: &[SocketAddr], name: &str, kind: RecordType) -> Option<Reply> {
    resolvers.iter().find_map(|resolver| ask(*resolver, name, kind).ok())
}

fn reach(bind: Option<IpAddr>, to: SocketAddr, patience: Duration) -> Reach {
    let greeting = connect(bind, to).and_then(|stream| match greet(stream, patience) {
        // Somebody accepted the connection, so this is not the silence of a firewall.
        Err(error) if is_timeout(&error) => Ok(None),
        greeting => greeting.map(Some),
    });
    match greeting {
        Ok(None) => Reach::Mute,
        Ok(Some(banner)) if banner.starts_with("2") => Reach::Greeted,
        Ok(Some(banner)) if banner.is_empty() => Reach::Reset,
        Ok(Some(banner)) => Reach::Rejected(banner),
        Err(error) if is_timeout(&error) => Reach::Silent,
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Reach::Refused,
            io::ErrorKind::ConnectionReset => Reach::Reset,
            _ => Reach::Unreachable(error.to_string()),
        },
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn connect(bind: Option<IpAddr>, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(address) = bind {
        socket.bind(&SocketAddr::new(address, 0).into())?;
    }
    socket.connect_timeout(&to.into(), CONNECT)?;
    Ok(TcpStream::from(socket))
}

/// The first line of a mail server's banner, which has to be complete within `patience`. Ends the session with QUIT.
fn greet(mut stream: TcpStream, patience: Duration) -> io::Result<String> {
    let end = Instant::now() + patience;
    stream.set_write_timeout(Some(patience))?;
    let mut banner = Vec::new();
    let mut piece = [0; 512];
    while !banner.contains(&b'\n') && banner.len() < BANNER_BYTES_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            length => banner.extend_from_slice(&piece[..length]),
        }
    }
    // A server that has closed the connection needs no farewell.
    let _ = stream.write_all(b"QUIT\r\n");
    let text = String::from_utf8_lossy(&banner);
    Ok(text.lines().next().unwrap_or_default().chars().take(100).collect())
}

/// The EHLO name and the reverse DNS of each source, which must confirm each other. Mail servers on loopback, which are those of a
/// test, judge no name.
pub fn names(sources: &[Identity], resolvers: &[SocketAddr], on_loopback: bool) -> Vec<Finding> {
    if on_loopback {
        let found = "not checked, because all mail servers are on loopback";
        let finding = |source: &Identity| Finding::of_source("reverse DNS", source.label.clone(), found);
        return sources.iter().map(finding).collect();
    }
    sources.iter().map(|source| names_of(source, resolvers)).collect()
}

const REFUSE: &str = "many mail servers refuse such a client, and their addresses end as `unverifiable`";

fn names_of(source: &Identity, resolvers: &[SocketAddr]) -> Finding {
    let ehlo = source.ehlo.to_ascii_lowercase();
    let finding = |found: String| Finding::of_source("reverse DNS", source.label.clone(), found);
    if ehlo.starts_with('[') {
        return finding(format!("EHLO says {ehlo}, which is no name"))
            .failure(REFUSE, "set --ehlo to a name that resolves to the address of this source");
    }
    let forward: Vec<IpAddr> = [RecordType::A, RecordType::AAAA]
        .into_iter()
        .filter_map(|kind| first_answer(resolvers, &ehlo, kind))
        .flat_map(|reply| reply.addresses())
        .collect();
    if forward.is_empty() {
        return finding(format!("the EHLO name {ehlo} has no address")).failure(
            REFUSE,
            format!("give {ehlo} an A or AAAA record with the address of this source, or set --ehlo"),
        );
    }
    // Behind NAT or a proxy the address that mail servers see is not known here: it must be that of the name.
    let (seen, guessed) = match source.address.filter(|address| is_public(*address)) {
        Some(address) => (address, false),
        None => (forward[0], true),
    };
    if !forward.contains(&seen) {
        return finding(format!("the EHLO name {ehlo} does not resolve to {seen}")).failure(
            REFUSE,
            format!("give {ehlo} a record with {seen}, or set --ehlo to the name of {seen}"),
        );
    }
    let pointer = reversed(seen, "in-addr.arpa", "ip6.arpa");
    let names = first_answer(resolvers, &pointer, RecordType::PTR).map(|reply| reply.names());
    let names = names.unwrap_or_default();
    if names.is_empty() {
        let remedy = format!("ask the provider of {seen} to set its reverse DNS to {ehlo}");
        return finding(format!("{seen} has no name in reverse DNS")).failure(REFUSE, remedy);
    }
    let confirmed = |name: &String| {
        let kind = if seen.is_ipv4() { RecordType::A } else { RecordType::AAAA };
        first_answer(resolvers, name, kind).is_some_and(|reply| reply.addresses().contains(&seen))
    };
    if !names.iter().any(confirmed) {
        let names = names.join(", ");
        return finding(format!("{seen} has the name {names}, which does not resolve to it")).failure(
            REFUSE,
            format!("let {names} resolve to {seen}, or set the reverse DNS of {seen} to {ehlo}"),
        );
    }
    let found = format!("{seen} and {} confirm each other", names.join(", "));
    if guessed {
        let found = format!("{found}; the address that mail servers see is not known here");
        return finding(found).warning(
            "if mail servers see another address, many of them refuse this source",
            format!("make sure that connections from here leave with the address {seen}"),
        );
    }
    if !names.contains(&ehlo) {
        return finding(format!("{found}, but EHLO says {ehlo}"))
            .warning("some mail servers want the same name in EHLO", format!("set --ehlo {}", names[0]));
    }
    finding(found)
}

/// Whether DNS blocklists have the address of a source.
pub fn blocklists(sources: &[Identity], zones: &[String], resolvers: &[SocketAddr]) -> Vec<Finding> {
    let known = sources.iter().filter_map(|source| {
        let address = source.address.filter(|address| is_public(*address) && address.is_ipv4())?;
        Some((source, address))
    });
    let lists = |(source, address): (&Identity, IpAddr)| -> Vec<Finding> {
        zones.iter().map(|zone| listed(source, address, zone, resolvers)).collect()
    };
    known.flat_map(lists).collect()
}

fn listed(source: &Identity, address: IpAddr, zone: &str, resolvers: &[SocketAddr]) -> Finding {
    let finding = |found: String| Finding::of_source("blocklist", format!("{} {zone}", source.label), found);
    let name = reversed(address, zone, zone);
    let Some(reply) = first_answer(resolvers, &name, RecordType::A) else {
        return finding("no answer".into())
            .warning("it is not known whether the list has this source", "check the resolver above");
    };
    judge_listing(finding, address, zone, &reply.addresses())
}

fn judge_listing(
    finding: impl Fn(String) -> Finding,
    address: IpAddr,
    zone: &str,
    codes: &[IpAddr],
) -> Finding {
    // RFC 5782 2.1: addresses in 127.0.0.0/8 are listings. 127.255.255.x is an error of the list, by its operators.
    let is_error = |code: &IpAddr| matches!(code, IpAddr::V4(code) if code.octets()[..3] == [127, 255, 255]);
    let is_listing = |code: &IpAddr| matches!(code, IpAddr::V4(code) if code.is_loopback());
    let texts: Vec<String> = codes.iter().map(IpAddr::to_string).collect();
    let texts = texts.join(", ");
    if codes.iter().any(is_error) {
        return finding(format!("the list does not answer this resolver ({texts})")).warning(
            "it is not known whether the list has this source",
            "use a resolver of your own, because lists refuse public ones",
        );
    }
    if codes.iter().any(is_listing) {
        return finding(format!("{address} is listed ({texts})")).failure(
            "mail servers that use this list refuse this source, and their addresses end as `unverifiable`",
            format!("ask {zone} for removal, or use another source with --source"),
        );
    }
    if !codes.is_empty() {
        return finding(format!("{texts} is no code of a list")).warning(
            "the resolver answers for names that do not exist, or the list is gone",
            "check the resolver above, or name other lists with --blocklist",
        );
    }
    finding(format!("{address} is not listed"))
}

/// Whether this machine has a route to hosts on IPv6.
pub fn ipv6(sources: &[Identity]) -> Finding {
    let finding = |found: &str| Finding::ok("IPv6", "", found);
    let named = sources.iter().any(|source| matches!(source.bind, Some(IpAddr::V6(_))));
    // A root server: a UDP socket that connects sends nothing.
    let far = SocketAddr::from(([0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30], 53));
    let route =
        UdpSocket::bind("[::]:0").and_then(|socket| socket.connect(far).and_then(|()| socket.local_addr()));
    judge_ipv6(
        finding,
        named,
        sources.iter().any(|source| source.bind.is_some()),
        route.ok().map(|from| from.ip()),
    )
}

/// `named`: a source has an address of IPv6. `chosen`: a source has an address. `from`: the address that the system chooses for a
/// host on the Internet; `None` without a route.
fn judge_ipv6(finding: impl Fn(&str) -> Finding, named: bool, chosen: bool, from: Option<IpAddr>) -> Finding {
    let meaning = "domains whose mail servers are on IPv6 alone end as `unverifiable`";
    match from {
        _ if named => finding("a source has an IPv6 address"),
        Some(_) if chosen => {
            finding("no source has an IPv6 address").warning(meaning, "add an IPv6 address with --source")
        }
        Some(address) if !is_public(address) => finding(&format!(
            "no source has a public IPv6 address ({address} is not public)"
        ))
        .warning(format!("{meaning}; there are few of them"), "give this machine a public IPv6 address"),
        Some(_) => finding("there is a route"),
        None => finding("there is no route to IPv6")
            .warning(format!("{meaning}; there are few of them"), "give this machine an IPv6 address"),
    }
}

/// The clock, by the validity of the root zone's signatures.
pub fn clock(resolvers: &[SocketAddr]) -> Finding {
    let finding = |found: String| Finding::ok("clock", "", found);
    let reply = first_answer(resolvers, ".", RecordType::SOA);
    let times = reply.map(|reply| reply.signature_times()).unwrap_or_default();
    judge_clock(finding, &times, wall_clock::now() / 1000)
}

fn judge_clock(finding: impl Fn(String) -> Finding, times: &[(u32, u32)], now: u64) -> Finding {
    let wrong = "credits and limits count in the wrong period, and results expire at the wrong time";
    let Some((from, until)) = times.first() else {
        return finding("not checked: no resolver gives the signatures of the root zone".into()).warning(
            "a wrong clock would not be noticed",
            "use a resolver that supports DNSSEC, or check the clock yourself",
        );
    };
    // Serial number arithmetic (RFC 1982): the times are modulo 2^32.
    let behind = (*from).wrapping_sub(now as u32) as i32;
    let ahead = (now as u32).wrapping_sub(*until) as i32;
    if behind > 0 {
        return finding(format!("it is at least {} behind", span(behind)))
            .failure(wrong, "set the clock, and keep it right with chrony or systemd-timesyncd");
    }
    if ahead > 0 {
        return finding(format!("it is at least {} ahead", span(ahead)))
            .failure(wrong, "set the clock, and keep it right with chrony or systemd-timesyncd");
    }
    finding("it lies within the validity of the root zone's signatures".into())
}

fn span(seconds: i32) -> String {
    match seconds {
        86_400.. => format!("{} days", seconds / 86_400),
        3_600.. => format!("{} hours", seconds / 3_600),
        _ => format!("{} minutes", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Severity;
    use super::*;
    use std::net::Ipv4Addr;

    fn finding(found: String) -> Finding {
        Finding::ok("test", "", found)
    }

    #[test]
    fn mail_servers_on_loopback_judge_no_name() {
        let ehlo = "[192.0.2.1]".to_owned();
        let label = "default".to_owned();
        let source = Identity { label, bind: None, proxy: false, address: None, ehlo };
        for (on_loopback, severity) in [(true, Severity::Ok), (false, Severity::Failure)] {
            let found = names(std::slice::from_ref(&source), &[], on_loopback);
            assert_eq!(found.iter().map(|one| one.severity).collect::<Vec<_>>(), [severity], "{found:?}");
        }
    }

    #[test]
    fn a_clock_is_judged_by_signatures() {
        let day = 86_400;
        for (now, severity, said) in [
            (100 * day, Severity::Ok, "within"),
            (93 * day, Severity::Failure, "2 days behind"),
            (112 * day, Severity::Failure, "2 days ahead"),
        ] {
            let found = judge_clock(finding, &[(95 * day as u32, 110 * day as u32)], now);
            assert_eq!(found.severity, severity, "{found:?}");
            assert!(found.found.contains(said), "{found:?}");
        }
        assert_eq!(judge_clock(finding, &[], 0).severity, Severity::Warning);
        // Times beyond 2^32 seconds.
        let wrapped = judge_clock(finding, &[(u32::MAX - 10, 10)], (1 << 32) + 5);
        assert_eq!(wrapped.severity, Severity::Ok);
    }

    #[test]
    fn ipv6_is_judged_by_the_route_and_its_address() {
        let public = || Some("2a00:1450::1".parse().unwrap());
        let own = || Some("fd00::1".parse().unwrap());
        for (named, chosen, from, severity, said) in [
            (true, true, None, Severity::Ok, "a source has"),
            (false, true, public(), Severity::Warning, "no source has an IPv6 address"),
            (false, false, public(), Severity::Ok, "there is a route"),
            (
                false,
                false,
                own(),
                Severity::Warning,
                "no source has a public IPv6 address (fd00::1 is not public)",
            ),
            (false, false, None, Severity::Warning, "no route"),
        ] {
            let found = judge_ipv6(|found| finding(found.to_owned()), named, chosen, from);
            assert_eq!(found.severity, severity, "{found:?}");
            assert!(found.found.contains(said), "{found:?}");
        }
    }

    #[test]
    fn codes_of_blocklists_are_told_from_errors() {
        let judge = |codes: &[&str]| {
            let codes: Vec<IpAddr> = codes.iter().map(|code| code.parse().unwrap()).collect();
            judge_listing(finding, Ipv4Addr::new(192, 0, 2, 1).into(), "list.example", &codes)
        };
        assert_eq!(judge(&[]).severity, Severity::Ok);
        assert_eq!(judge(&["127.0.0.2"]).severity, Severity::Failure);
        assert!(judge(&["127.0.0.2"]).remedy.contains("list.example"));
        assert_eq!(judge(&["127.255.255.254"]).severity, Severity::Warning);
        assert_eq!(judge(&["127.0.0.4", "127.255.255.252"]).severity, Severity::Warning);
        assert_eq!(judge(&["192.0.2.9"]).severity, Severity::Warning);
    }

    #[test]
    fn what_blocks_port_25_is_named() {
        for (worst, is_named, said) in [
            (Reach::Silent, false, "drops outbound port 25"),
            (Reach::Mute, false, "holds the connections"),
            (Reach::Refused, false, "in place of the mail servers"),
            (Reach::Reset, false, "in place of the mail servers"),
            (Reach::Refused, true, "no mail server listens at port 25 of the host of --mx"),
            (Reach::Reset, true, "no mail server listens at port 25 of the host of --mx"),
            (Reach::Rejected("554 no".into()), false, "reject this source"),
            (Reach::Unresolved, false, "fast checks still work"),
        ] {
            let found = judge_reach(finding(worst.to_string()), &worst, is_named, 25);
            assert_eq!(found.severity, Severity::Failure);
            assert!(found.meaning.contains(said) && !found.remedy.is_empty(), "{found:?}");
        }
        assert_eq!(judge_reach(finding(String::new()), &Reach::Greeted, false, 25).severity, Severity::Ok);
    }

    #[test]
    fn a_mail_server_is_seen_to_answer_refuse_or_reset() {
        use std::net::TcpListener;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let serve = std::thread::spawn(move || {
            let good = "220 mx.example ESMTP\r\n";
            for banner in [good, good, "554 go away\r\n", ""] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(banner.as_bytes()).unwrap();
            }
        });
        let label = "default".to_owned();
        let source = Identity { label, bind: None, proxy: false, address: None, ehlo: String::new() };
        let (sources, hosts) = ([source], ["127.0.0.1".to_owned()]);
        let found = mail_port(&sources, &hosts, true, at.port(), &[]);
        let said = format!("127.0.0.1 answers at port {} (the setting smtp_port)", at.port());
        assert_eq!((found[0].severity, &found[0].found), (Severity::Ok, &said));
        assert_eq!(found[0].heading, Some(format!("port {}", at.port())));
        let unnamed = mail_port(&sources, &hosts, false, at.port(), &[]);
        assert_eq!(unnamed[0].severity, Severity::Warning);
        assert!(unnamed[0].found.contains(&format!("smtp_port is {}", at.port())), "{unnamed:?}");
        assert_eq!(reach(None, at, BANNER_TIMEOUT), Reach::Greeted);
        assert_eq!(
            reach(Some(Ipv4Addr::LOCALHOST.into()), at, BANNER_TIMEOUT),
            Reach::Rejected("554 go away".into())
        );
        assert_eq!(reach(None, at, BANNER_TIMEOUT), Reach::Reset);
        serve.join().unwrap();
        assert_eq!(reach(None, at, BANNER_TIMEOUT), Reach::Refused);
    }

    #[test]
    fn a_mail_server_without_a_whole_greeting_is_mute() {
        use std::net::TcpListener;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // It sends a byte more often than any single read would wait.
        let drip = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"2").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(reach(None, at, Duration::from_millis(200)), Reach::Mute);
        drip.join().unwrap();
    }
}
