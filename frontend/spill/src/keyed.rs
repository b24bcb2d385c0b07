//! Hashes of addresses, in place of the addresses: somebody who does not have the key cannot find two addresses with one hash.

use super::SpillError;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// A keyed hash of 128 bits.
#[derive(Clone, Copy)]
pub struct Keyed(SipHasher24);

impl Keyed {
    /// Length of a key.
    pub const BYTES: usize = 16;

    /// A hash with a new key.
    ///
    /// # Errors
    /// The system provides no random bits.
    pub fn new() -> Result<Keyed, SpillError> {
        let mut key = [0; Keyed::BYTES];
        getrandom::fill(&mut key).map_err(|e| SpillError::failed(format!("cannot get random bits: {e}")))?;
        Ok(Keyed::with_key(key))
    }

    /// A hash with this key.
    pub fn with_key(key: [u8; Keyed::BYTES]) -> Keyed {
        Keyed(SipHasher24::new_with_key(&key))
    }

    /// The key of this hash, to store it.
    pub fn key(&self) -> [u8; Keyed::BYTES] {
        self.0.key()
    }

    /// The hash with the key of this seed.
    pub fn with_seed(seed: u64) -> Keyed {
        Keyed(SipHasher24::new_with_keys(seed, !seed))
    }

    /// The hash of these bytes.
    pub fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = self.0;
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }
}
