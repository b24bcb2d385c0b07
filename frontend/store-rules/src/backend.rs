//! What a database offers to the store: reads of a snapshot, and writes that it executes one after another in groups.

use crate::rows::Rows;
pub use crate::rows::Want;
use crate::shared::Shared;
use crate::txn::Txn;
use crate::write_error::WriteError;
use std::io::Write;
use std::sync::Arc;
use store::backup::{BackupError, BackupSummary, Sizes};
use store::{
    AccountId, ClaimedLists, NodePlace, OpenBatch, OpenError, Pending, PlanTable, StoreError, StoreFigures,
    UnixMs,
};

/// Whether a write may be refused if many are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It starts something new, and is refused if the queue is full.
    New,
    /// It answers a hold or a row, or removes expired data, and is always accepted. There are never more of these than
    /// holds and rows, whose creation is `New`, and one purge.
    Answer,
}

/// What writes must agree on that belong to no account. Only one write with such a lock is under way at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Changes of the index: accounts, names, keys, plans and limits. The index of this process has all earlier changes.
    Index,
    /// The number of clients of assistants.
    Clients,
    /// The bytes of all lists.
    Lists,
}

/// Names what a job will read, so that a database over a network can fetch it for a whole group at once. It may name too
/// much or too little: only the number of round trips depends on it.
pub type Wants = Box<dyn Fn(&mut Vec<Want>) + Send>;

/// A write before its work: everything by which a database orders and groups it.
pub struct Job {
    /// Whether it may be refused.
    pub class: Class,
    /// The account whose rows it changes. Writes for one account are executed in the order of their calls, and the account's
    /// row is locked first, which guards everything that belongs to the account.
    pub account: Option<AccountId>,
    /// The lock that it needs.
    pub lock: Option<Lock>,
    /// What it reads.
    pub wants: Option<Wants>,
}

impl Job {
    /// A job that changes rows of an account.
    pub fn of(account: AccountId, class: Class) -> Job {
        Job { class, account: Some(account), lock: None, wants: None }
    }

    /// A job that belongs to no account.
    pub fn general(class: Class) -> Job {
        Job { class, account: None, lock: None, wants: None }
    }

    /// The job with a lock.
    pub fn with_lock(self, lock: Lock) -> Job {
        Job { lock: Some(lock), ..self }
    }

    /// The job with what it reads.
    pub fn with_wants(self, wants: impl Fn(&mut Vec<Want>) + Send + 'static) -> Job {
        Job { wants: Some(Box::new(wants)), ..self }
    }
}

/// The result of what precedes a write.
pub enum Prepared<P, T> {
    /// The write is necessary, with this.
    Write(P),
    /// The answer is known without a write.
    Done(T),
}

/// A database with its executor. Work may be called several times; only the effects of its last call are kept.
pub trait Backend: Send + Sync + 'static {
    /// What all operations share.
    fn shared(&self) -> &Arc<Shared>;

    /// Reads a snapshot that has every write that was answered before. `wants` names what it reads.
    fn read<T, E>(
        &self,
        wants: Option<Wants>,
        work: impl Fn(&Shared, &dyn Rows) -> Result<T, E> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// [`Backend::read`] for work that reads a large part of the database.
    fn scan<T, E>(&self, work: impl Fn(&Shared, &dyn Rows) -> Result<T, E> + Send + 'static) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// Queues a write. The outer error of `work` is a failure of the store, the inner one a refusal.
    fn write<T, E>(
        &self,
        job: Job,
        work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// Queues a write that needs preparation. `prepare` reads without locks, and runs on a thread where slow work disturbs no
    /// other write.
    fn write_prepared<P, T, E>(
        &self,
        job: Job,
        prepare: impl Fn(&Shared, &dyn Rows) -> Result<Prepared<P, T>, E> + Send + 'static,
        work: impl Fn(&mut Txn<'_>, &P) -> Result<T, WriteError<E>> + Send + 'static,
    ) -> Pending<T, E>
    where
        P: Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// As [`store::Store::health`].
    ///
    /// # Errors
    ///
    /// The reason why no more writes are accepted.
    fn health(&self) -> Result<(), StoreError>;

    /// The current figures of the store, as [`store::Store::figures`].
    fn figures(&self) -> StoreFigures;

    /// Whether writes without a waiting caller should be left out.
    fn is_crowded(&self) -> bool;

    /// As [`store::Store::replace_plans`].
    ///
    /// # Errors
    ///
    /// As [`store::Store::replace_plans`].
    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError>;

    /// Claims unfinished batches, as [`store::Store::claim_batches`].
    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError>;

    /// Claims lists, as [`store::ListStore::claim_lists`].
    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError>;

    /// Whether it may work, as [`store::Store::may_work`].
    fn may_work(&self) -> bool;

    /// The number of nodes, as [`store::Store::live_nodes`].
    fn live_nodes(&self) -> u32;

    /// By how many milliseconds the clock that all nodes share is ahead of the one of this process.
    fn clock_ahead(&self) -> i64;

    /// The place among the nodes, as [`store::Store::place`].
    fn place(&self) -> NodePlace;

    /// As [`store::Store::backup`].
    ///
    /// # Errors
    ///
    /// As [`store::Store::backup`].
    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError>;

    /// The size of the store, as [`store::Store::sizes`].
    fn sizes(&self) -> Pending<Sizes, StoreError>;
}
