//! One transaction, which all writes of a group share. Each write sees the effects of the earlier ones.

use crate::index::KeyChange;
use crate::rows::{Rows, RowsMut};
use crate::shared::Shared;
use crate::tables::{ACCOUNTS, AccountRow, EntryRow, LEDGER, META, META_FORMAT, entry_key};
use crate::write_error::WriteError;
use store::credits::PeriodStep;
use store::{AccountId, EntryId, StoreError};
use store::{EntryKind, Plan, PlanTable, UnixMs};

/// A transaction that writes.
pub struct Txn<'t> {
    /// The tables.
    pub rows: &'t mut dyn RowsMut,
    /// The plans, which do not change during the transaction.
    pub plans: &'t PlanTable,
    /// What all operations share.
    pub shared: &'t Shared,
    /// What the transaction has done, besides its rows.
    pub effects: Effects,
}

/// What a transaction has done, besides its rows.
#[derive(Default)]
pub struct Effects {
    /// Changes for the index of keys, to be applied after the commit.
    pub key_changes: Vec<KeyChange>,
    /// How many entries it added to the ledger.
    pub entries_added: u64,
    /// How many expiries it noted.
    pub expiries_added: usize,
    /// The sum of its ledger entries.
    pub total: PeriodStep,
    /// The latest time of any write.
    pub latest: UnixMs,
}

/// A point in the effects of a transaction, for [`Effects::undo`].
#[derive(Debug, Clone, Copy)]
pub struct EffectsMark {
    key_changes: usize,
    entries_added: u64,
    expiries_added: usize,
    total: PeriodStep,
    latest: UnixMs,
}

impl Effects {
    /// The present point in the effects.
    pub fn mark(&self) -> EffectsMark {
        let Effects { key_changes, entries_added, expiries_added, total, latest } = self;
        EffectsMark {
            key_changes: key_changes.len(),
            entries_added: *entries_added,
            expiries_added: *expiries_added,
            total: *total,
            latest: *latest,
        }
    }

    /// Takes back everything since a mark.
    pub fn undo(&mut self, mark: EffectsMark) {
        self.key_changes.truncate(mark.key_changes);
        self.entries_added = mark.entries_added;
        self.expiries_added = mark.expiries_added;
        self.total = mark.total;
        self.latest = mark.latest;
    }
}

/// An account that a write works on, with its plan and an up-to-date period.
pub(crate) struct Opened<'t> {
    pub id: AccountId,
    pub row: AccountRow,
    pub plan: &'t Plan,
}

impl<'t> Txn<'t> {
    /// A transaction that has done nothing.
    pub fn new(rows: &'t mut dyn RowsMut, plans: &'t PlanTable, shared: &'t Shared) -> Txn<'t> {
        Txn { rows, plans, shared, effects: Effects::default() }
    }

    /// The tables, for reading.
    pub fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    /// The account at the time `now`. If its period has ended, the new one is written at once, so that the tables are
    /// right whatever the result of the write.
    pub(crate) fn open_account(
        &mut self,
        id: AccountId,
        now: UnixMs,
    ) -> Result<Option<Opened<'t>>, StoreError> {
        let Some(row) = read_account(self.rows(), id)? else { return Ok(None) };
        let plan = find_plan(self.plans, &row)?;
        let mut account = Opened { id, row, plan };
        if let Some(step) = account.row.subscription.roll(plan, self.shared.clock_check.of_periods(now)) {
            self.record(&mut account, EntryKind::Period, step, now)?;
            self.save(&account)?;
        }
        Ok(Some(account))
    }

    /// The account at the time `now`, or the refusal if there is none or it is deleted.
    pub(crate) fn known_account<E>(
        &mut self,
        id: AccountId,
        now: UnixMs,
        unknown: E,
    ) -> Result<Opened<'t>, WriteError<E>> {
        let account = self.open_account(id, now)?.filter(|account| !account.row.is_closed());
        account.ok_or(WriteError::Refused(unknown))
    }

    /// Whether there is an account with this id that is not deleted.
    pub(crate) fn has_account(&self, id: AccountId) -> Result<bool, StoreError> {
        Ok(ACCOUNTS.get(self.rows(), &id.to_bytes())?.is_some_and(|row| !row.is_closed()))
    }

    /// The refusal of a write whose rows need this format, if the database has an older one: a cluster keeps it until all of its
    /// nodes know the new one.
    pub(crate) fn lacks_format(&self, needed: u32) -> Result<Option<StoreError>, StoreError> {
        let found = META.peek(self.rows(), META_FORMAT)?.map_or(0, |format| format.0);
        Ok((found < u64::from(needed)).then_some(StoreError::OldFormat { found, needed }))
    }

    /// Writes the account's row.
    pub(crate) fn save(&mut self, account: &Opened<'_>) -> Result<(), StoreError> {
        debug_assert!(account.row.subscription.balance.is_balanced(), "{:?}", account.row);
        ACCOUNTS.put(self.rows, &account.id.to_bytes(), &account.row)
    }

    /// Adds an entry of the store itself; none for a step without changes.
    pub(crate) fn record(
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
    pub(crate) fn append(
        &mut self,
        account: AccountId,
        id: EntryId,
        entry: &EntryRow,
    ) -> Result<(), StoreError> {
        let effects = &mut self.effects;
        effects.entries_added += 1;
        effects.total.granted = effects.total.granted.saturating_add(entry.step.granted);
        effects.total.spent = effects.total.spent.saturating_add(entry.step.spent);
        effects.latest = effects.latest.max(entry.at);
        LEDGER.put(self.rows, &entry_key(account, id), entry)
    }
}

/// The row of an account.
pub(crate) fn read_account(rows: &dyn Rows, id: AccountId) -> Result<Option<AccountRow>, StoreError> {
    ACCOUNTS.get(rows, &id.to_bytes())
}

/// The plan of an account. It is in the table: opening the store and changing a plan ensure that.
pub(crate) fn find_plan<'p>(plans: &'p PlanTable, row: &AccountRow) -> Result<&'p Plan, StoreError> {
    let missing = || StoreError::Failed(format!("plan {:?} is not defined", row.plan));
    plans.find(&row.plan).ok_or_else(missing)
}
