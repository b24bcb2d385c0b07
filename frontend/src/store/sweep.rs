//! Keeps the ledger bounded: entries older than [`KEEP_MS`] are added to one entry for each account that carries
//! their sums, a few with every group of writes.
//!
//! The sweep walks from account to account and takes each account's oldest entries. It does twice the work that the
//! group made for it, so it always catches up, and rests for an hour of the writes' own time after a walk that found
//! nothing. Its place is not kept: after a start the walk begins anew.

use super::ledger::KEEP_MS;
use super::row::Row;
use super::tables::{EntryRow, account_range, carried_id, entry_key, split_entry_key};
use super::txn::Txn;
use super::types::{EntryKind, UnixMs};
use super::{AccountId, StoreError};
use crate::credits::Step;
use ::redb::ReadableTable;
use std::ops::Bound;

/// Steps with a group, beside two for each entry that it added.
const STEPS_MIN: u64 = 16;

const REST_MS: UnixMs = 60 * 60 * 1000;

#[derive(Default)]
pub(super) struct Sweep {
    /// The account that was swept last.
    after: Option<AccountId>,
    /// Whether this walk has found anything.
    found: bool,
    rest_until: UnixMs,
}

impl Sweep {
    /// Takes a few steps. `txn` has the time of the latest entry that it added, which is time enough.
    pub fn go_on(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError> {
        let Some(horizon) = txn.latest.checked_sub(KEEP_MS) else { return Ok(()) };
        if txn.latest < self.rest_until {
            return Ok(());
        }
        let mut steps = STEPS_MIN + 2 * txn.entries_added;
        while steps > 0 {
            steps -= 1;
            let Some(account) = next_account(txn, self.after)? else {
                self.end_walk(txn.latest);
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
    let start = start.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut range = txn.accounts.range::<&[u8; 16]>((start, Bound::Unbounded))?;
    Ok(range.next().transpose()?.map(|(key, _)| AccountId::from_bytes(*key.value())))
}

/// Carries up to `limit` of an account's entries that are older than `horizon`; says how many.
fn sweep_account(
    txn: &mut Txn<'_>,
    account: AccountId,
    horizon: UnixMs,
    limit: u64,
) -> Result<u64, StoreError> {
    let carried_key = entry_key(account, carried_id());
    let mut old = Vec::new();
    let mut sum = Step::default();
    let mut at = 0;
    {
        let all = account_range(account);
        let mut range =
            txn.ledger.range::<&[u8; 32]>((Bound::Excluded(&carried_key), Bound::Included(all.end())))?;
        while (old.len() as u64) < limit
            && let Some(next) = range.next()
        {
            let (key, row) = next?;
            let entry = EntryRow::decode(row.value())?;
            // Ids are in order of the time at which they were made, which is what guards against their second use.
            if split_entry_key(key.value()).id.0.made_at() >= horizon {
                break;
            }
            sum.granted += entry.step.granted;
            sum.spent += entry.step.spent;
            sum.expired += entry.step.expired;
            at = entry.at.max(at);
            old.push(*key.value());
        }
    }
    if old.is_empty() {
        return Ok(0);
    }
    if let Some(row) = txn.ledger.get(&carried_key)? {
        let before = EntryRow::decode(row.value())?;
        sum.granted += before.step.granted;
        sum.spent += before.step.spent;
        sum.expired += before.step.expired;
        at = before.at.max(at);
    }
    for key in &old {
        txn.ledger.remove(key)?;
    }
    let carried = EntryRow { kind: EntryKind::Carried, at, step: sum, note: String::new() };
    txn.ledger.insert(&carried_key, carried.encode().as_slice())?;
    Ok(old.len() as u64)
}
