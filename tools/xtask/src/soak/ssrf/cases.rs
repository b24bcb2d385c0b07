//! Hosts by what DNS says of them, and the zone that says it.

use super::dns::{Entry, Zone};
use super::vectors::{self, Vector};
use std::net::IpAddr;

/// Names of their own for each, so that none has the others' answers.
const PLACES: [&str; 4] = ["api", "check", "oauth", "open"];

/// A host, by what DNS says of it.
pub struct Case {
    pub name: String,
    pub way: Way,
    /// The addresses at the first question, and at all others.
    pub first: Vec<IpAddr>,
    pub later: Vec<IpAddr>,
    /// Those of them that may be contacted.
    pub public: Vec<IpAddr>,
    pub is_sample: bool,
}

/// How a domain comes to its host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Mx,
    /// By having no MX record: it is the host.
    Implicit,
    /// The host of its MX record is an alias.
    Alias,
}

impl Case {
    pub fn is_rebound(&self) -> bool {
        self.first != self.later
    }
}

/// The reason of a full check. An unspecified address is what filters answer, and proves nothing.
pub fn expected(case: &Case) -> &'static str {
    let is_unspecified = case.first.iter().any(IpAddr::is_unspecified);
    if is_unspecified { "unverifiable" } else { "mailbox_not_found" }
}

pub fn domain(place: &str, kind: char, index: usize) -> String {
    format!("{place}-{kind}{index}.example")
}

pub fn host(place: &str, kind: char, index: usize) -> String {
    format!("mx.{}", domain(place, kind, index))
}

pub fn address(place: &str, kind: char, index: usize) -> String {
    format!("user@{}", domain(place, kind, index))
}

/// Hosts at one address each that must not be contacted, and some that are found in other ways.
pub fn refused() -> Vec<Case> {
    let case = |way: Way| {
        move |Vector { name, address, is_sample }: Vector| {
            let addresses = vec![address];
            Case { name, way, first: addresses.clone(), later: addresses, public: Vec::new(), is_sample }
        }
    };
    let samples = || vectors::forbidden().into_iter().filter(|vector| vector.is_sample);
    let mut cases: Vec<Case> = vectors::forbidden().into_iter().map(case(Way::Mx)).collect();
    cases.extend(samples().step_by(5).map(case(Way::Implicit)));
    cases.extend(samples().step_by(3).map(case(Way::Alias)));
    cases
}

/// Hosts that have a public address as well, or had one when they were first asked for.
pub fn mixed(small: bool) -> Vec<Case> {
    let special = |text: &str| text.parse::<IpAddr>().ok();
    let specials =
        ["10.66.0.1", "127.0.0.66", "169.254.169.254", "192.168.66.1", "fd66::1", "::1", "::ffff:10.66.0.2"];
    let mut cases = Vec::new();
    let mut next = 0_u8;
    // No two cases have a public address in common.
    let mut public = |ipv6: bool| {
        next += 1;
        if ipv6 {
            IpAddr::from([0x2a00, 0x1450, 0x4001, next.into(), 0, 0, 0, 1])
        } else {
            IpAddr::from([23, 1, next, 1])
        }
    };
    for special in specials.into_iter().filter_map(special) {
        for (what, way) in
            [("rebound", Way::Mx), ("both", Way::Mx), ("other family", Way::Mx), ("alias", Way::Alias)]
        {
            let good = public(special.is_ipv6() != (what == "other family"));
            let (first, later) = match what {
                "rebound" => (vec![good], vec![special]),
                "both" => (vec![special, good], vec![special, good]),
                _ => (vec![good, special], vec![good, special]),
            };
            let name = format!("{good} and {special}: {what}");
            cases.push(Case { name, way, first, later, public: vec![good], is_sample: true });
        }
    }
    for Vector { name, address, is_sample } in vectors::public() {
        let addresses = vec![address];
        let (first, later) = (addresses.clone(), addresses.clone());
        cases.push(Case { name, way: Way::Mx, first, later, public: addresses, is_sample });
    }
    // Each way and each family is among them.
    if small { cases.into_iter().step_by(5).collect() } else { cases }
}

pub fn zone(kinds: &[(char, &Vec<Case>)]) -> Zone {
    let mut zone = Zone::new();
    for place in PLACES {
        for (kind, cases) in kinds {
            for (index, case) in cases.iter().enumerate() {
                let (domain, host) = (domain(place, *kind, index), host(place, *kind, index));
                let found =
                    Entry { first: case.first.clone(), later: case.later.clone(), ..Entry::default() };
                let to_host = Entry { mx: Some(host.clone()), ..Entry::default() };
                match case.way {
                    Way::Mx => {
                        zone.insert(domain, to_host);
                        zone.insert(host, found);
                    }
                    Way::Implicit => {
                        zone.insert(domain, found.clone());
                        zone.insert(host, found);
                    }
                    Way::Alias => {
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
