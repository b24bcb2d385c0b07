//! Which domains count as disposable: by the lists of names, and by the mail hosts of the domain. docs/lists.md has the rule.

use super::{DISPOSABLE, parent};
use crate::dns::Name;
use crate::dns::mx::MxSet;
use crate::tables::below_header;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The public lists of the built-in entries, by the bits of an entry.
const SOURCES: [&str; 2] = ["mailchecker", "disposable-email-domains"];
/// The bits of an entry that is on both public lists.
const BOTH: u8 = 3;

/// What the lists of names say about a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listing {
    /// No list has the domain.
    #[default]
    Absent,
    /// The operator's list of allowed domains has it.
    Allowed,
    /// The operator's list of disposable domains has it.
    Operator,
    /// These public lists have it or one above it: a bit for each.
    Public(u8),
}

impl Listing {
    /// What the built-in lists say about a domain in A-label form. Letter case does not matter.
    pub(super) fn built_in(domain: &str) -> Listing {
        let (mut bits, mut rest) = (0, domain);
        while let Some(parent) = parent(rest) {
            bits |= DISPOSABLE.bits(rest).unwrap_or(0);
            rest = parent;
        }
        if bits == 0 { Listing::Absent } else { Listing::Public(bits) }
    }

    /// Why the domain is disposable, whatever its mail hosts are. `None` if only they can tell.
    pub fn settled(self) -> Option<Disposable> {
        match self {
            Listing::Operator | Listing::Public(BOTH) => self.at(MailService::Unknown),
            _ => None,
        }
    }

    /// Why a domain with these mail hosts is disposable; `None` if it is not.
    pub fn at(self, service: MailService) -> Option<Disposable> {
        match (self, service) {
            (Listing::Operator, _) => Some(Disposable::Operator),
            (Listing::Public(BOTH), _) => Some(Disposable::Public(BOTH)),
            (Listing::Public(_), MailService::OfFirms) | (Listing::Allowed, _) => None,
            (Listing::Public(bits), _) => Some(Disposable::Public(bits)),
            (Listing::Absent, MailService::Disposable(line)) => Some(Disposable::MailHost(line)),
            (Listing::Absent, _) => None,
        }
    }
}

/// Why a domain is disposable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposable {
    /// The operator's list has it.
    Operator,
    /// These public lists have it: a bit for each.
    Public(u8),
    /// Its mail host is one of a throw-away service. The line of the table, or that it is below a listed domain.
    MailHost(&'static str),
}

/// The evidence against a mail host below a domain that both public lists have.
const LISTED_HOST: &str = "below a domain of mailchecker and disposable-email-domains";

impl Disposable {
    /// The rule that decides.
    pub fn rule(self) -> &'static str {
        match self {
            Disposable::MailHost(_) => "mx_disposable",
            Disposable::Operator | Disposable::Public(_) => "list_disposable",
        }
    }

    /// The lists that have the domain, or what is known of its mail host.
    pub fn sources(self) -> Vec<String> {
        match self {
            Disposable::Operator => vec!["operator".to_owned()],
            Disposable::Public(bits) => {
                let has = |source: &usize| bits & 1 << source != 0;
                (0..SOURCES.len()).filter(has).map(|source| SOURCES[source].to_owned()).collect()
            }
            Disposable::MailHost(line) => vec![format!("mail host: {line}")],
        }
    }
}

/// What the mail hosts of a domain tell about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MailService {
    /// Nothing is known about them.
    #[default]
    Unknown,
    /// They are those of a throw-away service: the line of the table, or that it is below a listed domain.
    Disposable(&'static str),
    /// They belong to a provider where firms buy mail.
    OfFirms,
    /// The MX records name hosts below the domain itself.
    Own,
}

/// The lines of the table of MX hosts, by the name or address at their beginning.
static MX_HOSTS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let lines = below_header(include_str!("../../data/mx_hosts.txt")).lines();
    lines.filter_map(|line| Some((line.split(' ').next()?, line))).collect()
});

impl MailService {
    /// What these mail hosts tell. Only those with the lowest preference count.
    pub fn of(set: &MxSet) -> MailService {
        if set.site.is_known() {
            return if set.site.sells_to_firms() { MailService::OfFirms } else { MailService::Unknown };
        }
        let best = set.hosts.iter().map(|host| host.preference).min();
        let mut hosts = set.hosts.iter().filter(|host| Some(host.preference) == best);
        let disposable = hosts.find_map(|host| {
            let address = |address: &_| MX_HOSTS.get(&*format!("{address}")).copied();
            line_of(&host.name).or_else(|| host.addresses.iter().find_map(address))
        });
        match disposable {
            Some(line) => MailService::Disposable(line),
            None if set.by_address && !set.implicit => MailService::Own,
            None => MailService::Unknown,
        }
    }
}

/// The line of the table that covers the host.
fn line_of(host: &Name) -> Option<&'static str> {
    let mut rest = Some(host.as_str());
    while let Some(name) = rest {
        if let Some(line) = MX_HOSTS.get(name) {
            return Some(line);
        }
        rest = parent(name);
    }
    (Listing::built_in(host.as_str()) == Listing::Public(BOTH)).then_some(LISTED_HOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Domain;
    use crate::dns::mx::{MxPlan, Site};
    use crate::dns::{Exchange, Mx, Outcome, Records};
    use crate::lists::{ListKind, Lists};
    use std::net::IpAddr;
    use std::time::Duration;

    /// What mail hosts, all with this address, tell about a domain. Without a host, the domain has no MX records.
    fn service(domain: &str, hosts: &[&str], address: &str) -> MailService {
        let ttl = Duration::from_secs(60);
        let exchange = |host: &&str| Exchange::Host(Name::parse(host).expect("a name"));
        let mx = hosts.iter().map(|host| Mx { preference: 10, exchange: exchange(host) }).collect();
        let asked = match hosts {
            [] => Outcome::NoData { ttl },
            _ => Outcome::Records { records: Records::Mx(mx), ttl },
        };
        let plan = MxPlan::new(&Domain::parse(domain).expect("a domain"), &asked, 0).expect("a plan");
        let IpAddr::V4(address) = address.parse().expect("an address") else { unreachable!() };
        let records = Outcome::Records { records: Records::A(vec![address]), ttl };
        MailService::of(&plan.hosts(false, &mut |_| Some(&records), &|_| true).expect("hosts"))
    }

    #[test]
    fn mail_hosts_tell_about_their_domains() {
        let line = |entry: &str| MailService::Disposable(MX_HOSTS[entry]);
        for (domain, hosts, address, expected) in [
            ("new.example", &["mail2.mailinator.com"] as &[&str], "192.0.2.1", line("mailinator.com")),
            ("new.example", &["in.mail.tm"], "192.0.2.1", line("mail.tm")),
            ("new.example", &["recv7.erinn.biz", "recv8.erinn.biz"], "192.0.2.1", line("erinn.biz")),
            ("new.example", &["mail.new.example"], "91.196.52.205", line("91.196.52.205")),
            ("new.example", &[], "91.196.52.205", line("91.196.52.205")),
            // A domain of both lists that is not in the table.
            ("new.example", &["mx.sharklasers.com"], "192.0.2.1", MailService::Disposable(LISTED_HOST)),
            ("firm.example", &["aspmx.l.google.com"], "91.196.52.205", MailService::OfFirms),
            (
                "firm.example",
                &["firm-example.mail.protection.outlook.com"],
                "192.0.2.1",
                MailService::OfFirms,
            ),
            ("firm.example", &["mx10.mailspamprotection.com"], "192.0.2.1", MailService::OfFirms),
            ("fan.example", &["route1.mx.cloudflare.net"], "192.0.2.1", MailService::Unknown),
            ("firm.example", &["mx.firm.example"], "192.0.2.1", MailService::Own),
            ("firm.example", &[], "192.0.2.1", MailService::Unknown),
            ("firm.example", &["mx.hosting.example"], "192.0.2.1", MailService::Unknown),
            ("firm.example", &["xmailinator.com"], "192.0.2.1", MailService::Unknown),
        ] {
            assert_eq!(service(domain, hosts, address), expected, "{domain} {hosts:?} {address}");
        }
    }

    #[test]
    fn the_table_of_mx_hosts_has_no_host_of_firms() {
        assert!(MX_HOSTS.len() > 50);
        for (entry, line) in MX_HOSTS.iter() {
            let [_, date, source] = line.split(' ').collect::<Vec<_>>().try_into().expect("three words");
            assert!(date.len() == 10 && date.starts_with("20") && !source.is_empty(), "{line}");
            if entry.parse::<IpAddr>().is_err() {
                let name = Name::parse(entry).expect("a name");
                assert!(!Site::of(&name).is_known() && !crate::lists::is_free(entry), "{line}");
            }
        }
    }

    #[test]
    fn one_list_alone_can_be_contradicted_and_two_cannot() {
        use MailService::{Disposable as Thrown, OfFirms, Own, Unknown};
        let (one, both) = (Listing::Public(1), Listing::Public(3));
        for (listing, service, expected) in [
            (both, OfFirms, Some(Disposable::Public(3))),
            (one, Unknown, Some(Disposable::Public(1))),
            (one, Own, Some(Disposable::Public(1))),
            (one, Thrown("x"), Some(Disposable::Public(1))),
            (one, OfFirms, None),
            (Listing::Operator, OfFirms, Some(Disposable::Operator)),
            (Listing::Allowed, Thrown("x"), None),
            (Listing::Absent, Thrown("x"), Some(Disposable::MailHost("x"))),
            (Listing::Absent, Own, None),
        ] {
            assert_eq!(listing.at(service), expected, "{listing:?} {service:?}");
            let settled = matches!(listing, Listing::Operator | Listing::Public(3));
            assert_eq!(listing.settled().is_some(), settled, "{listing:?}");
        }
        let mut lists = Lists::default();
        lists.set(ListKind::Allowed, "0-attorney.com").expect("a domain");
        lists.set(ListKind::Disposable, "throw.example").expect("a domain");
        for (domain, listing, sources) in [
            ("mail.yopmail.com", both, &["mailchecker", "disposable-email-domains"] as &[_]),
            ("0-30-24.com", one, &["mailchecker"]),
            ("0-mailer.dynv6.net", Listing::Public(2), &["disposable-email-domains"]),
            ("a.throw.example", Listing::Operator, &["operator"]),
            ("0-attorney.com", Listing::Allowed, &[]),
            ("example.com", Listing::Absent, &[]),
        ] {
            let found = lists.listing(domain);
            let named = found.at(Unknown).map(Disposable::sources).unwrap_or_default();
            assert_eq!(
                (found, named.as_slice()),
                (listing, &sources.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }
}
