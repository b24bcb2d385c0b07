//! The audit: it adds up the entries and open holds of the ledger, and compares the sums with the accounts.

use super::row::Row;
use super::tables::{AccountRow, BatchRow, EntryRow, account_range};
use ::redb::ReadableTable;
use store::Audit;
use store::credits::{PeriodStep, Portions};
use store::{AccountId, StoreError};

/// Audits one account, or all of them.
pub(super) fn audit(
    accounts: &impl ReadableTable<&'static [u8; 16], &'static [u8]>,
    holds: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    ledger: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    batches: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    only: Option<AccountId>,
) -> Result<Audit, StoreError> {
    let (first, last) = match only {
        Some(id) => (id.to_bytes(), id.to_bytes()),
        None => ([0; 16], [0xff; 16]),
    };
    let mut audit = Audit::default();
    let mut placed = 0;
    for next in accounts.range::<&[u8; 16]>(&first..=&last)? {
        let (id, row) = next?;
        let id = AccountId::from_bytes(*id.value());
        let row = AccountRow::decode(row.value())?;
        let sums = Sums::of(id, &row, holds, ledger, batches)?;
        audit.accounts += 1;
        audit.entries += sums.entries;
        placed += sums.placed;
        audit.open_holds += sums.holds;
        audit.faults.extend(sums.compare(&row).map(|fault| format!("{id}: {fault}")));
    }
    let entries = ledger.len()?;
    if only.is_none() && entries != audit.entries {
        audit.faults.push(format!("{} ledger entries belong to no account", entries.abs_diff(audit.entries)));
    }
    let all_placed = holds.len()?;
    if only.is_none() && all_placed != placed {
        audit.faults.push(format!("{} holds belong to no account", all_placed.abs_diff(placed)));
    }
    Ok(audit)
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
    fn of(
        id: AccountId,
        account: &AccountRow,
        holds: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
        ledger: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
        batches: &impl ReadableTable<&'static [u8; 32], &'static [u8]>,
    ) -> Result<Sums, StoreError> {
        let range = account_range(id);
        let mut sums = Sums::default();
        for next in ledger.range::<&[u8; 32]>(range.start()..=range.end())? {
            let PeriodStep { granted, spent, expired } = EntryRow::decode(next?.1.value())?.step;
            sums.entries += 1;
            sums.granted += u128::from(granted);
            sums.spent += u128::from(spent);
            sums.expired += u128::from(expired);
        }
        for next in holds.range::<&[u8; 32]>(range.start()..=range.end())? {
            sums.placed += 1;
            sums.hold(Portions::decode(next?.1.value())?, account);
        }
        for next in batches.range::<&[u8; 32]>(range.start()..=range.end())? {
            let batch = BatchRow::decode(next?.1.value())?;
            if batch.is_open() && batch.held.credits() > 0 {
                sums.hold(batch.held, account);
            }
        }
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
