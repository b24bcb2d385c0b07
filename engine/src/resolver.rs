//! DNS I/O of a shard: the lookup machine of engine-proto, driven over a pool of UDP sockets, with a cache that
//! this thread alone owns.
//!
//! A question has no task and no timer of its own. What it sends goes out with what others send at the same time
//! ([`ports`]), what comes for it is looked at where it is received, and one task looks for questions whose patience is over.

mod ports;

use crate::config::EngineConfig;
use crate::runtime::{Runtime, Stream};
use crate::seed::{self, HashMap, Hashing};
use engine_proto::dns::cache::Cache;
use engine_proto::dns::lookup::{Lookup, LookupConfig, Transmit, Transport};
use engine_proto::dns::message::FrameReader;
use engine_proto::dns::upstreams::Upstreams;
use engine_proto::dns::{Name, Outcome, Question, RecordKind};
use engine_proto::limits::{DNS_CACHE_MAX, DNS_TCP_MESSAGE_BYTES_MAX};
use engine_proto::outage::Resolvers;
use futures_lite::future::yield_now;
use ports::{Outbox, Outgoing, Ports, Sent};
use rand::Rng;
use rand::rngs::StdRng;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How late the end of a question's patience may be noticed.
const TICK: Duration = Duration::from_millis(20);

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) struct Resolver<R: Runtime> {
    inner: Rc<Inner<R>>,
}

struct Inner<R: Runtime> {
    upstreams: Vec<SocketAddr>,
    config: LookupConfig,
    cache: RefCell<Cache<Hashing>>,
    flights: RefCell<HashMap<Question, Rc<Flight<R>>>>,
    /// The question about our own name, while it is asked.
    call: RefCell<Option<Rc<Flight<R>>>>,
    /// A task looks for questions whose patience is over.
    ticking: Cell<bool>,
    outbox: RefCell<Outbox<R>>,
    ports: Ports<R>,
    random: RefCell<StdRng>,
    record: RefCell<Upstreams>,
    /// What all shards know of the resolvers.
    health: Arc<Resolvers>,
    /// How many outages were over when the cache was last used.
    outages: Cell<u32>,
    /// What is asked to see whether anybody is there at all: the address of the name that we say in EHLO.
    own_name: Question,
}

/// A question that is being asked, and who waits for it.
struct Flight<R: Runtime> {
    /// Until it has ended.
    lookup: RefCell<Option<Lookup>>,
    /// Where answers are awaited.
    sent: RefCell<Vec<Sent<R>>>,
    /// How many lookups were answered when it began.
    heard: u32,
    /// How it ended, and whether anybody answered at all.
    ended: RefCell<Option<(Arc<Outcome>, bool)>>,
    waiting: RefCell<Vec<Waker>>,
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
                ports: Ports::new(&upstreams),
                upstreams,
                cache: RefCell::new(Cache::new(DNS_CACHE_MAX, Hashing::default())),
                own_name: Question { name: own_name, kind: RecordKind::A },
                call: RefCell::default(),
                ticking: Cell::new(false),
                outbox: RefCell::default(),
                flights: RefCell::default(),
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
        let now = R::now();
        // What nobody answered in an outage was not the domain's fault.
        let ended = inner.health.ended();
        if inner.outages.replace(ended) != ended {
            inner.cache.borrow_mut().forget_silence(now);
        }
        if let Some(outcome) = inner.cache.borrow_mut().get(question, now) {
            return outcome;
        }
        let known = inner.flights.borrow().get(question).cloned();
        let flight = known.unwrap_or_else(|| {
            let flight = inner.flight(question, now);
            inner.flights.borrow_mut().insert(question.clone(), Rc::clone(&flight));
            inner.go_on(&flight, now);
            flight
        });
        flight.end().await.0
    }
}

impl<R: Runtime> Drop for Inner<R> {
    fn drop(&mut self) {
        // Flights and the sockets that they wait on hold each other.
        for flight in self.flights.get_mut().values().chain(self.call.get_mut().as_ref()) {
            flight.sent.take();
        }
    }
}

impl<R: Runtime> Flight<R> {
    /// How it ends. It goes on when nobody waits any more.
    async fn end(&self) -> (Arc<Outcome>, bool) {
        poll_fn(|context| match &*self.ended.borrow() {
            Some(ended) => Poll::Ready(ended.clone()),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn deadline(&self) -> Option<Instant> {
        self.lookup.borrow().as_ref().and_then(Lookup::deadline)
    }

    /// Shows the lookup something, unless it has ended.
    fn show(&self, show: impl FnOnce(&mut Lookup)) {
        if let Some(lookup) = &mut *self.lookup.borrow_mut() {
            show(lookup);
        }
    }
}

impl<R: Runtime> Inner<R> {
    fn flight(&self, question: &Question, now: Instant) -> Rc<Flight<R>> {
        let first = self.record.borrow().first();
        Rc::new(Flight {
            lookup: RefCell::new(Some(Lookup::new(question.clone(), &self.config, first, now))),
            sent: RefCell::default(),
            heard: self.health.heard(),
            ended: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Sends what a lookup has to send now, and ends it where it has come to its end.
    fn go_on(self: &Rc<Self>, flight: &Rc<Flight<R>>, now: Instant) {
        loop {
            let transmit = {
                let mut random = self.random.borrow_mut();
                let mut lookup = flight.lookup.borrow_mut();
                let Some(lookup) = &mut *lookup else { return };
                lookup.poll_transmit(now, &mut || random.random())
            };
            match transmit {
                Some(Transmit { upstream, transport: Transport::Udp, payload, id }) => {
                    self.post(Outgoing { flight: Rc::clone(flight), upstream, id, payload });
                }
                Some(Transmit { upstream, payload, .. }) => {
                    let deadline = flight.deadline().unwrap_or(now);
                    R::spawn(converse(Rc::clone(self), Rc::clone(flight), upstream, payload, deadline));
                }
                None => break,
            }
        }
        if flight.deadline().is_none() {
            // Nothing to send and nothing to wait for.
            self.end(flight, now);
        } else if !self.ticking.replace(true) {
            R::spawn(tick(Rc::clone(self)));
        }
    }

    /// A lookup has ended: notes what that shows of the resolvers.
    fn end(self: &Rc<Self>, flight: &Rc<Flight<R>>, now: Instant) {
        let Some(lookup) = flight.lookup.take() else { return };
        flight.sent.take().into_iter().for_each(Sent::forget);
        self.record.borrow_mut().note(&lookup);
        let (answered, question) = (lookup.any_answer(), lookup.question().clone());
        let outcome = lookup.into_outcome().unwrap_or(Outcome::Failed {
            why: engine_proto::dns::Failure::Timeout,
            ttl: engine_proto::limits::DNS_FAILURE_TTL,
        });
        let is_call = self.call.borrow().as_ref().is_some_and(|call| Rc::ptr_eq(call, flight));
        if is_call {
            self.call.take();
            tell(flight, Arc::new(outcome), answered);
        } else if answered || !self.health.is_suspect() {
            self.health.note(answered, flight.heard);
            self.settle(question, flight, outcome, now);
        } else if self.call.borrow().is_none() {
            // Names whose own servers are dead look like dead resolvers. Ours is another matter, so it tells them apart.
            let call = self.flight(&self.own_name, now);
            self.call.replace(Some(Rc::clone(&call)));
            self.go_on(&call, now);
            let (inner, flight) = (Rc::clone(self), Rc::clone(flight));
            R::spawn(async move {
                let (_, answered) = call.end().await;
                inner.health.note(answered, flight.heard);
                inner.settle(question, &flight, outcome, R::now());
            });
        } else {
            self.settle(question, flight, outcome, now);
        }
    }

    /// Keeps what was learned and tells those who wait for it.
    fn settle(&self, question: Question, flight: &Flight<R>, outcome: Outcome, now: Instant) {
        self.flights.borrow_mut().remove(&question);
        let outcome = self.cache.borrow_mut().insert(question, outcome, now);
        tell(flight, outcome, true);
    }

    /// Has a question sent, with all that others have sent in this turn of the thread.
    fn post(self: &Rc<Self>, outgoing: Outgoing<R>) {
        let is_first = self.outbox.borrow_mut().push(outgoing);
        if is_first {
            let inner = Rc::clone(self);
            R::spawn(async move {
                // glommio begins a task where it is spawned.
                yield_now().await;
                let outgoing = inner.outbox.borrow_mut().take();
                ports::send(&inner, outgoing);
            });
        }
    }

    /// The network says that nobody listens at a resolver.
    fn unreachable(self: &Rc<Self>, flight: &Rc<Flight<R>>, upstream: usize, now: Instant) {
        flight.show(|lookup| lookup.handle_unreachable(upstream));
        self.go_on(flight, now);
    }
}

fn tell<R: Runtime>(flight: &Flight<R>, outcome: Arc<Outcome>, answered: bool) {
    flight.ended.replace(Some((outcome, answered)));
    flight.waiting.take().into_iter().for_each(Waker::wake);
}

/// Wakes lookups whose patience is over, as long as there are any.
async fn tick<R: Runtime>(inner: Rc<Inner<R>>) {
    loop {
        R::sleep(TICK).await;
        let now = R::now();
        let is_late = |flight: &&Rc<Flight<R>>| flight.deadline().is_some_and(|deadline| deadline <= now);
        let late: Vec<Rc<Flight<R>>> = {
            let (flights, call) = (inner.flights.borrow(), inner.call.borrow());
            flights.values().chain(call.as_ref()).filter(is_late).cloned().collect()
        };
        for flight in late {
            flight.show(|lookup| lookup.handle_timeout(now));
            inner.go_on(&flight, now);
        }
        if inner.flights.borrow().is_empty() && inner.call.borrow().is_none() {
            break;
        }
    }
    inner.ticking.set(false);
}

/// Asks over TCP.
async fn converse<R: Runtime>(
    inner: Rc<Inner<R>>,
    flight: Rc<Flight<R>>,
    upstream: usize,
    payload: Vec<u8>,
    deadline: Instant,
) {
    let said = ask_tcp::<R>(inner.upstreams[upstream], payload, deadline).await;
    flight.show(|lookup| match &said {
        Ok(message) => lookup.handle_tcp(upstream, message),
        Err(_) => lookup.handle_tcp_failed(upstream),
    });
    inner.go_on(&flight, R::now());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Driver, Monoio, run};
    use std::collections::HashSet;
    use std::net::UdpSocket;

    const EACH: usize = 150;

    /// A resolver that says of every name that it does not exist, and its thread: the ports that asked and how many
    /// questions came, so many of them over.
    fn nothing_exists(questions: usize) -> (SocketAddr, std::thread::JoinHandle<HashSet<u16>>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let answer = move || {
            let mut buffer = [0; 512];
            let mut ports = HashSet::new();
            for _ in 0..questions {
                let (length, from) = socket.recv_from(&mut buffer).expect("a question is missing");
                ports.insert(from.port());
                // A response, with recursion available and NXDOMAIN.
                buffer[2..4].copy_from_slice(&[0x81, 0x83]);
                socket.send_to(&buffer[..length], from).unwrap();
            }
            ports
        };
        (address, std::thread::spawn(answer))
    }

    fn resolver(upstreams: &[SocketAddr]) -> Resolver<Monoio> {
        let config = EngineConfig { resolvers: upstreams.to_vec(), ..EngineConfig::default() };
        Resolver::new(&config, Arc::default())
    }

    fn question(text: &str) -> Question {
        Question { name: Name::parse(text).unwrap(), kind: RecordKind::Mx }
    }

    async fn all_are_absent(resolver: &Resolver<Monoio>, names: Vec<String>) {
        let questions: Vec<Question> = names.iter().map(|name| question(name)).collect();
        let outcomes =
            crate::walk::all(questions.iter().map(|question| resolver.look_up(question)).collect()).await;
        for (outcome, name) in outcomes.iter().zip(names) {
            assert!(matches!(**outcome, Outcome::NxDomain { .. }), "{name}: {outcome:?}");
        }
    }

    #[test]
    fn questions_that_come_together_are_told_apart() {
        let (address, answers) = nothing_exists(3 * EACH);
        run(Driver::Epoll, async move {
            let resolver = resolver(&[address]);
            let of = |n: usize| format!("{}{n}.example", "d".repeat(1 + n % 3));
            let names: Vec<String> = (1000..1000 + 3 * EACH).map(of).collect();
            all_are_absent(&resolver, names.clone()).await;
            // Of the cache: nobody is there to answer any more.
            all_are_absent(&resolver, names).await;
            assert!(resolver.inner.ports.takes_many(), "loopback takes many at once");
            assert!(resolver.inner.flights.borrow().is_empty());
        })
        .unwrap();
        let ports = answers.join().unwrap();
        // Three lengths, 32 at a time.
        assert!(ports.len() >= 8, "{ports:?}");
    }

    #[test]
    fn one_call_for_many_is_done_without_where_it_fails() {
        let (address, answers) = nothing_exists(EACH);
        run(Driver::Epoll, async move {
            let resolver = resolver(&[address]);
            resolver.inner.ports.sends_one_by_one();
            all_are_absent(&resolver, (1000..1000 + EACH).map(|n| format!("d{n}.example")).collect()).await;
        })
        .unwrap();
        answers.join().unwrap();
    }

    #[test]
    fn a_resolver_that_is_not_there_is_passed_over() {
        let (address, answers) = nothing_exists(EACH);
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        run(Driver::Epoll, async move {
            let resolver = resolver(&[gone, address]);
            let began = Instant::now();
            all_are_absent(&resolver, (1000..1000 + EACH).map(|n| format!("d{n}.example")).collect()).await;
            assert!(began.elapsed() < Duration::from_secs(10));
        })
        .unwrap();
        answers.join().unwrap();
    }
}
