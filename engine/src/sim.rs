//! The engine in tests, with the feature `sim`. [`run`] simulates the shards on one thread, with a virtual clock, a seed, and a
//! world in memory. [`start_in_memory`] starts real shards in real time, with hosts and resolvers in memory.
//!
//! In the simulation, the code from the submission of a request to its answer is that of production: only the runtime, the clock
//! and the source of random numbers are different. The same setup, world and arrivals always give the same run, with the same order
//! of all steps.

use crate::census;
pub use crate::census::Census;
use crate::config::EngineConfig;
use crate::egress::Pool;
use crate::faults;
pub use crate::faults::Fault;
use crate::invariants;
pub use crate::invariants::{INVARIANTS, Invariant};
use crate::runtime::Runtime;
pub use crate::runtime::memory::{MemoryHost, MemoryPeers};
use crate::runtime::{Main, sim as runtime};
use crate::seed::simulated as seed;
use crate::shard::ShardMain;
use crate::shared::Shared;
use crate::work::{AnswerBox, Message};
use crate::{Answer, Client, Engine, Refusal, Request, StartError, tls};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The world outside the engine: mail servers, resolvers and clients. `now` is the time since the beginning of the run. A delay
/// counts from the call.
pub trait World {
    /// Called when the engine connects.
    fn connect(&mut self, link: Link, to: SocketAddr, wire: &mut Wire) -> Connect;
    /// Called when the engine sends bytes on a connection.
    fn on_bytes(&mut self, link: Link, bytes: &[u8], wire: &mut Wire);
    /// Called when the engine closes a connection, or when its attempt to connect has failed. `is_unread`: it has not read all that the
    /// peer had sent.
    fn hung_up(&mut self, link: Link, is_unread: bool);
    /// Called when the engine sends a datagram to a resolver. Returns the datagrams that come back, each with its delay.
    fn datagram(&mut self, now: Duration, to: SocketAddr, payload: &[u8]) -> Vec<(Duration, Vec<u8>)>;
    /// Called when the engine answers a request. May return another request, with the delay before it is submitted.
    fn answered(&mut self, now: Duration, answer: Answer) -> Option<(Duration, Request)>;
    /// Called when the engine does not accept the request with this ticket.
    fn refused(&mut self, now: Duration, ticket: u64, refusal: Refusal);
}

/// Starts an engine like [`Engine::start`], on the runtime and driver of `config`, but with hosts and resolvers in memory instead
/// of sockets. Each shard calls `peers` on its own thread to create them.
///
/// # Errors
/// Those of [`Engine::start`].
pub fn start_in_memory(
    config: EngineConfig,
    peers: impl Fn() -> Box<dyn MemoryPeers> + Copy + Send + 'static,
) -> Result<Engine, StartError> {
    Engine::launch(config, move |flavor, main| {
        crate::runtime::memory::populate(peers());
        crate::runtime::run_in_memory(flavor, main)
    })
}

/// A connection as the world sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The number of the connection. Connections are numbered from 0 in the order in which the engine opens them.
    pub id: u32,
    /// The time since the beginning of the run.
    pub now: Duration,
}

/// The result of a connection attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Connect {
    /// The connection is open after this time.
    Open(Duration),
    /// The connection is refused after this time.
    Refused(Duration),
    /// The connection attempt gets no answer.
    #[default]
    Silent,
}

/// The bytes and events that the world sends on a connection, in the order of sending.
#[derive(Debug, Default)]
pub struct Wire(pub(crate) Vec<(Duration, Act)>);

#[derive(Debug)]
pub(crate) enum Act {
    Bytes(Vec<u8>),
    Finish,
    Reset,
}

impl Wire {
    /// Sends bytes. They arrive after this time, but not before anything that was sent earlier.
    pub fn send(&mut self, after: Duration, bytes: Vec<u8>) {
        self.0.push((after, Act::Bytes(bytes)));
    }

    /// Sends the end of the stream (FIN). The engine may still write.
    pub fn finish(&mut self, after: Duration) {
        self.0.push((after, Act::Finish));
    }

    /// Resets the connection. Once the reset arrives, the engine can neither read nor write.
    pub fn reset(&mut self, after: Duration) {
        self.0.push((after, Act::Reset));
    }
}

/// All faults except [`Fault::Break`], each with its name on the command line.
pub const FAULTS: [(Fault, &str); 28] = [
    (Fault::LoseTicket, "lose-ticket"),
    (Fault::AnswerTwice, "answer-twice"),
    (Fault::AnswerLate, "answer-late"),
    (Fault::SessionAsRecipient, "session-as-recipient"),
    (Fault::ConfirmWithoutControl, "confirm-without-control"),
    (Fault::IgnoreSessions, "ignore-sessions"),
    (Fault::IgnoreStarts, "ignore-starts"),
    (Fault::StarveSite, "starve-site"),
    (Fault::LeakTask, "leak-task"),
    (Fault::LeakSession, "leak-session"),
    (Fault::LeakGroup, "leak-group"),
    (Fault::Panic, "panic"),
    (Fault::Spin, "spin"),
    (Fault::AskOn, "ask-on"),
    (Fault::ManyControls, "many-controls"),
    (Fault::NeverRest, "never-rest"),
    (Fault::WriteTwice, "write-twice"),
    (Fault::IgnoreSessionLimits, "ignore-session-limits"),
    (Fault::BlameNetwork, "blame-network"),
    (Fault::CountAccepts, "count-accepts"),
    (Fault::BelieveAccept, "believe-accept"),
    (Fault::BelieveRefusals, "believe-refusals"),
    (Fault::IgnoreBudget, "ignore-budget"),
    (Fault::ForgetReserved, "forget-reserved"),
    (Fault::BelieveControl, "believe-control"),
    (Fault::SpareEarly, "spare-early"),
    (Fault::IgnoreBusy, "ignore-busy"),
    (Fault::TrustStep, "trust-step"),
];

/// The input of a run.
#[derive(Debug)]
pub struct Setup {
    /// The seed of all random numbers of the run.
    pub seed: u64,
    /// The settings of the engine. A simulation reads no settings of this machine.
    pub config: EngineConfig,
    /// Whether hosts can be reached at IPv6 addresses.
    pub ipv6: bool,
    /// The defect that is planted, if any.
    pub fault: Option<Fault>,
    /// The longest time for which the run waits for answers.
    pub limit: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// A hash of the run. Two runs with different steps have different hashes.
    pub trace: u64,
    /// When the run stopped waiting for answers: after the last one, at [`Setup::limit`], or because a task spun.
    pub answered: Duration,
    /// Number of tickets that still counted as under way at that time.
    pub under_way: usize,
    /// What each shard still kept some time after [`Ending::answered`].
    pub kept: Vec<Census>,
    /// Number of tasks that outlived the shards.
    pub tasks: usize,
    /// Number of connections that outlived the shards.
    pub connections: usize,
    /// Number of shards with memory that is still in use after they have ended.
    pub shards_left: usize,
    /// Number of tasks that panicked.
    pub panics: u32,
    /// Whether some task ran on and on without time passing.
    pub spins: bool,
    /// The invariants that the engine found broken.
    pub broken: Vec<Invariant>,
}

/// After this time all timeouts have passed, and the shards have dropped the state of groups without work.
const LINGER: Duration = Duration::from_secs(600);
/// How often the run checks whether the shards still keep state.
const LOOK: Duration = Duration::from_secs(15);

/// Runs the engine in a world until every request is answered or refused, the limit is reached, or a task spins. Returns the world
/// with the result.
///
/// # Errors
/// [`StartError`] if the engine cannot start with these settings, or if something still holds the world after the run.
pub fn run<W: World + 'static>(
    setup: Setup,
    world: W,
    arrivals: Vec<(Duration, Request)>,
) -> Result<(Ending, W), StartError> {
    seed::plant(Some(setup.seed));
    faults::plant(setup.fault);
    let tickets = setup.config.tickets_max;
    let world = Rc::new(RefCell::new(world));
    runtime::start(setup.seed, Rc::clone(&world) as Rc<RefCell<dyn World>>);
    let pool = Pool::new(&setup.config)?;
    let shared = Arc::new(crate::assemble(setup.config, pool, setup.ipv6, tls()?, runtime::Sim::now())?);
    let run = Run::new(&shared, tickets);
    let ending = run.drive(&world, arrivals, setup.limit);
    drop(run);
    runtime::stop();
    census::clear();
    faults::plant(None);
    seed::plant(None);
    match Rc::try_unwrap(world) {
        Ok(world) => Ok((ending, world.into_inner())),
        Err(_) => Err(StartError("something of the simulation holds on to the world".into())),
    }
}

/// The TLS configuration. All runs on this thread share it, because making one takes longer than checking most addresses.
fn tls() -> Result<Arc<rustls::ClientConfig>, StartError> {
    thread_local! {
        static TLS: RefCell<Option<Arc<rustls::ClientConfig>>> = const { RefCell::new(None) };
    }
    if let Some(tls) = TLS.with(|tls| tls.borrow().clone()) {
        return Ok(tls);
    }
    let made = tls::client_config().map_err(|error| StartError(format!("TLS cannot be set up: {error}")))?;
    TLS.set(Some(Arc::clone(&made)));
    Ok(made)
}

struct Run {
    shared: Arc<Shared>,
    client: Rc<Client>,
    /// The number of requests that are submitted and not answered.
    pending: Rc<Cell<usize>>,
    /// All requests so far. The index of a request is its position here. The entry becomes `None` when the request is submitted.
    waiting: Rc<RefCell<Vec<Option<Request>>>>,
    unsubmitted: Rc<Cell<usize>>,
}

impl Run {
    fn new(shared: &Arc<Shared>, tickets: usize) -> Run {
        let mailbox = Arc::new(AnswerBox::new(tickets * 2, Arc::default()));
        let client = Client { shared: Arc::clone(shared), mailbox, capacity: tickets, own: Cell::new(0) };
        Run {
            shared: Arc::clone(shared),
            client: Rc::new(client),
            pending: Rc::default(),
            waiting: Rc::default(),
            unsubmitted: Rc::default(),
        }
    }

    fn drive<W: World + 'static>(
        &self,
        world: &Rc<RefCell<W>>,
        arrivals: Vec<(Duration, Request)>,
        limit: Duration,
    ) -> Ending {
        for index in 0..self.shared.shards.len() {
            let main = ShardMain { index, shared: Arc::clone(&self.shared) };
            runtime::Sim::spawn(main.run::<runtime::Sim>());
        }
        for (at, request) in arrivals {
            submit_later(&self.waiting, &self.unsubmitted, at, request);
        }
        self.take_answers(world);
        let mut submit = |index: u32| self.submit(world, index);
        let (pending, unsubmitted) = (Rc::clone(&self.pending), Rc::clone(&self.unsubmitted));
        let done = move || pending.get() == 0 && unsubmitted.get() == 0;
        let first = runtime::drive(limit, &mut submit, &done);
        let under_way = self.client.mailbox.under_way.load(Ordering::Relaxed);
        let (mut last, mut kept) = (first, census::take());
        let end = first.now + LINGER;
        while !last.spins && last.now < end && kept.iter().any(|shard| *shard != Census::default()) {
            last = runtime::drive(last.now + LOOK, &mut submit, &|| false);
            kept = census::take();
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        for face in &self.shared.shards {
            // In addition to the room for all tickets, the inbox has room for this message.
            let _ = face.inbox.push(Message::Stop);
        }
        // One task never ends: the one that takes the answers.
        let farewell = last.now + LINGER;
        let last = runtime::drive(farewell, &mut submit, &|| runtime::tasks() <= 1);
        Ending {
            trace: last.trace,
            answered: first.now,
            under_way,
            kept,
            tasks: runtime::tasks().saturating_sub(1),
            connections: runtime::connections(),
            shards_left: census::take().len(),
            panics: last.panics,
            spins: first.spins || last.spins,
            broken: invariants::take_broken(),
        }
    }

    fn submit<W: World>(&self, world: &Rc<RefCell<W>>, index: u32) {
        let Some(request) = self.waiting.borrow_mut()[index as usize].take() else { return };
        self.unsubmitted.set(self.unsubmitted.get() - 1);
        let (ticket, now) = (request.ticket, runtime::Sim::now());
        match self.client.submit_at(request, now) {
            Ok(()) => self.pending.set(self.pending.get() + 1),
            Err(refusal) => world.borrow_mut().refused(self.shared.age(now), ticket, refusal),
        }
    }

    /// Starts a task that hands every answer to the world.
    fn take_answers<W: World + 'static>(&self, world: &Rc<RefCell<W>>) {
        let (client, shared, world) = (Rc::clone(&self.client), Arc::clone(&self.shared), Rc::clone(world));
        let (pending, waiting, unsubmitted) =
            (Rc::clone(&self.pending), Rc::clone(&self.waiting), Rc::clone(&self.unsubmitted));
        runtime::Sim::spawn(async move {
            loop {
                let answer = client.answer().await;
                let now = shared.age(runtime::Sim::now());
                pending.set(pending.get().saturating_sub(1));
                let again = world.borrow_mut().answered(now, answer);
                if let Some((after, request)) = again {
                    submit_later(&waiting, &unsubmitted, now + after, request);
                }
            }
        });
    }
}

fn submit_later(
    waiting: &RefCell<Vec<Option<Request>>>,
    unsubmitted: &Cell<usize>,
    at: Duration,
    request: Request,
) {
    let mut waiting = waiting.borrow_mut();
    runtime::submit_at(at, waiting.len() as u32);
    waiting.push(Some(request));
    unsubmitted.set(unsubmitted.get() + 1);
}
