//! Reads and writes as the lanes see them: the work of the rules with the reply to its caller.

mod caller;

pub use caller::{Deadlines, WAIT_MAX};

use crate::lane::GroupJob;
use crate::reads::ReadJob;
use caller::Caller;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::StoreError;
use store_rules::backend::{Class, Job, Lock, Want, Wants};
use store_rules::rows::{Rows, RowsMut, Table};
use store_rules::shared::Shared;
use store_rules::task::{ReadTask, WriteTask};
use store_rules::txn::{Effects, Txn};

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

/// A write of the rules.
pub struct WriteJob {
    job: Job,
    shared: Arc<Shared>,
    task: Box<dyn WriteTask>,
    caller: Caller,
}

impl WriteJob {
    /// A write with its caller, who is answered in time if there are deadlines.
    pub fn new(
        (job, shared): (Job, Arc<Shared>),
        task: Box<dyn WriteTask>,
        waiting: Waiting,
        deadlines: Option<&Deadlines>,
    ) -> WriteJob {
        let is_tried_on = job.class == Class::Answer;
        let caller = Caller::new((task.reply(), is_tried_on), waiting, deadlines);
        WriteJob { job, shared, task, caller }
    }
}

impl GroupJob for WriteJob {
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
        let plans = self.shared.plans.get();
        let mut txn = Txn::new(rows, &plans, &self.shared);
        txn.effects = std::mem::take(effects);
        let done = self.task.run(&mut txn);
        *effects = txn.effects;
        done
    }

    fn finish(self: Box<Self>, failure: Option<&StoreError>) {
        self.task.finish(failure);
    }

    fn expire(&mut self, failure: &StoreError) -> bool {
        self.caller.expire(failure) && self.job.class == Class::New
    }
}

/// A read of the rules.
pub struct SnapshotJob {
    wants: Option<Wants>,
    task: Box<dyn ReadTask>,
    caller: Caller,
}

impl SnapshotJob {
    /// A read with its caller, who is answered in time.
    pub fn new(
        wants: Option<Wants>,
        task: Box<dyn ReadTask>,
        waiting: Waiting,
        deadlines: &Deadlines,
    ) -> SnapshotJob {
        let caller = Caller::new((task.reply(), false), waiting, Some(deadlines));
        SnapshotJob { wants, task, caller }
    }
}

impl ReadJob for SnapshotJob {
    fn wants(&self, out: &mut Vec<Want>) {
        if let Some(wants) = &self.wants {
            wants(out);
        }
    }

    fn run(&mut self, rows: &dyn Rows) -> Result<(), StoreError> {
        self.task.run(rows);
        Ok(())
    }

    fn finish(self: Box<Self>, failure: Option<&StoreError>) {
        self.task.finish(failure);
    }

    fn expire(&mut self, failure: &StoreError) -> bool {
        self.caller.expire(failure)
    }
}
