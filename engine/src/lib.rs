//! The engine asks DNS and mail servers about addresses, on threads of its own. It adds threads, sockets, runtimes and caches to
//! the rules of `engine_proto`. It knows nothing of accounts, credits or HTTP.
//!
//! # Entry points
//!
//! A caller starts an [`Engine`] with an [`config::EngineConfig`] and takes a [`Client`] for each of its own threads.
//! [`Client::submit`] takes a [`Request`] with a ticket of the caller, and [`Client::answer`] gives one [`Answer`] for each ticket.
//! [`Client::mail_hosts`] and [`Client::facts`] ask DNS alone.
//!
//! # Invariants
//!
//! - Every accepted ticket gets exactly one answer, even after a panic and when the engine stops.
//! - A work on its way through the engine never finds a queue full, because its ticket has reserved the room.
//! - One shard owns a site. On the path of an address there are two locks, for the lists and for the first contact with a site, and
//!   a thread holds either for a few instructions only.
//! - A site is asked from one source, and no other source replaces it.
//! - No address appears in a log line, and no trace names a known mailbox of another owner.
//!
//! `docs/architecture.md` follows an address through the modules.

#![deny(missing_docs)]

mod asking;
#[cfg(feature = "sim")]
mod census;
mod common;
pub mod config;
mod dispatch;
mod egress;
mod ehlo;
mod facts;
mod faults;
mod in_flight;
mod inbox;
mod inquiry;
mod invariants;
mod knowledge;
mod machine;
mod probe;
mod queue;
mod quota;
mod refusals;
mod resolution;
mod resolver;
mod runtime;
mod seed;
mod session;
mod shard;
mod shared;
#[cfg(feature = "sim")]
pub mod sim;
mod site;
mod start_warnings;
mod tls;
mod verify;
mod walk;
mod walks;
mod watchdog;
mod work;

use config::EngineConfig;
use egress::Pool;
pub use engine_proto as proto;
use engine_proto::address::{Address, Domain};
use engine_proto::facts::DnsFacts;
use engine_proto::limits::{
    BULK_PATIENCE, FACTS_PATIENCE, FAST_PATIENCE, INQUIRIES_MAX, REFUSALS_SHARDS_MAX, SINGLE_PATIENCE,
};
use engine_proto::refusals::step_at;
pub use engine_proto::refusals::{KeptRefusals, KeptStep};
use engine_proto::verdict::{ObservedReply, Reason};
use inbox::Inbox;
use inquiry::{Inquiry, InquiryPlace};
pub use inquiry::{MailHosts, PendingInquiry, Responder, pending_inquiry};
use invariants::{Invariant, holds};
pub use machine::{Identity, identities, system_resolvers};
pub use refusals::{RefusalTable, TableFault, counts_are_of};
use runtime::{Chosen, Flavor};
pub use seed::NumberMap;
use shard::ShardMain;
use shared::{ShardFace, Shared};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use work::{AnswerBox, Message, Work};

/// The urgency of a request. It decides the order of the works at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A single check: a caller waits for the answer.
    Single,
    /// An address of a batch. It comes before the addresses of lists.
    Batch,
    /// An address of a list. It comes after the others.
    List,
}

/// A question about one address.
#[derive(Debug)]
pub struct Request {
    /// The caller's number for the request. The answer has the same number.
    pub ticket: u64,
    /// The address that is asked about.
    pub address: Address,
    /// The urgency of the request.
    pub priority: Priority,
    /// The caller's number for the owner of the request. Works of different owners take turns at a site. The engine does not hash
    /// the number, so owners should have random numbers.
    pub owner: u64,
    /// Whether [`Answer::trace`] should have the DNS answers, the commands and the replies.
    pub trace: bool,
    /// Whether [`Finding::observed`] should have the host and the reply that decided.
    pub observed: bool,
}

/// The answer to one request. Every accepted request gets exactly one.
#[derive(Debug)]
pub struct Answer {
    /// The number of the request.
    pub ticket: u64,
    /// The finding, or the reason why there is none.
    pub result: Result<Finding, Outage>,
    /// One line per step, if the request asked for it; else empty.
    pub trace: Vec<String>,
}

/// The result for an address: a reason, which is the verdict, and the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The reason of the verdict. [`Reason::deliverable`] is the verdict itself.
    pub reason: Reason,
    /// Name of the rule that decided, as docs/verdicts.md lists them.
    pub rule: &'static str,
    /// The delay after which another try may give a better answer, for example after greylisting. `None` for a final result.
    pub retry_after: Option<Duration>,
    /// The evidence of the verdict: a keyed hash of the domain and the host. If it is contradicted later, [`Engine::withdrawn`]
    /// returns it.
    pub evidence: Option<u64>,
    /// The host on which the verdict depends, with its reply. `None` if the verdict depends on no host, or if the request did not
    /// ask for it.
    pub observed: Option<Box<Observation>>,
}

/// A mail host and its reply, on which a verdict depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The name of the MX host.
    pub host: Box<str>,
    /// The reply to RCPT of the address, or the earlier reply because of which the address was not asked about. `None` if there was
    /// no reply, or if an earlier check got it.
    pub reply: Option<ObservedReply>,
}

/// Evidence that was contradicted. An earlier verdict with this evidence must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// The keyed hash of [`Finding::evidence`].
    pub evidence: u64,
    /// The time of the contradiction.
    pub at: SystemTime,
}

/// The reason why there is no finding. It says nothing about the address, and nothing may be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No resolver answers, the resolvers deny every name, no mail server can be reached, or the source of the site cannot be used.
    Unavailable,
    /// The site has as many works as it may have. Submit the address again after some of them are answered. Only
    /// [`Priority::Batch`] and [`Priority::List`] get this.
    SiteFull,
    /// The site has refused as many recipients within the last hour as the budget allows, so nothing was asked. Submit the address
    /// again after this time.
    OverBudget(Duration),
    /// The engine stops. All requests under way get this answer.
    Stopping,
}

/// The reason why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The maximum number of requests is under way. Try again after an answer has arrived.
    Full,
    /// The engine stops and accepts no request.
    Stopping,
}

/// The load of the engine at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of tickets without an answer.
    pub under_way: usize,
    /// Most tickets without an answer ([`EngineConfig::tickets_max`]). A request beyond that is refused as [`Refusal::Full`].
    pub tickets_max: usize,
    /// Most SMTP sessions that are open at once, over all shards ([`EngineConfig::sessions`]).
    pub sessions_max: usize,
    /// The load of each shard, in the order of their numbers.
    pub shards: Vec<ShardFigures>,
    /// The state of each source, in the order of the configuration.
    pub sources: Vec<SourceFigures>,
}

/// The state of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFigures {
    /// Its address, or its proxy and EHLO name.
    pub name: String,
    /// How often the source began a rest, because a site blocked it.
    pub rests: u64,
    /// Number of sites at which it rests now.
    pub resting: usize,
    /// Whether no host can be reached from it.
    pub down: bool,
}

/// The load of a shard at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardFigures {
    /// Number of messages in its inbox.
    pub waiting: usize,
    /// Number of open sessions at its last heartbeat.
    pub sessions: usize,
    /// Number of addresses that wait for a session at its last heartbeat.
    pub queued: usize,
    /// Number of replies about recipients since the start.
    pub answers: u64,
    /// Processor time since the start; zero if the kernel does not count it.
    pub busy: Duration,
    /// Time since its last heartbeat.
    pub silent: Duration,
}

/// The reason why the engine did not start: one line with the fault and the remedy.
#[derive(Debug)]
pub struct StartError(pub String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// The running engine. It stops when it is dropped or by [`Engine::stop`].
pub struct Engine {
    shared: Arc<Shared>,
    under_way: Arc<AtomicUsize>,
    chosen: Chosen,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the shards.
    ///
    /// # Errors
    /// [`StartError`] if no runtime is available, or if the configuration cannot work on this machine.
    pub fn start(config: EngineConfig) -> Result<Engine, StartError> {
        Engine::launch(config, runtime::run)
    }

    /// Starts the shards. `run` drives each of them on a thread of its own.
    fn launch(
        mut config: EngineConfig,
        run: impl Fn(Flavor, ShardMain) -> io::Result<()> + Copy + Send + 'static,
    ) -> Result<Engine, StartError> {
        let chosen = runtime::choose(config.runtime, config.driver).map_err(StartError)?;
        let named = config.ehlo.is_some();
        machine::complete(&mut config)?;
        if !named {
            machine::warn_without_name(&config);
        }
        let shared = Arc::new(shared(config)?);
        let mut threads = Vec::new();
        for index in 0..shared.shards.len() {
            let main = ShardMain { index, shared: Arc::clone(&shared) };
            let flavor = chosen.flavor;
            let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
                if let Err(error) = run(flavor, main) {
                    tracing::error!("shard {index} could not start: {error}");
                }
            });
            threads
                .push(thread.map_err(|error| StartError(format!("a thread could not be started: {error}")))?);
        }
        threads.push(watchdog::start(Arc::clone(&shared))?);
        let engine = Engine { shared, under_way: Arc::default(), chosen, threads };
        engine.await_shards()?;
        Ok(engine)
    }

    /// Makes a client for one thread, with room for `capacity` requests under way.
    pub fn client(&self, capacity: usize) -> Client {
        let capacity = capacity.clamp(1, self.shared.config.tickets_max);
        Client {
            shared: Arc::clone(&self.shared),
            mailbox: Arc::new(AnswerBox::new(capacity, Arc::clone(&self.under_way))),
            capacity,
            own: Cell::new(0),
        }
    }

    /// One line that says which runtime and driver run on how many shards, and why.
    pub fn describe(&self) -> String {
        let count = self.shared.shards.len();
        format!("{count} shard{} on {}", if count == 1 { "" } else { "s" }, self.chosen.why)
    }

    /// A function that reads the load of the engine. Any thread may call it at any time.
    pub fn gauge(&self) -> impl Fn() -> Figures + Send + Sync + 'static {
        let (shared, under_way) = (Arc::clone(&self.shared), Arc::clone(&self.under_way));
        move || {
            let now = shared.age(Instant::now()).as_millis() as u64;
            let look = |face: &ShardFace| ShardFigures {
                waiting: face.inbox.len(),
                sessions: face.sessions.load(Ordering::Relaxed),
                queued: face.queued.load(Ordering::Relaxed),
                answers: face.answers.load(Ordering::Relaxed),
                busy: Duration::from_micros(face.busy_us.load(Ordering::Relaxed)),
                silent: Duration::from_millis(now.saturating_sub(face.heartbeat.load(Ordering::Relaxed))),
            };
            Figures {
                under_way: under_way.load(Ordering::Relaxed),
                tickets_max: shared.config.tickets_max,
                sessions_max: shared.config.sessions,
                shards: shared.shards.iter().map(look).collect(),
                sources: shared.pool.figures(shared.age(Instant::now())),
            }
        }
    }

    /// A function that reads the counts of refused recipients. Any thread may call it at any time. The next start takes the
    /// counts in [`EngineConfig::refusals`].
    pub fn refusals(&self) -> impl Fn() -> Vec<KeptRefusals> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.table.kept(shared.refusal_step(Instant::now()))
    }

    /// A function that takes the evidence that was contradicted since its last call.
    pub fn withdrawn(&self) -> impl Fn() -> Vec<Withdrawn> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || std::mem::take(&mut *shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One line with the fault of the resolvers and its remedy, while they count as down; else `None`.
    pub fn trouble(&self) -> Option<String> {
        let resolvers = &self.shared.config.resolvers;
        let names: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
        let (who, deny, answer) = match names.len() {
            1 => ("the resolver", "denies", "does not answer"),
            _ => ("the resolvers", "deny", "do not answer"),
        };
        let (names, health) = (names.join(", "), &self.shared.resolvers);
        if health.denials.are_down() {
            return Some(format!(
                "{who} {names} {deny} every name without proof, as filters and captive portals do; name another \
                 resolver with --resolver"
            ));
        }
        let silent = || format!("{who} {names} {answer}; check the network and --resolver");
        health.are_silent().then(silent)
    }

    /// Stops the engine. Requests under way are answered with [`Outage::Stopping`].
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits until every shard has shown a heartbeat. Fails if a thread has ended, or after ten seconds.
    fn await_shards(&self) -> Result<(), StartError> {
        let patience = Instant::now() + Duration::from_secs(10);
        let asleep = |face: &ShardFace| face.heartbeat.load(Ordering::Relaxed) == 0;
        while self.shared.shards.iter().any(asleep) {
            if Instant::now() > patience || self.threads.iter().any(JoinHandle::is_finished) {
                return Err(StartError(format!("a shard did not start on {}", self.chosen.why)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for face in &self.shared.shards {
            // The inbox has room for this message beside those of all tickets.
            let _ = face.inbox.push(Message::Stop);
            face.inbox.wake();
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
        // A shard may have sent messages to another one that had already ended. They answer for themselves when they are dropped.
        for face in &self.shared.shards {
            while face.inbox.try_pop().is_some() {}
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

fn shared(config: EngineConfig) -> Result<Shared, StartError> {
    let tls = tls::client_config().map_err(|error| StartError(format!("TLS cannot be set up: {error}")))?;
    let pool = Pool::on_this_host(&config)?;
    let ipv6 = pool.has_ipv6().unwrap_or_else(|| machine::has_ipv6(&config));
    assemble(config, pool, ipv6, tls, Instant::now())
}

/// The state that all shards share.
fn assemble(
    config: EngineConfig,
    pool: Pool,
    ipv6: bool,
    tls: Arc<rustls::ClientConfig>,
    started: Instant,
) -> Result<Shared, StartError> {
    let shards = match config.shards {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // The sessions are divided among the shards, and every shard needs at least one.
    let shards = shards.min(config.sessions);
    // Every ticket and every inquiry has at most one message under way. The rest is for [`Message::Stop`].
    let room = config.tickets_max + INQUIRIES_MAX + 8;
    let face = || ShardFace {
        inbox: Inbox::new(room),
        heartbeat: AtomicU64::new(0),
        sessions: AtomicUsize::new(0),
        queued: AtomicUsize::new(0),
        answers: AtomicU64::new(0),
        busy_us: AtomicU64::new(0),
    };
    let table = match &config.table {
        Some(table) => Arc::clone(table),
        None => {
            let table = RefusalTable::in_memory(shards.min(REFUSALS_SHARDS_MAX));
            Arc::new(table.map_err(|error| StartError(format!("no memory for counts: {error}")))?)
        }
    };
    let started_at = match &config.table {
        // Runs that share a table must use the same clock.
        Some(table) => SystemTime::UNIX_EPOCH + table.since_epoch(),
        None => seed::wall_clock(),
    };
    let since_epoch = started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    table.take_over(&config.refusals, step_at(since_epoch).0);
    Ok(Shared {
        ipv6,
        table,
        withdrawn: Mutex::default(),
        recalls: AtomicU64::new(0),
        started_at,
        pool,
        tls,
        shards: (0..shards).map(|_| face()).collect(),
        hasher: seed::Hashing::default(),
        stopping: AtomicBool::new(false),
        inquiries: Arc::default(),
        resolvers: Arc::default(),
        started,
        config,
    })
}

/// The access of one thread to the engine.
pub struct Client {
    shared: Arc<Shared>,
    mailbox: Arc<AnswerBox>,
    capacity: usize,
    own: Cell<usize>,
}

impl Client {
    /// Submits a request to the engine.
    ///
    /// # Errors
    /// [`Refusal`]. The request was not accepted and gets no answer.
    pub fn submit(&self, request: Request) -> Result<(), Refusal> {
        self.submit_at(request, Instant::now())
    }

    fn submit_at(&self, request: Request, now: Instant) -> Result<(), Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        // The ticket reserves room for its message in every inbox on its way, and for its answer in the inbox of this client.
        if self.own.get() >= self.capacity {
            return Err(Refusal::Full);
        }
        let under_way = &self.mailbox.under_way;
        if under_way.fetch_add(1, Ordering::Relaxed) >= self.shared.config.tickets_max {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Full);
        }
        self.own.set(self.own.get() + 1);
        let patience = match request.priority {
            Priority::Single => SINGLE_PATIENCE,
            Priority::Batch | Priority::List => BULK_PATIENCE,
        };
        let work = Work::new(request, Arc::clone(&self.mailbox), now + patience);
        let home = self.shared.shard_of(work.address.domain().as_str());
        if let Err(message) = home.inbox.push(Message::Resolve(work)) {
            // This cannot happen, because the ticket has reserved room. The work answers for itself when it is dropped.
            drop(message);
        }
        self.drain_if_ended(home);
        Ok(())
    }

    /// Drops the messages of a shard that ended while it was given a message. A message answers for itself when it is dropped.
    fn drain_if_ended(&self, face: &ShardFace) {
        // A shard empties its inbox after the stop, and then shows that it has ended. So either the shard finds a message that was
        // pushed before, or this thread sees that the shard has ended.
        if self.shared.stopping.load(Ordering::SeqCst) && face.heartbeat.load(Ordering::SeqCst) == u64::MAX {
            while face.inbox.try_pop().is_some() {}
        }
    }

    /// The current lists of the engine.
    pub fn lists(&self) -> Arc<engine_proto::lists::Lists> {
        self.shared.config.lists.get()
    }

    /// Asks DNS whether a domain has mail hosts. The answer arrives within [`FAST_PATIENCE`]. If DNS gave none by then, it is
    /// [`MailHosts::Unknown`], or [`Outage::Unavailable`] if the resolvers are to blame.
    ///
    /// # Errors
    /// [`Refusal`]. Nothing was asked.
    pub fn mail_hosts(&self, domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal> {
        let deadline = Instant::now() + FAST_PATIENCE;
        self.inquire(&domain.clone(), |responder| Inquiry::MailHosts(domain, responder, deadline))
    }

    /// Asks for the DNS facts of a domain. The answer arrives within [`FACTS_PATIENCE`]. It is `None` if DNS could not be read by
    /// then.
    ///
    /// # Errors
    /// [`Refusal`]. Nothing was asked.
    pub fn facts(&self, domain: Domain) -> Result<PendingInquiry<Option<DnsFacts>>, Refusal> {
        let deadline = Instant::now() + FACTS_PATIENCE;
        self.inquire(&domain.clone(), |responder| Inquiry::Facts(domain, responder, deadline))
    }

    fn inquire<T>(
        &self,
        domain: &Domain,
        inquiry: impl FnOnce(Responder<T>) -> Inquiry,
    ) -> Result<PendingInquiry<T>, Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        let (responder, pending) = inquiry::pending_inquiry_in(InquiryPlace::take(&self.shared.inquiries)?);
        let home = self.shared.shard_of(domain.as_str());
        // The place has reserved room. An inquiry that is dropped answers for itself.
        drop(home.inbox.push(Message::Inquire(inquiry(responder))));
        self.drain_if_ended(home);
        Ok(pending)
    }

    /// Waits for the next answer, on any executor. Other threads may wake the task.
    pub async fn answer(&self) -> Answer {
        let answer = self.mailbox.inbox.pop().await;
        self.release();
        answer
    }

    /// Waits for the next answer on a thread without an executor. `None` if none arrives within `patience`.
    pub fn answer_blocking(&self, patience: Duration) -> Option<Answer> {
        let answer = self.mailbox.inbox.pop_blocking(patience)?;
        self.release();
        Some(answer)
    }

    /// Appends up to `most` answers to `into`. Waits only for the first of them, for at most `patience`.
    pub fn answers_blocking(&self, most: usize, patience: Duration, into: &mut Vec<Answer>) {
        let before = into.len();
        let inbox = &self.mailbox.inbox;
        let first = if patience.is_zero() { inbox.try_pop() } else { inbox.pop_blocking(patience) };
        into.extend(first);
        while into.len() - before < most
            && into.len() > before
            && let Some(answer) = inbox.try_pop()
        {
            into.push(answer);
        }
        let count = into.len() - before;
        self.own.set(self.own.get().saturating_sub(count));
        self.mailbox.under_way.fetch_sub(count, Ordering::Relaxed);
    }

    /// The approximate number of requests about which a server has replied while their answers were held. A session holds answers
    /// until later replies prove them, so with a slow server this number grows long before the first answer arrives.
    pub fn replied(&self) -> u64 {
        self.mailbox.held_so_far()
    }

    /// Appends the tickets of requests about which a server has replied since the last call and which still wait for a proof. The
    /// first call begins to collect these tickets. It must be followed by others, because the collected tickets use memory.
    pub fn held(&self, into: &mut Vec<u64>) {
        self.mailbox.held(into);
    }

    /// Makes the engine answer all requests of this client soon, with what is known by then.
    pub fn recall(&self) {
        self.mailbox.recall();
        self.shared.recalls.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the engine answer those requests of this client that wait soon, with what is known by then. The requests about which
    /// servers are being asked get their real answers: their sessions take no further works, and so prove what they hold. The
    /// client must submit nothing more.
    pub fn drain(&self) {
        self.mailbox.drain();
        self.shared.recalls.fetch_add(1, Ordering::SeqCst);
    }

    fn release(&self) {
        let under_way = &self.mailbox.under_way;
        holds(Invariant::TicketsCounted, || self.own.get() <= under_way.load(Ordering::Relaxed));
        self.own.set(self.own.get().saturating_sub(1));
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}
