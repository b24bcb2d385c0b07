//! How many sessions may be open at once with the hosts of one network.
//!
//! Hosts of many sites may be one server, or stand behind one, and each site alone looks idle. So their sessions are also limited
//! together, as TCP limits what it sends: the number begins low, grows with each transaction, and is halved when several sites say
//! at the same time that we have too many connections. A site that says so alone lowers its own pace ([`super::SitePace`]).

use crate::limits::{
    GROUP_IDLE, NETWORK_COMPLAINT_LASTS, NETWORK_COMPLAINTS_MIN, NETWORK_SESSIONS_INITIAL,
    NETWORK_SESSIONS_MIN, PACE_PAUSE_MIN,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

/// The network to which the address of a host is counted: 24 bits of IPv4, or 48 bits of IPv6, as registries assign them to one
/// customer.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 80).into(),
    }
}

/// The limit of sessions with one network.
#[derive(Debug)]
pub struct NetworkPace {
    window: f64,
    /// When the number was last halved.
    halved: Option<Instant>,
    /// The sites that have lately said that there are too many, each with the last time.
    complained: Vec<(u64, Instant)>,
}

impl Default for NetworkPace {
    fn default() -> NetworkPace {
        NetworkPace { window: f64::from(NETWORK_SESSIONS_INITIAL), halved: None, complained: Vec::new() }
    }
}

impl NetworkPace {
    /// How many sessions may be open at the same time now.
    pub fn sessions(&self) -> u32 {
        self.window as u32
    }

    /// A transaction with a host of the network has succeeded.
    pub fn on_transaction(&mut self) {
        // Until the first halving, the number doubles while each session has one transaction. Later it grows by one in this time.
        self.window += if self.halved.is_some() { 1.0 / self.window } else { 1.0 };
    }

    /// A host of this site refused a connection because there are too many. `open`: the sessions with the network. Returns whether
    /// the sessions with other sites of the network are the cause.
    pub fn on_too_many(&mut self, now: Instant, open: u32, site: u64) -> bool {
        self.complained.retain(|&(other, at)| other != site && now < at + NETWORK_COMPLAINT_LASTS);
        self.complained.truncate(NETWORK_COMPLAINTS_MIN);
        self.complained.push((site, now));
        if self.complained.len() < NETWORK_COMPLAINTS_MIN || open <= NETWORK_SESSIONS_MIN {
            return false;
        }
        // The connections that were opened at the same time are refused at the same time, and count once.
        if self.halved.is_none_or(|halved| now >= halved + PACE_PAUSE_MIN) {
            self.window = (self.window.min(f64::from(open)) / 2.0).max(f64::from(NETWORK_SESSIONS_MIN));
            self.halved = Some(now);
        }
        true
    }

    /// Whether the hosts of the network have shown no limit, or none for a long time.
    pub fn is_fresh(&self, now: Instant) -> bool {
        self.halved.is_none_or(|halved| now >= halved + GROUP_IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn addresses_of_one_customer_are_one_network() {
        for (address, network) in [
            ("192.0.2.77", "192.0.2.0"),
            ("192.0.3.77", "192.0.3.0"),
            ("2001:db8:1:2::3", "2001:db8:1::"),
            ("2001:db8:2:2::3", "2001:db8:2::"),
        ] {
            assert_eq!(network_of(address.parse().unwrap()).to_string(), network);
        }
    }

    /// A server with many sites that takes this many connections, and a client that opens as many as it may, in rounds.
    fn play(takes: u32, rounds: u32) -> (u32, u32, u32) {
        let (mut pace, mut now, mut refused, mut most) = (NetworkPace::default(), Instant::now(), 0, 0);
        for _ in 0..rounds {
            let open = pace.sessions();
            most = most.max(open);
            for session in 0..open {
                if session < takes {
                    pace.on_transaction();
                } else {
                    refused += 1;
                    pace.on_too_many(now, open, refused.into());
                }
            }
            now += Duration::from_secs(1);
        }
        (pace.sessions(), most, refused)
    }

    #[test]
    fn the_limit_of_a_server_is_found() {
        // Without a limit, the number doubles in each round.
        assert_eq!(play(u32::MAX, 6), (NETWORK_SESSIONS_INITIAL << 6, NETWORK_SESSIONS_INITIAL << 5, 0));
        for takes in [10, 50, 100] {
            let (sessions, most, refused) = play(takes, 200);
            assert!(sessions >= takes / 2 && sessions <= takes + 2, "{takes}: {sessions}");
            assert!(most <= (2 * takes).max(NETWORK_SESSIONS_INITIAL), "{takes}: {most} at once");
            assert!(refused <= takes + 200 / 3, "{takes}: {refused} refused");
        }
    }

    #[test]
    fn a_server_without_room_does_not_stop_its_neighbors() {
        let (mut pace, now) = (NetworkPace::default(), Instant::now());
        for second in 0..100 {
            let alone = pace.on_too_many(now + Duration::from_secs(second), pace.sessions(), second % 3);
            assert!(!alone, "three sites may each have too many");
        }
        assert_eq!(pace.sessions(), NETWORK_SESSIONS_INITIAL);
        for second in 100..200 {
            assert!(second < 110 || pace.sessions() == NETWORK_SESSIONS_MIN);
            let is_ours = pace.on_too_many(now + Duration::from_secs(second), pace.sessions(), second);
            assert_eq!(is_ours, second < 100 + 1, "{second}");
        }
    }
}
