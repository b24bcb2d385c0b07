//! The providers with special rules for their replies, in `patterns.rs` and `catch_all.rs`. A provider is recognized by the names
//! of its MX hosts.

/// A provider whose replies differ in meaning from the same replies of other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Provider {
    /// Microsoft 365 (Exchange Online).
    Microsoft365,
    /// Outlook.com, Hotmail, Live.
    Outlook,
    /// Yahoo, AOL and the domains that they host.
    Yahoo,
    /// QQ and Tencent Exmail.
    Qq,
}

use Provider::*;

/// The domains of the MX hosts. A longer domain comes before the shorter one that it ends with.
const MX_DOMAINS: [(&str, Provider); 11] = [
    ("olc.protection.outlook.com", Outlook),
    ("mail.protection.outlook.com", Microsoft365),
    ("protection.outlook.com", Microsoft365),
    ("prod.outlook.com", Microsoft365),
    ("mx.microsoft", Microsoft365),
    ("outlook.com", Outlook),
    ("hotmail.com", Outlook),
    ("yahoodns.net", Yahoo),
    ("yahoo.com", Yahoo),
    ("aol.com", Yahoo),
    ("qq.com", Qq),
];

impl Provider {
    /// The provider that runs the MX host with this name. `None` if none of these providers runs the host.
    pub(super) fn of_mx(mx: &str) -> Option<Provider> {
        let mx = mx.trim_end_matches('.');
        MX_DOMAINS.iter().find(|(domain, _)| is_within(mx, domain)).map(|(_, provider)| *provider)
    }
}

/// Whether `host` is `domain` or a host below it.
fn is_within(host: &str, domain: &str) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    host.get(start..).is_some_and(|tail| tail.eq_ignore_ascii_case(domain))
        && (start == 0 || host.as_bytes()[start - 1] == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_by_whole_labels() {
        for (mx, provider) in [
            ("MTA5.AM0.YAHOODNS.NET.", Some(Yahoo)),
            ("example-com.mail.protection.outlook.com", Some(Microsoft365)),
            ("hotmail-com.olc.protection.outlook.com", Some(Outlook)),
            ("example-com.x-v1.mx.microsoft", Some(Microsoft365)),
            ("mta5.am0.yahoodns.net", Some(Yahoo)),
            ("qq.com", Some(Qq)),
            ("notqq.com", None),
            ("mx.example.com", None),
            ("", None),
        ] {
            assert_eq!(Provider::of_mx(mx), provider, "{mx}");
        }
    }
}
