//! The writer: a thread that takes all waiting writes, executes them in one redb transaction, commits it and only then
//! answers them. While it waits for the disk the next group collects. So the group grows with the load, and a single
//! write is not delayed.
//!
//! A write that is refused (no credits, no such account) must leave the tables unchanged or in a state that is right
//! without it: its group is committed nevertheless. A write that cannot read or write the tables fails the whole group
//! and stops the writer, since the state of the disk is unknown. Only after a failed commit is it unknown whether its
//! group was done; later writes were not done.

use super::database::space;
use super::fail_stop::Failure;
use super::rows::WriteRows;
use ::redb::Database;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::credits::PeriodStep;
use store::{StoreError, StoreFigures};
use store_rules::backend::Class;
use store_rules::index::KeyChange;
use store_rules::shared::Shared as SharedState;
use store_rules::sweep::Sweep;
use store_rules::task::WriteTask;
use store_rules::txn::{Effects, Txn};

/// The most writes in one transaction: with more, a longer wait brings almost no gain.
const GROUP_MAX: usize = 1000;

/// How many writes may wait before new ones are refused.
pub(super) const QUEUE_MAX: usize = 16 * 1024;

/// The objects that the writer thread works on.
pub(super) struct Context {
    pub database: Arc<Database>,
    pub shared: Arc<SharedState>,
    pub failure: Failure,
    /// The file of the database.
    pub path: PathBuf,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    failure: Failure,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    figures: Mutex<StoreFigures>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Box<dyn WriteTask>>,
    /// The reason why no more writes are accepted.
    closed: Option<StoreError>,
}

impl Writer {
    /// Starts the thread of the writer.
    pub fn start(context: Context) -> std::io::Result<Writer> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), figures: Mutex::default(), wake: Condvar::new() });
        let failure = context.failure.clone();
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&context, Closing(shared))
        })?;
        Ok(Writer { shared, failure, thread: Some(thread) })
    }

    /// Queues a write, which runs on the writer's thread.
    pub fn submit(&self, class: Class, task: Box<dyn WriteTask>) {
        let mut queue = self.shared.lock();
        let refusal = match &queue.closed {
            Some(why) => Some(why.clone()),
            None => (class == Class::New && queue.tasks.len() >= QUEUE_MAX).then_some(StoreError::Busy),
        };
        if refusal.is_some() {
            // An answer wakes foreign code, which must not run inside the lock.
            drop(queue);
            return task.finish(refusal.as_ref());
        }
        queue.tasks.push_back(task);
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Whether writes are still accepted. A read can also detect a failed file, since it writes pages to free the
    /// cache.
    pub fn health(&self) -> Result<(), StoreError> {
        if let Some(why) = self.failure.why() {
            return Err(StoreError::Failed(why.to_owned()));
        }
        self.shared.lock().closed.clone().map_or(Ok(()), Err)
    }

    /// The number of waiting writes, and the counts so far.
    pub fn figures(&self) -> StoreFigures {
        let waiting = self.shared.lock().tasks.len();
        StoreFigures { waiting, ..self.shared.figures().clone() }
    }

    /// Whether writes without a waiting caller should be left out.
    pub fn is_crowded(&self) -> bool {
        self.shared.lock().tasks.len() >= QUEUE_MAX / 2
    }
}

/// Every accepted write is completed before the drop ends.
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.close(StoreError::Closed);
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has reached every caller as `Closed`.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn figures(&self) -> MutexGuard<'_, StoreFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a committed group.
    fn note(&self, writes: usize, took: Duration, total: PeriodStep) {
        let mut figures = self.figures();
        figures.group.record(writes as u64);
        figures.commit_us.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        figures.credits_spent = figures.credits_spent.saturating_add(total.spent);
        figures.credits_granted = figures.credits_granted.saturating_add(total.granted);
    }

    fn close(&self, why: StoreError) {
        self.lock().closed.get_or_insert(why);
        self.wake.notify_one();
    }

    /// The next group; `None` if the queue is closed and empty.
    fn take(&self) -> Option<Vec<Box<dyn WriteTask>>> {
        let mut queue = self.lock();
        while queue.tasks.is_empty() {
            if queue.closed.is_some() {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let group = queue.tasks.len().min(GROUP_MAX);
        Some(queue.tasks.drain(..group).collect())
    }
}

/// Closes the queue at any end of the writer, so that no caller waits without end.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(StoreError::Closed);
        let orphans = std::mem::take(&mut self.0.lock().tasks);
        // Their replies become `Closed` on drop, which happens outside the lock because wakers are foreign code.
        drop(orphans);
    }
}

fn run(context: &Context, closing: Closing) {
    let mut sweep = Sweep::default();
    while let Some(mut group) = closing.0.take() {
        match write(context, &mut sweep, &mut group) {
            Ok(Written { changes, total, took }) => {
                context.shared.index.apply(changes);
                closing.0.note(group.len(), took, total);
                group.into_iter().for_each(|task| task.finish(None));
            }
            Err(error) => {
                // For later writes the result is known: they were not done.
                let later = match &error {
                    StoreError::Unknown(why) => StoreError::Failed(why.clone()),
                    known => known.clone(),
                };
                closing.0.close(later.clone());
                group.into_iter().for_each(|task| task.finish(Some(&error)));
                let rest = std::mem::take(&mut closing.0.lock().tasks);
                rest.into_iter().for_each(|task| task.finish(Some(&later)));
                return;
            }
        }
    }
}

/// The results of a group.
struct Written {
    changes: Vec<KeyChange>,
    total: PeriodStep,
    /// The duration of its commit.
    took: Duration,
}

fn write(
    context: &Context,
    sweep: &mut Sweep,
    group: &mut [Box<dyn WriteTask>],
) -> Result<Written, StoreError> {
    if let Some((total, free)) = space(&context.path) {
        context.shared.disk.note(total, free);
    }
    let mut transaction = context.database.begin_write()?;
    transaction.set_quick_repair(true);
    let plans = context.shared.plans.get();
    let mut rows = WriteRows::new(&transaction);
    let mut txn = Txn::new(&mut rows, &plans, &context.shared);
    for task in group {
        task.run(&mut txn)?;
    }
    sweep.go_on(&mut txn)?;
    if context.shared.clock_check.removes(txn.effects.latest) {
        txn.purge_some()?;
    }
    let Effects { total, key_changes: changes, .. } = txn.effects;
    // The tables must be closed before the commit.
    drop(rows);
    if let Some(why) = context.failure.why() {
        return Err(StoreError::Failed(why.to_owned()));
    }
    let began = Instant::now();
    transaction.commit().map_err(|error| StoreError::Unknown(error.to_string()))?;
    if let Some(why) = context.failure.why() {
        return Err(StoreError::Unknown(why.to_owned()));
    }
    Ok(Written { changes, total, took: began.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::super::migrations;
    use super::*;
    use ::redb::backends::InMemoryBackend;
    use std::path::Path;
    use std::sync::mpsc;
    use store::{Pending, PlanTable};
    use store_rules::clock_check::ClockCheck;
    use store_rules::disk::Disk;
    use store_rules::index::KeyIndex;
    use store_rules::shared::SharedPlans;
    use store_rules::task::write_task;
    use store_rules::write_error::WriteError;
    use vault::Vault;

    fn writer() -> Writer {
        writer_of(Failure::default())
    }

    fn writer_of(failure: Failure) -> Writer {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        migrations::migrate(&database, Path::new("memory")).unwrap();
        let context = Context {
            database: Arc::new(database),
            shared: Arc::new(SharedState {
                plans: SharedPlans::new(PlanTable::standard()),
                vault: Arc::new(Vault::in_memory().unwrap()),
                index: KeyIndex::default(),
                clock_check: ClockCheck::default(),
                disk: Disk::UNKNOWN,
                has_nodes: false,
                format: store_rules::tables::FORMAT.into(),
                reuse: true,
            }),
            failure,
            path: PathBuf::new(),
        };
        Writer::start(context).unwrap()
    }

    fn submit(
        writer: &Writer,
        class: Class,
        work: impl Fn() -> Result<u32, WriteError<StoreError>> + Send + 'static,
    ) -> Pending<u32, StoreError> {
        let (task, pending) = write_task(move |_| work());
        writer.submit(class, task);
        pending
    }

    fn number(writer: &Writer, class: Class, number: u32) -> Pending<u32, StoreError> {
        submit(writer, class, move || Ok(number))
    }

    /// A write that keeps the writer busy until the sender is dropped; it has started when this returns.
    fn block(writer: &Writer) -> (mpsc::Sender<()>, Pending<u32, StoreError>) {
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let blocked = submit(writer, Class::New, move || {
            begin.send(()).unwrap();
            // The sender never sends; it is dropped.
            Ok(u32::from(released.recv().is_err()))
        });
        begun.recv().unwrap();
        (release, blocked)
    }

    #[test]
    fn a_full_queue_takes_answers_only_and_then_recovers() {
        let writer = writer();
        let (release, blocked) = block(&writer);
        let waiting: Vec<_> = (0..QUEUE_MAX as u32).map(|n| number(&writer, Class::New, n)).collect();
        assert!(writer.is_crowded());
        assert_eq!(number(&writer, Class::New, 1).wait(), Err(StoreError::Busy));
        let answer = number(&writer, Class::Answer, 2);
        drop(release);
        assert_eq!(blocked.wait(), Ok(1));
        for (n, pending) in (0..).zip(waiting) {
            assert_eq!(pending.wait(), Ok(n));
        }
        assert_eq!(answer.wait(), Ok(2));
        assert_eq!(number(&writer, Class::New, 3).wait(), Ok(3));
        assert!(!writer.is_crowded());
    }

    #[test]
    fn a_failure_reaches_its_whole_group_and_all_who_come_later() {
        let writer = writer();
        let (release, blocked) = block(&writer);
        let before = number(&writer, Class::New, 1);
        let failure = StoreError::Failed("on purpose".into());
        let failing = submit(&writer, Class::New, {
            let failure = failure.clone();
            move || Err(failure.clone().into())
        });
        let after = number(&writer, Class::Answer, 2);
        assert_eq!(writer.health(), Ok(()));
        drop(release);
        assert_eq!(blocked.wait(), Ok(1));
        for pending in [before, failing, after] {
            assert_eq!(pending.wait(), Err(failure.clone()));
        }
        assert_eq!(number(&writer, Class::Answer, 3).wait(), Err(failure.clone()));
        assert_eq!(writer.health(), Err(failure));
    }

    #[test]
    fn a_file_that_fails_under_a_read_ends_writing() {
        let failure = Failure::default();
        let writer = writer_of(failure.clone());
        assert_eq!(writer.health(), Ok(()));
        failure.note("on purpose".into());
        let expected = StoreError::Failed("on purpose".into());
        assert_eq!(writer.health(), Err(expected.clone()));
        assert_eq!(number(&writer, Class::Answer, 1).wait(), Err(expected));
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let writer = writer();
        let (release, blocked) = block(&writer);
        let panicking = submit(&writer, Class::New, || panic!("on purpose"));
        let after = number(&writer, Class::New, 2);
        drop(release);
        assert_eq!(blocked.wait(), Ok(1));
        assert_eq!((panicking.wait(), after.wait()), (Err(StoreError::Closed), Err(StoreError::Closed)));
        assert_eq!(number(&writer, Class::New, 3).wait(), Err(StoreError::Closed));
    }

    #[test]
    fn what_was_taken_is_done_before_the_writer_ends() {
        let writer = writer();
        let (release, blocked) = block(&writer);
        let waiting: Vec<_> = (0..2_500).map(|n| number(&writer, Class::New, n)).collect();
        drop(release);
        drop(writer);
        assert_eq!(blocked.wait(), Ok(1));
        assert!((0..).zip(waiting).all(|(n, pending)| pending.wait() == Ok(n)));
    }
}
