//! Decides which addresses can be those of public hosts, by the IANA special-purpose registries (RFC 6890).
//!
//! A domain's owner chooses the addresses of its mail hosts, so they may point into our own network. Only globally reachable
//! unicast addresses are contacted. The blocks for services of the network itself (PCP, TURN, AS112, AMT, ORCHID, drone remote ID)
//! are refused too, although the registries call them globally reachable. At such an address the nearest network answers, which may
//! be our own. No mail or web server has such an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is globally reachable unicast. If an IPv6 address contains an IPv4 address, the IPv4 address has to be
/// globally reachable (RFC 4291 2.5.5.2, RFC 3056, RFC 5214, RFC 6052).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Networks with their prefix lengths: <https://www.iana.org/assignments/iana-ipv4-special-registry/>, and multicast.
const SPECIAL_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // "this network": RFC 791 3.2
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private use: RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared address space: RFC 6598
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback: RFC 1122 3.2.1.3
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link local: RFC 3927
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private use: RFC 1918
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // IETF protocol assignments: RFC 6890 2.1
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation: RFC 5737
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112-v4: RFC 7535
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT: RFC 7450
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays, deprecated: RFC 7526
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private use: RFC 1918
    (Ipv4Addr::new(192, 175, 48, 0), 24), // direct delegation of AS112: RFC 7534
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking: RFC 2544
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation: RFC 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation: RFC 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast: RFC 5771
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved: RFC 1112 4, and the limited broadcast: RFC 8190
];

/// Networks with their prefix lengths, within 2000::/3. No other block has global unicast addresses so far (RFC 4291 2.4).
/// <https://www.iana.org/assignments/iana-ipv6-special-registry/>
const SPECIAL_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // IETF protocol assignments, Teredo: RFC 2928, 4380
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation: RFC 3849
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // direct delegation of AS112: RFC 7534
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation: RFC 9637
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16), // 6bone, returned: RFC 3701
];

const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
/// The upper half of the interface identifier of ISATAP, without and with the bit that says "universal": RFC 5214 6.1.
const ISATAP: [u32; 2] = [0x0000_5efe, 0x0200_5efe];
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

fn is_public_v4(address: Ipv4Addr) -> bool {
    let inside = |(network, length): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).checked_shr(32 - length) == Some(0)
    };
    !SPECIAL_V4.iter().any(inside)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let inside = |(network, length): &(Ipv6Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).checked_shr(128 - length) == Some(0)
    };
    let embedded = |shift: u32| is_public_v4(Ipv4Addr::from_bits((address.to_bits() >> shift) as u32));
    if let Some(mapped) = address.to_ipv4_mapped() {
        // The kernel contacts the IPv4 address instead of such an address.
        return is_public_v4(mapped);
    }
    // A host with an ISATAP interface sends packets for this address to the IPv4 address in it, whatever the prefix is.
    if ISATAP.contains(&((address.to_bits() >> 32) as u32)) && !embedded(0) {
        return false;
    }
    if inside(&NAT64) {
        return embedded(0);
    }
    if inside(&SIX_TO_FOUR) {
        return embedded(80);
    }
    inside(&GLOBAL_UNICAST) && !SPECIAL_V6.iter().any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn public_addresses_are_told_from_special_ones() {
        let tables: BTreeMap<String, BTreeMap<String, Vec<IpAddr>>> =
            toml::from_str(include_str!("../../testdata/public.toml")).unwrap();
        for (name, addresses) in &tables {
            for address in addresses.values().flatten() {
                assert_eq!(is_public(*address), name == "public", "{address}");
            }
        }
    }
}
