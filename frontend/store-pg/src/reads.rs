//! A lane of reads: one connection that executes groups of reads, each in one transaction that sees one snapshot.
//!
//! The rows that the reads name are fetched together with BEGIN, so one round trip is usual. A read that lacks something runs
//! again after the next round trip; the others are answered already.

use crate::connect::Session;
use crate::lane::{Fetch, NotDone, PLANS, Statements, judge, slow};
use crate::overlay::{Lack, Overlay};
use futures_util::future::join;
use monoio::time::timeout;
use std::fmt;
use std::time::Duration;
use store::StoreError;
use store_rules::backend::Want;
use store_rules::rows::Rows;
use tokio_postgres::{Client, Error};

/// The largest number of round trips of a group of reads after its first.
const ROUNDS_MAX: u32 = 1024;
/// How often a group of reads is tried, if the server refuses a statement.
const TRIES_MAX: u32 = 3;

/// A read as a lane sees it.
pub trait ReadJob: Send {
    /// Names what it will probably read, so that it is fetched at once.
    fn wants(&self, out: &mut Vec<Want>);

    /// Does its work. It may be called many times; only the last call counts.
    ///
    /// # Errors
    ///
    /// A failure of the store, or a row that is not fetched.
    fn run(&mut self, rows: &dyn Rows) -> Result<(), StoreError>;

    /// Answers its caller: with what it has read, or with the failure.
    fn finish(self: Box<Self>, failure: Option<&StoreError>);

    /// Answers its caller with the failure, if it has waited for too long. Returns whether nobody needs the job any more.
    fn expire(&mut self, failure: &StoreError) -> bool {
        let _ = failure;
        false
    }
}

/// Reads in their order.
pub type ReadJobs = Vec<Box<dyn ReadJob>>;

/// Which reads of a group were answered.
pub enum ReadEnd {
    /// All.
    Done,
    /// Those without these: there is no connection any more, for this reason. They can run on a new lane.
    Away {
        /// The reason.
        why: String,
        /// The reads.
        jobs: ReadJobs,
    },
}

impl fmt::Debug for ReadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadEnd::Done => f.write_str("Done"),
            ReadEnd::Away { why, jobs } => write!(f, "Away({why:?}, {} jobs)", jobs.len()),
        }
    }
}

/// A lane of reads with its prepared statements.
pub struct ReadLane {
    /// `None` once the connection cannot be used any more.
    session: Option<Session>,
    statements: Statements,
    patience: Duration,
    trips: u64,
}

impl ReadLane {
    /// Opens a lane. `patience` is the longest time of a round trip; after it, the connection is closed.
    ///
    /// # Errors
    ///
    /// [`NotDone::Away`], [`NotDone::Busy`] or [`NotDone::Refused`].
    pub async fn open(session: Session, patience: Duration) -> Result<ReadLane, NotDone> {
        let mut lane = ReadLane { session: None, statements: Statements::default(), patience, trips: 0 };
        lane.wait(session.client().batch_execute(PLANS)).await?;
        lane.session = Some(session);
        Ok(lane)
    }

    /// Whether the lane has a connection for another group.
    pub fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.client().is_closed())
    }

    /// The number of round trips so far, without that of [`ReadLane::open`].
    pub fn round_trips(&self) -> u64 {
        self.trips + self.statements.trips()
    }

    /// Executes reads of one snapshot, and answers each as soon as it has its rows. The snapshot is taken after this is
    /// called, so it has every write that was answered before.
    pub async fn run(&mut self, mut jobs: ReadJobs) -> ReadEnd {
        let mut tries = 0;
        while !jobs.is_empty() {
            let Some(session) = self.session.take() else {
                return ReadEnd::Away { why: "the lane has no connection".into(), jobs };
            };
            let (failure, is_last) = match self.snapshot(session.client(), &mut jobs).await {
                Ok(()) => ("the read wants more rows each time that it runs".to_owned(), true),
                Err(NotDone::Away(why)) => return ReadEnd::Away { why, jobs },
                Err(NotDone::Refused(why) | NotDone::Busy(why)) => (why, false),
                Err(NotDone::Conflict | NotDone::Fenced) => ("the snapshot was lost".to_owned(), false),
            };
            tries += 1;
            if is_last || tries == TRIES_MAX {
                let failure = StoreError::NotDone(failure);
                jobs.drain(..).for_each(|job| job.finish(Some(&failure)));
            }
            // Nobody waits for this: it has nothing to commit. After an error it rolls back.
            self.trips += 1;
            let ended = self.wait(session.client().batch_execute("COMMIT")).await;
            self.session = ended.is_ok().then_some(session);
        }
        ReadEnd::Done
    }

    /// Begins a transaction and runs the reads in it. Those that are answered are removed.
    async fn snapshot(&mut self, client: &Client, jobs: &mut ReadJobs) -> Result<(), NotDone> {
        let mut overlay = Overlay::for_reads();
        let mut wants = Vec::new();
        jobs.iter().for_each(|job| job.wants(&mut wants));
        wants.into_iter().filter_map(Lack::from_want).for_each(|lack| overlay.want(lack));
        for round in 0..=ROUNDS_MAX {
            let fetches = self.statements.fetches(client, Fetch::all(overlay.take_lacks()));
            let fetches = self.wait(fetches).await?;
            self.trips += 1;
            let begin = async {
                if round > 0 {
                    return Ok(());
                }
                client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
            };
            // `join` polls in this order, so the messages leave in this order.
            let both = join(begin, fetches.send(client));
            let Ok((begun, read)) = timeout(self.patience, both).await else { return Err(slow()) };
            // Without BEGIN the fetches have no common snapshot.
            begun.map_err(|error| judge(&error))?;
            let read = read.map_err(|error| judge(&error))?;
            fetches.add_to(&mut overlay, &read).map_err(|error| judge(&error))?;
            *jobs = answer(&mut overlay, jobs);
            if jobs.is_empty() {
                break;
            }
        }
        Ok(())
    }

    async fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, NotDone> {
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(|error| judge(&error)),
            Err(_) => Err(slow()),
        }
    }
}

/// Answers the reads that have their rows, and returns the others.
fn answer(overlay: &mut Overlay, jobs: &mut ReadJobs) -> ReadJobs {
    let mut waiting = Vec::new();
    for mut job in jobs.drain(..) {
        overlay.begin_job();
        let result = job.run(overlay);
        if overlay.has_missed() {
            waiting.push(job);
        } else {
            job.finish(result.err().as_ref());
        }
    }
    waiting
}
