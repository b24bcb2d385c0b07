//! One write transaction of redb with its open tables, which all writes of a group share. Each write sees the effects
//! of the earlier ones.

use super::clock_check::ClockCheck;
use super::index::KeyChange;
use super::row::Row;
use super::tables::{
    ACCOUNTS, AccountRow, BATCH_ROWS, BATCHES, DAYS, EXPIRIES, EntryRow, HOLDS, IDEMPOTENCY, KEYS, LEDGER,
    NAMES, OPEN_BATCHES, RESULTS, entry_key,
};
use super::vault::Vault;
use super::write_error::WriteError;
use ::redb::{ReadableTable, Table, WriteTransaction};
use store::credits::PeriodStep;
use store::{AccountId, EntryId, StoreError};
use store::{EntryKind, Plan, PlanTable, UnixMs};

pub(super) struct Txn<'t> {
    /// The transaction itself, for tables that few writes need.
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
    /// Changes for the index of keys, to be applied after the commit.
    pub key_changes: Vec<KeyChange>,
    /// How many entries this transaction added to the ledger.
    pub entries_added: u64,
    /// How many expiries this transaction noted.
    pub expiries_added: usize,
    /// The sum of the ledger entries of this transaction.
    pub total: PeriodStep,
    /// The latest time of any write.
    pub latest: UnixMs,
}

/// An account that a write works on, with its plan and an up-to-date period.
pub(super) struct Opened<'t> {
    pub id: AccountId,
    pub row: AccountRow,
    pub plan: &'t Plan,
}

impl<'t> Txn<'t> {
    /// Opens all tables of a transaction.
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

    /// The account at the time `now`. If its period has ended, the new one is written at once, so that the tables are
    /// right whatever the result of the write.
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

    /// The account at the time `now`, or the refusal if there is none.
    pub fn known_account<E>(
        &mut self,
        id: AccountId,
        now: UnixMs,
        unknown: E,
    ) -> Result<Opened<'t>, WriteError<E>> {
        self.open_account(id, now)?.ok_or(WriteError::Refused(unknown))
    }

    /// Writes the account's row.
    pub fn save(&mut self, account: &Opened<'_>) -> Result<(), StoreError> {
        debug_assert!(account.row.subscription.balance.is_balanced(), "{:?}", account.row);
        self.accounts.insert(&account.id.to_bytes(), account.row.encode().as_slice())?;
        Ok(())
    }

    /// Adds an entry of the store itself; none for a step without changes.
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

    /// Adds an entry to the ledger.
    pub fn append(&mut self, account: AccountId, id: EntryId, entry: &EntryRow) -> Result<(), StoreError> {
        self.entries_added += 1;
        self.total.granted = self.total.granted.saturating_add(entry.step.granted);
        self.total.spent = self.total.spent.saturating_add(entry.step.spent);
        self.latest = self.latest.max(entry.at);
        self.ledger.insert(&entry_key(account, id), entry.encode().as_slice())?;
        Ok(())
    }

    /// Closes the tables, so that the transaction can be committed.
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

/// The plan of an account. It is in the table: opening the store and changing a plan ensure that.
pub(super) fn find_plan<'p>(plans: &'p PlanTable, row: &AccountRow) -> Result<&'p Plan, StoreError> {
    let missing = || StoreError::Failed(format!("plan {:?} is not defined", row.plan));
    plans.find(&row.plan).ok_or_else(missing)
}
