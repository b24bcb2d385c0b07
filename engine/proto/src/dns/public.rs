//! Which addresses belong to public hosts: the IANA special-purpose registries (RFC 6890) in code.
//!
//! A domain's owner chooses the addresses of its mail hosts, so they may point into our own network. Only what is
//! globally reachable unicast is contacted. The blocks for services of the network itself (PCP, TURN, AS112, AMT, ORCHID, drone
//! remote ID) are refused too, though the registries call them globally reachable: the nearest network answers there, which may
//! be our own, and no mail or web server has such an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is globally reachable unicast, and holds none within that is not (RFC 4291 2.5.5.2, RFC 3056,
/// RFC 5214, RFC 6052).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Network, prefix length. <https://www.iana.org/assignments/iana-ipv4-special-registry/>, and multicast.
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

/// Network, prefix length, within 2000::/3, which alone is global unicast (RFC 4291 2.4).
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
        // The kernel contacts the IPv4 address.
        return is_public_v4(mapped);
    }
    // A host with an ISATAP interface sends such a packet to the IPv4 address within, whatever the prefix is.
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

    fn check(public: bool, rows: &[&str]) {
        for row in rows {
            assert_eq!(is_public(row.parse().expect(row)), public, "{row}");
        }
    }

    #[test]
    fn ipv4() {
        // The last address before and the first behind each block, where no other block is next to it.
        check(
            true,
            &[
                "1.0.0.0",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "191.255.255.255",
                "192.0.1.0",
                "192.0.3.0",
                "192.31.195.255",
                "192.31.197.0",
                "192.52.192.255",
                "192.52.194.0",
                "192.88.98.255",
                "192.88.100.0",
                "192.167.255.255",
                "192.169.0.0",
                "192.175.47.255",
                "192.175.49.0",
                "198.17.255.255",
                "198.20.0.0",
                "198.51.99.255",
                "198.51.101.0",
                "203.0.112.255",
                "203.0.114.0",
                "223.255.255.255",
                "8.8.8.8",
                "142.250.1.26",
            ],
        );
        check(
            false,
            &[
                "0.0.0.0",
                "0.255.255.255",
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.127.255.255",
                "127.0.0.1",
                "127.255.255.255",
                "169.254.0.0",
                "169.254.169.254",
                "172.16.0.0",
                "172.31.255.255",
                "192.0.0.0",
                "192.0.0.8",
                "192.0.0.9",
                "192.0.0.10",
                "192.0.0.170",
                "192.0.0.255",
                "192.0.2.0",
                "192.0.2.255",
                "192.31.196.1",
                "192.52.193.1",
                "192.88.99.0",
                "192.88.99.255",
                "192.168.0.0",
                "192.168.255.255",
                "192.175.48.1",
                "198.18.0.0",
                "198.19.255.255",
                "198.51.100.0",
                "198.51.100.255",
                "203.0.113.0",
                "203.0.113.255",
                "224.0.0.0",
                "239.255.255.255",
                "240.0.0.0",
                "255.255.255.254",
                "255.255.255.255",
            ],
        );
    }

    #[test]
    fn ipv6() {
        check(
            true,
            &[
                "2001:200::",
                "2001:4860:4860::8888",
                "2001:db7:ffff::",
                "2001:db9::",
                "2003::1",
                "2620:4f:7fff::1",
                "2620:4f:8001::",
                "2a00:1450:4001::1a",
                "3ffd:ffff::",
                "3fff:1000::",
                "3fff:ffff::",
                "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8",
                "2002:808:808::1",
                "2000::",
                // ISATAP with a public address, and what only looks like it.
                "2a00:1450:4001:1:0:5efe:8.8.8.8",
                "2a00:1450:4001:1:200:5efe:8.8.8.8",
                "2002:808:808:1:0:5efe:8.8.8.8",
                "2a00:1450:4001:1:100:5efe:10.0.0.1",
                "2a00:1450:4001:1:0:5eff:10.0.0.1",
            ],
        );
        check(
            false,
            &[
                "::",
                "::1",
                "::8.8.8.8",
                "::ffff:0:8.8.8.8",
                "::ffff:10.0.0.1",
                "::ffff:127.0.0.1",
                "64:ff9b::10.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b:1::8.8.8.8",
                "64:ff9b::1:808:808",
                "100::",
                "100:0:0:1::",
                "1fff::",
                "2001::1",
                "2001:0:a00:1::1",
                "2001:1::1",
                "2001:1::3",
                "2001:3::1",
                "2001:4:112::1",
                "2001:30::1",
                "2001:3f:ffff::",
                "2001:1ff:ffff::",
                "2001:2::",
                "2001:10::",
                "2001:20::",
                "2001:db8::",
                "2001:db8:ffff::ffff",
                "2002:a00:1::1",
                "2002:7f00:1::",
                "2002:c0a8:101::",
                "2a00:1450:4001:1:0:5efe:10.0.0.1",
                "2a00:1450:4001:1:200:5efe:127.0.0.1",
                "2a00:1450:4001:1:0:5efe:169.254.169.254",
                "2002:808:808:1:0:5efe:192.168.1.1",
                "2620:4f:8000::",
                "2620:4f:8000:ffff::",
                "3ffe::",
                "3ffe:ffff::",
                "3fff::",
                "3fff:fff::",
                "4000::",
                "5f00::",
                "fc00::",
                "fd00::1",
                "fdff:ffff::",
                "fe80::1",
                "febf::",
                "fec0::1",
                "feff::",
                "ff00::",
                "ff02::1",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ],
        );
    }
}
