//! The engine asks DNS and mail servers whether mailboxes exist, on threads of its own. `engine_proto` has all rules, as functions
//! without I/O; this crate adds threads, sockets, runtimes and caches. It knows nothing of accounts, credits or HTTP.
//!
//! A caller starts an [`Engine`] with an [`EngineConfig`], and makes a [`Client`] for each of its own threads. [`Client::submit`]
//! takes a [`Request`], to which the caller gives a number. [`Client::answer`] waits for the next [`Answer`] to any request of this
//! client, with the number of that request. [`Client::mail_hosts`] and [`Client::facts`] ask DNS alone.
//!
//! # The life of an address
//!
//! A *shard* is one thread of the engine, with data that only this thread uses. A *work* is an address on its way through the
//! engine: a *single check*, for which a user waits, or *patient* work, which is a row of a batch or list. Threads pass works and
//! answers only through *inboxes*: bounded queues without a lock. Each shard has one for works, and each client one for answers.
//!
//! ```text
//!  client                 1 submit
//!                             v inbox
//!  home shard of          2 lists, walk through DNS       --> 8 answered here   or 7 no answer of DNS
//!  the domain                  v inbox: 3 plan
//!  shard of the site      4 queue of the group            --> 8 answered here   or 7 no host left
//!                             v
//!                         5 session: RCPT, checkpoint     --> 8 answered here   or 7 control recipient   or 6 put back
//!                         6 put back                      --> 4 the same queue
//!  shard of the last try  7 wait to begin anew            --> 2 through an inbox
//!  client                 8 answer, through the client's inbox
//! ```
//!
//! 1. [`Client::submit`] refuses the request if the engine stops, or if the client or the engine has too many requests for which no
//!    answer has been taken. So every inbox has room for the work. A single check has a deadline of 45 s, patient work up to 600 s.
//! 2. The *home shard* is selected by a hash of the domain. The lists decide about spam traps and disposable domains (`verify.rs`).
//!    For other works, one *walk* for each domain asks DNS for the hosts and their IP addresses (`walk.rs`); a clear result is kept
//!    for a minute (`walks.rs`). The shard answers the work if the domain takes no mail, if it has only IPv6 hosts and we have no
//!    IPv6, if the resolvers are out of order, or if it is patient and 256 others wait for the walk. Other failures of DNS: step 7.
//! 3. The result of the walk is a *plan*: the *site* (the hosts of one operator), the *group* (the domains of the site that have
//!    the same hosts) and the *routes* (the IP addresses of these hosts). The work goes to the shard that owns the site.
//! 4. The group has one *source*: one of our IP addresses, or a proxy (without configuration, the kernel's choice). A work waits in
//!    the queue of the group until the limits of the site (its *pace*) and the total of sessions allow a session (`dispatch.rs`).
//!    It is answered without one if, say, the *budget* (refused recipients per hour, site and source; `refusals.rs`) is used up.
//! 5. A *session* is one SMTP connection (`probe.rs`). After three failed connections in a row, a route is left out for a minute
//!    (after one, if only single checks wait). A session takes works out of the queue, reserves room in the budget, and sends RCPT
//!    for each, except for works that earlier replies of the host already decide. Some replies to RCPT decide at once. Most
//!    accepts, and most refusals of patient works, are *held* until a *checkpoint*. If a single check is held, the checkpoint
//!    follows the present transaction. Otherwise it comes once 20 to 320 replies are held, or when the session runs out of works or
//!    may ask no more. The checkpoint asks, if the held replies need it, about a *control recipient* that does not exist (does the
//!    domain accept everyone?), or about a *known mailbox* that the host accepted recently (does it now refuse everyone?). Then
//!    each held work is answered, put back, or begins anew. If the connection is lost, works that need a proof are put back.
//! 6. A work is *put back* for the next transaction if this one is full; for another host if this host gives no clear answer; or
//!    for another session if the site is busy, the session ended or the reply has no proof (four times at most; some do not count).
//! 7. A work *begins anew* if DNS gave no answer, if no host is left and the last reply was a temporary one (not greylisting), or
//!    if the control recipient of an accepted work got such a reply. After 1 to 31 s, the shard sends the work to step 2
//!    (`common.rs`). This happens once, and again only because of the control recipient; never if it takes too long for the user.
//! 8. The [`Answer`] is a [`Finding`] if a list, DNS, a reply or the knowledge of the host decides. Otherwise it is the *fallback*
//!    of the work, which is a finding too: `unverifiable`, with the rule of its last failure (step 3 forgets earlier ones). An
//!    [`Outage`] says nothing about the address. It is the answer if the resolvers, our network or the source are out of order, if
//!    patient work finds no room at its walk or site, if the budget is used up, or if the engine stops.
//!
//! Until its answer, a work belongs to an inbox, to the walk that it waits for, to the queue of its group (`queue.rs`), to the site
//! while a session asks about it or holds it (`in_flight.rs`, `site/held.rs`), or to the shard on which it waits for step 7. About
//! every 0.4 s, each shard *sweeps* these places, except the inboxes: it answers works at their deadlines or after
//! [`Client::recall`], even if a session has them, and waiting ones also after [`Client::drain`]. `docs/architecture.md` has more.
//!
//! # Invariants
//!
//! - Every accepted request gets exactly one answer. A work that is dropped, for example because the task of its session
//!   or walk panics, gives [`Outage::Stopping`].
//! - One shard owns a site, so its state needs no lock. With the profile `lab`, several shards may each own a part of a site.
//! - Threads may wait for three locks: for the operator's lists (step 2), for a new site in the table of budgets (step 4), and for
//!   contradicted evidence (step 5). Each is held for microseconds, the second up to 20 ms if processes share it.
//! - Each site has one source for IPv4, and one for IPv6. If one is blocked (a finding) or broken (an outage), none replaces it.
//! - No e-mail address appears in a log line. No trace shows a known mailbox that comes from the request of another owner.

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
mod networks;
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
mod turns;
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

/// The class of a request. Requests of a higher class are asked about first, but a lower class that waits gets about every tenth
/// turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A single check, the highest class: a user waits for the answer.
    Single,
    /// An address of a batch, the middle class.
    Batch,
    /// An address of a list, the lowest class.
    List,
}

/// A question about one address.
#[derive(Debug)]
pub struct Request {
    /// The caller's number for the request. The answer has the same number.
    pub ticket: u64,
    /// The address that is asked about.
    pub address: Address,
    /// The class of the request. It also decides how long the answer may take ([`SINGLE_PATIENCE`], [`BULK_PATIENCE`]).
    pub priority: Priority,
    /// The caller's number for the owner of the request, such as an account. Requests of one class take turns by owner.
    pub owner: u64,
    /// Whether the answer needs a trace: the DNS answers, the SMTP commands and the replies, in [`Answer::trace`].
    pub trace: bool,
    /// Whether the answer needs the host and the reply that decided, in [`Finding::observed`].
    pub observed: bool,
}

/// The answer to one request. Every accepted request gets exactly one.
#[derive(Debug)]
pub struct Answer {
    /// The number of the request.
    pub ticket: u64,
    /// The finding, or the outage because of which there is none.
    pub result: Result<Finding, Outage>,
    /// The trace, one line for each step. Empty if the request did not ask for it.
    pub trace: Vec<String>,
}

/// What the engine found out about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The reason of the verdict, such as a missing mailbox. [`Reason::deliverable`] gives the verdict itself.
    pub reason: Reason,
    /// The name of the rule that decided. docs/verdicts.md lists all rules.
    pub rule: &'static str,
    /// The delay after which another request may give a better answer, for example after greylisting. `None` if none is known.
    pub retry_after: Option<Duration>,
    /// A keyed hash of the domain and the host, if the verdict depends on how this host treats recipients of the domain. If a later
    /// session contradicts this, the hash is among those of [`Engine::withdrawn`], and the verdict must not be used again.
    pub evidence: Option<u64>,
    /// The host and the reply that decided. `None` if no host did, or if the request did not ask for this.
    pub observed: Option<Box<Observation>>,
}

/// The mail host on which a verdict depends, with its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The name of the MX host.
    pub host: Box<str>,
    /// The reply that decided: to RCPT of the address or of its control recipient (a recipient that does not exist), or an earlier
    /// refusal because of which the host was not asked about the address. `None` if the host gave no reply, or if an earlier check
    /// got the reply and did not keep it.
    pub reply: Option<ObservedReply>,
}

/// Evidence that a later session contradicted. No earlier verdict with this evidence may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// The hash, as in [`Finding::evidence`].
    pub evidence: u64,
    /// The time of the contradiction.
    pub at: SystemTime,
}

/// The reason why there is no finding. It says nothing about the address, so the caller must not charge for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No resolver answers, the resolvers deny every name, no mail server can be reached, or the source of the site cannot be used.
    Unavailable,
    /// The site has as many requests of batches and lists as it may have, or the domain has too many that wait for DNS. Submit the
    /// address again after some of them are answered. Requests with [`Priority::Single`] never get this.
    SiteFull,
    /// Within the last hour, the site has refused our source as many recipients as the budget allows, except for a few that are
    /// kept for proofs. So the address is not asked about now.
    OverBudget {
        /// Submit the address again after this time.
        after: Duration,
        /// The rule by which a host of the site recently refused recipients because of us, if there is one. Such refusals count in
        /// the budget, and a later check will get them again unless the cause is removed.
        refused_us: Option<&'static str>,
    },
    /// The engine stops: all requests without an answer get this. So does a request if the task that has it panics.
    Stopping,
}

/// The reason why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests have no answer yet. Try again after an answer has arrived.
    Full,
    /// The engine is stopping and accepts no request.
    Stopping,
}

/// The load of the engine at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of accepted requests for which no client has taken the answer yet (tickets).
    pub under_way: usize,
    /// The maximum of `under_way` ([`EngineConfig::tickets_max`]). Beyond it, requests get [`Refusal::Full`].
    pub tickets_max: usize,
    /// The maximum of open SMTP sessions over all shards ([`EngineConfig::sessions`]).
    pub sessions_max: usize,
    /// The load of each shard, in the order of their numbers.
    pub shards: Vec<ShardFigures>,
    /// The state of each source, in the order of the configuration.
    pub sources: Vec<SourceFigures>,
    /// The fault of the resolvers, if they have one.
    pub trouble: Option<proto::outage::Trouble>,
}

/// The state of a source: an IP address or a proxy from which mail servers are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFigures {
    /// The IP address, or the proxy with the EHLO name; `default` if the operator named no source.
    pub name: String,
    /// How many times the source began to rest at a site that blocked it. A resting source does not contact the site.
    pub rests: u64,
    /// Number of sites at which the source rests now.
    pub resting: usize,
    /// Whether no mail server at all can be reached from the source.
    pub down: bool,
}

/// The load of a shard at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardFigures {
    /// Number of messages in the inbox of the shard.
    pub waiting: usize,
    /// Number of sessions at the last heartbeat, including those that were being opened. A shard records a heartbeat every 0.2 s.
    pub sessions: usize,
    /// Number of addresses that waited in queues for a session at the last heartbeat.
    pub queued: usize,
    /// Number of replies to RCPT from the start to the last heartbeat.
    pub answers: u64,
    /// Processor time of the shard from the start to the last heartbeat. Zero if the kernel does not count it.
    pub busy: Duration,
    /// Time since the last heartbeat.
    pub silent: Duration,
}

/// The reason why the engine did not start: a text for the operator, with the fault and usually the remedy.
#[derive(Debug)]
pub struct StartError(pub String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A running engine. Dropping it stops it, like [`Engine::stop`].
pub struct Engine {
    shared: Arc<Shared>,
    under_way: Arc<AtomicUsize>,
    chosen: Chosen,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine, and waits until all shards run.
    ///
    /// # Errors
    /// [`StartError`] if no runtime is available, if the configuration cannot work on this machine, or if a shard does not start.
    pub fn start(config: EngineConfig) -> Result<Engine, StartError> {
        Engine::launch(config, runtime::run)
    }

    /// Does what [`Engine::start`] does. Each shard has a thread, on which `run` runs the shard.
    fn launch(
        mut config: EngineConfig,
        run: impl Fn(Flavor, ShardMain) -> io::Result<()> + Copy + Send + 'static,
    ) -> Result<Engine, StartError> {
        let chosen = runtime::choose(config.runtime, config.driver).map_err(StartError)?;
        let named = machine::is_named(&config);
        machine::complete(&mut config)?;
        if !named {
            machine::warn_without_name(&config);
        }
        let shared = Arc::new(shared(config)?);
        // If a later step fails, dropping the engine stops the threads that are already running.
        let mut engine = Engine { shared, under_way: Arc::default(), chosen, threads: Vec::new() };
        for index in 0..engine.shared.shards.len() {
            let main = ShardMain { index, shared: Arc::clone(&engine.shared) };
            let flavor = engine.chosen.flavor;
            let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
                if let Err(error) = run(flavor, main) {
                    tracing::error!("shard {index} could not start: {error}");
                }
            });
            let failed = |error| StartError(format!("a thread could not be started: {error}"));
            engine.threads.push(thread.map_err(failed)?);
        }
        engine.threads.push(watchdog::start(Arc::clone(&engine.shared))?);
        engine.await_shards()?;
        Ok(engine)
    }

    /// Makes a client for one thread. The client may have up to `capacity` requests without an answer.
    pub fn client(&self, capacity: usize) -> Client {
        let capacity = capacity.clamp(1, self.shared.config.tickets_max);
        Client {
            shared: Arc::clone(&self.shared),
            mailbox: Arc::new(AnswerBox::new(capacity, Arc::clone(&self.under_way))),
            capacity,
            own: Cell::new(0),
        }
    }

    /// One line with the number of shards, the runtime and driver that run them, and why these were chosen.
    pub fn describe(&self) -> String {
        let count = self.shared.shards.len();
        format!("{count} shard{} on {}", if count == 1 { "" } else { "s" }, self.chosen.why)
    }

    /// Returns a function that reads the load of the engine. Any thread may call this function at any time.
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
                trouble: shared.resolvers.trouble(&shared.config.resolvers),
            }
        }
    }

    /// Returns a function that reads the counts of refused recipients. Any thread may call this function at any time. The next
    /// start of the engine should get the counts, in [`EngineConfig::refusals`].
    pub fn refusals(&self) -> impl Fn() -> Vec<KeptRefusals> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.table.kept(shared.refusal_step(Instant::now()))
    }

    /// Returns a function that takes the evidence that sessions have contradicted since its last call.
    pub fn withdrawn(&self) -> impl Fn() -> Vec<Withdrawn> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || std::mem::take(&mut *shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the engine. Requests without an answer get [`Outage::Stopping`].
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits until every shard has recorded a heartbeat. Fails if a thread has ended, or after ten seconds.
    fn await_shards(&self) -> Result<(), StartError> {
        let deadline = Instant::now() + Duration::from_secs(10);
        let asleep = |face: &ShardFace| face.heartbeat.load(Ordering::Relaxed) == 0;
        while self.shared.shards.iter().any(asleep) {
            if Instant::now() > deadline || self.threads.iter().any(JoinHandle::is_finished) {
                return Err(StartError(format!("a shard did not start on {}", self.chosen.why)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for face in &self.shared.shards {
            // The inbox has room for this message in addition to those of all requests (`assemble`).
            let _ = face.inbox.push(Message::Stop);
            face.inbox.wake();
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
        // A shard may have sent messages to a shard that had already ended. Dropping such a message answers its request.
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

/// Makes the state that all shards share.
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
    // Each accepted request and each inquiry is in at most one message at a time. The other eight places are for [`Message::Stop`].
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
        // All processes that share a table use its clock, so that they count a refusal in the same step of time.
        Some(table) => SystemTime::UNIX_EPOCH + table.since_epoch(),
        None => seed::wall_clock(),
    };
    let since_epoch = started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if !table.take_over(&config.refusals, step_at(since_epoch).0) {
        return Err(StartError(
            "another run locks the counts of refused recipients and seems to be stopped: end it".into(),
        ));
    }
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

/// Submits requests and receives their answers, for one thread.
pub struct Client {
    shared: Arc<Shared>,
    mailbox: Arc<AnswerBox>,
    capacity: usize,
    own: Cell<usize>,
}

impl Client {
    /// The fault of the resolvers; `None` if they answer and do not deny every name.
    pub fn trouble(&self) -> Option<proto::outage::Trouble> {
        self.shared.resolvers.trouble(&self.shared.config.resolvers)
    }

    /// Submits a request to the engine.
    ///
    /// # Errors
    /// [`Refusal`] if the request was not accepted. Such a request gets no answer.
    pub fn submit(&self, request: Request) -> Result<(), Refusal> {
        self.submit_at(request, Instant::now())
    }

    fn submit_at(&self, request: Request, now: Instant) -> Result<(), Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        // These two checks reserve room: in this client's inbox for the answer, and in each shard's inbox for the work.
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
        let hash = self.shared.hash_of(request.address.domain().as_str());
        let work = Work::new(request, hash, Arc::clone(&self.mailbox), now + patience);
        let home = self.shared.shard_of(hash);
        if let Err(message) = home.inbox.push(Message::Resolve(work)) {
            // This cannot happen, because room was reserved. Dropping the work would answer the request.
            drop(message);
        }
        self.drain_if_ended(home);
        Ok(())
    }

    /// Empties the inbox of a shard that has ended, because a message may have arrived too late. Dropping a message answers its
    /// request.
    fn drain_if_ended(&self, face: &ShardFace) {
        // A stopping shard empties its inbox, and then sets its heartbeat to `u64::MAX`. So either the shard finds the message that
        // was pushed before this call, or this thread sees that the shard has ended.
        if self.shared.stopping.load(Ordering::SeqCst) && face.heartbeat.load(Ordering::SeqCst) == u64::MAX {
            while face.inbox.try_pop().is_some() {}
        }
    }

    /// The operator's and the built-in lists, as the engine uses them now.
    pub fn lists(&self) -> Arc<engine_proto::lists::Lists> {
        self.shared.config.lists.get()
    }

    /// Asks DNS whether a domain has mail hosts. The answer arrives within about [`FAST_PATIENCE`]. If DNS has given no usable
    /// reply by then, the answer is [`MailHosts::Unknown`], or [`Outage::Unavailable`] if the resolvers are to blame.
    ///
    /// # Errors
    /// [`Refusal`] if the engine stops, or if too many inquiries have no answer yet.
    pub fn mail_hosts(&self, domain: Domain) -> Result<PendingInquiry<MailHosts>, Refusal> {
        let deadline = Instant::now() + FAST_PATIENCE;
        self.inquire(&domain.clone(), |responder| Inquiry::MailHosts(domain, responder, deadline))
    }

    /// Asks DNS for the facts about a domain: its mail hosts, SPF, DMARC and others. The answer arrives within about
    /// [`FACTS_PATIENCE`]. The answer is `None` if DNS has given no answer about the most important facts by then.
    ///
    /// # Errors
    /// [`Refusal`] if the engine stops, or if too many inquiries have no answer yet.
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
        let home = self.shared.shard_of(self.shared.hash_of(domain.as_str()));
        // The push cannot fail, because [`InquiryPlace`] has reserved room. Dropping an inquiry would answer it.
        drop(home.inbox.push(Message::Inquire(inquiry(responder))));
        self.drain_if_ended(home);
        Ok(pending)
    }

    /// Waits for the next answer. The executor must allow other threads to wake its tasks.
    pub async fn answer(&self) -> Answer {
        let answer = self.mailbox.inbox.pop().await;
        self.release();
        answer
    }

    /// Waits for the next answer, and blocks the thread. `None` if no answer arrives within `timeout`.
    pub fn answer_blocking(&self, timeout: Duration) -> Option<Answer> {
        let answer = self.mailbox.inbox.pop_blocking(timeout)?;
        self.release();
        Some(answer)
    }

    /// Appends up to `most` answers to `into`. Blocks the thread until the first of them arrives, for at most `timeout`.
    pub fn answers_blocking(&self, most: usize, timeout: Duration, into: &mut Vec<Answer>) {
        let before = into.len();
        let inbox = &self.mailbox.inbox;
        let first = if timeout.is_zero() { inbox.try_pop() } else { inbox.pop_blocking(timeout) };
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

    /// The approximate number of requests of this client for which a session has ever held a reply. A session holds most replies
    /// until later replies prove them. So with a slow server, this number grows long before the first answer arrives.
    pub fn replied(&self) -> u64 {
        self.mailbox.held_so_far()
    }

    /// Appends the numbers ([`Request::ticket`]) of the requests for which a session has begun to hold a reply since the last call.
    /// Some may have their answers by now. The engine collects these numbers from the first call on. If the caller does not keep
    /// calling, the numbers fill the memory.
    pub fn held(&self, into: &mut Vec<u64>) {
        self.mailbox.held(into);
    }

    /// Makes the engine answer all present requests of this client soon, each with what is known about it.
    pub fn recall(&self) {
        self.mailbox.recall();
        self.shared.recalls.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the engine soon answer all requests of this client that wait in a queue, for DNS or for another try, each with what is
    /// known about it. Requests about which a session is asking, or for which it holds a reply, still get their real answers. The
    /// client must not submit further requests.
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
