//! The operator of a domain's mail hosts: the unit of pacing, pooling and sharding.

use crate::address::registrable;
use crate::dns::Name;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

/// A set of mail hosts with one operator.
///
/// By default it is the registrable domain of the best host, or the address of the host if that domain is the recipient's own. A
/// table has the operators with hosts under many domains, or with names of customers under one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    name: Cow<'static, str>,
    provider: &'static str,
}

impl Site {
    /// The site of a host.
    pub fn of(host: &Name) -> Site {
        match OPERATORS.iter().find(|[suffix, ..]| host.is_under(suffix)) {
            Some(&[_, site, provider]) => Site { name: Cow::Borrowed(site), provider },
            None => Site { name: Cow::Owned(registrable(host.as_str()).to_owned()), provider: OTHER },
        }
    }

    /// The site of the operator of the host at an address.
    pub fn at(address: IpAddr) -> Site {
        Site { name: Cow::Owned(format!("[{address}]")), provider: OTHER }
    }

    /// Whether the table has the operator.
    pub fn is_known(&self) -> bool {
        matches!(self.name, Cow::Borrowed(_))
    }

    /// The key: a name of the table such as `google`, a domain, or an address in brackets.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The inbox provider's slug, as the API's `inbox_provider` has it; `other` when it is in no table.
    pub fn provider(&self) -> &'static str {
        self.provider
    }
}

/// Suffix of the host, site, inbox provider.
static OPERATORS: LazyLock<Vec<[&'static str; 3]>> = LazyLock::new(|| {
    let lines = include_str!("../../../data/operators.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok()).collect()
});

/// The inbox provider of all other hosts.
const OTHER: &str = "other";

/// The values of the API's `inbox_provider`, of which some repeat.
pub fn inbox_providers() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|[_, _, provider]| *provider).chain([OTHER])
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
        for [suffix, expected, provider] in OPERATORS.iter() {
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
