//! The search for the different addresses of a list, in slices.
//!
//! A table has the number of each different address, by its keyed hash: the addresses are numbered in the order in which they first
//! occur. The number of each row's address goes into the index of the list, whose parts are stored at the end, because a list
//! without duplicates needs no index. What does not fit into memory is in a temporary file.

use crate::index::PART_BYTES;
use crate::temp::{TempFile, WorkFiles};
use spill::spool::Spool;
use spill::table::Table;
use spill::{SpillError, State, TemporaryFile};
use std::io;
use std::sync::Arc;
use store::{AddressHash, KeyMode, List, StoreError, clock};
use store_rules::Store;

/// Most rows of a list. A longer list would take too long.
pub const ROWS_MAX: u64 = 5_000_000;
/// Addresses that the store is asked about at once.
const ASKED_AT_ONCE: usize = 512;
/// Memory of a search in bytes.
const MEMORY: usize = if cfg!(test) { 16 << 10 } else { 8 << 20 };

/// The reason why a list cannot be read now. It can be tried again.
#[derive(Debug)]
pub enum DistinctError {
    /// The store failed.
    Store(StoreError),
    /// A temporary file cannot be written or read.
    File(SpillError),
    /// The list was deleted or cancelled while it was read.
    Gone,
}

impl From<StoreError> for DistinctError {
    fn from(error: StoreError) -> DistinctError {
        DistinctError::Store(error)
    }
}

impl From<SpillError> for DistinctError {
    fn from(error: SpillError) -> DistinctError {
        DistinctError::File(error)
    }
}

/// The numbers of a list's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Rows with an address.
    pub addresses: u64,
    /// Different addresses.
    pub distinct: u64,
    /// Different addresses that the account has checked within 24 hours.
    pub known: u64,
}

/// A temporary file that is created when it is needed: most lists need none.
struct LateFile {
    files: WorkFiles,
    file: Option<TempFile>,
}

impl TemporaryFile for LateFile {
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.files.create_search()?),
        };
        file.write_all_at(bytes, at)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?.read_exact_at(bytes, at)
    }
}

/// Collects the addresses of a list.
pub struct Addresses {
    state: State,
    /// The number of each different address.
    numbers: Table,
    /// Addresses that the store was not asked about yet.
    waiting: Vec<AddressHash>,
    counted: Counted,
    /// The complete parts of the index, and the next one.
    parts: Spool,
    part: Vec<u8>,
}

impl Addresses {
    /// No addresses so far.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn new(files: WorkFiles) -> Result<Addresses, DistinctError> {
        let file = LateFile { files, file: None };
        let state = State::over(Box::new(file), "a temporary file of a list".into(), MEMORY)?;
        Ok(Addresses {
            numbers: Table::new(state.shares),
            state,
            waiting: Vec::with_capacity(ASKED_AT_ONCE),
            counted: Counted::default(),
            parts: Spool::default(),
            part: Vec::new(),
        })
    }

    /// Adds the address of the next row that has one.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn push(&mut self, store: &Arc<Store>, list: &List, hash: AddressHash) -> Result<(), DistinctError> {
        self.waiting.push(hash);
        if self.waiting.len() < ASKED_AT_ONCE { Ok(()) } else { self.ask(store, list) }
    }

    /// Asks the store which addresses are known, and numbers them.
    fn ask(&mut self, store: &Arc<Store>, list: &List) -> Result<(), DistinctError> {
        let hashes = std::mem::take(&mut self.waiting);
        let known = match list.mode {
            KeyMode::Live => store.is_own(list.account, hashes.clone(), clock::now()).wait()?,
            KeyMode::Test => vec![false; hashes.len()],
        };
        for (hash, is_known) in hashes.into_iter().zip(known) {
            let key = u128::from_be_bytes(hash.0);
            let number = match self.numbers.get(&mut self.state, key)? {
                Some(number) => number,
                None => {
                    let number = self.counted.distinct;
                    self.numbers.put(&mut self.state, key, number)?;
                    self.counted.distinct += 1;
                    self.counted.known += u64::from(is_known);
                    number
                }
            };
            self.counted.addresses += 1;
            self.part.extend_from_slice(&(number as u32).to_le_bytes());
            if self.part.len() == PART_BYTES {
                self.end_part()?;
            }
        }
        Ok(())
    }

    fn end_part(&mut self) -> Result<(), DistinctError> {
        self.parts.push(&mut self.state, [&self.part, &[]])?;
        self.part.clear();
        Ok(())
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn finish(mut self, store: &Arc<Store>, list: &List) -> Result<Indexing, DistinctError> {
        self.ask(store, list)?;
        self.end_part()?;
        let Addresses { state, counted, parts, part, .. } = self;
        Ok(Indexing { state, counted, parts, part, next: 0 })
    }
}

/// Stores the index, part by part.
pub struct Indexing {
    state: State,
    counted: Counted,
    parts: Spool,
    part: Vec<u8>,
    /// The number of the next part.
    next: u32,
}

impl Indexing {
    /// Stores a part of the index; returns the numbers of the list after the last one. A list without duplicates needs no index.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn step(&mut self, store: &Arc<Store>, list: &List) -> Result<Option<Counted>, DistinctError> {
        if self.counted.distinct == self.counted.addresses
            || !self.parts.pop(&mut self.state, &mut self.part)?
        {
            return Ok(Some(self.counted));
        }
        if !self.part.is_empty() && !store.put_list_index(list, self.next, &self.part).wait()? {
            return Err(DistinctError::Gone);
        }
        self.next += 1;
        Ok(None)
    }
}

// The number of an address has 32 bits.
const _: () = assert!(ROWS_MAX < u32::MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::temp::TempFiles;
    use crate::work::tests::{put, store_with_account, stored};
    use std::collections::HashMap;
    use store::ListState;

    /// Searches the different ones of random addresses, and compares the index with a simple search.
    fn check(count: usize, different: u64) {
        let (folder, store, account) = store_with_account();
        let list = put(&store, List { state: ListState::Reading, ..stored(&store, account, 2, b"") });

        let mut random = fastrand::Rng::with_seed(different);
        let files = TempFiles::new(folder.path());
        let mut addresses = Addresses::new(files.of(account)).unwrap();
        let (mut numbers, mut expected) = (HashMap::new(), Vec::new());
        for _ in 0..count {
            let number = u128::from(random.u64(0..different));
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
            addresses.push(&store, &list, AddressHash(hash)).unwrap();
            let next = numbers.len() as u64;
            expected.push(*numbers.entry(hash).or_insert(next));
        }
        let mut indexing = addresses.finish(&store, &list).unwrap();
        let counted =
            std::iter::repeat_with(|| indexing.step(&store, &list).unwrap()).flatten().next().unwrap();
        let distinct = numbers.len() as u64;
        assert_eq!(counted, Counted { addresses: count as u64, distinct, known: 0 });
        let list = List { addresses: counted.addresses, distinct, ..list };
        let mut index = Index::default();
        for number in expected {
            assert_eq!(index.next(&store, &list), Ok(number));
        }
        assert_eq!(index.next(&store, &list).is_err(), distinct < counted.addresses);
    }

    #[test]
    fn duplicates_get_the_number_of_the_first_row_with_their_address() {
        for (count, different) in
            [(0, 1), (1, 1), (64, 1), (1_000, 300), (15_360, 2), (20_000, 1 << 60), (130_000, 50_000)]
        {
            check(count, different);
        }
    }
}
