//! A check that the keys in the folder are those of the database.
//!
//! The database has a fingerprint of its keys. [`KeyTraces::refusal`] has the rule.

use super::rows::{ReadRows, WriteRows};
use ::redb::{Database, ReadableDatabase};
use std::path::Path;
use store::{OpenError, StoreError};
use store_rules::opening::KeyTraces;
use store_rules::row::Fixed;
use store_rules::tables::{META, META_KEYS};
use vault::{KEY_FOLDER, Vault};

/// Compares the fingerprints. A database without one gets that of the present keys. `accept` replaces the fingerprint
/// in any case.
pub(super) fn check(database: &Database, vault: &Vault, path: &Path, accept: bool) -> Result<(), OpenError> {
    let found = KeyTraces::read(&ReadRows::new(database.begin_read().map_err(StoreError::from)?))?;
    if !accept && let Some(why) = found.refusal(vault) {
        return Err(OpenError::OtherKeys { folder: path.with_file_name(KEY_FOLDER), why });
    }
    // The keys are written first: otherwise the fingerprint could belong to keys that do not exist at the next start.
    vault.keep()?;
    if found.has_users {
        vault.users_key()?;
    }
    if found.fingerprint != Some(vault.fingerprint()) {
        write(database, vault.fingerprint())?;
    }
    Ok(())
}

fn write(database: &Database, fingerprint: u64) -> Result<(), StoreError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    META.put(&mut WriteRows::new(&transaction), META_KEYS, &Fixed(fingerprint))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tests::{RedbStore, open_redb};
    use crate::{KEY_FOLDER, StoreOptions};
    use std::fs;
    use std::path::Path;
    use store::{AccountId, NewAccount, NewSession, NewUser, PasswordHash, PlanTable, UnixMs};

    const NOW: UnixMs = 1_801_386_600_000;

    fn open(folder: &Path, accept_keys: bool) -> Result<RedbStore, String> {
        let options = StoreOptions { accept_keys, ..StoreOptions::default() };
        let opened = open_redb(folder, PlanTable::standard(), options, NOW);
        opened.map(|(store, _)| store).map_err(|error| error.to_string())
    }

    fn account(n: u128) -> NewAccount {
        NewAccount { id: AccountId::new(NOW, n), name: format!("a{n}"), plan: "free".into() }
    }

    #[track_caller]
    fn check_refused(folder: &Path, says: &str) {
        let keys = || {
            let files = fs::read_dir(folder.join(KEY_FOLDER)).into_iter().flatten();
            files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>()
        };
        let before = keys();
        for _ in 0..2 {
            let refusal = open(folder, false).map(drop).unwrap_err();
            assert!(refusal.contains(says) && refusal.contains("mailprobe accept-keys"), "{refusal}");
        }
        assert_eq!(keys(), before, "it leaves keys that pass for the right ones");
    }

    #[test]
    fn a_store_without_its_keys_does_not_open_until_that_is_accepted() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(folder.path(), false).unwrap();
        store.create_account(account(1), NOW).wait().unwrap();
        drop(store);
        drop(open(other.path(), false).unwrap());
        let keys = folder.path().join(KEY_FOLDER);
        let kept = folder.path().join("kept");
        fs::rename(&keys, &kept).unwrap();
        check_refused(folder.path(), "has no keys");
        fs::create_dir(&keys).unwrap();
        fs::copy(other.path().join(KEY_FOLDER).join("hash"), keys.join("hash")).unwrap();
        check_refused(folder.path(), "has the keys of another database");
        // Its own keys are accepted again.
        fs::rename(&keys, folder.path().join("others")).unwrap();
        fs::rename(&kept, &keys).unwrap();
        drop(open(folder.path(), false).unwrap());
        // The keys are lost.
        fs::remove_dir_all(&keys).unwrap();
        let store = open(folder.path(), true).unwrap();
        assert!(store.account(AccountId::new(NOW, 1), NOW).wait().unwrap().is_some());
        drop(store);
        drop(open(folder.path(), false).unwrap());
    }

    #[test]
    fn users_need_their_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), false).unwrap();
        let password = PasswordHash { memory_kib: 1, passes: 1, lanes: 1, salt: [0; 16], tag: [0; 32] };
        let session = NewSession { hash: [1; 32], agent: String::new() };
        let new = NewUser { account: account(1), email: "a@example.com".into(), password, session };
        store.sign_up(new, NOW).wait().unwrap();
        drop(store);
        fs::remove_file(folder.path().join(KEY_FOLDER).join("users")).unwrap();
        check_refused(folder.path(), "has no key `users`");
        drop(open(folder.path(), true).unwrap());
        drop(open(folder.path(), false).unwrap());
    }
}
