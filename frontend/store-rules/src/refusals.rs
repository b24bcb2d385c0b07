//! The stored counts of refused recipients. They are read completely when the engine starts.

use crate::rows::Rows;
use crate::tables::{REFUSALS, RefusalsRow};
use crate::txn::Txn;
use engine::KeptRefusals;
use engine::proto::refusals::{are_over, step_at};
use std::time::Duration;
use store::{StoreError, UnixMs};

impl Txn<'_> {
    /// Replaces the counts with the same keys; counts without a step are removed.
    pub(crate) fn keep_refusals(&mut self, changed: &[KeptRefusals]) -> Result<(), StoreError> {
        for KeptRefusals { key, steps } in changed {
            let key = key.to_le_bytes();
            if steps.is_empty() {
                REFUSALS.remove(self.rows, &key)?;
            } else {
                REFUSALS.put(self.rows, &key, &RefusalsRow(steps.clone()))?;
            }
        }
        Ok(())
    }

    /// Removes counts of which no step counts any more.
    pub(crate) fn forget_refusals(&mut self, keys: &[u64], now: UnixMs) -> Result<(), StoreError> {
        let (step, _) = step_at(Duration::from_millis(now));
        for key in keys.iter().map(|key| key.to_le_bytes()) {
            let Some(row) = REFUSALS.get(self.rows, &key)? else { continue };
            if are_over(&row.0, step) {
                REFUSALS.remove(self.rows, &key)?;
            }
        }
        Ok(())
    }
}

/// All stored counts.
pub(crate) fn read_refusals(rows: &dyn Rows) -> Result<Vec<KeptRefusals>, StoreError> {
    let mut kept = Vec::new();
    REFUSALS.walk_all(rows, |key, row| {
        kept.push(KeptRefusals { key: u64::from_le_bytes(key), steps: row.0 });
    })?;
    Ok(kept)
}
