//! The networks from which users have signed in with the right password.

use std::collections::HashMap;
use std::net::IpAddr;
use store::UnixMs;

/// How long a network is known after the last sign-in from it: 30 days.
const KNOWN_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;
/// The most networks of a password. The one of the oldest sign-in gives way.
const NETWORKS_MAX: usize = 8;
/// The most passwords: about 5 MiB. The one of the oldest sign-in gives way, so its user is a stranger until the next sign-in.
const PASSWORDS_MAX: usize = 16 * 1024;

/// For each password, as a value that only the server can compute, the networks and the times of the last sign-in. What is known
/// ends with the password.
#[derive(Default)]
pub(super) struct KnownNetworks(HashMap<[u8; 32], Vec<(IpAddr, UnixMs)>>);

impl KnownNetworks {
    /// Notes a sign-in with the right password.
    pub(super) fn note(&mut self, password: [u8; 32], network: IpAddr, now: UnixMs) {
        if !self.0.contains_key(&password) && self.0.len() >= PASSWORDS_MAX {
            let last = |networks: &[(IpAddr, UnixMs)]| networks.iter().map(|(_, at)| *at).max();
            let oldest =
                self.0.iter().min_by_key(|(_, networks)| last(networks)).map(|(password, _)| *password);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let networks = self.0.entry(password).or_default();
        networks.retain(|(known, at)| *known != network && now.abs_diff(*at) < KNOWN_MS);
        if networks.len() >= NETWORKS_MAX {
            networks.remove(0);
        }
        networks.push((network, now));
    }

    /// Whether somebody has signed in with this password from this network.
    pub(super) fn has(&self, password: &[u8; 32], network: IpAddr, now: UnixMs) -> bool {
        let mut networks = self.0.get(password).into_iter().flatten();
        networks.any(|(known, at)| *known == network && now.abs_diff(*at) < KNOWN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn networks_are_known_for_a_while_and_for_one_password() {
        let mut known = KnownNetworks::default();
        known.note([1; 32], ip(1), NOW);
        for (password, network, at, expected) in [
            (1, 1, NOW, true),
            (1, 2, NOW, false),
            (2, 1, NOW, false),
            (1, 1, NOW + KNOWN_MS - 1, true),
            (1, 1, NOW + KNOWN_MS, false),
        ] {
            assert_eq!(known.has(&[password; 32], ip(network), at), expected, "{password} {network} {at}");
        }
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut known = KnownNetworks::default();
        for last in 0..=NETWORKS_MAX as u8 {
            known.note([1; 32], ip(last), NOW);
            // It is used again and again.
            known.note([1; 32], ip(0), NOW);
        }
        assert_eq!([0, 1, 2].map(|last| known.has(&[1; 32], ip(last), NOW)), [true, false, true]);
        for n in 0..PASSWORDS_MAX as u64 {
            let mut password = [0; 32];
            password[..8].copy_from_slice(&(n + 1).to_be_bytes());
            known.note(password, ip(1), NOW + 1 + n);
        }
        assert_eq!(known.0.len(), PASSWORDS_MAX);
        assert!(!known.has(&[1; 32], ip(0), NOW));
    }
}
