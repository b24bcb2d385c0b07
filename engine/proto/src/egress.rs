//! Chooses the source for each site (the hosts of one operator), and lets a source rest at a site that blocks it. A source is an IP
//! address of ours or a proxy.
//!
//! The choice is a rendezvous hash (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). Every source
//! has a weight at each site. Of the sources that can reach the site, the one with the greatest weight is chosen. The weight
//! depends only on the names of the source and the site, so the choice is the same after a restart. If a source is added, it takes
//! over its share of the sites, and all other sites keep their sources. Greylisting needs such a lasting choice, because a second
//! try has to come from the same address as the first.
//!
//! A source that a site blocks rests there: mailprobe does not contact the site for a while, and for longer after each further
//! block. No other source replaces it, because only spammers evade a block by the use of another address.

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

    /// The families that occur among these addresses.
    pub fn of_all(addresses: impl Iterator<Item = IpAddr>) -> Families {
        addresses.map(Families::of).fold(Families::default(), Families::union)
    }

    /// The families that are in either set or in both.
    pub fn union(self, other: Families) -> Families {
        Families { ipv4: self.ipv4 || other.ipv4, ipv6: self.ipv6 || other.ipv6 }
    }

    /// Whether the family of this address is in the set.
    pub fn has(self, address: IpAddr) -> bool {
        self.intersects(Families::of(address))
    }

    /// Whether the two sets have a family in common.
    pub fn intersects(self, other: Families) -> bool {
        self.ipv4 && other.ipv4 || self.ipv6 && other.ipv6
    }
}

/// The index of the source for `site`. `hosts` has the families of the site's addresses. Returns `None` if no source has one of
/// these families. Each source is given by a name that never changes and by its families.
pub fn choose<'s>(
    sources: impl Iterator<Item = (&'s str, Families)>,
    site: &str,
    hosts: Families,
) -> Option<usize> {
    let able = sources.enumerate().filter(|(_, (_, families))| families.intersects(hosts));
    able.max_by_key(|(_, (name, _))| weight(name, site)).map(|(index, _)| index)
}

/// The weight of a source at a site: FNV-1a over both names, then the finalizer of SplitMix64. Without the finalizer, names that
/// differ only in their last byte would have the same order at every site. The function is written out here because it must never
/// change: otherwise the sites would get other sources.
fn weight(source: &str, site: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in source.bytes().chain([0]).chain(site.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The rests of all sources at the sites that block them: at most [`SOURCE_RESTS_MAX`].
#[derive(Debug, Default)]
pub struct Rests {
    sites: HashMap<Box<str>, Vec<Rest>>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    source: usize,
    until: Instant,
    /// The length of this rest; zero if the site has answered since.
    time: Duration,
    /// Whether [`Rests::take_ended`] has returned this rest.
    reported: bool,
}

impl Rests {
    /// The site has blocked the source. Returns how long the source rests there from now on; `None` if it is already resting, or if
    /// no further rest can be remembered. The first rest lasts for [`SOURCE_REST_MIN`], and so does the first one after an answer,
    /// or after earlier rests were forgotten. Each further one lasts twice as long as the one before, up to [`SOURCE_REST_MAX`].
    pub fn on_blocked(&mut self, source: usize, site: &str, now: Instant) -> Option<Duration> {
        if let Some(rest) = self.find(source, site) {
            if rest.until > now {
                return None;
            }
            rest.time = (rest.time * 2).clamp(SOURCE_REST_MIN, SOURCE_REST_MAX);
            rest.until = now + rest.time;
            rest.reported = false;
            return Some(rest.time);
        }
        if self.count >= SOURCE_RESTS_MAX {
            // There is no room for this rest. The site is asked again, and blocks again.
            return None;
        }
        self.count += 1;
        let rest = Rest { source, until: now + SOURCE_REST_MIN, time: SOURCE_REST_MIN, reported: false };
        self.sites.entry(site.into()).or_default().push(rest);
        Some(SOURCE_REST_MIN)
    }

    /// How much longer the source rests at the site; `None` if it does not rest there.
    pub fn left(&self, source: usize, site: &str, now: Instant) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let rest = self.sites.get(site)?.iter().find(|rest| rest.source == source)?;
        rest.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// The site has answered the source, so the next rest of the source there is short again. Returns true if there was an earlier
    /// rest that is over.
    pub fn on_answer(&mut self, source: usize, site: &str, now: Instant) -> bool {
        if self.count == 0 {
            return false;
        }
        let Some(rest) = self.find(source, site) else { return false };
        // The source still rests, so the session was opened before the block. Its answer does not show that the block is over.
        if rest.until > now {
            return false;
        }
        rest.until = now;
        rest.time = Duration::ZERO;
        true
    }

    /// Returns the sources of all rests that have ended since the last call. A source is returned once for each site. Afterwards a
    /// rest is forgotten if the site has answered since, or if the rest ended at least [`SOURCE_REST_MAX`] ago.
    pub fn take_ended(&mut self, now: Instant) -> Vec<usize> {
        let mut ended = Vec::new();
        for rests in self.sites.values_mut() {
            for rest in rests.iter_mut().filter(|rest| rest.until <= now && !rest.reported) {
                rest.reported = true;
                ended.push(rest.source);
            }
            rests.retain(|rest| !rest.reported || !rest.time.is_zero() && now < rest.until + SOURCE_REST_MAX);
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
