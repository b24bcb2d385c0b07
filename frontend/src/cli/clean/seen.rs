//! Which addresses came before, and what was said of them.
//!
//! Two lines have the same address when [`Address::canonical`] says so. It is kept as a keyed hash of 128 bits
//! (SipHash-2-4, with a key that is made for the run), so two that differ are held to be the same less often than a
//! disk errs, and nobody can make them so.

use super::CleanError;
use super::state::State;
use super::state::codes::Codes;
use super::state::table::Table;
use engine::proto::address::Address;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// A keyed hash of 128 bits.
#[derive(Clone, Copy)]
pub(super) struct Keyed(SipHasher24);

impl Keyed {
    /// With a key of its own.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn new() -> Result<Keyed, CleanError> {
        let mut key = [0; 16];
        getrandom::fill(&mut key)
            .map_err(|e| CleanError::failed(format!("no randomness can be had: {e}")))?;
        Ok(Keyed(SipHasher24::new_with_key(&key)))
    }

    pub fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = self.0;
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }
}

/// See the module.
pub(super) struct Seen {
    keyed: Keyed,
    /// From the hash of an address to its first row.
    first: Table,
    /// The verdict of each row that is the first of its address.
    codes: Codes,
    folded: Vec<u8>,
}

impl Seen {
    /// With the state's shares of memory.
    ///
    /// # Errors
    /// As [`Keyed::new`].
    pub fn new(state: &State) -> Result<Seen, CleanError> {
        Ok(Seen {
            keyed: Keyed::new()?,
            first: Table::new(state.shares),
            codes: Codes::new(state.shares.codes),
            folded: Vec::new(),
        })
    }

    /// The earlier row that has this address; else this row is its first from now on.
    ///
    /// # Errors
    /// When the state fails.
    pub fn earlier(
        &mut self,
        state: &mut State,
        address: &Address,
        row: u64,
    ) -> Result<Option<u64>, CleanError> {
        // What `Address::canonical` gives, without an allocation.
        self.folded.clear();
        self.folded.extend_from_slice(address.as_str().as_bytes());
        self.folded.make_ascii_lowercase();
        let key = self.keyed.hash(&self.folded);
        let earlier = self.first.get(state, key)?;
        if earlier.is_none() {
            self.first.put(state, key, row)?;
        }
        Ok(earlier)
    }

    /// The verdict's code of a row that is the first of its address; 0 while there is none.
    ///
    /// # Errors
    /// When the state fails.
    pub fn code(&mut self, state: &mut State, row: u64) -> Result<u8, CleanError> {
        self.codes.get(state, row)
    }

    /// Notes it.
    ///
    /// # Errors
    /// When the state fails.
    pub fn settle(&mut self, state: &mut State, row: u64, code: u8) -> Result<(), CleanError> {
        self.codes.set(state, row, code)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn an_address_is_known_by_its_canonical_form() {
        let (_folder, mut state) = state(0);
        let mut seen = Seen::new(&state).unwrap();
        for (row, text, earlier) in [
            (0, "Joe@Example.com", None),
            (1, "joe@example.COM", Some(0)),
            (2, "\"joe\"@example.com", Some(0)),
            (3, "ann@example.com", None),
            (4, "ann@bücher.example", None),
            (5, "ANN@xn--bcher-kva.example", Some(4)),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(seen.earlier(&mut state, &address, row).unwrap(), earlier, "{text}");
            assert_eq!(address.canonical().as_bytes(), seen.folded, "{text}");
        }
        assert_eq!(seen.code(&mut state, 3).unwrap(), 0);
        seen.settle(&mut state, 3, 7).unwrap();
        assert_eq!(seen.code(&mut state, 3).unwrap(), 7);
    }
}
