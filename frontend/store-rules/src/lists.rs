//! Lists: their content and their index in sealed parts, and their answers by batch.
//!
//! The ids of a list's batches are derived from the list's own id. So a batch whose creation was interrupted is found
//! again, and none is created twice.
//!
//! A list of format 6 has no [`ListMore`], and is checked row by row. It stays as it is until it expires, so that older nodes of a
//! cluster can read it.

mod texts;

use crate::batches::{self, EndedBatch, PreparedBatch, PreparedKey};
use crate::reason::{self, GIVEN_UP};
use crate::row::{Fixed, Row, row};
use crate::rows::{Rows, Table, Walk, Want};
use crate::tables::{
    BATCHES, CountCode, Expiring, FORMAT_OF_LISTS, FORMAT_OF_SHARES, IdempotencyRow, LIST_CODES, LIST_PARTS,
    LIST_USE, LISTS, ListMore, ListRow, ListUse, META, META_FORMAT, META_LIST_USE, account_range, batch_key,
    list_key, part_key, split,
};
use crate::txn::Txn;
use crate::webhooks::list_event;
use crate::write_error::{WriteError, refuse};
use std::collections::BTreeMap;
use store::webhooks::EventKind;
use store::{
    AccountId, Authority, BATCH_ROWS_MAX, BatchCreated, BatchError, BatchId, HoldError, ListId, StoreError,
};
use store::{
    BatchOfList, LIST_KEEP_MS, LISTS_MAX, List, ListMade, ListProgress, ListRoom, ListState, UnixMs,
    count_one, count_wait,
};
use store::{PartPut, UploadEnd};
use texts::{join_column, join_why, split_column, split_why};
use vault::{KeyClass, Place, Vault, VaultKey};

/// The texts of a list. `why` has a line with the reason, and once the list is read, a second line with the place of the addresses, and
/// a third one with the cells that have several, the header and the end of the check, if there are some. They share a text because a
/// node of an earlier version cannot read a row with a further text. Such a node shows these lines, and keeps them.
#[derive(PartialEq, Eq)]
pub(crate) struct Texts {
    name: String,
    column: String,
    why: String,
}

row!("lists", Texts { name, column, why });

fn until(created_at: UnixMs) -> UnixMs {
    created_at.saturating_add(LIST_KEEP_MS)
}

/// Seals the texts of a list.
pub(crate) fn seal(vault: &Vault, list: &List) -> Result<ListRow, StoreError> {
    let key = list_key(list.account, list.id);
    let texts = Texts { name: list.name.clone(), column: join_column(list), why: join_why(list) };
    let sealing_key = vault.sealing_key(KeyClass::List, until(list.created_at))?;
    let List { created_at, state, bytes, rows, addresses, submitted, done, .. } = *list;
    let List { offset, mode, is_resumable, received_at, distinct, known, charged, rule, .. } = *list;
    let more = ListMore { mode, is_resumable, offset, received_at, distinct, known, charged, rule };
    Ok(ListRow {
        created_at,
        state,
        texts: sealing_key.seal(Place { table: ListRow::TABLE, row: &key }, &texts.encode())?,
        bytes,
        rows,
        addresses,
        submitted,
        done,
        counts: CountCode::counts(list),
        more: (!list.by_row).then_some(more),
    })
}

/// `None` if the list has expired.
pub(crate) fn open(vault: &Vault, key: &[u8; 32], row: ListRow, now: UnixMs) -> Option<List> {
    if now >= row.expires_at() {
        return None;
    }
    let opening_key = vault.opening_key(KeyClass::List, until(row.created_at))?;
    let texts = opening_key.open(Place { table: ListRow::TABLE, row: key }, &row.texts)?;
    let Texts { name, column, why } = Texts::decode(&texts).ok()?;
    let (account, id) = split(key);
    let (counts, causes) = (row.reasons(), row.causes());
    let ListRow { created_at, state, bytes, rows, addresses, submitted, done, more, .. } = row;
    let (account, id) = (AccountId::from_bytes(account), ListId::from_bytes(id));
    let list = List::new(id, account, created_at, name);
    let ((why, found, ended_at), (column, header)) = (split_why(&why), split_column(&column));
    let list = List {
        state,
        column,
        header,
        why,
        found,
        ended_at,
        bytes,
        rows,
        addresses,
        submitted,
        done,
        counts,
        causes,
        ..list
    };
    Some(match more {
        Some(ListMore { mode, is_resumable, offset, received_at, distinct, known, charged, rule }) => {
            List { mode, is_resumable, offset, received_at, distinct, known, charged, rule, ..list }
        }
        None => List { offset: bytes, distinct: addresses, by_row: true, ..list },
    })
}

/// Seals a part of a list's content, index or answers.
pub(crate) fn seal_part(
    vault: &Vault,
    table: &'static str,
    list: &List,
    key: [u8; 20],
    plain: &[u8],
) -> Result<Vec<u8>, StoreError> {
    vault.sealing_key(KeyClass::List, until(list.created_at))?.seal(Place { table, row: &key }, plain)
}

/// `None` if its key is gone.
pub(crate) fn open_part(
    vault: &Vault,
    table: &'static str,
    list: &List,
    key: [u8; 20],
    sealed: &[u8],
) -> Option<Vec<u8>> {
    vault.opening_key(KeyClass::List, until(list.created_at))?.open(Place { table, row: &key }, sealed)
}

/// The id of a list's batch with this number: it cannot be guessed, and is always the same.
pub(crate) fn batch_of(vault: &Vault, id: ListId, created_at: UnixMs, number: u32) -> BatchId {
    let bits = vault.hash("batch of a list", &[&id.to_bytes(), &number.to_be_bytes()]);
    BatchId::new(created_at, u128::from_be_bytes(bits))
}

/// The part of the room that is left for all which one account may take. So the lists of many accounts never fill it completely, and
/// others can go on with small lists.
const SHARE_OF_REST: u64 = 8;

/// The batches whose answers a list has not taken yet.
pub(crate) fn open_batches(vault: &Vault, list: &List) -> Vec<[u8; 32]> {
    let submitted = list.submitted.div_ceil(BATCH_ROWS_MAX as u64);
    let numbers = list.done..u32::try_from(submitted).unwrap_or(u32::MAX);
    let batch = |number| batch_of(vault, list.id, list.created_at, number);
    numbers.map(|number| batch_key(list.account, batch(number))).collect()
}

/// How far the check of a list is.
pub(crate) fn progress(
    rows: &dyn Rows,
    vault: &Vault,
    list: &List,
    now: UnixMs,
) -> Result<ListProgress, StoreError> {
    let mut progress = ListProgress::of(list);
    let batches = open_batches(vault, list);
    rows.expect(&mut batches.iter().map(|key| Want::peek(Table::Batches, key)));
    for key in &batches {
        let row = BATCHES.peek(rows, key)?.filter(|row| row.is_open() || now < row.expires_at());
        let Some(row) = row else { continue };
        progress.checked += u64::from(row.answered);
        row.add_credits(&mut progress);
        for code in batches::codes_of(rows, vault, key, &row)?.unwrap_or_default() {
            match (reason::of_answer(code), reason::wait_of(code)) {
                (Some(reason), _) => {
                    count_one(&mut progress.counts, reason);
                    reason::cause_of(code)
                        .into_iter()
                        .for_each(|cause| count_one(&mut progress.causes, cause));
                }
                (None, Some(cause)) => count_wait(&mut progress.waiting, cause, row.created_at),
                (None, _) => {}
            }
        }
    }
    Ok(progress)
}

/// A list after its cancellation, with the batches that this ended.
pub(crate) struct Cancelled {
    pub row: ListRow,
    pub batches: Vec<BatchId>,
}

/// The result of an idempotency key that is known already.
enum Known {
    /// The request is the same, and created this list.
    Same(ListId),
    Other,
}

/// Whether a list is one of before: another worker has taken answers or submitted batches since.
fn is_behind(row: &ListRow, now: &ListRow) -> bool {
    row.done < now.done || row.submitted < now.submitted
}

impl ListUse {
    fn add(&mut self, key: &[u8; 32], row: &ListRow) {
        self.bytes = self.bytes.saturating_add(row.counted_bytes());
        self.lists += 1;
        if row.is_at_work() {
            self.at_work.insert(ListId::from_bytes(split(key).1));
        }
    }

    fn subtract(&mut self, key: &[u8; 32], row: &ListRow) {
        self.bytes = self.bytes.saturating_sub(row.counted_bytes());
        self.lists = self.lists.saturating_sub(1);
        self.at_work.remove(&ListId::from_bytes(split(key).1));
    }
}

impl Txn<'_> {
    /// Creates a list, and reserves its bytes if there is room.
    pub(crate) fn create_list(
        &mut self,
        (account, id): (AccountId, ListId),
        row: &ListRow,
        room: ListRoom,
        given: Option<&PreparedKey>,
        now: UnixMs,
    ) -> Result<ListMade, WriteError<StoreError>> {
        if row.more.is_some()
            && let Some(refusal) = self.lacks_format(FORMAT_OF_LISTS)?
        {
            return refuse(refusal);
        }
        if !self.has_account(account)? {
            return Ok(ListMade::NoAccount);
        }
        match self.known_list(given, now)? {
            Some(Known::Same(id)) => return Ok(ListMade::Replayed(id)),
            Some(Known::Other) => return Ok(ListMade::KeyReused),
            None => {}
        }
        if self.shared.disk.check().is_err() {
            return Ok(ListMade::StoreFull);
        }
        let key = list_key(account, id);
        let (mut count, mut own) = (0, row.announced_bytes());
        LISTS.walk(self.rows(), account_range(account), usize::MAX, |_, row| {
            count += 1;
            own = own.saturating_add(row.announced_bytes());
            Walk::On
        })?;
        if count >= LISTS_MAX || LISTS.has(self.rows(), &key)? {
            return Ok(ListMade::TooMany);
        } else if own > room.account {
            return Ok(ListMade::AccountFull);
        } else if !self.has_room(account, row.counted_bytes(), room)? {
            return Ok(ListMade::StoreFull);
        }
        self.put_list_row(&key, None, Some(row))?;
        self.expire_at(Expiring::List, row.expires_at(), &key, now)?;
        if row.more.is_some_and(|more| more.is_resumable) {
            self.remember_list(given, id, now)?;
        }
        Ok(ListMade::Made)
    }

    /// Whether the lists of an account can have this many bytes more.
    fn has_room(&mut self, account: AccountId, more: u64, room: ListRoom) -> Result<bool, StoreError> {
        let (mut own, mut others) = (more, 0_u64);
        let mut add = |of: AccountId, bytes: u64| {
            let sum = if of == account { &mut own } else { &mut others };
            *sum = sum.saturating_add(bytes);
        };
        if self.has_list_use()? {
            LIST_USE.walk_all(self.rows(), |of, used| add(AccountId::from_bytes(of), used.bytes))?;
        } else {
            LISTS.walk_all(self.rows(), |key, row| {
                add(AccountId::from_bytes(split(&key).0), row.counted_bytes());
            })?;
        }
        Ok(own <= room.all.saturating_sub(others) / SHARE_OF_REST)
    }

    /// Whether [`LIST_USE`] is kept. It is made now if the format has it and nobody has needed it yet.
    fn has_list_use(&mut self) -> Result<bool, StoreError> {
        if META.peek(self.rows(), META_LIST_USE)?.is_some() {
            return Ok(true);
        }
        // The lock of this row lets one node after the other come here, and an upgrade only after this transaction: whoever makes the
        // table then sees the lists that were written without it.
        let format = META.get(self.rows(), META_FORMAT)?.map_or(0, |format| format.0);
        if format < u64::from(FORMAT_OF_SHARES) {
            return Ok(false);
        }
        if META.peek(self.rows(), META_LIST_USE)?.is_none() {
            let mut all: BTreeMap<[u8; 16], ListUse> = BTreeMap::new();
            LISTS.walk_all(self.rows(), |key, row| all.entry(split(&key).0).or_default().add(&key, &row))?;
            for (account, used) in &all {
                LIST_USE.put(self.rows, account, used)?;
            }
            META.put(self.rows, META_LIST_USE, &Fixed(1))?;
        }
        Ok(true)
    }

    /// Writes or removes the row of a list, and keeps [`LIST_USE`] right.
    fn put_list_row(
        &mut self,
        key: &[u8; 32],
        before: Option<&ListRow>,
        after: Option<&ListRow>,
    ) -> Result<(), StoreError> {
        let figures = |row: Option<&ListRow>| row.map(|row| (row.counted_bytes(), row.is_at_work()));
        if figures(before) != figures(after) && self.has_list_use()? {
            let account = split(key).0;
            let mut used = LIST_USE.get(self.rows(), &account)?.unwrap_or_default();
            before.into_iter().for_each(|row| used.subtract(key, row));
            after.into_iter().for_each(|row| used.add(key, row));
            match used.lists {
                0 => LIST_USE.remove(self.rows, &account)?,
                _ => LIST_USE.put(self.rows, &account, &used)?,
            }
        }
        match after {
            Some(row) => LISTS.put(self.rows, key, row),
            None => LISTS.remove(self.rows, key),
        }
    }

    /// What an idempotency key says of the request, if it is known.
    fn known_list(&self, given: Option<&PreparedKey>, now: UnixMs) -> Result<Option<Known>, StoreError> {
        let Some(given) = given else { return Ok(None) };
        let valid = |row: &IdempotencyRow| now < row.expires_at();
        let mut first = self.remembered(&given.key)?.filter(valid);
        if let (None, Some(former)) = (&first, &given.former) {
            // Under this hash there may also be a batch, whose request differs from that of every list.
            first = self.remembered(former)?.filter(|row| valid(row) && row.body == given.body);
        }
        Ok(first.map(|IdempotencyRow { body, batch, .. }| match body == given.body {
            true => Known::Same(ListId::from_bytes(batch.to_bytes())),
            false => Known::Other,
        }))
    }

    fn remember_list(
        &mut self,
        given: Option<&PreparedKey>,
        id: ListId,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let Some(given) = given else { return Ok(()) };
        // The bits of the list's id are in the place of a batch's.
        let created = BatchCreated {
            batch: BatchId::from_bytes(id.to_bytes()),
            submitted: 0,
            completed: false,
            credits_remaining: None,
            replayed: false,
        };
        self.remember(given, &created, now)
    }

    /// Ends the upload of a list, unless another request has used its idempotency key during the upload.
    pub(crate) fn end_upload(
        &mut self,
        (account, id): (AccountId, ListId),
        given: Option<&PreparedKey>,
        by: &Authority,
        now: UnixMs,
    ) -> Result<UploadEnd, WriteError<StoreError>> {
        self.check_caller(account, by, now)?;
        let key = list_key(account, id);
        let row = LISTS.get(self.rows(), &key)?.filter(|row| row.state == ListState::Uploading);
        let Some((before, more)) = row.and_then(|row| row.more.map(|more| (row, more))) else {
            return Ok(UploadEnd::Gone);
        };
        if !more.is_resumable {
            match self.known_list(given, now)? {
                Some(Known::Same(id)) => return Ok(UploadEnd::Replayed(id)),
                Some(Known::Other) => return Ok(UploadEnd::KeyReused),
                None => self.remember_list(given, id, now)?,
            }
        }
        let row = ListRow { state: ListState::Reading, bytes: more.offset, ..before.clone() };
        self.replace_list(&key, &before, &row, now)?;
        Ok(UploadEnd::Done)
    }

    /// Writes a list, and the note of its expiry if it has changed.
    fn replace_list(
        &mut self,
        key: &[u8; 32],
        before: &ListRow,
        row: &ListRow,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        self.put_list_row(key, Some(before), Some(row))?;
        let (old, new) = (before.expires_at(), row.expires_at());
        if old != new {
            self.unexpire(Expiring::List, old, key)?;
            self.expire_at(Expiring::List, new, key, now)?;
        }
        Ok(())
    }

    /// Deletes the lists whose upload cannot continue, of these or of all; returns their number.
    pub(crate) fn delete_unfinished_lists(&mut self, of: Option<&[ListId]>) -> Result<usize, StoreError> {
        let mut unfinished = Vec::new();
        LISTS.walk_all(self.rows(), |key, row| {
            let id = ListId::from_bytes(split(&key).1);
            let continues = row.more.is_some_and(|more| more.is_resumable);
            if row.state == ListState::Uploading && !continues && of.is_none_or(|of| of.contains(&id)) {
                unfinished.push((key, row));
            }
        })?;
        for (key, row) in &unfinished {
            self.remove_list_row(key, row)?;
        }
        Ok(unfinished.len())
    }

    /// Replaces a list and stores the answers of a batch, if the list has the expected state; returns whether it had. The worker of
    /// a node that was away for long may come with a list of before: it changes nothing.
    pub(crate) fn put_list(
        &mut self,
        key: [u8; 32],
        row: &ListRow,
        expected: ListState,
        codes: Option<&([u8; 20], Vec<u8>)>,
        now: UnixMs,
    ) -> Result<bool, StoreError> {
        let before = LISTS.get(self.rows(), &key)?.filter(|before| before.state == expected);
        let Some(before) = before.filter(|before| !is_behind(row, before)) else { return Ok(false) };
        // The batch of these answers goes with them. So another worker must not put them once more: it would find no batch.
        if codes.is_some() && before.done + 1 != row.done {
            return Ok(false);
        }
        self.replace_list(&key, &before, row, row.created_at)?;
        if let Some((codes_key, codes)) = codes {
            LIST_CODES.write(self.rows, codes_key, codes)?;
            self.forget_batch_of_list(&key, row, row.done.saturating_sub(1))?;
        }
        if row.state != expected {
            self.note_list_event(&key, row, now)?;
        }
        Ok(true)
    }

    /// Removes a complete batch whose answers the list has: nobody reads it any more.
    fn forget_batch_of_list(&mut self, key: &[u8; 32], row: &ListRow, number: u32) -> Result<(), StoreError> {
        let (account, id) = split(key);
        let batch = batch_of(&self.shared.vault, ListId::from_bytes(id), row.created_at, number);
        let key = batch_key(AccountId::from_bytes(account), batch);
        match BATCHES.get(self.rows(), &key)?.filter(|batch| batch.of_list && !batch.is_open()) {
            Some(batch) => self.remove_batch(&key, &batch),
            None => Ok(()),
        }
    }

    /// Tells the endpoints of the account about the state of a list, if it is one of those that are events.
    fn note_list_event(&mut self, key: &[u8; 32], row: &ListRow, now: UnixMs) -> Result<(), StoreError> {
        let (account, id) = split(key);
        match list_event(ListId::from_bytes(id), row) {
            Some(event) => self.note_event(AccountId::from_bytes(account), &event, now),
            None => Ok(()),
        }
    }

    /// Creates the next batch of a running list and updates the list, in one step.
    pub(crate) fn submit_batch_of_list(
        &mut self,
        key: [u8; 32],
        row: &ListRow,
        batch: &PreparedBatch,
        now: UnixMs,
    ) -> Result<BatchOfList, WriteError<BatchError>> {
        let before = LISTS.get(self.rows(), &key)?.filter(|before| before.state == ListState::Running);
        if before.is_none_or(|before| is_behind(row, &before)) {
            return Ok(BatchOfList::Gone);
        }
        let made = match self.create_batch(batch, now) {
            Ok(created) => BatchOfList::Made(created),
            Err(WriteError::Refused(BatchError::Hold(HoldError::Exists))) => BatchOfList::MadeBefore,
            Err(error) => return Err(error),
        };
        LISTS.put(self.rows, &key, row)?;
        Ok(made)
    }

    /// Writes a part of a list during its upload, which was continued at the offset `from`.
    pub(crate) fn put_list_part(
        &mut self,
        key: [u8; 32],
        (part, sealed): (&[u8; 20], &[u8]),
        (from, to): (u64, u64),
        room: ListRoom,
        by: &Authority,
        now: UnixMs,
    ) -> Result<PartPut, WriteError<StoreError>> {
        let account = AccountId::from_bytes(split(&key).0);
        self.check_caller(account, by, now)?;
        let row = LISTS.get(self.rows(), &key)?.filter(|row| row.state == ListState::Uploading);
        let Some((before, more)) = row.and_then(|row| row.more.map(|more| (row, more))) else {
            return Ok(PartPut::Gone);
        };
        if now >= before.expires_at() {
            return Ok(PartPut::Gone);
        }
        if more.offset != from {
            return Ok(PartPut::Offset(more.offset));
        }
        let more = ListMore { offset: to, received_at: more.received_at.max(now), ..more };
        let row = ListRow { more: Some(more), ..before.clone() };
        let grows_by = row.counted_bytes().saturating_sub(before.counted_bytes());
        if self.shared.disk.check().is_err() || (grows_by > 0 && !self.has_room(account, grows_by, room)?) {
            return Ok(PartPut::StoreFull);
        }
        LIST_PARTS.write(self.rows, part, sealed)?;
        self.replace_list(&key, &before, &row, now)?;
        Ok(PartPut::Stored)
    }

    /// Writes a part of the index of a list that is being read; returns whether it is.
    pub(crate) fn put_list_index(
        &mut self,
        key: [u8; 32],
        part: &[u8; 20],
        sealed: &[u8],
    ) -> Result<bool, StoreError> {
        let row = LISTS.get(self.rows(), &key)?;
        let is_read = row.is_some_and(|row| row.state == ListState::Reading);
        if is_read {
            LIST_PARTS.write(self.rows, part, sealed)?;
        }
        Ok(is_read)
    }

    /// Ends the check of a list, with those of its batches that are open: their unanswered rows are refunded. The answers so far
    /// are copied to the list. With a reason, the list is unfit then; otherwise its owner has cancelled it.
    pub(crate) fn end_list(
        &mut self,
        key: [u8; 32],
        why: Option<&str>,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<Option<Cancelled>, WriteError<StoreError>> {
        let row = LISTS.get(self.rows(), &key)?.filter(|row| now < row.expires_at());
        let Some(before) = row else { return Ok(None) };
        if matches!(before.state, ListState::Unfit | ListState::Completed | ListState::Cancelled) {
            return Ok(Some(Cancelled { row: before, batches: Vec::new() }));
        }
        if let Some(refusal) = self.lacks_format(FORMAT_OF_LISTS)? {
            return refuse(refusal);
        }
        let (mut row, mut batches) = (before.clone(), Vec::new());
        while u64::from(row.done) * (BATCH_ROWS_MAX as u64) < row.submitted {
            batches.extend(self.cancel_batch_of_list(&key, &mut row, finishing_key, now)?);
        }
        if let (ListState::Uploading, Some(more)) = (row.state, &row.more) {
            // The rest of the reserved bytes is free again.
            row.bytes = more.offset;
        }
        row.state = if why.is_some() { ListState::Unfit } else { ListState::Cancelled };
        row.texts = self.texts_at_end(&key, &row, why, now)?.unwrap_or(row.texts);
        self.replace_list(&key, &before, &row, now)?;
        self.note_list_event(&key, &row, now)?;
        Ok(Some(Cancelled { row, batches }))
    }

    /// The sealed texts of a list that ends now, for this reason if there is one; `None` if its texts cannot be read any longer.
    fn texts_at_end(
        &self,
        key: &[u8; 32],
        row: &ListRow,
        why: Option<&str>,
        now: UnixMs,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let vault = &self.shared.vault;
        let Some(list) = open(vault, key, row.clone(), now) else { return Ok(None) };
        let why = why.map_or(list.why.clone(), str::to_owned);
        Ok(Some(seal(vault, &List { why, ended_at: now, ..list })?.texts))
    }

    /// Ends the oldest batch of a list whose answers the list does not have, and copies the answers. Returns the batch if it was
    /// open.
    fn cancel_batch_of_list(
        &mut self,
        key: &[u8; 32],
        row: &mut ListRow,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<Option<BatchId>, StoreError> {
        let (account, id) = split(key);
        let (account, id) = (AccountId::from_bytes(account), ListId::from_bytes(id));
        let vault = &self.shared.vault;
        let batch = batch_of(vault, id, row.created_at, row.done);
        let ended =
            self.give_up(&batch_key(account, batch), EventKind::BatchCancelled, finishing_key, now)?;
        let was_open = ended.is_some();
        let ended = match ended {
            Some(ended) => Some(ended),
            None => self.answers_of(account, batch, now)?,
        };
        let EndedBatch { mut codes, charged } = ended.unwrap_or(EndedBatch { codes: Vec::new(), charged: 0 });
        let first = u64::from(row.done) * BATCH_ROWS_MAX as u64;
        // A batch that has expired has no answers.
        codes.resize((row.submitted - first).min(BATCH_ROWS_MAX as u64) as usize, GIVEN_UP);
        codes.iter().for_each(|&code| row.count(code));
        let part = part_key(id, row.done);
        if let Some(key) = vault.opening_key(KeyClass::List, until(row.created_at)) {
            let sealed = key.seal(Place { table: "list_codes", row: &part }, &codes)?;
            LIST_CODES.write(self.rows, &part, &sealed)?;
        }
        if let Some(more) = &mut row.more {
            more.charged += charged;
        }
        self.forget_batch_of_list(key, row, row.done)?;
        row.done += 1;
        Ok(was_open.then_some(batch))
    }

    /// Deletes a list before its expiry, and cancels its check; `None` if there is no such list.
    pub(crate) fn delete_list(
        &mut self,
        key: [u8; 32],
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<Option<Vec<BatchId>>, StoreError> {
        let Some(mut row) = LISTS.get(self.rows(), &key)? else { return Ok(None) };
        let (before, mut batches) = (row.clone(), Vec::new());
        while u64::from(row.done) * (BATCH_ROWS_MAX as u64) < row.submitted {
            batches.extend(self.cancel_batch_of_list(&key, &mut row, finishing_key, now)?);
        }
        self.remove_list_row(&key, &before)?;
        Ok(Some(batches))
    }

    fn remove_list_row(&mut self, key: &[u8; 32], row: &ListRow) -> Result<(), StoreError> {
        self.put_list_row(key, Some(row), None)?;
        self.unexpire(Expiring::List, row.expires_at(), key)?;
        // It may have many parts, which the next purges remove.
        self.expire_at(Expiring::List, 0, key, 0)
    }

    /// Removes a list and at most `limit` of its parts and answers; returns their number. The caller removes the note
    /// of its expiry. An earlier version may have left a note with another time: a list that has not expired stays.
    pub(crate) fn remove_list(
        &mut self,
        key: &[u8; 32],
        limit: usize,
        now: UnixMs,
    ) -> Result<usize, StoreError> {
        if let Some(row) = LISTS.get(self.rows(), key)? {
            if now < row.expires_at() {
                return Ok(0);
            }
            self.put_list_row(key, Some(&row), None)?;
        }
        let id = ListId::from_bytes(split(key).1);
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
