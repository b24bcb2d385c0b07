//! Hashes of addresses, in place of the addresses: without the key, two addresses with one hash cannot be found.

use super::SpillError;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fs::File;
use std::hash::Hasher;
use std::io::{ErrorKind, Read};
use std::path::Path;

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

/// The length and hash of the first bytes of a list, which tell one list from another. A list may grow at its end.
pub struct ListStart {
    bytes: u64,
    hash: u128,
}

impl ListStart {
    /// Most bytes that are compared.
    const BYTES_MAX: u64 = 4096;

    fn of(path: &Path, most: u64) -> std::io::Result<ListStart> {
        // A pipe would lose what is read here.
        if !std::fs::metadata(path)?.is_file() {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut start = Vec::new();
        File::open(path)?.take(most).read_to_end(&mut start)?;
        Ok(ListStart { bytes: start.len() as u64, hash: Keyed::with_seed(0).hash(&start) })
    }

    /// The text that a file notes about a list: a tab before each value. It is empty for a pipe or a device, of which nothing can be
    /// compared.
    pub fn text(list: &Path) -> String {
        match ListStart::of(list, ListStart::BYTES_MAX) {
            Ok(ListStart { bytes, hash }) => format!("\t{bytes}\t{hash:032x}"),
            Err(_) => String::new(),
        }
    }

    /// Whether a line that ends with such a text is about another list. Nothing is known of a pipe or a device.
    pub fn is_of_another(line: &str, list: &Path) -> bool {
        let mut parts = line.split('\t').skip(1);
        let (Some(bytes), Some(hash)) = (parts.next(), parts.next()) else { return false };
        let Ok(bytes) = bytes.parse() else { return false };
        let found = ListStart::of(list, bytes);
        found.is_ok_and(|found| found.bytes != bytes || format!("{:032x}", found.hash) != hash)
    }
}
