//! The stored counts of refused recipients. They are read completely when the engine starts.

use super::row::Row;
use super::tables::{REFUSALS, RefusalsRow};
use super::txn::Txn;
use ::redb::{Database, ReadableDatabase, ReadableTable};
use engine::KeptRefusals;
use store::StoreError;

impl Txn<'_> {
    /// Replaces the counts with the same keys; counts without a step are removed.
    pub fn keep_refusals(&mut self, changed: &[KeptRefusals]) -> Result<(), StoreError> {
        let mut refusals = self.transaction.open_table(REFUSALS)?;
        for KeptRefusals { key, steps } in changed {
            if steps.is_empty() {
                refusals.remove(key)?;
            } else {
                refusals.insert(key, RefusalsRow(steps.clone()).encode().as_slice())?;
            }
        }
        Ok(())
    }
}

/// All stored counts.
pub(super) fn read_refusals(database: &Database) -> Result<Vec<KeptRefusals>, StoreError> {
    let mut kept = Vec::new();
    for next in database.begin_read()?.open_table(REFUSALS)?.iter()? {
        let (key, row) = next?;
        kept.push(KeptRefusals { key: key.value(), steps: RefusalsRow::decode(row.value())?.0 });
    }
    Ok(kept)
}
