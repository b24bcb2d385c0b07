//! The temporary files of the work on lists, and how many bytes they may take.
//!
//! A file has no name, so it is gone with the process. Its bytes count as those of the account until it is dropped. If there is no
//! room, converted sheets that are only kept for the next opening give way.

use engine::proto::sharing::{Bounds, Quota, ShareUse, Taken, UsedUp};
use lists::ConvertedSheet;
use spill::TemporaryFile;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{AccountId, ListId};

/// The bytes of the temporary files of one account. The largest list fits: the table of 5,000,000 addresses (24 bytes for each, and
/// as much again while its runs are merged: 240 MB), a spreadsheet of 256 MiB and its sheet of 256 MiB are less than 750 MiB.
const SHARE_BYTES: u64 = 1 << 30;
/// Those of all accounts. Whatever is done at once fits: the tables of four lists, three conversions, and the sheets of eight lists in
/// progress and of eight downloads are less than 6.6 GiB. Kept sheets may have the rest.
const ALL_BYTES: u64 = 8 << 30;
/// Most sheets that are kept for the next opening, since each has an open file.
const KEPT_MAX: usize = 64;
/// How long a sheet is kept after its last use.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// How long a sheet stays at least, so that the threads that wait for it find it.
const KEPT_AT_LEAST: Duration = Duration::from_secs(5);

/// Creates temporary files.
pub(crate) struct TempFiles {
    /// The folder of searches for duplicates.
    searches: PathBuf,
    /// The folder of spreadsheets.
    sheets: PathBuf,
    quota: Arc<Quota<AccountId>>,
    kept: Mutex<HashMap<ListId, KeptSheet>>,
    #[cfg(test)]
    pub faults: faults::Faults,
}

/// A converted sheet, which is kept for the next opening of its list.
struct KeptSheet {
    account: AccountId,
    sheet: ConvertedSheet,
    used: Instant,
}

/// Which folder a file is in.
#[derive(Debug, Clone, Copy)]
enum Folder {
    Searches,
    Sheets,
}

/// The temporary files for one piece of work of an account. Clones are for the same work.
#[derive(Clone)]
pub(crate) struct WorkFiles {
    files: Arc<TempFiles>,
    account: AccountId,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Default)]
struct Noted {
    /// The bytes of the files.
    bytes: u64,
    /// The bound that the work has met.
    refusal: Option<Refusal>,
}

/// Why files could not be longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All accounts together have no more room.
    All,
    /// Other work of the account has the rest of its share.
    Share,
    /// The work alone takes more than the share of an account.
    TooLarge,
}

/// A temporary file.
pub(crate) struct TempFile {
    file: File,
    work: WorkFiles,
    taken: Taken<AccountId>,
}

impl TempFiles {
    /// Searches for duplicates are in the folder `data`, spreadsheets in the folder for temporary files.
    pub fn new(data: &Path) -> Arc<TempFiles> {
        TempFiles::with(data, std::env::temp_dir(), Bounds { share: SHARE_BYTES, all: ALL_BYTES })
    }

    /// The same with other folders and bounds.
    pub fn with(searches: &Path, sheets: PathBuf, bounds: Bounds) -> Arc<TempFiles> {
        Arc::new(TempFiles {
            searches: searches.to_owned(),
            sheets,
            quota: Quota::new("list_temporary_bytes", bounds),
            kept: Mutex::default(),
            #[cfg(test)]
            faults: faults::Faults::default(),
        })
    }

    /// The figures for metrics.
    pub fn figures(&self) -> Arc<ShareUse> {
        self.quota.figures()
    }

    /// The files for some work of an account.
    pub fn of(self: &Arc<Self>, account: AccountId) -> WorkFiles {
        WorkFiles { files: Arc::clone(self), account, noted: Arc::default() }
    }

    /// The sheet of a list, if it is kept.
    pub fn kept(&self, list: ListId) -> Option<ConvertedSheet> {
        let mut kept = self.lock();
        let found = kept.get_mut(&list)?;
        found.used = Instant::now();
        Some(found.sheet.clone())
    }

    /// Keeps the sheet of a list for the next opening.
    pub fn keep(&self, account: AccountId, list: ListId, sheet: ConvertedSheet) {
        if self.lock().len() >= KEPT_MAX {
            self.drop_one(UsedUp::All, account, Duration::ZERO);
        }
        self.lock().insert(list, KeptSheet { account, sheet, used: Instant::now() });
    }

    /// Forgets the sheet of a list that was deleted.
    pub fn forget(&self, list: ListId) {
        self.lock().remove(&list);
    }

    /// Drops the sheets that were not used for long.
    pub fn drop_old(&self, now: Instant) {
        self.lock().retain(|_, kept| now.saturating_duration_since(kept.used) < KEPT_FOR);
    }

    /// Drops the least recently used sheet that is not being read. Returns whether there was one.
    fn drop_one(&self, by: UsedUp, account: AccountId, unused_for: Duration) -> bool {
        let mut kept = self.lock();
        let idle = kept.iter().filter(|(_, kept)| {
            !kept.sheet.is_shared()
                && kept.used.elapsed() >= unused_for
                && (by == UsedUp::All || kept.account == account)
        });
        let oldest = idle.min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id);
        oldest.is_some_and(|id| kept.remove(&id).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ListId, KeptSheet>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if a test wants it.
    fn operation(&self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.operation()?;
        Ok(())
    }
}

impl WorkFiles {
    /// A file for a search for duplicates.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create_search(&self) -> io::Result<TempFile> {
        self.create(Folder::Searches)
    }

    /// A file for a spreadsheet.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create_sheet(&self) -> io::Result<TempFile> {
        self.create(Folder::Sheets)
    }

    fn create(&self, folder: Folder) -> io::Result<TempFile> {
        self.files.operation()?;
        let folder = match folder {
            Folder::Searches => &self.files.searches,
            Folder::Sheets => &self.files.sheets,
        };
        let taken = self.files.quota.take(self.account, 0).map_err(|by| self.refused(by, 0))?;
        Ok(TempFile { file: tempfile::tempfile_in(folder)?, work: self.clone(), taken })
    }

    /// The bound that the work has met, if it has.
    pub fn refusal(&self) -> Option<Refusal> {
        self.noted().refusal
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, by: UsedUp, bytes: u64) -> io::Error {
        let mut noted = self.noted();
        let share = self.files.quota.figures().bounds.share;
        noted.refusal = Some(match by {
            UsedUp::All => Refusal::All,
            // It would not fit if it were alone. What others of the account hold may change at any time.
            UsedUp::Share if noted.bytes.saturating_add(bytes) > share => Refusal::TooLarge,
            UsedUp::Share => Refusal::Share,
        });
        io::Error::new(ErrorKind::QuotaExceeded, "the temporary files of lists have no more room")
    }
}

impl TempFile {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        while let Err(by) = self.taken.grow(bytes) {
            let WorkFiles { files, account, .. } = &self.work;
            if !files.drop_one(by, *account, KEPT_AT_LEAST) {
                return Err(self.work.refused(by, bytes));
            }
        }
        self.work.noted().bytes += bytes;
        Ok(())
    }
}

impl TemporaryFile for TempFile {
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        self.take(end.saturating_sub(self.taken.amount()))?;
        self.work.files.operation()?;
        FileExt::write_all_at(&self.file, bytes, at)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.work.files.operation()?;
        FileExt::read_exact_at(&self.file, bytes, at)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let bytes = self.taken.amount();
        let mut noted = self.work.noted();
        noted.bytes = noted.bytes.saturating_sub(bytes);
    }
}

/// Faults that tests order.
#[cfg(test)]
pub(crate) mod faults {
    use std::io;
    use std::sync::Mutex;

    /// The faults of temporary files.
    #[derive(Debug, Default)]
    pub struct Faults(Mutex<Planned>);

    #[derive(Debug, Default)]
    struct Planned {
        operations: u64,
        next: Option<(u64, Fault)>,
    }

    /// A fault of this machine or of this program.
    #[derive(Debug, Clone, Copy)]
    pub enum Fault {
        Errno(i32),
        Panic,
    }

    impl Faults {
        /// The operation with this number from now on, from 1, fails once.
        pub fn plan(&self, number: u64, fault: Fault) {
            let mut planned = self.0.lock().unwrap();
            planned.next = Some((planned.operations + number, fault));
        }

        /// Whether the planned fault has not occurred.
        pub fn is_left(&self) -> bool {
            self.0.lock().unwrap().next.is_some()
        }

        /// The number of operations so far.
        pub fn operations(&self) -> u64 {
            self.0.lock().unwrap().operations
        }

        pub(super) fn operation(&self) -> io::Result<()> {
            let mut planned = self.0.lock().unwrap();
            planned.operations += 1;
            let due = planned.next.filter(|(at, _)| *at == planned.operations);
            if due.is_some() {
                planned.next = None;
            }
            drop(planned);
            match due {
                None => Ok(()),
                Some((_, Fault::Errno(code))) => Err(io::Error::from_raw_os_error(code)),
                Some((_, Fault::Panic)) => panic!("a planned panic"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(share: u64, all: u64) -> Arc<TempFiles> {
        let folder = std::env::temp_dir();
        TempFiles::with(&folder, folder.clone(), Bounds { share, all })
    }

    fn account(number: u128) -> AccountId {
        AccountId::new(0, number)
    }

    #[test]
    fn the_bytes_of_files_are_those_of_their_account() {
        let files = files(100, 150);
        let (one, two) = (files.of(account(1)), files.of(account(2)));
        let mut file = one.create_search().unwrap();
        file.write_all_at(&[7; 60], 0).unwrap();
        file.write_all_at(&[8; 60], 0).unwrap();
        assert_eq!(files.figures().used(), 60, "what is written again takes no more");
        assert!(file.write_all_at(&[7; 41], 60).is_err());
        assert_eq!((one.refusal(), files.figures().used()), (Some(Refusal::TooLarge), 60));
        let also = files.of(account(1));
        let mut other = also.create_sheet().unwrap();
        other.write_all_at(&[7; 40], 0).unwrap();
        assert_eq!(other.write_all_at(&[7; 1], 40).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert_eq!(also.refusal(), Some(Refusal::Share));
        let mut third = two.create_sheet().unwrap();
        assert!(third.write_all_at(&[7; 51], 0).is_err());
        assert_eq!(two.refusal(), Some(Refusal::All));
        drop(file);
        third.write_all_at(&[7; 51], 0).unwrap();
        let mut read = [0; 2];
        third.read_exact_at(&mut read, 49).unwrap();
        assert_eq!(read, [7, 7]);
        drop((other, third));
        assert_eq!(files.figures().used(), 0);
    }

    fn sheet(files: &Arc<TempFiles>, number: u128) -> ConvertedSheet {
        let work = files.of(account(number));
        let create = || Ok(Box::new(work.create_sheet()?) as Box<dyn TemporaryFile>);
        let input = Box::new(io::Cursor::new(crate::tests::xlsx(
            "<row><c t=\"inlineStr\"><is><t>a@b.example</t></is></c></row>",
            1,
        )));
        ConvertedSheet::convert(input, "The list", &lists::ReadOptions::default(), &create).unwrap()
    }

    #[test]
    fn kept_sheets_give_way() {
        let files = files(10_000, 10_000);
        let list = |number: u128| ListId::new(0, number);
        for number in 1..=2 {
            files.keep(account(number), list(number), sheet(&files, number));
        }
        let used = files.figures().used();
        assert!(used > 0);
        let reader = files.kept(list(2)).unwrap();
        let mut file = files.of(account(3)).create_search().unwrap();
        let most = vec![1; 10_000 - used as usize + 1];
        assert!(file.write_all_at(&most, 0).is_err(), "both were used just now");
        for kept in files.lock().values_mut() {
            kept.used -= KEPT_AT_LEAST;
        }
        file.write_all_at(&most, 0).unwrap();
        assert!(files.kept(list(1)).is_none() && files.kept(list(2)).is_some(), "one is read");
        drop((reader, file));
        files.drop_old(Instant::now() + KEPT_FOR);
        assert!(files.kept(list(2)).is_none());
        files.keep(account(1), list(1), sheet(&files, 1));
        assert!(files.figures().used() > 0);
        files.forget(list(1));
        assert_eq!(files.figures().used(), 0);
    }

    #[test]
    fn few_sheets_are_kept() {
        let files = files(1 << 20, 1 << 20);
        for number in 0..KEPT_MAX as u128 + 5 {
            files.keep(account(1), ListId::new(0, number), sheet(&files, 1));
        }
        assert_eq!(files.lock().len(), KEPT_MAX);
    }
}
