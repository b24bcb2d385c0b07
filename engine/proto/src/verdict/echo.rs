//! Determines whether a name or address that a reply repeats (an echo) belongs to the recipient, to us or to somebody else.

use crate::address::registrable;
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Our own names and address, as the server sees them. A reply that repeats one of them is often about us. An unknown name is
/// empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Us<'a> {
    /// The reverse-path of MAIL, without angle brackets; empty for the null reverse-path.
    pub reverse_path: &'a str,
    /// The argument of EHLO: a host name or an address literal.
    pub ehlo: &'a str,
    /// The public address from which the connection comes. `None` if it is not known.
    pub source: Option<IpAddr>,
}

/// The party to which a name or an address in a text belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    /// The address that RCPT named.
    Recipient,
    /// The domain of the address that RCPT named.
    RecipientDomain,
    /// Our reverse-path, our source address, the address literal of our EHLO name, or a name or mail address in the registrable
    /// domain of our reverse-path or of our EHLO name.
    Us,
    /// Any other address, even that of the recipient if the recipient is not known.
    Other,
}

impl Echo {
    /// The control character that replaces the echo in a folded text (`words.rs`). Folding has removed all other control
    /// characters.
    pub(super) fn char(self) -> u8 {
        match self {
            Echo::Recipient => 1,
            Echo::RecipientDomain => 2,
            Echo::Us => 3,
            Echo::Other => 4,
        }
    }

    pub(super) fn of_char(c: char) -> Option<Echo> {
        match c {
            '\u{1}' => Some(Echo::Recipient),
            '\u{2}' => Some(Echo::RecipientDomain),
            '\u{3}' => Some(Echo::Us),
            '\u{4}' => Some(Echo::Other),
            _ => None,
        }
    }
}

/// The names and addresses of all parties that a reply may name.
#[derive(Debug, Default)]
pub(super) struct Parties<'a> {
    /// The host that sent the reply.
    pub(super) mx: &'a str,
    recipient: &'a str,
    recipient_domain: &'a str,
    reverse_path: &'a str,
    ehlo: &'a str,
    /// The registrable domains of our reverse-path and of our EHLO name. An entry is empty if the name has no registrable domain.
    our_domains: OnceCell<[&'a str; 2]>,
    source: Option<IpAddr>,
    /// The IP address in our EHLO name, if this is an address literal.
    literal: Option<IpAddr>,
}

impl<'a> Parties<'a> {
    /// The parties of one reply: the host that sent it, the recipient if it is known, and us.
    pub(super) fn new(mx: &'a str, recipient: Option<&'a str>, us: Us<'a>) -> Parties<'a> {
        let recipient = recipient.unwrap_or_default();
        let literal = us.ehlo.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        Parties {
            mx,
            recipient,
            recipient_domain: domain_of(recipient),
            reverse_path: us.reverse_path,
            ehlo: us.ehlo,
            our_domains: OnceCell::new(),
            source: us.source.map(|source| source.to_canonical()),
            literal: literal.and_then(literal_address),
        }
    }

    /// The party to which an address in a text belongs.
    pub(super) fn of_address(&self, address: &[u8]) -> Echo {
        let address = address.strip_suffix(b".").unwrap_or(address);
        // A local part may contain these characters, but they often stand before an address, as in "rcpt=bob@example.com".
        if is_within(address, self.recipient, b"=/'`{|") {
            return Echo::Recipient;
        }
        let domain = address.iter().rposition(|byte| *byte == b'@').map_or(&b""[..], |at| &address[at + 1..]);
        let ours = is_within(address, self.reverse_path, b"=/'`{|")
            || std::str::from_utf8(domain).is_ok_and(|domain| self.of_host(domain) == Some(Echo::Us));
        if ours { Echo::Us } else { Echo::Other }
    }

    /// The party to which a host name in a text belongs. `None` if the host is neither ours nor the recipient's. `None` also for a
    /// host in a domain of ours if the MX host is in this domain too.
    pub(super) fn of_host(&self, host: &str) -> Option<Echo> {
        let host = host.as_bytes();
        if is_within(host, self.recipient_domain, b".") {
            return Some(Echo::RecipientDomain);
        }
        let ours = || [own_domain(domain_of(self.reverse_path)), own_domain(self.ehlo)];
        let ours = self.our_domains.get_or_init(ours).iter().find(|domain| is_within(host, domain, b"."))?;
        (!is_within(self.mx.trim_end_matches('.').as_bytes(), ours, b".")).then_some(Echo::Us)
    }

    /// Whether the text is the local part of the recipient.
    pub(super) fn is_local_part(&self, text: &str) -> bool {
        let local = self.recipient.len().saturating_sub(self.recipient_domain.len() + 1);
        !text.is_empty() && text.eq_ignore_ascii_case(&self.recipient[..local])
    }

    /// The party to which a token in brackets or quotation marks belongs.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<Echo> {
        let token = std::str::from_utf8(token).ok()?.trim_matches(['[', ']', '.']);
        let source = self.is_source_v4(token) || self.is_source_v6(token);
        if source { Some(Echo::Us) } else { self.of_host(token) }
    }

    /// Whether the text is our source address or our address literal, written as IPv4.
    pub(super) fn is_source_v4(&self, text: &str) -> bool {
        let ours = [self.source, self.literal];
        ours.iter().any(Option::is_some)
            && text.parse::<Ipv4Addr>().is_ok_and(|address| ours.contains(&Some(address.into())))
    }

    /// Whether the chunk of text is or contains our source address or our address literal, written as IPv6.
    pub(super) fn is_source_v6(&self, chunk: &str) -> bool {
        if ![self.source, self.literal].iter().flatten().any(IpAddr::is_ipv6) {
            return false;
        }
        let chunk = chunk.replace("ipv6:", " ");
        let mut pieces = chunk.split(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.');
        pieces.any(|piece| {
            let address = piece.trim_end_matches([':', '.']).parse::<Ipv6Addr>();
            address.is_ok_and(|address| [self.source, self.literal].contains(&Some(address.into())))
        })
    }
}

/// The text after the last `@`; empty without an `@`.
fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

/// The registrable domain of our host name. Empty for an address literal. Empty also for a name of one label, because a text may
/// contain the same word with another meaning.
fn own_domain(host: &str) -> &str {
    let host = host.trim_end_matches('.');
    if host.contains('.') && !host.starts_with('[') { registrable(host) } else { "" }
}

/// Parses what an address literal has between its brackets (RFC 5321 4.1.3).
fn literal_address(text: &str) -> Option<IpAddr> {
    let (head, rest) = text.split_at_checked(5).unwrap_or(("", text));
    let address = if head.eq_ignore_ascii_case("ipv6:") { rest } else { text };
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Whether `text` is `name`, or ends with `name` after one of the bytes `before`. Case does not matter. False for an empty name.
fn is_within(text: &[u8], name: &str, before: &[u8]) -> bool {
    let Some(start) = text.len().checked_sub(name.len()) else { return false };
    !name.is_empty()
        && text[start..].eq_ignore_ascii_case(name.as_bytes())
        && (start == 0 || before.contains(&text[start - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Us<'_> = Us {
        reverse_path: "postmaster@probe.example.net",
        ehlo: "out3.mail.example.org",
        source: Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 5))),
    };

    #[test]
    fn addresses_name_the_recipient_us_or_someone() {
        let parties = Parties::new("mx.example.com", Some("Bob@example.com"), US);
        for (address, echo) in [
            ("bob@example.com", Echo::Recipient),
            ("bob@example.com.", Echo::Recipient),
            ("rcpt=bob@example.com", Echo::Recipient),
            ("notbob@example.com", Echo::Other),
            ("ann@example.com", Echo::Other),
            ("postmaster@probe.example.net", Echo::Us),
            ("prvs=12=postmaster@probe.example.net", Echo::Us),
            ("someone@example.net", Echo::Us),
            ("someone@deep.example.org", Echo::Us),
            ("someone@notexample.org", Echo::Other),
            ("@", Echo::Other),
        ] {
            assert_eq!(parties.of_address(address.as_bytes()), echo, "{address}");
        }
        assert_eq!(Parties::default().of_address(b"@"), Echo::Other);
    }

    #[test]
    fn hosts_name_us_unless_the_recipient_or_the_server_is_there_too() {
        let parties = Parties::new("mx.example.com", Some("bob@example.com"), US);
        assert_eq!(parties.of_host("example.org"), Some(Echo::Us));
        assert_eq!(parties.of_host("a.example.net"), Some(Echo::Us));
        assert_eq!(parties.of_host("mx.example.com"), Some(Echo::RecipientDomain));
        assert_eq!(parties.of_host("mx.example.edu"), None);
        let own = Parties::new("mx.example.org", Some("bob@example.net"), US);
        assert_eq!(own.of_host("example.org"), None);
        assert_eq!(own.of_host("example.net"), Some(Echo::RecipientDomain));
        let label = Parties::new("", None, Us { ehlo: "mail", ..Us::default() });
        assert_eq!(label.of_host("mail"), None);
    }

    #[test]
    fn networks_are_ours_however_they_are_written() {
        let parties = Parties::new("", None, US);
        assert!(parties.is_source_v4("203.0.113.5"));
        for other in ["203.0.113.50", "3.0.113.5", "203.0.113", ""] {
            assert!(!parties.is_source_v4(other), "{other}");
        }
        let six = Us { source: "2001:db8::25".parse().ok(), ehlo: "[192.0.2.7]", ..Us::default() };
        let parties = Parties::new("", None, six);
        for chunk in ["[2001:db8::25]", "[ipv6:2001:db8::25]:", "2001:db8:0:0::25.", "(ip=2001:db8::25)"] {
            assert!(parties.is_source_v6(chunk), "{chunk}");
        }
        assert!(!parties.is_source_v6("[2001:db8::251]") && !parties.is_source_v6("from:"));
        assert!(parties.is_source_v4("192.0.2.7"));
        let literal = Us { ehlo: "[IPv6:2001:db8::25]", ..Us::default() };
        assert!(Parties::new("", None, literal).is_source_v6("[2001:db8::25]"));
        let mapped = Us { source: "::ffff:203.0.113.5".parse().ok(), ..Us::default() };
        assert!(Parties::new("", None, mapped).is_source_v4("203.0.113.5"));
    }
}
