//! What a database offers to the store: reads of a snapshot, and writes that it executes one after another in groups.

use crate::rows::Rows;
pub use crate::rows::Want;
use crate::shared::Shared;
use crate::task::{ReadTask, WriteTask};
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

/// A database with its executor. [`Store`](crate::Store) has the operations on top of it.
pub trait Backend: Send + Sync {
    /// What all operations share.
    fn shared(&self) -> &Arc<Shared>;

    /// Passes a snapshot to `read` on the caller's thread. The snapshot has every write that was answered before. `None`: the
    /// database is over a network, and reads are queued.
    fn read_here(&self, read: &mut dyn FnMut(&dyn Rows)) -> Option<Result<(), StoreError>> {
        let _ = read;
        None
    }

    /// Queues a read of such a snapshot. `wants` names what it reads.
    fn read(&self, wants: Option<Wants>, task: Box<dyn ReadTask>);

    /// [`Backend::read`] for a task that reads a large part of the database.
    fn scan(&self, task: Box<dyn ReadTask>);

    /// Queues a write, which runs on a thread of the database.
    fn write(&self, job: Job, task: Box<dyn WriteTask>);

    /// As [`Store::health`](crate::Store::health).
    ///
    /// # Errors
    ///
    /// The reason why no more writes are accepted.
    fn health(&self) -> Result<(), StoreError>;

    /// The current figures of the store, as [`Store::figures`](crate::Store::figures).
    fn figures(&self) -> StoreFigures;

    /// Whether writes without a waiting caller should be left out.
    fn is_crowded(&self) -> bool;

    /// As [`Store::replace_plans`](crate::Store::replace_plans).
    ///
    /// # Errors
    ///
    /// As [`Store::replace_plans`](crate::Store::replace_plans).
    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError>;

    /// Claims unfinished batches, as [`Store::claim_batches`](crate::Store::claim_batches).
    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError>;

    /// Claims lists, as [`Store::claim_lists`](crate::Store::claim_lists).
    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError>;

    /// Whether it may work, as [`Store::may_work`](crate::Store::may_work).
    fn may_work(&self) -> bool;

    /// The number of nodes, as [`Store::live_nodes`](crate::Store::live_nodes).
    fn live_nodes(&self) -> u32;

    /// By how many milliseconds the clock that all nodes share is ahead of the one of this process.
    fn clock_ahead(&self) -> i64;

    /// The place among the nodes, as [`Store::place`](crate::Store::place).
    fn place(&self) -> NodePlace;

    /// As [`Store::backup`](crate::Store::backup).
    ///
    /// # Errors
    ///
    /// As [`Store::backup`](crate::Store::backup).
    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError>;

    /// The size of the store, as [`Store::sizes`](crate::Store::sizes).
    fn sizes(&self) -> Pending<Sizes, StoreError>;
}
