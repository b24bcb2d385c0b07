//! The audit: it adds up the entries and open holds of the ledger, and compares the sums with the accounts.

use crate::deletion::audit_deleted;
use crate::rows::{Rows, Walk};
use crate::tables::{ACCOUNTS, AccountRow, BATCHES, HOLDS, LEDGER, account_range};
use std::ops::Bound;
use store::Audit;
use store::credits::{PeriodStep, Portions};
use store::{AccountId, StoreError};

/// Audits one account, or all of them.
pub(crate) fn audit(rows: &dyn Rows, only: Option<AccountId>) -> Result<Audit, StoreError> {
    let (mut after, last) = match only {
        Some(id) => (Bound::Included(id.to_bytes()), id.to_bytes()),
        None => (Bound::Unbounded, [0xff; 16]),
    };
    let mut audit = Audit::default();
    let mut placed = 0;
    // One account after the other, since a walk must not use other tables.
    while let Some((key, row)) = next_account(rows, (after, Bound::Included(last)))? {
        after = Bound::Excluded(key);
        let id = AccountId::from_bytes(key);
        let sums = Sums::of(id, &row, rows)?;
        audit.accounts += 1;
        audit.entries += sums.entries;
        placed += sums.placed;
        audit.open_holds += sums.holds;
        audit.faults.extend(sums.compare(&row).map(|fault| format!("{id}: {fault}")));
    }
    let entries = LEDGER.count(rows)?;
    if only.is_none() && entries != audit.entries {
        audit.faults.push(format!("{} ledger entries belong to no account", entries.abs_diff(audit.entries)));
    }
    let all_placed = HOLDS.count(rows)?;
    if only.is_none() && all_placed != placed {
        audit.faults.push(format!("{} holds belong to no account", all_placed.abs_diff(placed)));
    }
    if only.is_none() {
        audit.faults.extend(audit_deleted(rows)?);
    }
    Ok(audit)
}

fn next_account(
    rows: &dyn Rows,
    range: (Bound<[u8; 16]>, Bound<[u8; 16]>),
) -> Result<Option<([u8; 16], AccountRow)>, StoreError> {
    let mut found = None;
    ACCOUNTS.walk(rows, range, 1, |key, row| {
        found = Some((key, row));
        Walk::Stop
    })?;
    Ok(found)
}

/// The sums of an account's entries and holds. They have 128 bits, so that no damaged row overflows them.
#[derive(Default)]
struct Sums {
    entries: u64,
    /// Open holds, including those of batches.
    holds: u64,
    /// Holds in the table of holds.
    placed: u64,
    granted: u128,
    spent: u128,
    expired: u128,
    held: u128,
    /// Held plan credits of the account's current period.
    plan_held: u128,
}

impl Sums {
    fn of(id: AccountId, account: &AccountRow, rows: &dyn Rows) -> Result<Sums, StoreError> {
        let range = account_range(id);
        let mut sums = Sums::default();
        LEDGER.walk(rows, range.clone(), usize::MAX, |_, row| {
            let PeriodStep { granted, spent, expired } = row.step;
            sums.entries += 1;
            sums.granted += u128::from(granted);
            sums.spent += u128::from(spent);
            sums.expired += u128::from(expired);
            Walk::On
        })?;
        HOLDS.walk(rows, range.clone(), usize::MAX, |_, row| {
            sums.placed += 1;
            sums.hold(row.portions, account);
            Walk::On
        })?;
        BATCHES.walk(rows, range, usize::MAX, |_, batch| {
            if batch.is_open() && batch.held.credits() > 0 {
                sums.hold(batch.held, account);
            }
            Walk::On
        })?;
        Ok(sums)
    }

    fn hold(&mut self, held: Portions, account: &AccountRow) {
        let Portions { plan, pack, period } = held;
        self.holds += 1;
        self.held += u128::from(plan) + u128::from(pack);
        if period == account.subscription.period {
            self.plan_held += u128::from(plan);
        }
    }

    fn compare(self, account: &AccountRow) -> impl Iterator<Item = String> {
        let balance = account.subscription.balance;
        let available = u128::from(balance.plan_left) + u128::from(balance.pack_left);
        let whole = available + self.held + self.spent + self.expired;
        let pairs = [
            ("granted", self.granted, u128::from(balance.granted)),
            ("spent", self.spent, u128::from(balance.spent)),
            ("expired", self.expired, u128::from(balance.expired)),
            ("held", self.held, u128::from(balance.held)),
            ("held of this period's plan credits", self.plan_held, u128::from(balance.plan_held)),
            ("available + held + spent + expired compared with granted", whole, self.granted),
        ];
        let faults = pairs.into_iter().filter(|(_, entries, account)| entries != account);
        faults.map(|(what, entries, account)| {
            format!("{what}: {entries} by the ledger, {account} by the account")
        })
    }
}
