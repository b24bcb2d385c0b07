//! The source of all random numbers of the engine: the operating system, or the seed of the thread in a simulation (`sim.rs`). With
//! the same seed, a simulation has the same random numbers, and each map has the same order.

use rand::Rng;
#[cfg(feature = "sim")]
use rand::SeedableRng;
use rand::rngs::StdRng;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::{BuildHasherDefault, Hasher};
#[cfg(feature = "sim")]
use std::time::Duration;
use std::time::SystemTime;

/// A map with a random hash key, so no peer can predict its order.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;

#[cfg(not(feature = "sim"))]
pub(crate) type Hashing = std::hash::RandomState;

#[cfg(feature = "sim")]
pub(crate) use simulated::SeededHashing as Hashing;

/// A map for keys that are already keyed hashes. It does not hash them again.
pub type NumberMap<V> = std::collections::HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// A hasher that returns the number that it is given.
#[derive(Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// Every hasher needs this method, but a `u64` goes through `write_u64`.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A new generator of random numbers, with a seed of its own.
pub(crate) fn rng() -> StdRng {
    #[cfg(feature = "sim")]
    if let Some(seed) = simulated::draw() {
        return StdRng::seed_from_u64(seed);
    }
    rand::make_rng()
}

/// The wall clock at the start of an engine. In a simulation, the seed selects a time of one particular day in November 2023.
pub(crate) fn wall_clock() -> SystemTime {
    #[cfg(feature = "sim")]
    if let Some(drawn) = simulated::draw() {
        return SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + drawn % 86_400);
    }
    SystemTime::now()
}

pub(crate) fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    rng().fill_bytes(&mut secret);
    secret
}

/// A hash of the parts, in their order, with a secret key. The same key gives the same hash after a restart and in later releases.
pub(crate) fn keyed_hash(key: &[u8; 32], parts: &[&str]) -> [u8; 16] {
    let (first, second) = key.split_at(16);
    let mut sip = [0; 16];
    sip.copy_from_slice(first);
    let mut hasher = SipHasher24::new_with_key(&sip);
    // SipHash has a key of 16 bytes, so the second half of our key is hashed before the parts.
    hasher.write(second);
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part.as_bytes());
    }
    hasher.finish128().as_bytes()
}

/// The first 8 bytes of [`keyed_hash`], as a number.
pub(crate) fn keyed_number(key: &[u8; 32], parts: &[&str]) -> u64 {
    let hash = keyed_hash(key, parts);
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(number)
}

#[cfg(feature = "sim")]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

    thread_local! {
        static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From now on, all randomness of this thread follows from `seed`. If `None`, it comes from the operating system again.
    pub(crate) fn plant(seed: Option<u64>) {
        SEED.set(seed);
    }

    /// The next number that follows from the thread's seed, if the thread has one.
    pub(crate) fn draw() -> Option<u64> {
        let seed = SEED.get()?;
        SEED.set(Some(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        Some(mix(seed))
    }

    /// The finalizer of splitmix64: every bit of the input influences every bit of the output.
    pub(crate) fn mix(mut bits: u64) -> u64 {
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// The hashing of the standard library, with a key that follows from the thread's seed if there is one.
    #[derive(Clone)]
    pub(crate) enum SeededHashing {
        Random(RandomState),
        Seeded(u64),
    }

    impl Default for SeededHashing {
        fn default() -> SeededHashing {
            draw().map_or_else(|| SeededHashing::Random(RandomState::new()), SeededHashing::Seeded)
        }
    }

    impl BuildHasher for SeededHashing {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            match self {
                SeededHashing::Random(state) => state.build_hasher(),
                SeededHashing::Seeded(seed) => {
                    let mut hasher = DefaultHasher::new();
                    hasher.write_u64(*seed);
                    hasher
                }
            }
        }
    }
}
