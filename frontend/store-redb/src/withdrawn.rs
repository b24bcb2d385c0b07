//! Withdrawn evidence: verdicts that depend on it are not used again.
//!
//! A withdrawal applies to verdicts that were found at its time or earlier. Its note is kept until no earlier result
//! remains. There are at most [`WITHDRAWN_MAX`] notes. Beyond that the oldest note is removed, and every verdict with
//! any evidence that was found until its time counts as withdrawn. So too many withdrawals cost additional checks, and
//! never make a withdrawn verdict valid again.

use super::tables::{
    Expiring, META, META_WITHDRAWN, WITHDRAWN, evidence_of_row, expiring_row, withdrawn_row, withdrawn_until,
};
use super::txn::Txn;
use ::redb::{ReadTransaction, ReadableTable, ReadableTableMetadata};
use store::StoreError;
use store::UnixMs;

/// The largest number of notes of withdrawals.
pub(super) const WITHDRAWN_MAX: u64 = 100_000;

/// Whether a verdict with this evidence and time is withdrawn.
pub(super) fn is_withdrawn(
    transaction: &ReadTransaction,
    evidence: u64,
    verdict_at: UnixMs,
) -> Result<bool, StoreError> {
    let noted = transaction.open_table(WITHDRAWN)?.get(evidence)?.map(|at| at.value());
    let all = transaction.open_table(META)?.get(META_WITHDRAWN)?.map(|at| at.value());
    Ok(noted.max(all).is_some_and(|until| verdict_at <= until))
}

impl Txn<'_> {
    /// Withdraws all evidence in the list at the time `now`.
    pub fn withdraw(&mut self, evidence: &[u64], now: UnixMs) -> Result<(), StoreError> {
        self.withdraw_within(evidence, now, WITHDRAWN_MAX)
    }

    pub(super) fn withdraw_within(
        &mut self,
        evidence: &[u64],
        now: UnixMs,
        most: u64,
    ) -> Result<(), StoreError> {
        let mut withdrawn = self.transaction.open_table(WITHDRAWN)?;
        for &one in evidence {
            let before = withdrawn.get(one)?.map(|at| at.value());
            // A clock that goes back cancels no withdrawal.
            let at = before.map_or(now, |before| before.max(now));
            let row = withdrawn_row(one);
            if let Some(before) = before {
                self.unexpire(Expiring::Withdrawn, withdrawn_until(before), &row)?;
            }
            withdrawn.insert(one, at)?;
            self.expire_at(Expiring::Withdrawn, withdrawn_until(at), &row, now)?;
        }
        while withdrawn.len()? > most {
            let Some(oldest) = self.expired(Expiring::Withdrawn, UnixMs::MAX, 1)?.pop() else { break };
            self.expiries.remove(&oldest)?;
            let removed = withdrawn.remove(evidence_of_row(&expiring_row(&oldest)))?;
            let until = removed.map_or(0, |at| at.value());
            let mut meta = self.transaction.open_table(META)?;
            let all = meta.get(META_WITHDRAWN)?.map_or(0, |at| at.value());
            meta.insert(META_WITHDRAWN, all.max(until))?;
        }
        Ok(())
    }

    /// Removes the note of a withdrawal.
    pub fn forget_withdrawal(&mut self, row: &[u8; 32]) -> Result<(), StoreError> {
        self.transaction.open_table(WITHDRAWN)?.remove(evidence_of_row(row))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_error::WriteError;
    use super::super::writer::Class;
    use super::super::*;
    use super::*;
    use crate::tests::index_check::check_index;
    use ::redb::ReadableDatabase;
    use store::PlanTable;

    #[test]
    fn too_many_withdrawals_withdraw_more_and_never_less() {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::default();
        let store = RedbStore::open(folder.path(), PlanTable::standard(), options, 1).unwrap().0;
        for evidence in 0..5u64 {
            let work = move |txn: &mut Txn<'_>| {
                Ok::<_, WriteError<StoreError>>(txn.withdraw_within(&[evidence], 100 + evidence, 3)?)
            };
            store.write(Class::New, work).wait().unwrap();
            check_index(&store);
        }
        let read = store.database().begin_read().unwrap();
        assert_eq!(read.open_table(WITHDRAWN).unwrap().len().unwrap(), 3);
        for (evidence, verdict_at, withdrawn) in [
            // The notes of 0 and 1 are removed: every verdict found until the later of them is withdrawn.
            (0, 100, true),
            (0, 101, true),
            (0, 102, false),
            (77, 101, true),
            (77, 102, false),
            (3, 103, true),
            (3, 104, false),
            (4, 104, true),
        ] {
            let found = is_withdrawn(&read, evidence, verdict_at);
            assert_eq!(found, Ok(withdrawn), "{evidence} {verdict_at}");
        }
    }
}
