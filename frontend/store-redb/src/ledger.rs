//! The ledger's writes: hold, settle, void, grant.

use super::days::Charged;
use super::results::SealedResult;
use super::row::Row;
use super::tables::{EntryRow, entry_key, split_entry_key};
use super::txn::{Opened, Txn};
use ::redb::{ReadableTable, ReadableTableMetadata};
use store::credits::{Balance, PeriodStep, Portions};
use store::{Account, AccountId, ChangeError, EntryId, HoldError, SettleError, StoreError};
use store::{CREDITS_MAX, EntryKind, Grant, HOLD_CREDITS_MAX, HoldRef, HoldRequest, UnixMs};

/// How long an entry is kept before it is added to its account's carried entry: this period, the one before it and
/// the one before that.
pub(super) const KEEP_MS: UnixMs = 93 * DAY_MS;

/// The oldest id that is taken. Well within [`KEEP_MS`], so that the ledger remembers any id that could come again.
pub(super) const ID_AGE_MS_MAX: UnixMs = 31 * DAY_MS;

const DAY_MS: UnixMs = 24 * 60 * 60 * 1000;

const _: () = assert!(ID_AGE_MS_MAX * 2 < KEEP_MS);

/// What becomes of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldEnd {
    Settle,
    Void,
}

impl<'t> Txn<'t> {
    pub fn hold(
        &mut self,
        request: HoldRequest,
        now: UnixMs,
    ) -> Result<Result<Balance, HoldError>, StoreError> {
        let HoldRequest { hold, credits } = request;
        let (account, portions) = match self.set_aside(hold, credits, now)? {
            Ok(set_aside) => set_aside,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.holds.insert(&entry_key(account.id, hold.id), portions.encode().as_slice())?;
        self.save(&account)?;
        Ok(Ok(account.row.subscription.balance))
    }

    /// Takes credits from an account's balance; neither the account nor a hold is written yet.
    pub fn set_aside(
        &mut self,
        hold: HoldRef,
        credits: u64,
        now: UnixMs,
    ) -> Result<Result<(Opened<'t>, Portions), HoldError>, StoreError> {
        if credits == 0 || credits > HOLD_CREDITS_MAX {
            return Ok(Err(HoldError::BadAmount));
        }
        if is_too_old(hold.id, now) {
            return Ok(Err(HoldError::TooOld));
        }
        let Some(mut account) = self.open_account(hold.account, now)? else {
            return Ok(Err(HoldError::UnknownAccount));
        };
        if self.is_used(hold.account, hold.id)? {
            return Ok(Err(HoldError::Exists));
        }
        let subscription = &mut account.row.subscription;
        let (status, available) = (subscription.status, subscription.balance.available());
        if !status.is_usable() {
            return Ok(Err(HoldError::Inactive { status, available }));
        }
        Ok(match subscription.hold(credits) {
            Some(portions) => Ok((account, portions)),
            None => Err(HoldError::Insufficient { available }),
        })
    }

    /// Settles a hold and writes the result that it was for.
    pub fn settle(
        &mut self,
        hold: HoldRef,
        result: Option<SealedResult>,
        now: UnixMs,
    ) -> Result<Result<Balance, SettleError>, StoreError> {
        let ended = self.end_hold(hold, HoldEnd::Settle, now)?;
        if let (Ok(_), Some(result)) = (&ended, result) {
            self.put_result(&result)?;
            self.count_day(hold.account, Charged::Single, &[result.code], now)?;
        }
        Ok(ended)
    }

    /// A hold, its settlement and the record of the result in one.
    pub fn charge_known(
        &mut self,
        hold: HoldRef,
        result: &SealedResult,
        now: UnixMs,
    ) -> Result<Result<Balance, HoldError>, StoreError> {
        if let Err(refusal) = self.hold(HoldRequest { hold, credits: 1 }, now)? {
            return Ok(Err(refusal));
        }
        let failed = |error| StoreError::Failed(format!("hold {}: {error}", hold.id));
        let balance = self.end_hold(hold, HoldEnd::Settle, now)?.map_err(failed)?;
        self.put_result(result)?;
        self.count_day(hold.account, Charged::Single, &[result.code], now)?;
        Ok(Ok(balance))
    }

    /// Spends one part of what was set aside and gives the other back, with one entry of the ledger.
    pub fn end_portions(
        &mut self,
        hold: HoldRef,
        spent: Portions,
        back: Portions,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let failed = || StoreError::Failed(format!("hold {} is of no account", hold.id));
        let mut account = self.open_account(hold.account, now)?.ok_or_else(failed)?;
        let subscription = &mut account.row.subscription;
        let settled = subscription.settle(spent);
        let voided = subscription.void(back);
        let kind = if spent.credits() > 0 { EntryKind::Settled } else { EntryKind::Voided };
        let step = PeriodStep { expired: voided.expired, ..settled };
        self.append(hold.account, hold.id, &EntryRow { kind, at: now, step, note: String::new() })?;
        self.save(&account)
    }

    pub fn end_hold(
        &mut self,
        hold: HoldRef,
        end: HoldEnd,
        now: UnixMs,
    ) -> Result<Result<Balance, SettleError>, StoreError> {
        let Some(mut account) = self.open_account(hold.account, now)? else {
            return Ok(Err(SettleError::UnknownAccount));
        };
        let key = entry_key(hold.account, hold.id);
        let portions = self.holds.remove(&key)?.map(|row| Portions::decode(row.value())).transpose()?;
        let Some(portions) = portions else { return Ok(Err(self.why_no_hold(&key)?)) };
        let subscription = &mut account.row.subscription;
        let (kind, step) = match end {
            HoldEnd::Settle => (EntryKind::Settled, subscription.settle(portions)),
            HoldEnd::Void => (EntryKind::Voided, subscription.void(portions)),
        };
        self.append(hold.account, hold.id, &EntryRow { kind, at: now, step, note: String::new() })?;
        self.save(&account)?;
        Ok(Ok(account.row.subscription.balance))
    }

    pub fn grant(&mut self, grant: Grant, now: UnixMs) -> Result<Result<Account, ChangeError>, StoreError> {
        if grant.credits == 0 || grant.credits > CREDITS_MAX {
            return Ok(Err(ChangeError::BadAmount));
        }
        if !super::accounts::is_text(&grant.note) {
            return Ok(Err(ChangeError::BadText));
        }
        if is_too_old(grant.id, now) {
            return Ok(Err(ChangeError::TooOld));
        }
        let Some(mut account) = self.open_account(grant.account, now)? else {
            return Ok(Err(ChangeError::UnknownAccount));
        };
        if self.is_used(grant.account, grant.id)? {
            return Ok(Err(ChangeError::Exists));
        }
        if !account.row.subscription.grant(grant.credits) {
            return Ok(Err(ChangeError::BadAmount));
        }
        let step = PeriodStep { granted: grant.credits, spent: 0, expired: 0 };
        let entry = EntryRow { kind: EntryKind::Pack, at: now, step, note: grant.note };
        self.append(grant.account, grant.id, &entry)?;
        self.save(&account)?;
        Ok(Ok(account.view()))
    }

    /// Voids every hold without an answer: whoever was to answer is gone.
    pub fn void_open_holds(&mut self, now: UnixMs) -> Result<u64, StoreError> {
        let mut voided = 0;
        loop {
            let first = self.holds.first()?.map(|(key, _)| split_entry_key(key.value()));
            let Some(hold) = first else { return Ok(voided) };
            // Only a damaged file has a hold that cannot be voided; going on would never end.
            if let Err(error) = self.end_hold(hold, HoldEnd::Void, now)? {
                return Err(StoreError::Failed(format!("hold {}: {error}", hold.id)));
            }
            voided += 1;
        }
    }

    /// Whether a hold or an entry has this id.
    fn is_used(&self, account: AccountId, id: EntryId) -> Result<bool, StoreError> {
        let key = entry_key(account, id);
        Ok(self.ledger.get(&key)?.is_some() || (!self.holds.is_empty()? && self.holds.get(&key)?.is_some()))
    }

    fn why_no_hold(&self, key: &[u8; 32]) -> Result<SettleError, StoreError> {
        let kind = match self.ledger.get(key)? {
            Some(row) => EntryRow::decode(row.value())?.kind,
            None => return Ok(SettleError::UnknownHold),
        };
        Ok(match kind {
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
