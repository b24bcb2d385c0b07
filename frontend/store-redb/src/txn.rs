//! One write transaction of redb with its tables open, shared by all the writes of a group. Each sees what the ones
//! before it did.

use super::clock_check::ClockCheck;
use super::index::KeyChange;
use super::row::Row;
use super::tables::{
    ACCOUNTS, AccountRow, BATCH_ROWS, BATCHES, DAYS, EXPIRIES, EntryRow, HOLDS, IDEMPOTENCY, KEYS, LEDGER,
    NAMES, OPEN_BATCHES, RESULTS, entry_key,
};
use super::vault::Vault;
use ::redb::{ReadableTable, Table, WriteTransaction};
use store::credits::PeriodStep;
use store::{AccountId, EntryId, StoreError};
use store::{EntryKind, Plan, PlanTable, UnixMs};

pub(super) struct Txn<'t> {
    /// For tables that few writes need.
    pub transaction: &'t WriteTransaction,
    pub plans: &'t PlanTable,
    pub vault: &'t Vault,
    clock_check: ClockCheck,
    pub accounts: Table<'t, &'static [u8; 16], &'static [u8]>,
    pub names: Table<'t, &'static str, &'static [u8; 16]>,
    pub keys: Table<'t, &'static [u8; 16], &'static [u8]>,
    pub holds: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub ledger: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub results: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub batches: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub batch_rows: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub open_batches: Table<'t, &'static [u8; 16], &'static [u8; 16]>,
    pub idempotency: Table<'t, &'static [u8; 32], &'static [u8]>,
    pub expiries: Table<'t, &'static [u8; 41], ()>,
    pub days: Table<'t, &'static [u8; 20], &'static [u8]>,
    /// For the index of keys, once this is committed.
    pub key_changes: Vec<KeyChange>,
    /// Entries that this transaction added to the ledger.
    pub entries_added: u64,
    /// Expiries that this transaction noted.
    pub expiries_added: usize,
    /// What the entries that this transaction added to the ledger say.
    pub total: PeriodStep,
    /// The latest time that any write was given.
    pub latest: UnixMs,
}

/// An account that is being worked on, its period rolled, with its plan.
pub(super) struct Opened<'t> {
    pub id: AccountId,
    pub row: AccountRow,
    pub plan: &'t Plan,
}

impl<'t> Txn<'t> {
    pub fn open(
        transaction: &'t WriteTransaction,
        plans: &'t PlanTable,
        vault: &'t Vault,
        clock_check: ClockCheck,
    ) -> Result<Txn<'t>, StoreError> {
        Ok(Txn {
            transaction,
            plans,
            vault,
            clock_check,
            accounts: transaction.open_table(ACCOUNTS)?,
            names: transaction.open_table(NAMES)?,
            keys: transaction.open_table(KEYS)?,
            holds: transaction.open_table(HOLDS)?,
            ledger: transaction.open_table(LEDGER)?,
            results: transaction.open_table(RESULTS)?,
            batches: transaction.open_table(BATCHES)?,
            batch_rows: transaction.open_table(BATCH_ROWS)?,
            open_batches: transaction.open_table(OPEN_BATCHES)?,
            idempotency: transaction.open_table(IDEMPOTENCY)?,
            expiries: transaction.open_table(EXPIRIES)?,
            days: transaction.open_table(DAYS)?,
            key_changes: Vec::new(),
            entries_added: 0,
            expiries_added: 0,
            total: PeriodStep::default(),
            latest: 0,
        })
    }

    /// The account as of `now`. A period that has ended is rolled, and that is written here and now, so that the
    /// tables are right whatever becomes of the write that asked.
    pub fn open_account(&mut self, id: AccountId, now: UnixMs) -> Result<Option<Opened<'t>>, StoreError> {
        let Some(row) = read_account(&self.accounts, id)? else { return Ok(None) };
        let plan = find_plan(self.plans, &row)?;
        let mut account = Opened { id, row, plan };
        if let Some(step) = account.row.subscription.roll(plan, self.clock_check.of_periods(now)) {
            self.record(&mut account, EntryKind::Period, step, now)?;
            self.save(&account)?;
        }
        Ok(Some(account))
    }

    pub fn save(&mut self, account: &Opened<'_>) -> Result<(), StoreError> {
        debug_assert!(account.row.subscription.balance.is_balanced(), "{:?}", account.row);
        self.accounts.insert(&account.id.to_bytes(), account.row.encode().as_slice())?;
        Ok(())
    }

    /// Adds an entry that the store makes of itself; none for a step that changed nothing.
    pub fn record(
        &mut self,
        account: &mut Opened<'_>,
        kind: EntryKind,
        step: PeriodStep,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        if step == PeriodStep::default() {
            return Ok(());
        }
        account.row.serial += 1;
        let id = EntryId::of_store(now, account.row.serial);
        self.append(account.id, id, &EntryRow { kind, at: now, step, note: String::new() })
    }

    pub fn append(&mut self, account: AccountId, id: EntryId, entry: &EntryRow) -> Result<(), StoreError> {
        self.entries_added += 1;
        self.total.granted = self.total.granted.saturating_add(entry.step.granted);
        self.total.spent = self.total.spent.saturating_add(entry.step.spent);
        self.latest = self.latest.max(entry.at);
        self.ledger.insert(&entry_key(account, id), entry.encode().as_slice())?;
        Ok(())
    }

    /// Ends the work on the tables, so that the transaction can be committed.
    pub fn close(self) -> Vec<KeyChange> {
        self.key_changes
    }
}

pub(super) fn read_account(
    accounts: &impl ReadableTable<&'static [u8; 16], &'static [u8]>,
    id: AccountId,
) -> Result<Option<AccountRow>, StoreError> {
    accounts.get(&id.to_bytes())?.map(|row| AccountRow::decode(row.value())).transpose()
}

/// The plan of an account. It is in the table: opening the store and changing a plan see to that.
pub(super) fn find_plan<'p>(plans: &'p PlanTable, row: &AccountRow) -> Result<&'p Plan, StoreError> {
    let missing = || StoreError::Failed(format!("plan {:?} is not defined", row.plan));
    plans.find(&row.plan).ok_or_else(missing)
}
