//! A cache of domains for the fast checks of one thread: the facts from their names, and the last answers of DNS. New
//! lists of the operator empty it.
//!
//! The engine also has the answers of DNS, and keeps them slightly longer. But it runs on another thread, and a message
//! to it and back costs more than the whole rest of a fast check. The cache has only certain answers, since a failure
//! may be over by the next check.

use crate::fast::DomainName;
use engine::MailHosts;
use engine::proto::address::Domain;
use engine::proto::lists::Lists;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The lifetime of an entry. Together with the engine's cache, an answer of DNS is at most 90 seconds old.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// The largest number of domains.
const KNOWN_MAX: usize = 10_000;

/// The entries of the cache by domain.
#[derive(Default)]
pub struct KnownDomains {
    lists: Arc<Lists>,
    domains: HashMap<Domain, (Known, Instant)>,
}

/// The facts of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The facts that follow from the name.
    pub name: DomainName,
    /// The answer of DNS about mail hosts.
    pub hosts: MailHosts,
}

impl KnownDomains {
    /// The entry of a domain at `now`, if it is not too old and was made from these lists.
    pub fn get(&mut self, lists: &Arc<Lists>, domain: &Domain, now: Instant) -> Option<Known> {
        if !Arc::ptr_eq(&self.lists, lists) {
            *self = KnownDomains { lists: Arc::clone(lists), domains: HashMap::new() };
        }
        let (known, until) = self.domains.get(domain)?;
        (now < *until).then(|| known.clone())
    }

    /// Adds an entry at `now`, which was made from the lists of the last [`get`](KnownDomains::get).
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
    use engine::proto::lists::MailService;

    const SEEN: MailHosts = MailHosts::Seen(MailService::Unknown);

    fn domain(name: &str) -> Domain {
        Address::parse(&format!("a@{name}")).unwrap().domain().clone()
    }

    fn put(known: &mut KnownDomains, name: &str, hosts: MailHosts, now: Instant) {
        let domain = domain(name);
        known.put(domain.clone(), Known { name: DomainName::of(&domain, &known.lists), hosts }, now);
    }

    #[test]
    fn what_is_certain_is_known_for_a_while() {
        let now = Instant::now();
        let mut known = KnownDomains::default();
        let lists = Arc::<Lists>::default();
        let hosts =
            |known: &mut KnownDomains, name, now| known.get(&lists, &domain(name), now).map(|it| it.hosts);
        assert_eq!(hosts(&mut known, "seen.example", now), None);
        for (name, said, kept) in [
            ("seen.example", SEEN, Some(SEEN)),
            ("absent.example", MailHosts::Absent, Some(MailHosts::Absent)),
            ("unknown.example", MailHosts::Unknown, None),
        ] {
            put(&mut known, name, said, now);
            assert_eq!(hosts(&mut known, name, now), kept, "{name}");
            assert_eq!(hosts(&mut known, name, now + KNOWN_FOR), None, "{name}");
        }
        assert_eq!(hosts(&mut known, "other.example", now), None);
        assert!(known.get(&Arc::default(), &domain("seen.example"), now).is_none(), "made from other lists");
    }

    #[test]
    fn it_is_bounded_and_drops_what_is_old_first() {
        let (old, now) = (Instant::now(), Instant::now() + KNOWN_FOR);
        let mut known = KnownDomains::default();
        for number in 0..KNOWN_MAX {
            let at = if number < 100 { old } else { now };
            put(&mut known, &format!("d{number}.example"), SEEN, at);
        }
        put(&mut known, "next.example", SEEN, now);
        assert_eq!(known.domains.len(), KNOWN_MAX - 100 + 1);
        for number in 0..200 {
            put(&mut known, &format!("e{number}.example"), SEEN, now);
            assert!(known.domains.len() <= KNOWN_MAX);
        }
        let lists = Arc::clone(&known.lists);
        assert!(known.get(&lists, &domain("e199.example"), now).is_some());
    }
}
