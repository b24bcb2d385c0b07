//! The file of the database, which is not written again after a write or a sync has failed.
//!
//! After a failed sync the system may drop the unwritten data without a further error, so no later write can be trusted
//! (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). redb also stops reading then.
//! This layer only stops writing. Further writes of redb are kept in memory, so that reads find a consistent database.
//! [`Failure`] informs the store's writer, which accepts no more writes.

use ::redb::{BackendError, StorageBackend};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

/// The bytes in a page of the memory.
const PAGE: u64 = 4096;

/// The first failure of the file, if there was one.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<OnceLock<String>>);

impl Failure {
    /// The error of the system, if the file has failed.
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Records a failure. Only the first one counts.
    pub fn note(&self, why: String) {
        self.0.get_or_init(|| why);
    }
}

/// A storage that stops writing after its first failure.
#[derive(Debug)]
pub(super) struct FailStop<B> {
    file: B,
    failure: Failure,
    overlay: RwLock<Overlay>,
}

/// The differences between the database and its file since the failure.
#[derive(Debug, Default)]
struct Overlay {
    len: u64,
    /// The file's own bytes do not apply from here on: the database was shorter at some time.
    file_end: u64,
    /// Changed pages by their number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl<B: StorageBackend> FailStop<B> {
    /// Wraps a storage that has not failed.
    pub fn new(file: B) -> FailStop<B> {
        FailStop { file, failure: Failure::default(), overlay: RwLock::default() }
    }

    /// The failure that the storage will report.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Makes a change in the file, or in memory if the file fails or has failed.
    fn change(
        &self,
        to_file: impl Fn(&B) -> io::Result<()>,
        to_memory: impl Fn(&B, &mut Overlay) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.failure.why().is_none() {
            let Err(error) = to_file(&self.file) else { return Ok(()) };
            let len = self.file.len()?;
            let mut overlay = self.overlay();
            if self.failure.why().is_none() {
                *overlay = Overlay { len, file_end: len, pages: BTreeMap::new() };
                self.failure.note(error.to_string());
            }
        }
        to_memory(&self.file, &mut self.overlay())
    }

    fn overlay(&self) -> RwLockWriteGuard<'_, Overlay> {
        self.overlay.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay {
    fn read(&self, file: &impl StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let of_file = self.file_end.min(file.len()?).clamp(offset, end);
        let (from_file, beyond) = out.split_at_mut((of_file - offset) as usize);
        if !from_file.is_empty() {
            file.read(offset, from_file)?;
        }
        beyond.fill(0);
        for (&number, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let (first, last) = (start.max(offset), (start + PAGE).min(end));
            out[(first - offset) as usize..(last - offset) as usize]
                .copy_from_slice(&page[(first - start) as usize..(last - start) as usize]);
        }
        Ok(())
    }

    fn write(&mut self, file: &impl StorageBackend, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        self.len = self.len.max(end);
        for number in offset / PAGE..end.div_ceil(PAGE) {
            let start = number * PAGE;
            if !self.pages.contains_key(&number) {
                let mut page = vec![0; PAGE as usize];
                let known = (self.len - start).min(PAGE) as usize;
                self.read(file, start, &mut page[..known])?;
                self.pages.insert(number, page);
            }
            let (first, last) = (start.max(offset), (start + PAGE).min(end));
            if let Some(page) = self.pages.get_mut(&number) {
                page[(first - start) as usize..(last - start) as usize]
                    .copy_from_slice(&data[(first - offset) as usize..(last - offset) as usize]);
            }
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        self.len = len;
        self.file_end = self.file_end.min(len);
        self.pages.retain(|&number, _| number * PAGE < len);
        if let Some(page) = self.pages.get_mut(&(len / PAGE)) {
            page[(len % PAGE) as usize..].fill(0);
        }
    }
}

impl<B: StorageBackend> StorageBackend for FailStop<B> {
    fn len(&self) -> io::Result<u64> {
        if self.failure.why().is_none() {
            return self.file.len();
        }
        Ok(self.overlay().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.failure.why().is_none() {
            return self.file.read(offset, out);
        }
        self.overlay.read().unwrap_or_else(PoisonError::into_inner).read(&self.file, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(
            |file| file.set_len(len),
            |_, overlay| {
                overlay.set_len(len);
                Ok(())
            },
        )
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(StorageBackend::sync_data, |_, _| Ok(()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|file| file.write(offset, data), |file, overlay| overlay.write(file, offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::redb::backends::InMemoryBackend;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A storage that fails completely on demand.
    #[derive(Debug)]
    struct Failing(InMemoryBackend, Arc<AtomicBool>);

    impl Failing {
        fn checked(&self) -> io::Result<()> {
            if self.1.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }
    }

    impl StorageBackend for Failing {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.checked()?;
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.checked()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.checked()?;
            self.0.write(offset, data)
        }
    }

    /// Makes one change in both, and checks that they remain equal.
    fn change(file: &FailStop<Failing>, model: &mut Vec<u8>, rng: &mut fastrand::Rng) {
        if rng.u8(0..4) == 0 {
            let len = rng.usize(0..40_000);
            file.set_len(len as u64).unwrap();
            model.resize(len, 0);
        } else if !model.is_empty() {
            let start = rng.usize(0..model.len());
            let data = vec![rng.u8(1..); rng.usize(0..=(model.len() - start).min(9_000))];
            file.write(start as u64, &data).unwrap();
            model[start..start + data.len()].copy_from_slice(&data);
        }
        assert_eq!(file.len().unwrap(), model.len() as u64);
        let start = rng.usize(0..=model.len());
        let mut read = vec![0xff; rng.usize(0..=model.len() - start)];
        file.read(start as u64, &mut read).unwrap();
        assert_eq!(read, model[start..start + read.len()]);
    }

    #[test]
    fn a_failed_file_reads_as_if_it_had_not_failed_and_stays_as_it_was() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let fails = Arc::new(AtomicBool::new(false));
            let file = FailStop::new(Failing(InMemoryBackend::new(), Arc::clone(&fails)));
            let (failure, mut model) = (file.failure(), Vec::new());
            for _ in 0..rng.u32(0..20) {
                change(&file, &mut model, &mut rng);
            }
            assert_eq!(failure.why(), None);
            let stored = model.clone();
            fails.store(true, Ordering::Relaxed);
            file.sync_data().unwrap();
            assert!(failure.why().is_some());
            // It does not write again, although the file works again.
            fails.store(false, Ordering::Relaxed);
            for _ in 0..60 {
                change(&file, &mut model, &mut rng);
            }
            assert!(file.read(model.len() as u64, &mut [0]).is_err(), "it reads beyond its end");
            let mut found = vec![0; file.file.len().unwrap() as usize];
            file.file.read(0, &mut found).unwrap();
            assert_eq!(found, stored, "seed {seed}");
        }
    }
}
