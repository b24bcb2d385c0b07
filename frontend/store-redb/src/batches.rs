//! Batches: created with their charge and idempotency key in one transaction, answered row by row, and settled after
//! the last answer.
//!
//! The caller's thread does the slow work (hashing, sealing, look-ups) with a snapshot. The writer checks what may have
//! changed since then, and stores the bytes. It opens and seals only the answers, one byte per row, and the rows once,
//! at completion.

use super::days::Charged;
use super::reason::{self, GIVEN_UP, UNANSWERED};
use super::results::{self, Results, SealedResult};
use super::row::Row;
use super::tables::{
    BatchRow, Expiring, IdempotencyRow, RowsText, batch_key, idempotency_key, split, split_rows,
};
use super::txn::Txn;
use super::vault::{KeyClass, Place, Vault, VaultKey};
use super::write_error::{WriteError, refuse};
use ::redb::ReadableTable;
use store::credits::{Balance, Portions};
use store::*;
use store::{AccountId, BatchError, BatchId, EntryId, HoldError, StoreError};

/// The place of a batch's answers, which differs from that of its rows.
fn answers_place(key: &[u8; 32]) -> Place<'_> {
    Place { table: BatchRow::TABLE, row: key }
}

fn rows_place(key: &[u8; 32]) -> Place<'_> {
    Place { table: RowsText::TABLE, row: key }
}

/// A batch that is ready to be written, except for its credits.
pub(super) struct PreparedBatch {
    id: BatchId,
    account: AccountId,
    charged: bool,
    row: BatchRow,
    rows: Vec<u8>,
    /// The answers of a batch that is complete at once.
    known: Vec<u8>,
    idempotency: Option<PreparedKey>,
}

/// The keyed hashes of an idempotency key and its request.
struct PreparedKey {
    key: [u8; 32],
    body: [u8; 16],
}

/// Prepares a batch on the caller's thread.
pub(super) fn prepare(
    results: &Results,
    vault: &Vault,
    new: NewBatch,
    now: UnixMs,
) -> Result<PreparedBatch, BatchError> {
    let NewBatch { id, account, name, rows, idempotency, mode } = new;
    let fits = match &mode {
        BatchMode::Live => true,
        BatchMode::Test(reasons) => reasons.len() == rows.len(),
    };
    if rows.is_empty() || rows.len() > BATCH_ROWS_MAX || !fits {
        return Err(HoldError::BadAmount.into());
    }
    let idempotency = idempotency.map(|given| prepare_key(&given, vault, account, &mode));
    let charged = mode == BatchMode::Live;
    let mut answers = match mode {
        BatchMode::Test(reasons) => reasons.into_iter().map(reason::code).collect(),
        BatchMode::Live => own_answers(results, vault, account, &rows, now)?,
    };
    let answered = answers.iter().filter(|&&answer| answer != UNANSWERED).count();
    let completed = answered == rows.len();
    let mut row = BatchRow {
        created_at: now,
        completed_at: if completed { now.max(1) } else { 0 },
        total: rows.len() as u32,
        answered: answered as u32,
        refunded: 0,
        held: Portions::NONE,
        answers: Vec::new(),
    };
    let key = batch_key(account, id);
    let (class, until) = row.sealed_under();
    let sealing_key = vault.sealing_key(class, until)?;
    let mut stored = Vec::new();
    if !completed {
        rows.iter().for_each(|row| stored.extend_from_slice(&row.address.0));
        row.answers = sealing_key.seal(answers_place(&key), &answers)?;
        answers.clear();
    }
    let known = answers.clone();
    let text = RowsText { name, emails: rows.into_iter().map(|row| row.email).collect(), answers };
    stored.extend(sealing_key.seal(rows_place(&key), &text.encode())?);
    Ok(PreparedBatch { id, account, charged, row, rows: stored, known, idempotency })
}

fn own_answers(
    results: &Results,
    vault: &Vault,
    account: AccountId,
    rows: &[NewRow],
    now: UnixMs,
) -> Result<Vec<u8>, StoreError> {
    rows.iter()
        .map(|row| {
            let own = results.own(vault, account, &row.address, now)?;
            Ok(own.map_or(UNANSWERED, |own| reason::code(own.verdict.reason)))
        })
        .collect()
}

fn prepare_key(given: &Idempotency, vault: &Vault, account: AccountId, mode: &BatchMode) -> PreparedKey {
    let account_bytes = account.to_bytes();
    let scope: &[u8] = match mode {
        BatchMode::Live => b"live",
        BatchMode::Test(_) => b"test",
    };
    let hash = vault.hash("idempotency key", &[&account_bytes, scope, given.key.as_bytes()]);
    // The keyed hash prevents guessing: a plain hash of a request with few addresses could be guessed.
    let body = vault.hash("idempotency body", &[&account_bytes, &given.body]);
    PreparedKey { key: idempotency_key(account, hash), body }
}

/// Answers that are ready to be written, by batch.
pub(super) struct PreparedAnswers {
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
pub(super) fn finishing_key(vault: &Vault, now: UnixMs) -> Result<VaultKey, StoreError> {
    vault.sealing_key(KeyClass::Batch, now.max(1).saturating_add(BATCH_KEEP_MS))
}

/// The tables that are needed to prepare answers.
pub(super) struct Tables<O, B, W> {
    pub open: O,
    pub batches: B,
    pub rows: W,
    pub results: Results,
}

/// A table whose key has two halves.
pub(super) trait PairTable: ReadableTable<&'static [u8; 32], &'static [u8]> {}
impl<T: ReadableTable<&'static [u8; 32], &'static [u8]>> PairTable for T {}

/// The table with the accounts of open batches.
pub(super) trait OpenTable: ReadableTable<&'static [u8; 16], &'static [u8; 16]> {}
impl<T: ReadableTable<&'static [u8; 16], &'static [u8; 16]>> OpenTable for T {}

impl<O: OpenTable, B: PairTable, W: PairTable> Tables<O, B, W> {
    /// The key and the row of an open batch.
    pub fn find(&self, id: BatchId) -> Result<Option<(AccountId, [u8; 32], BatchRow)>, StoreError> {
        let Some(account) = self.open.get(&id.to_bytes())? else { return Ok(None) };
        let account = AccountId::from_bytes(*account.value());
        let key = batch_key(account, id);
        let Some(row) = self.batches.get(&key)? else { return Ok(None) };
        Ok(Some((account, key, BatchRow::decode(row.value())?)))
    }

    /// Prepares answers on the caller's thread. Answers to batches that are not open are left out.
    pub fn prepare(
        &self,
        vault: &Vault,
        mut answers: Vec<RowAnswer>,
        now: UnixMs,
    ) -> Result<PreparedAnswers, StoreError> {
        let finishing_key = finishing_key(vault, now)?;
        // The sort is stable, so the first of two answers to a row remains the first.
        answers.sort_by_key(|answer| answer.batch);
        let mut batches = Vec::new();
        for answers in answers.chunk_by(|one, other| one.batch == other.batch) {
            let id = answers[0].batch;
            let Some((account, key, row)) = self.find(id)? else { continue };
            let Some(rows) = self.rows.get(&key)? else { continue };
            let Some((hashes, _)) = split_rows(&row, rows.value()) else { return Err(damaged()) };
            let mut prepared = Vec::with_capacity(answers.len());
            for answer in answers {
                let Some(hash) = hashes.get(answer.index as usize) else { continue };
                let (code, result) =
                    self.prepare_one(vault, account, AddressHash(*hash), answer.outcome, now)?;
                prepared.push((answer.index as usize, code, result));
            }
            batches.push(AnsweredBatch { id, key, answers: prepared });
        }
        Ok(PreparedAnswers { batches, finishing_key })
    }

    fn prepare_one(
        &self,
        vault: &Vault,
        account: AccountId,
        address: AddressHash,
        outcome: RowOutcome,
        now: UnixMs,
    ) -> Result<(u8, Option<SealedResult>), StoreError> {
        let (verdict, verdict_at) = match outcome {
            RowOutcome::Unanswered => return Ok((GIVEN_UP, None)),
            RowOutcome::Repeated(reason) => return Ok((reason::code(reason), None)),
            RowOutcome::Verified(verdict) => (verdict, now),
            RowOutcome::Reused(verdict) => {
                let record = ResultRecord { address, verdict };
                (verdict, self.results.verdict_at(vault, &record, now)?)
            }
        };
        let sealed = results::seal(vault, account, ResultRecord { address, verdict }, verdict_at, now)?;
        Ok((reason::code(verdict.reason), Some(sealed)))
    }

    /// Every open batch, as [`store::Store::open_batches`].
    pub fn open_batches(&self) -> Result<Vec<OpenBatch>, StoreError> {
        let mut found = Vec::new();
        for next in self.open.iter()? {
            let id = BatchId::from_bytes(*next?.0.value());
            let Some((account, _, row)) = self.find(id)? else { return Err(damaged()) };
            let BatchRow { created_at, total, answered, .. } = row;
            found.push(OpenBatch { batch: id, account, created_at, total, answered });
        }
        Ok(found)
    }

    /// The unanswered rows of an open batch. If its key is gone there are none, and the batch waits for its end.
    pub fn unanswered(&self, vault: &Vault, id: BatchId) -> Result<Vec<OpenRow>, StoreError> {
        let Some((_, key, row)) = self.find(id)? else { return Ok(Vec::new()) };
        let Some(rows) = self.rows.get(&key)? else { return Err(damaged()) };
        let answers = open_answers(vault, &key, &row);
        let Some((answers, text)) = answers.zip(open_rows(vault, &key, &row, rows.value())?) else {
            return Ok(Vec::new());
        };
        let rows = (0..).zip(text.emails).zip(answers);
        let open = rows.filter(|(_, answer)| *answer == UNANSWERED);
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

/// A batch from the view of its owner.
pub(super) fn view(
    batches: &impl PairTable,
    rows: &impl PairTable,
    vault: &Vault,
    account: AccountId,
    id: BatchId,
    now: UnixMs,
) -> Result<Option<BatchView>, StoreError> {
    let key = batch_key(account, id);
    let Some(row) = batches.get(&key)? else { return Ok(None) };
    let row = BatchRow::decode(row.value())?;
    let view =
        BatchView { completed: false, total: row.total, checked: row.answered, name: None, results: None };
    if row.is_open() {
        return Ok(Some(view));
    }
    if now >= row.expires_at() {
        return Ok(None);
    }
    let Some(stored) = rows.get(&key)? else { return Err(damaged()) };
    let Some(RowsText { name, emails, answers }) = open_rows(vault, &key, &row, stored.value())? else {
        return Ok(None);
    };
    let reasons: Option<Vec<_>> = answers.into_iter().map(reason::of_answer).collect();
    let reasons = reasons.filter(|reasons| reasons.len() == emails.len()).ok_or_else(damaged)?;
    let results = emails.into_iter().zip(reasons).collect();
    Ok(Some(BatchView { completed: true, name, results: Some(results), ..view }))
}

impl Txn<'_> {
    /// Writes a prepared batch with its charge, or returns the answer of its idempotency key.
    pub fn create_batch(
        &mut self,
        new: PreparedBatch,
        now: UnixMs,
    ) -> Result<BatchCreated, WriteError<BatchError>> {
        if let Some(given) = &new.idempotency
            && let Some(first) = self.remembered(&given.key)?.filter(|first| now < first.expires_at())
        {
            return if first.body == given.body { Ok(first.replay()) } else { refuse(BatchError::KeyReused) };
        }
        let PreparedBatch { id, account, charged, mut row, rows, known, idempotency } = new;
        let balance = self
            .charge_new(account, id, charged.then_some(&mut row), now)
            .map_err(|error| error.map(BatchError::from))?;
        let key = batch_key(account, id);
        self.batch_rows.insert(&key, rows.as_slice())?;
        self.batches.insert(&key, row.encode().as_slice())?;
        if row.is_open() {
            self.open_batches.insert(&id.to_bytes(), &account.to_bytes())?;
            self.expire_at(Expiring::OpenBatch, row.given_up_at(), &key, now)?;
        } else {
            self.settle_batch(account, id, &row, &known, now)?;
            self.expire_at(Expiring::Batch, row.expires_at(), &key, now)?;
        }
        let created = BatchCreated {
            batch: id,
            submitted: row.total,
            completed: !row.is_open(),
            credits_remaining: balance.map(|balance| balance.available()),
            replayed: false,
        };
        if let Some(given) = idempotency {
            self.remember(&given, &created, now)?;
        }
        Ok(created)
    }

    /// Holds a new batch's credits; for an uncharged one, checks that it can be created.
    fn charge_new(
        &mut self,
        account: AccountId,
        id: BatchId,
        charged: Option<&mut BatchRow>,
        now: UnixMs,
    ) -> Result<Option<Balance>, WriteError<HoldError>> {
        let hold = HoldRef { account, id: EntryId::of_batch(id) };
        if self.batches.get(&batch_key(account, id))?.is_some() {
            return refuse(HoldError::Exists);
        }
        let Some(row) = charged else {
            let known = self.accounts.get(&account.to_bytes())?.is_some();
            return if known { Ok(None) } else { refuse(HoldError::UnknownAccount) };
        };
        let (account, portions) = self.set_aside(hold, u64::from(row.total), now)?;
        row.held = portions;
        self.save(&account)?;
        Ok(Some(account.row.subscription.balance))
    }

    fn remembered(&self, key: &[u8; 32]) -> Result<Option<IdempotencyRow>, StoreError> {
        self.idempotency.get(key)?.map(|row| IdempotencyRow::decode(row.value())).transpose()
    }

    fn remember(
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
        self.idempotency.insert(&given.key, row.encode().as_slice())?;
        self.expire_at(Expiring::Idempotency, row.expires_at(), &given.key, now)
    }

    /// Writes answers; returns the batches that they complete.
    pub fn answer_rows(
        &mut self,
        prepared: PreparedAnswers,
        now: UnixMs,
    ) -> Result<Vec<BatchId>, StoreError> {
        let mut completed = Vec::new();
        for batch in prepared.batches {
            let Some(mut row) = self.open_batch(&batch.key)? else { continue };
            let (class, until) = row.sealed_under();
            let answers = open_answers(self.vault, &batch.key, &row);
            let Some((key, mut answers)) = self.vault.opening_key(class, until).zip(answers) else {
                continue;
            };
            for (index, code, result) in batch.answers {
                if let Some(slot) = answers.get_mut(index).filter(|slot| **slot == UNANSWERED) {
                    *slot = code;
                    row.answered += 1;
                    row.refunded += u32::from(code == GIVEN_UP);
                    result.map_or(Ok(()), |result| self.put_result(&result))?;
                }
            }
            if row.answered == row.total {
                self.finish(&batch.key, row, answers, &prepared.finishing_key, now)?;
                completed.push(batch.id);
            } else {
                row.answers = key.seal(answers_place(&batch.key), &answers)?;
                self.batches.insert(&batch.key, row.encode().as_slice())?;
            }
        }
        Ok(completed)
    }

    /// Ends an open batch after its longest time: unanswered rows are refunded. A batch that can no longer be read,
    /// because its key is gone, is removed and its charge settled.
    pub fn give_up(
        &mut self,
        key: &[u8; 32],
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let Some(mut row) = self.open_batch(key)? else { return Ok(()) };
        let answers = open_answers(self.vault, key, &row);
        row.refunded += row.total - row.answered;
        row.answered = row.total;
        match answers {
            Some(mut answers) => {
                answers.iter_mut().filter(|slot| **slot == UNANSWERED).for_each(|slot| *slot = GIVEN_UP);
                self.finish(key, row, answers, finishing_key, now)
            }
            None => self.close_unreadable(key, &row, now),
        }
    }

    fn open_batch(&self, key: &[u8; 32]) -> Result<Option<BatchRow>, StoreError> {
        let row = self.batches.get(key)?.map(|row| BatchRow::decode(row.value())).transpose()?;
        Ok(row.filter(BatchRow::is_open))
    }

    /// Completes a batch: rows and answers are sealed together under the key for the batch's expiry, and the charge is
    /// settled.
    fn finish(
        &mut self,
        key: &[u8; 32],
        mut row: BatchRow,
        answers: Vec<u8>,
        finishing_key: &VaultKey,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let text = match self.batch_rows.get(key)? {
            Some(rows) => open_rows(self.vault, key, &row, rows.value())?,
            None => return Err(damaged()),
        };
        let Some(text) = text else { return self.close_unreadable(key, &row, now) };
        let (account, id) = self.no_longer_open(key, &row)?;
        row.completed_at = now.max(1);
        row.answers = Vec::new();
        self.settle_batch(account, id, &row, &answers, now)?;
        let sealed = finishing_key.seal(rows_place(key), &RowsText { answers, ..text }.encode())?;
        self.batch_rows.insert(key, sealed.as_slice())?;
        self.batches.insert(key, row.encode().as_slice())?;
        self.expire_at(Expiring::Batch, row.expires_at(), key, now)
    }

    fn close_unreadable(&mut self, key: &[u8; 32], row: &BatchRow, now: UnixMs) -> Result<(), StoreError> {
        let (account, id) = self.no_longer_open(key, row)?;
        self.settle_batch(account, id, row, &[], now)?;
        self.batch_rows.remove(key)?;
        self.batches.remove(key)?;
        Ok(())
    }

    fn no_longer_open(&mut self, key: &[u8; 32], row: &BatchRow) -> Result<(AccountId, BatchId), StoreError> {
        let (account, id) = split(key);
        self.open_batches.remove(&id)?;
        self.unexpire(Expiring::OpenBatch, row.given_up_at(), key)?;
        Ok((AccountId::from_bytes(account), BatchId::from_bytes(id)))
    }

    fn settle_batch(
        &mut self,
        account: AccountId,
        id: BatchId,
        row: &BatchRow,
        answers: &[u8],
        now: UnixMs,
    ) -> Result<(), StoreError> {
        // A test batch holds no credits.
        if row.held.credits() == 0 {
            return Ok(());
        }
        self.count_day(account, Charged::Rows, answers, now)?;
        let (spent, back) = row.held.split(u64::from(row.refunded));
        self.end_portions(HoldRef { account, id: EntryId::of_batch(id) }, spent, back, now)
    }
}

impl IdempotencyRow {
    fn replay(&self) -> BatchCreated {
        let IdempotencyRow { batch, submitted, completed, credits_remaining, .. } = *self;
        BatchCreated { batch, submitted, completed, credits_remaining, replayed: true }
    }
}
