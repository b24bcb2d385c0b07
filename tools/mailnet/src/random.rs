//! Repeatable random numbers: a keyed hash of bytes and a small generator, both from a seed.
//!
//! Nothing here is secret. The same scenario must give the same net on every machine. A library's generator may have
//! another sequence in its next version, which would change every scenario.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps per number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `least..=most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True with a probability of `percent`.
    pub(crate) fn percent(&mut self, percent: f64) -> bool {
        (self.below(1_000_000) as f64) < percent * 10_000.0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes parts of bytes with a seed; ASCII case is ignored, as at all large providers.
pub(crate) fn hash(seed: u64, pieces: &[&[u8]]) -> u64 {
    let mut state = mix(seed ^ 0x6d61_696c_6e65_7421);
    for piece in pieces {
        for byte in *piece {
            state = (state ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3);
        }
        state = mix(state ^ piece.len() as u64);
    }
    mix(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_even_and_repeatable() {
        let hits =
            (0..100_000).filter(|n| hash(1, &[format!("user-{n}").as_bytes()]).is_multiple_of(2)).count();
        assert!((49_000..51_000).contains(&hits), "{hits}");
        assert_eq!(hash(1, &[b"A", b"b"]), hash(1, &[b"a", b"B"]));
        assert_ne!(hash(1, &[b"ab", b"c"]), hash(1, &[b"a", b"bc"]));
        assert_ne!(hash(1, &[b"a"]), hash(2, &[b"a"]));
    }

    #[test]
    fn ranges_are_kept() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.percent(100.0) && !random.percent(0.0)));
    }
}
