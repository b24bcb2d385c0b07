//! The argument of EHLO: a fully qualified name, or an address literal if there is none (RFC 5321 4.1.1.1, 4.1.3).

use engine_proto::address::Domain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The accepted forms, for error messages.
const FORM: &str = "write a full name, such as mx1.example.org, or an address literal, such as [192.0.2.1] or [IPv6:2001:db8::1]";

/// The addresses of a root server, for [`own_address`]. No packet is sent to them.
const FAR: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 41, 0, 4)), 53),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)), 53),
];

/// Parses an EHLO name from the configuration: a domain or an address literal. Returns a domain in A-labels and lower case, or a
/// literal in its usual spelling.
///
/// # Errors What is wrong with the text, and the forms that are accepted.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let tagged = inside.get(..5).filter(|tag| tag.eq_ignore_ascii_case("IPv6:")).map(|_| &inside[5..]);
        let address = match tagged {
            Some(address) => address.parse().map(IpAddr::V6).ok(),
            None => inside.parse().map(IpAddr::V4).ok(),
        };
        return address.map(literal).ok_or_else(|| format!("`{text}` is not an address literal: {FORM}"));
    }
    let domain =
        Domain::parse(text).map_err(|error| format!("`{text}` is not a full name ({error}): {FORM}"))?;
    Ok(domain.as_str().to_owned())
}

pub(crate) fn is_literal(name: &str) -> bool {
    name.starts_with('[')
}

pub(crate) fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// The address from which the kernel sends to the public Internet, over IPv4 if it has a route there. Mail servers see the same
/// address, unless there is a NAT. Without a route, this is the loopback address.
pub(crate) fn own_address() -> IpAddr {
    let local = |far: SocketAddr| {
        let any: IpAddr =
            if far.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(far).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    FAR.into_iter().find_map(local).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_and_literals_are_read() {
        for (text, expected) in [
            ("mx1.example.org", Some("mx1.example.org")),
            ("MX1.Example.org", Some("mx1.example.org")),
            ("[192.0.2.1]", Some("[192.0.2.1]")),
            ("[ipv6:2001:DB8:0::1]", Some("[IPv6:2001:db8::1]")),
            ("localhost", None),
            ("probe", None),
            ("", None),
            ("a_b.example", None),
            ("[192.0.2]", None),
            ("[2001:db8::1]", None),
            ("[IPv6:192.0.2.1]", None),
            ("[mx1.example.org]", None),
            ("192.0.2.1]", None),
            ("[\u{e9}\u{e9}\u{e9}]", None),
        ] {
            let read = parse(text);
            assert_eq!(read.as_deref().ok(), expected, "{text}");
            if let Err(said) = read {
                assert!(said.contains(": write a full name, such as mx1.example.org, or "), "{said}");
            }
        }
        assert!(is_literal("[192.0.2.1]") && !is_literal("mx1.example.org"));
    }

    #[test]
    fn a_literal_reads_back() {
        for address in ["192.0.2.1", "2001:db8::1", "::1"] {
            let name = literal(address.parse().unwrap());
            assert_eq!(parse(&name), Ok(name));
        }
        assert!(!own_address().is_unspecified());
    }
}
