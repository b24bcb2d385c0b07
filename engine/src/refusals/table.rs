//! The counts of refused and accepted recipients, for each pair of a site and a source. They are in a table: in memory, or in a
//! file that the runs of an installation share. A *run* is one process with an engine.
//!
//! ```text
//! header   512 words (constants below)
//! sites    for each place: the key of the pair that has it (0: free), then REFUSALS_CELLS cells, each with the counts of one
//!          five-minute step
//! runs     for each run: for each place, the number of recipients about which the run is asking
//! ```
//!
//! Below, a *site* is such a pair, and its *place* is its index in `sites`. A word has eight bytes in the byte order of the
//! machine, because the file never leaves the machine. Counts change by single atomic operations, without a lock. So no run waits
//! for another, and the counts are valid even if a run is killed at any moment:
//!
//! - Before a run asks about recipients, it adds them to its own word. Then it reads the words of all runs, and subtracts from its
//!   own word what exceeds the budget. If two runs do so at once, at least one of them sees the recipients of the other. So
//!   together they never exceed the budget.
//! - A refusal or an accept is first added to a cell, and then the recipient is subtracted from the word of the run. A reader reads
//!   the words before the cells. So a reader may count a recipient twice, but never misses one, even if the run is killed in
//!   between.
//! - If a run is killed, the recipients about which it was asking count as refused, because their replies may have been on the way.
//!
//! A run takes one lock to change which sites and runs are in the table, for example in [`RefusalTable::place_of`], and another to
//! store the counts elsewhere ([`RefusalTable::write`]).

use super::shared_file::{ByteLock, SharedFile};
use crate::seed::keyed_number;
use engine_proto::limits::{REFUSALS_CELLS, REFUSALS_RUNS_MAX, REFUSALS_SITES_MAX, REFUSALS_STEPS};
use engine_proto::refusals::{KeptRefusals, RefusalCounts, StepCell, step_at};
use memmap2::{MmapMut, MmapRaw};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The number of words of the header, which is one page long.
const HEADER_WORDS: usize = 512;
/// The first word of the file: the text `mailprb` and a zero byte.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"mailprb\0");
pub(super) const VERSION: u64 = 1;
/// The index of the magic number in the header. The constants from here to [`WRITTEN_AT`] are such indexes.
pub(super) const MAGIC_AT: usize = 0;
pub(super) const VERSION_AT: usize = 1;
/// A hash of the installation's secret. The keys of the sites are made with this secret.
const SECRET_AT: usize = 2;
/// The runs that have joined the table, one bit each.
const RUNS_AT: usize = 3;
/// The wall-clock time at which the monotonic clock was zero, in nanoseconds. All runs add the monotonic clock to this time, so
/// they agree on the present step even if the wall clock is set.
const CLOCK_AT: usize = 4;
/// The hash of the counts that were last stored elsewhere ([`RefusalTable::write`]).
const WRITTEN_AT: usize = 5;

/// The number of words of a site: its key and its cells.
const SITE_WORDS: usize = 1 + REFUSALS_CELLS;
/// The number of places in a bucket. A key has a place in one bucket only, so a search looks at these places alone.
const PLACES_A_BUCKET: usize = 16;
const BITS: usize = u64::BITS as usize;
/// The bucket depends only on the bits of a key from this one on. The lowest 16 bits are the same in all keys of a node.
const BUCKET_SHIFT: u32 = 20;

/// The table of the counts of refused and accepted recipients, by site and source.
#[derive(Debug)]
pub struct RefusalTable {
    memory: MmapRaw,
    /// The number of places.
    sites: usize,
    run: usize,
    /// The buckets that may contain occupied places, one bit each. In a file, these are all buckets, because other runs give places
    /// too.
    buckets: Vec<AtomicU64>,
    /// Locked by the thread of this run that changes which sites and runs are in the table.
    change: Mutex<()>,
    /// The file of the table. `None` if the table is in memory.
    file: Option<SharedFile>,
}

/// The reason why a file cannot be used as a table.
#[derive(Debug)]
pub enum TableFault {
    /// The file cannot be opened, read, written or extended.
    Io(io::Error),
    /// This is not a regular file, or it has other content, or only a part of a table.
    Foreign,
    /// A run of another version of mailprobe, with another format of the table, is using the file.
    OtherVersion,
    /// A run with a different installation secret is using the file.
    OtherSecret,
    /// There is no such file, and the caller does not want a new one.
    Missing,
    /// [`REFUSALS_RUNS_MAX`] runs already use the file.
    Full,
    /// Another run has kept the file locked for too long. Its process is probably suspended (SIGSTOP).
    Busy,
    /// The file system cannot share memory or locks between processes. The text is the reason.
    Unsupported(String),
}

impl From<io::Error> for TableFault {
    fn from(error: io::Error) -> TableFault {
        TableFault::Io(error)
    }
}

/// The right to change which sites and runs are in the table: the locks of the thread and of the run.
struct Places<'a> {
    _thread: MutexGuard<'a, ()>,
    _run: Option<ByteLock>,
}

/// The length in bytes of a table with these numbers of places and runs.
pub(super) const fn bytes(sites: usize, runs: usize) -> usize {
    (HEADER_WORDS + sites * SITE_WORDS + sites * runs) * size_of::<u64>()
}

impl RefusalTable {
    /// Makes an empty table in memory, with room for this number of shards.
    ///
    /// # Errors
    /// The system has no memory for the table.
    pub fn in_memory(shards: usize) -> io::Result<RefusalTable> {
        let sites = REFUSALS_SITES_MAX * shards.max(1);
        // The kernel provides memory only for the pages that are used.
        let memory = MmapMut::map_anon(bytes(sites, 1))?.into();
        let buckets = buckets(sites, 0);
        let table = RefusalTable { memory, sites, run: 0, buckets, change: Mutex::default(), file: None };
        table.word(RUNS_AT).store(1, SeqCst);
        table.set_clock();
        Ok(table)
    }

    /// Opens the table in this file, and joins it as a new run. With `may_create`, creates a missing file. If a run has ended and
    /// left recipients without a reply, these count as refused. If no other run uses the table, a table that was made with another
    /// secret is emptied, and `kept` is added as by [`RefusalTable::take_over`].
    ///
    /// # Errors
    /// [`TableFault`] if the file cannot be used.
    pub fn open(
        path: &Path,
        secret: &[u8; 32],
        kept: &[KeptRefusals],
        may_create: bool,
    ) -> Result<RefusalTable, TableFault> {
        let mut file = SharedFile::open(path, may_create)?;
        let change = file.begin_change(SharedFile::OPEN_TIMEOUT)?;
        let alive = file.others()?;
        let memory = file.map(alive != 0)?;
        let run = file.claim(alive)?;
        let sites = REFUSALS_SITES_MAX;
        let buckets = buckets(sites, u64::MAX);
        let table = RefusalTable { memory, sites, run, buckets, change: Mutex::default(), file: Some(file) };
        table.join(alive, secret, kept)?;
        drop(change);
        Ok(table)
    }

    /// Adds this run to the table. `alive`: the other runs that are alive, as bits. The caller has the right to change the table.
    fn join(&self, alive: u64, secret: &[u8; 32], kept: &[KeptRefusals]) -> Result<(), TableFault> {
        let secret = keyed_number(secret, &["table of refusals"]);
        let is_ours = self.word(SECRET_AT).load(SeqCst) == secret;
        if !is_ours && alive != 0 {
            return Err(TableFault::OtherSecret);
        }
        if !is_ours {
            // The table is new, or its keys were made with another secret. So it is emptied.
            let words = &self.words()[SECRET_AT..HEADER_WORDS + self.sites * SITE_WORDS];
            words.iter().filter(|word| word.load(SeqCst) != 0).for_each(|word| word.store(0, SeqCst));
            self.word(SECRET_AT).store(secret, SeqCst);
        }
        if alive == 0 {
            self.set_clock();
        }
        let step = self.step();
        self.settle_ended(!alive, step);
        // If the secret has changed, `settle_ended` has not reset the words of an earlier run with this number.
        let left = (0..self.sites).map(|place| self.asked(self.run, place));
        left.filter(|asked| asked.load(SeqCst) != 0).for_each(|asked| asked.store(0, SeqCst));
        if alive == 0 {
            self.word(WRITTEN_AT).store(0, SeqCst);
            self.drop_old(step);
            self.merge(kept, step);
        }
        self.word(RUNS_AT).fetch_or(1 << self.run, SeqCst);
        Ok(())
    }

    /// Raises each count of the table to the one in `kept`, if that is higher and its step still counts. Counts that are missing
    /// from the table are added, if their site has a place or can be given one. `step` is the present step. False if the right to
    /// change the table could not be obtained in time, usually because another run keeps the table locked. The table is then
    /// unchanged.
    #[must_use = "the counts may not be in the table"]
    pub fn take_over(&self, kept: &[KeptRefusals], step: u64) -> bool {
        if kept.is_empty() {
            return true;
        }
        let Some(_places) = self.change(SharedFile::OPEN_TIMEOUT) else { return false };
        self.merge(kept, step);
        true
    }

    /// The caller must have the right to change the table. Otherwise two runs could give one place to two sites.
    fn merge(&self, kept: &[KeptRefusals], step: u64) {
        for site in kept {
            let counts = |kept: &&_| StepCell::default().at_least(**kept).kept(step).is_some();
            for kept in site.steps.iter().filter(counts) {
                if let Some(place) = self.give_place(site.key, step) {
                    let cell = self.cell(place, kept.step);
                    update(cell, |cell| cell.at_least(*kept));
                }
            }
        }
    }

    /// All counts of the last hour. `step` is the present step.
    pub fn kept(&self, step: u64) -> Vec<KeptRefusals> {
        let mut all = Vec::new();
        for place in self.buckets_with_sites().flat_map(places) {
            let key = self.key(place).load(SeqCst);
            if key == 0 {
                continue;
            }
            let cells = self.cells(place);
            let mut steps: Vec<_> = cells.iter().filter_map(|cell| read(cell).kept(step)).collect();
            steps.sort_unstable_by_key(|kept| kept.step);
            // Another run may already have counted in the next step.
            let excess = steps.len().saturating_sub(REFUSALS_STEPS);
            steps.drain(..excess);
            if !steps.is_empty() && self.key(place).load(SeqCst) == key {
                all.push(KeptRefusals { key, steps });
            }
        }
        all
    }

    /// The number of the present five-minute step, by the clock that all runs on this table share.
    pub fn step(&self) -> u64 {
        step_at(self.since_epoch()).0
    }

    /// The time since the Unix epoch, by the clock that all runs on this table share.
    pub fn since_epoch(&self) -> Duration {
        monotonic() + Duration::from_nanos(self.word(CLOCK_AT).load(SeqCst))
    }

    /// Removes from the table the runs that were killed. The recipients that they left without a reply count as refused.
    pub fn settle_killed(&self) {
        let Some(file) = &self.file else { return };
        let own = 1 << self.run;
        if self.word(RUNS_AT).load(SeqCst) == own {
            return;
        }
        // If another run has the lock for too long, the removal is left to the next call.
        let Some(_places) = self.change(SharedFile::CHANGE_TIMEOUT) else { return };
        if let Ok(alive) = file.others() {
            self.settle_ended(!(alive | own), self.step());
        }
    }

    /// Calls `write` with all counts, so that `write` can store them elsewhere. Only one run does so at a time. `write` returns a
    /// hash of these counts, and also gets the hash of the last call that succeeded, in whichever run. That hash is 0 if no call
    /// has succeeded since a run opened the table while no other run used it. The result is false, without a call of `write`, if
    /// another run has been writing for longer than `timeout`, or if the lock cannot be had for another reason.
    ///
    /// # Errors
    /// The error that `write` returns.
    pub fn write<E>(
        &self,
        timeout: Duration,
        write: impl FnOnce(Vec<KeptRefusals>, u64) -> Result<u64, E>,
    ) -> Result<bool, E> {
        let lock = self.file.as_ref().map(|file| file.begin_write(timeout)).transpose();
        let Ok(_lock) = lock else { return Ok(false) };
        let before = self.word(WRITTEN_AT).load(SeqCst);
        let hash = write(self.kept(self.step()), before)?;
        self.word(WRITTEN_AT).store(hash, SeqCst);
        Ok(true)
    }

    /// Finds the place of a site, or gives it one. `None` if no place can be had, or if another run keeps the table locked for too
    /// long.
    pub(super) fn place_of(&self, key: u64, step: u64) -> Option<usize> {
        let _places = self.change(SharedFile::CHANGE_TIMEOUT)?;
        self.give_place(key, step)
    }

    /// Whether the site with this key has this place. The site keeps the place as long as any run is asking about recipients of the
    /// site.
    pub(super) fn is_at(&self, key: u64, place: usize) -> bool {
        self.key(place).load(SeqCst) == key
    }

    /// The counts at a place. `step` is the present step.
    pub(super) fn counts(&self, place: usize, step: u64) -> RefusalCounts {
        let asked = self.asked_by_all(place);
        RefusalCounts::of(self.cells(place).iter().map(read), asked, step)
    }

    /// The number of recipients about which all runs are asking, for the site at a place.
    pub(super) fn asked_by_all(&self, place: usize) -> u32 {
        let asked = bits(self.word(RUNS_AT).load(SeqCst))
            .fold(0, |sum: u64, run| sum.saturating_add(self.asked(run, place).load(SeqCst)));
        u32::try_from(asked).unwrap_or(u32::MAX)
    }

    /// The number of recipients about which this run is asking, for the site at a place.
    pub(super) fn asked_by_own(&self, place: usize) -> u64 {
        self.asked(self.run, place).load(SeqCst)
    }

    /// This run begins to ask about this number of further recipients.
    pub(super) fn on_asked(&self, place: usize, recipients: u32) {
        self.asked(self.run, place).fetch_add(recipients.into(), SeqCst);
    }

    /// This number of recipients of this run got no reply that counts, or were not asked about.
    pub(super) fn on_unanswered(&self, place: usize, recipients: u32) {
        self.asked(self.run, place).fetch_sub(recipients.into(), SeqCst);
    }

    /// Of the recipients about which this run was asking, these numbers were refused and accepted.
    pub(super) fn on_answered(&self, place: usize, step: u64, refused: u32, accepted: u32) {
        update(self.cell(place, step), |cell| cell.counted(step, refused, accepted));
        self.on_unanswered(place, refused + accepted);
    }

    /// Finds the place of a site in its bucket, or gives it one: a free place, or else that of a site without counts, or else that
    /// of the site with the fewest refusals. `None` if runs are asking about recipients of all these sites. The caller has the
    /// right to change the table.
    fn give_place(&self, key: u64, step: u64) -> Option<usize> {
        let bucket = (key >> BUCKET_SHIFT) as usize % (self.sites / PLACES_A_BUCKET);
        if let Some(place) = places(bucket).find(|&place| self.is_at(key, place)) {
            return Some(place);
        }
        self.buckets[bucket / BITS].fetch_or(1 << (bucket % BITS), SeqCst);
        let mut others: Vec<usize> = places(bucket).collect();
        others.sort_by_cached_key(|&place| {
            let counts = self.counts(place, step);
            (!self.is_at(0, place), !counts.is_empty(), counts.refused)
        });
        others.into_iter().find(|&place| self.replace(place, key))
    }

    /// Gives the place to the site with this key. False if any run is asking about recipients of the site that has the place now.
    fn replace(&self, place: usize, key: u64) -> bool {
        // `SiteRefusals::reserve` first adds to the word of its run, and then looks at the key. So either it sees that the key is
        // gone, or this function sees the word.
        let before = self.key(place).swap(0, SeqCst);
        let runs = self.word(RUNS_AT).load(SeqCst) | 1 << self.run;
        if bits(runs).any(|run| self.asked(run, place).load(SeqCst) != 0) {
            self.key(place).store(before, SeqCst);
            return false;
        }
        self.cells(place).iter().for_each(|cell| cell.store(0, SeqCst));
        self.key(place).store(key, SeqCst);
        true
    }

    /// Removes these runs from the table, and counts their recipients without a reply as refused. None of the runs is alive, except
    /// this one when it ends.
    fn settle_ended(&self, runs: u64, step: u64) {
        for run in bits(self.word(RUNS_AT).load(SeqCst) & runs) {
            self.count_left(run, step);
            self.word(RUNS_AT).fetch_and(!(1 << run), SeqCst);
        }
    }

    /// Counts the recipients that a run has left without a reply as refused.
    fn count_left(&self, run: usize, step: u64) {
        for place in 0..self.sites {
            let asked = self.asked(run, place);
            let left = asked.load(SeqCst);
            if left > 0 {
                let refused = u32::try_from(left).unwrap_or(u32::MAX);
                update(self.cell(place, step), |cell| cell.counted(step, refused, 0));
                asked.store(0, SeqCst);
            }
        }
    }

    /// Frees the places of sites without counts of the last hour. No other run may use the table meanwhile.
    fn drop_old(&self, step: u64) {
        for place in 0..self.sites {
            if self.is_at(0, place) {
                continue;
            }
            for cell in self.cells(place) {
                // This also drops steps in the future, which a wrong wall clock has left.
                if read(cell).kept(step).is_none() {
                    cell.store(0, SeqCst);
                }
            }
            if self.counts(place, step).is_empty() {
                self.key(place).store(0, SeqCst);
            }
        }
    }

    /// The buckets that may contain occupied places. Most buckets of a table in memory are never used.
    fn buckets_with_sites(&self) -> impl Iterator<Item = usize> {
        let words = self.buckets.iter().enumerate();
        words.flat_map(|(word, buckets)| bits(buckets.load(SeqCst)).map(move |bit| word * BITS + bit))
    }

    fn change(&self, timeout: Duration) -> Option<Places<'_>> {
        let thread = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let run = self.file.as_ref().map(|file| file.begin_change(timeout)).transpose().ok()?;
        Some(Places { _thread: thread, _run: run })
    }

    fn set_clock(&self) {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ahead = u64::try_from(wall.saturating_sub(monotonic()).as_nanos()).unwrap_or_default();
        self.word(CLOCK_AT).store(ahead, SeqCst);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words()[index]
    }

    fn key(&self, place: usize) -> &AtomicU64 {
        self.word(HEADER_WORDS + place * SITE_WORDS)
    }

    fn cells(&self, place: usize) -> &[AtomicU64] {
        let first = HEADER_WORDS + place * SITE_WORDS + 1;
        &self.words()[first..first + REFUSALS_CELLS]
    }

    fn cell(&self, place: usize, step: u64) -> &AtomicU64 {
        &self.cells(place)[StepCell::place(step)]
    }

    fn asked(&self, run: usize, place: usize) -> &AtomicU64 {
        self.word(HEADER_WORDS + self.sites * SITE_WORDS + run * self.sites + place)
    }

    #[expect(unsafe_code, reason = "memory that other processes change has no safe view")]
    fn words(&self) -> &[AtomicU64] {
        let first = self.memory.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping is aligned to a page and lives as long as `self`. It is only ever read and written by atomic
        // operations, here and in the other processes. Disk blocks are reserved for all parts of the file that are used
        // (`SharedFile`), so a full disk cannot make a write fail. A user who truncates the file ends the processes that use it.
        unsafe { std::slice::from_raw_parts(first, self.memory.len() / size_of::<AtomicU64>()) }
    }
}

/// Removes this run from the table of a file. Recipients without a reply count as refused.
impl Drop for RefusalTable {
    fn drop(&mut self) {
        // If the table stays locked for too long, another run does this later, in `join` or [`RefusalTable::settle_killed`].
        if let (Some(_), Some(_places)) = (&self.file, self.change(SharedFile::OPEN_TIMEOUT)) {
            self.settle_ended(1 << self.run, self.step());
        }
    }
}

/// One bit for each bucket of a table with this number of places. Each word of the result is `word`: 0 for no bucket, `u64::MAX`
/// for all.
fn buckets(sites: usize, word: u64) -> Vec<AtomicU64> {
    (0..sites / PLACES_A_BUCKET / BITS).map(|_| AtomicU64::new(word)).collect()
}

fn places(bucket: usize) -> Range<usize> {
    bucket * PLACES_A_BUCKET..(bucket + 1) * PLACES_A_BUCKET
}

fn read(cell: &AtomicU64) -> StepCell {
    StepCell(cell.load(SeqCst))
}

fn update(cell: &AtomicU64, change: impl Fn(StepCell) -> StepCell) {
    // The closure always returns `Some`, so there is no error.
    let _ = cell.fetch_update(SeqCst, SeqCst, |before| Some(change(StepCell(before)).0));
}

/// The indexes of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}

fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;

const _: () = assert!(REFUSALS_RUNS_MAX <= BITS && REFUSALS_SITES_MAX.is_multiple_of(PLACES_A_BUCKET * BITS));
