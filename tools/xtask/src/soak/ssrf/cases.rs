//! Hosts by their DNS records, and the zone with these records.

use super::dns::{Entry, SsrfZone};
use super::vectors::{self, Vector};
use std::net::IpAddr;

/// Each place has its own names, so that it does not use cached answers of another.
const PLACES: [&str; 5] = ["api", "check", "hook", "oauth", "open"];

/// A host with its DNS records.
#[derive(Clone)]
pub struct HostCase {
    pub name: String,
    pub way: HostRoute,
    /// The addresses in the answer to the first question, and in all later answers.
    pub first: Vec<IpAddr>,
    pub later: Vec<IpAddr>,
    /// The addresses among them that may be contacted.
    pub public: Vec<IpAddr>,
    pub is_sample: bool,
}

/// The relation between a domain and its host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HostRoute {
    Mx,
    /// The domain has no MX record, so it is its own host.
    Implicit,
    /// The host of its MX record is an alias.
    Alias,
}

impl HostCase {
    /// Whether later answers differ from the first (DNS rebinding).
    pub fn is_rebound(&self) -> bool {
        self.first != self.later
    }
}

/// The reason of a full check. Filters answer with an unspecified address, so it proves nothing.
pub fn expected(case: &HostCase) -> &'static str {
    let is_unspecified = case.first.iter().any(IpAddr::is_unspecified);
    if is_unspecified { "unverifiable" } else { "mailbox_not_found" }
}

/// The name of a case's domain, which is unique for the place, the kind and the index.
pub fn domain(place: &str, kind: char, index: usize) -> String {
    format!("{place}-{kind}{index}.example")
}

/// The name of the mail host of [`domain`] with the same arguments.
pub fn host(place: &str, kind: char, index: usize) -> String {
    format!("mx.{}", domain(place, kind, index))
}

/// A recipient address at [`domain`] with the same arguments.
pub fn address(place: &str, kind: char, index: usize) -> String {
    format!("user@{}", domain(place, kind, index))
}

/// Hosts with one address each that must not be contacted, and some with several or none.
pub fn refused() -> Vec<HostCase> {
    let case = |way: HostRoute| {
        move |Vector { name, address, is_sample }: Vector| {
            let addresses = vec![address];
            HostCase { name, way, first: addresses.clone(), later: addresses, public: Vec::new(), is_sample }
        }
    };
    let samples = || vectors::forbidden().into_iter().filter(|vector| vector.is_sample);
    let mut cases: Vec<HostCase> = vectors::forbidden().into_iter().map(case(HostRoute::Mx)).collect();
    cases.extend(samples().step_by(5).map(case(HostRoute::Implicit)));
    cases.extend(samples().step_by(3).map(case(HostRoute::Alias)));
    cases
}

/// Hosts that also have a public address, or had one in the first answer.
pub fn mixed(small: bool) -> Vec<HostCase> {
    let special = |text: &str| text.parse::<IpAddr>().ok();
    let specials =
        ["10.66.0.1", "127.0.0.66", "169.254.169.254", "192.168.66.1", "fd66::1", "::1", "::ffff:10.66.0.2"];
    let mut cases = Vec::new();
    let mut next = 0_u8;
    // No two cases share a public address.
    let mut public = |ipv6: bool| {
        next += 1;
        if ipv6 {
            IpAddr::from([0x2a00, 0x1450, 0x4001, next.into(), 0, 0, 0, 1])
        } else {
            IpAddr::from([23, 1, next, 1])
        }
    };
    for special in specials.into_iter().filter_map(special) {
        for (what, way) in [
            ("rebound", HostRoute::Mx),
            ("both", HostRoute::Mx),
            ("other family", HostRoute::Mx),
            ("alias", HostRoute::Alias),
        ] {
            let good = public(special.is_ipv6() != (what == "other family"));
            let (first, later) = match what {
                "rebound" => (vec![good], vec![special]),
                "both" => (vec![special, good], vec![special, good]),
                _ => (vec![good, special], vec![good, special]),
            };
            let name = format!("{good} and {special}: {what}");
            cases.push(HostCase { name, way, first, later, public: vec![good], is_sample: true });
        }
    }
    for Vector { name, address, is_sample } in vectors::public() {
        let addresses = vec![address];
        let (first, later) = (addresses.clone(), addresses.clone());
        cases.push(HostCase { name, way: HostRoute::Mx, first, later, public: addresses, is_sample });
    }
    // The selection contains each way and each family.
    if small { cases.into_iter().step_by(5).collect() } else { cases }
}

/// The zone with the records of all cases, for all places.
pub fn zone(kinds: &[(char, &Vec<HostCase>)]) -> SsrfZone {
    let mut zone = SsrfZone::new();
    for place in PLACES {
        for (kind, cases) in kinds {
            for (index, case) in cases.iter().enumerate() {
                let (domain, host) = (domain(place, *kind, index), host(place, *kind, index));
                let found =
                    Entry { first: case.first.clone(), later: case.later.clone(), ..Entry::default() };
                let to_host = Entry { mx: Some(host.clone()), ..Entry::default() };
                match case.way {
                    HostRoute::Mx => {
                        zone.insert(domain, to_host);
                        zone.insert(host, found);
                    }
                    HostRoute::Implicit => {
                        zone.insert(domain, found.clone());
                        zone.insert(host, found);
                    }
                    HostRoute::Alias => {
                        let target = format!("alias.{domain}");
                        zone.insert(domain, to_host);
                        zone.insert(host, Entry { alias: Some(target.clone()), ..Entry::default() });
                        zone.insert(target, found);
                    }
                }
            }
        }
    }
    zone
}
