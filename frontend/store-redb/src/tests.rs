//! Tests of the store as a whole: they open it, and look at its tables.

mod clock;
mod crash;
pub(crate) mod index_check;
mod lists;
mod retention;
mod withdrawn;

use crate::database::{self, Redb};
use crate::{KEY_FOLDER, Opening, StoreOptions};
use ::redb::Database;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use store::{AccountId, NewAccount, OpenError, PlanTable, UnixMs};
use store_rules::Store;

/// A store with its database, so that tests can look at the tables.
pub(crate) struct RedbStore {
    store: Store,
    pub redb: Arc<Redb>,
}

impl RedbStore {
    fn new(redb: Redb) -> RedbStore {
        let redb = Arc::new(redb);
        RedbStore { store: Store::new(Arc::<Redb>::clone(&redb)), redb }
    }

    pub fn database(&self) -> &Database {
        self.redb.database()
    }
}

impl Deref for RedbStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// As [`crate::open`].
pub(crate) fn open_redb(
    folder: &Path,
    plans: PlanTable,
    options: StoreOptions,
    now: UnixMs,
) -> Result<(RedbStore, Opening), OpenError> {
    let (redb, opening) = database::open_redb(folder, plans, options, now)?;
    Ok((RedbStore::new(redb), opening))
}

/// Opens a store with the standard plans.
pub(crate) fn open(folder: &Path, now: UnixMs) -> RedbStore {
    open_redb(folder, PlanTable::standard(), StoreOptions::default(), now).unwrap().0
}

/// Creates the account with this number.
pub(crate) fn create_account(store: &Store, number: u128, plan: &str, now: UnixMs) -> AccountId {
    let id = AccountId::new(now, number);
    let new = NewAccount { id, name: format!("account {number}"), plan: plan.into() };
    store.create_account(new, now).wait().unwrap().id
}

#[track_caller]
pub(crate) fn check_sums(store: &Store) {
    assert_eq!(store.audit(None).wait().unwrap().faults, Vec::<String>::new());
}

/// The sorted names of the key files of a data folder.
pub(crate) fn key_files(data: &Path) -> Vec<String> {
    let files = std::fs::read_dir(data.join(KEY_FOLDER)).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
