//! The mail internet before it is served: the scenario with every default filled in, an address for every host and
//! records for every name. Nothing here changes during the service.

use crate::{
    conduct::Conduct,
    expected::Expected,
    mailbox::{Greylisting, Mailboxes},
    personality::{Personalities, Personality, Template},
    random::Random,
    spec::{
        DnsBehaviour, DnsSpec, DomainSpec, FaultSpec, GroupSpec, HostSpec, HostState, Listen, ListenMode,
        Misdeed, Spec, Stage, VariantSpec,
    },
    values::{Certificate, MxSpec, ServerSpec, Span},
    zone::{self, Zone},
};
use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

#[derive(Debug)]
pub(crate) struct World {
    pub seed: u64,
    pub journal: bool,
    /// The pattern of the local parts that are counted, in lower case.
    pub recipients: Option<Box<str>>,
    pub space_before_path: bool,
    pub dns: DnsSpec,
    pub zone: Zone,
    pub hosts: Vec<Host>,
    pub by_address: HashMap<IpAddr, u32>,
    pub by_host_name: HashMap<Box<str>, u32>,
    pub domains: Vec<Domain>,
    pub by_domain: HashMap<Box<str>, u32>,
    pub roles: HashSet<String>,
    pub spamtraps: HashSet<String>,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub name: Box<str>,
    /// The addresses of the host, also if it is refused or a black hole.
    pub addresses: Vec<IpAddr>,
    pub state: HostState,
    pub behaviour: Arc<Behaviour>,
}

#[derive(Debug)]
pub(crate) struct Behaviour {
    pub personality: Arc<Personality>,
    pub latency: Span,
    pub certificate: Certificate,
    pub faults: Vec<Fault>,
    pub conduct: Option<Conduct>,
}

/// A misdeed, and its reply if it has one.
#[derive(Debug)]
pub(crate) struct Fault {
    pub spec: FaultSpec,
    pub reply: Option<Template>,
}

#[derive(Debug)]
pub(crate) struct Domain {
    pub name: Box<str>,
    /// The hosts that take its mail, as indices of [`World::hosts`].
    pub hosts: Vec<u32>,
    pub mailboxes: Arc<Mailboxes>,
    pub disposable: bool,
    pub accepts_prove_nothing: bool,
    pub expected: Option<Expected>,
}

/// Undisputed roles, most of them from RFC 2142; the key `roles` replaces them.
const ROLES: &str = "abuse admin contact ftp hostmaster info marketing news noc postmaster sales security support usenet webmaster www";

/// The network of black holes, so that one socket filter can recognise them.
pub(crate) const BLACKHOLE_NET: Ipv4Addr = Ipv4Addr::new(127, 250, 0, 0);
const DOMAINS_MAX: usize = 1_000_000;

pub(crate) fn build(spec: Spec) -> Result<World, String> {
    let Listen { after, addresses, .. } = spec.listen;
    if !after.is_loopback() && addresses != ListenMode::Wildcard {
        return Err("addresses outside loopback need addresses = \"wildcard\"".into());
    }
    if let Some(lie) = spec.dns.lie.filter(|lie| !lie.is_lie()) {
        return Err(format!("dns.lie = {lie:?}: this is no answer that proves nothing"));
    }
    let mut builder = Builder {
        personalities: Personalities::new(&spec.personality)?,
        next_address: u32::from(after),
        last_address: u32::from(if after.is_loopback() { BLACKHOLE_NET } else { Ipv4Addr::BROADCAST }),
        next_blackhole: u32::from(BLACKHOLE_NET),
        taken: HashSet::new(),
        world: World {
            seed: spec.seed,
            journal: spec.journal,
            space_before_path: spec.space_before_path,
            recipients: spec.recipients.map(|pattern| pattern.to_ascii_lowercase().into()),
            dns: spec.dns,
            zone: Zone::default(),
            hosts: Vec::new(),
            by_address: HashMap::new(),
            by_host_name: HashMap::new(),
            domains: Vec::new(),
            by_domain: HashMap::new(),
            roles: match spec.roles {
                Some(roles) => roles.iter().map(|role| role.to_ascii_lowercase()).collect(),
                None => ROLES.split(' ').map(str::to_owned).collect(),
            },
            spamtraps: spec.spamtraps.iter().map(|trap| trap.to_ascii_lowercase()).collect(),
        },
    };
    for host in &spec.host {
        builder.taken.extend(host.addresses.iter().chain(&host.dead_addresses));
    }
    for host in spec.host {
        let name = host.name.clone();
        builder.named_host(host).map_err(|error| format!("host `{name}`: {error}"))?;
    }
    for domain in spec.domain {
        let name = domain.name.clone();
        builder.domain(domain, None).map_err(|error| format!("domain `{name}`: {error}"))?;
    }
    for group in spec.group {
        let name = group.name.clone();
        builder.group(group).map_err(|error| format!("group `{name}`: {error}"))?;
    }
    builder.world.zone.finish();
    builder.link()?;
    Ok(builder.world)
}

struct Builder {
    personalities: Personalities,
    next_address: u32,
    last_address: u32,
    next_blackhole: u32,
    taken: HashSet<IpAddr>,
    world: World,
}

/// The hosts of a group that do not answer, and the mailboxes that its domains share.
struct Shared<'a> {
    random: &'a mut Random,
    refused: f64,
    blackhole: f64,
    mailboxes: Arc<Mailboxes>,
    behaviour: Arc<Behaviour>,
}

impl Builder {
    fn address(&mut self, state: HostState) -> Result<IpAddr, String> {
        let (next, end) = match state {
            HostState::Blackhole => (&mut self.next_blackhole, u32::from(BLACKHOLE_NET) | 0xffff),
            _ => (&mut self.next_address, self.last_address),
        };
        loop {
            *next += 1;
            if *next >= end {
                return Err("there are more hosts than loopback addresses".into());
            }
            let address = IpAddr::V4(Ipv4Addr::from(*next));
            if !self.taken.contains(&address) {
                return Ok(address);
            }
        }
    }

    fn behaviour(&self, spec: ServerSpec) -> Result<Arc<Behaviour>, String> {
        let personality = self.personalities.find(&spec.personality)?;
        let faults = spec.faults.into_iter().map(|fault| check_fault(fault, &personality));
        let faults = faults.collect::<Result<Vec<Fault>, String>>()?;
        let conduct = Conduct::new(spec.changes, &spec.nodes, spec.given, spec.filters_random.as_deref())?;
        Ok(Arc::new(Behaviour {
            personality,
            latency: spec.latency_ms,
            certificate: spec.certificate,
            faults,
            conduct,
        }))
    }

    fn add_host(&mut self, host: Host) -> Result<(), String> {
        let index = self.world.hosts.len() as u32;
        for &address in &host.addresses {
            if self.world.by_address.insert(address, index).is_some() {
                return Err(format!("the address {address} belongs to two hosts"));
            }
        }
        self.world.by_host_name.insert(host.name.clone(), index);
        self.world.hosts.push(host);
        Ok(())
    }

    fn named_host(&mut self, spec: HostSpec) -> Result<(), String> {
        let name = zone::name(&spec.name)?;
        let cname = alias(spec.cname.as_deref())?;
        let plain = cname.is_none() && matches!(spec.dns, DnsBehaviour::Nxdomain | DnsBehaviour::Nodata);
        if (cname.is_some() || plain) && !(spec.addresses.is_empty() && spec.dead_addresses.is_empty()) {
            return Err("a host with cname, or with dns = nxdomain or nodata, has no addresses".into());
        }
        let behaviour = self.behaviour(spec.server)?;
        let records = self.world.zone.add(&name)?;
        records.behaviour = spec.dns;
        records.ttl = spec.ttl;
        if cname.is_some() || plain {
            records.cname = cname;
            return Ok(());
        }
        let mut addresses = spec.addresses;
        if addresses.is_empty() && spec.dead_addresses.is_empty() {
            addresses.push(self.address(spec.state)?);
        }
        let served: Vec<IpAddr> = addresses.iter().copied().filter(|a| a.is_loopback()).collect();
        let in_blackhole_net = |a: &IpAddr| matches!(a, IpAddr::V4(v4) if v4.octets()[..2] == [127, 250]);
        if served.iter().any(|a| in_blackhole_net(a) != (spec.state == HostState::Blackhole)) {
            return Err(
                "a host has an address of 127.250.0.0/16 if and only if it has state = \"blackhole\"".into(),
            );
        }
        let all = [spec.dead_addresses, addresses].concat();
        for &address in all.iter().filter(|_| spec.ptr) {
            self.world.zone.at(&zone::reverse(address)).ptr = Some(zone::wire(&name)?);
        }
        self.world.zone.at(&name).addresses = all;
        self.add_host(Host { name: name.into(), addresses: served, state: spec.state, behaviour })
    }

    /// A host of a single domain, with one address.
    fn own_host(&mut self, name: &str, behaviour: &Arc<Behaviour>, state: HostState) -> Result<(), String> {
        let address = self.address(state)?;
        self.world.zone.at(&zone::reverse(address)).ptr = Some(zone::wire(name)?);
        self.world.zone.at(name).addresses = vec![address];
        let behaviour = behaviour.clone();
        self.add_host(Host { name: name.into(), addresses: vec![address], state, behaviour })
    }

    fn domain(&mut self, spec: DomainSpec, shared: Option<Shared<'_>>) -> Result<(), String> {
        if self.world.domains.len() >= DOMAINS_MAX {
            return Err(format!("more than {DOMAINS_MAX} domains"));
        }
        let top = zone::name(&spec.name)?;
        if spec.server.is_some() && !matches!(spec.mx, MxSpec::Own(..) | MxSpec::Implicit) {
            return Err(
                "server is only for the domain's own hosts; the hosts of an mx list have it in [[host]]"
                    .into(),
            );
        }
        let (mailboxes, behaviour) = match &shared {
            Some(shared) => (shared.mailboxes.clone(), shared.behaviour.clone()),
            None => (
                mailboxes(
                    &spec.mailboxes,
                    spec.unknown,
                    Greylisting {
                        ms: spec.greylist_ms,
                        everyone: spec.greylist_everyone,
                        by: spec.greylist_by,
                    },
                )?,
                self.behaviour(spec.server.clone().unwrap_or_default())?,
            ),
        };
        let mut name = top.clone();
        for hop in 1..=spec.cname_hops {
            let next = format!("c{hop}.{top}");
            let records = self.world.zone.add(&name)?;
            records.ttl = spec.ttl;
            records.cname = alias(Some(&next))?;
            name = next;
        }
        let records = self.world.zone.add(&name)?;
        records.behaviour = spec.dns;
        records.ttl = spec.ttl;
        records.cname = alias(spec.cname.as_deref())?;
        if records.cname.is_none() {
            self.mail_hosts(&spec, &name, &behaviour, shared)?;
        }
        self.texts(&spec.txt, &top)?;
        let index = self.world.domains.len() as u32;
        self.world.by_domain.insert(top.as_str().into(), index);
        self.world.domains.push(Domain {
            name: top.into(),
            hosts: Vec::new(),
            mailboxes,
            disposable: spec.disposable,
            accepts_prove_nothing: spec.accepts_prove_nothing,
            expected: spec.expected,
        });
        Ok(())
    }

    fn mail_hosts(
        &mut self,
        spec: &DomainSpec,
        name: &str,
        behaviour: &Arc<Behaviour>,
        mut shared: Option<Shared<'_>>,
    ) -> Result<(), String> {
        match &spec.mx {
            MxSpec::None => {}
            MxSpec::Null => self.world.zone.at(name).mx = vec![(0, "".into(), zone::wire("")?)],
            MxSpec::Implicit => self.own_host(name, behaviour, HostState::Up)?,
            MxSpec::Records(records) => {
                for (preference, host) in records {
                    let host = zone::name(host)?;
                    let record = (*preference, host.as_str().into(), zone::wire(&host)?);
                    self.world.zone.at(name).mx.push(record);
                }
            }
            &MxSpec::Own(least, most) => {
                let hosts = shared
                    .as_mut()
                    .map_or(least, |shared| shared.random.between(u64::from(least), u64::from(most)) as u32);
                for number in 1..=hosts {
                    let host = zone::name(&format!("mx{number}.{name}"))?;
                    self.world.zone.add(&host)?;
                    let state = shared.as_mut().map_or(HostState::Up, Shared::state);
                    self.own_host(&host, behaviour, state)?;
                    let preference = if spec.equal { 10 } else { number as u16 * 10 };
                    let record = (preference, host.as_str().into(), zone::wire(&host)?);
                    self.world.zone.at(name).mx.push(record);
                }
            }
        }
        Ok(())
    }

    fn texts(
        &mut self,
        texts: &std::collections::BTreeMap<String, Vec<String>>,
        top: &str,
    ) -> Result<(), String> {
        for (owner, texts) in texts {
            let owner = if owner == "@" { top.to_owned() } else { zone::name(&format!("{owner}.{top}"))? };
            // A record has strings of at most 255 bytes (RFC 1035 3.3.14), which a reader joins.
            let strings = texts.iter().map(|text| text.as_bytes().chunks(255).map(Into::into).collect());
            self.world.zone.at(&owner).txt = strings.collect();
        }
        Ok(())
    }

    fn group(&mut self, spec: GroupSpec) -> Result<(), String> {
        if !spec.name.contains("{n}") {
            return Err("the name must contain {n}, the place of the number".into());
        }
        if spec.variant.iter().map(|variant| variant.percent).sum::<f64>() > 100.0 {
            return Err("the variants exceed 100 percent".into());
        }
        let mut random = Random::new(self.world.seed ^ crate::random::hash(0, &[spec.name.as_bytes()]));
        // The shared parts of a variant are built once; index 0 is the group itself.
        let mut kinds = vec![self.kind(&spec, None)?];
        for variant in &spec.variant {
            kinds.push(self.kind(&spec, Some(variant))?);
        }
        for number in spec.first..spec.first.saturating_add(spec.count) {
            let variant = draw(&mut random, &spec.variant);
            let (mailboxes, behaviour) = kinds[variant.map_or(0, |at| at + 1)].clone();
            let variant = variant.map(|at| &spec.variant[at]);
            let domain = member(&spec, number, variant);
            let shared = Shared {
                random: &mut random,
                refused: spec.refused_hosts,
                blackhole: spec.blackhole_hosts,
                mailboxes,
                behaviour,
            };
            self.domain(domain, Some(shared))?;
        }
        Ok(())
    }

    fn kind(
        &self,
        group: &GroupSpec,
        variant: Option<&VariantSpec>,
    ) -> Result<(Arc<Mailboxes>, Arc<Behaviour>), String> {
        let of = |own: Option<u64>, all: Option<u64>| own.or(all);
        let rules = variant.and_then(|v| v.mailboxes.as_ref()).unwrap_or(&group.mailboxes);
        let unknown = variant.and_then(|v| v.unknown).unwrap_or(group.unknown);
        let greylisting = Greylisting {
            ms: of(variant.and_then(|v| v.greylist_ms), group.greylist_ms),
            everyone: variant.and_then(|v| v.greylist_everyone).unwrap_or(group.greylist_everyone),
            by: group.greylist_by,
        };
        let server = variant.and_then(|v| v.server.as_ref()).unwrap_or(&group.server);
        Ok((mailboxes(rules, unknown, greylisting)?, self.behaviour(server.clone())?))
    }

    /// Finds the hosts of every domain, after all are known. An MX record with an undeclared host is an error.
    fn link(&mut self) -> Result<(), String> {
        for at in 0..self.world.domains.len() {
            let mut hosts = Vec::new();
            let top = self.world.domains[at].name.clone();
            let Some((end, records)) = self.follow(&top) else { continue };
            if records.mx.is_empty() {
                hosts.extend(self.world.by_host_name.get(end));
            }
            for (_, host, _) in records.mx.iter().filter(|(_, host, _)| !host.is_empty()) {
                if self.world.zone.find(host).is_none() {
                    return Err(format!(
                        "domain `{top}`: the mx host `{host}` is not declared; a host that shall not exist is \
                         [[host]] with dns = \"nxdomain\""
                    ));
                }
                hosts.extend(self.host_behind(host));
            }
            self.world.domains[at].hosts = hosts;
        }
        Ok(())
    }

    /// The last name of a chain and its records; `None` if the chain is a loop or its end does not exist.
    fn follow<'a>(&'a self, name: &'a str) -> Option<(&'a str, &'a zone::Records)> {
        let mut name = name;
        for _ in 0..=zone::CHAIN_MAX {
            let records = self.world.zone.find(name)?;
            match &records.cname {
                None => return Some((name, records)),
                Some((next, _)) => name = next,
            }
        }
        None
    }

    fn host_behind(&self, name: &str) -> Option<u32> {
        let (end, _) = self.follow(name)?;
        self.world.by_host_name.get(end).copied()
    }
}

impl Shared<'_> {
    fn state(&mut self) -> HostState {
        if self.random.percent(self.refused) {
            HostState::Refused
        } else if self.random.percent(self.blackhole) {
            HostState::Blackhole
        } else {
            HostState::Up
        }
    }
}

fn alias(target: Option<&str>) -> Result<Option<(Box<str>, hickory_proto::rr::Name)>, String> {
    let Some(target) = target else { return Ok(None) };
    let target = zone::name(target)?;
    let wire = zone::wire(&target)?;
    Ok(Some((target.into(), wire)))
}

fn mailboxes(
    rules: &std::collections::BTreeMap<crate::mailbox::Mailbox, Vec<String>>,
    unknown: crate::mailbox::Mailbox,
    greylisting: Greylisting,
) -> Result<Arc<Mailboxes>, String> {
    Mailboxes::new(rules, unknown, greylisting).map(Arc::new)
}

/// Draws the variant of a domain in a group, if it has one.
fn draw(random: &mut Random, variants: &[VariantSpec]) -> Option<usize> {
    let mut at = random.below(1_000_000) as f64 / 10_000.0;
    for (index, variant) in variants.iter().enumerate() {
        if at < variant.percent {
            return Some(index);
        }
        at -= variant.percent;
    }
    None
}

fn member(group: &GroupSpec, number: u32, variant: Option<&VariantSpec>) -> DomainSpec {
    DomainSpec {
        name: group.name.replace("{n}", &number.to_string()),
        mx: variant.and_then(|v| v.mx.clone()).unwrap_or_else(|| group.mx.clone()),
        equal: group.equal,
        dns: variant.and_then(|v| v.dns).unwrap_or_default(),
        txt: group.txt.clone(),
        ..DomainSpec::default()
    }
}

fn check_fault(spec: FaultSpec, personality: &Personality) -> Result<Fault, String> {
    use Misdeed::{Close, Early, Garbage, Hang, Inject, Late, Reply, Reset};
    let (at, does) = (spec.at, spec.does);
    let fits = match at {
        Stage::Connect => matches!(does, Close | Reset | Hang),
        Stage::Tls => matches!(does, Close | Reset | Hang | Garbage),
        Stage::Starttls => true,
        _ => does != Inject,
    };
    if !fits {
        return Err(format!(
            "fault at {at:?} does {does:?}: at connect only close, reset, hang; at tls also garbage; inject only \
             at starttls"
        ));
    }
    if matches!(at, Stage::Starttls | Stage::Tls) && !personality.starttls {
        return Err(format!("fault at {at:?}: the personality `{}` has no STARTTLS", personality.name));
    }
    let reply = match (&spec.text, does) {
        (Some(text), Reply) => Some(Template::parse(text)?),
        (None, Reply) => return Err("fault: does = \"reply\" requires text".into()),
        (None, _) | (Some(_), Early | Late) => None,
        (Some(_), _) => return Err("fault: text requires does = \"reply\", \"early\" or \"late\"".into()),
    };
    if spec.from == 0 || spec.first == Some(0) {
        return Err("fault: from and first count from 1".into());
    }
    if !(spec.percent > 0.0 && spec.percent <= 100.0) {
        return Err("fault: percent must be above 0 and at most 100".into());
    }
    Ok(Fault { spec, reply })
}
