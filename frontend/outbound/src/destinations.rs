//! The addresses that may be contacted.

use engine::config::Network;
use engine::proto::dns::public::is_public;
use std::net::IpAddr;

/// The public addresses, and the networks that an operator allows besides.
#[derive(Debug, Clone, Default)]
pub struct Destinations {
    allowed: Vec<Network>,
}

impl Destinations {
    /// The public addresses and these networks.
    pub fn new(allowed: Vec<Network>) -> Destinations {
        Destinations { allowed }
    }

    /// Whether the address may be contacted.
    pub fn permits(&self, address: IpAddr) -> bool {
        is_public(address) || self.is_allowed(address)
    }

    /// Whether the operator allows the address although it need not be public.
    pub fn is_allowed(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|network| network.contains(address))
    }

    /// Whether the operator allows any network.
    pub fn has_allowed(&self) -> bool {
        !self.allowed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_and_allowed_networks_are_permitted() {
        let some = Destinations::new(vec![Network::parse("127.0.0.0/8").expect("a network")]);
        for (address, permitted, allowed) in [
            ("192.0.1.1", true, false),
            ("127.0.0.1", true, true),
            ("10.0.0.1", false, false),
            ("::1", false, false),
            ("::ffff:127.0.0.1", false, false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!((some.permits(address), some.is_allowed(address)), (permitted, allowed), "{address}");
            assert_eq!(Destinations::default().permits(address), permitted && !allowed, "{address}");
        }
        assert!(some.has_allowed() && !Destinations::default().has_allowed());
    }
}
