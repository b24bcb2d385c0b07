//! Limits the questions that are under way at each resolver. For each resolver there is one window ([`engine_proto::dns::window`]),
//! which all shards share. If the next message of a lookup does not fit into the window, the lookup waits here. The timeouts of a
//! lookup begin when its first message is sent, so a lookup loses no time while this message waits for room.

use super::ports::{self, Outgoing, Sent};
use super::tcp::converse;
use super::{Inner, PendingLookup};
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::runtime::Runtime;
use engine_proto::dns::lookup::{Lookup, Received, Transmit, Transport};
use engine_proto::dns::window::{Overdue, Place, Window};
use engine_proto::limits::DNS_LATE_ANSWER;
use futures_lite::future::yield_now;
use rand::RngExt;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// The lookups of a shard that wait for room in the window of a resolver.
pub(super) struct QuestionRoom<R: Runtime> {
    /// Number of questions of this shard that are under way at the resolver.
    own: Cell<u32>,
    /// Whether the window counts this shard among those that share it.
    joined: Cell<bool>,
    urgent: RefCell<VecDeque<Rc<PendingLookup<R>>>>,
    patient: RefCell<VecDeque<Rc<PendingLookup<R>>>>,
}

/// An overdue question of a lookup that has ended. The resolver has answered another message of the same lookup, so if no answer to
/// this question comes before `until`, the question counts as lost.
pub(super) struct Late<R: Runtime> {
    until: Instant,
    upstream: usize,
    sent: Sent<R>,
    overdue: Overdue,
}

impl<R: Runtime> Default for QuestionRoom<R> {
    fn default() -> QuestionRoom<R> {
        QuestionRoom {
            own: Cell::new(0),
            joined: Cell::new(false),
            urgent: RefCell::default(),
            patient: RefCell::default(),
        }
    }
}

impl<R: Runtime> QuestionRoom<R> {
    pub(super) fn waiting(&self) -> usize {
        self.urgent.borrow().len() + self.patient.borrow().len()
    }

    fn next(&self) -> Option<Rc<PendingLookup<R>>> {
        let urgent = self.urgent.borrow_mut().pop_front();
        urgent.or_else(|| self.patient.borrow_mut().pop_front())
    }

    fn queue(&self, pending: &PendingLookup<R>) -> &RefCell<VecDeque<Rc<PendingLookup<R>>>> {
        if pending.urgent.get() { &self.urgent } else { &self.patient }
    }
}

impl<R: Runtime> Inner<R> {
    fn window(&self, upstream: usize) -> &Window {
        &self.health.windows[upstream]
    }

    /// Takes a place in the window for the next message of a lookup. `None` if there is no room, or if equally urgent lookups are
    /// already waiting for room. The lookup is then in the queue of this resolver.
    pub(super) fn room_for(&self, pending: &Rc<PendingLookup<R>>, upstream: usize) -> Option<Place> {
        let room = &self.rooms[upstream];
        if !room.joined.replace(true) {
            self.window(upstream).join();
        }
        match pending.queued.get() {
            Some(before) if before == upstream => {
                let is_it = |waiting: &Rc<PendingLookup<R>>| Rc::ptr_eq(waiting, pending);
                holds(Invariant::LookupQueued, || room.queue(pending).borrow().iter().any(is_it));
                return None;
            }
            Some(before) => {
                let queue = self.rooms[before].queue(pending);
                queue.borrow_mut().retain(|waiting| !Rc::ptr_eq(waiting, pending));
                pending.queued.set(None);
            }
            None => {}
        }
        // A lookup must not overtake those that already wait in its queue.
        let is_first = room.queue(pending).borrow().is_empty();
        let place = if is_first { self.take(upstream) } else { None };
        if place.is_none() {
            pending.queued.set(Some(upstream));
            room.queue(pending).borrow_mut().push_back(Rc::clone(pending));
        }
        place
    }

    /// Makes a lookup of a batch or list urgent, because another kind of caller waits for its outcome now. If the lookup is queued,
    /// it moves to the end of the urgent queue.
    pub(super) fn make_urgent(&self, pending: &Rc<PendingLookup<R>>) {
        let waits_at =
            pending.queued.get().filter(|_| !pending.urgent.get()).map(|upstream| &self.rooms[upstream]);
        pending.urgent.set(true);
        if let Some(room) = waits_at {
            room.patient.borrow_mut().retain(|waiting| !Rc::ptr_eq(waiting, pending));
            room.urgent.borrow_mut().push_back(Rc::clone(pending));
        }
    }

    fn take(&self, upstream: usize) -> Option<Place> {
        let own = &self.rooms[upstream].own;
        let place = self.window(upstream).take(own.get())?;
        own.set(own.get() + 1);
        Some(place)
    }

    /// Sends the messages of the lookups that wait for this resolver, while there is room.
    pub(super) fn pump(self: &Rc<Self>, upstream: usize, now: Instant) {
        let room = &self.rooms[upstream];
        while room.waiting() > 0 {
            let Some(place) = self.take(upstream) else { return };
            let Some(pending) = room.next() else { return self.give_back(upstream, place) };
            if !planted(Fault::Break(Invariant::LookupQueued)) {
                pending.queued.set(None);
            }
            if pending.wants() == Some(upstream) {
                self.transmit(&pending, upstream, place, now);
            } else {
                // The lookup has nothing to send to this resolver any more, for example because an earlier message was answered
                // meanwhile.
                self.give_back(upstream, place);
            }
        }
        if room.own.get() == 0 && room.joined.replace(false) {
            self.window(upstream).leave();
        }
    }

    /// Calls [`Inner::pump`] for each resolver. While the resolvers count as silent, also ends the waiting lookups that have sent
    /// nothing yet, because probably no answer would come.
    pub(super) fn pump_all(self: &Rc<Self>, now: Instant) {
        for upstream in 0..self.rooms.len() {
            self.pump(upstream, now);
        }
        if !self.health.are_silent() {
            return;
        }
        let is_unsent = |lookup: &Lookup| !lookup.is_sent();
        for pending in self.all() {
            let waits = pending.queued.get().is_some();
            if waits && pending.lookup.borrow().as_ref().is_some_and(is_unsent) {
                pending.with_lookup(Lookup::abandon);
                self.go_on(&pending, now);
            }
        }
    }

    /// Sends the next message of a lookup. Over UDP, the place becomes free when the message is answered or overdue, or when the
    /// lookup ends. Over TCP, it becomes free when the connection brings an answer or fails.
    pub(super) fn transmit(
        self: &Rc<Self>,
        pending: &Rc<PendingLookup<R>>,
        upstream: usize,
        place: Place,
        now: Instant,
    ) {
        let timeout = self.window(upstream).timeout();
        let is_first = pending.lookup.borrow().as_ref().is_some_and(|lookup| !lookup.is_sent());
        let transmit = pending.with_lookup(|lookup| {
            lookup.poll_transmit(now, timeout, &mut || self.random.borrow_mut().random())
        });
        pending.answered_before.set(self.health.answered());
        match transmit.flatten() {
            Some(Transmit { transport: Transport::Udp, payload, id, .. }) => {
                let (pending, overdue_at) = (Rc::clone(pending), now + timeout);
                let place = Cell::new(Some(place));
                self.post(Outgoing { pending, upstream, id, payload, place, overdue_at, is_first });
            }
            Some(Transmit { payload, .. }) => {
                let deadline = pending.deadline().unwrap_or(now);
                let (inner, pending) = (Rc::clone(self), Rc::clone(pending));
                R::spawn(converse(inner, pending, (upstream, place), payload, deadline));
            }
            None => self.give_back(upstream, place),
        }
    }

    /// Puts a question into the outbox. If the outbox was empty, starts the task that sends it.
    fn post(self: &Rc<Self>, outgoing: Outgoing<R>) {
        let is_first = self.outbox.borrow_mut().push(outgoing);
        if is_first {
            let inner = Rc::clone(self);
            R::spawn(async move {
                // Lets the other tasks that are ready add their questions first. This is needed for glommio, which polls a new task
                // at once.
                yield_now().await;
                let outgoing = inner.outbox.borrow_mut().take();
                ports::send(&inner, outgoing);
            });
        }
    }

    fn freed(&self, upstream: usize) {
        let own = &self.rooms[upstream].own;
        own.set(own.get().saturating_sub(1));
    }

    pub(super) fn on_answer(&self, upstream: usize, place: Place) {
        self.freed(upstream);
        self.window(upstream).on_answer(place);
    }

    pub(super) fn on_refusal(&self, upstream: usize, place: Place) {
        self.freed(upstream);
        self.window(upstream).on_refusal(place);
    }

    pub(super) fn give_back(&self, upstream: usize, place: Place) {
        self.freed(upstream);
        self.window(upstream).give_back(place);
    }

    /// A UDP question was answered: frees its place. The round trip is measured only if the question was the first message of its
    /// lookup, and if the answer is not REFUSED and raises no suspicion of a forgery.
    pub(super) fn on_received(&self, sent: &Sent<R>, received: Received, now: Instant) {
        let upstream = sent.upstream();
        if sent.is_first && received == Received::Answer {
            self.window(upstream).on_round_trip(now.saturating_duration_since(sent.at));
        }
        sent.overdue.set(None);
        let Some(place) = sent.place.take() else { return };
        match received {
            Received::Refusal => self.on_refusal(upstream, place),
            _ => self.on_answer(upstream, place),
        }
    }

    /// Frees the places of those messages of a lookup that were not answered in time.
    pub(super) fn note_overdue(&self, pending: &PendingLookup<R>, now: Instant) {
        for sent in pending.sent.borrow().iter().filter(|sent| sent.overdue_at <= now) {
            if let Some(place) = sent.place.take() {
                self.freed(sent.upstream());
                sent.overdue.set(Some(self.window(sent.upstream()).on_timeout(place)));
            }
        }
    }

    /// Called when a lookup has ended: stops awaiting the answers to its messages. But if the resolver of an overdue message has
    /// answered another message of the lookup, a late answer is still awaited: it would show that the overdue message was not lost.
    pub(super) fn leave_tries(&self, pending: &PendingLookup<R>, lookup: &Lookup, now: Instant) {
        for sent in pending.sent.take() {
            let upstream = sent.upstream();
            if let Some(place) = sent.place.take() {
                self.give_back(upstream, place);
            }
            match sent.overdue.take() {
                Some(overdue) if lookup.has_answered(upstream) => {
                    sent.await_late();
                    self.late.borrow_mut().push_back(Late {
                        until: now + DNS_LATE_ANSWER,
                        upstream,
                        sent,
                        overdue,
                    });
                }
                _ => sent.forget(),
            }
        }
    }

    /// Counts overdue questions as lost if they were not answered within [`DNS_LATE_ANSWER`] after the end of their lookups.
    pub(super) fn note_lost(&self, now: Instant) {
        while let Some(late) = self.late.borrow_mut().pop_front_if(|late| late.until <= now) {
            if late.sent.forget_late() {
                self.window(late.upstream).on_loss(late.overdue);
            }
        }
    }
}
