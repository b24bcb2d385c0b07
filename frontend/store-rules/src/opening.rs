//! What a database reads when it opens: the index of keys, the plans of accounts, and the fingerprint of its keys.

use crate::index::KeyChange;
use crate::limits::read_terms;
use crate::rows::Rows;
use crate::tables::{ACCOUNTS, KEYS, META, META_KEYS, USERS, WEBHOOKS};
use std::collections::BTreeMap;
use store::{KeyId, OpenError, PlanTable, StoreError};
use vault::Vault;

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
/// [`OpenError::PlansMissing`], or a row cannot be read.
pub fn check_plans(rows: &dyn Rows, plans: &PlanTable) -> Result<(), OpenError> {
    let mut missing: BTreeMap<String, u64> = BTreeMap::new();
    ACCOUNTS.walk_all(rows, |_, account| {
        if plans.find(&account.plan).is_none() {
            *missing.entry(account.plan).or_default() += 1;
        }
    })?;
    if missing.is_empty() {
        return Ok(());
    }
    let named = missing.iter().map(|(plan, accounts)| format!("{plan:?} (accounts: {accounts})"));
    Err(OpenError::PlansMissing(named.collect::<Vec<_>>().join(", ")))
}

/// What a database shows of the keys that it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTraces {
    /// The fingerprint of the keys.
    pub fingerprint: Option<u64>,
    /// Whether there are accounts.
    pub has_accounts: bool,
    /// Whether there are users or endpoints of webhooks, which have texts under the key of users.
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
            has_users: !USERS.is_empty(rows)? || !WEBHOOKS.is_empty(rows)?,
        })
    }

    /// The reason why the database must not be opened with the keys of this vault, if there is one. It is the rest of a
    /// sentence about the folder of the keys, for [`OpenError::OtherKeys`].
    ///
    /// With other keys no user, result or batch can be found. A store that opened with them would charge repeats again and
    /// refuse its users. A database that may be opened gets the fingerprint of the vault, if it has another one.
    pub fn refusal(&self, vault: &Vault) -> Option<&'static str> {
        const NO_KEYS: &str = "has no keys, and the database was written with keys";
        match self.fingerprint {
            Some(known) if known == vault.fingerprint() => {}
            // It was restored from a backup, which has no chain.
            Some(known) if known == vault.hash_key_fingerprint() => {}
            Some(_) if vault.is_new() => return Some(NO_KEYS),
            Some(_) => return Some("has the keys of another database"),
            None if vault.is_new() && self.has_accounts => return Some(NO_KEYS),
            None => {}
        }
        (self.has_users && !vault.has_users_key())
            .then_some("has no key `users`, and the database has users or endpoints of webhooks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vault::bundle::Bundle;

    #[track_caller]
    fn check(traces: (Option<u64>, bool, bool), vault: &Vault, says: Option<&str>) {
        let (fingerprint, has_accounts, has_users) = traces;
        let traces = KeyTraces { fingerprint, has_accounts, has_users };
        match (traces.refusal(vault), says) {
            (Some(why), Some(says)) => assert!(why.contains(says), "{why}"),
            (found, expected) => assert_eq!(found, expected),
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let new = Vault::open(folder.path()).unwrap();
        check((None, false, false), &new, None);
        check((None, true, false), &new, Some("has no keys"));
        check((Some(!new.fingerprint()), false, false), &new, Some("has no keys"));
        new.keep().unwrap();
        let own = new.fingerprint();
        check((None, true, false), &new, None);
        check((Some(own), true, false), &new, None);
        check((Some(!own), true, false), &new, Some("the keys of another database"));
        check((Some(own), true, true), &new, Some("has no key `users`"));
        new.users_key().unwrap();
        check((Some(own), true, true), &new, None);
    }

    #[test]
    fn another_bundle_with_the_same_key_for_hashes_is_refused() {
        let data = tempfile::tempdir().unwrap();
        Vault::open(data.path()).unwrap().keep().unwrap();
        let [one, other] = [(); 2].map(|()| {
            let node = tempfile::tempdir().unwrap();
            Bundle::from_folder(data.path(), 0).unwrap().install(node.path()).unwrap();
            Vault::open(node.path()).unwrap()
        });
        check((None, false, false), &one, None);
        check((Some(one.fingerprint()), true, true), &one, None);
        check((Some(one.fingerprint()), true, true), &other, Some("the keys of another database"));
        // The database of the folder that both bundles were made from.
        let before = Vault::open(data.path()).unwrap();
        check((Some(before.fingerprint()), true, true), &one, None);
        check((Some(one.fingerprint()), true, false), &before, Some("the keys of another database"));
    }
}
