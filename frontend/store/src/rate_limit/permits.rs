//! Permits of one of several nodes: parts of a limit that it has leased from the window that all nodes share.
//!
//! A permit is counted in the shared window when it is leased, and stays there for the time in which it may be used and the
//! length of the window ([`Window::lease`](super::Window::lease)). So no 60 seconds ever have more requests than the limit, whatever nodes do
//! with their permits. A permit that is not used in time is lost. Therefore a node leases one at first, twice as many each time
//! that it has used all of them, and never more than an eighth of the limit.

use super::shards::Shards;
use super::{Leased, Standing, WindowId, window};
use crate::UnixMs;

/// How long a permit may be used, in milliseconds.
pub const PERMIT_MS: u64 = 2_000;
/// The largest part of a limit that a node leases at once.
const PART: u32 = 8;

/// The permits of a node for one key and row.
#[derive(Debug, Clone, Default)]
struct Lot {
    left: u32,
    until: UnixMs,
    /// How many were leased at last.
    leased: u32,
    /// What the shared window had left after the last lease, and when it will have more.
    shared_left: u32,
    more_at: UnixMs,
}

/// The permits of a node, shared by all threads.
#[derive(Default)]
pub struct Permits(Shards<WindowId, Lot>);

impl Permits {
    /// Uses a permit; returns the state of the limit, or how many permits to lease.
    ///
    /// # Errors
    ///
    /// There is no permit, and so many should be leased.
    pub fn take(&self, id: WindowId, limit: u32, now: UnixMs) -> Result<Standing, u32> {
        self.0.change(id, |lot| {
            if lot.left > 0 && now < lot.until {
                lot.left -= 1;
                return Ok(standing(id, limit, lot, now));
            }
            // Permits that were lost show that fewer are needed.
            let want = if lot.left > 0 { lot.leased / 2 } else { lot.leased.saturating_mul(2) };
            lot.left = 0;
            Err(want.clamp(1, (limit / PART).max(1)))
        })
    }

    /// Takes back a permit that was used for a request which another limit has refused.
    pub fn give_back(&self, id: WindowId) {
        self.0.change(id, |lot| lot.left = lot.left.saturating_add(1));
    }

    /// Adds permits that were asked for at `asked`, and uses one of them. `None` if none was granted.
    pub fn granted(&self, id: WindowId, limit: u32, leased: Leased, asked: UnixMs) -> Option<Standing> {
        self.0.change(id, |lot| {
            let Leased { granted, left, more_at } = leased;
            (lot.shared_left, lot.more_at) = (left, more_at);
            lot.leased = granted.max(1);
            let more = granted.checked_sub(1)?;
            if lot.left == 0 || lot.until <= asked {
                lot.left = 0;
                lot.until = asked.saturating_add(PERMIT_MS);
            } else {
                // Two threads have leased at the same time. The earlier end is that of all.
                lot.until = lot.until.min(asked.saturating_add(PERMIT_MS));
            }
            lot.left = lot.left.saturating_add(more);
            Some(standing(id, limit, lot, asked))
        })
    }

    /// The state of a limit that has no permit left.
    pub fn refused(&self, id: WindowId, limit: u32, leased: Leased, now: UnixMs) -> Standing {
        let lot = Lot { more_at: leased.more_at, ..Lot::default() };
        standing(id, limit, &lot, now)
    }

    /// Forgets what has not been used for a while.
    pub fn forget_idle(&self, now: UnixMs) {
        self.0.retain(|lot| now < lot.until.saturating_add(window::WINDOW_MS));
    }
}

fn standing(id: WindowId, limit: u32, lot: &Lot, now: UnixMs) -> Standing {
    Standing {
        policy: id.row.as_str(),
        quota: limit,
        window_s: window::WINDOW_MS / 1000,
        remaining: lot.shared_left.saturating_add(lot.left).min(limit),
        now,
        more_at: lot.more_at.max(now),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Row, Window};
    use super::*;
    use crate::KeyId;

    const NOW: UnixMs = 1_801_386_000_000;

    fn id() -> WindowId {
        WindowId { key: KeyId::from_bytes([7; 16]), row: Row::Verify }
    }

    /// A request at a node; returns whether it is allowed.
    fn request(node: &Permits, shared: &mut Window, limit: u32, now: UnixMs) -> bool {
        match node.take(id(), limit, now) {
            Ok(_) => true,
            Err(want) => {
                let leased = shared.lease(limit, want, now);
                node.granted(id(), limit, leased, now).is_some()
            }
        }
    }

    /// Three nodes under pressure: requests of `per_ms` each millisecond for three minutes. Returns the largest number in any
    /// 60 seconds, and the number in all.
    fn pressure(limit: u32, every_ms: u64, seed: u64) -> (usize, usize) {
        let nodes = [Permits::default(), Permits::default(), Permits::default()];
        let mut shared = Window::default();
        let mut allowed: Vec<UnixMs> = Vec::new();
        let mut random = seed;
        for step in 0..180_000 / every_ms {
            let now = NOW + step * every_ms;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A node may be silent for a while, so that its permits are lost.
            let node = (random >> 33) as usize % 4;
            if let Some(node) = nodes.get(node)
                && request(node, &mut shared, limit, now)
            {
                allowed.push(now);
            }
        }
        let most = allowed
            .iter()
            .enumerate()
            .map(|(at, from)| allowed[at..].iter().take_while(|to| **to < from + window::WINDOW_MS).count());
        (most.max().unwrap_or(0), allowed.len())
    }

    #[test]
    fn no_minute_has_more_than_the_limit_and_little_of_it_is_lost() {
        for (limit, every_ms) in [(1, 5), (10, 5), (60, 5), (600, 5), (600, 50)] {
            for seed in 0..8 {
                let (most, all) = pressure(limit, every_ms, seed);
                assert!(most <= limit as usize, "{limit} {every_ms} {seed}: {most}");
                assert!(all >= limit as usize * 2, "{limit} {every_ms} {seed}: only {all}");
            }
        }
    }

    #[test]
    fn permits_end_and_a_quiet_node_leases_fewer() {
        let (node, limit) = (Permits::default(), 800);
        let mut shared = Window::default();
        for _ in 0..300 {
            assert!(request(&node, &mut shared, limit, NOW));
        }
        let Err(most) = (0..1000).map(|_| node.take(id(), limit, NOW)).find(Result::is_err).unwrap() else {
            panic!("it has permits without end")
        };
        assert_eq!(most, 100);
        node.granted(id(), limit, Leased { granted: 100, left: 0, more_at: NOW }, NOW);
        assert!(node.take(id(), limit, NOW + PERMIT_MS - 1).is_ok());
        assert_eq!(node.take(id(), limit, NOW + PERMIT_MS).map(drop), Err(50));
    }
}
