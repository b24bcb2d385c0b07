//! A Bloom filter of blocks of one cache line each (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom
//! Filters, 2007). With one memory access it excludes most keys that the run does not contain.

/// Bits per key, if there is room, and number of bits set: about one absent key in two hundred is searched in vain.
const BITS_A_KEY: (usize, u32) = (14, 7);
/// A filter with more keys than this has fewer bits per key: about one absent key in sixty is searched in vain. There is one
/// such filter for many small ones, so fewer bits here save more than they cost (Dayan, Athanassoulis, Idreos: Monkey, 2017).
const MANY_KEYS: usize = 1 << 20;
const BITS_A_KEY_OF_MANY: (usize, u32) = (9, 6);

type CacheLine = [u64; 8];

/// A Bloom filter. Its keys must be evenly distributed.
#[derive(Default)]
pub struct Filter {
    lines: Vec<CacheLine>,
    probes: u32,
}

impl Filter {
    /// A filter for `keys` keys, in at most `bytes_max` bytes. With fewer bytes it has more false positives, but never a false
    /// negative.
    pub fn new(keys: usize, bytes_max: usize) -> Filter {
        let (bits, probes) = if keys > MANY_KEYS { BITS_A_KEY_OF_MANY } else { BITS_A_KEY };
        let bytes = (keys * bits / 8).min(bytes_max);
        Filter { lines: vec![[0; 8]; bytes.div_ceil(size_of::<CacheLine>()).max(1)], probes }
    }

    /// Its size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<CacheLine>()
    }

    /// Adds a key to the filter.
    pub fn insert(&mut self, key: u128) {
        let (line, bits) = self.place(key);
        for probe in 0..self.probes {
            let bit = bit(bits, probe);
            self.lines[line][bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Whether the filter may contain the key. `false` is certain.
    pub fn may_hold(&self, key: u128) -> bool {
        let (line, bits) = self.place(key);
        let line = &self.lines[line];
        (0..self.probes).all(|probe| {
            let bit = bit(bits, probe);
            line[bit / 64] & 1 << (bit % 64) != 0
        })
    }

    /// The line, from the upper bits of the lower half, and the bits in it, from the rest.
    fn place(&self, key: u128) -> (usize, u64) {
        let low = key as u64;
        let line = (u128::from(low) * self.lines.len() as u128) >> 64;
        let bits = (low ^ ((key >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (line as usize, bits >> 1)
    }
}

fn bit(bits: u64, probe: u32) -> usize {
    (bits >> (probe * 9)) as usize % 512
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that looks random.
    fn key(n: u64) -> u128 {
        let mix = |n: u64| {
            let n = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
            (n ^ n >> 27).wrapping_mul(0x81da_def4_bc2d_d44d)
        };
        u128::from(mix(n ^ 0x5555)) << 64 | u128::from(mix(mix(n)))
    }

    #[test]
    fn nothing_that_is_there_is_denied_and_most_that_is_not_is() {
        // Keys, bytes, and the maximum of false positives per 1,000.
        let many = MANY_KEYS as u64 + 1;
        for (keys, room, wrong_max) in
            [(100_000, usize::MAX, 8), (100_000, 62_500, 400), (100_000, 0, 1000), (many, usize::MAX, 25)]
        {
            let mut filter = Filter::new(keys as usize, room);
            (0..keys).for_each(|n| filter.insert(key(n)));
            assert!((0..keys).all(|n| filter.may_hold(key(n))));
            let wrong = (2 * keys..2 * keys + 100_000).filter(|&n| filter.may_hold(key(n))).count();
            assert!(wrong <= wrong_max * 100, "{wrong} of 100,000 with {keys} keys in {room}");
        }
    }
}
