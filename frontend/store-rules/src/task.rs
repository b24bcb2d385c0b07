//! Reads and writes as a database executes them: the work of a rule, with the reply to its caller, whatever their types.

use crate::rows::Rows;
use crate::txn::Txn;
use crate::write_error::WriteError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Pending, Reply, StoreError, pending};

/// A read or write with its reply. Dropped without an end, it is answered as [`StoreError::Closed`].
pub trait Task: Send {
    /// Answers the caller with the failure, or with the result of the last run. It does nothing if the caller has its answer.
    fn finish(self: Box<Self>, failure: Option<&StoreError>);

    /// The reply, which can be given before the task ends.
    fn reply(&self) -> Arc<dyn AnyReply>;
}

/// A read of one snapshot.
pub trait ReadTask: Task {
    /// Does its work. It may be called many times; only the last call counts.
    fn run(&mut self, rows: &dyn Rows);
}

/// A write in one transaction.
pub trait WriteTask: Task {
    /// Does its work. It may be called many times; only the effects of the last call count.
    ///
    /// # Errors
    ///
    /// The tables cannot be read or written.
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError>;
}

/// The reply to a caller, whatever its type.
pub trait AnyReply: Send + Sync {
    /// Whether the caller has its answer.
    fn is_given(&self) -> bool;

    /// Answers the caller with an error, unless it has its answer.
    fn refuse(&self, error: StoreError);
}

/// The error of an operation: each can be a failure of the store itself.
pub trait OperationError: From<StoreError> + Send + 'static {}

impl<E: From<StoreError> + Send + 'static> OperationError for E {}

/// Makes a task of a read, and what its caller waits for.
pub fn read_task<T: Send + 'static, E: OperationError>(
    work: impl Fn(&dyn Rows) -> Result<T, E> + Send + 'static,
) -> (Box<dyn ReadTask>, Pending<T, E>) {
    let (work, pending) = Work::new(work);
    (Box::new(work), pending)
}

/// Makes a task of a write, and what its caller waits for. A refusal concerns this write alone; a failure ends its group.
pub fn write_task<T: Send + 'static, E: OperationError>(
    work: impl Fn(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send + 'static,
) -> (Box<dyn WriteTask>, Pending<T, E>) {
    let (work, pending) = Work::new(work);
    (Box::new(work), pending)
}

struct Work<F, T, E> {
    work: F,
    outcome: Option<Result<T, E>>,
    reply: Arc<OpenReply<T, E>>,
}

/// `None` once it is given.
struct OpenReply<T, E>(Mutex<Option<Reply<T, E>>>);

impl<T, E> OpenReply<T, E> {
    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, Option<Reply<T, E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, outcome: Result<T, E>) {
        // The lock ends first: the answer wakes foreign code.
        let reply = self.lock().take();
        if let Some(reply) = reply {
            reply.answer(outcome);
        }
    }
}

impl<F, T, E: From<StoreError>> Work<F, T, E> {
    fn new(work: F) -> (Work<F, T, E>, Pending<T, E>) {
        let (reply, pending) = pending();
        (Work { work, outcome: None, reply: Arc::new(OpenReply(Mutex::new(Some(reply)))) }, pending)
    }
}

impl<F: Send, T: Send + 'static, E: OperationError> Task for Work<F, T, E> {
    fn finish(self: Box<Self>, failure: Option<&StoreError>) {
        self.reply.give(match failure {
            Some(error) => Err(error.clone().into()),
            None => self.outcome.unwrap_or_else(|| Err(StoreError::Closed.into())),
        });
    }

    fn reply(&self) -> Arc<dyn AnyReply> {
        Arc::<OpenReply<T, E>>::clone(&self.reply)
    }
}

impl<F, T: Send + 'static, E: OperationError> ReadTask for Work<F, T, E>
where
    F: Fn(&dyn Rows) -> Result<T, E> + Send,
{
    fn run(&mut self, rows: &dyn Rows) {
        self.outcome = Some((self.work)(rows));
    }
}

impl<F, T: Send + 'static, E: OperationError> WriteTask for Work<F, T, E>
where
    F: Fn(&mut Txn<'_>) -> Result<T, WriteError<E>> + Send,
{
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError> {
        self.outcome = Some(match (self.work)(txn) {
            Ok(done) => Ok(done),
            Err(WriteError::Refused(refusal)) => Err(refusal),
            Err(WriteError::Failed(error)) => return Err(error),
        });
        Ok(())
    }
}

impl<T: Send, E: From<StoreError> + Send> AnyReply for OpenReply<T, E> {
    fn is_given(&self) -> bool {
        self.lock().is_none()
    }

    fn refuse(&self, error: StoreError) {
        self.give(Err(error.into()));
    }
}
