//! A cache of domains for the fast checks of one thread: the facts from their names, and the last answers of DNS.
//!
//! The engine also has the answers of DNS, and keeps them slightly longer. But it runs on another thread, and a message
//! to it and back costs more than the whole rest of a fast check. The cache has only certain answers, since a failure
//! may be over by the next check.

use crate::fast::DomainName;
use engine::MailHosts;
use engine::proto::address::Domain;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The lifetime of an entry. Together with the engine's cache, an answer of DNS is at most 90 seconds old.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// The largest number of domains.
const KNOWN_MAX: usize = 10_000;

/// The entries of the cache by domain.
#[derive(Default)]
pub struct KnownDomains {
    domains: HashMap<Domain, (Known, Instant)>,
}

/// The facts of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The facts that follow from the name.
    pub name: DomainName,
    /// The answer of DNS about mail hosts.
    pub hosts: MailHosts,
}

impl KnownDomains {
    /// The entry of a domain at `now`, if it is not too old.
    pub fn get(&self, domain: &Domain, now: Instant) -> Option<Known> {
        let (known, until) = self.domains.get(domain)?;
        (now < *until).then_some(*known)
    }

    /// Adds an entry at `now`.
    pub fn put(&mut self, domain: Domain, known: Known, now: Instant) {
        if known.hosts == MailHosts::Unknown {
            return;
        }
        if self.domains.len() >= KNOWN_MAX {
            self.domains.retain(|_, (_, until)| now < *until);
        }
        if self.domains.len() >= KNOWN_MAX {
            // All entries are young, and the engine still has their answers.
            self.domains.clear();
        }
        self.domains.insert(domain, (known, now + KNOWN_FOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::proto::address::Address;

    fn domain(name: &str) -> Domain {
        Address::parse(&format!("a@{name}")).unwrap().domain().clone()
    }

    fn put(known: &mut KnownDomains, name: &str, hosts: MailHosts, now: Instant) {
        let domain = domain(name);
        known.put(domain.clone(), Known { name: DomainName::of(&domain), hosts }, now);
    }

    #[test]
    fn what_is_certain_is_known_for_a_while() {
        let now = Instant::now();
        let mut known = KnownDomains::default();
        let hosts = |known: &KnownDomains, name, now| known.get(&domain(name), now).map(|it| it.hosts);
        for (name, said, kept) in [
            ("seen.example", MailHosts::Seen, Some(MailHosts::Seen)),
            ("absent.example", MailHosts::Absent, Some(MailHosts::Absent)),
            ("unknown.example", MailHosts::Unknown, None),
        ] {
            put(&mut known, name, said, now);
            assert_eq!(hosts(&known, name, now), kept, "{name}");
            assert_eq!(hosts(&known, name, now + KNOWN_FOR), None, "{name}");
        }
        assert_eq!(hosts(&known, "other.example", now), None);
    }

    #[test]
    fn it_is_bounded_and_drops_what_is_old_first() {
        let (old, now) = (Instant::now(), Instant::now() + KNOWN_FOR);
        let mut known = KnownDomains::default();
        for number in 0..KNOWN_MAX {
            let at = if number < 100 { old } else { now };
            put(&mut known, &format!("d{number}.example"), MailHosts::Seen, at);
        }
        put(&mut known, "next.example", MailHosts::Seen, now);
        assert_eq!(known.domains.len(), KNOWN_MAX - 100 + 1);
        for number in 0..200 {
            put(&mut known, &format!("e{number}.example"), MailHosts::Seen, now);
            assert!(known.domains.len() <= KNOWN_MAX);
        }
        assert!(known.get(&domain("e199.example"), now).is_some());
    }
}
