//! Writes to accounts and keys.

use super::gateways;
use super::index::{KeyChange, KeyIndex, key_info};
use super::row::Row;
use super::tables::{AccountRow, KeyRow};
use super::txn::{Opened, Txn};
use super::write_error::{WriteError, refuse};
use ::redb::{ReadableTable, ReadableTableMetadata};
use std::collections::BTreeMap;
use store::credits::Subscription;
use store::{
    Account, EntryKind, FirstRun, KEYS_KEPT_MAX, KEYS_MAX, KeyInfo, NewAccount, NewKey, Plan,
    SubscriptionStatus, TEXT_CHARS_MAX, UnixMs,
};
use store::{AccountId, ChangeError, KeyId, StoreError};

/// How many revoked keys are removed for a new one: the length of a step must be limited.
const KEYS_FORGOTTEN_MAX: usize = 16;

impl Txn<'_> {
    /// Creates an account with a free name. Its first period begins at `now`.
    pub fn create_account(
        &mut self,
        new: NewAccount,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        if gateways::is_reserved(&new.name) {
            return refuse(ChangeError::NameReserved);
        }
        self.make_account(new, now)
    }

    /// Creates an account, whose name may have the reserved form.
    pub(super) fn make_account(
        &mut self,
        new: NewAccount,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        self.check_new_account(&new)?;
        let Some(plan) = self.plans.find(&new.plan) else { return refuse(ChangeError::UnknownPlan) };
        let (subscription, step) = Subscription::begin(plan, now);
        let row = AccountRow { name: new.name, plan: new.plan, subscription, serial: 0 };
        let mut account = Opened { id: new.id, row, plan };
        self.record(&mut account, EntryKind::Period, step, now)?;
        self.names.insert(account.row.name.as_str(), &account.id.to_bytes())?;
        self.save(&account)?;
        self.key_changes.push(KeyChange::Plan(account.id, account.row.plan.clone()));
        self.key_changes.push(KeyChange::Named(account.id, account.row.name.clone()));
        Ok(account.view())
    }

    fn check_new_account(&self, new: &NewAccount) -> Result<(), WriteError<ChangeError>> {
        if !is_name(&new.name) {
            refuse(ChangeError::BadText)
        } else if self.plans.find(&new.plan).is_none() {
            refuse(ChangeError::UnknownPlan)
        } else if self.names.get(new.name.as_str())?.is_some() {
            refuse(ChangeError::NameTaken)
        } else if self.accounts.get(&new.id.to_bytes())?.is_some() {
            refuse(ChangeError::Exists)
        } else {
            Ok(())
        }
    }

    /// Moves an account to another plan, within its current period.
    pub fn set_plan(
        &mut self,
        id: AccountId,
        plan: String,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        let mut account = self.known_account(id, now, ChangeError::UnknownAccount)?;
        let Some(new) = self.plans.find(&plan) else { return refuse(ChangeError::UnknownPlan) };
        let step = account.row.subscription.change_plan(new);
        account.row.plan = plan;
        account.plan = new;
        self.record(&mut account, EntryKind::PlanChange, step, now)?;
        // The account moves from a plan that never resets to one that does, and months may have passed.
        if let Some(step) = account.row.subscription.roll(new, now) {
            self.record(&mut account, EntryKind::Period, step, now)?;
        }
        self.save(&account)?;
        self.key_changes.push(KeyChange::Plan(account.id, account.row.plan.clone()));
        Ok(account.view())
    }

    /// Sets the status of an account's subscription.
    pub fn set_status(
        &mut self,
        id: AccountId,
        status: SubscriptionStatus,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        let mut account = self.known_account(id, now, ChangeError::UnknownAccount)?;
        let step = account.row.subscription.change_status(status, account.plan);
        self.record(&mut account, EntryKind::PlanChange, step, now)?;
        self.save(&account)?;
        Ok(account.view())
    }

    /// Sets whether an account's subscription ends with the period.
    pub fn set_cancel_at_period_end(
        &mut self,
        id: AccountId,
        cancel: bool,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        let mut account = self.known_account(id, now, ChangeError::UnknownAccount)?;
        account.row.subscription.set_cancel_at_period_end(cancel, account.plan);
        self.save(&account)?;
        Ok(account.view())
    }

    /// Creates the first account with its keys; `None` if the store has an account.
    pub fn first_run(
        &mut self,
        first: FirstRun,
        now: UnixMs,
    ) -> Result<Option<Account>, WriteError<ChangeError>> {
        // Accounts are never deleted, so a table that is empty now was always empty.
        if !self.accounts.is_empty()? {
            return Ok(None);
        }
        // All checks precede the first write: a refusal must leave no changes.
        let ids: std::collections::BTreeSet<_> = first.keys.iter().map(|key| (key.id, key.account)).collect();
        let keys_fit = ids.len() == first.keys.len()
            && first.keys.iter().all(|key| key.account == first.account.id && is_text(&key.label));
        if !keys_fit {
            return refuse(ChangeError::BadText);
        }
        let account = self.create_account(first.account, now)?;
        for key in first.keys {
            self.add_key(key, now)?;
        }
        Ok(Some(account))
    }

    /// Adds a key to an account. If it has too many, the keys with the oldest revocation are removed.
    pub fn create_key(
        &mut self,
        index: &KeyIndex,
        new: NewKey,
        now: UnixMs,
    ) -> Result<KeyInfo, WriteError<ChangeError>> {
        if !is_text(&new.label) {
            return refuse(ChangeError::BadText);
        }
        if self.accounts.get(&new.account.to_bytes())?.is_none() {
            return refuse(ChangeError::UnknownAccount);
        }
        if self.keys.get(&new.id.to_bytes())?.is_some() {
            return refuse(ChangeError::Exists);
        }
        if !self.make_room_for_key(index, new.account)? {
            return refuse(ChangeError::TooManyKeys);
        }
        Ok(self.add_key(new, now)?)
    }

    /// Whether the account may have one more key. The keys with the oldest revocation are removed for it, if there are too
    /// many.
    fn make_room_for_key(&mut self, index: &KeyIndex, account: AccountId) -> Result<bool, StoreError> {
        let mut keys: BTreeMap<KeyId, UnixMs> = index.revocations(account).into_iter().collect();
        // The index does not have the changes of this transaction yet.
        for change in &self.key_changes {
            match change {
                KeyChange::Added(id, row) if row.account == account => drop(keys.insert(*id, row.revoked_at)),
                KeyChange::Revoked(id, at) => {
                    if let Some(revoked_at) = keys.get_mut(id) {
                        *revoked_at = *at;
                    }
                }
                KeyChange::Removed(id) => drop(keys.remove(id)),
                _ => {}
            }
        }
        let mut revoked: Vec<(UnixMs, KeyId)> =
            keys.iter().filter(|(_, at)| **at != 0).map(|(id, at)| (*at, *id)).collect();
        if keys.len() - revoked.len() >= KEYS_MAX {
            return Ok(false);
        }
        let too_many = (keys.len() + 1).saturating_sub(KEYS_KEPT_MAX).min(KEYS_FORGOTTEN_MAX);
        revoked.sort_unstable();
        for (_, id) in revoked.into_iter().take(too_many) {
            self.keys.remove(&id.to_bytes())?;
            self.key_changes.push(KeyChange::Removed(id));
        }
        Ok(true)
    }

    fn add_key(&mut self, new: NewKey, now: UnixMs) -> Result<KeyInfo, StoreError> {
        let row = KeyRow {
            account: new.account,
            mode: new.mode,
            hash: new.hash,
            last4: new.last4,
            created_at: now,
            revoked_at: 0,
            last_used_at: 0,
            label: new.label,
        };
        self.keys.insert(&new.id.to_bytes(), row.encode().as_slice())?;
        let info = key_info(new.id, &row);
        self.key_changes.push(KeyChange::Added(new.id, row));
        Ok(info)
    }

    /// Revokes a key; a key that is already revoked is unchanged.
    pub fn revoke_key(&mut self, id: KeyId, now: UnixMs) -> Result<KeyInfo, WriteError<ChangeError>> {
        let Some(mut row) = self.read_key(id)? else { return refuse(ChangeError::UnknownKey) };
        if row.revoked_at == 0 {
            row.revoked_at = now.max(1);
            self.keys.insert(&id.to_bytes(), row.encode().as_slice())?;
            self.key_changes.push(KeyChange::Revoked(id, row.revoked_at));
        }
        Ok(key_info(id, &row))
    }

    /// Stores `now` as the time of the key's last use.
    pub fn note_key_use(&mut self, id: KeyId, now: UnixMs) -> Result<(), StoreError> {
        if let Some(mut row) = self.read_key(id)? {
            row.last_used_at = row.last_used_at.max(now);
            self.keys.insert(&id.to_bytes(), row.encode().as_slice())?;
        }
        Ok(())
    }

    fn read_key(&self, id: KeyId) -> Result<Option<KeyRow>, StoreError> {
        self.keys.get(&id.to_bytes())?.map(|row| KeyRow::decode(row.value())).transpose()
    }
}

impl Opened<'_> {
    /// The account from the view of callers.
    pub fn view(&self) -> Account {
        view_account(self.id, &self.row, self.plan)
    }
}

/// The account from the view of callers; its period must be up to date.
pub(super) fn view_account(id: AccountId, row: &AccountRow, plan: &Plan) -> Account {
    Account {
        id,
        name: row.name.clone(),
        plan: row.plan.clone(),
        status: row.subscription.status,
        cancel_at_period_end: row.subscription.cancel_at_period_end,
        created_at: row.subscription.start,
        period_end: row.subscription.period_end(plan),
        balance: row.subscription.balance,
    }
}

/// Whether a label or a note is short enough, and safe to show on a terminal.
pub(super) fn is_text(text: &str) -> bool {
    text.chars().count() <= TEXT_CHARS_MAX && !text.chars().any(char::is_control)
}

fn is_name(name: &str) -> bool {
    is_text(name) && !name.is_empty() && name.trim() == name && name.parse::<AccountId>().is_err()
}
