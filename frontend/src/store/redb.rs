//! The store in one file of redb, for one process.

use super::accounts::view_account;
use super::folder::Folder;
use super::index::{KeyChange, KeyIndex};
use super::ledger::HoldEnd;
use super::row::Row;
use super::tables::{self, ACCOUNTS, AccountRow, EntryRow, HOLDS, KEYS, KeyRow, LEDGER, NAMES};
use super::txn::{Txn, find_plan, read_account};
use super::types::*;
use super::writer::{Class, Context, Writer};
use super::{
    AccountId, BatchError, BatchId, ChangeError, HoldError, KeyId, OpenError, Pending, SettleError, Store,
    StoreError, audit, migrations,
};
use crate::credits::Balance;
use ::redb::{Builder, Database, ReadableDatabase, ReadableTable};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// Memory for pages of the file.
    pub cache_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { cache_bytes: 64 * 1024 * 1024 }
    }
}

/// What was found and done at opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// Holds without an answer that were voided: of whoever used the store before.
    pub voided_holds: u64,
    /// The data folder existed before and others than its owner may look into it.
    pub folder_open_to_others: bool,
}

/// See the module.
pub struct RedbStore {
    // In the order of dropping: the writer does what it was given, then the file is closed, then the folder unlocked.
    writer: Writer,
    database: Arc<Database>,
    plans: Arc<PlanTable>,
    index: Arc<KeyIndex>,
    _folder: Option<Folder>,
}

impl RedbStore {
    /// Opens the store in a data folder, which is made if there is none, and voids what was left unanswered.
    ///
    /// # Errors
    /// [`OpenError`], each of which says what to do.
    pub fn open(
        folder: &Path,
        plans: PlanTable,
        options: StoreOptions,
        now: UnixMs,
    ) -> Result<(RedbStore, Opening), OpenError> {
        let folder = Folder::lock(folder)?;
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes);
        let database = folder.open_database(&builder)?;
        let path = folder.database_path();
        let folder_open_to_others = folder.open_to_others;
        let (store, opening) = RedbStore::start(database, Some(folder), &path, plans, now)?;
        Ok((store, Opening { folder_open_to_others, ..opening }))
    }

    /// Opens the store on a storage of the caller's, as tests of crashes do.
    #[cfg(test)]
    pub(crate) fn open_backend(
        backend: impl ::redb::StorageBackend,
        plans: PlanTable,
        now: UnixMs,
    ) -> Result<(RedbStore, Opening), OpenError> {
        let path = Path::new("backend");
        let database = Builder::new().set_cache_size(1 << 20).create_with_backend(backend);
        let database = database.map_err(|error| super::folder::refusal(path, error))?;
        RedbStore::start(database, None, path, plans, now)
    }

    fn start(
        database: Database,
        folder: Option<Folder>,
        path: &Path,
        plans: PlanTable,
        now: UnixMs,
    ) -> Result<(RedbStore, Opening), OpenError> {
        migrations::migrate(&database, path)?;
        check_plans(&database, &plans)?;
        let index = Arc::new(KeyIndex::default());
        index.apply(read_keys(&database)?);
        let (database, plans) = (Arc::new(database), Arc::new(plans));
        let context =
            Context { database: Arc::clone(&database), plans: Arc::clone(&plans), index: Arc::clone(&index) };
        let writer = Writer::start(context).map_err(|error| StoreError::Failed(error.to_string()))?;
        let store = RedbStore { writer, database, plans, index, _folder: folder };
        let voided: Pending<u64, StoreError> =
            store.writer.submit(Class::Answer, move |txn| Ok(Ok(txn.void_open_holds(now)?)));
        let opening = Opening { voided_holds: voided.wait()?, ..Opening::default() };
        Ok((store, opening))
    }

    fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Txn<'_>) -> Result<Result<T, ChangeError>, StoreError> + Send + 'static,
    ) -> Pending<T, ChangeError> {
        self.writer.submit(Class::New, work)
    }

    fn view(&self, id: AccountId, mut row: AccountRow, now: UnixMs) -> Result<Account, StoreError> {
        let plan = find_plan(&self.plans, &row)?;
        row.subscription.roll(plan, now);
        Ok(view_account(id, &row, plan))
    }
}

/// Every account's plan must be in the table: a period could not be rolled otherwise.
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
    fn plans(&self) -> &PlanTable {
        &self.plans
    }

    fn health(&self) -> Result<(), StoreError> {
        self.writer.health()
    }

    fn account(&self, id: AccountId, now: UnixMs) -> Result<Option<Account>, StoreError> {
        let accounts = self.database.begin_read()?.open_table(ACCOUNTS)?;
        read_account(&accounts, id)?.map(|row| self.view(id, row, now)).transpose()
    }

    fn account_named(&self, name: &str, now: UnixMs) -> Result<Option<Account>, StoreError> {
        let transaction = self.database.begin_read()?;
        let Some(id) = transaction.open_table(NAMES)?.get(name)?.map(|id| *id.value()) else {
            return Ok(None);
        };
        let id = AccountId::from_bytes(id);
        read_account(&transaction.open_table(ACCOUNTS)?, id)?.map(|row| self.view(id, row, now)).transpose()
    }

    fn accounts(
        &self,
        after: Option<AccountId>,
        limit: usize,
        now: UnixMs,
    ) -> Result<Vec<Account>, StoreError> {
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

    fn key_by_hash(&self, hash: &KeyHash) -> Option<KeyLookup> {
        self.index.look_up(hash)
    }

    fn keys(&self, account: AccountId) -> Result<Vec<KeyInfo>, StoreError> {
        Ok(self.index.of_account(account))
    }

    fn create_key(&self, new: NewKey, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        self.change(move |txn| txn.create_key(new, now))
    }

    fn revoke_key(&self, id: KeyId, now: UnixMs) -> Pending<KeyInfo, ChangeError> {
        self.change(move |txn| txn.revoke_key(id, now))
    }

    fn key_used(&self, id: KeyId, now: UnixMs) {
        if !self.writer.is_crowded() && self.index.note_use(id, now) {
            // Nobody waits: the next use makes up for a note that is lost.
            drop(self.change(move |txn| Ok(Ok(txn.note_key_use(id, now)?))));
        }
    }

    fn hold(&self, request: HoldRequest, now: UnixMs) -> Pending<Balance, HoldError> {
        self.writer.submit(Class::New, move |txn| txn.hold(request, now))
    }

    fn settle(&self, hold: HoldRef, with: Settlement, now: UnixMs) -> Pending<Balance, SettleError> {
        let Settlement { result: _ } = with;
        self.writer.submit(Class::Answer, move |txn| txn.end_hold(hold, HoldEnd::Settle, now))
    }

    fn void(&self, hold: HoldRef, now: UnixMs) -> Pending<Balance, SettleError> {
        self.writer.submit(Class::Answer, move |txn| txn.end_hold(hold, HoldEnd::Void, now))
    }

    fn hash_address(&self, _canonical: &str) -> AddressHash {
        AddressHash([0; 16])
    }

    fn known(&self, _account: AccountId, _address: &AddressHash, _now: UnixMs) -> Result<Known, StoreError> {
        Ok(Known::Nothing)
    }

    fn charge_known(
        &self,
        _hold: HoldRef,
        _record: ResultRecord,
        _now: UnixMs,
    ) -> Pending<Balance, HoldError> {
        Pending::ready(Err(StoreError::Closed.into()))
    }

    fn create_batch(&self, _new: NewBatch, _now: UnixMs) -> Pending<BatchCreated, BatchError> {
        Pending::ready(Err(StoreError::Closed.into()))
    }

    fn open_batches(&self) -> Result<Vec<OpenBatch>, StoreError> {
        Ok(Vec::new())
    }

    fn unanswered(&self, _batch: BatchId) -> Result<Vec<OpenRow>, StoreError> {
        Ok(Vec::new())
    }

    fn answer_rows(&self, _answers: Vec<RowAnswer>, _now: UnixMs) -> Pending<Vec<BatchId>, StoreError> {
        Pending::ready(Err(StoreError::Closed))
    }

    fn batch(
        &self,
        _account: AccountId,
        _id: BatchId,
        _now: UnixMs,
    ) -> Result<Option<BatchView>, StoreError> {
        Ok(None)
    }

    fn purge(&self, _now: UnixMs) -> Pending<Purged, StoreError> {
        Pending::ready(Err(StoreError::Closed))
    }

    fn entries(&self, account: AccountId, limit: usize) -> Result<Vec<Entry>, StoreError> {
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
    }

    fn audit(&self, account: Option<AccountId>) -> Result<Audit, StoreError> {
        let transaction = self.database.begin_read()?;
        let accounts = transaction.open_table(ACCOUNTS)?;
        let holds = transaction.open_table(HOLDS)?;
        let ledger = transaction.open_table(LEDGER)?;
        audit::audit(&accounts, &holds, &ledger, account)
    }
}
