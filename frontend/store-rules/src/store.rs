//! The operations of the store, over any database.
//!
//! The files below have the operations of one subject each: they seal, name what a write will read, and queue it. The modules beside
//! this one have the rules that a write obeys in its transaction.

mod accounts;
mod batches;
mod checks;
mod connections;
mod lists;
mod process;
mod users;
mod webhooks;

use crate::backend::{Backend, Class, Job, Lock, Want, Wants};
use crate::rows::{Each, KeyRange, Rows, Table};
use crate::shared::Shared;
use crate::task::{OperationError, read_task, write_task};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use engine::proto::sharing::ShareUse;
use std::io::Write;
use std::sync::Arc;
use store::backup::{BackupError, BackupSummary, Sizes};
use store::*;

/// A node is not ready if its clock differs this much from the database's.
const CLOCK_OFF_MS: u64 = 2_000;

/// The store of all persistent data, which all threads share as `Arc<Store>`.
///
/// - A method is one transaction, which happens completely or not at all. Everything that was answered is durable.
/// - A read is a snapshot, which has every write that was answered before. It fails with [`StoreError::Failed`] if the database
///   cannot be read, and with [`StoreError::Away`] if it does not answer.
/// - The writes of a thread are executed in the order of its calls. Dropping a [`Pending`] does not cancel its write.
/// - Methods that need the wall clock take it as an argument. A clock that goes back never returns to an earlier period.
pub struct Store {
    backend: Arc<dyn Backend>,
}

impl Store {
    /// The store over a database.
    pub fn new(backend: Arc<dyn Backend>) -> Store {
        Store { backend }
    }

    /// The plans of the moment: those with which the store was opened, or their replacement.
    pub fn plans(&self) -> Arc<PlanTable> {
        self.shared().plans.get()
    }

    /// Replaces the plans for all later operations. The credits of a period that has begun stay as they are. It waits for
    /// the writes under way.
    ///
    /// # Errors
    ///
    /// [`OpenError::PlansMissing`] if an account has a plan that the table lacks; nothing changes then.
    pub fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError> {
        self.backend.replace_plans(plans)
    }

    /// Whether the store accepts writes, for readiness checks. It reads memory only.
    ///
    /// # Errors
    ///
    /// The reason why the store no longer accepts writes: only a restart helps.
    pub fn health(&self) -> Result<(), StoreError> {
        self.backend.health()?;
        self.shared().vault.health()
    }

    /// Whether new requests should come to this process: it is healthy, and its clock is that of the other nodes. It reads memory
    /// only.
    ///
    /// # Errors
    ///
    /// As [`Store::health`]; [`StoreError::Away`] also if the clock of this machine is wrong.
    pub fn readiness(&self) -> Result<(), StoreError> {
        self.health()?;
        clock_fault(self.backend.clock_ahead()).map_or(Ok(()), |fault| Err(StoreError::Away(fault)))
    }

    /// Writes the whole store, as of one commit, to `sink`, in the format that `restore` of store-redb reads. Other writes
    /// continue meanwhile. Data that has expired at `now` is left out.
    ///
    /// # Errors
    ///
    /// [`BackupError`]: the bytes in `sink` are useless.
    pub fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError> {
        self.backend.backup(sink, now)
    }

    /// The size of the store.
    pub fn sizes(&self) -> Pending<Sizes, StoreError> {
        self.backend.sizes()
    }

    /// The current figures of the store. It reads memory only.
    pub fn figures(&self) -> StoreFigures {
        self.backend.figures()
    }

    /// What accounts share in the store, for metrics: the disk of the data folder, unless the database is elsewhere.
    pub fn shares(&self) -> Vec<Arc<ShareUse>> {
        self.shared().disk.figures().into_iter().collect()
    }
}

/// The result of what precedes a write.
enum Prepared<P, T> {
    /// The write is necessary, with this.
    Write(P),
    /// The answer is known without a write.
    Done(T),
}

impl Store {
    fn shared(&self) -> &Arc<Shared> {
        self.backend.shared()
    }

    /// The result of a read on this thread; `None` if the database queues its reads.
    fn read_here<T, E: From<StoreError>>(
        &self,
        work: impl Fn(&Shared, &dyn Rows) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        let mut result = None;
        let read = self.backend.read_here(&mut |rows| result = Some(work(self.shared(), rows)))?;
        Some(read.map_err(E::from).and_then(|()| result.unwrap_or_else(|| Err(StoreError::Closed.into()))))
    }

    /// Reads a snapshot. `wants` names what it reads.
    fn read<T: Send + 'static, E: OperationError>(
        &self,
        wants: Option<Wants>,
        work: impl Fn(&Shared, &dyn Rows) -> Result<T, E> + Send + 'static,
    ) -> Pending<T, E> {
        if let Some(result) = self.read_here(&work) {
            return Pending::ready(result);
        }
        let shared = Arc::clone(self.shared());
        let (task, pending) = read_task(move |rows| work(&shared, rows));
        self.backend.read(wants, task);
        pending
    }

    /// [`Store::read`] for work that reads a large part of the database.
    fn scan<T: Send + 'static>(
        &self,
        work: impl Fn(&Shared, &dyn Rows) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T, StoreError> {
        if let Some(result) = self.read_here(&work) {
            return Pending::ready(result);
        }
        let shared = Arc::clone(self.shared());
        let (task, pending) = read_task(move |rows| work(&shared, rows));
        self.backend.scan(task);
        pending
    }

    /// Queues a write.
    fn write<T: Send + 'static, E: OperationError>(
        &self,
        job: Job,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E> {
        let (task, pending) = write_task(work);
        self.backend.write(job, task);
        pending
    }

    /// Queues a write that needs preparation. `prepare` reads without locks: on the caller's thread if the database reads there,
    /// otherwise on that of the write.
    fn write_prepared<P: Send + 'static, T: Send + 'static, E: OperationError>(
        &self,
        job: Job,
        prepare: impl Fn(&Shared, &dyn Rows) -> Result<Prepared<P, T>, E> + Send + 'static,
        work: impl Fn(&mut Txn<'_>, &P) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E> {
        match self.read_here(&prepare) {
            None => self.write(job, move |txn| match prepare(txn.shared, &Unlocked(txn.rows())) {
                Ok(Prepared::Write(prepared)) => work(txn, &prepared),
                Ok(Prepared::Done(answer)) => Ok(answer),
                Err(refusal) => refuse(refusal),
            }),
            Some(Ok(Prepared::Write(prepared))) => self.write(job, move |txn| work(txn, &prepared)),
            Some(Ok(Prepared::Done(answer))) => Pending::ready(Ok(answer)),
            Some(Err(error)) => Pending::ready(Err(error)),
        }
    }

    /// Queues a change of an account, or of its keys and limits, which the index of keys has.
    fn change<T: Send + 'static, E: OperationError>(
        &self,
        account: AccountId,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E> {
        self.write(Job::of(account, Class::New).with_lock(Lock::Index), work)
    }
}

/// The fault of this machine's clock, and its remedy, if the database's clock is ahead of it by so much that the node is not ready.
pub fn clock_fault(ahead_ms: i64) -> Option<String> {
    let way = if ahead_ms > 0 { "behind" } else { "ahead of" };
    let seconds = ahead_ms.unsigned_abs() / 1000;
    let fault = || format!("the clock of this machine is {seconds} s {way} that of the database: correct it");
    (ahead_ms.unsigned_abs() >= CLOCK_OFF_MS).then(fault)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_from_two_seconds_on() {
        for (ahead, expected) in [
            (0, None),
            (1_999, None),
            (-1_999, None),
            (2_000, Some("2 s behind that")),
            (-3_500, Some("3 s ahead of that")),
            (i64::MIN, Some("ahead of that")),
        ] {
            let fault = clock_fault(ahead);
            assert_eq!(fault.is_some(), expected.is_some(), "{ahead}");
            assert!(fault.zip(expected).is_none_or(|(fault, part)| fault.contains(part)), "{ahead}");
        }
    }
}
