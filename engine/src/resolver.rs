//! DNS I/O of a shard: the lookup machine of engine-proto, driven over a pool of UDP sockets, with a cache that
//! this thread alone owns.
//!
//! Sockets are pooled rather than made for each question: each is connected to one resolver, so that the kernel
//! drops what comes from elsewhere, has a random port, is used by many questions at once and is replaced after a
//! while. A question is told from others on its socket by its id; a forger has to guess the port, the id and the
//! capitals of the name (RFC 5452).

use crate::config::EngineConfig;
use crate::runtime::{Datagrams, Runtime, Stream};
use crate::seed::{self, HashMap};
use engine_proto::dns::cache::Cache;
use engine_proto::dns::lookup::{Lookup, LookupConfig, Transmit, Transport};
use engine_proto::dns::message::FrameReader;
use engine_proto::dns::upstreams::Upstreams;
use engine_proto::dns::{Name, Outcome, Question, RecordKind};
use engine_proto::limits::{DNS_CACHE_MAX, DNS_TCP_MESSAGE_BYTES_MAX};
use engine_proto::outage::Resolvers;
use rand::Rng;
use rand::rngs::StdRng;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Sockets a resolver.
const PORTS: usize = 16;
/// Questions that a socket is used for before another takes its place.
const PORT_USES_MAX: u32 = 2_000;
/// How long a socket is used.
const PORT_LIFE: Duration = Duration::from_secs(60);
/// How often an unused socket looks whether it was replaced.
const PORT_TICK: Duration = Duration::from_secs(5);
/// How long a socket is left alone after an error.
const PORT_ERROR_PAUSE: Duration = Duration::from_millis(10);
/// Room for a datagram: more than EDNS lets a resolver send.
const DATAGRAM_BYTES: usize = 2048;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) struct Resolver<R: Runtime> {
    inner: Rc<Inner<R>>,
}

struct Inner<R: Runtime> {
    upstreams: Vec<SocketAddr>,
    config: LookupConfig,
    cache: RefCell<Cache>,
    flights: RefCell<HashMap<Question, Rc<Flight>>>,
    ports: RefCell<Vec<Rc<Port<R>>>>,
    random: RefCell<StdRng>,
    record: RefCell<Upstreams>,
    /// What all shards know of the resolvers.
    health: Arc<Resolvers>,
    /// How many outages were over when the cache was last used.
    outages: Cell<u32>,
    /// What is asked to see whether anybody is there at all: the address of the name that we say in EHLO.
    own_name: Question,
    /// It is being asked.
    calling: Cell<bool>,
}

/// A question that is being asked, and who waits for it.
#[derive(Default)]
struct Flight {
    outcome: RefCell<Option<Arc<Outcome>>>,
    waiting: RefCell<Vec<Waker>>,
}

/// A socket that is connected to one resolver.
struct Port<R: Runtime> {
    socket: R::Datagrams,
    upstream: usize,
    born: Instant,
    uses: Cell<u32>,
    retired: Cell<bool>,
    pending: RefCell<HashMap<u16, Rc<Slot>>>,
}

/// Where a lookup finds what came for it.
#[derive(Default)]
struct Slot {
    arrived: RefCell<VecDeque<(usize, Arrival)>>,
    waker: RefCell<Option<Waker>>,
}

enum Arrival {
    Datagram(Box<[u8]>),
    /// The network says that nobody listens there.
    Unreachable,
}

impl<R: Runtime> Clone for Resolver<R> {
    fn clone(&self) -> Resolver<R> {
        Resolver { inner: Rc::clone(&self.inner) }
    }
}

impl<R: Runtime> Resolver<R> {
    pub(crate) fn new(config: &EngineConfig, health: Arc<Resolvers>) -> Resolver<R> {
        let upstreams = config.resolvers.clone();
        let own_name =
            config.ehlo.as_deref().and_then(Name::parse).unwrap_or_else(|| Name::reverse(LOCALHOST));
        Resolver {
            inner: Rc::new(Inner {
                config: LookupConfig::new(upstreams.len()),
                record: RefCell::new(Upstreams::new(upstreams.len())),
                outages: Cell::new(health.ended()),
                health,
                upstreams,
                cache: RefCell::new(Cache::new(DNS_CACHE_MAX)),
                own_name: Question { name: own_name, kind: RecordKind::A },
                calling: Cell::new(false),
                flights: RefCell::default(),
                ports: RefCell::default(),
                random: RefCell::new(seed::rng()),
            }),
        }
    }

    /// True when the resolvers, and not the domains, are to blame for silence.
    pub(crate) fn is_down(&self) -> bool {
        self.inner.health.are_down()
    }

    /// What DNS says to a question: from the cache, from the same question that is already being asked, or asked.
    pub(crate) async fn look_up(&self, question: &Question) -> Arc<Outcome> {
        let inner = &self.inner;
        // What nobody answered in an outage was not the domain's fault.
        let ended = inner.health.ended();
        if inner.outages.replace(ended) != ended {
            inner.cache.borrow_mut().forget_silence(R::now());
        }
        if let Some(outcome) = inner.cache.borrow_mut().get(question, R::now()) {
            return outcome;
        }
        let known = inner.flights.borrow().get(question).cloned();
        let flight = known.unwrap_or_else(|| {
            let flight = Rc::new(Flight::default());
            inner.flights.borrow_mut().insert(question.clone(), Rc::clone(&flight));
            // A task of its own: the question goes on when the first who asked it has gone.
            R::spawn(fly(Rc::clone(inner), question.clone(), Rc::clone(&flight)));
            flight
        });
        poll_fn(|context| match &*flight.outcome.borrow() {
            Some(outcome) => Poll::Ready(Arc::clone(outcome)),
            None => {
                flight.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

async fn fly<R: Runtime>(inner: Rc<Inner<R>>, question: Question, flight: Rc<Flight>) {
    let outcome = inner.ask(&question).await;
    let outcome = inner.cache.borrow_mut().insert(question.clone(), outcome, R::now());
    inner.flights.borrow_mut().remove(&question);
    flight.outcome.replace(Some(outcome));
    flight.waiting.take().into_iter().for_each(Waker::wake);
}

impl<R: Runtime> Inner<R> {
    /// Asks a question, and notes what that shows of the resolvers.
    async fn ask(self: &Rc<Self>, question: &Question) -> Outcome {
        let heard = self.health.heard();
        let lookup = self.drive(question).await;
        if lookup.any_answer() || !self.health.is_suspect() {
            self.health.note(lookup.any_answer(), heard);
        } else if !self.calling.replace(true) {
            // Names whose own servers are dead look like dead resolvers. Ours is another matter, so it tells them apart.
            // Boxed: few questions come to this, and all would have room for it.
            let answered = Box::pin(self.drive(&self.own_name)).await.any_answer();
            self.calling.set(false);
            self.health.note(answered, heard);
        }
        // Without a deadline and without anything to send, the lookup has ended.
        lookup.into_outcome().unwrap_or(Outcome::Failed {
            why: engine_proto::dns::Failure::Timeout,
            ttl: engine_proto::limits::DNS_FAILURE_TTL,
        })
    }

    /// Drives one lookup to its end.
    async fn drive(self: &Rc<Self>, question: &Question) -> Lookup {
        let first = self.record.borrow().first();
        let mut lookup = Lookup::new(question.clone(), &self.config, first, R::now());
        let slot = Rc::new(Slot::default());
        let mut used: Vec<(Rc<Port<R>>, u16)> = Vec::new();
        loop {
            let transmit = {
                let mut random = self.random.borrow_mut();
                lookup.poll_transmit(R::now(), &mut || random.random())
            };
            if let Some(transmit) = transmit {
                self.send(&mut lookup, transmit, &slot, &mut used).await;
                continue;
            }
            let Some(deadline) = lookup.deadline() else { break };
            match R::before(deadline, slot.next()).await {
                Some((upstream, Arrival::Datagram(bytes))) => lookup.handle_datagram(upstream, &bytes),
                Some((upstream, Arrival::Unreachable)) => lookup.handle_unreachable(upstream),
                None => lookup.handle_timeout(R::now()),
            }
        }
        for (port, id) in used {
            port.pending.borrow_mut().remove(&id);
        }
        self.record.borrow_mut().note(&lookup);
        lookup
    }

    async fn send(
        self: &Rc<Self>,
        lookup: &mut Lookup,
        transmit: Transmit,
        slot: &Rc<Slot>,
        used: &mut Vec<(Rc<Port<R>>, u16)>,
    ) {
        let Transmit { upstream, transport, payload, id } = transmit;
        match transport {
            Transport::Udp => {
                let Some(port) = self.port(upstream, id) else { return lookup.handle_unreachable(upstream) };
                port.pending.borrow_mut().insert(id, Rc::clone(slot));
                used.push((Rc::clone(&port), id));
                if port.socket.send(&payload).is_err() {
                    lookup.handle_unreachable(upstream);
                }
            }
            Transport::Tcp => {
                let deadline = lookup.deadline().unwrap_or_else(R::now);
                // Boxed: few questions go over TCP, and all would have room for it.
                match Box::pin(ask_tcp::<R>(self.upstreams[upstream], payload, deadline)).await {
                    Ok(message) => lookup.handle_tcp(upstream, &message),
                    Err(_) => lookup.handle_tcp_failed(upstream),
                }
            }
        }
    }

    /// A socket towards a resolver on which the id is free, at random; `None` when the kernel gives none.
    fn port(self: &Rc<Self>, upstream: usize, id: u16) -> Option<Rc<Port<R>>> {
        let now = R::now();
        let mut ports = self.ports.borrow_mut();
        ports.retain(|port| {
            let spent =
                port.uses.get() >= PORT_USES_MAX || now.saturating_duration_since(port.born) >= PORT_LIFE;
            port.retired.set(spent);
            !spent
        });
        let ours = ports.iter().filter(|port| port.upstream == upstream);
        let count = ours.clone().count();
        // An id that is in use on one of them must not cost a socket: under load that is every few questions.
        let free: Vec<&Rc<Port<R>>> = ours.filter(|port| !port.pending.borrow().contains_key(&id)).collect();
        if count >= PORTS && !free.is_empty() {
            let at = self.random.borrow_mut().random_range(0..free.len());
            let port = Rc::clone(free[at]);
            port.uses.set(port.uses.get() + 1);
            return Some(port);
        }
        let socket = R::datagrams(self.upstreams[upstream]).ok()?;
        let port = Rc::new(Port {
            socket,
            upstream,
            born: now,
            uses: Cell::new(1),
            retired: Cell::new(false),
            pending: RefCell::default(),
        });
        ports.push(Rc::clone(&port));
        R::spawn(listen(Rc::clone(&port)));
        Some(port)
    }
}

/// Hands what a socket receives to those who wait for it, until the socket is replaced and nobody waits.
async fn listen<R: Runtime>(port: Rc<Port<R>>) {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        buffer.reserve(DATAGRAM_BYTES);
        let received = R::before(R::now() + PORT_TICK, port.socket.receive(buffer)).await;
        // Nobody else holds it: the shard has ended.
        let alone = Rc::strong_count(&port) == 1;
        if alone || port.retired.get() && port.pending.borrow().is_empty() {
            return;
        }
        buffer = match received {
            None => Vec::new(),
            Some((Ok(_), datagram)) => {
                // The first two octets are the id (RFC 1035 4.1.1); all else is checked by the lookup.
                let id = datagram.first_chunk().map(|id| u16::from_be_bytes(*id));
                if let Some(slot) = id.and_then(|id| port.pending.borrow().get(&id).cloned()) {
                    // A copy, no larger than what came: thousands may wait to be looked at.
                    slot.put(port.upstream, Arrival::Datagram(datagram.as_slice().into()));
                }
                datagram
            }
            Some((Err(_), buffer)) => {
                // ICMP: everybody who asked over this socket may have been meant.
                for slot in port.pending.borrow().values() {
                    slot.put(port.upstream, Arrival::Unreachable);
                }
                // An error that lasts must not keep this thread busy.
                R::sleep(PORT_ERROR_PAUSE).await;
                buffer
            }
        };
    }
}

impl Slot {
    /// A hostile network may send many datagrams for one question: the first few are looked at.
    const ARRIVALS_MAX: usize = 64;

    fn put(&self, upstream: usize, arrival: Arrival) {
        let mut arrived = self.arrived.borrow_mut();
        if arrived.len() < Slot::ARRIVALS_MAX {
            arrived.push_back((upstream, arrival));
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn next(&self) -> (usize, Arrival) {
        poll_fn(|context| match self.arrived.borrow_mut().pop_front() {
            Some(arrival) => Poll::Ready(arrival),
            None => {
                self.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

/// One question over a connection of its own (RFC 7766).
async fn ask_tcp<R: Runtime>(
    upstream: SocketAddr,
    payload: Vec<u8>,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let mut stream = R::connect(None, upstream, deadline).await?;
    stream.write(payload, deadline).await.0?;
    let mut frame = FrameReader::default();
    loop {
        let wanted = frame.wanted().min(DNS_TCP_MESSAGE_BYTES_MAX + 2);
        let (count, bytes) = stream.read(Vec::with_capacity(wanted), deadline).await;
        if count? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        frame.feed(&bytes);
        if let Some(message) = frame.message() {
            return Ok(message);
        }
    }
}
