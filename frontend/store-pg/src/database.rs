//! PostgreSQL as the backend of a store, for one of several nodes.

use crate::cluster::ClusterPlace;
use crate::connect::{Connector, Target, explain};
use crate::feed::{Feed, Left};
use crate::folder::NodeFolder;
use crate::job::{Deadlines, SnapshotJob, Waiting, WriteJob};
use crate::lane::GroupJob;
use crate::node::{LANES, LEASE_TRUSTED, Lease, NodeSettings, Role};
use crate::reads::ReadJob;
use crate::scan::{self, Scan, Scanner};
use crate::schema::{self, Found};
use crate::worker::{self, ControlSetup, Question, Reloaded, Setup};
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot;
use monoio::{LegacyDriver, RuntimeBuilder};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::backup::{BackupError, BackupSummary, Sizes};
use store::{
    ClaimedLists, HoldRef, NodePlace, OpenBatch, OpenError, Pending, PlanTable, Reply, StoreError,
    StoreFigures, UnixMs, clock, id, pending,
};
use store_rules::Store;
use store_rules::backend::{Backend, Class, Job, Wants};
use store_rules::backup::BackupWriter;
use store_rules::clock_check::ClockCheck;
use store_rules::disk::Disk;
use store_rules::index::{KeyChange, KeyIndex};
use store_rules::opening::{KeyTraces, check_plans, read_index};
use store_rules::rows::{Rows, Table};
use store_rules::shared::{Shared, SharedPlans};
use store_rules::sweep::Sweep;
use store_rules::tables::FORMAT;
use store_rules::task::{ReadTask, WriteTask, read_task, write_task};
use store_rules::txn::Txn;
use store_rules::write_error::WriteError;
use tokio_postgres::Client;
use vault::Vault;

/// How many jobs may wait before new writes are refused.
const QUEUE_MAX: usize = 16 * 1024;
/// What the chores do in addition to what groups have left.
const STEPS_MORE: usize = 250;
/// The number of lanes of reads.
const READ_LANES: usize = 2;
/// How long a node is ready without its lease.
const READY_MAX: Duration = Duration::from_secs(60);
/// How long a start waits for a database that is away.
const START_MAX: Duration = Duration::from_secs(30);

/// Options for opening a store.
pub struct PgOptions {
    /// Where the servers are.
    pub target: Target,
    /// The schema of the tables.
    pub schema: String,
    /// Whether a server without a synchronous standby is refused.
    pub requires_sync: bool,
    /// What the node says of itself.
    pub node: NodeSettings,
    /// The keys, which are those of all nodes.
    pub vault: Arc<Vault>,
    /// The folder of the keys, for messages.
    pub keys: PathBuf,
    /// Whether a verdict from one account's check may answer another account, which also pays for it.
    pub reuse: bool,
    /// The clock of the writes that no caller asks for: [`clock::now`], or that of a test which passes its own times to the store.
    pub clock: fn() -> UnixMs,
}

/// What a node adds to its folder and its place.
#[derive(Debug, Clone)]
pub struct NodeTraits {
    /// The name of the address that its checks come from; `None`: the number of the node.
    pub egress: Option<String>,
    /// The version of mailprobe.
    pub version: String,
    /// Whether a verdict from one account's check may answer another account, which also pays for it.
    pub reuse: bool,
}

/// The changes of opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PgOpening {
    /// The number of voided holds: those that this node and dead ones left without an answer.
    pub voided_holds: u64,
}

/// An open database, for one node.
pub struct Postgres {
    // Dropped in this order: the queues close, and the thread ends after the last accepted write.
    writes: Vec<WriteQueue>,
    reads: Vec<UnboundedSender<Box<dyn ReadJob>>>,
    questions: UnboundedSender<Question>,
    worker: Option<JoinHandle<()>>,
    scanner: Arc<Scanner>,
    connector: Arc<Connector>,
    schema: String,
    shared: Arc<Shared>,
    lease: Arc<Lease>,
    live_nodes: Arc<AtomicU32>,
    egress_nodes: Arc<AtomicU32>,
    clock_ahead: Arc<AtomicI64>,
    /// The number of the node.
    node: i64,
    figures: Arc<Mutex<StoreFigures>>,
    waiting: Arc<AtomicUsize>,
    deadlines: Arc<Deadlines>,
    turn: AtomicUsize,
    /// The folder of the node, which is locked until the last write is done.
    folder: Option<NodeFolder>,
}

/// Opens the store. The tables are created if they are missing, and the node is registered.
///
/// # Errors
///
/// [`OpenError`], with a remedy.
pub fn open(options: PgOptions, plans: PlanTable, now: UnixMs) -> Result<(Arc<Store>, PgOpening), OpenError> {
    let (postgres, opening) = open_as(Role::Server, options, plans, now)?;
    Ok((Arc::new(Store::new(Arc::new(postgres))), opening))
}

/// Opens the store of a cluster for a node, which keeps its folder.
///
/// # Errors
///
/// [`OpenError`], with a remedy.
pub fn open_node(
    place: &ClusterPlace,
    folder: NodeFolder,
    node: NodeTraits,
    plans: PlanTable,
    now: UnixMs,
) -> Result<(Arc<Store>, PgOpening), OpenError> {
    let NodeTraits { egress, version, reuse } = node;
    let egress = egress.unwrap_or_else(|| folder.id().to_string());
    let node = NodeSettings { id: folder.id(), egress, host: host(), version };
    open_in((Role::Server, node, reuse), place, folder, plans, now)
}

/// Opens the store of a cluster for a command, on the folder of a node that does not run. The command is no node: it has a number
/// of its own, which is removed at its end.
///
/// # Errors
///
/// [`OpenError`], with a remedy.
pub fn open_for_command(
    place: &ClusterPlace,
    folder: NodeFolder,
    version: String,
    plans: PlanTable,
    now: UnixMs,
) -> Result<Arc<Store>, OpenError> {
    let bits = id::random_bits().map_err(|error| StoreError::NotDone(error.to_string()))?;
    let id = i64::try_from(bits >> 65).unwrap_or(i64::MAX).max(1);
    let node = NodeSettings { id, egress: String::new(), host: host(), version };
    open_in((Role::Command, node, true), place, folder, plans, now).map(|(store, _)| store)
}

fn open_in(
    (role, node, reuse): (Role, NodeSettings, bool),
    place: &ClusterPlace,
    folder: NodeFolder,
    plans: PlanTable,
    now: UnixMs,
) -> Result<(Arc<Store>, PgOpening), OpenError> {
    let options = PgOptions {
        target: place.target.clone(),
        schema: place.schema.clone(),
        requires_sync: place.requires_sync,
        node,
        vault: Arc::clone(folder.vault()),
        keys: folder.keys(),
        reuse,
        clock: clock::now,
    };
    let (mut postgres, opening) = open_as(role, options, plans, now)?;
    postgres.folder = Some(folder);
    Ok((Arc::new(Store::new(Arc::new(postgres))), opening))
}

/// The name of this machine.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn open_as(
    role: Role,
    options: PgOptions,
    plans: PlanTable,
    now: UnixMs,
) -> Result<(Postgres, PgOpening), OpenError> {
    let PgOptions { target, schema, requires_sync, node, vault, keys, reuse, clock } = options;
    let connector = Connector::new(target, requires_sync).map_err(StoreError::Failed)?;
    let connector = Arc::new(connector);
    let ensure = async |client: &Client| schema::ensure(client, &schema, Some(vault.fingerprint())).await;
    let mut format = FORMAT;
    if let Found::Format(found) = on_connection(&connector, START_MAX, ensure)? {
        check_format(&schema, found)?;
        format = u32::try_from(found).unwrap_or(FORMAT);
    }
    let scan = Scan::begin(&connector, &schema, START_MAX)?;
    check_keys((&connector, &schema), &scan, &vault, keys)?;
    check_plans(&scan, &plans)?;
    let (last, content) = read_everything(&scan)?;
    let index = KeyIndex::default();
    index.apply(content);
    let clock_check = ClockCheck::read(&scan, now)?;
    drop(scan);
    let shared = Shared {
        plans: SharedPlans::new(plans),
        vault,
        index,
        clock_check,
        disk: Disk::UNKNOWN,
        has_nodes: true,
        format: format.into(),
        reuse,
    };
    let postgres = Postgres::start((connector, schema), (role, node), (Arc::new(shared), clock), last)?;
    let voided_holds = if role == Role::Server { postgres.void_orphans(now)? } else { 0 };
    Ok((postgres, PgOpening { voided_holds }))
}

/// Refuses a database with a format that this version does not write.
fn check_format(schema: &str, format: u64) -> Result<(), OpenError> {
    match format.cmp(&u64::from(FORMAT)) {
        std::cmp::Ordering::Equal => Ok(()),
        _ if schema::is_older(format) => Ok(()),
        std::cmp::Ordering::Greater => {
            let found = u32::try_from(format).unwrap_or(u32::MAX);
            Err(OpenError::Newer { path: schema.into(), found, known: FORMAT })
        }
        std::cmp::Ordering::Less => Err(OpenError::Store(StoreError::Failed(format!(
            "the schema {schema} has format {format}, from which this mailprobe has no step to format {FORMAT}; restore a backup"
        )))),
    }
}

/// Compares the keys with those that the database was written with. A database that was restored from a backup gets the
/// fingerprint of these keys.
fn check_keys(
    (connector, schema): (&Connector, &str),
    rows: &dyn Rows,
    vault: &Vault,
    folder: PathBuf,
) -> Result<(), OpenError> {
    let traces = KeyTraces::read(rows)?;
    if let Some(why) = traces.refusal(vault) {
        return Err(OpenError::OtherKeys { folder, why });
    }
    if traces.fingerprint != Some(vault.fingerprint()) {
        let failed = |error: tokio_postgres::Error| StoreError::Failed(explain(&error));
        on_connection(connector, START_MAX, async |client| {
            schema::enter(client, schema).await.map_err(failed)?;
            schema::note_keys(client, vault.fingerprint()).await.map_err(failed)
        })?;
    }
    Ok(())
}

/// Connects, works on the connection, and closes it. The thread blocks meanwhile. It tries to connect for this long.
pub(crate) fn on_connection<T>(
    connector: &Connector,
    patience: Duration,
    work: impl AsyncFnOnce(&Client) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let unable = |error: std::io::Error| StoreError::Failed(format!("no runtime for the database: {error}"));
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().map_err(unable)?;
    let end = Instant::now() + patience;
    runtime.block_on(async {
        loop {
            match connector.connect().await {
                Ok(session) => {
                    // A former primary acknowledges no write.
                    let done = monoio::time::timeout(START_MAX, work(session.client())).await;
                    scan::close(Some(session)).await;
                    return done.unwrap_or_else(|_| Err(StoreError::Away("no answer in time".into())));
                }
                Err(error) if Instant::now() >= end => return Err(StoreError::Away(error.to_string())),
                Err(_) => monoio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    })
}

/// The content of the index, and the number of its last change.
fn read_everything(scan: &Scan) -> Result<(i64, Vec<KeyChange>), StoreError> {
    let rows = scan.query("SELECT coalesce(max(seq), 0) FROM changes", &[])?;
    let last = rows.first().map(|row| row.try_get(0).map_err(|error| StoreError::Failed(explain(&error))));
    Ok((last.transpose()?.unwrap_or(0), read_index(scan)?))
}

impl Postgres {
    fn start(
        (connector, schema): (Arc<Connector>, String),
        (role, node): (Role, NodeSettings),
        (shared, clock): (Arc<Shared>, fn() -> UnixMs),
        last: i64,
    ) -> Result<Postgres, OpenError> {
        let unable =
            |error: std::io::Error| StoreError::Failed(format!("no thread for the database: {error}"));
        let scanner = Scanner::start(Arc::clone(&connector), schema.clone()).map_err(unable)?;
        let scanner = Arc::new(scanner);
        let (writes, write_queues): (Vec<WriteQueue>, Vec<_>) =
            (0..LANES).map(|_| unbounded()).map(|(queue, receiver)| (Arc::new(queue), receiver)).unzip();
        let (reads, read_queues): (Vec<_>, Vec<_>) = (0..READ_LANES).map(|_| unbounded()).unzip();
        let (questions, question_queue) = unbounded();
        let lease = Arc::new(Lease::new());
        let (live_nodes, egress_nodes) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(1)));
        let clock_ahead = Arc::new(AtomicI64::new(0));
        let figures = Arc::new(Mutex::new(StoreFigures::default()));
        let waiting = Arc::new(AtomicUsize::new(0));
        let deadlines = Arc::new(Deadlines::default());
        let own = OwnWrites {
            queue: Arc::downgrade(&writes[0]),
            shared: Arc::clone(&shared),
            waiting: Arc::clone(&waiting),
            clock,
        };
        let control = ControlSetup {
            lease: Arc::clone(&lease),
            live_nodes: Arc::clone(&live_nodes),
            egress_nodes: Arc::clone(&egress_nodes),
            clock_ahead: Arc::clone(&clock_ahead),
            questions: question_queue,
            void: own.clone().voiding(),
            chores: own.chores(),
            reload: reloading(&connector, &schema),
            shared: Arc::clone(&shared),
        };
        let id = node.id;
        let setup = Setup {
            connector: Arc::clone(&connector),
            schema: schema.clone(),
            node,
            role,
            writes: write_queues,
            reads: read_queues,
            deadlines: Arc::clone(&deadlines),
            control,
        };
        let (registered, registration) = mpsc::channel();
        let (feed_shared, feed_figures) = (Arc::clone(&shared), Arc::clone(&figures));
        let main = move || {
            let feed = Feed::new(feed_shared, feed_figures, last);
            match RuntimeBuilder::<LegacyDriver>::new().enable_timer().build() {
                Ok(mut runtime) => runtime.block_on(worker::run(setup, feed, registered)),
                Err(error) => drop(registered.send(Err(StoreError::Failed(error.to_string())))),
            }
        };
        let worker = thread::Builder::new().name("store-pg".into()).spawn(main).map_err(unable)?;
        let postgres = Postgres {
            writes,
            reads,
            questions,
            worker: Some(worker),
            scanner,
            connector,
            schema,
            shared,
            lease,
            live_nodes,
            egress_nodes,
            clock_ahead,
            node: id,
            figures,
            waiting,
            deadlines,
            turn: AtomicUsize::new(0),
            folder: None,
        };
        registration.recv().map_err(|_| StoreError::Closed)??;
        Ok(postgres)
    }

    /// Voids holds that nobody will answer; returns their number.
    fn void_orphans(&self, now: UnixMs) -> Result<u64, StoreError> {
        let mut voided = 0;
        loop {
            let orphans = self.ask(|reply| Question::OrphanedHolds { reply }).wait()?;
            if orphans.is_empty() {
                return Ok(voided);
            }
            let void =
                move |txn: &mut Txn<'_>| Ok::<_, WriteError<StoreError>>(txn.void_holds(&orphans, now)?);
            let (task, pending) = write_task(void);
            self.write(Job::general(Class::Answer), task);
            voided += pending.wait()?;
        }
    }

    /// The lane of an account: one for all its writes, so that their order is kept.
    fn lane_of(&self, job: &Job) -> &WriteQueue {
        let number = match job.account {
            // Writes with a lock are rare, and executed in the order of their calls too.
            _ if job.lock.is_some() => 0,
            // The last bytes of an id are random.
            Some(account) => usize::from(account.to_bytes()[15]),
            None => self.turn.fetch_add(1, Ordering::Relaxed),
        };
        &self.writes[number % self.writes.len()]
    }

    /// What refuses a job before it is queued.
    fn admit(&self, class: Class) -> Result<Waiting, StoreError> {
        if class == Class::New && self.waiting.load(Ordering::Relaxed) >= QUEUE_MAX {
            return Err(StoreError::Busy);
        }
        Ok(Waiting::new(&self.waiting))
    }

    fn ask<T>(&self, question: impl FnOnce(Reply<T, StoreError>) -> Question) -> Pending<T, StoreError> {
        let (reply, pending) = pending();
        match self.questions.unbounded_send(question(reply)) {
            Ok(()) => pending,
            Err(_) => Pending::ready(Err(StoreError::Closed)),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.writes.clear();
        self.reads.clear();
        if let Some(worker) = self.worker.take() {
            // A panic has dropped all replies, which are answered as closed.
            let _ = worker.join();
        }
    }
}

/// A queue of writes. Others than the store have it as `Weak`, so that it closes with the store.
type WriteQueue = Arc<UnboundedSender<Box<dyn GroupJob>>>;

/// Queues writes of the store itself, for which nobody waits.
#[derive(Clone)]
struct OwnWrites {
    queue: Weak<UnboundedSender<Box<dyn GroupJob>>>,
    shared: Arc<Shared>,
    waiting: Arc<AtomicUsize>,
    clock: fn() -> UnixMs,
}

impl OwnWrites {
    fn submit(&self, work: impl Fn(&mut Txn<'_>) -> Result<(), StoreError> + Send + 'static) {
        // Without a queue the process ends; the next start or another node does it.
        let Some(queue) = self.queue.upgrade() else { return };
        let (task, pending) = write_task(move |txn| Ok::<_, WriteError<StoreError>>(work(txn)?));
        drop(pending);
        let job = (Job::general(Class::Answer), Arc::clone(&self.shared));
        let job = WriteJob::new(job, task, Waiting::new(&self.waiting), None);
        let _ = queue.unbounded_send(Box::new(job));
    }

    /// Queues the voiding of orphaned holds.
    fn voiding(self) -> Box<dyn Fn(Vec<HoldRef>) + Send> {
        let clock = self.clock;
        Box::new(move |holds| self.submit(move |txn| txn.void_holds(&holds, clock()).map(drop)))
    }

    /// Queues what redb does with each group: old entries are carried, and expired rows removed.
    fn chores(self) -> Box<dyn Fn(Left) + Send> {
        let sweep = Arc::new(Mutex::new(Sweep::default()));
        Box::new(move |left| {
            let sweep = Arc::clone(&sweep);
            self.submit(move |txn| {
                let mut next = sweep.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let before = std::mem::take(&mut txn.effects);
                // Several groups have left it, and each would have taken some steps more.
                txn.effects.entries_added = left.entries.saturating_add(STEPS_MORE as u64);
                txn.effects.expiries_added = left.expiries.saturating_add(STEPS_MORE);
                txn.effects.latest = left.latest;
                let done = next.go_on(txn).and_then(|()| {
                    if txn.shared.clock_check.removes(left.latest) { txn.purge_some() } else { Ok(()) }
                });
                txn.effects = before;
                // If the group fails, the sweep skips what it would have carried; its next round finds it.
                done.map(|()| *sweep.lock().unwrap_or_else(PoisonError::into_inner) = next)
            });
        })
    }
}

/// Reads the whole index, on a thread of its own.
fn reloading(
    connector: &Arc<Connector>,
    schema: &str,
) -> Box<dyn Fn() -> oneshot::Receiver<Reloaded> + Send> {
    let (connector, schema) = (Arc::clone(connector), schema.to_owned());
    Box::new(move || {
        let (sender, receiver) = oneshot::channel();
        let (connector, schema) = (Arc::clone(&connector), schema.clone());
        let read = move || {
            let read = Scan::begin(&connector, &schema, START_MAX).and_then(|scan| read_everything(&scan));
            let _ = sender.send(read);
        };
        // Without a thread the sender is dropped, which is an error for the receiver.
        let _ = thread::Builder::new().name("store-pg-index".into()).spawn(read);
        receiver
    })
}

impl Backend for Postgres {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn read(&self, wants: Option<Wants>, task: Box<dyn ReadTask>) {
        match self.admit(Class::New) {
            Ok(waiting) => {
                let job = SnapshotJob::new(wants, task, waiting, &self.deadlines);
                let lane = self.turn.fetch_add(1, Ordering::Relaxed) % self.reads.len();
                // A job that a closed queue refuses is dropped, which answers it as closed.
                let _ = self.reads[lane].unbounded_send(Box::new(job));
            }
            Err(error) => task.finish(Some(&error)),
        }
    }

    fn scan(&self, task: Box<dyn ReadTask>) {
        self.scanner.submit(task);
    }

    fn write(&self, job: Job, task: Box<dyn WriteTask>) {
        match self.admit(job.class) {
            Ok(waiting) => {
                let queue = self.lane_of(&job);
                let job = (job, Arc::clone(&self.shared));
                let job = WriteJob::new(job, task, waiting, Some(&self.deadlines));
                // A job that a closed queue refuses is dropped, which answers it as closed.
                let _ = queue.unbounded_send(Box::new(job));
            }
            Err(error) => task.finish(Some(&error)),
        }
    }

    fn health(&self) -> Result<(), StoreError> {
        if self.worker.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(StoreError::Closed);
        }
        let away = self.lease.over_for() + LEASE_TRUSTED;
        if self.lease.is_valid() || away < READY_MAX {
            return Ok(());
        }
        Err(StoreError::Away(format!("no answer for {} s", away.as_secs())))
    }

    fn figures(&self) -> StoreFigures {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        StoreFigures { waiting: self.waiting.load(Ordering::Relaxed), ..figures }
    }

    fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= QUEUE_MAX / 2
    }

    fn replace_plans(&self, plans: PlanTable) -> Result<(), OpenError> {
        let before = self.shared.plans.get();
        if before.iter().any(|plan| plans.find(&plan.id).is_none()) {
            let scan = Scan::begin(&self.connector, &self.schema, START_MAX)?;
            check_plans(&scan, &plans)?;
        }
        self.shared.plans.replace(plans);
        Ok(())
    }

    fn claim_batches(&self, most: usize) -> Pending<Vec<OpenBatch>, StoreError> {
        if !self.lease.is_valid() {
            return Pending::ready(Ok(Vec::new()));
        }
        self.ask(|reply| Question::ClaimBatches { most, reply })
    }

    fn claim_lists(&self) -> Pending<Option<ClaimedLists>, StoreError> {
        if !self.lease.is_valid() {
            return Pending::ready(Err(StoreError::Away("this node has no lease".into())));
        }
        self.ask(|reply| Question::ClaimLists { reply })
    }

    fn may_work(&self) -> bool {
        self.lease.is_valid()
    }

    fn live_nodes(&self) -> u32 {
        self.live_nodes.load(Ordering::Relaxed)
    }

    fn clock_ahead(&self) -> i64 {
        self.clock_ahead.load(Ordering::Relaxed)
    }

    fn place(&self) -> NodePlace {
        NodePlace { node: Some(self.node), egress_nodes: Arc::clone(&self.egress_nodes) }
    }

    fn backup(&self, sink: &mut dyn Write, now: UnixMs) -> Result<BackupSummary, BackupError> {
        let scan = Scan::begin(&self.connector, &self.schema, START_MAX)?;
        let mut out = BackupWriter::begin(sink)?;
        out.keys(&self.shared.vault, now)?;
        out.tables(&scan, &self.shared.vault)?;
        out.end()
    }

    fn sizes(&self) -> Pending<Sizes, StoreError> {
        let (task, pending) = read_task(|rows| {
            let count = |table: Table| Ok((table.name().to_owned(), rows.count(table)?));
            let rows = Table::KEPT.into_iter().map(count).collect::<Result<_, StoreError>>()?;
            Ok(Sizes { folder_bytes: 0, rows })
        });
        self.scan(task);
        pending
    }
}
