//! The file of redb as the backend of a store: reads on the caller's thread, writes by [`Writer`].

use super::fail_stop::{FailStop, Failure};
use super::folder::Folder;
use super::rows::{ReadRows, WriteRows};
use super::writer::{Context, Writer};
use super::{backup, key_check, migrations};
use ::redb::{Builder, Database, ReadableDatabase};
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use store::backup::{BackupError, BackupSummary, Sizes};
use store::{
    ClaimedLists, NodePlace, OpenBatch, OpenError, Pending, PlanTable, StoreError, StoreFigures, UnixMs,
};
use store_rules::Store;
use store_rules::backend::{Backend, Class, Job, Wants};
use store_rules::batches::Batches;
use store_rules::clock_check::ClockCheck;
use store_rules::disk::Disk;
use store_rules::index::KeyIndex;
use store_rules::opening::{check_plans, read_index};
use store_rules::rows::Rows;
use store_rules::shared::{Shared, SharedPlans};
use store_rules::task::{ReadTask, WriteTask, write_task};
use store_rules::txn::Txn;
use store_rules::write_error::WriteError;
use vault::Vault;

/// Options for opening a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// The memory for pages of the file, in bytes.
    pub cache_bytes: usize,
    /// Whether a verdict from one account's check may answer another account, which also pays for it.
    pub reuse: bool,
    /// Opens with the keys in the folder, even if they are others than the database's. Data that was sealed with the
    /// latter is lost.
    pub accept_keys: bool,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { cache_bytes: 64 * 1024 * 1024, reuse: true, accept_keys: false }
    }
}

/// The findings and changes of opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// The number of voided holds: those that the last process left without an answer.
    pub voided_holds: u64,
    /// Whether the data folder already existed and other users may read it.
    pub folder_open_to_others: bool,
}

/// An open file of redb in a data folder, or on the storage of a test.
pub struct Redb {
    // The fields are dropped in this order: the writer finishes its work, then the file is closed, then the folder
    // unlocked.
    writer: Writer,
    database: Arc<Database>,
    shared: Arc<Shared>,
    folder: Option<Folder>,
    /// The batches that were unfinished at the start and are not claimed; `None` before the first claim.
    unclaimed: Mutex<Option<VecDeque<OpenBatch>>>,
}

/// Opens the store in a data folder, which is created if it is missing, and voids unanswered holds.
///
/// # Errors
///
/// [`OpenError`], with a remedy.
pub fn open(
    folder: &Path,
    plans: PlanTable,
    options: StoreOptions,
    now: UnixMs,
) -> Result<(Arc<Store>, Opening), OpenError> {
    let (redb, opening) = open_redb(folder, plans, options, now)?;
    Ok((Arc::new(Store::new(Arc::new(redb))), opening))
}

/// Like [`open`], without the operations.
pub(crate) fn open_redb(
    folder: &Path,
    plans: PlanTable,
    options: StoreOptions,
    now: UnixMs,
) -> Result<(Redb, Opening), OpenError> {
    let folder = Folder::lock(folder)?;
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes);
    let mut failure = Failure::default();
    let database = folder.open_database(&builder, |file| {
        let file = FailStop::new(file);
        failure = file.failure();
        file
    })?;
    let path = folder.database_path();
    let folder_open_to_others = folder.open_to_others;
    // After the database: a folder with a foreign file gets no keys.
    let vault = Arc::new(folder.open_vault()?);
    let (mut redb, opening) = Redb::start((database, failure), vault, &path, plans, options, now)?;
    redb.folder = Some(folder);
    Ok((redb, Opening { folder_open_to_others, ..opening }))
}

/// Opens the store on a storage of the caller, for tests of crashes.
#[cfg(test)]
pub(super) fn open_backend(
    (backend, cache_bytes): (impl ::redb::StorageBackend, usize),
    vault: Arc<Vault>,
    plans: PlanTable,
    now: UnixMs,
) -> Result<(Redb, Opening), OpenError> {
    let path = Path::new("backend");
    let file = FailStop::new(backend);
    let failure = file.failure();
    let database = Builder::new().set_cache_size(cache_bytes).create_with_backend(file);
    let database = database.map_err(|error| super::folder::refusal(path, error))?;
    // Data that was sealed with the keys of another process is lost.
    let options = StoreOptions { accept_keys: true, ..StoreOptions::default() };
    Redb::start((database, failure), vault, path, plans, options, now)
}

impl Redb {
    /// The database itself.
    #[cfg(test)]
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    fn start(
        (database, failure): (Database, Failure),
        vault: Arc<Vault>,
        path: &Path,
        plans: PlanTable,
        options: StoreOptions,
        now: UnixMs,
    ) -> Result<(Redb, Opening), OpenError> {
        migrations::migrate(&database, path)?;
        key_check::check(&database, &vault, path, options.accept_keys)?;
        if let Some(why) = failure.why() {
            return Err(OpenError::Folder(path.to_owned(), why.to_owned()));
        }
        let rows = snapshot(&database)?;
        check_plans(&rows, &plans)?;
        let index = KeyIndex::default();
        index.apply(read_index(&rows)?);
        let clock_check = ClockCheck::read(&rows, now)?;
        drop(rows);
        let plans = SharedPlans::new(plans);
        let disk = space(path).map_or(Disk::UNKNOWN, |(total, free)| Disk::new(total, free));
        let shared = Arc::new(Shared {
            plans,
            vault,
            index,
            clock_check,
            disk,
            has_nodes: false,
            format: store_rules::tables::FORMAT.into(),
            reuse: options.reuse,
        });
        let database = Arc::new(database);
        let path = path.to_owned();
        let context = Context { database: Arc::clone(&database), shared: Arc::clone(&shared), failure, path };
        let writer = Writer::start(context).map_err(|error| StoreError::Failed(error.to_string()))?;
        let redb = Redb { writer, database, shared, folder: None, unclaimed: Mutex::default() };
        let void = move |txn: &mut Txn<'_>| Ok::<_, WriteError<StoreError>>(txn.void_open_holds(now)?);
        let (task, voided) = write_task(void);
        redb.writer.submit(Class::Answer, task);
        let opening = Opening { voided_holds: voided.wait()?, ..Opening::default() };
        Ok((redb, opening))
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(Folder::path)
    }
}

/// The bytes of the disk that holds this path, and how many of them are free; `None` if the system does not say.
pub(super) fn space(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.checked_mul(found.f_frsize);
    bytes(found.f_blocks).zip(bytes(found.f_bavail))
}

fn snapshot(database: &Database) -> Result<ReadRows, StoreError> {
    Ok(ReadRows::new(database.begin_read()?))
}

impl Backend for Redb {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn read_here(&self, read: &mut dyn FnMut(&dyn Rows)) -> Option<Result<(), StoreError>> {
        Some(snapshot(&self.database).map(|rows| read(&rows)))
    }

    fn read(&self, _: Option<Wants>, task: Box<dyn ReadTask>) {
        self.scan(task);
    }

    fn scan(&self, mut task: Box<dyn ReadTask>) {
        let failure = snapshot(&self.database).map(|rows| task.run(&rows)).err();
        task.finish(failure.as_ref());
    }

    fn write(&self, job: Job, task: Box<dyn WriteTask>) {
        self.writer.submit(job.class, task);
    }

    fn health(&self) -> Result<(), StoreError> {
        self.writer.health()
    }

    fn figures(&self) -> StoreFigures {
        self.writer.figures()
    }

    fn is_crowded(&self) -> bool {
        self.writer.is_crowded()
    }

    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError> {
        // The writer reads the plans after it has begun a transaction, so no account gets a plan between the look and the
        // replacement.
        let transaction = self.database.begin_write().map_err(StoreError::from)?;
        let before = self.shared.plans.get();
        if before.iter().any(|plan| plans.find(&plan.id).is_none()) {
            check_plans(&WriteRows::new(&transaction), &plans)?;
        }
        self.shared.plans.replace(plans);
        Ok(transaction.abort().map_err(StoreError::from)?)
    }

    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError> {
        Pending::of(|| {
            let mut unclaimed = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
            let batches = match &mut *unclaimed {
                Some(batches) => batches,
                None => unclaimed.insert(Batches(&snapshot(&self.database)?).open_batches()?.into()),
            };
            let most = most.min(batches.len());
            Ok(batches.drain(..most).collect())
        })
    }

    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError> {
        Pending::of(|| Ok(None))
    }

    fn may_work(&self) -> bool {
        true
    }

    fn live_nodes(&self) -> u32 {
        1
    }

    fn clock_ahead(&self) -> i64 {
        0
    }

    fn place(&self) -> NodePlace {
        NodePlace::alone()
    }

    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError> {
        backup::dump(&self.database, &self.shared.vault, now, sink)
    }

    fn sizes(&self) -> Pending<Sizes, StoreError> {
        Pending::of(|| backup::sizes(&self.database, self.folder()))
    }
}
