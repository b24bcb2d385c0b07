//! Writes to the ledger: hold, settle, void, grant.

use crate::days::Charged;
use crate::results::SealedResult;
use crate::rows::{Table, Want};
use crate::tables::{
    EntryRow, HOLDS, HoldRow, LEDGER, UNDER_WAY, UnderWayRow, entry_key, result_key, split_entry_key,
};
use crate::txn::{Opened, Txn};
use crate::write_error::{WriteError, refuse};
use store::credits::{Balance, PeriodStep, Portions};
use store::{Account, AccountId, ChangeError, EntryId, HoldError, SettleError, StoreError};
use store::{AddressHash, CREDITS_MAX, EntryKind, Grant, HOLD_CREDITS_MAX, HoldRef, HoldRequest, UnixMs};

/// How long an entry is kept before its account's carried entry absorbs it: for this period and the two before it.
pub(crate) const KEEP_MS: UnixMs = 93 * DAY_MS;

/// The oldest id that is accepted. It is well within [`KEEP_MS`], so the ledger has any id that could be used again.
pub(crate) const ID_AGE_MS_MAX: UnixMs = 31 * DAY_MS;

const DAY_MS: UnixMs = 24 * 60 * 60 * 1000;

const _: () = assert!(ID_AGE_MS_MAX * 2 < KEEP_MS);

/// The longest life of a hold, after which its check has certainly ended. Several nodes then void it, whoever lives.
pub const HOLD_MS_MAX: UnixMs = 180 * 1000;

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    Settle,
    Void,
}

impl<'t> Txn<'t> {
    /// Takes credits from the balance and writes a hold for them.
    pub(crate) fn hold(
        &mut self,
        request: HoldRequest,
        now: UnixMs,
    ) -> Result<Balance, WriteError<HoldError>> {
        self.hold_for(request, None, now)
    }

    /// Holds the credit of a check; `None` if another node checks the address for the account.
    pub(crate) fn hold_check(
        &mut self,
        hold: HoldRef,
        address: AddressHash,
        now: UnixMs,
    ) -> Result<Option<Balance>, WriteError<HoldError>> {
        let request = HoldRequest { hold, credits: 1 };
        if !self.shared.has_nodes {
            return self.hold(request, now).map(Some);
        }
        let key = result_key(&address, hold.account);
        let other = UNDER_WAY.get(self.rows(), &key)?;
        if other.is_some_and(|row| now < row.hold.0.made_at().saturating_add(HOLD_MS_MAX)) {
            return Ok(None);
        }
        let balance = self.hold_for(request, Some(address), now)?;
        UNDER_WAY.put(self.rows, &key, &UnderWayRow { hold: hold.id })?;
        Ok(Some(balance))
    }

    fn hold_for(
        &mut self,
        request: HoldRequest,
        address: Option<AddressHash>,
        now: UnixMs,
    ) -> Result<Balance, WriteError<HoldError>> {
        let HoldRequest { hold, credits } = request;
        let (account, portions) = self.set_aside(hold, credits, now)?;
        HOLDS.put(self.rows, &entry_key(account.id, hold.id), &HoldRow { portions, address })?;
        self.save(&account)?;
        Ok(account.row.subscription.balance)
    }

    /// Takes credits from an account's balance, without writing the account or a hold.
    pub(crate) fn set_aside(
        &mut self,
        hold: HoldRef,
        credits: u64,
        now: UnixMs,
    ) -> Result<(Opened<'t>, Portions), WriteError<HoldError>> {
        if credits == 0 || credits > HOLD_CREDITS_MAX {
            return refuse(HoldError::BadAmount);
        }
        if is_too_old(hold.id, now) {
            return refuse(HoldError::TooOld);
        }
        let mut account = self.known_account(hold.account, now, HoldError::UnknownAccount)?;
        if self.is_used(hold.account, hold.id)? {
            return refuse(HoldError::Exists);
        }
        let subscription = &mut account.row.subscription;
        let (status, available) = (subscription.status, subscription.balance.available());
        if !status.is_usable() {
            return refuse(HoldError::Inactive { status, available });
        }
        match subscription.hold(credits) {
            Some(portions) => Ok((account, portions)),
            None => refuse(HoldError::Insufficient { available }),
        }
    }

    /// Settles a hold and writes its result.
    pub(crate) fn settle(
        &mut self,
        hold: HoldRef,
        result: Option<&SealedResult>,
        now: UnixMs,
    ) -> Result<Balance, WriteError<SettleError>> {
        let balance = self.end_hold(hold, HoldEnd::Settle, now)?;
        if let Some(result) = result {
            self.put_result(result)?;
            self.count_day(hold.account, Charged::Single, &[result.code], now)?;
        }
        Ok(balance)
    }

    /// Holds and settles a credit, and writes the result, in one step.
    pub(crate) fn charge_known(
        &mut self,
        hold: HoldRef,
        result: &SealedResult,
        now: UnixMs,
    ) -> Result<Balance, WriteError<HoldError>> {
        self.hold(HoldRequest { hold, credits: 1 }, now)?;
        let balance = self.end_known_hold(hold, HoldEnd::Settle, now)?;
        self.put_result(result)?;
        self.count_day(hold.account, Charged::Single, &[result.code], now)?;
        Ok(balance)
    }

    /// Spends one part of the held credits and returns the other, with one entry in the ledger.
    pub(crate) fn end_portions(
        &mut self,
        hold: HoldRef,
        (spent, back): (Portions, Portions),
        note: String,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let failed = || StoreError::Failed(format!("hold {} is of no account", hold.id));
        let mut account = self.open_account(hold.account, now)?.ok_or_else(failed)?;
        let subscription = &mut account.row.subscription;
        let settled = subscription.settle(spent);
        let voided = subscription.void(back);
        let kind = if spent.credits() > 0 { EntryKind::Settled } else { EntryKind::Voided };
        let step = PeriodStep { expired: voided.expired, ..settled };
        self.append(hold.account, hold.id, &EntryRow { kind, at: now, step, note })?;
        self.save(&account)
    }

    /// Settles or voids a hold with one entry in the ledger.
    pub(crate) fn end_hold(
        &mut self,
        hold: HoldRef,
        end: HoldEnd,
        now: UnixMs,
    ) -> Result<Balance, WriteError<SettleError>> {
        // A deletion waits for the end of the holds.
        let account = self.open_account(hold.account, now)?;
        let mut account = account.ok_or(WriteError::Refused(SettleError::UnknownAccount))?;
        let key = entry_key(hold.account, hold.id);
        let Some(HoldRow { portions, address }) = HOLDS.get(self.rows(), &key)? else {
            return refuse(self.why_no_hold(&key)?);
        };
        HOLDS.remove(self.rows, &key)?;
        if let Some(address) = address {
            self.no_longer_under_way(hold, address)?;
            if end == HoldEnd::Void {
                self.give_back_fair_use(hold.account)?;
            }
        }
        let subscription = &mut account.row.subscription;
        let (kind, step) = match end {
            HoldEnd::Settle => (EntryKind::Settled, subscription.settle(portions)),
            HoldEnd::Void => (EntryKind::Voided, subscription.void(portions)),
        };
        self.append(hold.account, hold.id, &EntryRow { kind, at: now, step, note: String::new() })?;
        self.save(&account)?;
        Ok(account.row.subscription.balance)
    }

    /// Removes the note of a check, unless a later check of the address has replaced it.
    fn no_longer_under_way(&mut self, hold: HoldRef, address: AddressHash) -> Result<(), StoreError> {
        let key = result_key(&address, hold.account);
        match UNDER_WAY.get(self.rows(), &key)? {
            Some(row) if row.hold == hold.id => UNDER_WAY.remove(self.rows, &key),
            _ => Ok(()),
        }
    }

    /// Voids these holds if they still exist; returns how many did. The processes that would have answered have ended.
    pub fn void_holds(&mut self, holds: &[HoldRef], now: UnixMs) -> Result<u64, StoreError> {
        let mut voided = 0;
        let mut wants = holds.iter().flat_map(|hold| {
            let key = entry_key(hold.account, hold.id);
            [
                Want::row(Table::Accounts, &hold.account.to_bytes()),
                Want::row(Table::Holds, &key),
                Want::row(Table::Ledger, &key),
            ]
        });
        self.rows().expect(&mut wants);
        for &hold in holds {
            if HOLDS.has(self.rows(), &entry_key(hold.account, hold.id))? {
                self.end_known_hold(hold, HoldEnd::Void, now)?;
                voided += 1;
            }
        }
        Ok(voided)
    }

    /// Ends a hold that is in the table. Only a damaged file refuses this, so a refusal is a failure.
    fn end_known_hold(&mut self, hold: HoldRef, end: HoldEnd, now: UnixMs) -> Result<Balance, StoreError> {
        self.end_hold(hold, end, now).map_err(|error| match error {
            WriteError::Refused(refusal) => StoreError::Failed(format!("hold {}: {refusal}", hold.id)),
            WriteError::Failed(error) => error,
        })
    }

    /// Adds pack credits with an entry in the ledger, once for each id.
    pub(crate) fn grant(&mut self, grant: &Grant, now: UnixMs) -> Result<Account, WriteError<ChangeError>> {
        if grant.credits == 0 || grant.credits > CREDITS_MAX {
            return refuse(ChangeError::BadAmount);
        }
        if !crate::accounts::is_text(&grant.note) {
            return refuse(ChangeError::BadText);
        }
        if is_too_old(grant.id, now) {
            return refuse(ChangeError::TooOld);
        }
        let mut account = self.known_account(grant.account, now, ChangeError::UnknownAccount)?;
        if self.is_used(grant.account, grant.id)? {
            return refuse(ChangeError::Exists);
        }
        if !account.row.subscription.grant(grant.credits) {
            return refuse(ChangeError::BadAmount);
        }
        let step = PeriodStep { granted: grant.credits, spent: 0, expired: 0 };
        let entry = EntryRow { kind: EntryKind::Pack, at: now, step, note: grant.note.clone() };
        self.append(grant.account, grant.id, &entry)?;
        self.save(&account)?;
        Ok(account.view())
    }

    /// Voids every hold without an answer: the process that would have answered has ended.
    pub fn void_open_holds(&mut self, now: UnixMs) -> Result<u64, StoreError> {
        let mut voided = 0;
        loop {
            let first = HOLDS.keys(self.rows(), .., 1)?.pop();
            let Some(hold) = first.map(|key| split_entry_key(&key)) else { return Ok(voided) };
            // Only a damaged file has a hold that cannot be voided; continuing would never end.
            self.end_known_hold(hold, HoldEnd::Void, now)?;
            voided += 1;
        }
    }

    /// Whether a hold or an entry has this id.
    fn is_used(&self, account: AccountId, id: EntryId) -> Result<bool, StoreError> {
        let key = entry_key(account, id);
        Ok(LEDGER.has(self.rows(), &key)? || HOLDS.has(self.rows(), &key)?)
    }

    fn why_no_hold(&self, key: &[u8; 32]) -> Result<SettleError, StoreError> {
        let Some(entry) = LEDGER.get(self.rows(), key)? else { return Ok(SettleError::UnknownHold) };
        Ok(match entry.kind {
            EntryKind::Settled => SettleError::AlreadySettled,
            EntryKind::Voided => SettleError::AlreadyVoided,
            EntryKind::Period | EntryKind::PlanChange | EntryKind::Pack | EntryKind::Carried => {
                SettleError::UnknownHold
            }
        })
    }
}

fn is_too_old(id: EntryId, now: UnixMs) -> bool {
    id.0.made_at().saturating_add(ID_AGE_MS_MAX) < now
}
