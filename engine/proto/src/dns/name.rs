//! Names in questions and answers (RFC 1035 2.3.1, RFC 2181 11).

use crate::address::Domain;
use crate::limits::{DOMAIN_BYTES_MAX, LABEL_BYTES_MAX};
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

/// A DNS name: lower-case labels of letters, digits, `-` and `_`, without a root dot. The root itself is the empty text.
///
/// A name is more general than a [`Domain`], because `_dmarc.example.com` and a host named `x` are names too. A clone shares the
/// text, and so does a name that was made from a domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Parses a name in ASCII, in upper or lower case. A dot at the end means the root and is dropped. `None` if a label is empty
    /// or too long, if the whole name is too long, or if there is a character that a [`Name`] does not have.
    pub fn parse(text: &str) -> Option<Name> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let fits = text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_label);
        fits.then(|| Name(text.to_ascii_lowercase().into()))
    }

    /// The root, which has no label. [`Name::parse`] never returns it.
    pub fn root() -> Name {
        Name("".into())
    }

    /// The last label as a name of its own. For the root, this is the root.
    pub fn top_level(&self) -> Name {
        Name(self.0.rsplit('.').next().unwrap_or_default().into())
    }

    /// A name under a domain, such as `_dmarc` under `example.com`. `None` if [`Name::parse`] refuses the result, for example
    /// because it is too long.
    pub fn under(prefix: &str, domain: &Domain) -> Option<Name> {
        Name::parse(&format!("{prefix}.{domain}"))
    }

    /// The name that has the PTR records of an address (RFC 1035 3.5, RFC 3596 2.5).
    pub fn reverse(address: IpAddr) -> Name {
        let mut text = String::with_capacity(72);
        match address {
            IpAddr::V4(v4) => {
                for byte in v4.octets().iter().rev() {
                    text.push_str(&format!("{byte}."));
                }
                text.push_str("in-addr.arpa");
            }
            IpAddr::V6(v6) => {
                for byte in v6.octets().iter().rev() {
                    let _ = write!(text, "{:x}.{:x}.", byte & 15, byte >> 4);
                }
                text.push_str("ip6.arpa");
            }
        }
        Name(text.into())
    }

    /// The name in text form, in lower case, without the last dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The labels, the leftmost first.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.split('.').filter(|label| !label.is_empty())
    }

    /// Whether the name is `suffix` or lies under it.
    pub fn is_under(&self, suffix: &str) -> bool {
        self.0.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl From<&Domain> for Name {
    fn from(domain: &Domain) -> Name {
        Name(domain.shared())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        for (text, expected) in [
            ("example.com", Some("example.com")),
            ("Example.COM.", Some("example.com")),
            ("_dmarc.example.com", Some("_dmarc.example.com")),
            ("localhost", Some("localhost")),
            ("1.0.0.127.in-addr.arpa", Some("1.0.0.127.in-addr.arpa")),
            ("", None),
            (".", None),
            ("a..b", None),
            (".a", None),
            ("a..", None),
            ("a b.com", None),
            ("a\\.b.com", None),
            ("ö.com", None),
            ("*.com", None),
        ] {
            assert_eq!(Name::parse(text).as_ref().map(Name::as_str), expected, "{text:?}");
        }
    }

    #[test]
    fn lengths_hold_to_the_byte() {
        let name = |label: usize, last: usize| {
            format!("{}{}", format!("{}.", "a".repeat(label)).repeat(3), "a".repeat(last))
        };
        assert!(Name::parse(&name(63, 61)).is_some(), "253 bytes");
        assert!(Name::parse(&name(63, 62)).is_none());
        assert!(Name::parse(&name(64, 1)).is_none());
    }

    #[test]
    fn reverse_names() {
        let reverse = |text: &str| Name::reverse(text.parse().expect("an address")).to_string();
        assert_eq!(reverse("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(
            reverse("2001:db8::567:89ab"),
            "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }

    #[test]
    fn the_root_and_top_level_domains() {
        assert_eq!(Name::root().labels().count(), 0);
        for (text, top) in [("mail.example.com", "com"), ("com", "com"), ("1.0.0.127.in-addr.arpa", "arpa")] {
            assert_eq!(Name::parse(text).map(|name| name.top_level()), Name::parse(top), "{text}");
        }
        assert_eq!(Name::root().top_level(), Name::root());
    }

    #[test]
    fn suffixes_end_at_a_label() {
        let name = Name::parse("aspmx.l.google.com").expect("a name");
        assert!(name.is_under("google.com") && name.is_under("aspmx.l.google.com"));
        assert!(!name.is_under("oogle.com") && !name.is_under("x.aspmx.l.google.com"));
    }
}
