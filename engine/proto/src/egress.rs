//! The choice of a source for a site, and the rest of a source that a site blocks.
//!
//! The choice is a rendezvous hash (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). Every source
//! has a weight at the site. The source with the greatest weight that can reach the site is chosen. The weight depends on the two
//! names only, so the choice is the same after a restart, and a new source in the pool takes its own share of the sites and moves
//! no others. Greylisting needs that: a second try has to come from the same address as the first.
//!
//! A source that a site blocks rests there, for a longer time after each block. No other source replaces it, because to evade a
//! block from another address is the behaviour of spammers.

use crate::limits::{SOURCE_REST_MAX, SOURCE_REST_MIN, SOURCE_RESTS_MAX};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The address families that a source or a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Families {
    /// Whether IPv4 is one of them.
    pub ipv4: bool,
    /// Whether IPv6 is one of them.
    pub ipv6: bool,
}

impl Families {
    /// Both families, IPv4 and IPv6.
    pub const ALL: Families = Families { ipv4: true, ipv6: true };

    /// The family of one address.
    pub fn of(address: IpAddr) -> Families {
        Families { ipv4: address.is_ipv4(), ipv6: address.is_ipv6() }
    }

    /// The families of all these addresses.
    pub fn of_all(addresses: impl Iterator<Item = IpAddr>) -> Families {
        addresses.map(Families::of).fold(Families::default(), Families::and)
    }

    /// The families of either set.
    pub fn and(self, other: Families) -> Families {
        Families { ipv4: self.ipv4 || other.ipv4, ipv6: self.ipv6 || other.ipv6 }
    }

    /// Whether the address is of one of them.
    pub fn has(self, address: IpAddr) -> bool {
        self.meet(Families::of(address))
    }

    /// Whether any is of both.
    pub fn meet(self, other: Families) -> bool {
        self.ipv4 && other.ipv4 || self.ipv6 && other.ipv6
    }
}

/// The index of the source for `site`, whose hosts have addresses of these families; `None` if no source reaches one. A source is
/// its lasting name and the families that it reaches.
pub fn choose<'s>(
    sources: impl Iterator<Item = (&'s str, Families)>,
    site: &str,
    hosts: Families,
) -> Option<usize> {
    let able = sources.enumerate().filter(|(_, (_, families))| families.meet(hosts));
    able.max_by_key(|(_, (name, _))| weight(name, site)).map(|(index, _)| index)
}

/// FNV-1a over both names, then the finalizer of SplitMix64, without which names that differ in their last byte
/// alone would keep their order at every site. Written out, since it must never change: the sources of all sites would.
fn weight(source: &str, site: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in source.bytes().chain([0]).chain(site.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The sources that rest, each at the sites that block it: at most [`SOURCE_RESTS_MAX`].
#[derive(Debug, Default)]
pub struct Rests {
    sites: HashMap<Box<str>, Vec<Rest>>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    source: usize,
    until: Instant,
    time: Duration,
    /// It has ended, and has been told as ended.
    over: bool,
}

impl Rests {
    /// The site has refused the source: it rests for so long, unless it rests already. The first rest takes
    /// [`SOURCE_REST_MIN`], each further one twice as long as the last, up to [`SOURCE_REST_MAX`].
    pub fn on_blocked(&mut self, source: usize, site: &str, now: Instant) -> Option<Duration> {
        if let Some(rest) = self.find(source, site) {
            if rest.until > now {
                return None;
            }
            rest.time = (rest.time * 2).clamp(SOURCE_REST_MIN, SOURCE_REST_MAX);
            rest.until = now + rest.time;
            rest.over = false;
            return Some(rest.time);
        }
        if self.count >= SOURCE_RESTS_MAX {
            // With so many rests, a site that is forgotten is asked again, and blocks again.
            return None;
        }
        self.count += 1;
        let rest = Rest { source, until: now + SOURCE_REST_MIN, time: SOURCE_REST_MIN, over: false };
        self.sites.entry(site.into()).or_default().push(rest);
        Some(SOURCE_REST_MIN)
    }

    /// How long the source still rests at the site.
    pub fn left(&self, source: usize, site: &str, now: Instant) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let rest = self.sites.get(site)?.iter().find(|rest| rest.source == source)?;
        rest.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// The site has answered the source: its next rest there is short again. Whether it knew of one.
    pub fn on_answer(&mut self, source: usize, site: &str, now: Instant) -> bool {
        if self.count == 0 {
            return false;
        }
        let Some(rest) = self.find(source, site) else { return false };
        // A session that was open before says nothing about those that are refused since.
        if rest.until > now {
            return false;
        }
        rest.until = now;
        rest.time = Duration::ZERO;
        true
    }

    /// Takes the sources whose rest at a site has ended since the last call, once for each site. A rest that ended long ago is
    /// forgotten.
    pub fn take_ended(&mut self, now: Instant) -> Vec<usize> {
        let mut ended = Vec::new();
        for rests in self.sites.values_mut() {
            for rest in rests.iter_mut().filter(|rest| rest.until <= now && !rest.over) {
                rest.over = true;
                ended.push(rest.source);
            }
            rests.retain(|rest| !rest.over || !rest.time.is_zero() && now < rest.until + SOURCE_REST_MAX);
        }
        self.sites.retain(|_, rests| !rests.is_empty());
        self.count = self.sites.values().map(Vec::len).sum();
        ended
    }

    fn find(&mut self, source: usize, site: &str) -> Option<&mut Rest> {
        self.sites.get_mut(site)?.iter_mut().find(|rest| rest.source == source)
    }
}

#[cfg(test)]
mod tests;
