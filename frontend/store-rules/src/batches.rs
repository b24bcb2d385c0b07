//! Batches: created with their charge and idempotency key in one transaction, answered row by row, and settled after
//! the last answer.
//!
//! The caller's thread does the slow work (hashing, sealing, look-ups) with a snapshot. The writer checks what may have
//! changed since then, and stores the bytes. It opens and seals only the answers, one byte per row, and the rows once,
//! at completion.

mod stored;
mod views;

pub(crate) use views::{page, view};

use crate::days::{self, Charged};
use crate::reason::{self, GIVEN_UP, UNANSWERED};
use crate::results::{self, Results, SealedResult};
use crate::row::Row;
use crate::rows::{Rows, Table, Want};
use crate::shared::Shared;
use crate::tables::{
    BATCH_ROWS, BATCHES, BatchRow, Expiring, FORMAT_OF_WAITS, IDEMPOTENCY, IdempotencyRow, OPEN_BATCHES,
    RowsText, batch_key, day_key, idempotency_key, split, split_rows,
};
use crate::txn::Txn;
use crate::webhooks::batch_event;
use crate::write_error::{WriteError, refuse};
use store::credits::{Balance, Portions};
use store::webhooks::EventKind;
use store::*;
use store::{AccountId, BatchError, BatchId, EntryId, HoldError, StoreError};
use vault::{KeyClass, Place, Vault, VaultKey};

/// The place of a batch's answers, which differs from that of its rows.
fn answers_place(key: &[u8; 32]) -> Place<'_> {
    Place { table: BatchRow::TABLE, row: key }
}

fn rows_place(key: &[u8; 32]) -> Place<'_> {
    Place { table: RowsText::TABLE, row: key }
}

/// A batch that is ready to be written, except for its credits.
pub(crate) struct PreparedBatch {
    id: BatchId,
    account: AccountId,
    /// The credits that it costs; 0 for a test batch, and for a batch of a list with known addresses only.
    price: u64,
    /// Whether a test key has sent it. Its verdicts are made up, so they are not counted.
    is_test: bool,
    row: BatchRow,
    rows: Vec<u8>,
    /// The answers of a batch that is complete at once.
    known: Vec<u8>,
    idempotency: Option<PreparedKey>,
}

/// The keyed hashes of an idempotency key and its request.
pub(crate) struct PreparedKey {
    pub key: [u8; 32],
    /// The hash by which earlier versions stored the key of a list: without the endpoint.
    pub former: Option<[u8; 32]>,
    pub body: [u8; 16],
}

/// A batch that was ended before all its rows had answers.
pub(crate) struct EndedBatch {
    /// One byte per row; none if the key of the batch is gone.
    pub codes: Vec<u8>,
    /// The credits that it cost.
    pub charged: u64,
}

/// Prepares a batch on the caller's thread. In a batch of a list, rows with the account's own result cost nothing. Such a batch has
/// the id of its list in place of a name, for the note of its charge.
pub(crate) fn prepare(
    results: Results<'_>,
    vault: &Vault,
    new: &NewBatch,
    list: Option<ListId>,
    now: UnixMs,
) -> Result<PreparedBatch, BatchError> {
    let &NewBatch { id, account, ref name, ref rows, ref idempotency, ref mode } = new;
    let of_list = list.is_some();
    let fits = match mode {
        BatchMode::Live => true,
        BatchMode::Test(reasons) => reasons.len() == rows.len(),
    };
    if rows.is_empty() || rows.len() > BATCH_ROWS_MAX || !fits {
        return Err(HoldError::BadAmount.into());
    }
    let idempotency = idempotency
        .as_ref()
        .map(|given| prepare_key(given, vault, account, key_mode(mode), KeyEndpoint::Batches));
    let mut answers = match mode {
        BatchMode::Test(reasons) => reasons.iter().copied().map(reason::code).collect(),
        BatchMode::Live => own_answers(results, vault, account, rows, now)?,
    };
    let answered = answers.iter().filter(|&&answer| answer != UNANSWERED).count();
    let completed = answered == rows.len();
    let price = match mode {
        BatchMode::Test(_) => 0,
        BatchMode::Live if of_list => (rows.len() - answered) as u64,
        BatchMode::Live => rows.len() as u64,
    };
    let mut row = BatchRow {
        created_at: now,
        completed_at: if completed { now.max(1) } else { 0 },
        total: rows.len() as u32,
        answered: answered as u32,
        refunded: 0,
        held: Portions::NONE,
        answers: Vec::new(),
        of_list,
    };
    let key = batch_key(account, id);
    let (class, until) = row.sealed_under();
    let sealing_key = vault.sealing_key(class, until)?;
    let mut stored = Vec::new();
    if !completed {
        rows.iter().for_each(|row| stored.extend_from_slice(&row.address.0));
    }
    if !completed || of_list {
        row.answers = sealing_key.seal(answers_place(&key), &answers)?;
    }
    if !completed {
        answers.clear();
    }
    let known = answers.clone();
    let emails = rows.iter().map(|row| row.email.clone()).collect();
    let name = list.map_or_else(|| name.clone(), |list| Some(list.to_string()));
    let text = RowsText { name, emails, answers };
    stored.extend(sealing_key.seal(rows_place(&key), &text.encode())?);
    let is_test = key_mode(mode) == KeyMode::Test;
    Ok(PreparedBatch { id, account, price, is_test, row, rows: stored, known, idempotency })
}

fn own_answers(
    results: Results<'_>,
    vault: &Vault,
    account: AccountId,
    rows: &[NewRow],
    now: UnixMs,
) -> Result<Vec<u8>, StoreError> {
    results.expect_own(account, rows.iter().map(|row| &row.address));
    rows.iter()
        .map(|row| {
            let own = results.own(vault, account, &row.address, now)?;
            Ok(own.map_or(UNANSWERED, |own| reason::verdict_code(&own.verdict)))
        })
        .collect()
}

fn key_mode(mode: &BatchMode) -> KeyMode {
    match mode {
        BatchMode::Live => KeyMode::Live,
        BatchMode::Test(_) => KeyMode::Test,
    }
}

/// Hashes an idempotency key of this account, mode and endpoint, and its request.
pub(crate) fn prepare_key(
    given: &Idempotency,
    vault: &Vault,
    account: AccountId,
    mode: KeyMode,
    endpoint: KeyEndpoint,
) -> PreparedKey {
    let account_bytes = account.to_bytes();
    let scope: &[u8] = match mode {
        KeyMode::Live => b"live",
        KeyMode::Test => b"test",
    };
    let hash = vault.hash("idempotency key", &[&account_bytes, scope, given.key.as_bytes()]);
    let (key, former) = match endpoint {
        KeyEndpoint::Batches => (hash, None),
        KeyEndpoint::Lists => {
            let of_lists =
                vault.hash("idempotency key of a list", &[&account_bytes, scope, given.key.as_bytes()]);
            (of_lists, Some(idempotency_key(account, hash)))
        }
    };
    // The keyed hash prevents guessing: a plain hash of a request with few addresses could be guessed.
    let body = vault.hash("idempotency body", &[&account_bytes, &given.body]);
    PreparedKey { key: idempotency_key(account, key), former, body }
}

/// Answers that are ready to be written, by batch.
pub(crate) struct PreparedAnswers {
    batches: Vec<AnsweredBatch>,
    /// The key for batches that these answers complete.
    finishing_key: VaultKey,
}

struct AnsweredBatch {
    id: BatchId,
    key: [u8; 32],
    answers: Vec<(usize, u8, Option<SealedResult>)>,
}

/// The key for batches that complete now.
pub(crate) fn finishing_key(vault: &Vault, now: UnixMs) -> Result<VaultKey, StoreError> {
    vault.sealing_key(KeyClass::Batch, now.max(1).saturating_add(BATCH_KEEP_MS))
}

/// Batches and their rows, as of one snapshot or transaction.
#[derive(Clone, Copy)]
pub struct Batches<'r>(pub &'r dyn Rows);

impl Batches<'_> {
    /// The key and the row of an open batch.
    pub(crate) fn find(&self, id: BatchId) -> Result<Option<(AccountId, [u8; 32], BatchRow)>, StoreError> {
        let Some(account) = OPEN_BATCHES.peek(self.0, &id.to_bytes())? else { return Ok(None) };
        let key = batch_key(account, id);
        Ok(BATCHES.peek(self.0, &key)?.map(|row| (account, key, row)))
    }

    /// Prepares answers on the caller's thread. Answers to batches that are not open are left out.
    pub(crate) fn prepare(
        &self,
        shared: &Shared,
        answers: &[RowAnswer],
        now: UnixMs,
    ) -> Result<PreparedAnswers, StoreError> {
        let finishing_key = finishing_key(&shared.vault, now)?;
        // The sort is stable, so the first of two answers to a row remains the first.
        let mut answers = answers.to_vec();
        answers.sort_by_key(|answer| answer.batch);
        let mut batches = Vec::new();
        for answers in answers.chunk_by(|one, other| one.batch == other.batch) {
            let id = answers[0].batch;
            let Some((account, key, row)) = self.find(id)? else { continue };
            let hashes = BATCH_ROWS.read(self.0, &key, |rows| {
                split_rows(&row, rows).map(|(hashes, _)| hashes.to_vec()).ok_or_else(damaged)
            })?;
            let Some(hashes) = hashes.transpose()? else { continue };
            let mut prepared = Vec::with_capacity(answers.len());
            for answer in answers {
                let Some(hash) = hashes.get(answer.index as usize) else { continue };
                let (code, result) =
                    self.prepare_one(shared, account, AddressHash(*hash), &answer.outcome, now)?;
                prepared.push((answer.index as usize, code, result));
            }
            batches.push(AnsweredBatch { id, key, answers: prepared });
        }
        Ok(PreparedAnswers { batches, finishing_key })
    }

    fn prepare_one(
        &self,
        shared: &Shared,
        account: AccountId,
        address: AddressHash,
        outcome: &RowOutcome,
        now: UnixMs,
    ) -> Result<(u8, Option<SealedResult>), StoreError> {
        let (verdict, verdict_at) = match outcome.clone() {
            RowOutcome::Unanswered(cause) => {
                return Ok((reason::unanswered_code(shared.kept_cause(cause)), None));
            }
            RowOutcome::Repeated(verdict) => return Ok((reason::verdict_code(&shared.kept(verdict)), None)),
            RowOutcome::Waits(cause) => return Ok((reason::wait_code(cause), None)),
            RowOutcome::Verified(verdict) => (verdict, now),
            RowOutcome::Reused(verdict) => {
                let verdict_at = Results(self.0).verdict_at(&shared.vault, &address, &verdict, now)?;
                (verdict, verdict_at)
            }
        };
        let sealed = results::seal(shared, account, ResultRecord { address, verdict }, verdict_at, now)?;
        Ok((sealed.code, Some(sealed)))
    }

    /// Every open batch, as [`Store::open_batches`](crate::Store::open_batches).
    pub fn open_batches(&self) -> Result<Vec<OpenBatch>, StoreError> {
        let mut found = Vec::new();
        for id in OPEN_BATCHES.keys(self.0, .., usize::MAX)? {
            let id = BatchId::from_bytes(id);
            let Some((account, _, row)) = self.find(id)? else { return Err(damaged()) };
            let BatchRow { created_at, total, answered, .. } = row;
            found.push(OpenBatch { batch: id, account, created_at, total, answered });
        }
        Ok(found)
    }

    /// Those of these batches that are open.
    pub(crate) fn still_open(&self, batches: &[BatchId]) -> Result<Vec<BatchId>, StoreError> {
        let want = |id: &BatchId| Want::peek(Table::OpenBatches, &id.to_bytes());
        self.0.expect(&mut batches.iter().map(want));
        let mut open = Vec::with_capacity(batches.len());
        for id in batches {
            if OPEN_BATCHES.peek(self.0, &id.to_bytes())?.is_some() {
                open.push(*id);
            }
        }
        Ok(open)
    }

    /// The unanswered rows of an open batch. If its key is gone there are none, and the batch waits for its end.
    pub(crate) fn unanswered(&self, vault: &Vault, id: BatchId) -> Result<Vec<OpenRow>, StoreError> {
        let Some((_, key, row)) = self.find(id)? else { return Ok(Vec::new()) };
        let text = BATCH_ROWS.read(self.0, &key, |rows| open_rows(vault, &key, &row, rows))?;
        let Some(text) = text.transpose()? else { return Err(damaged()) };
        let answers = open_answers(vault, &key, &row);
        let Some((answers, text)) = answers.zip(text) else {
            return Ok(Vec::new());
        };
        let rows = (0..).zip(text.emails).zip(answers);
        let open = rows.filter(|(_, answer)| reason::is_open(*answer));
        Ok(open.map(|((index, email), _)| OpenRow { index, email }).collect())
    }
}

fn damaged() -> StoreError {
    StoreError::Failed("the tables of batches disagree".into())
}

fn open_answers(vault: &Vault, key: &[u8; 32], row: &BatchRow) -> Option<Vec<u8>> {
    let (class, until) = row.sealed_under();
    let answers = vault.opening_key(class, until)?.open(answers_place(key), &row.answers)?;
    (answers.len() == row.total as usize).then_some(answers)
}

/// The answers of a batch of a list, one code per row; `None` if they cannot be read any longer.
pub(crate) fn codes_of(
    rows: &dyn Rows,
    vault: &Vault,
    key: &[u8; 32],
    row: &BatchRow,
) -> Result<Option<Vec<u8>>, StoreError> {
    if row.is_open() || !row.answers.is_empty() {
        return Ok(open_answers(vault, key, row));
    }
    // An earlier version has completed it.
    let text = BATCH_ROWS.read(rows, key, |stored| open_rows(vault, key, row, stored))?;
    Ok(text.transpose()?.flatten().map(|text| text.answers))
}

/// `None` if the key is gone.
fn open_rows(
    vault: &Vault,
    key: &[u8; 32],
    row: &BatchRow,
    rows: &[u8],
) -> Result<Option<RowsText>, StoreError> {
    let (class, until) = row.sealed_under();
    let Some(opening_key) = vault.opening_key(class, until) else { return Ok(None) };
    let Some((_, sealed)) = split_rows(row, rows) else { return Err(damaged()) };
    opening_key.open(rows_place(key), sealed).map(|text| RowsText::decode(&text)).transpose()
}

impl Txn<'_> {
    /// Writes a prepared batch with its charge, or returns the answer of its idempotency key.
    pub(crate) fn create_batch(
        &mut self,
        new: &PreparedBatch,
        now: UnixMs,
    ) -> Result<BatchCreated, WriteError<BatchError>> {
        if let Some(given) = &new.idempotency
            && let Some(first) = self.remembered(&given.key)?.filter(|first| now < first.expires_at())
        {
            return if first.body == given.body { Ok(first.replay()) } else { refuse(BatchError::KeyReused) };
        }
        let PreparedBatch { id, account, price, ref rows, ref known, ref idempotency, .. } = *new;
        let mut row = new.row.clone();
        let balance = self
            .charge_new(account, id, price, &mut row, now)
            .map_err(|error| error.map(BatchError::from))?;
        let key = batch_key(account, id);
        // Those of a list go when the list has their answers, and its bytes are limited.
        if !row.of_list {
            self.count_stored(account, &row, rows.len(), price, now)?;
        }
        BATCH_ROWS.write(self.rows, &key, rows)?;
        BATCHES.put(self.rows, &key, &row)?;
        if row.is_open() {
            OPEN_BATCHES.put(self.rows, &id.to_bytes(), &account)?;
            self.expire_at(Expiring::OpenBatch, row.given_up_at(), &key, now)?;
        } else {
            if !new.is_test {
                self.settle_batch(account, id, &row, (known, None), now)?;
            }
            self.expire_at(Expiring::Batch, row.expires_at(), &key, now)?;
            self.note_batch_event(EventKind::BatchCompleted, (account, id), &row, known, now)?;
        }
        let created = BatchCreated {
            batch: id,
            submitted: row.total,
            completed: !row.is_open(),
            credits_remaining: balance.map(|balance| balance.available()),
            replayed: false,
        };
        if let Some(given) = idempotency {
            self.remember(given, &created, now)?;
        }
        Ok(created)
    }

    /// Holds a new batch's credits; for one without a price, checks that it can be created.
    fn charge_new(
        &mut self,
        account: AccountId,
        id: BatchId,
        price: u64,
        row: &mut BatchRow,
        now: UnixMs,
    ) -> Result<Option<Balance>, WriteError<HoldError>> {
        let hold = HoldRef { account, id: EntryId::of_batch(id) };
        if BATCHES.has(self.rows(), &batch_key(account, id))? {
            return refuse(HoldError::Exists);
        }
        if price == 0 {
            let known = self.has_account(account)?;
            return if known { Ok(None) } else { refuse(HoldError::UnknownAccount) };
        }
        let (account, portions) = self.set_aside(hold, price, now)?;
        row.held = portions;
        self.save(&account)?;
        Ok(Some(account.row.subscription.balance))
    }

    /// Removes a complete batch before its expiry.
    pub(crate) fn remove_batch(&mut self, key: &[u8; 32], row: &BatchRow) -> Result<(), StoreError> {
        self.unexpire(Expiring::Batch, row.expires_at(), key)?;
        BATCH_ROWS.remove(self.rows, key)?;
        BATCHES.remove(self.rows, key)
    }

    /// The row of an idempotency key, also after its end.
    pub(crate) fn remembered(&self, key: &[u8; 32]) -> Result<Option<IdempotencyRow>, StoreError> {
        IDEMPOTENCY.get(self.rows(), key)
    }

    /// Stores an idempotency key with its answer.
    pub(crate) fn remember(
        &mut self,
        given: &PreparedKey,
        created: &BatchCreated,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        if let Some(expired) = self.remembered(&given.key)? {
            self.unexpire(Expiring::Idempotency, expired.expires_at(), &given.key)?;
        }
        let BatchCreated { batch, submitted, completed, credits_remaining, replayed: _ } = *created;
        let row = IdempotencyRow {
            created_at: now,
            body: given.body,
            batch,
            submitted,
            completed,
            credits_remaining,
        };
        IDEMPOTENCY.put(self.rows, &given.key, &row)?;
        self.expire_at(Expiring::Idempotency, row.expires_at(), &given.key, now)
    }

    /// Says what [`Txn::answer_rows`] will read.
    fn expect_answers(&self, prepared: &PreparedAnswers, now: UnixMs) {
        let batches = prepared.batches.iter().flat_map(|batch| {
            let (account, _) = split(&batch.key);
            let day = day_key(AccountId::from_bytes(account), days::day(now));
            let results = batch.answers.iter().filter_map(|(_, _, result)| result.as_ref());
            let results = results.map(|result| Want::row(Table::Results, &result.key));
            let own = [
                Want::row(Table::Accounts, &account),
                Want::row(Table::Batches, &batch.key),
                Want::row(Table::Days, &day),
            ];
            own.into_iter().chain(results)
        });
        self.rows().expect(&mut { batches });
    }

    /// Writes answers; returns the batches that they complete.
    pub(crate) fn answer_rows(
        &mut self,
        prepared: &PreparedAnswers,
        now: UnixMs,
    ) -> Result<Vec<BatchId>, StoreError> {
        let mut completed = Vec::new();
        self.expect_answers(prepared, now);
        let is_note = |&(_, code, _): &(usize, u8, Option<SealedResult>)| reason::is_open(code);
        let has_notes = prepared.batches.iter().any(|batch| batch.answers.iter().any(is_note));
        // A node of an earlier version would take the code of a wait for an answer.
        let may_note = has_notes && self.lacks_format(FORMAT_OF_WAITS)?.is_none();
        for batch in &prepared.batches {
            let Some(mut row) = self.open_batch(&batch.key)? else { continue };
            if !may_note && batch.answers.iter().all(is_note) {
                continue;
            }
            let (class, until) = row.sealed_under();
            let answers = open_answers(&self.shared.vault, &batch.key, &row);
            let Some((key, mut answers)) = self.shared.vault.opening_key(class, until).zip(answers) else {
                continue;
            };
            for &(index, code, ref result) in &batch.answers {
                if let Some(slot) = answers.get_mut(index).filter(|slot| reason::is_open(**slot)) {
                    if reason::is_open(code) {
                        if may_note {
                            *slot = code;
                        }
                        continue;
                    }
                    *slot = code;
                    row.answered += 1;
                    // In a list, the account's own result is free. Only such an answer has no result, besides those that are refunded.
                    let is_own = row.of_list && result.is_none();
                    row.refunded += u32::from(reason::is_refunded(code) || is_own);
                    result.as_ref().map_or(Ok(()), |result| self.put_result(result))?;
                }
            }
            if row.answered == row.total {
                let end = (EventKind::BatchCompleted, answers);
                self.finish(&batch.key, row, end, &prepared.finishing_key, now)?;
                completed.push(batch.id);
            } else {
                row.answers = key.seal(answers_place(&batch.key), &answers)?;
                BATCHES.put(self.rows, &batch.key, &row)?;
            }
        }
        Ok(completed)
    }

    /// Ends an open batch, after its longest time or because its owner cancels it: unanswered rows are refunded. A batch that can
    /// no longer be read, because its key is gone, is removed and its charge settled. `None` if it is not open.
    pub(crate) fn give_up(
        &mut self,
        key: &[u8; 32],
        event: EventKind,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<Option<EndedBatch>, StoreError> {
        let Some(mut row) = self.open_batch(key)? else { return Ok(None) };
        let answers = open_answers(&self.shared.vault, key, &row);
        row.refunded += row.total - row.answered;
        row.answered = row.total;
        let charged = row.charged();
        let codes = match answers {
            Some(mut answers) => {
                answers.iter_mut().filter(|slot| reason::is_open(**slot)).for_each(|slot| *slot = GIVEN_UP);
                self.finish(key, row, (event, answers.clone()), finishing_key, now)?;
                answers
            }
            None => {
                self.close_unreadable(key, &row, now)?;
                Vec::new()
            }
        };
        Ok(Some(EndedBatch { codes, charged }))
    }

    /// Ends a batch for its owner, and returns its state; `None` for a batch of a list, and if there is no such batch.
    pub(crate) fn cancel_batch(
        &mut self,
        account: AccountId,
        id: BatchId,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<Option<BatchView>, StoreError> {
        let key = batch_key(account, id);
        match BATCHES.get(self.rows(), &key)? {
            Some(row) if !row.of_list => {
                self.give_up(&key, EventKind::BatchCancelled, finishing_key, now)?;
                view(self.rows(), &self.shared.vault, account, id, now)
            }
            _ => Ok(None),
        }
    }

    /// The answers of a complete batch; `None` if it has expired or is open.
    pub(crate) fn answers_of(
        &self,
        account: AccountId,
        id: BatchId,
        now: UnixMs,
    ) -> Result<Option<EndedBatch>, StoreError> {
        let key = batch_key(account, id);
        let row = BATCHES.get(self.rows(), &key)?.filter(|row| !row.is_open() && now < row.expires_at());
        let Some(row) = row else { return Ok(None) };
        let vault = &self.shared.vault;
        let text = BATCH_ROWS.read(self.rows(), &key, |rows| open_rows(vault, &key, &row, rows))?;
        let Some(text) = text.transpose()?.flatten() else { return Ok(None) };
        Ok(Some(EndedBatch { codes: text.answers, charged: row.charged() }))
    }

    fn open_batch(&self, key: &[u8; 32]) -> Result<Option<BatchRow>, StoreError> {
        Ok(BATCHES.get(self.rows(), key)?.filter(BatchRow::is_open))
    }

    /// Completes a batch: rows and answers are sealed together under the key for the batch's expiry, and the charge is
    /// settled.
    fn finish(
        &mut self,
        key: &[u8; 32],
        mut row: BatchRow,
        (event, answers): (EventKind, Vec<u8>),
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let vault = &self.shared.vault;
        let text = BATCH_ROWS.read(self.rows(), key, |rows| open_rows(vault, key, &row, rows))?;
        let Some(text) = text.transpose()?.ok_or_else(damaged)? else {
            return self.close_unreadable(key, &row, now);
        };
        let (account, id) = self.no_longer_open(key, &row)?;
        self.note_batch_event(event, (account, id), &row, &answers, now)?;
        row.completed_at = now.max(1);
        // The progress of a list is read from the rows of its batches, without their addresses.
        row.answers = match row.of_list {
            true => finishing_key.seal(answers_place(key), &answers)?,
            false => Vec::new(),
        };
        self.settle_batch(account, id, &row, (&answers, text.name.as_deref()), now)?;
        let sealed = finishing_key.seal(rows_place(key), &RowsText { answers, ..text }.encode())?;
        self.count_refunded(account, &row, sealed.len())?;
        BATCH_ROWS.write(self.rows, key, &sealed)?;
        BATCHES.put(self.rows, key, &row)?;
        self.expire_at(Expiring::Batch, row.expires_at(), key, now)
    }

    fn close_unreadable(&mut self, key: &[u8; 32], row: &BatchRow, now: UnixMs) -> Result<(), StoreError> {
        let (account, id) = self.no_longer_open(key, row)?;
        self.settle_batch(account, id, row, (&[], None), now)?;
        BATCH_ROWS.remove(self.rows, key)?;
        BATCHES.remove(self.rows, key)
    }

    fn no_longer_open(&mut self, key: &[u8; 32], row: &BatchRow) -> Result<(AccountId, BatchId), StoreError> {
        let (account, id) = split(key);
        OPEN_BATCHES.remove(self.rows, &id)?;
        self.unexpire(Expiring::OpenBatch, row.given_up_at(), key)?;
        Ok((AccountId::from_bytes(account), BatchId::from_bytes(id)))
    }

    /// Tells the endpoints of the account that a batch has ended. A batch of a list creates no event.
    fn note_batch_event(
        &mut self,
        kind: EventKind,
        (account, id): (AccountId, BatchId),
        row: &BatchRow,
        answers: &[u8],
        now: UnixMs,
    ) -> Result<(), StoreError> {
        if row.of_list {
            return Ok(());
        }
        self.note_event(account, &batch_event(kind, id, row.total, answers), now)
    }

    fn settle_batch(
        &mut self,
        account: AccountId,
        id: BatchId,
        row: &BatchRow,
        (answers, name): (&[u8], Option<&str>),
        now: UnixMs,
    ) -> Result<(), StoreError> {
        self.count_day(account, Charged::Rows, answers, now)?;
        if row.held.credits() == 0 {
            return Ok(());
        }
        let (spent, back) = row.held.split(u64::from(row.refunded));
        let note = charged_for(id, row, name).map(|what| what.to_string()).unwrap_or_default();
        self.end_portions(HoldRef { account, id: EntryId::of_batch(id) }, (spent, back), note, now)
    }
}

/// The purpose of a batch's charge. `None` if the batch is of a list with an unknown id: the rows, which have the id, cannot be read
/// any longer, or an earlier version created the batch without the id.
fn charged_for(id: BatchId, row: &BatchRow, name: Option<&str>) -> Option<ChargedFor> {
    match row.of_list {
        true => name?.parse().ok().map(ChargedFor::List),
        false => Some(ChargedFor::Batch(id)),
    }
}

impl IdempotencyRow {
    fn replay(&self) -> BatchCreated {
        let IdempotencyRow { batch, submitted, completed, credits_remaining, .. } = *self;
        BatchCreated { batch, submitted, completed, credits_remaining, replayed: true }
    }
}
