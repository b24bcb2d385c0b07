//! The network of a peer, which counts as one holder of shared things.

use std::net::{IpAddr, Ipv6Addr};

/// The network that counts as one peer: an IPv4 address, or a /64 of IPv6, which a single host may have (RFC 6177).
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_or_64_bits_of_ipv6() {
        for (address, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8::ffff:2", "2001:db8::"),
            ("2001:db8:0:1::3", "2001:db8:0:1::"),
        ] {
            assert_eq!(network(address.parse().unwrap()), expected.parse::<IpAddr>().unwrap(), "{address}");
        }
    }
}
