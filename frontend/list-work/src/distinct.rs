//! The search for the different addresses of a list, in slices.
//!
//! 1. Each row with an address gives a record: the keyed hash of the address, the number of the row, and whether the account has
//!    checked the address within 24 hours.
//! 2. The records are sorted by the hash, so equal addresses are beside each other, with the first row in front. The other rows of
//!    an address are its duplicates.
//! 3. The duplicates are sorted by their rows again, and the index is written.
//!
//! The records are in a temporary file. In memory are a run of each sort, and one bit per row.

use crate::index::IndexWriter;
use crate::sort::{Sorted, Sorter};
use crate::temp::WorkFiles;
use std::io;
use std::sync::Arc;
use store::{AddressHash, KeyMode, List, StoreError, clock};
use store_rules::Store;

/// Most rows of a list. A longer list would take too long.
pub const ROWS_MAX: u64 = 5_000_000;
/// Addresses that the store is asked about at once.
const ASKED_AT_ONCE: usize = 512;
/// Records per slice: some milliseconds of work.
const SLICE_RECORDS: usize = 30_000;

/// A hash, the number of a row (big-endian), and whether the address is known.
const RECORD: usize = 16 + 4 + 1;
/// The numbers of a duplicate and of the first row with its address (big-endian).
const DUPLICATE: usize = 4 + 4;

/// The reason why a list cannot be read now. It can be tried again.
#[derive(Debug)]
pub enum DistinctError {
    /// The store failed.
    Store(StoreError),
    /// A temporary file cannot be written or read.
    File(io::Error),
    /// The list was deleted or cancelled while it was read.
    Gone,
}

impl From<StoreError> for DistinctError {
    fn from(error: StoreError) -> DistinctError {
        DistinctError::Store(error)
    }
}

impl From<io::Error> for DistinctError {
    fn from(error: io::Error) -> DistinctError {
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

/// Collects the addresses of a list.
pub struct Addresses {
    files: WorkFiles,
    sorter: Sorter<RECORD>,
    /// Addresses that the store was not asked about yet.
    waiting: Vec<AddressHash>,
    /// Rows with an address.
    count: u32,
}

impl Addresses {
    /// No addresses so far.
    pub fn new(files: WorkFiles) -> Addresses {
        Addresses {
            sorter: Sorter::new(files.clone()),
            files,
            waiting: Vec::with_capacity(ASKED_AT_ONCE),
            count: 0,
        }
    }

    /// Adds the address of the next row that has one.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn push(&mut self, store: &Arc<Store>, list: &List, hash: AddressHash) -> Result<(), DistinctError> {
        self.waiting.push(hash);
        if self.waiting.len() < ASKED_AT_ONCE { Ok(()) } else { self.ask(store, list) }
    }

    /// Asks the store which addresses are known, and passes them to the sort.
    fn ask(&mut self, store: &Arc<Store>, list: &List) -> Result<(), DistinctError> {
        let hashes = std::mem::take(&mut self.waiting);
        let known = match list.mode {
            KeyMode::Live => store.is_own(list.account, hashes.clone(), clock::now()).wait()?,
            KeyMode::Test => vec![false; hashes.len()],
        };
        for (hash, is_known) in hashes.into_iter().zip(known) {
            let mut record = [0; RECORD];
            record[..16].copy_from_slice(&hash.0);
            record[16..20].copy_from_slice(&self.count.to_be_bytes());
            record[20] = u8::from(is_known);
            self.sorter.push(record)?;
            self.count += 1;
        }
        Ok(())
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn finish(mut self, store: &Arc<Store>, list: &List) -> Result<Grouping, DistinctError> {
        self.ask(store, list)?;
        let words = (self.count as usize).div_ceil(64);
        Ok(Grouping {
            records: self.sorter.finish()?,
            duplicates: Sorter::new(self.files),
            bits: Duplicates { words: vec![0; words], before: Vec::new() },
            last: None,
            counted: Counted { addresses: self.count.into(), ..Counted::default() },
        })
    }
}

/// One bit per row with an address: whether it is a duplicate.
struct Duplicates {
    words: Vec<u64>,
    /// The number of duplicates before each word.
    before: Vec<u32>,
}

impl Duplicates {
    fn set(&mut self, row: u32) {
        self.words[row as usize / 64] |= 1 << (row % 64);
    }

    fn has(&self, row: u32) -> bool {
        self.words[row as usize / 64] >> (row % 64) & 1 == 1
    }

    fn sum_up(&mut self) {
        let mut sum = 0;
        self.before.clear();
        for word in &self.words {
            self.before.push(sum);
            sum += word.count_ones();
        }
    }

    /// The number of different addresses before a row.
    fn distinct_before(&self, row: u32) -> u32 {
        let word = row as usize / 64;
        let earlier = self.words[word] & ((1 << (row % 64)) - 1);
        row - self.before[word] - earlier.count_ones()
    }
}

/// Groups equal addresses, slice by slice.
pub struct Grouping {
    records: Sorted<RECORD>,
    duplicates: Sorter<DUPLICATE>,
    bits: Duplicates,
    /// The hash of the last group and its first row.
    last: Option<([u8; 16], u32)>,
    counted: Counted,
}

/// The result of a slice.
pub enum Step<T> {
    /// There are more slices.
    More,
    /// The next stage.
    Done(T),
}

impl Grouping {
    /// Takes a slice of the records.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn step(&mut self) -> Result<Step<()>, DistinctError> {
        for _ in 0..SLICE_RECORDS {
            let Some(record) = self.records.next()? else { return Ok(Step::Done(())) };
            let (hash, row) = split(&record);
            match self.last {
                Some((last, first)) if last == hash => {
                    let mut duplicate = [0; DUPLICATE];
                    duplicate[..4].copy_from_slice(&row.to_be_bytes());
                    duplicate[4..].copy_from_slice(&first.to_be_bytes());
                    self.duplicates.push(duplicate)?;
                    self.bits.set(row);
                }
                _ => {
                    self.last = Some((hash, row));
                    self.counted.distinct += 1;
                    self.counted.known += u64::from(record[20]);
                }
            }
        }
        Ok(Step::More)
    }

    /// The next stage: the index.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn finish(mut self) -> Result<Indexing, DistinctError> {
        self.bits.sum_up();
        let (duplicates, counted) = (self.duplicates.finish()?, self.counted);
        Ok(Indexing { duplicates, bits: self.bits, row: 0, writer: IndexWriter::default(), counted })
    }
}

fn split(record: &[u8; RECORD]) -> ([u8; 16], u32) {
    let (mut hash, mut row) = ([0; 16], [0; 4]);
    hash.copy_from_slice(&record[..16]);
    row.copy_from_slice(&record[16..20]);
    (hash, u32::from_be_bytes(row))
}

/// Writes the index, slice by slice.
pub struct Indexing {
    duplicates: Sorted<DUPLICATE>,
    bits: Duplicates,
    /// The next row with an address.
    row: u32,
    writer: IndexWriter,
    counted: Counted,
}

impl Indexing {
    /// Writes a slice of the index. A list without duplicates needs none.
    ///
    /// # Errors
    /// See [`DistinctError`].
    pub fn step(&mut self, store: &Arc<Store>, list: &List) -> Result<Step<Counted>, DistinctError> {
        if self.counted.distinct == self.counted.addresses {
            return Ok(Step::Done(self.counted));
        }
        for _ in 0..SLICE_RECORDS {
            if u64::from(self.row) == self.counted.addresses {
                let is_read = self.writer.flush(store, list)?;
                return if is_read { Ok(Step::Done(self.counted)) } else { Err(DistinctError::Gone) };
            }
            let mut first = self.row;
            if self.bits.has(self.row) {
                let duplicate = self.duplicates.next()?.ok_or(DistinctError::Gone)?;
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&duplicate[4..]);
                first = u32::from_be_bytes(bytes);
            }
            if !self.writer.push(store, list, self.bits.distinct_before(first))? {
                return Err(DistinctError::Gone);
            }
            self.row += 1;
        }
        Ok(Step::More)
    }
}

// The number of a row has 32 bits.
const _: () = assert!(ROWS_MAX < u32::MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::temp::TempFiles;
    use crate::work::tests::store_with_account;
    use std::collections::HashMap;
    use store::{Authority, ListId, ListRoom};

    /// Searches the different ones of random addresses, and compares the index with a simple search.
    fn check(count: usize, different: u64) {
        let (folder, store, account) = store_with_account();
        let now = clock::now();
        let list = List::new(ListId::new(now, 2), account, now, String::new());
        store.create_list(&list, ListRoom::MOST, None, now).wait().unwrap();
        store.end_upload(&list, None, Authority::OPERATOR, now).wait().unwrap();

        let mut random = fastrand::Rng::with_seed(different);
        let files = TempFiles::new(folder.path());
        let mut addresses = Addresses::new(files.of(account));
        let (mut numbers, mut expected) = (HashMap::new(), Vec::new());
        for _ in 0..count {
            let mut hash = [0; 16];
            hash[..8]
                .copy_from_slice(&random.u64(0..different).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            addresses.push(&store, &list, AddressHash(hash)).unwrap();
            let next = numbers.len() as u64;
            expected.push(*numbers.entry(hash).or_insert(next));
        }
        let mut grouping = addresses.finish(&store, &list).unwrap();
        while let Step::More = grouping.step().unwrap() {}
        let mut indexing = grouping.finish().unwrap();
        let counted = loop {
            if let Step::Done(counted) = indexing.step(&store, &list).unwrap() {
                break counted;
            }
        };
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
            [(0, 1), (1, 1), (64, 1), (1_000, 300), (20_000, 1 << 60), (130_000, 50_000)]
        {
            check(count, different);
        }
    }

    /// Both sorts use their temporary files.
    #[test]
    fn a_long_list_is_sorted_on_disk() {
        check(70_000, 9_000);
    }
}
