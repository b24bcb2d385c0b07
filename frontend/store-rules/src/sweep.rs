//! The sweep, which limits the size of the ledger. Entries older than `KEEP_MS` are added to one carried entry for
//! each account, a few with every group of writes.
//!
//! The sweep visits one account after the other and takes the oldest entries of each. It does twice the work that the
//! group caused, so it always catches up. After a round without such entries it pauses for an hour of the writes' time.
//! Its position is not stored: after a start it begins with the first account.

use crate::ledger::KEEP_MS;
use crate::rows::Walk;
use crate::tables::{ACCOUNTS, EntryRow, LEDGER, account_range, carried_id, entry_key, split_entry_key};
use crate::txn::Txn;
use std::ops::Bound;
use store::credits::PeriodStep;
use store::{AccountId, StoreError};
use store::{EntryKind, UnixMs};

/// The steps with a group, in addition to two for each entry that it added.
const STEPS_MIN: u64 = 16;

const REST_MS: UnixMs = 60 * 60 * 1000;

/// The position of the sweep, which continues with every group.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// The account that was swept last.
    after: Option<AccountId>,
    /// Whether this round has found any entry.
    found: bool,
    rest_until: UnixMs,
}

impl Sweep {
    /// Takes a few steps. The time is the latest one of the transaction's entries.
    pub fn go_on(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError> {
        let Some(horizon) = txn.effects.latest.checked_sub(KEEP_MS) else { return Ok(()) };
        // A clock that was too far ahead for a while must not prolong the pause.
        let rest = self.rest_until.saturating_sub(txn.effects.latest);
        if rest > 0 && rest <= REST_MS {
            return Ok(());
        }
        let mut steps = STEPS_MIN + 2 * txn.effects.entries_added;
        while steps > 0 {
            steps -= 1;
            let Some(account) = next_account(txn, self.after)? else {
                self.end_walk(txn.effects.latest);
                return Ok(());
            };
            let swept = sweep_account(txn, account, horizon, steps)?;
            self.found |= swept > 0;
            steps -= swept;
            if steps > 0 {
                self.after = Some(account);
            }
        }
        Ok(())
    }

    fn end_walk(&mut self, now: UnixMs) {
        if !self.found {
            self.rest_until = now + REST_MS;
        }
        self.found = false;
        self.after = None;
    }
}

fn next_account(txn: &Txn<'_>, after: Option<AccountId>) -> Result<Option<AccountId>, StoreError> {
    let start = after.map(AccountId::to_bytes);
    let start = start.map_or(Bound::Unbounded, Bound::Excluded);
    let next = ACCOUNTS.keys(txn.rows(), (start, Bound::Unbounded), 1)?.pop();
    Ok(next.map(AccountId::from_bytes))
}

/// Carries up to `limit` of an account's entries that are older than `horizon`; returns their number.
pub(crate) fn sweep_account(
    txn: &mut Txn<'_>,
    account: AccountId,
    horizon: UnixMs,
    limit: u64,
) -> Result<u64, StoreError> {
    let old = old_entries(txn, account, horizon, limit)?;
    if old.is_empty() {
        return Ok(0);
    }
    // The lock of the account guards its ledger against the sweeps of other nodes.
    if !ACCOUNTS.has(txn.rows(), &account.to_bytes())? {
        return Ok(0);
    }
    let carried_key = entry_key(account, carried_id());
    let before = LEDGER.get(txn.rows(), &carried_key)?;
    let mut carried =
        EntryRow { kind: EntryKind::Carried, at: 0, step: PeriodStep::default(), note: String::new() };
    for entry in before.iter().chain(old.iter().map(|(_, entry)| entry)) {
        carried.at = carried.at.max(entry.at);
        carried.step.granted += entry.step.granted;
        carried.step.spent += entry.step.spent;
        carried.step.expired += entry.step.expired;
    }
    for (key, _) in &old {
        LEDGER.remove(txn.rows, key)?;
    }
    LEDGER.put(txn.rows, &carried_key, &carried)?;
    Ok(old.len() as u64)
}

/// Ids are in the order of their creation, which also prevents their second use.
fn old_entries(
    txn: &Txn<'_>,
    account: AccountId,
    horizon: UnixMs,
    limit: u64,
) -> Result<Vec<([u8; 32], EntryRow)>, StoreError> {
    let carried_key = entry_key(account, carried_id());
    let all = account_range(account);
    let range = (Bound::Excluded(carried_key), Bound::Included(*all.end()));
    let mut old = Vec::new();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    LEDGER.walk(txn.rows(), range, most, |key, row| {
        if split_entry_key(&key).id.0.made_at() >= horizon {
            return Walk::Stop;
        }
        old.push((key, row));
        Walk::On
    })?;
    Ok(old)
}
