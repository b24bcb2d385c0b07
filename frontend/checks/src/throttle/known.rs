//! The networks from which users have signed in with the right password.

use std::collections::HashMap;
use std::net::IpAddr;
use store::UnixMs;

/// How long a network is known after the last sign-in from it: 30 days.
const KNOWN_MS: UnixMs = 30 * 24 * 60 * 60 * 1000;
/// The most networks of a user. The one of the oldest sign-in gives way.
const NETWORKS_MAX: usize = 8;
/// The most users: about 5 MiB. The one of the oldest sign-in gives way, and is a stranger until the next sign-in.
const USERS_MAX: usize = 16 * 1024;

/// For each user the networks of sign-ins.
#[derive(Default)]
pub(super) struct KnownNetworks(HashMap<[u8; 32], UserNetworks>);

struct UserNetworks {
    /// A value that only the server can compute from the stored password. What is known ends with the password.
    password: [u8; 32],
    /// The networks with the time of the last sign-in, the oldest first.
    networks: Vec<(IpAddr, UnixMs)>,
}

impl KnownNetworks {
    /// Notes a sign-in with the right password.
    pub(super) fn note(&mut self, user: [u8; 32], password: [u8; 32], network: IpAddr, now: UnixMs) {
        if !self.0.contains_key(&user) && self.0.len() >= USERS_MAX {
            let last = |known: &UserNetworks| known.networks.last().map(|(_, at)| *at);
            let oldest = self.0.iter().min_by_key(|(_, known)| last(known)).map(|(user, _)| *user);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let known = self.0.entry(user).or_insert(UserNetworks { password, networks: Vec::new() });
        if known.password != password {
            *known = UserNetworks { password, networks: Vec::new() };
        }
        known.networks.retain(|(known, at)| *known != network && now.abs_diff(*at) < KNOWN_MS);
        if known.networks.len() >= NETWORKS_MAX {
            known.networks.remove(0);
        }
        known.networks.push((network, now));
    }

    /// Whether this user has signed in with this password from this network.
    pub(super) fn has(&self, user: &[u8; 32], password: &[u8; 32], network: IpAddr, now: UnixMs) -> bool {
        let known = self.0.get(user).filter(|known| known.password == *password);
        let mut networks = known.into_iter().flat_map(|known| &known.networks);
        networks.any(|(known, at)| *known == network && now.abs_diff(*at) < KNOWN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;
    const USER: [u8; 32] = [9; 32];

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn networks_are_known_for_a_while_and_for_one_password() {
        let mut known = KnownNetworks::default();
        known.note(USER, [1; 32], ip(1), NOW);
        for (password, network, at, expected) in [
            (1, 1, NOW, true),
            (1, 2, NOW, false),
            (2, 1, NOW, false),
            (1, 1, NOW + KNOWN_MS - 1, true),
            (1, 1, NOW + KNOWN_MS, false),
        ] {
            assert_eq!(
                known.has(&USER, &[password; 32], ip(network), at),
                expected,
                "{password} {network} {at}"
            );
        }
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut known = KnownNetworks::default();
        for last in 0..=NETWORKS_MAX as u8 {
            known.note(USER, [1; 32], ip(last), NOW);
            // It is used again and again.
            known.note(USER, [1; 32], ip(0), NOW);
        }
        assert_eq!([0, 1, 2].map(|last| known.has(&USER, &[1; 32], ip(last), NOW)), [true, false, true]);
        // A user with many passwords, one after another, takes no more room than before.
        for n in 0..2 * USERS_MAX as u64 {
            let password = number(n);
            known.note([8; 32], password, ip(1), NOW + 1);
        }
        assert_eq!(known.0.len(), 2);
        for n in 0..USERS_MAX as u64 {
            known.note(number(n), [1; 32], ip(1), NOW + 2 + n);
        }
        assert_eq!(known.0.len(), USERS_MAX);
        assert!(!known.has(&USER, &[1; 32], ip(0), NOW));
    }

    fn number(n: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(n + 1).to_be_bytes());
        bytes
    }
}
