//! Finds the hosts to ask for a domain, from its MX records: RFC 5321 5.1, RFC 7505, RFC 3974.
//!
//! [`MxPlan::new`] reads the outcome of the MX question, and says which address questions come next. [`MxPlan::hosts`] reads their
//! outcomes, and returns the hosts in the order in which they are tried. Only answers prove that a domain takes no mail. A failed
//! lookup proves nothing.

mod site;
#[cfg(test)]
mod tests;

use super::{Exchange, Failure, Mx, Name, Outcome, Question, RecordKind, Records};
use crate::address::Domain;
use crate::limits::{MX_ADDRESSES_MAX, MX_HOSTS_MAX};
pub use site::{Site, inbox_providers};
use std::net::IpAddr;

/// Why a domain certainly takes no mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoMail {
    /// The domain has a null MX (RFC 7505).
    NullMx,
    /// The domain does not exist.
    NxDomain,
    /// No MX record names a usable host, or none of the hosts has an address that may be contacted. If the domain has no MX
    /// records, the domain itself is the host.
    NoMailHost,
}

impl NoMail {
    /// The name of the case for a trace or a rule.
    pub fn as_str(self) -> &'static str {
        match self {
            NoMail::NullMx => "null_mx",
            NoMail::NxDomain => "nxdomain",
            NoMail::NoMailHost => "no_mail_host",
        }
    }
}

/// The reason why no host can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dead {
    /// The domain takes no mail.
    TakesNoMail(NoMail),
    /// DNS gave no usable answer.
    CannotTell(Failure),
}

/// The hosts that serve a domain's mail, before their addresses are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MxPlan {
    targets: Vec<Target>,
    site: Site,
    /// Whether the host after which `site` is named has the same registrable domain as the recipients' domain. If so, the host's
    /// name does not show its operator.
    named_in_domain: bool,
    implicit: bool,
}

/// A host, before its addresses are known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    preference: u16,
    name: Name,
}

/// The hosts to ask. There is at least one, and each has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MxSet {
    /// The hosts, in the order in which they are tried.
    pub hosts: Vec<MxHost>,
    /// The site of the host with the lowest preference. The other hosts count as part of this site too, even if another operator
    /// runs them.
    pub site: Site,
    /// The site is identified by an address and not by a name.
    pub by_address: bool,
    /// There are no MX records: the domain itself is the host (RFC 5321 5.1).
    pub implicit: bool,
}

/// A host that serves a domain's mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MxHost {
    /// The name of the host.
    pub name: Name,
    /// Its MX preference; 0 for an implicit MX.
    pub preference: u16,
    /// Its addresses, in the order in which they are tried.
    pub addresses: Vec<IpAddr>,
}

impl MxPlan {
    /// Reads the outcome of a domain's MX question. `random` shuffles hosts of equal preference (RFC 5321 5.1). Hosts beyond the
    /// first [`MX_HOSTS_MAX`] are dropped.
    ///
    /// # Errors
    /// [`Dead`] if this outcome alone shows that no host can be asked.
    pub fn new(domain: &Domain, outcome: &Outcome, random: u64) -> Result<MxPlan, Dead> {
        let records = match outcome {
            Outcome::Records { records: Records::Mx(records), .. } => records,
            Outcome::NoData { .. } => return Ok(MxPlan::implicit(domain)),
            Outcome::NxDomain { .. } => return Err(Dead::TakesNoMail(NoMail::NxDomain)),
            Outcome::Failed { why, .. } => return Err(Dead::CannotTell(*why)),
            Outcome::Records { .. } => return Err(Dead::CannotTell(Failure::Malformed)),
        };
        if records.iter().all(|mx| mx.exchange == Exchange::Null) {
            return Err(Dead::TakesNoMail(NoMail::NullMx));
        }
        let mut targets = targets(records);
        let best = targets.first().ok_or(Dead::TakesNoMail(NoMail::NoMailHost))?;
        let (site, named_in_domain) = (Site::of(&best.name), domain.shares_registrable(best.name.as_str()));
        shuffle(&mut targets, random);
        targets.truncate(MX_HOSTS_MAX);
        Ok(MxPlan { targets, site, named_in_domain, implicit: false })
    }

    fn implicit(domain: &Domain) -> MxPlan {
        let name = Name::from(domain);
        let site = Site::of(&name);
        MxPlan { targets: vec![Target { preference: 0, name }], site, named_in_domain: true, implicit: true }
    }

    /// The site, by the name of the host with the lowest preference (of several, the first in alphabetical order).
    /// [`MxPlan::hosts`] may identify the site by an address instead.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// True if the domain has no MX records and is its own host.
    pub fn is_implicit(&self) -> bool {
        self.implicit
    }

    /// The hosts' names, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.targets.iter().map(|target| &target.name)
    }

    /// The hosts' names by preference. Those of equal preference are in alphabetical order.
    pub fn listed(&self) -> Vec<&Name> {
        let mut listed: Vec<&Target> = self.targets.iter().collect();
        listed.sort_by_key(|target| (target.preference, &target.name));
        listed.into_iter().map(|target| &target.name).collect()
    }

    /// The address questions: A for each host, and AAAA before it if `ipv6` is set.
    pub fn questions(&self, ipv6: bool) -> Vec<Question> {
        let kinds: &[RecordKind] = if ipv6 { &[RecordKind::Aaaa, RecordKind::A] } else { &[RecordKind::A] };
        let of =
            |name: &Name| kinds.iter().map(|&kind| Question { name: name.clone(), kind }).collect::<Vec<_>>();
        self.names().flat_map(of).collect()
    }

    /// Reads the outcomes of the address questions, which `outcome_of` looks up. `may_contact` says which addresses may be
    /// contacted: those that are [public](super::public::is_public), and those that the configuration of mailprobe allows in
    /// addition (`allow_net`).
    ///
    /// A question without an outcome counts as a failure. Hosts without an address are left out, and so are addresses that an
    /// earlier host has. Each host keeps at most [`MX_ADDRESSES_MAX`] addresses of each family.
    ///
    /// # Errors
    /// [`Dead`] if no host is left: [`NoMail::NoMailHost`] if all outcomes are answers, and [`Dead::CannotTell`] if at least one is
    /// a failure.
    pub fn hosts<'a>(
        &self,
        ipv6: bool,
        outcome_of: &mut dyn FnMut(&Question) -> Option<&'a Outcome>,
        may_contact: &dyn Fn(IpAddr) -> bool,
    ) -> Result<MxSet, Dead> {
        let mut hosts: Vec<MxHost> = Vec::with_capacity(self.targets.len());
        let mut failure = None;
        for target in &self.targets {
            let mut families = [Vec::new(), Vec::new()];
            for (family, kind) in families.iter_mut().zip([RecordKind::Aaaa, RecordKind::A]) {
                if kind == RecordKind::Aaaa && !ipv6 {
                    continue;
                }
                match outcome_of(&Question { name: target.name.clone(), kind }) {
                    Some(Outcome::Records { records, .. }) => *family = addresses(records),
                    Some(Outcome::NoData { .. } | Outcome::NxDomain { .. }) => {}
                    Some(Outcome::Failed { why, .. }) => failure = Some(*why),
                    None => failure = Some(Failure::Timeout),
                }
                family.retain(|&a| may_contact(a) && !hosts.iter().any(|h| h.addresses.contains(&a)));
                family.truncate(MX_ADDRESSES_MAX);
            }
            let [v6, v4] = families;
            let addresses = interleave(v6, v4);
            if !addresses.is_empty() {
                hosts.push(MxHost { name: target.name.clone(), preference: target.preference, addresses });
            }
        }
        match failure {
            _ if !hosts.is_empty() => Ok(self.mx_set(hosts)),
            Some(why) => Err(Dead::CannotTell(why)),
            None => Err(Dead::TakesNoMail(NoMail::NoMailHost)),
        }
    }

    /// Makes the result, with the site of the hosts. One machine may serve a thousand domains, under a different host name in each.
    /// So if `named_in_domain` is set, an address identifies the site: of the hosts in `hosts` with the lowest preference, the
    /// lowest address. Hosts in the table of operators are an exception: the table gives their site, whatever the domain of the
    /// recipients is.
    fn mx_set(&self, hosts: Vec<MxHost>) -> MxSet {
        let best = hosts.iter().map(|host| host.preference).min();
        let equal = hosts.iter().filter(|host| Some(host.preference) == best);
        let address = equal
            .flat_map(|host| &host.addresses)
            .min()
            .filter(|_| self.named_in_domain && !self.site.is_known());
        let site = address.map_or_else(|| self.site.clone(), |&address| Site::at(address));
        let by_address = address.is_some();
        MxSet { hosts, site, by_address, implicit: self.implicit }
    }
}

/// The usable hosts by preference and name, each once, with its lowest preference.
fn targets(records: &[Mx]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::with_capacity(records.len());
    let mut sorted: Vec<&Mx> = records.iter().collect();
    sorted.sort();
    for Mx { preference, exchange } in sorted {
        if let Exchange::Host(name) = exchange
            && is_host(name)
            && !targets.iter().any(|t| t.name == *name)
        {
            targets.push(Target { preference: *preference, name: name.clone() });
        }
    }
    targets
}

/// Whether a name can be that of a public host: it has a dot, and its last label is not a number, so it is not an IPv4 address in
/// place of a name. `_` is allowed, because hosting panels make such names.
fn is_host(name: &Name) -> bool {
    name.as_str().rsplit_once('.').is_some_and(|(_, top)| !top.bytes().all(|b| b.is_ascii_digit()))
}

/// Shuffles the hosts of each preference, by a Fisher–Yates shuffle with SplitMix64.
fn shuffle(targets: &mut [Target], random: u64) {
    let mut state = random;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for equal in targets.chunk_by_mut(|a, b| a.preference == b.preference) {
        for last in (1..equal.len()).rev() {
            equal.swap(last, (next() % (last as u64 + 1)) as usize);
        }
    }
}

/// The addresses in these records, each once.
fn addresses(records: &Records) -> Vec<IpAddr> {
    let all: Vec<IpAddr> = match records {
        Records::A(found) => found.iter().copied().map(IpAddr::V4).collect(),
        Records::Aaaa(found) => found.iter().copied().map(IpAddr::V6).collect(),
        _ => Vec::new(),
    };
    let mut once = Vec::with_capacity(all.len());
    for address in all {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    once
}

/// Mixes both families: IPv6, IPv4, IPv6 and so on. If one family is broken, only one try is lost before the other family gets its
/// turn (RFC 8305 4).
fn interleave(v6: Vec<IpAddr>, v4: Vec<IpAddr>) -> Vec<IpAddr> {
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut mixed = Vec::with_capacity(v6.len() + v4.len());
    loop {
        let before = mixed.len();
        mixed.extend(v6.next());
        mixed.extend(v4.next());
        if mixed.len() == before {
            return mixed;
        }
    }
}
