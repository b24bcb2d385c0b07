//! Addresses that must not be contacted: those of IANA's special-purpose registries, taken from the registries and not
//! from the filter under test, and IPv4 addresses of these within IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that must not be contacted, one a line: the network with the length of its prefix, and its name.
const NETWORKS: &str = include_str!("../../../soak/special-purpose.txt");

/// IPv4 addresses that are embedded in every format.
const EMBEDDED: &[Ipv4Addr] = &[
    Ipv4Addr::new(10, 200, 0, 1),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(127, 0, 0, 3),
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(172, 31, 255, 254),
    Ipv4Addr::new(192, 168, 1, 1),
];

/// The name of a format that embeds an IPv4 address in an IPv6 address, and its function.
type Embedding = (&'static str, fn(u128) -> u128);

const EMBEDDINGS: &[Embedding] = &[
    ("IPv4-mapped", |v4| 0xffff << 32 | v4),
    ("IPv4-compatible", |v4| v4),
    ("IPv4-translated", |v4| 0xffff << 48 | v4),
    ("6to4", |v4| 0x2002 << 112 | v4 << 80 | 1),
    ("NAT64", |v4| 0x64_ff9b << 96 | v4),
    // RFC 6052 2.2: with a prefix of 48 bits the address is divided around bits 64 to 71, which are zero.
    ("local NAT64", |v4| 0x64_ff9b_0001 << 80 | v4 >> 16 << 64 | (v4 & 0xffff) << 40),
    // The address of the server is plain, that of the client is inverted (RFC 4380 4).
    ("Teredo server", |v4| 0x2001 << 112 | v4 << 64 | 0xf7f7_f7f7),
    ("Teredo client", |v4| 0x2001 << 112 | 0x0808_0808 << 64 | (!v4 & 0xffff_ffff)),
    ("ISATAP", |v4| 0x2a00_1450_4001_0001 << 64 | 0x5efe << 32 | v4),
    ("ISATAP, universal", |v4| 0x2a00_1450_4001_0001 << 64 | 0x0200_5efe << 32 | v4),
    ("ISATAP in 6to4", |v4| 0x2002_0808_0808_0001 << 64 | 0x5efe << 32 | v4),
];

/// Addresses that may be contacted, one a line. The filter must admit them: otherwise the tests would pass with a filter that
/// refuses everything.
const PUBLIC: &str = include_str!("../../../soak/public-addresses.txt");

const LOOPBACK_BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// An address with the name of its block or format.
#[derive(Debug, Clone)]
pub struct Vector {
    pub name: String,
    pub address: IpAddr,
    /// It represents a block or format that is too large to be tested completely.
    pub is_sample: bool,
}

/// Every address that must not be contacted, without duplicates: the first, a middle and the last address of each
/// block, and every embedding of each of [`EMBEDDED`].
pub fn forbidden() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for (network, length, name) in networks() {
        let width = if network.is_ipv4() { 32 } else { 128 };
        let (first, free) = (bits(network), width - length);
        let last = first | mask(free);
        let middle = first | ((mask(free) / 2) ^ (mask(free) / 5));
        for (bits, which) in [(middle, "middle"), (first, "first"), (last, "last")] {
            let address = if width == 32 { of_v4(bits) } else { IpAddr::V6(bits.into()) };
            if !vectors.iter().any(|known| known.address == address) {
                let name = format!("{network}/{length} {name}, {which}: {address}");
                vectors.push(Vector { name, address, is_sample: which == "middle" });
            }
        }
    }
    for (name, embed) in EMBEDDINGS {
        for (index, v4) in EMBEDDED.iter().enumerate() {
            let address = IpAddr::V6(embed(v4.to_bits().into()).into());
            let name = format!("{name} of {v4}: {address}");
            vectors.push(Vector { name, address, is_sample: index == 0 });
        }
    }
    vectors
}

fn networks() -> impl Iterator<Item = (IpAddr, u32, &'static str)> {
    NETWORKS.lines().filter_map(|line| {
        let (block, name) = line.split_once(' ')?;
        let (network, length) = block.split_once('/')?;
        Some((network.parse().ok()?, length.parse().ok()?, name))
    })
}

/// Every address that may be contacted, as IPv4 or IPv6.
pub fn public() -> Vec<Vector> {
    let vector = |text: &str| {
        let address = text.parse().ok()?;
        Some(Vector { name: format!("public: {text}"), address, is_sample: true })
    };
    PUBLIC.lines().filter_map(vector).collect()
}

/// The destination of packets for an address: the IPv4 address of a mapped one, and this host for an unspecified one.
pub fn on_the_wire(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// Whether a connection is possible without a filter. The kernel refuses connections to groups, to the broadcast
/// address of a link (as 127.255.255.255), and to a link-local address without a link. The engine reads an unspecified
/// address as a denial. For these addresses a test without the filter shows nothing.
pub fn is_connectable(address: IpAddr) -> bool {
    match address.to_canonical() {
        it if it.is_unspecified() => false,
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && v4 != LOOPBACK_BROADCAST,
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unicast_link_local(),
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn of_v4(bits: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)))
}

/// A mask of this many low bits.
fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there() {
        let vectors = forbidden();
        assert_eq!(networks().count(), NETWORKS.lines().filter(|line| !line.starts_with('#')).count());
        for (network, ..) in networks() {
            assert!(vectors.iter().any(|vector| vector.address == network), "{network}");
        }
        assert_eq!(public().len(), PUBLIC.lines().count());
        assert!(vectors.len() >= 40 + EMBEDDINGS.len() * EMBEDDED.len());
    }

    #[test]
    fn blocks_end_where_they_should() {
        let has = |text: &str| forbidden().iter().any(|it| it.address == text.parse::<IpAddr>().unwrap());
        for text in [
            "10.255.255.255",
            "172.31.255.255",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert!(has(text), "{text}");
        }
        for Vector { name, address, .. } in forbidden() {
            let width = if address.is_ipv4() { 32 } else { 128 };
            let listed = networks().any(|(network, length, _)| {
                network.is_ipv4() == address.is_ipv4()
                    && (bits(network) ^ bits(address)).checked_shr(width - length).unwrap_or(0) == 0
            });
            assert!(listed || name.contains(" of "), "{name}");
        }
    }

    #[test]
    fn embeddings_are_as_their_documents_write_them() {
        let v4 = u128::from(Ipv4Addr::new(192, 0, 2, 33).to_bits());
        for (row, expected) in EMBEDDINGS.iter().zip([
            "::ffff:192.0.2.33",
            "::192.0.2.33",
            "::ffff:0:192.0.2.33",
            "2002:c000:221::1",
            "64:ff9b::192.0.2.33",
            "64:ff9b:1:c000:2:2100::",
            "2001:0:c000:221::f7f7:f7f7",
            "2001:0:808:808::3fff:fdde",
            "2a00:1450:4001:1:0:5efe:c000:221",
            "2a00:1450:4001:1:200:5efe:c000:221",
            "2002:808:808:1:0:5efe:c000:221",
        ]) {
            assert_eq!(Ipv6Addr::from_bits((row.1)(v4)), expected.parse::<Ipv6Addr>().unwrap(), "{}", row.0);
        }
    }
}
