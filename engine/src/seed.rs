//! Where the engine's randomness comes from: the operating system, and in a simulation ([`crate::sim`]) the seed of the
//! thread that runs it, so that the same seed draws and orders everything alike.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// A map whose order nobody outside can foresee.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;

#[cfg(not(feature = "sim"))]
pub(crate) type Hashing = std::hash::RandomState;

#[cfg(feature = "sim")]
pub(crate) use simulated::Hashing;

/// A generator of random numbers of its own.
pub(crate) fn rng() -> StdRng {
    #[cfg(feature = "sim")]
    if let Some(seed) = simulated::draw() {
        return StdRng::seed_from_u64(seed);
    }
    StdRng::from_os_rng()
}

#[cfg(feature = "sim")]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

    thread_local! {
        static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From here on all randomness of this thread follows from `seed`; with `None` from the operating system again.
    pub(crate) fn plant(seed: Option<u64>) {
        SEED.set(seed);
    }

    /// The next number of the thread's seed, if it has one.
    pub(crate) fn draw() -> Option<u64> {
        let seed = SEED.get()?;
        SEED.set(Some(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        Some(mix(seed))
    }

    /// The finalizer of splitmix64: every bit of the input reaches every bit of the output.
    pub(crate) fn mix(mut bits: u64) -> u64 {
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// The standard library's hashing, keyed by the thread's seed where it has one.
    #[derive(Clone)]
    pub(crate) enum Hashing {
        Random(RandomState),
        Seeded(u64),
    }

    impl Default for Hashing {
        fn default() -> Hashing {
            draw().map_or_else(|| Hashing::Random(RandomState::new()), Hashing::Seeded)
        }
    }

    impl BuildHasher for Hashing {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            match self {
                Hashing::Random(state) => state.build_hasher(),
                Hashing::Seeded(seed) => {
                    let mut hasher = DefaultHasher::new();
                    hasher.write_u64(*seed);
                    hasher
                }
            }
        }
    }
}
