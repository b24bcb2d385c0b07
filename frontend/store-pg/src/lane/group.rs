//! Groups of jobs: each group is one transaction, in which the jobs run one after another over an [`Overlay`].
//!
//! The first job that reads a row which was not fetched is undone. The jobs after it are then only tried, to learn what they
//! will read. One round trip fetches all of it, and the run goes on from the first undone job. So a job sees the effects of all
//! jobs before it, whatever their accounts are, and the number of round trips depends on how deep the reads of one job
//! depend on each other.
//!
//! A job that panics is answered with a failure, and the group runs again without it. A job that fails by itself runs again
//! alone before it is answered: an absent row locks nothing, so another transaction may have written it, and rows that
//! depend on it, between two fetches.
//!
//! If another transaction was in the way, the group runs again with the same number, because nothing was committed; and at
//! once fetches all that it has learned to read. If this does not help, or the server refuses a statement, the group is
//! halved until the job in question is alone. The order of jobs is always kept.

use super::{Ended, Lane, NotDone, Truth, caught, panicked};
use crate::connect::Session;
use crate::feed::Feed;
use crate::overlay::{Lack, Overlay};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};
use store::StoreError;
use store_rules::backend::{Lock, Want};
use store_rules::rows::RowsMut;
use store_rules::txn::Effects;

/// The largest number of round trips in which a group fetches rows after its first. Then its first job that lacks something
/// runs alone.
const ROUNDS_MAX: u32 = 16;
/// [`ROUNDS_MAX`] for a job alone.
const ROUNDS_MAX_ALONE: u32 = 1024;
/// How often a group runs while other transactions are in its way. Then it is halved.
const TRIES_MAX: u32 = 3;
/// [`TRIES_MAX`] for a job alone. Then it fails.
const TRIES_MAX_ALONE: u32 = 8;

/// How often a group is halved because the server is busy, usually with a lock that another transaction keeps: each time
/// takes as long as `lock_timeout`. It is enough to find one job of a thousand. Then all jobs of a batch fail together.
const BUSY_MAX: u32 = 12;

/// A write as a lane sees it.
pub trait GroupJob: Send {
    /// Names what it will probably read, so that it is fetched at once.
    fn wants(&self, out: &mut Vec<Want>);

    /// The lock that the whole transaction needs.
    fn lock(&self) -> Option<Lock>;

    /// Does its work. It may be called many times; only the effects of the last call count. In a trial the effects of the jobs
    /// before it may be missing; its result is then ignored.
    ///
    /// # Errors
    ///
    /// A failure of the store, or a row that is not fetched. The job has then no effect.
    fn run(&mut self, rows: &mut dyn RowsMut, effects: &mut Effects) -> Result<(), StoreError>;

    /// Answers its caller: without a failure, the effects of the last call are committed.
    fn finish(self: Box<Self>, failure: Option<&StoreError>);

    /// Answers its caller with the failure, if it has waited for too long. Returns whether nobody needs the job any more.
    fn expire(&mut self, failure: &StoreError) -> bool {
        let _ = failure;
        false
    }
}

/// Jobs in their order.
pub type Jobs = Vec<Box<dyn GroupJob>>;

/// The result of [`Lane::run_group`].
#[derive(Debug)]
pub struct GroupReport {
    /// The number of the next group. If the end is unknown, it is that of the group in question.
    pub next: i64,
    /// The transactions that were begun.
    pub transactions: u32,
    /// The end.
    pub end: GroupEnd,
}

/// Which jobs of a group were answered.
pub enum GroupEnd {
    /// All.
    Done,
    /// Those without these, which have changed nothing, for this reason: [`NotDone::Away`] or [`NotDone::Fenced`]. They can
    /// run on a new lane, in this order.
    NotDone {
        /// The reason.
        why: NotDone,
        /// The jobs.
        jobs: Jobs,
    },
    /// Those without these. A new lane must tell what became of one transaction, and then run what is left.
    Unknown {
        /// The jobs of the transaction.
        group: UnsureGroup,
        /// The jobs after them, which have changed nothing.
        rest: Jobs,
    },
}

impl fmt::Debug for GroupEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupEnd::Done => f.write_str("Done"),
            GroupEnd::NotDone { why, jobs } => write!(f, "NotDone({why:?}, {} jobs)", jobs.len()),
            GroupEnd::Unknown { group, rest } => {
                write!(f, "Unknown({} jobs, {} after them)", group.batch.jobs.len(), rest.len())
            }
        }
    }
}

/// The jobs of a transaction that may be committed.
pub struct UnsureGroup {
    batch: Batch,
    feed: Option<Rc<Feed>>,
}

impl UnsureGroup {
    /// Answers the jobs if [`Lane::believe`] has found that the transaction is committed. Returns those that must run again,
    /// in front of those after them.
    pub fn settle(self, truth: Truth) -> Jobs {
        match truth {
            Truth::Done => self.batch.committed(self.feed.as_deref(), Duration::ZERO),
            Truth::NotDone | Truth::Fenced => self.batch.jobs,
        }
    }

    /// Answers callers that have waited for too long. The jobs stay, because they may be committed.
    pub fn expire(&mut self, failure: &StoreError) {
        for job in &mut self.batch.jobs {
            job.expire(failure);
        }
    }

    /// Answers all jobs with a failure.
    pub fn fail(self, failure: &StoreError) {
        self.batch.fail(failure);
    }
}

/// Jobs for one transaction.
#[derive(Default)]
struct Batch {
    jobs: Jobs,
    /// The results of the first jobs, which ran in the present transaction. A job that has failed has no effect.
    outcomes: Vec<Option<StoreError>>,
    /// How often another transaction was in the way.
    tries: u32,
    /// What its jobs turned out to read.
    learned: BTreeSet<Lack>,
    /// The effects of the jobs that ran in the present transaction.
    effects: Effects,
    /// The number of the last change of the index when the transaction wrote its own.
    changes_before: i64,
}

impl Batch {
    fn new(jobs: Jobs) -> Batch {
        Batch { jobs, ..Batch::default() }
    }

    fn is_alone(&self) -> bool {
        self.jobs.len() == 1
    }

    /// The transaction is committed: its effects apply, then its jobs are answered. Returns the jobs that did not run.
    fn committed(mut self, feed: Option<&Feed>, took: Duration) -> Jobs {
        if let Some(feed) = feed {
            feed.committed(self.changes_before, std::mem::take(&mut self.effects), self.outcomes.len(), took);
        }
        self.answer()
    }

    /// Answers the jobs that ran, and returns the others.
    fn answer(self) -> Jobs {
        let mut jobs = self.jobs.into_iter();
        // The results come first: `zip` would take one job too many.
        for (outcome, job) in self.outcomes.iter().zip(jobs.by_ref()) {
            job.finish(outcome.as_ref());
        }
        jobs.collect()
    }

    /// Answers all jobs with a failure.
    fn fail(self, failure: &StoreError) {
        for job in self.jobs {
            job.finish(Some(failure));
        }
    }

    /// Runs the jobs that have not run, until one lacks something, and tries those after it.
    fn run(&mut self, overlay: &mut Overlay) -> Run {
        let mut has_lack = false;
        for at in self.outcomes.len()..self.jobs.len() {
            overlay.begin_job();
            let mark = self.effects.mark();
            let (job, effects) = (&mut self.jobs[at], &mut self.effects);
            let Some(result) = caught(|| job.run(overlay, effects)) else { return Run::Panicked(at) };
            has_lack |= overlay.has_missed();
            if has_lack || result.is_err() {
                overlay.undo_job();
                self.effects.undo(mark);
            } else {
                overlay.keep_job();
            }
            if has_lack {
                continue;
            }
            if matches!(result, Err(StoreError::Failed(_))) && !self.is_last_try() {
                return Run::Failed;
            }
            self.outcomes.push(result.err());
        }
        if has_lack { Run::Lacks } else { Run::Done }
    }

    /// Whether a failure of the job counts: it ran alone before.
    fn is_last_try(&self) -> bool {
        self.is_alone() && self.tries > 0
    }

    /// Removes a job that has panicked, and answers it.
    fn drop_panicked(&mut self, at: usize) {
        self.jobs.remove(at).finish(Some(&panicked("a write")));
    }
}

/// The end of a run over the rows that were fetched.
enum Run {
    /// All jobs ran.
    Done,
    /// A job lacks rows.
    Lacks,
    /// The next job has failed by itself, and has to run alone.
    Failed,
    /// This job has panicked. What the jobs before it have written is not certain.
    Panicked(usize),
}

/// The batches that have not run, in the order of their jobs.
#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// How often the server was busy.
    busy: u32,
}

impl Queue {
    fn next(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    fn put_back(&mut self, batch: Batch) {
        if !batch.jobs.is_empty() {
            self.batches.push_front(batch);
        }
    }

    /// Puts back jobs of which the first must run alone.
    fn put_back_alone(&mut self, mut jobs: Jobs) {
        let others = jobs.split_off(jobs.len().min(1));
        self.put_back(Batch::new(others));
        self.put_back(Batch::new(jobs));
    }

    /// Puts back two halves of a batch.
    fn put_back_halves(&mut self, batch: Batch) {
        let mut first = batch.jobs;
        let second = first.split_off(first.len() / 2);
        self.put_back(Batch::new(second));
        self.put_back(Batch::new(first));
    }

    /// The batch after a conflict or a refusal.
    fn put_back_after(&mut self, why: NotDone, mut batch: Batch) {
        batch.tries += 1;
        let tries_max = if batch.is_alone() { TRIES_MAX_ALONE } else { TRIES_MAX };
        self.busy += u32::from(matches!(why, NotDone::Busy(_)));
        let failure = match why {
            NotDone::Busy(why) if self.busy > BUSY_MAX => StoreError::Away(why),
            NotDone::Conflict if batch.tries < tries_max => return self.put_back(batch),
            _ if !batch.is_alone() => return self.put_back_halves(batch),
            NotDone::Conflict => StoreError::Away("other writes were in the way again and again".into()),
            NotDone::Busy(why) => StoreError::Away(why),
            NotDone::Refused(why) | NotDone::Away(why) => StoreError::Failed(why),
            NotDone::Fenced => StoreError::Closed,
        };
        batch.fail(&failure);
    }

    fn into_jobs(self) -> Jobs {
        self.batches.into_iter().flat_map(|batch| batch.jobs).collect()
    }
}

impl Lane {
    /// Executes jobs in their order, and answers them. Usually they are one group with the number `seq`; each group that must
    /// be divided takes further numbers. If the future is dropped, the connection is closed, and the jobs are not answered.
    pub async fn run_group(&mut self, seq: i64, jobs: Jobs) -> GroupReport {
        let mut queue = Queue::default();
        queue.put_back(Batch::new(jobs));
        let (mut next, mut transactions) = (seq, 0);
        let end = loop {
            let Some(mut batch) = queue.next() else { break GroupEnd::Done };
            transactions += 1;
            let began = Instant::now();
            let ended = self.transaction(next, &mut batch).await;
            match ended {
                Ended::Committed => {
                    next += 1;
                    queue.put_back_alone(batch.committed(self.feed.as_deref(), began.elapsed()));
                    self.roll_back().await;
                }
                Ended::Unchanged => {
                    queue.put_back_alone(batch.answer());
                    // Nobody waits for this ROLLBACK: its transaction had nothing to commit.
                    self.roll_back().await;
                }
                Ended::NotDone(why @ (NotDone::Away(_) | NotDone::Fenced)) => {
                    self.roll_back().await;
                    queue.put_back(batch);
                    break GroupEnd::NotDone { why, jobs: queue.into_jobs() };
                }
                Ended::NotDone(why) => {
                    self.roll_back().await;
                    queue.put_back_after(why, batch);
                }
                Ended::Unknown => {
                    let group = UnsureGroup { batch, feed: self.feed.clone() };
                    break GroupEnd::Unknown { group, rest: queue.into_jobs() };
                }
            }
        };
        GroupReport { next, transactions, end }
    }

    /// One transaction. Unless it is committed, [`Lane::roll_back`] must follow.
    async fn transaction(&mut self, seq: i64, batch: &mut Batch) -> Ended {
        // The caller may have dropped the future of an earlier group.
        self.roll_back().await;
        let Some(session) = self.session.take() else {
            return Ended::NotDone(NotDone::Away("the lane has no connection".into()));
        };
        let (ended, is_open) = match self.run_batch(&session, seq, batch).await {
            Ok(overlay) => {
                let changes = overlay.into_changes();
                let is_unchanged = changes.is_empty() && batch.effects.key_changes.is_empty();
                // The answers tell what the jobs have read. The marker's commit proves, as `Session::confirm`, that it is not out
                // of date.
                if is_unchanged && !session.is_synchronous() {
                    (Ended::Unchanged, true)
                } else {
                    batch.changes_before = self.feed.as_ref().map_or(0, |feed| feed.last());
                    self.commit(&session, &changes, &batch.effects).await
                }
            }
            Err(why) => (Ended::NotDone(why), true),
        };
        if !matches!(ended, Ended::Unknown | Ended::NotDone(NotDone::Away(_))) {
            (self.session, self.is_open) = (Some(session), is_open);
        }
        ended
    }

    /// Begins the transaction and runs the jobs in it, or as many of them as the rounds allow.
    async fn run_batch(&self, session: &Session, seq: i64, batch: &mut Batch) -> Result<Overlay, NotDone> {
        let client = session.client();
        let mut overlay = Overlay::for_writes();
        let mut wants = Vec::new();
        batch.outcomes.clear();
        batch.effects = Effects::default();
        batch.jobs.iter().for_each(|job| job.wants(&mut wants));
        let wants = wants.into_iter().filter_map(Lack::from_want);
        wants.chain(batch.learned.iter().cloned()).for_each(|lack| overlay.want(lack));
        let locks: BTreeSet<Lock> = batch.jobs.iter().filter_map(|job| job.lock()).collect();
        self.begin(client, seq, &locks, &mut overlay).await?;
        let rounds_max = if batch.is_alone() { ROUNDS_MAX_ALONE } else { ROUNDS_MAX };
        let mut rounds = 0;
        loop {
            match batch.run(&mut overlay) {
                Run::Done => break,
                Run::Failed if batch.is_alone() => return Err(NotDone::Conflict),
                // The jobs before it are committed; then it runs alone.
                Run::Failed => break,
                Run::Panicked(at) => {
                    batch.drop_panicked(at);
                    return Err(NotDone::Conflict);
                }
                Run::Lacks if rounds == rounds_max => {
                    if batch.is_alone() {
                        let why = "the write reads more rows each time that it runs";
                        batch.outcomes.push(Some(StoreError::Away(why.into())));
                    }
                    break;
                }
                Run::Lacks => {}
            }
            rounds += 1;
            batch.learned.extend(overlay.lacks());
            self.fetch(client, &mut overlay).await?;
        }
        Ok(overlay)
    }
}
