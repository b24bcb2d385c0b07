//! Sites: which hosts have the same operator. A site is the unit of pace and of sharding.

use crate::address::registrable;
use crate::dns::Name;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

/// A set of mail hosts with one operator.
///
/// By default, the registrable domain of the host with the lowest MX preference (of several, the first in alphabetical order)
/// identifies the site. If the recipients' domain has the same registrable domain, an address does so instead: the lowest address
/// of the hosts with the lowest preference among those that have addresses. Hosts in the table of known operators are an
/// exception: the table gives their site, and hosts under many domains can have the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    name: Cow<'static, str>,
    provider: &'static str,
    sells_to_firms: bool,
}

impl Site {
    /// The site of a host, by its name.
    pub fn of(host: &Name) -> Site {
        match OPERATORS.iter().find(|[suffix, ..]| host.is_under(suffix)) {
            Some(&[_, site, provider, mark]) => {
                Site { name: Cow::Borrowed(site), provider, sells_to_firms: mark == "firms" }
            }
            None => Site::other(registrable(host.as_str()).to_owned()),
        }
    }

    fn other(name: String) -> Site {
        Site { name: Cow::Owned(name), provider: OTHER, sells_to_firms: false }
    }

    /// The site that is identified by the address of a host.
    pub fn at(address: IpAddr) -> Site {
        Site::other(format!("[{address}]"))
    }

    /// Whether the site is in the table of operators.
    pub fn is_known(&self) -> bool {
        matches!(self.name, Cow::Borrowed(_))
    }

    /// Whether the site is a provider where firms buy mail.
    pub fn sells_to_firms(&self) -> bool {
        self.sells_to_firms
    }

    /// The key of the site: a name in the table such as `google`, a domain, or an address in brackets.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The inbox provider, as in the API's field `inbox_provider`; `other` if the site is not in the table.
    pub fn provider(&self) -> &'static str {
        self.provider
    }
}

/// The table of operators. A row has the end of the host's name, the site, the inbox provider, and `firms` if firms buy mail there.
static OPERATORS: LazyLock<Vec<[&'static str; 4]>> = LazyLock::new(|| {
    let lines = include_str!("../../../data/operators.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let fields = |line: &'static str| line.split(' ').chain([""]).take(4).collect::<Vec<_>>();
    rows.filter_map(|line| fields(line).try_into().ok()).collect()
});

/// The inbox provider of all hosts that are not in the table.
const OTHER: &str = "other";

/// All values of the API's `inbox_provider`, some of them more than once.
pub fn inbox_providers() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|[_, _, provider, _]| *provider).chain([OTHER])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(host: &str) -> Site {
        Site::of(&Name::parse(host).expect("a name"))
    }

    #[test]
    fn hosts_have_sites() {
        for (host, expected, provider) in [
            ("aspmx.l.google.com", "google", "google"),
            ("aspmx2.googlemail.com", "google", "google"),
            ("example-com.mail.protection.outlook.com", "microsoft365", "microsoft"),
            ("example-com.a-v1.mx.microsoft", "microsoft365", "microsoft"),
            ("outlook-com.olc.protection.outlook.com", "outlook", "microsoft"),
            ("qiye163mx01.mxmail.netease.com", "netease", "netease"),
            ("mx.example.co.uk", "example.co.uk", "other"),
            ("mail.example.test", "example.test", "other"),
            ("example.com", "example.com", "other"),
            ("notgoogle.com", "notgoogle.com", "other"),
            ("google.com.example.net", "example.net", "other"),
        ] {
            let found = site(host);
            assert_eq!((found.as_str(), found.provider()), (expected, provider), "{host}");
        }
    }

    #[test]
    fn every_operator_is_found_by_its_hosts() {
        assert!(OPERATORS.len() > 70);
        for [suffix, expected, provider, mark] in OPERATORS.iter() {
            assert!(["", "firms"].contains(mark), "{suffix}");
            for host in [(*suffix).to_owned(), format!("mx1.a.{suffix}")] {
                let found = site(&host);
                assert_eq!((found.as_str(), found.provider()), (*expected, *provider), "{host}");
            }
            let name = Name::parse(suffix).expect("a name");
            let rows = OPERATORS.iter().filter(|[other, ..]| name.is_under(other)).count();
            assert_eq!(rows, 1, "another row hides {suffix}");
        }
    }
}
