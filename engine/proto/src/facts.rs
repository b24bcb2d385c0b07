//! What a domain's DNS says about its mail: the hosts that take it, SPF (RFC 7208), DMARC (RFC 7489), DKIM (RFC 6376), BIMI
//! (draft-brand-indicators-for-message-identification) and the reverse DNS of its mail host.
//!
//! Records are read as strictly as receivers of mail read them. A record that a receiver would ignore counts as absent.

use crate::address::Domain;
use crate::dns::{Outcome, Records};
use crate::limits::TXT_TAGS_MAX;
use crate::lists::MailService;

/// The DNS facts of a domain. A DKIM, BIMI or PTR record that could not be looked up counts as absent. Without an answer for the
/// mail hosts, SPF or DMARC, there are no facts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DnsFacts {
    /// The provider of the mailboxes, or of the filter before them; `None` if no host takes the domain's mail.
    pub provider: Option<&'static str>,
    /// The hosts that take the domain's mail, by preference: at most [`MX_HOSTS_MAX`](crate::limits::MX_HOSTS_MAX). If the domain
    /// has no MX records, this is the domain itself (RFC 5321 5.1). If DNS says that no host takes its mail, the list is empty.
    pub mx_hosts: Vec<Box<str>>,
    /// What these hosts tell about the domain.
    pub service: MailService,
    /// There is exactly one SPF record.
    pub spf: bool,
    /// The policy for mail that fails the DMARC check; `None` if there is no valid one.
    pub dmarc_policy: Option<DmarcPolicy>,
    /// Those of the [`DKIM_SELECTORS`] that have a key. Empty if a made-up selector, asked for as a test, also has a key or could
    /// not be looked up: then a wildcard may be the cause of the keys.
    pub dkim_selectors: Vec<&'static str>,
    /// The domain has a brand indicator, a logo for mail programs (BIMI). If no BIMI record of the domain was found, the record of
    /// its organizational domain counts.
    pub bimi: bool,
    /// The address that mailprobe would connect to first has a PTR record. False if there is no such address.
    pub ptr: bool,
}

/// A DMARC policy: the value of `p` or `sp` (RFC 7489 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DmarcPolicy {
    /// `p=none`: receivers only report (RFC 7489 6.3).
    None,
    /// `p=quarantine`: receivers treat the mail as suspicious.
    Quarantine,
    /// `p=reject`: receivers refuse the mail.
    Reject,
}

impl DmarcPolicy {
    /// The policy as DMARC records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            DmarcPolicy::None => "none",
            DmarcPolicy::Quarantine => "quarantine",
            DmarcPolicy::Reject => "reject",
        }
    }

    fn parse(text: &str) -> Option<DmarcPolicy> {
        [DmarcPolicy::None, DmarcPolicy::Quarantine, DmarcPolicy::Reject]
            .into_iter()
            .find(|policy| policy.as_str().eq_ignore_ascii_case(text))
    }
}

/// The DKIM selectors that are asked for. A domain does not list its selectors, so common ones are tried: general words, and those
/// that mail services give to their customers.
pub const DKIM_SELECTORS: [&str; 32] = [
    "default",
    "dkim",
    "mail",
    "email",
    "smtp",
    "key1",
    "s1",
    "s2",
    // Google, for its customers and for gmail.com.
    "google",
    "20230601",
    // Microsoft 365, Yahoo, iCloud.
    "selector1",
    "selector2",
    "s1024",
    "s2048",
    "sig1",
    // Fastmail, Proton, Zoho and Mail.ru. Yandex uses `mail`.
    "fm1",
    "fm2",
    "fm3",
    "protonmail",
    "protonmail2",
    "protonmail3",
    "zoho",
    "zmail",
    "mailru",
    // Mailchimp and Mandrill, Mailjet, Brevo, Constant Contact, Klaviyo, Zendesk.
    "k1",
    "k2",
    "mandrill",
    "mailjet",
    "brevo1",
    "ctct1",
    "kl",
    "zendesk1",
];

/// The TXT records of an outcome. The slice is empty if DNS says that there are none; `None` if DNS gave no usable answer.
pub fn texts(outcome: &Outcome) -> Option<&[Box<str>]> {
    match outcome {
        Outcome::Records { records: Records::Txt(texts), .. } => Some(texts),
        Outcome::NoData { .. } | Outcome::NxDomain { .. } => Some(&[]),
        Outcome::Records { .. } | Outcome::Failed { .. } => None,
    }
}

/// Whether there is exactly one SPF record (RFC 7208 4.5). Several are an error and count as none.
pub fn has_spf(texts: &[Box<str>]) -> bool {
    let versions = texts.iter().filter_map(|text| text.split(' ').next());
    versions.filter(|version| version.eq_ignore_ascii_case("v=spf1")).count() == 1
}

/// The organizational domain (RFC 7489 3.2). If `domain` has no DMARC record, the record of its organizational domain counts.
/// `None` if `domain` is itself the organizational domain.
pub fn organizational(domain: &Domain) -> Option<Domain> {
    let organization = domain.registrable();
    (organization != domain.as_str()).then(|| Domain::parse(organization).ok()).flatten()
}

/// The DMARC record of a name (RFC 7489 6.6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dmarc {
    /// There is no record. The record of the organizational domain counts, if that is another domain.
    Absent,
    /// There is a record with these policies. Both are `None` if the record has no usable policy (see [`dmarc`]), or if there are
    /// several records.
    Record {
        /// The policy for the domain of the record.
        own: Option<DmarcPolicy>,
        /// The policy for the domains below it.
        below: Option<DmarcPolicy>,
    },
}

/// Reads the DMARC record of a name (RFC 7489 6.6.3). Several records count as a record without a policy, so the organizational
/// domain is not asked.
pub fn dmarc(texts: &[Box<str>]) -> Dmarc {
    let mut records = texts.iter().filter_map(|text| tags(text, Some("DMARC1")));
    match (records.next(), records.next()) {
        (None, _) => Dmarc::Absent,
        (Some(tags), None) => {
            let policy = |name| value(&tags, name).map(DmarcPolicy::parse);
            let (own, below) = match (policy("p"), policy("sp")) {
                (Some(Some(own)), None) => (Some(own), Some(own)),
                (Some(Some(own)), Some(Some(below))) => (Some(own), Some(below)),
                // `p` is missing or broken, or `sp` is broken. Then a record that says where to send reports counts as `p=none`,
                // and any other counts as a record without a policy.
                _ => {
                    let reports = value(&tags, "rua").is_some_and(|to| to.contains(':'));
                    let policy = reports.then_some(DmarcPolicy::None);
                    (policy, policy)
                }
            };
            Dmarc::Record { own, below }
        }
        (Some(_), Some(_)) => Dmarc::Record { own: None, below: None },
    }
}

/// Whether one of the texts is a DKIM key that was not revoked (RFC 6376 3.6.1).
pub fn has_dkim_key(texts: &[Box<str>]) -> bool {
    texts.iter().any(|text| {
        let tags = tags(text, Some("DKIM1")).or_else(|| tags(text, None).filter(|t| value(t, "v").is_none()));
        tags.is_some_and(|tags| value(&tags, "p").is_some_and(|key| !key.is_empty()))
    })
}

/// Whether there is a brand indicator; `None` without a BIMI record. A record with neither a logo nor a certificate says that the
/// domain has no brand indicator. Several records count as such a record.
pub fn has_bimi(texts: &[Box<str>]) -> Option<bool> {
    let mut records = texts.iter().filter_map(|text| tags(text, Some("BIMI1")));
    let record = records.next()?;
    let shows = |name| value(&record, name).is_some_and(|place| !place.is_empty());
    Some((shows("l") || shows("a")) && records.next().is_none())
}

type Tags<'a> = Vec<(&'a str, &'a str)>;

/// Reads the first [`TXT_TAGS_MAX`] tags of a tag list (RFC 6376 3.2) in their order. `None` if the text is not a tag list, has no
/// tags, or does not begin with the given version.
fn tags<'a>(text: &'a str, version: Option<&str>) -> Option<Tags<'a>> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty()).take(TXT_TAGS_MAX);
    let pair = |part: &'a str| part.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let tags: Tags<'a> = parts.map(pair).collect::<Option<_>>()?;
    match (tags.first(), version) {
        (Some(_), None) => Some(tags),
        (Some(("v", found)), Some(version)) if *found == version => Some(tags),
        _ => None,
    }
}

fn value<'a>(tags: &Tags<'a>, name: &str) -> Option<&'a str> {
    tags.iter().find(|(tag, _)| tag.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::Failure;
    use std::time::Duration;

    fn boxed(texts: &[&str]) -> Vec<Box<str>> {
        texts.iter().map(|text| Box::from(*text)).collect()
    }

    #[test]
    fn spf_records() {
        for (texts, expected) in [
            (&["v=spf1 mx -all"][..], true),
            (&["V=SPF1"], true),
            (&["google-site-verification=x", "v=spf1 -all"], true),
            (&["v=spf10 -all"], false),
            (&["v=spf1-all"], false),
            (&[" v=spf1 -all"], false),
            (&["v=spf1 -all", "v=spf1 mx -all"], false),
            (&["spf2.0/pra -all"], false),
            (&[], false),
        ] {
            assert_eq!(has_spf(&boxed(texts)), expected, "{texts:?}");
        }
    }

    #[test]
    fn dmarc_records() {
        use DmarcPolicy::{None as Nothing, Quarantine, Reject};
        let record = |own, below| Dmarc::Record { own, below };
        for (texts, expected) in [
            (&["v=DMARC1; p=reject"][..], record(Some(Reject), Some(Reject))),
            (
                &["v=DMARC1;p=none;sp=Quarantine;rua=mailto:d@x.example"],
                record(Some(Nothing), Some(Quarantine)),
            ),
            (&["v = DMARC1 ; P = REJECT ; pct=5"], record(Some(Reject), Some(Reject))),
            (&["v=spf1 -all", "v=DMARC1; p=none;"], record(Some(Nothing), Some(Nothing))),
            (&["v=DMARC1"], record(None, None)),
            (&["v=DMARC1; p=block"], record(None, None)),
            (&["v=DMARC1; p=block; rua=mailto:d@x.example"], record(Some(Nothing), Some(Nothing))),
            (&["v=DMARC1; p=reject; sp=all"], record(None, None)),
            (&["v=DMARC1; p=reject", "v=DMARC1; p=none"], record(None, None)),
            (&["p=reject; v=DMARC1"], Dmarc::Absent),
            (&["v=DMARC2; p=reject"], Dmarc::Absent),
            (&["v=dmarc1; p=reject"], Dmarc::Absent),
            (&["v=DMARC1; reject"], Dmarc::Absent),
            (&[], Dmarc::Absent),
        ] {
            assert_eq!(dmarc(&boxed(texts)), expected, "{texts:?}");
        }
    }

    #[test]
    fn dkim_keys() {
        for (text, expected) in [
            ("v=DKIM1; k=rsa; p=MIGfMA0G", true),
            ("p=MIGfMA0G", true),
            ("k=ed25519; p=abc=", true),
            ("v=DKIM1; p=", false),
            ("v=DKIM1; k=rsa", false),
            ("v=DKIM2; p=abc", false),
            ("k=rsa; v=DKIM1; p=abc", false),
            ("v=spf1 include:x.example -all", false),
            ("", false),
        ] {
            assert_eq!(has_dkim_key(&boxed(&[text])), expected, "{text:?}");
        }
    }

    #[test]
    fn brand_indicators() {
        for (texts, expected) in [
            (&["v=BIMI1; l=https://x.example/l.svg; a="][..], Some(true)),
            (&["v=BIMI1; l=; a=;"], Some(false)),
            (&["v=BIMI1; l=https://a.example/l.svg", "v=BIMI1; l=https://b.example/l.svg"], Some(false)),
            (&["v=spf1 -all"], None),
            (&[], None),
        ] {
            assert_eq!(has_bimi(&boxed(texts)), expected, "{texts:?}");
        }
    }

    #[test]
    fn organizations_and_outcomes() {
        for (domain, expected) in [
            ("mail.example.co.uk", Some("example.co.uk")),
            ("a.b.example.com", Some("example.com")),
            ("example.com", None),
            ("co.uk", None),
        ] {
            let found = organizational(&Domain::parse(domain).expect("a domain"));
            assert_eq!(found.as_ref().map(Domain::as_str), expected, "{domain}");
        }
        let ttl = Duration::from_secs(1);
        assert_eq!(texts(&Outcome::NxDomain { ttl }).map(<[_]>::len), Some(0));
        assert_eq!(texts(&Outcome::Failed { why: Failure::ServFail, ttl }), None);
    }

    #[test]
    fn selectors_are_distinct_labels() {
        for (at, selector) in DKIM_SELECTORS.iter().enumerate() {
            assert!(selector.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
            assert!(!DKIM_SELECTORS[..at].contains(selector), "{selector}");
        }
    }
}
