//! A sort of many short records with little memory. Sorted runs of records go to a temporary file, and are merged.
//!
//! The file has no name, so it does not survive the process.

use crate::temp::{TempFile, WorkFiles};
use lists::TemporaryFile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

/// The bytes of the records of a run, which are in memory until they are sorted.
const RUN_BYTES: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };
/// The bytes of a run that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Collects records of N bytes, and returns them in the order of their bytes.
pub struct Sorter<const N: usize> {
    files: WorkFiles,
    run: Vec<[u8; N]>,
    file: Option<TempFile>,
    /// The ends of the runs in the file, in bytes.
    ends: Vec<u64>,
}

/// The records of a [`Sorter`] in their order.
pub struct Sorted<const N: usize> {
    /// The next record of each run, with the number of the run.
    heads: BinaryHeap<Reverse<([u8; N], usize)>>,
    runs: Vec<Run>,
}

/// A run that is being read.
struct Run {
    file: Option<Arc<TempFile>>,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    read: usize,
}

impl<const N: usize> Sorter<N> {
    const RUN_RECORDS: usize = RUN_BYTES / N;

    /// A sorter without records.
    pub fn new(files: WorkFiles) -> Sorter<N> {
        Sorter { files, run: Vec::new(), file: None, ends: Vec::new() }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, record: [u8; N]) -> io::Result<()> {
        self.run.push(record);
        if self.run.len() < Self::RUN_RECORDS { Ok(()) } else { self.end_run() }
    }

    fn end_run(&mut self) -> io::Result<()> {
        self.run.sort_unstable();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.files.create_sort()?),
        };
        let at = self.ends.last().copied().unwrap_or(0);
        file.write_all_at(self.run.as_flattened(), at)?;
        self.ends.push(at + self.run.as_flattened().len() as u64);
        self.run.clear();
        Ok(())
    }

    /// Ends the collection. A few records stay in memory.
    ///
    /// # Errors
    /// The temporary file cannot be read or written.
    pub fn finish(mut self) -> io::Result<Sorted<N>> {
        let mut runs = Vec::new();
        if self.ends.is_empty() {
            self.run.sort_unstable();
            let buffer = self.run.into_flattened();
            runs.push(Run { file: None, at: 0, end: 0, buffer, read: 0 });
        } else {
            if !self.run.is_empty() {
                self.end_run()?;
            }
            let (mut at, file) = (0, self.file.map(Arc::new));
            for &end in &self.ends {
                runs.push(Run { file: file.clone(), at, end, buffer: Vec::new(), read: 0 });
                at = end;
            }
        }
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|record| Reverse((record, number))));
        }
        Ok(Sorted { heads, runs })
    }
}

impl<const N: usize> Sorted<N> {
    /// The next record; `None` after the last.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<[u8; N]>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((record, number)) = *head;
        match self.runs[number].next()? {
            Some(next) => *head = Reverse((next, number)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Ok(Some(record))
    }
}

impl Run {
    fn next<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.read == self.buffer.len() {
            let Some(file) = &self.file else { return Ok(None) };
            let count = (self.end - self.at).min((READ_BYTES / N * N) as u64) as usize;
            if count == 0 {
                return Ok(None);
            }
            self.buffer.resize(count, 0);
            file.read_exact_at(&mut self.buffer, self.at)?;
            (self.at, self.read) = (self.at + count as u64, 0);
        }
        let record = self.buffer[self.read..].first_chunk().copied();
        self.read += N;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp::TempFiles;
    use store::AccountId;

    fn check(count: usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(count as u64);
        let mut records: Vec<[u8; 9]> = (0..count)
            .map(|_| {
                let mut record = [0; 9];
                record[..8].copy_from_slice(&random.u64(0..count as u64).to_be_bytes());
                record
            })
            .collect();
        let files = TempFiles::new(folder.path());
        let mut sorter = Sorter::new(files.of(AccountId::new(0, 1)));
        for record in &records {
            sorter.push(*record).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file has a name");
        let mut sorted = sorter.finish().unwrap();
        records.sort_unstable();
        for record in records {
            assert_eq!(sorted.next().unwrap(), Some(record));
        }
        assert_eq!(sorted.next().unwrap(), None);
    }

    #[test]
    fn records_come_in_their_order() {
        let run = Sorter::<9>::RUN_RECORDS;
        for count in [0, 1, 100, run - 1, run, run + 1, 3 * run + 7] {
            check(count);
        }
    }
}
