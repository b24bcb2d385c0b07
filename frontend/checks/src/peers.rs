//! The network and the site of a peer, which count as one holder of shared things.

use std::net::{IpAddr, Ipv6Addr};

/// The network that counts as one peer: an IPv4 address, or a /64 of IPv6, which a single host may have (RFC 6177).
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// What one subscriber may have at most: an IPv4 address, or a /48 of IPv6 (RFC 6177).
pub fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 80)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_has_networks_of_64_bits_and_sites_of_48() {
        for (address, of_network, of_site) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"),
            ("2001:db8::ffff:2", "2001:db8::", "2001:db8::"),
            ("2001:db8:0:1::3", "2001:db8:0:1::", "2001:db8::"),
        ] {
            let [address, of_network, of_site] =
                [address, of_network, of_site].map(|text| text.parse::<IpAddr>().unwrap());
            assert_eq!((network(address), site(address)), (of_network, of_site), "{address}");
        }
    }
}
