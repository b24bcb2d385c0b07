//! What was found out about domains a moment ago, for the fast checks of one thread: what their names tell, and what DNS
//! said of them.
//!
//! The engine knows the latter too, and a little longer; but it is on another thread, and the way there and back costs
//! more than the whole rest of a fast check. Only what is certain is kept: a failure may be over by the next check.

use crate::fast::DomainName;
use engine::MailHosts;
use engine::proto::address::Domain;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long it is kept; with the engine's own memory an answer of DNS is at most a minute and a half old.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Most domains.
const KNOWN_MAX: usize = 10_000;

/// See the module.
#[derive(Default)]
pub struct KnownDomains {
    domains: HashMap<Domain, (Known, Instant)>,
}

/// What is known of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// By its name.
    pub name: DomainName,
    /// By DNS.
    pub hosts: MailHosts,
}

impl KnownDomains {
    /// What is known at `now`.
    pub fn get(&self, domain: &Domain, now: Instant) -> Option<Known> {
        let (known, until) = self.domains.get(domain)?;
        (now < *until).then_some(*known)
    }

    /// Keeps what was found at `now`.
    pub fn put(&mut self, domain: Domain, known: Known, now: Instant) {
        if known.hosts == MailHosts::Unknown {
            return;
        }
        if self.domains.len() >= KNOWN_MAX {
            self.domains.retain(|_, (_, until)| now < *until);
        }
        if self.domains.len() >= KNOWN_MAX {
            // All of it is fresh: the engine still knows what is dropped here.
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
