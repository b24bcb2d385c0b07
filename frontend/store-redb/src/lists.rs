//! Lists of the dashboard: their content in sealed parts, and their answers by batch.
//!
//! The ids of a list's batches are derived from the list's own id. So a batch whose creation was interrupted is found
//! again, and none is created twice.

use super::batches::PreparedBatch;
use super::row::{In, Out, Row};
use super::tables::{Expiring, LIST_CODES, LIST_PARTS, LISTS, ListRow, account_range, list_key, part_key};
use super::txn::Txn;
use super::vault::{KeyClass, Place, Vault};
use super::write_error::WriteError;
use ::redb::ReadableTable;
use store::{AccountId, BatchError, BatchId, HoldError, ListId, StoreError};
use store::{BatchOfList, LIST_KEEP_MS, LISTS_MAX, List, ListMade, ListRoom, ListState, UnixMs};

/// The texts of a list.
#[derive(PartialEq, Eq)]
pub(super) struct Texts {
    name: String,
    column: String,
    why: String,
}

impl Row for Texts {
    const TABLE: &'static str = "lists";

    fn write(&self, out: &mut Out) {
        out.text(&self.name);
        out.text(&self.column);
        out.text(&self.why);
    }

    fn read(input: &mut In<'_>) -> Option<Texts> {
        Some(Texts { name: input.text()?, column: input.text()?, why: input.text()? })
    }
}

fn until(created_at: UnixMs) -> UnixMs {
    created_at.saturating_add(LIST_KEEP_MS)
}

/// Seals the texts of a list.
pub(super) fn seal(vault: &Vault, list: &List) -> Result<ListRow, StoreError> {
    let key = list_key(list.account, list.id);
    let texts = Texts { name: list.name.clone(), column: list.column.clone(), why: list.why.clone() };
    let sealing_key = vault.sealing_key(KeyClass::List, until(list.created_at))?;
    let List { created_at, state, bytes, rows, addresses, submitted, done, .. } = *list;
    Ok(ListRow {
        created_at,
        state,
        texts: sealing_key.seal(Place { table: ListRow::TABLE, row: &key }, &texts.encode())?,
        bytes,
        rows,
        addresses,
        submitted,
        done,
        counts: list.counts.clone(),
    })
}

/// `None` if the list has expired.
pub(super) fn open(vault: &Vault, key: &[u8; 32], row: ListRow, now: UnixMs) -> Option<List> {
    if now >= row.expires_at() {
        return None;
    }
    let opening_key = vault.opening_key(KeyClass::List, row.expires_at())?;
    let texts = opening_key.open(Place { table: ListRow::TABLE, row: key }, &row.texts)?;
    let Texts { name, column, why } = Texts::decode(&texts).ok()?;
    let (account, id) = super::tables::split(key);
    let ListRow { created_at, state, bytes, rows, addresses, submitted, done, counts, .. } = row;
    let (account, id) = (AccountId::from_bytes(account), ListId::from_bytes(id));
    Some(List {
        id,
        account,
        created_at,
        state,
        name,
        column,
        why,
        bytes,
        rows,
        addresses,
        submitted,
        done,
        counts,
    })
}

/// Seals a part of a list's content or answers.
pub(super) fn seal_part(
    vault: &Vault,
    table: &'static str,
    list: &List,
    number: u32,
    plain: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let key = part_key(list.id, number);
    vault.sealing_key(KeyClass::List, until(list.created_at))?.seal(Place { table, row: &key }, plain)
}

/// `None` if its key is gone.
pub(super) fn open_part(
    vault: &Vault,
    table: &'static str,
    list: &List,
    number: u32,
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let key = part_key(list.id, number);
    vault.opening_key(KeyClass::List, until(list.created_at))?.open(Place { table, row: &key }, sealed)
}

/// The id of a list's batch with this number: it cannot be guessed, and is always the same.
pub(super) fn batch_of(vault: &Vault, list: &List, number: u32) -> BatchId {
    let bits = vault.hash("batch of a list", &[&list.id.to_bytes(), &number.to_be_bytes()]);
    BatchId::new(list.created_at, u128::from_be_bytes(bits))
}

impl Txn<'_> {
    /// Creates a list, and reserves its bytes if there is room.
    pub fn create_list(
        &mut self,
        account: AccountId,
        id: ListId,
        row: ListRow,
        room: ListRoom,
        now: UnixMs,
    ) -> Result<ListMade, StoreError> {
        let key = list_key(account, id);
        {
            let mut lists = self.transaction.open_table(LISTS)?;
            let (mut count, mut own, mut all) = (0, row.bytes, row.bytes);
            for next in lists.iter()? {
                let (other, row) = next?;
                let bytes = ListRow::decode(row.value())?.bytes;
                all = all.saturating_add(bytes);
                if account_range(account).contains(other.value()) {
                    count += 1;
                    own = own.saturating_add(bytes);
                }
            }
            if count >= LISTS_MAX || lists.get(&key)?.is_some() {
                return Ok(ListMade::TooMany);
            } else if own > room.account {
                return Ok(ListMade::AccountFull);
            } else if all > room.all {
                return Ok(ListMade::StoreFull);
            }
            lists.insert(&key, row.encode().as_slice())?;
        }
        self.expire_at(Expiring::List, row.expires_at(), &key, now)?;
        Ok(ListMade::Made)
    }

    fn list_row(&self, key: &[u8; 32]) -> Result<Option<ListRow>, StoreError> {
        let lists = self.transaction.open_table(LISTS)?;
        lists.get(key)?.map(|row| ListRow::decode(row.value())).transpose()
    }

    /// Deletes the lists that were being uploaded; returns their number.
    pub fn delete_unfinished_lists(&mut self) -> Result<usize, StoreError> {
        let mut unfinished = Vec::new();
        for next in self.transaction.open_table(LISTS)?.iter()? {
            let (key, row) = next?;
            if ListRow::decode(row.value())?.state == ListState::Uploading {
                unfinished.push(*key.value());
            }
        }
        for key in &unfinished {
            self.delete_list(*key)?;
        }
        Ok(unfinished.len())
    }

    /// Replaces a list and stores the answers of a batch, if the list has the expected state; returns whether it had.
    pub fn put_list(
        &mut self,
        key: [u8; 32],
        row: ListRow,
        expected: ListState,
        codes: Option<([u8; 20], Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        let mut lists = self.transaction.open_table(LISTS)?;
        let before = lists.get(&key)?.map(|row| ListRow::decode(row.value())).transpose()?;
        if before.is_none_or(|before| before.state != expected) {
            return Ok(false);
        }
        lists.insert(&key, row.encode().as_slice())?;
        if let Some((key, codes)) = codes {
            self.transaction.open_table(LIST_CODES)?.insert(&key, codes.as_slice())?;
        }
        Ok(true)
    }

    /// Creates the next batch of a running list and updates the list, in one step.
    pub fn submit_batch_of_list(
        &mut self,
        key: [u8; 32],
        row: ListRow,
        batch: PreparedBatch,
        now: UnixMs,
    ) -> Result<BatchOfList, WriteError<BatchError>> {
        if self.list_row(&key)?.is_none_or(|before| before.state != ListState::Running) {
            return Ok(BatchOfList::Gone);
        }
        let made = match self.create_batch(batch, now) {
            Ok(created) => BatchOfList::Made(created),
            Err(WriteError::Refused(BatchError::Hold(HoldError::Exists))) => BatchOfList::MadeBefore,
            Err(error) => return Err(error),
        };
        self.transaction.open_table(LISTS)?.insert(&key, row.encode().as_slice())?;
        Ok(made)
    }

    /// Writes a part of a list during its upload; returns whether it is being uploaded.
    pub fn put_list_part(
        &mut self,
        key: [u8; 32],
        part: [u8; 20],
        sealed: &[u8],
    ) -> Result<bool, StoreError> {
        let row = self.list_row(&key)?;
        let comes = row.is_some_and(|row| row.state == ListState::Uploading);
        if comes {
            self.transaction.open_table(LIST_PARTS)?.insert(&part, sealed)?;
        }
        Ok(comes)
    }

    /// Deletes a list before its expiry; returns whether it existed. Its batches continue.
    pub fn delete_list(&mut self, key: [u8; 32]) -> Result<bool, StoreError> {
        let row = self.list_row(&key)?;
        let Some(row) = row else { return Ok(false) };
        self.transaction.open_table(LISTS)?.remove(&key)?;
        self.unexpire(Expiring::List, row.expires_at(), &key)?;
        // It may have many parts, which the next purges remove.
        self.expire_at(Expiring::List, 0, &key, 0)?;
        Ok(true)
    }

    /// Removes a list and at most `limit` of its parts and answers; returns their number. The caller removes the note
    /// of its expiry.
    pub fn remove_list(&mut self, key: &[u8; 32], limit: usize) -> Result<usize, StoreError> {
        self.transaction.open_table(LISTS)?.remove(key)?;
        let id = ListId::from_bytes(super::tables::split(key).1);
        let (first, last) = (part_key(id, 0), part_key(id, u32::MAX));
        let mut removed = 0;
        for table in [LIST_PARTS, LIST_CODES] {
            let mut table = self.transaction.open_table(table)?;
            let mut keys = Vec::new();
            for next in table.range::<&[u8; 20]>(&first..=&last)?.take(limit - removed) {
                keys.push(*next?.0.value());
            }
            for key in &keys {
                table.remove(key)?;
            }
            removed += keys.len();
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vault::KEY_FOLDER;
    use super::super::*;
    use super::*;
    use crate::tests::index_check::check_index;
    use store::*;

    const NOW: UnixMs = 1_801_386_600_000;
    const NEEDLE: &str = "needle@example.com";

    fn list(account: AccountId) -> List {
        let list = List::new(ListId::new(NOW, 1), account, NOW, NEEDLE.into());
        List { bytes: 18, rows: 1, addresses: 1, ..list }
    }

    #[test]
    fn addresses_of_users_and_lists_are_sealed_and_a_lists_key_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let options = StoreOptions::default();
            RedbStore::open(folder.path(), PlanTable::standard(), options, NOW).unwrap().0
        };
        let store = open();
        let id = AccountId::new(NOW, 1);
        let account = NewAccount { id, name: "a".into(), plan: "free".into() };
        let password = PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [0; 16], tag: [0; 32] };
        let session = NewSession { hash: [1; 32], agent: String::new() };
        let new = NewUser { account, email: NEEDLE.into(), password, session };
        store.sign_up(new, NOW).wait().unwrap();
        store.create_link(id, [2; 32], NOW).wait().unwrap();
        let list = list(id);
        store.create_list(&list, ListRoom::MOST, NOW).wait().unwrap();
        store.put_list_part(&list, 0, NEEDLE.as_bytes()).wait().unwrap();
        check_index(&store);
        drop(store);
        let database = std::fs::read(folder.path().join(DATABASE_FILE)).unwrap();
        assert!(!database.windows(6).any(|bytes| bytes == b"needle"));
        let store = open();
        assert_eq!(store.list_part(&list, 0).wait().unwrap().as_deref(), Some(NEEDLE.as_bytes()));
        assert_eq!(store.user(id).wait().unwrap().unwrap().email, NEEDLE);
        let keys = || {
            let files = std::fs::read_dir(folder.path().join(KEY_FOLDER)).unwrap();
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let of_list = format!("list-{}", list.expires_at() / 3_600_000);
        assert!(keys().contains(&of_list));
        let later = list.expires_at() + 3_600_000;
        store.purge(later).wait().unwrap();
        assert!(!keys().contains(&of_list) && keys().contains(&"users".to_owned()));
        check_index(&store);
        assert_eq!(store.list_part(&list, 0).wait(), Ok(None));
        assert_eq!(store.user(id).wait().unwrap().unwrap().email, NEEDLE);
    }

    #[test]
    fn the_parts_of_a_list_go_in_steps() {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::default();
        let store = RedbStore::open(folder.path(), PlanTable::standard(), options, NOW).unwrap().0;
        let list = list(AccountId::new(NOW, 1));
        store.create_list(&list, ListRoom::MOST, NOW).wait().unwrap();
        for number in 0..100 {
            assert_eq!(store.put_list_part(&list, number, b"x").wait(), Ok(true));
        }
        assert_eq!(store.delete_list(list.account, list.id).wait(), Ok(true));
        assert_eq!(store.list(list.account, list.id, NOW).wait(), Ok(None));
        assert_eq!(store.delete_list(list.account, list.id).wait(), Ok(false));
        assert_eq!(store.put_list_part(&list, 0, b"x").wait(), Ok(false));
        check_index(&store);
        let left =
            (0..100).filter(|&number| store.list_part(&list, number).wait().unwrap().is_some()).count();
        assert!((1..100).contains(&left), "{left} of 100 parts are left");
        assert_eq!(store.purge(NOW).wait().map(|purged| purged.lists), Ok(1));
        assert_eq!(store.list_part(&list, 99).wait(), Ok(None));
        check_index(&store);
    }
}
