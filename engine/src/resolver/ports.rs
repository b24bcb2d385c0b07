//! The UDP sockets for the questions to the resolvers.
//!
//! Many questions share a socket, and a socket is replaced after a while. Each socket has a random port and is connected to one
//! resolver, so the kernel drops datagrams from elsewhere. The id in a datagram tells which question on the socket the datagram
//! answers. A forger has to guess the port and the id (RFC 5452), and which letters of the name are capitals.
//!
//! Questions that become ready at about the same time are sent together. Where the kernel can do it, questions to the same resolver
//! that have equal length share system calls, because one call for each question would take most of the processor time of a lookup.

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

/// How long the task of a socket waits for a datagram before it checks whether the socket has been replaced.
const PORT_TICK: Duration = Duration::from_secs(5);

pub(super) struct Ports<R: Runtime> {
    pools: Vec<RefCell<Vec<Rc<Port<R>>>>>,
    upstreams: Vec<SocketAddr>,
    /// Whether one call may send several datagrams. It becomes false when the kernel refuses such a call.
    takes_many: Cell<bool>,
}

struct Port<R: Runtime> {
    socket: R::Datagrams,
    upstream: usize,
    born: Instant,
    uses: Cell<u32>,
    retired: Cell<bool>,
    /// The message ids for which an answer is awaited, each with the receiver of the answer.
    pending: RefCell<HashMap<u16, Awaits<R>>>,
}

/// The receiver of an answer.
enum Awaits<R: Runtime> {
    Lookup(Rc<PendingLookup<R>>),
    /// The lookup has ended. The answer only shows that the question was not lost.
    Late,
}

pub(super) struct Outgoing<R: Runtime> {
    pub(super) pending: Rc<PendingLookup<R>>,
    pub(super) upstream: usize,
    pub(super) id: u16,
    pub(super) payload: Vec<u8>,
    /// The question's place in the window of the resolver. When the question is sent, [`Sent`] takes over the place.
    pub(super) place: Cell<Option<Place>>,
    /// When the answer is overdue. Then the place in the window becomes free.
    pub(super) overdue_at: Instant,
    /// Whether this is the first message of its lookup.
    pub(super) is_first: bool,
}

/// The questions that are sent together, once the other tasks that are ready have run.
pub(super) struct Outbox<R: Runtime>(Vec<Outgoing<R>>);

/// A UDP question that was sent. The answer comes to the socket in `port`, with the id `id`.
pub(super) struct Sent<R: Runtime> {
    port: Rc<Port<R>>,
    id: u16,
    pub(super) at: Instant,
    pub(super) overdue_at: Instant,
    pub(super) is_first: bool,
    /// The question's place in the window of the resolver, until the question is answered or overdue.
    pub(super) place: Cell<Option<Place>>,
    /// Set while the question is overdue. The window needs this value if the question turns out to be lost.
    pub(super) overdue: Cell<Option<Overdue>>,
}

impl<R: Runtime> Default for Outbox<R> {
    fn default() -> Outbox<R> {
        Outbox(Vec::new())
    }
}

impl<R: Runtime> Outbox<R> {
    /// Adds a question. Returns true if it is the first one: the caller then has to start the task that sends the outbox.
    pub(super) fn push(&mut self, outgoing: Outgoing<R>) -> bool {
        self.0.push(outgoing);
        self.0.len() == 1
    }

    pub(super) fn take(&mut self) -> Vec<Outgoing<R>> {
        std::mem::take(&mut self.0)
    }
}

impl<R: Runtime> Sent<R> {
    pub(super) fn upstream(&self) -> usize {
        self.port.upstream
    }

    /// Stops awaiting the answer.
    pub(super) fn forget(self) {
        self.port.pending.borrow_mut().remove(&self.id);
    }

    /// Stops awaiting the late answer. Returns false if it has already arrived. Since then, a new question may have got the same
    /// id; then its entry stays.
    pub(super) fn forget_late(self) -> bool {
        let mut pending = self.port.pending.borrow_mut();
        let is_awaited = matches!(pending.get(&self.id), Some(Awaits::Late));
        if is_awaited {
            pending.remove(&self.id);
        }
        is_awaited
    }

    /// The lookup has ended, but the answer is still awaited, to learn whether the question was lost.
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

/// Sends questions. Up to [`SEGMENTS_MAX`] questions to the same resolver that have equal length share a socket and, if the kernel
/// can do this, one system call.
pub(super) fn send<R: Runtime>(inner: &Rc<Inner<R>>, mut outgoing: Vec<Outgoing<R>>) {
    let now = R::now();
    outgoing.sort_by_key(|question| (question.upstream, question.payload.len()));
    let mut datagrams = Vec::new();
    for alike in outgoing.chunk_by(|a, b| (a.upstream, a.payload.len()) == (b.upstream, b.payload.len())) {
        // If a lookup has ended meanwhile, its question is not sent.
        let waits = |question: &&Outgoing<R>| question.pending.lookup.borrow().is_some();
        let mut left: Vec<&Outgoing<R>> = alike.iter().filter(waits).collect();
        while let Some(first) = left.first() {
            let Some(port) = port(inner, first.upstream, first.id, now) else {
                left.iter().for_each(|question| inner.unreachable(&question.pending, question.upstream, now));
                break;
            };
            let mut batch = Vec::with_capacity(left.len().min(SEGMENTS_MAX));
            // If the id of a question is already in use on this socket, the question is left for another socket.
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
            // This error may come from an ICMP message about an earlier datagram, because the kernel reports that at the next call.
            // So it does not show that the kernel refuses such calls.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            // The kernel or the network device cannot send several datagrams with one call.
            Err(_) => many.set(false),
        }
    }
    for question in batch {
        if port.socket.send(&question.payload).is_err() {
            inner.unreachable(&question.pending, question.upstream, now);
        }
    }
}

/// Returns a socket that is connected to this resolver and on which the id is not in use. While there are fewer than [`DNS_PORTS`]
/// sockets, this is a new one. Otherwise the search begins at a random socket, and a socket that has been used for long enough is
/// replaced by a new one. `None` if a new socket is needed and the kernel opens none.
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
    // There are fewer than [`DNS_PORTS`] sockets, or the id is in use on each socket that the loop looked at.
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
    /// Registers a question that is about to be sent over this socket, so that its answer is awaited. Returns false if its id is
    /// already in use on this socket; then the question must not be sent over it.
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

    /// The socket reported an error. It may concern any question that was sent over this socket, so it counts for all of them.
    fn refused(&self, inner: &Rc<Inner<R>>, now: Instant) {
        let lookup = |awaits: &Awaits<R>| match awaits {
            Awaits::Lookup(pending) => Some(Rc::clone(pending)),
            Awaits::Late => None,
        };
        let pending: Vec<_> = self.pending.borrow().values().filter_map(lookup).collect();
        pending.iter().for_each(|pending| inner.unreachable(pending, self.upstream, now));
    }

    /// Hands a datagram to the lookup that awaits an answer with the id of the datagram.
    fn deliver(self: &Rc<Self>, inner: &Rc<Inner<R>>, datagram: &[u8], now: Instant) {
        // The first two bytes are the id (RFC 1035 4.1.1). The lookup checks everything else.
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
        let received = pending.with_lookup(|lookup| lookup.on_datagram(self.upstream, datagram, now));
        match received {
            None | Some(Received::Nothing) => return,
            Some(received) => self.note(inner, &pending, (id, received), now),
        }
        inner.go_on(&pending, now);
        inner.pump(self.upstream, now);
    }

    /// Records that the question with this id was answered. If the answer may be forged ([`Received::CaseChanged`]), a further
    /// answer is still awaited, because the genuine one may follow.
    fn note(
        self: &Rc<Self>,
        inner: &Inner<R>,
        pending: &PendingLookup<R>,
        (id, received): (u16, Received),
        now: Instant,
    ) {
        let mut all = pending.sent.borrow_mut();
        let Some(at) = all.iter().position(|sent| sent.id == id && Rc::ptr_eq(&sent.port, self)) else {
            return;
        };
        inner.on_received(&all[at], received, now);
        if received != Received::CaseChanged {
            all.swap_remove(at).forget();
        }
    }
}

/// Marks a socket as retired when its task ends, even by a panic, so that another socket replaces it.
struct Listening<R: Runtime>(Rc<Port<R>>);

impl<R: Runtime> Drop for Listening<R> {
    fn drop(&mut self) {
        self.0.retired.set(true);
    }
}

/// Reads a socket and hands the answers to their lookups. Ends with the shard, or once the socket has been replaced and no answer
/// is awaited on it.
async fn listen<R: Runtime>(inner: Weak<Inner<R>>, port: Rc<Port<R>>) {
    let listening = Listening(port);
    let port = &listening.0;
    let mut buffer = Vec::new();
    let mut more = [0; DNS_DATAGRAM_BYTES];
    loop {
        buffer.clear();
        buffer.reserve(DNS_DATAGRAM_BYTES);
        let received = R::before(R::now() + PORT_TICK, port.socket.receive(buffer)).await;
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
