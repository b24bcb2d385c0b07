//! The thread `store-pg`: the lanes of writes and reads, and the control connection, each a task with a connection.
//!
//! A lane that loses its connection connects again until it succeeds, and keeps its jobs in their order. So does a lane that
//! is connected to a former primary, as soon as any connection of the process has found the next one. Callers wait for at
//! most [`WAIT_MAX`](crate::job::WAIT_MAX); then they are told that the database is away.

mod control;

use crate::connect::{Connector, Session, explain};
use crate::feed::Feed;
use crate::job::Deadlines;
use crate::lane::{GroupEnd, GroupJob, Jobs, Lane, LanePlace, NotDone, Truth, UnsureGroup};
use crate::node::{NodeSettings, Registration, Role};
use crate::reads::{ReadEnd, ReadJob, ReadJobs, ReadLane};
use crate::schema;
use control::Control;
pub use control::{ControlSetup, Question, Reloaded};
use futures_channel::mpsc::UnboundedReceiver;
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use store::StoreError;

/// The most writes of one group.
const GROUP_MAX: usize = 1000;
/// The most reads of one snapshot.
const READS_MAX: usize = 256;
/// The longest time of a round trip. It is longer than the lock timeout of the server.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pauses between attempts to connect: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The time between two looks for callers that have waited for too long.
const EXPIRE_EVERY: Duration = Duration::from_millis(250);
/// How long the end of the process waits for a database that is away.
const END_MAX: Duration = Duration::from_secs(10);

/// What the thread needs.
pub struct Setup {
    /// Opens connections.
    pub connector: Arc<Connector>,
    /// The schema of the tables.
    pub schema: String,
    /// What the node says of itself.
    pub node: NodeSettings,
    /// Whether it is a server or a command.
    pub role: Role,
    /// Writes, one queue for each lane.
    pub writes: Vec<UnboundedReceiver<Box<dyn GroupJob>>>,
    /// Reads, one queue for each lane.
    pub reads: Vec<UnboundedReceiver<Box<dyn ReadJob>>>,
    /// The callers that wait.
    pub deadlines: Arc<Deadlines>,
    /// What the control connection needs.
    pub control: ControlSetup,
}

/// What the tasks of the thread share.
struct Context {
    connector: Arc<Connector>,
    schema: String,
    node: NodeSettings,
    role: Role,
    feed: Rc<Feed>,
    registration: RefCell<Registration>,
    /// A lane has found that the node was declared dead.
    is_fenced: Cell<bool>,
    /// The lanes have ended.
    has_ended: Cell<bool>,
}

impl Context {
    /// A connection that uses the schema.
    async fn session(&self) -> Result<Session, String> {
        let session = self.connector.connect().await.map_err(|error| error.to_string())?;
        schema::enter(session.client(), &self.schema).await.map_err(|error| explain(&error))?;
        Ok(session)
    }

    /// Whether a connection can be used again: it is open, and no other server is the primary.
    fn is_usable(&self, session: Option<&Session>) -> bool {
        session.is_some_and(|session| !session.client().is_closed() && self.connector.is_current(session))
    }

    fn epoch(&self) -> i64 {
        self.registration.borrow().epoch
    }

    /// The number of the last committed group of a lane.
    fn last_group(&self, lane: usize) -> i64 {
        self.registration.borrow().last_groups.get(lane).copied().unwrap_or(0)
    }
}

/// Registers the node, answers `registered`, and works until all queues are closed.
pub async fn run(setup: Setup, feed: Feed, registered: Sender<Result<(), StoreError>>) {
    let Setup { connector, schema, node, role, writes, reads, deadlines, control } = setup;
    let context = Rc::new(Context {
        connector,
        schema,
        node,
        role,
        feed: Rc::new(feed),
        registration: RefCell::new(Registration { epoch: 0, last_groups: Vec::new() }),
        is_fenced: Cell::new(true),
        has_ended: Cell::new(false),
    });
    let mut control = Control::new(Rc::clone(&context), control);
    let first = control.start().await;
    let is_registered = first.is_ok();
    // Nobody waits if the opening was given up.
    let _ = registered.send(first);
    if !is_registered {
        return;
    }
    let control = monoio::spawn(control.run());
    let writes = writes.into_iter().enumerate();
    let writes =
        writes.map(|(number, queue)| monoio::spawn(WriteLane::new(Rc::clone(&context), number, queue).run()));
    let reads = reads.into_iter().map(|queue| {
        monoio::spawn(
            ReadQueue { context: Rc::clone(&context), queue, lane: None, waiting: Vec::new() }.run(),
        )
    });
    let lanes: Vec<_> = writes.chain(reads).collect();
    let expiring = monoio::spawn(expire(Rc::clone(&context), deadlines));
    join_all(lanes).await;
    context.has_ended.set(true);
    control.await;
    expiring.await;
}

/// Answers callers that have waited for too long, until the lanes have ended.
async fn expire(context: Rc<Context>, deadlines: Arc<Deadlines>) {
    while !context.has_ended.get() {
        monoio::time::sleep(EXPIRE_EVERY).await;
        deadlines.expire();
    }
}

/// The pause before the next attempt to connect, which grows.
struct Pause(Duration);

impl Pause {
    fn new() -> Pause {
        Pause(PAUSE.0)
    }

    async fn wait(&mut self) {
        monoio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE.1);
    }
}

/// A lane of writes with the jobs that it has taken.
struct WriteLane {
    context: Rc<Context>,
    number: usize,
    queue: UnboundedReceiver<Box<dyn GroupJob>>,
    is_closed: bool,
    lane: Option<Lane>,
    /// The epoch of `lane`.
    epoch: i64,
    /// The number of the next group.
    next: i64,
    jobs: Jobs,
    unsure: Option<UnsureGroup>,
    pause: Pause,
    /// When the process began to end while the database was away.
    ending_since: Option<Instant>,
}

impl WriteLane {
    fn new(context: Rc<Context>, number: usize, queue: UnboundedReceiver<Box<dyn GroupJob>>) -> WriteLane {
        WriteLane {
            context,
            number,
            queue,
            is_closed: false,
            lane: None,
            epoch: 0,
            next: 0,
            jobs: Vec::new(),
            unsure: None,
            pause: Pause::new(),
            ending_since: None,
        }
    }

    async fn run(mut self) {
        loop {
            if self.jobs.is_empty() && self.unsure.is_none() {
                match self.queue.next().await {
                    Some(job) => self.jobs.push(job),
                    None => return,
                }
            }
            self.take_more();
            match self.turn().await {
                Ok(()) => self.pause = Pause::new(),
                Err(why) => {
                    if self.has_waited_enough() {
                        return self.give_up(&why);
                    }
                    self.expire(&why);
                    self.pause.wait().await;
                }
            }
        }
    }

    /// Adds the jobs that wait, up to a full group.
    fn take_more(&mut self) {
        while self.jobs.len() < GROUP_MAX && !self.is_closed {
            match self.queue.try_recv() {
                Ok(job) => self.jobs.push(job),
                Err(error) if error.is_closed() => self.is_closed = true,
                Err(_) => break,
            }
        }
    }

    /// One step: a connection, the truth about an unsure group, or a group.
    ///
    /// # Errors
    ///
    /// The database is away, for this reason.
    async fn turn(&mut self) -> Result<(), String> {
        if self.context.is_fenced.get() {
            return Err("the node registers again".into());
        }
        if !self.context.is_usable(self.lane.as_ref().and_then(Lane::session)) {
            self.lane = None;
            self.connect().await?;
        }
        let Some(lane) = &mut self.lane else { return Ok(()) };
        if let Some(group) = self.unsure.take() {
            match lane.believe(self.next).await {
                Ok(truth) => {
                    if truth == Truth::Done {
                        self.next += 1;
                    }
                    let rest = std::mem::take(&mut self.jobs);
                    self.jobs = group.settle(truth);
                    self.jobs.extend(rest);
                    // The epoch was raised between: the next group would fail at its marker.
                    if truth == Truth::Fenced {
                        self.fenced();
                    }
                }
                Err(why) => {
                    self.unsure = Some(group);
                    self.lane = None;
                    return Err(why);
                }
            }
            return Ok(());
        }
        let report = lane.run_group(self.next, std::mem::take(&mut self.jobs)).await;
        self.next = report.next;
        match report.end {
            GroupEnd::Done => Ok(()),
            GroupEnd::NotDone { why, jobs } => {
                self.jobs = jobs;
                match why {
                    NotDone::Fenced => {
                        self.fenced();
                        Ok(())
                    }
                    NotDone::Away(why) | NotDone::Busy(why) | NotDone::Refused(why) => {
                        self.lane = None;
                        Err(why)
                    }
                    NotDone::Conflict => Ok(()),
                }
            }
            GroupEnd::Unknown { group, rest } => {
                self.unsure = Some(group);
                self.jobs = rest;
                self.lane = None;
                Ok(())
            }
        }
    }

    /// The node was declared dead. The control connection registers it again; until then this lane waits.
    fn fenced(&mut self) {
        self.lane = None;
        if self.epoch == self.context.epoch() {
            self.context.is_fenced.set(true);
        }
    }

    async fn connect(&mut self) -> Result<(), String> {
        let session = self.context.session().await?;
        let epoch = self.context.epoch();
        if epoch != self.epoch && self.unsure.is_none() {
            self.next = self.context.last_group(self.number) + 1;
        }
        let lane = i32::try_from(self.number).unwrap_or(i32::MAX);
        let place = LanePlace { node: self.context.node.id, lane, epoch };
        let lane = Lane::open(session, place, PATIENCE).await.map_err(|why| why.to_string())?;
        self.lane = Some(lane.with_feed(Rc::clone(&self.context.feed)));
        self.epoch = epoch;
        Ok(())
    }

    /// Answers callers that have waited for too long, and drops jobs that nobody needs any more.
    fn expire(&mut self, why: &str) {
        let failure = StoreError::Away(why.to_owned());
        self.jobs.retain_mut(|job| !job.expire(&failure));
        if let Some(group) = &mut self.unsure {
            group.expire(&StoreError::Unknown(why.to_owned()));
        }
    }

    /// Whether the process is ending and the database has been away for long.
    fn has_waited_enough(&mut self) -> bool {
        self.is_closed && self.ending_since.get_or_insert_with(Instant::now).elapsed() >= END_MAX
    }

    fn give_up(self, why: &str) {
        let failure = StoreError::Away(why.to_owned());
        self.jobs.into_iter().for_each(|job| job.finish(Some(&failure)));
        if let Some(group) = self.unsure {
            group.fail(&StoreError::Unknown(why.to_owned()));
        }
    }
}

/// A lane of reads with the jobs that it has taken.
struct ReadQueue {
    context: Rc<Context>,
    queue: UnboundedReceiver<Box<dyn ReadJob>>,
    lane: Option<ReadLane>,
    waiting: ReadJobs,
}

impl ReadQueue {
    async fn run(mut self) {
        let mut pause = Pause::new();
        let mut is_closed = false;
        loop {
            if self.waiting.is_empty() {
                match self.queue.next().await {
                    Some(job) => self.waiting.push(job),
                    None => return,
                }
            }
            while self.waiting.len() < READS_MAX && !is_closed {
                match self.queue.try_recv() {
                    Ok(job) => self.waiting.push(job),
                    Err(error) if error.is_closed() => is_closed = true,
                    Err(_) => break,
                }
            }
            match self.turn().await {
                Ok(()) => pause = Pause::new(),
                Err(why) => {
                    let failure = StoreError::Away(why);
                    if is_closed {
                        self.waiting.into_iter().for_each(|job| job.finish(Some(&failure)));
                        return;
                    }
                    self.waiting.retain_mut(|job| !job.expire(&failure));
                    pause.wait().await;
                }
            }
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        if !self.context.is_usable(self.lane.as_ref().and_then(ReadLane::session)) {
            self.lane = None;
            let lane = ReadLane::open(self.context.session().await?, PATIENCE).await;
            self.lane = Some(lane.map_err(|why| why.to_string())?);
        }
        let Some(lane) = &mut self.lane else { return Ok(()) };
        match lane.run(std::mem::take(&mut self.waiting)).await {
            ReadEnd::Done => Ok(()),
            ReadEnd::Away { why, jobs } => {
                self.waiting = jobs;
                self.lane = None;
                Err(why)
            }
        }
    }
}
