//! Withdrawn evidence: verdicts that depend on it are not used again.
//!
//! A withdrawal applies to verdicts that were found at its time or earlier. Its note is kept until no earlier result
//! remains. There are at most `WITHDRAWN_MAX` notes. Beyond that the oldest note is removed, and every verdict with
//! any evidence that was found until its time counts as withdrawn. So too many withdrawals cost additional checks, and
//! never make a withdrawn verdict valid again.

use crate::row::Fixed;
use crate::rows::Rows;
use crate::tables::{
    EXPIRIES, Expiring, META, META_WITHDRAWN, WITHDRAWN, evidence_of_row, expiring_row, withdrawn_row,
    withdrawn_until,
};
use crate::txn::Txn;
use store::StoreError;
use store::UnixMs;

/// The largest number of notes of withdrawals.
pub(crate) const WITHDRAWN_MAX: u64 = 100_000;

/// Whether a verdict with this evidence and time is withdrawn.
pub fn is_withdrawn(rows: &dyn Rows, evidence: u64, verdict_at: UnixMs) -> Result<bool, StoreError> {
    let noted = WITHDRAWN.peek(rows, &evidence.to_le_bytes())?;
    let all = META.peek(rows, META_WITHDRAWN)?;
    Ok(noted.into_iter().chain(all).any(|until| verdict_at <= until.0))
}

impl Txn<'_> {
    /// Withdraws all evidence in the list at the time `now`.
    pub(crate) fn withdraw(&mut self, evidence: &[u64], now: UnixMs) -> Result<(), StoreError> {
        self.withdraw_within(evidence, now, WITHDRAWN_MAX)
    }

    /// `Txn::withdraw` with a limit on the number of notes.
    pub fn withdraw_within(&mut self, evidence: &[u64], now: UnixMs, most: u64) -> Result<(), StoreError> {
        let mut count = WITHDRAWN.count(self.rows())?;
        for &one in evidence {
            let key = one.to_le_bytes();
            let before = WITHDRAWN.get(self.rows(), &key)?.map(|at| at.0);
            // A clock that goes back cancels no withdrawal.
            let at = before.map_or(now, |before| before.max(now));
            let row = withdrawn_row(one);
            match before {
                Some(before) => self.unexpire(Expiring::Withdrawn, withdrawn_until(before), &row)?,
                None => count += 1,
            }
            WITHDRAWN.put(self.rows, &key, &Fixed(at))?;
            self.expire_at(Expiring::Withdrawn, withdrawn_until(at), &row, now)?;
        }
        while count > most {
            let Some(oldest) = self.expired(Expiring::Withdrawn, UnixMs::MAX, 1)?.pop() else { break };
            EXPIRIES.remove(self.rows, &oldest)?;
            let key = evidence_of_row(&expiring_row(&oldest)).to_le_bytes();
            let Some(Fixed(until)) = WITHDRAWN.get(self.rows(), &key)? else { continue };
            WITHDRAWN.remove(self.rows, &key)?;
            count -= 1;
            let all = META.get(self.rows(), META_WITHDRAWN)?.map_or(0, |at| at.0);
            META.put(self.rows, META_WITHDRAWN, &Fixed(all.max(until)))?;
        }
        Ok(())
    }

    /// Removes the note of a withdrawal.
    pub(crate) fn forget_withdrawal(&mut self, row: &[u8; 32]) -> Result<(), StoreError> {
        WITHDRAWN.remove(self.rows, &evidence_of_row(row).to_le_bytes())
    }
}
