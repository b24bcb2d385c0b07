//! Batches, and the removal of expired data.

use super::{Prepared, Store};
use crate::backend::{Class, Job, Want};
use crate::batches::{self, Batches};
use crate::clock_check;
use crate::results::Results;
use crate::rows::{Rows, Table};
use crate::shared::Shared;
use crate::tables::batch_key;
use crate::write_error::refuse;
use store::*;

impl Store {
    /// Charges a batch, creates it and stores its idempotency key in one transaction. A known key is answered before
    /// the credits are checked. Rows with the account's own result of the last 24 hours are answered from it, so the
    /// batch may be complete at once.
    ///
    /// The batch's credits are a hold that is not voided when the store opens. It is settled when the batch completes.
    pub fn create_batch(
        &self,
        new: NewBatch,
        by: Authority,
        now: UnixMs,
    ) -> Pending<BatchCreated, BatchError> {
        let account = new.account;
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            batches::prepare(Results(rows), &shared.vault, &new, None, now).map(Prepared::Write)
        };
        self.write_prepared(Job::of(account, Class::New), prepare, move |txn, batch| {
            txn.check_caller(account, &by, now).map_err(|error| error.map(BatchError::from))?;
            txn.create_batch(batch, now)
        })
    }

    /// Every batch with unanswered rows, in the order of creation.
    pub fn open_batches(&self) -> Pending<Vec<OpenBatch>, StoreError> {
        self.scan(|_, rows| Batches(rows).open_batches())
    }

    /// Claims unfinished batches that nobody works on, oldest first: those from before the start, and those of nodes that have
    /// died. Each is returned once.
    pub fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError> {
        self.backend.claim_batches(most)
    }

    /// The unanswered rows of a batch in order; none for a complete or missing batch.
    pub fn unanswered(&self, batch: BatchId) -> Pending<Vec<OpenRow>, StoreError> {
        self.read(None, move |shared, rows| Batches(rows).unanswered(&shared.vault, batch))
    }

    /// Answers rows of one or several batches, and returns the batches that are complete by it. A row that is missing
    /// or was already answered is ignored. It is accepted even if the queue is full.
    pub fn answer_rows(&self, answers: Vec<RowAnswer>, now: UnixMs) -> Pending<Vec<BatchId>, StoreError> {
        let job = Job::general(Class::Answer);
        let prepare = move |shared: &Shared, rows: &dyn Rows| {
            Batches(rows).prepare(shared, &answers, now).map(Prepared::Write)
        };
        self.write_prepared(job, prepare, move |txn, answers| Ok(txn.answer_rows(answers, now)?))
    }

    /// A batch of this account; `None` after [`BATCH_KEEP_MS`] from its completion.
    pub fn batch(
        &self,
        account: AccountId,
        id: BatchId,
        now: UnixMs,
    ) -> Pending<Option<BatchView>, StoreError> {
        let wants = move |out: &mut Vec<Want>| {
            let key = batch_key(account, id);
            out.push(Want::peek(Table::Batches, &key));
            out.push(Want::peek(Table::BatchRows, &key));
        };
        self.read(Some(Box::new(wants)), move |shared, rows| {
            batches::view(rows, &shared.vault, account, id, now)
        })
    }

    /// The account's readable batches before `after`, newest first, at most `limit`. A page can have fewer although there is a
    /// next one, because batches of lists are left out.
    pub fn batches(
        &self,
        account: AccountId,
        after: Option<BatchId>,
        limit: usize,
        now: UnixMs,
    ) -> Pending<BatchPage, StoreError> {
        self.read(None, move |shared, rows| batches::page(rows, &shared.vault, account, after, limit, now))
    }

    /// Ends a batch of this account. Rows without an answer become `unverifiable` and are refunded, and a later answer to them is
    /// ignored. A complete batch stays as it is. `None` as in [`Store::batch`], and for a batch of a list.
    pub fn cancel_batch(
        &self,
        account: AccountId,
        id: BatchId,
        now: UnixMs,
    ) -> Pending<Option<BatchView>, StoreError> {
        Pending::begin(|| {
            let finishing_key = batches::finishing_key(&self.shared().vault, now)?;
            let job = Job::of(account, Class::New).with_wants(move |out| {
                let key = batch_key(account, id);
                out.push(Want::row(Table::Batches, &key));
                out.push(Want::row(Table::BatchRows, &key));
            });
            Ok(self.write(job, move |txn| Ok(txn.cancel_batch(account, id, &finishing_key, now)?)))
        })
    }

    /// Those of these batches that have unanswered rows.
    pub fn still_open(&self, batches: Vec<BatchId>) -> Pending<Vec<BatchId>, StoreError> {
        self.read(None, move |_, rows| Batches(rows).still_open(&batches))
    }

    /// Removes a limited amount of expired data: results, batches, idempotency keys and keys of the vault. Ends batches
    /// that were unfinished for [`BATCH_OPEN_MS`]. Expired data cannot be read even before. It must be called each
    /// minute, and again while there is more to remove.
    pub fn purge(&self, now: UnixMs) -> Pending<Purged, StoreError> {
        let shared = self.shared();
        // Rows are removed even if a key file cannot be created or destroyed: that must not fail a write.
        let prepared = shared.vault.prepare(now);
        if !shared.clock_check.removes(now) {
            return Pending::ready(prepared.map(|()| Purged::default()));
        }
        let finishing_key = batches::finishing_key(&shared.vault, now).ok();
        self.write(Job::general(Class::Answer), move |txn| {
            clock_check::note(txn.rows, now)?;
            let purged = txn.purge(finishing_key.as_ref(), now)?;
            let expired = txn.shared.vault.expire(now);
            // The tables are in order whatever the key files are.
            match prepared.clone().and(expired) {
                Ok(vault_keys) => Ok(Purged { vault_keys, ..purged }),
                Err(error) => refuse(error),
            }
        })
    }
}
