//! Writes to accounts and keys.

use crate::gateways;
use crate::index::{KeyChange, key_info};
use crate::tables::{ACCOUNTS, AccountRow, FORMAT_OF_KEY_RIGHTS, KEYS, KeyRow, NAMES};
use crate::txn::{Opened, Txn};
use crate::write_error::{WriteError, refuse};
use store::credits::Subscription;
use store::{
    Account, Authority, EntryKind, FirstRun, KEY_LIFE_MS_MAX, KEYS_KEPT_MAX, KEYS_MAX, KeyInfo, NewAccount,
    NewKey, Plan, SubscriptionStatus, TEXT_CHARS_MAX, UnixMs,
};
use store::{AccountId, ChangeError, KeyId, StoreError};

/// The name of a deleted account in lists, while some of its rows are left.
const CLOSED_NAME: &str = "(deleted)";

/// How many ended keys are removed for a new one: the length of a step must be limited.
const KEYS_FORGOTTEN_MAX: usize = 16;

impl Txn<'_> {
    /// Creates an account with a free name. Its first period begins at `now`.
    pub(crate) fn create_account(
        &mut self,
        new: &NewAccount,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        if gateways::is_reserved(&new.name) {
            return refuse(ChangeError::NameReserved);
        }
        self.make_account(new, now)
    }

    /// Creates an account, whose name may have the reserved form.
    pub(crate) fn make_account(
        &mut self,
        new: &NewAccount,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        self.check_new_account(new)?;
        let Some(plan) = self.plans.find(&new.plan) else { return refuse(ChangeError::UnknownPlan) };
        let (subscription, step) = Subscription::begin(plan, now);
        let row = AccountRow { name: new.name.clone(), plan: new.plan.clone(), subscription, serial: 0 };
        let mut account = Opened { id: new.id, row, plan };
        self.record(&mut account, EntryKind::Period, step, now)?;
        NAMES.put(self.rows, account.row.name.as_str(), &account.id)?;
        self.save(&account)?;
        self.effects.key_changes.push(KeyChange::Plan(account.id, account.row.plan.clone()));
        self.effects.key_changes.push(KeyChange::Named(account.id, account.row.name.clone()));
        Ok(account.view())
    }

    fn check_new_account(&self, new: &NewAccount) -> Result<(), WriteError<ChangeError>> {
        if !is_name(&new.name) {
            refuse(ChangeError::BadText)
        } else if self.plans.find(&new.plan).is_none() {
            refuse(ChangeError::UnknownPlan)
        } else if NAMES.has(self.rows(), new.name.as_str())? {
            refuse(ChangeError::NameTaken)
        } else if ACCOUNTS.has(self.rows(), &new.id.to_bytes())? {
            refuse(ChangeError::Exists)
        } else {
            Ok(())
        }
    }

    /// Moves an account to another plan, within its current period.
    pub(crate) fn set_plan(
        &mut self,
        id: AccountId,
        plan: &str,
        now: UnixMs,
    ) -> Result<Account, WriteError<ChangeError>> {
        let mut account = self.known_account(id, now, ChangeError::UnknownAccount)?;
        let Some(new) = self.plans.find(plan) else { return refuse(ChangeError::UnknownPlan) };
        let step = account.row.subscription.change_plan(new);
        plan.clone_into(&mut account.row.plan);
        account.plan = new;
        self.record(&mut account, EntryKind::PlanChange, step, now)?;
        // The account moves from a plan that never resets to one that does, and months may have passed.
        if let Some(step) = account.row.subscription.roll(new, now) {
            self.record(&mut account, EntryKind::Period, step, now)?;
        }
        self.save(&account)?;
        self.effects.key_changes.push(KeyChange::Plan(account.id, account.row.plan.clone()));
        Ok(account.view())
    }

    /// Sets the status of an account's subscription.
    pub(crate) fn set_status(
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
    pub(crate) fn set_cancel_at_period_end(
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
    pub(crate) fn first_run(
        &mut self,
        first: &FirstRun,
        now: UnixMs,
    ) -> Result<Option<Account>, WriteError<ChangeError>> {
        if !ACCOUNTS.is_empty(self.rows())? || self.has_deleted()? {
            return Ok(None);
        }
        // All checks precede the first write: a refusal must leave no changes.
        let ids: std::collections::BTreeSet<_> = first.keys.iter().map(|key| (key.id, key.account)).collect();
        let keys_fit = ids.len() == first.keys.len()
            && first.keys.iter().all(|key| key.account == first.account.id && is_text(&key.label));
        if !keys_fit {
            return refuse(ChangeError::BadText);
        }
        let account = self.create_account(&first.account, now)?;
        for key in &first.keys {
            self.add_key(key, now)?;
        }
        Ok(Some(account))
    }

    /// Adds a key to an account. If it has too many, the keys that ended first are removed.
    pub(crate) fn create_key(
        &mut self,
        new: &NewKey,
        by: &Authority,
        now: UnixMs,
    ) -> Result<KeyInfo, WriteError<ChangeError>> {
        if !is_text(&new.label) {
            return refuse(ChangeError::BadText);
        }
        if !self.has_account(new.account)? {
            return refuse(ChangeError::UnknownAccount);
        }
        if !self.holds(by, new.account, now)? {
            return refuse(ChangeError::Outdated);
        }
        if KEYS.has(self.rows(), &new.id.to_bytes())? {
            return refuse(ChangeError::Exists);
        }
        if new.expires_at.is_some_and(|at| at <= now || at > now.saturating_add(KEY_LIFE_MS_MAX)) {
            return refuse(ChangeError::BadExpiry);
        }
        if key_row(new, now).is_limited()
            && let Some(refusal) = self.lacks_format(FORMAT_OF_KEY_RIGHTS)?
        {
            return refuse(refusal.into());
        }
        if !self.make_room_for_key(new.account, now)? {
            return refuse(ChangeError::TooManyKeys);
        }
        Ok(self.add_key(new, now)?)
    }

    /// Whether the account may have one more key. The keys that ended first are removed for it, if there are too many.
    fn make_room_for_key(&mut self, account: AccountId, now: UnixMs) -> Result<bool, StoreError> {
        let keys = self.keys_of(account);
        let mut ended: Vec<(UnixMs, KeyId)> =
            keys.values().filter_map(|key| Some((key.ended_at(now)?, key.id))).collect();
        if keys.len() - ended.len() >= KEYS_MAX {
            return Ok(false);
        }
        let too_many = (keys.len() + 1).saturating_sub(KEYS_KEPT_MAX).min(KEYS_FORGOTTEN_MAX);
        ended.sort_unstable();
        for (_, id) in ended.into_iter().take(too_many) {
            KEYS.remove(self.rows, &id.to_bytes())?;
            self.effects.key_changes.push(KeyChange::Removed(id));
        }
        Ok(true)
    }

    fn add_key(&mut self, new: &NewKey, now: UnixMs) -> Result<KeyInfo, StoreError> {
        let row = key_row(new, now);
        KEYS.put(self.rows, &new.id.to_bytes(), &row)?;
        let info = key_info(new.id, &row);
        self.effects.key_changes.push(KeyChange::Added(new.id, row));
        Ok(info)
    }

    /// Revokes a key; a key that is already revoked is unchanged.
    pub(crate) fn revoke_key(&mut self, id: KeyId, now: UnixMs) -> Result<KeyInfo, WriteError<ChangeError>> {
        let Some(mut row) = self.read_key(id)? else { return refuse(ChangeError::UnknownKey) };
        if row.revoked_at == 0 {
            row.revoked_at = now.max(1);
            KEYS.put(self.rows, &id.to_bytes(), &row)?;
            self.effects.key_changes.push(KeyChange::Revoked(id, row.revoked_at));
        }
        Ok(key_info(id, &row))
    }

    /// Stores `now` as the time of the key's last use.
    pub(crate) fn note_key_use(&mut self, id: KeyId, now: UnixMs) -> Result<(), StoreError> {
        if let Some(mut row) = self.read_key(id)? {
            row.last_used_at = row.last_used_at.max(now);
            KEYS.put(self.rows, &id.to_bytes(), &row)?;
        }
        Ok(())
    }

    fn read_key(&self, id: KeyId) -> Result<Option<KeyRow>, StoreError> {
        KEYS.get(self.rows(), &id.to_bytes())
    }
}

fn key_row(new: &NewKey, now: UnixMs) -> KeyRow {
    KeyRow {
        account: new.account,
        mode: new.mode,
        hash: new.hash,
        last4: new.last4,
        created_at: now,
        revoked_at: 0,
        last_used_at: 0,
        label: new.label.clone(),
        scopes: new.scopes,
        expires_at: new.expires_at.unwrap_or(0),
    }
}

impl Opened<'_> {
    /// The account from the view of callers.
    pub(crate) fn view(&self) -> Account {
        view_account(self.id, &self.row, self.plan)
    }
}

/// The account from the view of callers; its period must be up to date.
pub(crate) fn view_account(id: AccountId, row: &AccountRow, plan: &Plan) -> Account {
    Account {
        id,
        name: if row.is_closed() { CLOSED_NAME.into() } else { row.name.clone() },
        plan: row.plan.clone(),
        status: row.subscription.status,
        cancel_at_period_end: row.subscription.cancel_at_period_end,
        created_at: row.subscription.start,
        period_end: row.subscription.period_end(plan),
        balance: row.subscription.balance,
    }
}

/// Whether a label or a note is short enough, and safe to show on a terminal.
pub(crate) fn is_text(text: &str) -> bool {
    text.chars().count() <= TEXT_CHARS_MAX && !text.chars().any(char::is_control)
}

fn is_name(name: &str) -> bool {
    is_text(name) && !name.is_empty() && name.trim() == name && name.parse::<AccountId>().is_err()
}
