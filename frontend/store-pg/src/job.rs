//! Reads and writes as the lanes see them: the work of the rules with the reply to its caller.

mod caller;

pub use caller::{Deadlines, WAIT_MAX};

use crate::lane::GroupJob;
use crate::reads::ReadJob;
use caller::Caller;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Reply, StoreError};
use store_rules::backend::{Class, Job, Lock, Prepared, Want, Wants};
use store_rules::rows::{Each, KeyRange, Rows, RowsMut, Table};
use store_rules::shared::Shared;
use store_rules::txn::{Effects, Txn};
use store_rules::write_error::WriteError;

/// Counts a job from its call to its end.
pub struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    /// Counts one more, until this is dropped.
    pub fn new(count: &Arc<AtomicUsize>) -> Waiting {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A write of the rules: `prepare` reads without locks, then `work` writes.
pub struct WriteJob<P, T, E, F, W> {
    job: Job,
    shared: Arc<Shared>,
    prepare: F,
    work: W,
    outcome: Option<Result<T, E>>,
    caller: Caller<T, E>,
    types: std::marker::PhantomData<fn() -> P>,
}

impl<P, T, E, F, W> WriteJob<P, T, E, F, W>
where
    E: From<StoreError>,
    F: Fn(&Shared, &dyn Rows) -> Result<Prepared<P, T>, E>,
    W: Fn(&mut Txn<'_>, &P) -> Result<T, WriteError<E>>,
{
    /// A write with its caller, who is answered in time if there are deadlines.
    pub fn new(
        (job, shared): (Job, Arc<Shared>),
        prepare: F,
        work: W,
        (reply, waiting, deadlines): (Reply<T, E>, Waiting, Option<&Deadlines>),
    ) -> Self
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let is_tried_on = job.class == Class::Answer;
        let caller = Caller::new((reply, is_tried_on), waiting, deadlines);
        WriteJob { job, shared, prepare, work, outcome: None, caller, types: std::marker::PhantomData }
    }
}

impl<P, T, E, F, W> GroupJob for WriteJob<P, T, E, F, W>
where
    T: Send,
    E: From<StoreError> + Send,
    F: Fn(&Shared, &dyn Rows) -> Result<Prepared<P, T>, E> + Send,
    W: Fn(&mut Txn<'_>, &P) -> Result<T, WriteError<E>> + Send,
{
    fn wants(&self, out: &mut Vec<Want>) {
        if let Some(account) = self.job.account {
            out.push(Want::Row(Table::Accounts, account.to_bytes().to_vec()));
        }
        if let Some(wants) = &self.job.wants {
            wants(out);
        }
    }

    fn lock(&self) -> Option<Lock> {
        self.job.lock
    }

    fn run(&mut self, rows: &mut dyn RowsMut, effects: &mut Effects) -> Result<(), StoreError> {
        // The caller was told that a new write was not done. The end of a hold is tried on without its caller: a retry is then
        // a free repeat.
        if !self.caller.begin() && self.job.class == Class::New {
            return Ok(());
        }
        let prepared = match (self.prepare)(&self.shared, &Unlocked(&*rows)) {
            Ok(Prepared::Write(prepared)) => prepared,
            Ok(Prepared::Done(answer)) => {
                self.outcome = Some(Ok(answer));
                return Ok(());
            }
            Err(refusal) => {
                self.outcome = Some(Err(refusal));
                return Ok(());
            }
        };
        let plans = self.shared.plans.get();
        let mut txn = Txn::new(rows, &plans, &self.shared);
        txn.effects = std::mem::take(effects);
        let done = (self.work)(&mut txn, &prepared);
        *effects = txn.effects;
        self.outcome = Some(match done {
            Ok(done) => Ok(done),
            Err(WriteError::Refused(refusal)) => Err(refusal),
            Err(WriteError::Failed(error)) => return Err(error),
        });
        Ok(())
    }

    fn finish(mut self: Box<Self>, failure: Option<&StoreError>) {
        let outcome = self.outcome.take();
        self.caller.answer(outcome, failure);
    }

    fn expire(&mut self, failure: &StoreError) -> bool {
        self.caller.expire(failure) && self.job.class == Class::New
    }
}

/// A read of the rules.
pub struct SnapshotJob<T, E, F> {
    wants: Option<Wants>,
    shared: Arc<Shared>,
    work: F,
    outcome: Option<Result<T, E>>,
    caller: Caller<T, E>,
}

impl<T, E, F> SnapshotJob<T, E, F>
where
    E: From<StoreError>,
    F: Fn(&Shared, &dyn Rows) -> Result<T, E>,
{
    /// A read with its caller, who is answered in time.
    pub fn new(
        (wants, shared): (Option<Wants>, Arc<Shared>),
        work: F,
        (reply, waiting, deadlines): (Reply<T, E>, Waiting, &Deadlines),
    ) -> Self
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let caller = Caller::new((reply, false), waiting, Some(deadlines));
        SnapshotJob { wants, shared, work, outcome: None, caller }
    }
}

impl<T, E, F> ReadJob for SnapshotJob<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: Fn(&Shared, &dyn Rows) -> Result<T, E> + Send,
{
    fn wants(&self, out: &mut Vec<Want>) {
        if let Some(wants) = &self.wants {
            wants(out);
        }
    }

    fn run(&mut self, rows: &dyn Rows) -> Result<(), StoreError> {
        self.outcome = Some((self.work)(&self.shared, rows));
        Ok(())
    }

    fn finish(mut self: Box<Self>, failure: Option<&StoreError>) {
        let outcome = self.outcome.take();
        self.caller.answer(outcome, failure);
    }

    fn expire(&mut self, failure: &StoreError) -> bool {
        self.caller.expire(failure)
    }
}

/// Tables whose rows are read without locks.
struct Unlocked<'r>(&'r dyn Rows);

impl Rows for Unlocked<'_> {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.0.peek(table, key, read)
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.0.walk(table, range, each)
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        self.0.count(table)
    }

    fn expect(&self, wants: &mut dyn Iterator<Item = Want>) {
        self.0.expect(&mut wants.map(|want| match want {
            Want::Row(table, key) => Want::Peek(table, key),
            other => other,
        }));
    }
}
