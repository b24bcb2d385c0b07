//! The sockets that questions go over.
//!
//! They are pooled rather than made for each question: each is connected to one resolver, so that the kernel
//! drops what comes from elsewhere, has a random port, is used by many questions at once and is replaced after a
//! while. A question is told from others on its socket by its id; a forger has to guess the port, the id and the
//! capitals of the name (RFC 5452).
//!
//! Questions of one turn of the thread that are equally long share a socket and a system call, which is where most of
//! the time of a look-up went.

use super::{Inner, PendingLookup};
use crate::runtime::{DatagramSocket, Runtime, SEGMENTS_MAX};
use crate::seed::HashMap;
use engine_proto::dns::lookup::Received;
use engine_proto::dns::window::{Overdue, Place};
use engine_proto::limits::{
    DNS_DATAGRAM_BYTES, DNS_DATAGRAMS_A_TURN_MAX, DNS_PORT_ERROR_PAUSE, DNS_PORT_LIFE, DNS_PORT_USES_MAX,
    DNS_PORTS,
};
use rand::RngExt;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// How often an unused socket looks whether it was replaced.
const PORT_TICK: Duration = Duration::from_secs(5);

/// The sockets of a shard, by resolver.
pub(super) struct Ports<R: Runtime> {
    pools: Vec<RefCell<Vec<Rc<Port<R>>>>>,
    upstreams: Vec<SocketAddr>,
    /// Whether the kernel takes many datagrams with one call.
    takes_many: Cell<bool>,
}

/// A socket that is connected to one resolver.
struct Port<R: Runtime> {
    socket: R::Datagrams,
    upstream: usize,
    born: Instant,
    uses: Cell<u32>,
    retired: Cell<bool>,
    /// The lookups that wait for an answer, by message id.
    pending: RefCell<HashMap<u16, Awaits<R>>>,
}

/// The receiver of an answer.
enum Awaits<R: Runtime> {
    Lookup(Rc<PendingLookup<R>>),
    /// The lookup has ended; an answer shows that the question was not lost.
    Late,
}

/// A question that is to be sent.
pub(super) struct Outgoing<R: Runtime> {
    pub(super) pending: Rc<PendingLookup<R>>,
    pub(super) upstream: usize,
    pub(super) id: u16,
    pub(super) payload: Vec<u8>,
    /// Until it is sent.
    pub(super) place: Cell<Option<Place>>,
    /// When its place is given back.
    pub(super) overdue_at: Instant,
    /// The lookup's first message.
    pub(super) is_first: bool,
}

/// Questions of this turn.
pub(super) struct Outbox<R: Runtime>(Vec<Outgoing<R>>);

/// A question that was sent: where its answer is awaited.
pub(super) struct Sent<R: Runtime> {
    port: Rc<Port<R>>,
    id: u16,
    pub(super) at: Instant,
    pub(super) overdue_at: Instant,
    pub(super) is_first: bool,
    /// Until it is answered or overdue.
    pub(super) place: Cell<Option<Place>>,
    /// Since it is overdue, until it is answered.
    pub(super) overdue: Cell<Option<Overdue>>,
}

impl<R: Runtime> Default for Outbox<R> {
    fn default() -> Outbox<R> {
        Outbox(Vec::new())
    }
}

impl<R: Runtime> Outbox<R> {
    /// Adds a question to be sent. True for the first: then the caller has to send them.
    pub(super) fn push(&mut self, outgoing: Outgoing<R>) -> bool {
        self.0.push(outgoing);
        self.0.len() == 1
    }

    pub(super) fn take(&mut self) -> Vec<Outgoing<R>> {
        std::mem::take(&mut self.0)
    }
}

impl<R: Runtime> Sent<R> {
    /// To which resolver.
    pub(super) fn upstream(&self) -> usize {
        self.port.upstream
    }

    /// The answer is no longer awaited. False if it had arrived.
    pub(super) fn forget(self) -> bool {
        self.port.pending.borrow_mut().remove(&self.id).is_some()
    }

    /// The answer matters only for what it shows of the resolver.
    pub(super) fn await_late(&self) {
        self.port.pending.borrow_mut().insert(self.id, Awaits::Late);
    }
}

impl<R: Runtime> Ports<R> {
    pub(super) fn new(upstreams: &[SocketAddr]) -> Ports<R> {
        Ports {
            pools: upstreams.iter().map(|_| RefCell::default()).collect(),
            upstreams: upstreams.to_vec(),
            takes_many: Cell::new(true),
        }
    }

    #[cfg(test)]
    pub(super) fn takes_many(&self) -> bool {
        self.takes_many.get()
    }

    #[cfg(test)]
    pub(super) fn sends_one_by_one(&self) {
        self.takes_many.set(false);
    }
}

/// Sends questions: those to one resolver that are equally long over one socket, with one call.
pub(super) fn send<R: Runtime>(inner: &Rc<Inner<R>>, mut outgoing: Vec<Outgoing<R>>) {
    let now = R::now();
    outgoing.sort_by_key(|question| (question.upstream, question.payload.len()));
    let mut datagrams = Vec::new();
    for alike in outgoing.chunk_by(|a, b| (a.upstream, a.payload.len()) == (b.upstream, b.payload.len())) {
        // A question that another resolver answered meanwhile needs no datagram.
        let waits = |question: &&Outgoing<R>| question.pending.lookup.borrow().is_some();
        let mut left: Vec<&Outgoing<R>> = alike.iter().filter(waits).collect();
        while let Some(first) = left.first() {
            let Some(port) = port(inner, first.upstream, first.id, now) else {
                left.iter().for_each(|question| inner.unreachable(&question.pending, question.upstream, now));
                break;
            };
            let mut batch = Vec::with_capacity(left.len().min(SEGMENTS_MAX));
            // An id that is in use on this socket waits for the next one.
            left.retain(|question| {
                let fits = batch.len() < SEGMENTS_MAX && port.await_answer(question, now);
                if fits {
                    batch.push(*question);
                }
                !fits
            });
            send_over(inner, &port, &batch, &mut datagrams, now);
        }
    }
    // The questions that were not sent.
    for question in outgoing {
        if let Some(place) = question.place.take() {
            inner.give_back(question.upstream, place);
        }
    }
}

fn send_over<R: Runtime>(
    inner: &Rc<Inner<R>>,
    port: &Port<R>,
    batch: &[&Outgoing<R>],
    datagrams: &mut Vec<u8>,
    now: Instant,
) {
    port.uses.set(port.uses.get() + batch.len() as u32);
    let many = &inner.ports.takes_many;
    if let [first, _, ..] = batch
        && many.get()
    {
        datagrams.clear();
        batch.iter().for_each(|question| datagrams.extend_from_slice(&question.payload));
        match port.socket.send_all(datagrams, first.payload.len() as u16) {
            Ok(()) => return,
            // An ICMP error of an earlier datagram is reported by the next call, whatever it is.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            // This kernel or the way to the resolver is not made for it.
            Err(_) => many.set(false),
        }
    }
    for question in batch {
        if port.socket.send(&question.payload).is_err() {
            inner.unreachable(&question.pending, question.upstream, now);
        }
    }
}

/// A socket towards a resolver on which the id is free, at random; `None` when the kernel gives none.
fn port<R: Runtime>(inner: &Rc<Inner<R>>, upstream: usize, id: u16, now: Instant) -> Option<Rc<Port<R>>> {
    let mut pool = inner.ports.pools.get(upstream)?.borrow_mut();
    if pool.len() >= DNS_PORTS {
        let begin = inner.random.borrow_mut().random_range(0..pool.len());
        for step in 0..DNS_PORTS {
            let at = (begin + step) % pool.len();
            let port = &pool[at];
            let spent = port.uses.get() >= DNS_PORT_USES_MAX
                || now.saturating_duration_since(port.born) >= DNS_PORT_LIFE;
            if spent || port.retired.get() {
                port.retired.set(true);
                pool[at] = open(inner, upstream, now)?;
                return Some(Rc::clone(&pool[at]));
            }
            if !port.pending.borrow().contains_key(&id) {
                return Some(Rc::clone(port));
            }
        }
    }
    // Too few yet, or the id is in use on all of them.
    let port = open(inner, upstream, now)?;
    pool.push(Rc::clone(&port));
    Some(port)
}

fn open<R: Runtime>(inner: &Rc<Inner<R>>, upstream: usize, now: Instant) -> Option<Rc<Port<R>>> {
    let port = Rc::new(Port {
        socket: R::datagrams(inner.ports.upstreams[upstream]).ok()?,
        upstream,
        born: now,
        uses: Cell::new(0),
        retired: Cell::new(false),
        pending: RefCell::default(),
    });
    R::spawn(listen(Rc::downgrade(inner), Rc::clone(&port)));
    Some(port)
}

impl<R: Runtime> Port<R> {
    /// False when another question with its id waits here.
    fn await_answer(self: &Rc<Self>, question: &Outgoing<R>, now: Instant) -> bool {
        let mut pending = self.pending.borrow_mut();
        if pending.contains_key(&question.id) {
            return false;
        }
        pending.insert(question.id, Awaits::Lookup(Rc::clone(&question.pending)));
        question.pending.sent.borrow_mut().push(Sent {
            port: Rc::clone(self),
            id: question.id,
            at: now,
            overdue_at: question.overdue_at,
            is_first: question.is_first,
            place: Cell::new(question.place.take()),
            overdue: Cell::new(None),
        });
        true
    }

    /// ICMP reported an error, which may concern any question over this socket.
    fn refused(&self, inner: &Rc<Inner<R>>, now: Instant) {
        let lookup = |awaits: &Awaits<R>| match awaits {
            Awaits::Lookup(pending) => Some(Rc::clone(pending)),
            Awaits::Late => None,
        };
        let pending: Vec<_> = self.pending.borrow().values().filter_map(lookup).collect();
        pending.iter().for_each(|pending| inner.unreachable(pending, self.upstream, now));
    }

    /// Hands a datagram to whom it is for.
    fn deliver(self: &Rc<Self>, inner: &Rc<Inner<R>>, datagram: &[u8], now: Instant) {
        // The first two bytes are the id (RFC 1035 4.1.1); all else is checked by the lookup.
        let Some(id) = datagram.first_chunk().map(|id| u16::from_be_bytes(*id)) else { return };
        let pending = match self.pending.borrow().get(&id) {
            Some(Awaits::Lookup(pending)) => Some(Rc::clone(pending)),
            Some(Awaits::Late) => None,
            None => return,
        };
        let Some(pending) = pending else {
            self.pending.borrow_mut().remove(&id);
            return;
        };
        let heard = pending.show(|lookup| lookup.on_datagram(self.upstream, datagram, now));
        match heard {
            None | Some(Received::Nothing) => return,
            Some(heard) => self.note(inner, &pending, (id, heard), now),
        }
        inner.go_on(&pending, now);
        inner.pump(self.upstream, now);
    }

    /// The question with this id was answered.
    fn note(
        self: &Rc<Self>,
        inner: &Inner<R>,
        pending: &PendingLookup<R>,
        (id, heard): (u16, Received),
        now: Instant,
    ) {
        let mut all = pending.sent.borrow_mut();
        let Some(at) = all.iter().position(|sent| sent.id == id && Rc::ptr_eq(&sent.port, self)) else {
            return;
        };
        inner.on_heard(&all[at], heard, now);
        if heard != Received::Folded {
            all.swap_remove(at).forget();
        }
    }
}

/// When it is dropped, no task reads the socket any more, and another socket replaces it.
struct Listening<R: Runtime>(Rc<Port<R>>);

impl<R: Runtime> Drop for Listening<R> {
    fn drop(&mut self) {
        self.0.retired.set(true);
    }
}

/// Reads a socket and hands the answers to their lookups, until the socket is replaced and no lookup waits.
async fn listen<R: Runtime>(inner: Weak<Inner<R>>, port: Rc<Port<R>>) {
    let listening = Listening(port);
    let port = &listening.0;
    let mut buffer = Vec::new();
    let mut more = [0; DNS_DATAGRAM_BYTES];
    loop {
        buffer.clear();
        buffer.reserve(DNS_DATAGRAM_BYTES);
        let received = R::before(R::now() + PORT_TICK, port.socket.receive(buffer)).await;
        // The shard has ended, or this socket has.
        let Some(inner) = inner.upgrade() else { return };
        if port.retired.get() && port.pending.borrow().is_empty() {
            return;
        }
        let now = R::now();
        buffer = match received {
            None => Vec::new(),
            Some((Ok(_), datagram)) => {
                port.deliver(&inner, &datagram, now);
                for _ in 1..DNS_DATAGRAMS_A_TURN_MAX {
                    match port.socket.receive_now(&mut more) {
                        Ok(length) => port.deliver(&inner, &more[..length], now),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => {
                            port.refused(&inner, now);
                            break;
                        }
                    }
                }
                datagram
            }
            Some((Err(_), buffer)) => {
                port.refused(&inner, now);
                // An error that lasts must not keep this thread busy.
                R::sleep(DNS_PORT_ERROR_PAUSE).await;
                buffer
            }
        };
    }
}
