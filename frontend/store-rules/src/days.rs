//! The daily counts of accounts: they are written with the charge itself and kept for [`DAYS_KEPT`] days.

use crate::reason;
use crate::rows::{Rows, Walk};
use crate::tables::{DAYS, day_key, day_of};
use crate::txn::Txn;
use api::Reason;
use store::{AccountId, StoreError};
use store::{DAYS_KEPT, DayCounts, UnixMs, count_one};

const DAY_MS: UnixMs = 24 * 60 * 60 * 1000;

/// The object of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charged {
    /// A check of a single address.
    Single,
    /// Rows of a batch, with repeats, which are free.
    Rows,
}

/// The day of a time.
pub(crate) fn day(at: UnixMs) -> u32 {
    u32::try_from(at / DAY_MS).unwrap_or(u32::MAX)
}

/// The stored days, oldest first.
pub(crate) fn read(rows: &dyn Rows, account: AccountId, now: UnixMs) -> Result<Vec<DayCounts>, StoreError> {
    let range = day_key(account, (day(now) + 1).saturating_sub(DAYS_KEPT))..=day_key(account, u32::MAX);
    let mut found = Vec::new();
    DAYS.walk(rows, range, usize::MAX, |key, row| {
        found.push(DayCounts { day: day_of(&key), ..row });
        Walk::On
    })?;
    Ok(found)
}

impl Txn<'_> {
    /// Counts answers by their codes. Codes without a reason are not counted.
    pub(crate) fn count_day(
        &mut self,
        account: AccountId,
        charged: Charged,
        codes: &[u8],
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let reasons: Vec<Reason> = codes.iter().filter_map(|&code| reason::of_code(code)).collect();
        if reasons.is_empty() {
            return Ok(());
        }
        let key = day_key(account, day(now));
        let before = DAYS.get(self.rows(), &key)?;
        if before.is_none() {
            self.forget_days(account, now)?;
        }
        let mut counts = before.unwrap_or_default();
        match charged {
            Charged::Single => counts.singles += reasons.len() as u64,
            Charged::Rows => counts.rows += reasons.len() as u64,
        }
        for reason in reasons {
            count_one(&mut counts.reasons, reason);
        }
        DAYS.put(self.rows, &key, &counts)
    }

    /// Removes old days at the first charge of a day. An account has at most [`DAYS_KEPT`] rows.
    fn forget_days(&mut self, account: AccountId, now: UnixMs) -> Result<(), StoreError> {
        let (first, end) = (day_key(account, 0), day_key(account, (day(now) + 1).saturating_sub(DAYS_KEPT)));
        for key in DAYS.keys(self.rows(), first..end, usize::MAX)? {
            DAYS.remove(self.rows, &key)?;
        }
        Ok(())
    }
}
