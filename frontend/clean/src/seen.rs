//! The addresses of earlier rows, and their verdicts.
//!
//! Two rows have the same address if [`Address::canonical`] is equal. It is stored as a keyed hash of 128 bits
//! (SipHash-2-4, with a new key for each run). So a collision is less likely than an error of the disk, and cannot be
//! constructed.

use super::CleanError;
use super::outcome::Outcome;
use engine::proto::address::Address;
use spill::State;
use spill::codes::Codes;
use spill::keyed::Keyed;
use spill::table::Table;

/// The addresses of earlier rows.
pub(super) struct Seen {
    keyed: Keyed,
    /// The first row of each address, by the hash of the address.
    first: Table,
    /// The result of each first row.
    results: RowResults,
    folded: Vec<u8>,
    /// The hash of the last address.
    key: u128,
}

/// The results of rows: the code alone takes an eighth of the memory.
enum RowResults {
    Codes(Codes<1>),
    Full(Codes<8>),
}

impl Seen {
    /// Uses the memory shares of the state. `is_full`: results have more than a code.
    pub fn new(state: &State, keyed: Keyed, is_full: bool) -> Seen {
        let memory = state.shares.codes;
        Seen {
            keyed,
            first: Table::new(state.shares),
            results: match is_full {
                false => RowResults::Codes(Codes::new(memory)),
                true => RowResults::Full(Codes::new(memory)),
            },
            folded: Vec::new(),
            key: 0,
        }
    }

    /// The hash of an address. Addresses of the same mailbox have equal hashes.
    #[inline(always)]
    pub fn key(&mut self, address: &Address) -> u128 {
        // The same text as `Address::canonical`, without an allocation.
        self.folded.clear();
        self.folded.extend_from_slice(address.as_str().as_bytes());
        self.folded.make_ascii_lowercase();
        self.keyed.hash(&self.folded)
    }

    /// The hash of the address of the last call of [`Seen::earlier`].
    pub fn last_key(&self) -> u128 {
        self.key
    }

    /// The earlier row with this address. If there is none, this row becomes the first.
    ///
    /// # Errors
    /// The state fails.
    // The loop over rows calls it. The compiler inlines it by itself only if there is one call.
    #[inline(always)]
    pub fn earlier(
        &mut self,
        state: &mut State,
        address: &Address,
        row: u64,
    ) -> Result<Option<u64>, CleanError> {
        let key = self.key(address);
        self.key = key;
        let earlier = self.first.get(state, key)?;
        if earlier.is_none() {
            self.first.put(state, key, row)?;
        }
        Ok(earlier)
    }

    /// The result of a first row; its code is 0 while there is none.
    ///
    /// # Errors
    /// The state fails.
    pub fn outcome(&mut self, state: &mut State, row: u64) -> Result<Outcome, CleanError> {
        Ok(match &mut self.results {
            RowResults::Codes(codes) => Outcome::of_code(codes.get(state, row)?[0]),
            RowResults::Full(results) => Outcome::from_bits(u64::from_le_bytes(results.get(state, row)?)),
        })
    }

    /// Stores the result of a first row.
    ///
    /// # Errors
    /// The state fails.
    pub fn settle(&mut self, state: &mut State, row: u64, outcome: Outcome) -> Result<(), CleanError> {
        let stored = match &mut self.results {
            RowResults::Codes(codes) => codes.set(state, row, [outcome.code()]),
            RowResults::Full(results) => results.set(state, row, outcome.bits().to_le_bytes()),
        };
        Ok(stored?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::state;
    use super::*;

    #[test]
    fn an_address_is_known_by_its_canonical_form() {
        let (_folder, mut state) = state(0);
        let mut seen = Seen::new(&state, Keyed::new().unwrap(), false);
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
        assert_eq!(seen.outcome(&mut state, 3).unwrap(), Outcome::of_code(0));
        seen.settle(&mut state, 3, Outcome::of_code(7)).unwrap();
        assert_eq!(seen.outcome(&mut state, 3).unwrap(), Outcome::of_code(7));
        let mut full = Seen::new(&state, Keyed::new().unwrap(), true);
        let outcome = Outcome::from_bits(0x1234_5678_9abc_def0);
        full.settle(&mut state, 5000, outcome).unwrap();
        assert_eq!(full.outcome(&mut state, 5000).unwrap(), outcome);
    }
}
