//! The engine: it asks DNS and mail servers about addresses, on threads of its own.
//!
//! It knows nothing of accounts, credits or HTTP. A caller starts an [`Engine`], takes a [`Client`] for each of
//! its own threads, submits [`Request`]s with tickets of its making and gets one [`Answer`] for each.

#![deny(missing_docs)]

pub mod config;
mod egress;
mod ehlo;
mod facts;
mod host;
mod in_flight;
mod inbox;
mod inquiry;
mod knowledge;
mod probe;
mod queue;
mod quota;
mod refusals;
mod resolver;
mod runtime;
mod seed;
mod session;
mod shard;
#[cfg(feature = "sim")]
pub mod sim;
mod site;
mod tls;
mod verify;
mod walk;
mod watchdog;
mod work;

use config::EngineConfig;
use egress::Pool;
pub use engine_proto as proto;
use engine_proto::address::{Address, Domain};
use engine_proto::facts::DnsFacts;
use engine_proto::limits::{BULK_PATIENCE, FACTS_PATIENCE, FAST_PATIENCE, INQUIRIES_MAX, SINGLE_PATIENCE};
pub use engine_proto::refusals::{KeptRefusals, KeptStep};
use engine_proto::verdict::Reason;
pub use host::system_resolvers;
use inbox::Inbox;
pub use inquiry::{Asker, MailHosts, Pending, pending};
use inquiry::{Inquiry, InquiryPlace};
use runtime::{Chosen, Flavor};
use shard::{ShardFace, ShardMain, Shared};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use work::{Mailbox, Message, Work};

/// How urgent a request is: whose turn it is at a crowded site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits for the answer.
    Single,
    /// A row of a batch: asked again later when a server says "not now".
    Batch,
    /// A line of a list that is cleaned.
    List,
}

/// One address to ask about.
#[derive(Debug)]
pub struct Request {
    /// The caller's number for it; comes back with the answer.
    pub ticket: u64,
    /// The address.
    pub address: Address,
    /// How urgent it is.
    pub priority: Priority,
    /// Whose it is, by the caller's own numbers: works of different owners take turns at a crowded site.
    pub owner: u64,
    /// Keep the whole story (DNS answers, commands, replies) in [`Answer::trace`].
    pub trace: bool,
}

/// What came out for one request. Every accepted request gets exactly one.
#[derive(Debug)]
pub struct Answer {
    /// The request's number.
    pub ticket: u64,
    /// What is said about the address, or why nothing can be.
    pub result: Result<Finding, Outage>,
    /// The story, a line a step, where the request asked for it.
    pub trace: Vec<String>,
}

/// A verdict with the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The verdict's reason; [`Reason::deliverable`] is the verdict.
    pub reason: Reason,
    /// Name of the rule that decided, as docs/verdicts.md lists them.
    pub rule: &'static str,
    /// The server asked for a later try (greylisting and other transient refusals): after this long.
    pub retry_after: Option<Duration>,
    /// The behaviour that the verdict rests on: a keyed hash of the domain and the host. Where that behaviour is
    /// contradicted later, [`Engine::withdrawn`] names it.
    pub evidence: Option<u64>,
}

/// Evidence that was contradicted: a verdict that rests on it and was given before is not to be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// As [`Finding::evidence`].
    pub evidence: u64,
    /// When it was contradicted.
    pub at: SystemTime,
}

/// The engine itself cannot ask; nothing is said about the address and nothing may be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// No resolver answers, or no outbound SMTP connection succeeds anywhere.
    Unavailable,
    /// As many addresses of its site wait as may: hand it over again when some of them have been answered. Never said
    /// to a [`Priority::Single`].
    SiteFull,
    /// The site has refused as many recipients within the hour as our own budget allows, so nothing was asked: ask again
    /// after this long.
    OverBudget(Duration),
    /// The engine is stopping.
    Stopping,
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many requests are under way as there is room for; try again when an answer has come.
    Full,
    /// The engine is stopping.
    Stopping,
}

/// What the engine is at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Tickets under way.
    pub under_way: usize,
    /// Each shard.
    pub shards: Vec<ShardFigures>,
    /// Each source.
    pub sources: Vec<SourceFigures>,
}

/// How a source fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFigures {
    /// Its address, or its proxy and EHLO name.
    pub name: String,
    /// How often a site that blocked it sent it to rest there.
    pub rests: u64,
    /// At how many sites it rests.
    pub resting: usize,
    /// Nobody can be reached from it.
    pub down: bool,
}

/// What a shard is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardFigures {
    /// Messages in its inbox.
    pub waiting: usize,
    /// Sessions that are open, as of its last heartbeat.
    pub sessions: usize,
    /// Addresses that wait for their turn at a site, as of its last heartbeat.
    pub queued: usize,
    /// Answers to recipients that it has heard since the start.
    pub answers: u64,
    /// Processor time that it has used since the start; zero where the kernel does not tell.
    pub busy: Duration,
    /// Since its last heartbeat.
    pub silent: Duration,
}

/// Why the engine did not start: one line that says what and what to do.
#[derive(Debug)]
pub struct StartError(pub String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// The running engine.
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
    /// [`StartError`] when no runtime can be had or the configuration cannot work on this host.
    pub fn start(config: EngineConfig) -> Result<Engine, StartError> {
        Engine::launch(config, runtime::run)
    }

    /// Starts the shards, each by `run` on a thread of its own.
    fn launch(
        mut config: EngineConfig,
        run: impl Fn(Flavor, ShardMain) -> io::Result<()> + Copy + Send + 'static,
    ) -> Result<Engine, StartError> {
        let chosen = runtime::choose(config.runtime, config.driver).map_err(StartError)?;
        host::complete(&mut config)?;
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

    /// A client with room for `capacity` requests under way, for use by one thread.
    pub fn client(&self, capacity: usize) -> Client {
        let capacity = capacity.clamp(1, self.shared.config.tickets_max);
        Client {
            shared: Arc::clone(&self.shared),
            mailbox: Arc::new(Mailbox::new(capacity, Arc::clone(&self.under_way))),
            capacity,
            own: Cell::new(0),
        }
    }

    /// One line that says which runtime and driver run on how many shards, and why.
    pub fn describe(&self) -> String {
        let count = self.shared.shards.len();
        format!("{count} shard{} on {}", if count == 1 { "" } else { "s" }, self.chosen.why)
    }

    /// A look at the engine that any thread can take at any time.
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
                shards: shared.shards.iter().map(look).collect(),
                sources: shared.pool.figures(shared.age(Instant::now())),
            }
        }
    }

    /// The counts of refused recipients, to be kept for the next start. A look that any thread can take at any time; it
    /// shows what was counted a second ago.
    pub fn refusals(&self) -> impl Fn() -> Vec<KeptRefusals> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.kept_refusals()
    }

    /// Evidence that was contradicted since the last call; each is given once.
    pub fn withdrawn(&self) -> impl Fn() -> Vec<Withdrawn> + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || std::mem::take(&mut *shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is wrong with the resolvers, and what to do about it: one line, while they count as down.
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
                "{who} {names} {deny} every name without proof, as filters and captive portals do; name another one with \
                 --resolver"
            ));
        }
        let silent = || format!("{who} {names} {answer}; see to the network and to --resolver");
        health.are_silent().then(silent)
    }

    /// Stops the shards: what is under way is answered with [`Outage::Stopping`].
    pub fn stop(mut self) {
        self.end();
    }

    /// Every shard has shown a heartbeat, or has failed to.
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
            // There is room for it beside every ticket.
            let _ = face.inbox.push(Message::Stop);
            face.inbox.wake();
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
        // What a shard sent on to another one that had already ended: dropped, it answers for itself.
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
    let ipv6 = pool.has_ipv6().unwrap_or_else(|| host::has_ipv6(&config));
    Ok(assemble(config, pool, ipv6, tls, Instant::now()))
}

/// What all shards share, from what is known about the host.
fn assemble(
    config: EngineConfig,
    pool: Pool,
    ipv6: bool,
    tls: Arc<rustls::ClientConfig>,
    started: Instant,
) -> Shared {
    let shards = match config.shards {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // The total of sessions is shared out exactly: no shard is without one.
    let shards = shards.min(config.sessions);
    // A ticket or an inquiry has one message under way at most; Stop needs a place of its own.
    let room = config.tickets_max + INQUIRIES_MAX + 8;
    let face = || ShardFace {
        inbox: Inbox::new(room),
        heartbeat: AtomicU64::new(0),
        sessions: AtomicUsize::new(0),
        queued: AtomicUsize::new(0),
        answers: AtomicU64::new(0),
        busy_us: AtomicU64::new(0),
        refusals: Mutex::default(),
    };
    let kept = config.refusals.iter().map(|kept| (kept.key, kept.steps.clone())).collect();
    Shared {
        ipv6,
        kept: Mutex::new(kept),
        withdrawn: Mutex::default(),
        recalls: AtomicU64::new(0),
        started_at: seed::wall_clock(),
        pool,
        tls,
        shards: (0..shards).map(|_| face()).collect(),
        hasher: seed::Hashing::default(),
        stopping: AtomicBool::new(false),
        inquiries: Arc::default(),
        resolvers: Arc::default(),
        started,
        config,
    }
}

/// One thread's way to the engine.
pub struct Client {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    capacity: usize,
    own: Cell<usize>,
}

impl Client {
    /// Hands over a request.
    ///
    /// # Errors
    /// [`Refusal`]; the request was not taken and gets no answer.
    pub fn submit(&self, request: Request) -> Result<(), Refusal> {
        self.submit_at(request, Instant::now())
    }

    fn submit_at(&self, request: Request, now: Instant) -> Result<(), Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        // The ticket reserves room for its message in every inbox on its way, and for its answer in ours.
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
            // Cannot be, as long as tickets reserve their room; dropped, the work answers for itself.
            drop(message);
        }
        self.see_to_the_end(home);
        Ok(())
    }

    /// The shard may have ended while something was handed to it, and nobody looks into its inbox any more: what is
    /// left there answers for itself when it is dropped.
    fn see_to_the_end(&self, face: &ShardFace) {
        // A shard empties its inbox before it shows that it has ended. Either it finds what was pushed before, or this
        // sees its end.
        if self.shared.stopping.load(Ordering::SeqCst) && face.heartbeat.load(Ordering::SeqCst) == u64::MAX {
            while face.inbox.try_pop().is_some() {}
        }
    }

    /// Asks whether a domain has mail hosts, of DNS alone. The answer comes within [`FAST_PATIENCE`]; what DNS has
    /// not told by then is [`MailHosts::Unknown`].
    ///
    /// # Errors
    /// [`Refusal`]; nothing was asked.
    pub fn mail_hosts(&self, domain: Domain) -> Result<Pending<MailHosts>, Refusal> {
        let deadline = Instant::now() + FAST_PATIENCE;
        self.inquire(&domain.clone(), |asker| Inquiry::MailHosts(domain, asker, deadline))
    }

    /// Asks what a domain's DNS says about its mail; `None` where it could not be read. The answer comes within
    /// [`FACTS_PATIENCE`].
    ///
    /// # Errors
    /// [`Refusal`]; nothing was asked.
    pub fn facts(&self, domain: Domain) -> Result<Pending<Option<DnsFacts>>, Refusal> {
        let deadline = Instant::now() + FACTS_PATIENCE;
        self.inquire(&domain.clone(), |asker| Inquiry::Facts(domain, asker, deadline))
    }

    fn inquire<T>(
        &self,
        domain: &Domain,
        inquiry: impl FnOnce(Asker<T>) -> Inquiry,
    ) -> Result<Pending<T>, Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        let (asker, pending) = inquiry::pending_in(InquiryPlace::take(&self.shared.inquiries)?);
        let home = self.shared.shard_of(domain.as_str());
        // The place reserves the room; without it the inquiry is dropped and answers for itself.
        drop(home.inbox.push(Message::Inquire(inquiry(asker))));
        self.see_to_the_end(home);
        Ok(pending)
    }

    /// The next answer; waits for it on any executor, and on a wake-up from another thread.
    pub async fn answer(&self) -> Answer {
        let answer = self.mailbox.inbox.pop().await;
        self.release();
        answer
    }

    /// The next answer, for threads without an executor; `None` after `patience`.
    pub fn answer_blocking(&self, patience: Duration) -> Option<Answer> {
        let answer = self.mailbox.inbox.pop_blocking(patience)?;
        self.release();
        Some(answer)
    }

    /// Puts up to `most` answers into `into`; waits for the first no longer than `patience`. For those who take many
    /// at a time.
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

    /// About how many of its requests servers have spoken so far, whatever that turns out to be worth: their answers may
    /// be held until the session shows. With a slow server it grows long before the first of them is answered.
    pub fn answers(&self) -> u64 {
        self.mailbox.answers()
    }

    /// Has every request of this client that is under way answered soon, with what is known by then.
    pub fn recall(&self) {
        self.mailbox.recall();
        self.shared.recalls.fetch_add(1, Ordering::SeqCst);
    }

    fn release(&self) {
        self.own.set(self.own.get().saturating_sub(1));
        self.mailbox.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}
