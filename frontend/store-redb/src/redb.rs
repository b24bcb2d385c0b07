//! The store in one file of redb, for one process.

mod lists;
mod web;

use super::accounts::view_account;
use super::backup;
use super::clock_check::ClockCheck;
use super::fail_stop::{FailStop, Failure};
use super::folder::Folder;
use super::index::{KeyChange, KeyIndex};
use super::ledger::HoldEnd;
use super::results::{Results, SealedResult};
use super::row::Row;
use super::tables::{
    self, ACCOUNTS, AccountRow, BATCH_ROWS, BATCHES, EntryRow, HOLDS, KEYS, KeyRow, LEDGER, NAMES,
    OPEN_BATCHES,
};
use super::txn::{Txn, find_plan, read_account};
use super::vault::Vault;
use super::write_error::WriteError;
use super::writer::{Class, Context, Writer};
use super::{audit, batches, clock_check, key_check, limits, migrations, refusals, results};
use ::redb::{Builder, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable};
use engine::KeptRefusals;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use store::backup::{BackupError, BackupSummary, Sizes};
use store::credits::Balance;
use store::rate_limit::{Kept, Overrides};
use store::*;
use store::{
    AccountId, BatchError, BatchId, ChangeError, HoldError, KeyId, OpenError, Pending, SettleError, Store,
    StoreError,
};

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

/// An open store in a data folder, or on the storage of a test.
pub struct RedbStore {
    // The fields are dropped in this order: the writer finishes its work, then the file is closed, then the folder
    // unlocked.
    writer: Writer,
    database: Arc<Database>,
    plans: Arc<SharedPlans>,
    index: Arc<KeyIndex>,
    vault: Arc<Vault>,
    clock_check: ClockCheck,
    reuse: bool,
    folder: Option<Folder>,
}

impl RedbStore {
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
    ) -> Result<(RedbStore, Opening), OpenError> {
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
        let (mut store, opening) =
            RedbStore::start((database, failure), vault, &path, plans, options.accept_keys, now)?;
        store.folder = Some(folder);
        store.reuse = options.reuse;
        Ok((store, Opening { folder_open_to_others, ..opening }))
    }

    /// Opens the store on a storage of the caller, for tests of crashes.
    #[cfg(test)]
    pub(super) fn open_backend(
        (backend, cache_bytes): (impl ::redb::StorageBackend, usize),
        vault: Arc<Vault>,
        plans: PlanTable,
        now: UnixMs,
    ) -> Result<(RedbStore, Opening), OpenError> {
        let path = Path::new("backend");
        let file = FailStop::new(backend);
        let failure = file.failure();
        let database = Builder::new().set_cache_size(cache_bytes).create_with_backend(file);
        let database = database.map_err(|error| super::folder::refusal(path, error))?;
        // Data that was sealed with the keys of another process is lost.
        RedbStore::start((database, failure), vault, path, plans, true, now)
    }

    #[cfg(test)]
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    fn start(
        (database, failure): (Database, Failure),
        vault: Arc<Vault>,
        path: &Path,
        plans: PlanTable,
        accept_keys: bool,
        now: UnixMs,
    ) -> Result<(RedbStore, Opening), OpenError> {
        migrations::migrate(&database, path)?;
        key_check::check(&database, &vault, path, accept_keys)?;
        if let Some(why) = failure.why() {
            return Err(OpenError::Folder(path.to_owned(), why.to_owned()));
        }
        check_plans(&database, &plans)?;
        let index = Arc::new(KeyIndex::default());
        index.apply(read_keys(&database)?);
        index.apply(limits::read_terms(&database)?);
        let (database, plans) = (Arc::new(database), Arc::new(SharedPlans::new(plans)));
        let clock_check = ClockCheck::read(&database, now)?;
        let context = Context {
            clock_check,
            database: Arc::clone(&database),
            plans: Arc::clone(&plans),
            vault: Arc::clone(&vault),
            index: Arc::clone(&index),
            failure,
        };
        let writer = Writer::start(context).map_err(|error| StoreError::Failed(error.to_string()))?;
        let store =
            RedbStore { writer, database, plans, index, vault, clock_check, reuse: true, folder: None };
        let voided: Pending<u64, StoreError> =
            store.writer.submit(Class::Answer, move |txn| Ok(txn.void_open_holds(now)?));
        let opening = Opening { voided_holds: voided.wait()?, ..Opening::default() };
        Ok((store, opening))
    }

    fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Txn<'_>) -> Result<T, WriteError<ChangeError>> + Send + 'static,
    ) -> Pending<T, ChangeError> {
        self.writer.submit(Class::New, work)
    }

    /// Queues a write of one of two classes.
    pub(super) fn write<T, E>(
        &self,
        class: Class,
        work: impl FnOnce(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.submit(class, work)
    }

    pub(super) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.database.begin_read()?)
    }

    /// Looks at what is known of a check's address. Nothing that happens before the write makes it wrong: no other check of
    /// this account and address begins, and a withdrawal covers a shared verdict by the time at which it was found.
    fn prepare_check(&self, check: &NewCheck, now: UnixMs) -> Result<PreparedCheck, StoreError> {
        let account = check.hold.account;
        let results = Results::open(self.database.begin_read()?)?;
        Ok(match results.known(&self.vault, account, &check.address, self.reuse, now)? {
            Known::Own(result) => PreparedCheck::Own(result),
            Known::Shared(result) => {
                let record = ResultRecord { address: check.address, verdict: result.verdict };
                let sealed = results::seal(&self.vault, account, record, result.checked_at, now)?;
                PreparedCheck::Shared(result, sealed)
            }
            Known::Nothing => {
                // Not after a credit is held: the key may be impossible to make.
                self.vault.prepare_for_result(now)?;
                PreparedCheck::New
            }
        })
    }

    /// Prepares a new batch.
    fn prepare_batch(&self, new: NewBatch, now: UnixMs) -> Result<batches::PreparedBatch, BatchError> {
        let results = Results::open(self.begin_read()?)?;
        batches::prepare(&results, &self.vault, new, now)
    }

    fn batch_tables(&self) -> Result<BatchTables, StoreError> {
        let transaction = self.database.begin_read()?;
        Ok(batches::Tables {
            open: transaction.open_table(OPEN_BATCHES)?,
            batches: transaction.open_table(BATCHES)?,
            rows: transaction.open_table(BATCH_ROWS)?,
            results: Results::open(transaction)?,
        })
    }

    fn view(&self, id: AccountId, mut row: AccountRow, now: UnixMs) -> Result<Account, StoreError> {
        let plans = self.plans.get();
        let plan = find_plan(&plans, &row)?;
        row.subscription.roll(plan, self.clock_check.of_periods(now));
        Ok(view_account(id, &row, plan))
    }
}

/// What is known of a check's address before its write.
enum PreparedCheck {
    Own(StoredResult),
    Shared(StoredResult, SealedResult),
    New,
}

type ByPair = ReadOnlyTable<&'static [u8; 32], &'static [u8]>;
type BatchTables = batches::Tables<ReadOnlyTable<&'static [u8; 16], &'static [u8; 16]>, ByPair, ByPair>;

/// The plans that the store and its writer use.
pub(super) struct SharedPlans(RwLock<Arc<PlanTable>>);

impl SharedPlans {
    pub(super) fn new(plans: PlanTable) -> SharedPlans {
        SharedPlans(RwLock::new(Arc::new(plans)))
    }

    pub(super) fn get(&self) -> Arc<PlanTable> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, plans: PlanTable) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plans);
    }
}

/// Checks that every account's plan is in the table: otherwise its period could not be updated.
fn check_plans(database: &Database, plans: &PlanTable) -> Result<(), OpenError> {
    let mut missing: BTreeMap<String, u64> = BTreeMap::new();
    let read = || -> Result<_, StoreError> {
        for account in database.begin_read()?.open_table(ACCOUNTS)?.iter()? {
            let plan = AccountRow::decode(account?.1.value())?.plan;
            if plans.find(&plan).is_none() {
                *missing.entry(plan).or_default() += 1;
            }
        }
        Ok(missing)
    };
    match read()?.pop_first() {
        None => Ok(()),
        Some((plan, accounts)) => Err(OpenError::PlanMissing { plan, accounts }),
    }
}

fn read_keys(database: &Database) -> Result<Vec<KeyChange>, StoreError> {
    let keys = database.begin_read()?.open_table(KEYS)?;
    let mut rows = Vec::new();
    for key in keys.iter()? {
        let (id, row) = key?;
        rows.push(KeyChange::Added(KeyId::from_bytes(*id.value()), KeyRow::decode(row.value())?));
    }
    Ok(rows)
}

impl Store for RedbStore {
    fn plans(&self) -> Arc<PlanTable> {
        self.plans.get()
    }

    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError> {
        // The writer reads the plans after it has begun a transaction, so no account gets a plan between the look and the
        // replacement.
        let transaction = self.database.begin_write().map_err(StoreError::from)?;
        let before = self.plans.get();
        if before.iter().any(|plan| plans.find(&plan.id).is_none()) {
            check_plans(&self.database, &plans)?;
        }
        self.plans.replace(plans);
        Ok(transaction.abort().map_err(StoreError::from)?)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.writer.health()?;
        self.vault.health()
    }

    fn account(&self, id: AccountId, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        Pending::of(|| {
            let accounts = self.database.begin_read()?.open_table(ACCOUNTS)?;
            read_account(&accounts, id)?.map(|row| self.view(id, row, now)).transpose()
        })
    }

    fn account_named(&self, name: &str, now: UnixMs) -> Pending<Option<Account>, StoreError> {
        Pending::of(|| {
            let transaction = self.database.begin_read()?;
            let Some(id) = transaction.open_table(NAMES)?.get(name)?.map(|id| *id.value()) else {
                return Ok(None);
            };
            let id = AccountId::from_bytes(id);
            read_account(&transaction.open_table(ACCOUNTS)?, id)?
                .map(|row| self.view(id, row, now))
                .transpose()
        })
    }

    fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<Vec<Account>, StoreError> {
        Pending::of(|| {
            let accounts = self.database.begin_read()?.open_table(ACCOUNTS)?;
            let start = after.map(AccountId::to_bytes);
            let start = start.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut page = Vec::new();
            for next in accounts.range::<&[u8; 16]>((start, Bound::Unbounded))?.take(limit) {
                let (id, row) = next?;
                page.push(self.view(
                    AccountId::from_bytes(*id.value()),
                    AccountRow::decode(row.value())?,
                    now,
                )?);
            }
            Ok(page)
        })
    }

    fn create_account(&self, new: NewAccount, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(move |txn| txn.create_account(new, now))
    }

    fn set_plan(&self, id: AccountId, plan: String, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(move |txn| txn.set_plan(id, plan, now))
    }

    fn set_status(
        &self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.change(move |txn| txn.set_status(id, status, now))
    }

    fn set_cancel_at_period_end(
        &self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Pending<Account, ChangeError> {
        self.change(move |txn| txn.set_cancel_at_period_end(id, cancel, now))
    }

    fn grant(&self, grant: Grant, now: UnixMs) -> Pending<Account, ChangeError> {
        self.change(move |txn| txn.grant(grant, now))
    }

    fn first_run(&self, first: FirstRun, now: UnixMs) -> Pending<Option<Account>, ChangeError> {
        self.change(move |txn| txn.first_run(first, now))
    }

    fn gateway_account(&self, gateway: &str, user: &str, plan: &str) -> Option<AccountId> {
        self.index.gateway_account(gateway, user, plan)
    }

    fn open_gateway_account(&self, user: GatewayUser, now: UnixMs) -> Pending<Account, ChangeError> {
        let index = Arc::clone(&self.index);
        self.change(move |txn| txn.open_gateway_account(&index, user, now))
    }

    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup> {
        self.index.look_up(hash)
    }

    fn keys(&self, account: AccountId) -> Pending<Vec<KeyInfo>, StoreError> {
        Pending::of(|| Ok(self.index.of_account(account)))
    }

    fn create_key(&self, new: NewKey, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        let index = Arc::clone(&self.index);
        self.change(move |txn| txn.create_key(&index, new, now))
    }

    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        self.change(move |txn| txn.revoke_key(id, now))
    }

    fn key_used(&self, id: KeyId, now: UnixMs) {
        if !self.writer.is_crowded() && self.index.note_use(id, now) {
            // No caller waits for it, and a lost record is repeated at the next use.
            drop(self.change(move |txn| Ok(txn.note_key_use(id, now)?)));
        }
    }

    fn terms(&self, account: AccountId) -> Option<Terms> {
        self.index.terms(account, &self.plans.get())
    }

    fn set_overrides(
        &self,
        account: AccountId,
        reset: bool,
        set: Overrides,
    ) -> Pending<Overrides, ChangeError> {
        self.change(move |txn| txn.set_overrides(account, reset, &set))
    }

    fn keep_counters(&self, changed: Kept) -> Pending<(), StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.keep_counters(&changed)?))
    }

    fn kept_counters(&self) -> Pending<Kept, StoreError> {
        Pending::of(|| limits::read_counters(&self.database))
    }

    fn installation(&self) -> [u8; 32] {
        self.vault.derive("installation")
    }

    fn keep_refusals(&self, changed: Vec<KeptRefusals>) -> Pending<(), StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.keep_refusals(&changed)?))
    }

    fn kept_refusals(&self) -> Pending<Vec<KeptRefusals>, StoreError> {
        Pending::of(|| refusals::read_refusals(&self.database))
    }

    fn withdraw(&self, evidence: Vec<u64>, now: UnixMs) -> Pending<(), StoreError> {
        self.writer.submit(Class::New, move |txn| Ok(txn.withdraw(&evidence, now)?))
    }

    fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError> {
        if let Err(error) = self.vault.prepare_for_result(now) {
            return Pending::ready(Err(error.into()));
        }
        self.writer.submit(Class::New, move |txn| txn.hold(request, now))
    }

    fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError> {
        let seal = |record| results::seal(&self.vault, hold.account, record, now, now);
        match with.result.map(seal).transpose() {
            Ok(result) => self.writer.submit(Class::Answer, move |txn| txn.settle(hold, result, now)),
            Err(error) => Pending::ready(Err(error.into())),
        }
    }

    fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError> {
        self.writer.submit(Class::Answer, move |txn| txn.end_hold(hold, HoldEnd::Void, now))
    }

    fn hash_address(&self, canonical: &str) -> AddressHash {
        AddressHash(self.vault.hash("address", &[canonical.as_bytes()]))
    }

    fn known(&self, account: AccountId, address: &AddressHash, now: UnixMs) -> Pending<Known, StoreError> {
        Pending::of(|| {
            let results = Results::open(self.database.begin_read()?)?;
            results.known(&self.vault, account, address, self.reuse, now)
        })
    }

    fn known_many(
        &self,
        questions: Vec<(AccountId, AddressHash)>,
        now: UnixMs,
    ) -> Pending<Vec<Known>, StoreError> {
        Pending::of(|| {
            let results = Results::open(self.database.begin_read()?)?;
            let known = |(account, address)| results.known(&self.vault, account, &address, self.reuse, now);
            questions.into_iter().map(known).collect()
        })
    }

    fn begin_check(&self, check: NewCheck, now: UnixMs) -> Pending<Begun, AttemptError> {
        let NewCheck { hold, connection, .. } = check;
        match self.prepare_check(&check, now) {
            Ok(PreparedCheck::Own(result)) => Pending::ready(Ok(Begun::Own(result))),
            Ok(PreparedCheck::Shared(result, sealed)) => self.writer.submit(Class::New, move |txn| {
                let charge = |txn: &mut Txn<'_>| txn.charge_known(hold, &sealed, now);
                Ok(Begun::Charged(result, txn.begin(connection, hold.account, now, charge)?))
            }),
            Ok(PreparedCheck::New) => self.writer.submit(Class::New, move |txn| {
                let hold_one = |txn: &mut Txn<'_>| txn.hold(HoldRequest { hold, credits: 1 }, now);
                Ok(Begun::Held(txn.begin(connection, hold.account, now, hold_one)?))
            }),
            Err(error) => Pending::ready(Err(error.into())),
        }
    }

    fn create_batch(&self, new: NewBatch, now: UnixMs) -> Pending<BatchCreated, BatchError> {
        match self.prepare_batch(new, now) {
            Ok(batch) => self.writer.submit(Class::New, move |txn| txn.create_batch(batch, now)),
            Err(refusal) => Pending::ready(Err(refusal)),
        }
    }

    fn open_batches(&self) -> Pending<Vec<OpenBatch>, StoreError> {
        Pending::of(|| self.batch_tables()?.open_batches())
    }

    fn unanswered(&self, batch: BatchId) -> Pending<Vec<OpenRow>, StoreError> {
        Pending::of(|| self.batch_tables()?.unanswered(&self.vault, batch))
    }

    fn answer_rows(&self, answers: Vec<RowAnswer>, now: UnixMs) -> Pending<Vec<BatchId>, StoreError> {
        let prepared = self.batch_tables().and_then(|tables| tables.prepare(&self.vault, answers, now));
        match prepared {
            Ok(answers) => self.writer.submit(Class::Answer, move |txn| Ok(txn.answer_rows(answers, now)?)),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn batch(&self, account: AccountId, id: BatchId, now: UnixMs) -> Pending<Option<BatchView>, StoreError> {
        Pending::of(|| {
            let transaction = self.database.begin_read()?;
            let (batches, rows) = (transaction.open_table(BATCHES)?, transaction.open_table(BATCH_ROWS)?);
            batches::view(&batches, &rows, &self.vault, account, id, now)
        })
    }

    fn purge(&self, now: UnixMs) -> Pending<Purged, StoreError> {
        // Rows are removed even if a key file cannot be created or destroyed: that must not fail a write.
        let prepared = self.vault.prepare(now);
        if !self.clock_check.removes(now) {
            return Pending::ready(prepared.map(|()| Purged::default()));
        }
        let finishing_key = batches::finishing_key(&self.vault, now).ok();
        self.writer.submit(Class::Answer, move |txn| {
            clock_check::note(txn.transaction, now)?;
            let purged = txn.purge(finishing_key.as_ref(), now)?;
            let expired = txn.vault.expire(now);
            // The tables are in order whatever the key files are.
            prepared
                .and(expired)
                .map(|vault_keys| Purged { vault_keys, ..purged })
                .map_err(WriteError::Refused)
        })
    }

    fn entries(&self, account: AccountId, limit: usize) -> Pending<Vec<Entry>, StoreError> {
        Pending::of(|| {
            let ledger = self.database.begin_read()?.open_table(LEDGER)?;
            let range = tables::account_range(account);
            let mut entries = Vec::new();
            for next in ledger.range::<&[u8; 32]>(range.start()..=range.end())?.rev().take(limit) {
                let (key, row) = next?;
                let EntryRow { kind, at, step, note } = EntryRow::decode(row.value())?;
                entries.push(Entry {
                    id: tables::split_entry_key(key.value()).id,
                    kind,
                    at,
                    granted: step.granted,
                    spent: step.spent,
                    expired: step.expired,
                    note,
                });
            }
            Ok(entries)
        })
    }

    fn audit(&self, account: Option<AccountId>) -> Pending<Audit, StoreError> {
        Pending::of(|| {
            let transaction = self.database.begin_read()?;
            let accounts = transaction.open_table(ACCOUNTS)?;
            let holds = transaction.open_table(HOLDS)?;
            let ledger = transaction.open_table(LEDGER)?;
            let batches = transaction.open_table(BATCHES)?;
            audit::audit(&accounts, &holds, &ledger, &batches, account)
        })
    }

    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError> {
        backup::dump(&self.database, self.folder.as_ref().map(Folder::path), now, sink)
    }

    fn sizes(&self) -> Pending<Sizes, StoreError> {
        Pending::of(|| backup::sizes(&self.database, self.folder.as_ref().map(Folder::path)))
    }

    fn figures(&self) -> StoreFigures {
        self.writer.figures()
    }
}
