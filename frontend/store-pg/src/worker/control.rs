//! The control connection: the lease, the changes of the index, dead nodes, orphaned holds, and claims.

use super::{Context, PATIENCE, Pause};
use crate::claims;
use crate::cluster;
use crate::connect::{Session, explain};
use crate::feed::{Left, PRUNE_CHANGES, READ_CHANGES};
use crate::node::{self, Lease, LiveNodes, NotRegistered, Presence, RENEW_EVERY, Role};
use futures_channel::mpsc::UnboundedReceiver;
use futures_channel::oneshot;
use monoio::time::timeout;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use store::{ClaimedLists, HoldRef, OpenBatch, Reply, StoreError, UnixMs, clock};
use store_rules::clock_fault;
use store_rules::index::KeyChange;
use store_rules::shared::Shared;
use store_rules::tables::{FORMAT, META_FORMAT};
use tokio_postgres::Error;

/// How often it looks whether something is due.
const TICK: Duration = Duration::from_millis(50);
/// The time between two reads of changes.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// The time between two looks for dead nodes and orphaned holds.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The time between two removals of old changes.
const PRUNE_EVERY: Duration = Duration::from_secs(20);
/// The time between two chores of a node that writes.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a start waits for a database that is away.
const START_MAX: Duration = Duration::from_secs(30);

/// A question for the control connection.
pub enum Question {
    /// Claims at most so many unfinished batches that no live node has, or that this node had before it was started.
    ClaimBatches {
        /// The largest number.
        most: usize,
        /// The reply.
        reply: Reply<Vec<OpenBatch>, StoreError>,
    },
    /// Names holds that nobody will answer.
    OrphanedHolds {
        /// The reply.
        reply: Reply<Vec<HoldRef>, StoreError>,
    },
    /// Claims all lists that no live node has, and names all that this node has. Those that it had before it was started are new.
    ClaimLists {
        /// The reply.
        reply: Reply<Option<ClaimedLists>, StoreError>,
    },
}

/// The complete index, with the number of its last change.
pub type Reloaded = Result<(i64, Vec<KeyChange>), StoreError>;

/// What the control connection needs.
pub struct ControlSetup {
    /// The lease, for all threads.
    pub lease: Arc<Lease>,
    /// The number of live nodes.
    pub live_nodes: Arc<AtomicU32>,
    /// The number of live nodes that share the limits of mail servers with this one.
    pub egress_nodes: Arc<AtomicU32>,
    /// By how many milliseconds the database's clock is ahead of ours at least.
    pub clock_ahead: Arc<AtomicI64>,
    /// Questions of other threads.
    pub questions: UnboundedReceiver<Question>,
    /// Queues a write that voids holds.
    pub void: Box<dyn Fn(Vec<HoldRef>) + Send>,
    /// Queues a write that carries old entries and removes expired rows.
    pub chores: Box<dyn Fn(Left) + Send>,
    /// Reads the whole index on a thread that may block.
    pub reload: Box<dyn Fn() -> oneshot::Receiver<Reloaded> + Send>,
    /// What is told when the format of the database rises.
    pub shared: Arc<Shared>,
}

/// When something was done last.
struct Last(Option<Instant>);

impl Last {
    fn is_due(&self, every: Duration) -> bool {
        self.0.is_none_or(|last| last.elapsed() >= every)
    }

    fn done(&mut self) {
        self.0 = Some(Instant::now());
    }
}

/// The task of the control connection.
pub struct Control {
    context: Rc<Context>,
    setup: ControlSetup,
    session: Option<Session>,
    /// The epoch of the first registration of this process.
    first_epoch: i64,
    presence: Presence,
    renewed: Last,
    polled: Last,
    looked: Last,
    pruned: Last,
    /// The number of the last change in the index at the last removal of old changes.
    seen_at_prune: i64,
    swept: Last,
}

impl Control {
    /// A task without a connection.
    pub fn new(context: Rc<Context>, setup: ControlSetup) -> Control {
        let [renewed, polled, looked, pruned, swept] = [const { Last(None) }; 5];
        let presence = Presence::default();
        Control {
            context,
            setup,
            session: None,
            first_epoch: 0,
            presence,
            renewed,
            polled,
            looked,
            pruned,
            seen_at_prune: 0,
            swept,
        }
    }

    /// Connects, and registers the node.
    ///
    /// # Errors
    ///
    /// The database is away for long, or another process has the number of this node.
    pub async fn start(&mut self) -> Result<(), StoreError> {
        let (began, mut pause) = (Instant::now(), Pause::new());
        loop {
            let why = match self.try_start().await {
                Ok(started) => return started,
                Err(why) => why,
            };
            if began.elapsed() >= START_MAX {
                return Err(StoreError::Away(why));
            }
            pause.wait().await;
        }
    }

    async fn try_start(&mut self) -> Result<Result<(), StoreError>, String> {
        let session = self.context.session().await?;
        match node::watch_for_another(session.client(), self.context.node.id).await {
            Ok(()) => {}
            Err(why) => return refused(why),
        }
        self.session = Some(session);
        let registered = self.register().await?;
        self.first_epoch = self.context.epoch();
        Ok(registered)
    }

    /// Works until the lanes have ended.
    pub async fn run(mut self) {
        let mut pause = Pause::new();
        while !self.context.has_ended.get() {
            match self.turn().await {
                Ok(()) => {
                    pause = Pause::new();
                    monoio::time::sleep(TICK).await;
                }
                Err(why) => {
                    tracing::warn!("the control connection of the database is away: {why}");
                    self.session = None;
                    self.refuse_questions(&why);
                    pause.wait().await;
                }
            }
        }
        if let Some(session) = &self.session {
            let (client, id, epoch) = (session.client(), self.context.node.id, self.context.epoch());
            let left = match self.context.role {
                // Without it the lease ends by itself.
                Role::Server => within(node::leave(client, id, epoch)).await,
                Role::Command => within(node::remove_command(client, id)).await,
            };
            drop(left);
        }
        self.setup.lease.lost();
    }

    async fn turn(&mut self) -> Result<(), String> {
        if !self.context.is_usable(self.session.as_ref()) {
            self.session = None;
            self.session = Some(self.context.session().await?);
        }
        if self.context.is_fenced.get() {
            tracing::warn!("this node was declared dead, and registers again");
            self.register().await?.map_err(|error| error.to_string())?;
        }
        if self.context.role == Role::Command {
            // It has no lease, and leaves everything else to the nodes.
            return self.answer_questions().await;
        }
        if self.renewed.is_due(RENEW_EVERY) {
            self.renew().await?;
        }
        self.answer_questions().await?;
        if self.polled.is_due(POLL_EVERY) {
            self.poll().await?;
        }
        if self.looked.is_due(LOOK_EVERY) {
            self.look().await?;
        }
        if self.swept.is_due(SWEEP_EVERY) {
            self.swept.done();
            self.context.feed.take_left().into_iter().for_each(&self.setup.chores);
        }
        if self.pruned.is_due(PRUNE_EVERY) {
            // The newest change stays: its number is that of the index.
            within(self.client()?.execute(PRUNE_CHANGES, &[&self.seen_at_prune])).await?;
            self.seen_at_prune = self.context.feed.last();
            within(node::remove_commands(self.client()?)).await?;
            self.pruned.done();
        }
        Ok(())
    }

    fn client(&self) -> Result<&tokio_postgres::Client, String> {
        self.session.as_ref().map(Session::client).ok_or_else(|| "there is no connection".into())
    }

    /// Registers the node or the command. The inner error is final.
    async fn register(&mut self) -> Result<Result<(), StoreError>, String> {
        self.setup.lease.lost();
        if self.context.role == Role::Command {
            let registration = within(node::register_command(self.client()?, &self.context.node)).await?;
            *self.context.registration.borrow_mut() = registration;
            self.context.is_fenced.set(false);
            return Ok(Ok(()));
        }
        let asked = Instant::now();
        let registration = timeout(PATIENCE, node::register(self.client()?, &self.context.node)).await;
        let registration = match registration.map_err(|_| slow())? {
            Ok(registration) => registration,
            Err(why) => return refused(why),
        };
        *self.context.registration.borrow_mut() = registration;
        self.setup.lease.granted(asked);
        self.presence.renewed(Instant::now());
        self.context.is_fenced.set(false);
        self.renewed.done();
        // The engine starts after this, and must not take the limits of the whole address.
        self.count_nodes().await?;
        // The opening voids the holds of earlier epochs itself.
        self.looked.done();
        Ok(Ok(()))
    }

    async fn renew(&mut self) -> Result<(), String> {
        let (asked, before) = (Instant::now(), clock::now());
        let (id, epoch) = (self.context.node.id, self.context.epoch());
        match within(node::renew(self.client()?, id, epoch)).await? {
            Some(there) => {
                self.setup.lease.granted(asked);
                self.presence.renewed(Instant::now());
                let after = clock::now();
                let still = surely(clock::follow(ahead(there, before, after)), after.saturating_sub(before));
                let before = self.setup.clock_ahead.swap(still, Ordering::Relaxed);
                if let (None, Some(fault)) = (clock_fault(before), clock_fault(still)) {
                    tracing::warn!("not ready: {fault}");
                }
            }
            None => self.context.is_fenced.set(true),
        }
        self.renewed.done();
        Ok(())
    }

    async fn poll(&mut self) -> Result<(), String> {
        self.polled.done();
        let feed = &self.context.feed;
        let rows = within(self.client()?.query(READ_CHANGES, &[&feed.last()])).await?;
        let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let changes: Result<Vec<(i64, Vec<u8>)>, Error> = rows.iter().map(read).collect();
        if let Err(error) = feed.apply(changes.map_err(|error| explain(&error))?) {
            tracing::warn!("a change of the index of keys cannot be applied: {error}");
        }
        if feed.take_gap() {
            match (self.setup.reload)().await {
                Ok(Ok((last, content))) => feed.reload(last, content),
                Ok(Err(error)) => return Err(error.to_string()),
                Err(oneshot::Canceled) => return Err("no thread can read the index".into()),
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), String> {
        self.looked.done();
        let client = self.client()?;
        self.count_nodes().await?;
        let known = &self.setup.shared.format;
        if known.load(Ordering::Relaxed) < FORMAT {
            let format = within(cluster::meta(client, META_FORMAT)).await?.unwrap_or(0);
            known.fetch_max(u32::try_from(format).unwrap_or(0), Ordering::Relaxed);
        }
        let knows_others = self.presence.is_long(Instant::now());
        let buried = within(node::bury_dead(client, self.context.node.id, knows_others)).await?;
        for id in buried {
            tracing::warn!(node = id, "took over the work of a node that has died");
        }
        let orphans = in_time(node::orphaned_holds(client)).await.map_err(|error| error.to_string())?;
        if !orphans.is_empty() {
            tracing::warn!(holds = orphans.len(), "returned the credits of interrupted checks");
            (self.setup.void)(orphans);
        }
        Ok(())
    }

    async fn count_nodes(&self) -> Result<(), String> {
        let found = within(node::count_live(self.client()?, &self.context.node.egress)).await?;
        let (all, of_egress) = (&self.setup.live_nodes, &self.setup.egress_nodes);
        let before =
            LiveNodes { all: all.load(Ordering::Relaxed), of_egress: of_egress.load(Ordering::Relaxed) };
        let live = found.since(before, self.presence.is_long(Instant::now()));
        all.store(live.all, Ordering::Relaxed);
        of_egress.store(live.of_egress, Ordering::Relaxed);
        Ok(())
    }

    async fn answer_questions(&mut self) -> Result<(), String> {
        while let Ok(question) = self.setup.questions.try_recv() {
            let (client, place) = (self.client()?, (self.context.node.id, self.context.epoch()));
            match question {
                Question::ClaimBatches { most, reply } => {
                    reply.answer(in_time(claims::batches(client, place, most, self.first_epoch)).await);
                }
                Question::OrphanedHolds { reply } => {
                    reply.answer(in_time(node::orphaned_holds(client)).await);
                }
                Question::ClaimLists { reply } => {
                    reply.answer(in_time(claims::lists(client, place, self.first_epoch)).await.map(Some));
                }
            }
        }
        Ok(())
    }

    fn refuse_questions(&mut self, why: &str) {
        let away = || StoreError::Away(why.to_owned());
        while let Ok(question) = self.setup.questions.try_recv() {
            match question {
                Question::ClaimBatches { reply, .. } => reply.answer(Err(away())),
                Question::OrphanedHolds { reply } => reply.answer(Err(away())),
                Question::ClaimLists { reply } => reply.answer(Err(away())),
            }
        }
    }
}

/// What a refused registration means: it is tried again (outer), or final (inner).
fn refused(why: NotRegistered) -> Result<Result<(), StoreError>, String> {
    Ok(Err(StoreError::Failed(match why {
        NotRegistered::Database(error) => return Err(explain(&error)),
        NotRegistered::InUse { host } => format!(
            "another mailprobe on {host} uses the identity in this data folder. Give each node a data folder of its own, \
             made by `mailprobe cluster join`"
        ),
        NotRegistered::Newer(found) => {
            format!("the database has format {found}, which this mailprobe does not know; upgrade it")
        }
    })))
}

/// How far the time `there` is ahead of ours, which was between `before` and `after`.
fn ahead(there: UnixMs, before: UnixMs, after: UnixMs) -> i64 {
    let here = before + after.saturating_sub(before) / 2;
    let difference = i128::from(there) - i128::from(here);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// The part of a difference that is certain, because the answer may have been given at any moment of the `round_trip`.
fn surely(difference: i64, round_trip: u64) -> i64 {
    let doubt = i64::try_from(round_trip.div_ceil(2)).unwrap_or(i64::MAX);
    difference.signum() * difference.saturating_abs().saturating_sub(doubt).max(0)
}

fn slow() -> String {
    "the server did not answer in time".into()
}

/// The result of several statements, within the time of one.
async fn in_time<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(StoreError::Away(slow())))
}

/// The result of a statement, or a reason to drop the connection.
async fn within<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(slow()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_says_less_about_the_clock() {
        for (difference, round_trip, expected) in [
            (0, 0, 0),
            (2_500, 0, 2_500),
            (2_500, 100, 2_450),
            (-2_500, 1_001, -1_999),
            (2_500, 5_000, 0),
            (-100, 5_000, 0),
            (i64::MIN, 2, i64::MIN + 2),
            (i64::MAX, u64::MAX, 0),
        ] {
            assert_eq!(surely(difference, round_trip), expected, "{difference} {round_trip}");
        }
        assert_eq!((ahead(5_000, 1_000, 2_000), ahead(1_000, 5_000, 5_001)), (3_500, -4_000));
    }
}
