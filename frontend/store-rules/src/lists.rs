//! Lists of the dashboard: their content in sealed parts, and their answers by batch.
//!
//! The ids of a list's batches are derived from the list's own id. So a batch whose creation was interrupted is found
//! again, and none is created twice.

use crate::batches::{BatchOwner, PreparedBatch};
use crate::row::{In, Out, Row};
use crate::tables::{
    Expiring, LIST_CODES, LIST_PARTS, LISTS, ListRow, account_range, list_key, part_key, split,
};
use crate::txn::Txn;
use crate::vault::{KeyClass, Place, Vault};
use crate::webhooks::list_event;
use crate::write_error::WriteError;
use store::{AccountId, BatchError, BatchId, HoldError, ListId, StoreError};
use store::{BatchOfList, LIST_KEEP_MS, LISTS_MAX, List, ListMade, ListRoom, ListState, UnixMs};

/// The texts of a list.
#[derive(PartialEq, Eq)]
pub(crate) struct Texts {
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
pub(crate) fn seal(vault: &Vault, list: &List) -> Result<ListRow, StoreError> {
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
pub(crate) fn open(vault: &Vault, key: &[u8; 32], row: ListRow, now: UnixMs) -> Option<List> {
    if now >= row.expires_at() {
        return None;
    }
    let opening_key = vault.opening_key(KeyClass::List, row.expires_at())?;
    let texts = opening_key.open(Place { table: ListRow::TABLE, row: key }, &row.texts)?;
    let Texts { name, column, why } = Texts::decode(&texts).ok()?;
    let (account, id) = crate::tables::split(key);
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
pub(crate) fn seal_part(
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
pub(crate) fn open_part(
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
pub(crate) fn batch_of(vault: &Vault, list: &List, number: u32) -> BatchId {
    let bits = vault.hash("batch of a list", &[&list.id.to_bytes(), &number.to_be_bytes()]);
    BatchId::new(list.created_at, u128::from_be_bytes(bits))
}

impl Txn<'_> {
    /// Creates a list, and reserves its bytes if there is room.
    pub(crate) fn create_list(
        &mut self,
        account: AccountId,
        id: ListId,
        row: &ListRow,
        room: ListRoom,
        now: UnixMs,
    ) -> Result<ListMade, StoreError> {
        let key = list_key(account, id);
        let (mut count, mut own, mut all) = (0, row.bytes, row.bytes);
        LISTS.walk_all(self.rows(), |other, row| {
            all = all.saturating_add(row.bytes);
            if account_range(account).contains(&other) {
                count += 1;
                own = own.saturating_add(row.bytes);
            }
        })?;
        if count >= LISTS_MAX || LISTS.has(self.rows(), &key)? {
            return Ok(ListMade::TooMany);
        } else if own > room.account {
            return Ok(ListMade::AccountFull);
        } else if all > room.all {
            return Ok(ListMade::StoreFull);
        }
        LISTS.put(self.rows, &key, row)?;
        self.expire_at(Expiring::List, row.expires_at(), &key, now)?;
        Ok(ListMade::Made)
    }

    /// Deletes the lists that were being uploaded, of these or of all; returns their number.
    pub(crate) fn delete_unfinished_lists(&mut self, of: Option<&[ListId]>) -> Result<usize, StoreError> {
        let mut unfinished = Vec::new();
        LISTS.walk_all(self.rows(), |key, row| {
            let id = ListId::from_bytes(crate::tables::split(&key).1);
            if row.state == ListState::Uploading && of.is_none_or(|of| of.contains(&id)) {
                unfinished.push(key);
            }
        })?;
        for key in &unfinished {
            self.delete_list(*key)?;
        }
        Ok(unfinished.len())
    }

    /// Replaces a list and stores the answers of a batch, if the list has the expected state; returns whether it had.
    pub(crate) fn put_list(
        &mut self,
        key: [u8; 32],
        row: &ListRow,
        expected: ListState,
        codes: Option<&([u8; 20], Vec<u8>)>,
        now: UnixMs,
    ) -> Result<bool, StoreError> {
        let before = LISTS.get(self.rows(), &key)?;
        if before.is_none_or(|before| before.state != expected) {
            return Ok(false);
        }
        LISTS.put(self.rows, &key, row)?;
        if let Some((key, codes)) = codes {
            LIST_CODES.write(self.rows, key, codes)?;
        }
        let (account, id) = split(&key);
        let event = list_event(ListId::from_bytes(id), row).filter(|_| row.state != expected);
        if let Some(event) = event {
            self.note_event(AccountId::from_bytes(account), &event, now)?;
        }
        Ok(true)
    }

    /// Creates the next batch of a running list and updates the list, in one step.
    pub(crate) fn submit_batch_of_list(
        &mut self,
        key: [u8; 32],
        row: &ListRow,
        batch: &PreparedBatch,
        now: UnixMs,
    ) -> Result<BatchOfList, WriteError<BatchError>> {
        if LISTS.get(self.rows(), &key)?.is_none_or(|before| before.state != ListState::Running) {
            return Ok(BatchOfList::Gone);
        }
        let made = match self.create_batch_of(BatchOwner::List, batch, now) {
            Ok(created) => BatchOfList::Made(created),
            Err(WriteError::Refused(BatchError::Hold(HoldError::Exists))) => BatchOfList::MadeBefore,
            Err(error) => return Err(error),
        };
        LISTS.put(self.rows, &key, row)?;
        Ok(made)
    }

    /// Writes a part of a list during its upload; returns whether it is being uploaded.
    pub(crate) fn put_list_part(
        &mut self,
        key: [u8; 32],
        part: [u8; 20],
        sealed: &[u8],
    ) -> Result<bool, StoreError> {
        let row = LISTS.get(self.rows(), &key)?;
        let comes = row.is_some_and(|row| row.state == ListState::Uploading);
        if comes {
            LIST_PARTS.write(self.rows, &part, sealed)?;
        }
        Ok(comes)
    }

    /// Deletes a list before its expiry; returns whether it existed. Its batches continue.
    pub(crate) fn delete_list(&mut self, key: [u8; 32]) -> Result<bool, StoreError> {
        let row = LISTS.get(self.rows(), &key)?;
        let Some(row) = row else { return Ok(false) };
        LISTS.remove(self.rows, &key)?;
        self.unexpire(Expiring::List, row.expires_at(), &key)?;
        // It may have many parts, which the next purges remove.
        self.expire_at(Expiring::List, 0, &key, 0)?;
        Ok(true)
    }

    /// Removes a list and at most `limit` of its parts and answers; returns their number. The caller removes the note
    /// of its expiry.
    pub(crate) fn remove_list(&mut self, key: &[u8; 32], limit: usize) -> Result<usize, StoreError> {
        LISTS.remove(self.rows, key)?;
        let id = ListId::from_bytes(crate::tables::split(key).1);
        let (first, last) = (part_key(id, 0), part_key(id, u32::MAX));
        let mut removed = 0;
        for table in [LIST_PARTS, LIST_CODES] {
            let keys = table.keys(self.rows(), first..=last, limit - removed)?;
            for key in &keys {
                table.remove(self.rows, key)?;
            }
            removed += keys.len();
        }
        Ok(removed)
    }
}
