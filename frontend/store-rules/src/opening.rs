//! What a database reads when it opens: the index of keys, the plans of accounts, and the fingerprint of its keys.

use crate::index::KeyChange;
use crate::limits::read_terms;
use crate::rows::Rows;
use crate::tables::{ACCOUNTS, KEYS, META, META_KEYS, USERS};
use std::collections::BTreeMap;
use store::{KeyId, OpenError, PlanTable, StoreError};

/// The content of the index of keys.
///
/// # Errors
///
/// A row cannot be read.
pub fn read_index(rows: &dyn Rows) -> Result<Vec<KeyChange>, StoreError> {
    let mut found = Vec::new();
    KEYS.walk_all(rows, |id, row| found.push(KeyChange::Added(KeyId::from_bytes(id), row)))?;
    found.extend(read_terms(rows)?);
    Ok(found)
}

/// Checks that every account's plan is in the table: otherwise its period could not be updated.
///
/// # Errors
///
/// [`OpenError::PlanMissing`], or a row cannot be read.
pub fn check_plans(rows: &dyn Rows, plans: &PlanTable) -> Result<(), OpenError> {
    let mut missing: BTreeMap<String, u64> = BTreeMap::new();
    ACCOUNTS.walk_all(rows, |_, account| {
        if plans.find(&account.plan).is_none() {
            *missing.entry(account.plan).or_default() += 1;
        }
    })?;
    match missing.pop_first() {
        None => Ok(()),
        Some((plan, accounts)) => Err(OpenError::PlanMissing { plan, accounts }),
    }
}

/// What a database shows of the keys that it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTraces {
    /// The fingerprint of the keys.
    pub fingerprint: Option<u64>,
    /// Whether there are accounts.
    pub has_accounts: bool,
    /// Whether there are users, whose email addresses are sealed.
    pub has_users: bool,
}

impl KeyTraces {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// A row cannot be read.
    pub fn read(rows: &dyn Rows) -> Result<KeyTraces, StoreError> {
        Ok(KeyTraces {
            fingerprint: META.get(rows, META_KEYS)?.map(|fingerprint| fingerprint.0),
            has_accounts: !ACCOUNTS.is_empty(rows)?,
            has_users: !USERS.is_empty(rows)?,
        })
    }
}
