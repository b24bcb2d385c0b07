//! The number of connections of each peer over all threads, with a limit, so that no peer takes all connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each network, and their limit.
pub struct Peers {
    /// The limit; 0 means none.
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a peer, which ends on drop.
pub struct PeerGuard {
    peers: Arc<Peers>,
    /// `None` if connections are not counted.
    network: Option<IpAddr>,
}

impl Peers {
    /// Counters with the limit `max` for each network; 0 means no limit.
    pub fn new(max: usize) -> Arc<Peers> {
        Arc::new(Peers { max, open: Mutex::default() })
    }

    /// Adds a connection of a peer; `None` if the peer is at the limit.
    pub fn enter(self: &Arc<Peers>, address: IpAddr) -> Option<PeerGuard> {
        if self.max == 0 {
            return Some(PeerGuard { peers: Arc::clone(self), network: None });
        }
        let network = network(address);
        let mut open = self.lock();
        let count = open.entry(network).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(open);
        Some(PeerGuard { peers: Arc::clone(self), network: Some(network) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerGuard {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut open = self.peers.lock();
        if let Some(count) = open.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&network);
            }
        }
    }
}

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
    fn a_peer_has_so_many_and_others_have_theirs() {
        let peers = Peers::new(2);
        let enter = |address: &str| peers.enter(address.parse().unwrap());
        let first = enter("192.0.2.1");
        let _second = enter("::ffff:192.0.2.1");
        assert!(first.is_some() && enter("192.0.2.1").is_none());
        let _v6 = (enter("2001:db8::1"), enter("2001:db8::ffff:2"));
        assert!(enter("2001:db8::3").is_none() && enter("2001:db8:0:1::3").is_some());
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        drop((_second, _v6));
        assert!(peers.lock().is_empty(), "who is gone is forgotten");
    }

    #[test]
    fn without_a_limit_nobody_is_counted() {
        let peers = Peers::new(0);
        let guests: Vec<_> = (0..100).map(|_| peers.enter(IpAddr::from([192, 0, 2, 1])).unwrap()).collect();
        assert!(peers.lock().is_empty());
        drop(guests);
    }
}
