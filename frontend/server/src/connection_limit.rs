//! How many connections a thread has, which of them gives way when there is no place left, and the word that it is time
//! to go.
//!
//! For one thread and its tasks: nothing here is shared with other threads.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// See the module.
pub struct ConnectionLimit {
    places: usize,
    taken: Cell<usize>,
    next: Cell<u64>,
    draining: Cell<bool>,
    /// Places whose connections are idle, by the order in which they became so.
    idle: RefCell<BTreeMap<u64, u64>>,
    /// The place that was told to give way and has not yet.
    leaving: Cell<Option<u64>>,
    /// Who wants to know when it is time to go, by place.
    told: RefCell<HashMap<u64, Waker>>,
    /// Who waits until a place is free, or nothing is left to do.
    waiting: RefCell<Vec<Waker>>,
}

/// A connection's place; free again when dropped.
pub struct ConnectionPermit {
    limit: Rc<ConnectionLimit>,
    number: u64,
    /// Where it stands among the idle ones.
    idle: Cell<Option<u64>>,
    /// It was told to give way.
    gives_way: Cell<bool>,
}

/// Why a connection has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The server ends.
    Draining,
    /// Its place is wanted.
    GivesWay,
}

impl ConnectionLimit {
    /// A limit of so many connections.
    pub fn new(places: usize) -> Rc<ConnectionLimit> {
        Rc::new(ConnectionLimit {
            places,
            taken: Cell::new(0),
            next: Cell::new(0),
            draining: Cell::new(false),
            idle: RefCell::default(),
            leaving: Cell::new(None),
            told: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Waits for a free place. When there is none, the connection that is idle for longest gives way.
    pub async fn place(self: &Rc<ConnectionLimit>) -> ConnectionPermit {
        self.wait_until(|limit| limit.taken.get() < limit.places || limit.free_one()).await;
        self.taken.set(self.taken.get() + 1);
        ConnectionPermit {
            limit: Rc::clone(self),
            number: self.count_up(),
            idle: Cell::new(None),
            gives_way: Cell::new(false),
        }
    }

    /// Waits until every place is free.
    pub async fn empty(&self) {
        self.wait_until(|limit| limit.taken.get() == 0).await;
    }

    /// Tells everybody who has a place that it is time to go.
    pub fn drain(&self) {
        self.draining.set(true);
        for (_, waker) in self.told.take() {
            waker.wake();
        }
    }

    /// Tells the longest idle connection to go, one at a time. Says `false`: its place is not free yet.
    fn free_one(&self) -> bool {
        if self.leaving.get().is_none() {
            let longest = self.idle.borrow_mut().pop_first();
            if let Some((_, number)) = longest {
                self.leaving.set(Some(number));
                let waker = self.told.borrow_mut().remove(&number);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
        false
    }

    fn count_up(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn wake(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    async fn wait_until(&self, done: impl Fn(&ConnectionLimit) -> bool) {
        poll_fn(|cx| {
            if done(self) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl ConnectionPermit {
    /// Whether it is time to go, and why; if not, the task is woken when it is.
    pub fn close_reason(&self, cx: &mut Context<'_>) -> Option<CloseReason> {
        if self.limit.draining.get() {
            return Some(CloseReason::Draining);
        }
        if self.gives_way.get() || self.limit.leaving.get() == Some(self.number) {
            self.gives_way.set(true);
            return Some(CloseReason::GivesWay);
        }
        let mut told = self.limit.told.borrow_mut();
        match told.get_mut(&self.number) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                told.insert(self.number, cx.waker().clone());
            }
        }
        None
    }

    /// The connection waits for its next request.
    pub fn idle(&self) {
        if self.idle.get().is_none() {
            let order = self.limit.count_up();
            self.idle.set(Some(order));
            self.limit.idle.borrow_mut().insert(order, self.number);
            if self.limit.taken.get() >= self.limit.places {
                // Somebody may have found nobody idle.
                self.limit.wake();
            }
        }
    }

    /// The connection has a request again.
    pub fn busy(&self) {
        if let Some(order) = self.idle.take() {
            self.limit.idle.borrow_mut().remove(&order);
            if self.limit.leaving.get() == Some(self.number) {
                // It goes when this request is answered; until then another one has to.
                self.gives_way.set(true);
                self.limit.leaving.set(None);
                self.limit.wake();
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.busy();
        self.limit.taken.set(self.limit.taken.get() - 1);
        self.limit.told.borrow_mut().remove(&self.number);
        self.limit.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn places_are_counted() {
        let limit = ConnectionLimit::new(1);
        let Poll::Ready(first) = poll(pin!(limit.place())) else { panic!("no place") };
        let mut second = pin!(limit.place());
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(pin!(limit.empty())).is_pending());
        drop(first);
        assert!(poll(pin!(limit.empty())).is_ready());
        assert!(poll(second).is_ready());
    }

    #[test]
    fn draining_is_told_once_it_begins() {
        let limit = ConnectionLimit::new(1);
        let Poll::Ready(place) = poll(pin!(limit.place())) else { panic!("no place") };
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(place.close_reason(&mut cx), None);
        limit.drain();
        assert_eq!(place.close_reason(&mut cx), Some(CloseReason::Draining));
    }

    fn take(limit: &Rc<ConnectionLimit>) -> ConnectionPermit {
        let Poll::Ready(place) = poll(pin!(limit.place())) else { panic!("no place") };
        place
    }

    #[test]
    fn the_longest_idle_gives_way_and_no_other() {
        let limit = ConnectionLimit::new(3);
        let (first, second, third) = (take(&limit), take(&limit), take(&limit));
        let mut cx = Context::from_waker(Waker::noop());
        let mut told = || {
            [&first, &second, &third].map(|place| place.close_reason(&mut cx) == Some(CloseReason::GivesWay))
        };
        second.idle();
        first.idle();
        assert_eq!(told(), [false; 3], "while nobody wants its place, nobody has to go");
        let mut newcomer = pin!(limit.place());
        assert!(poll(newcomer.as_mut()).is_pending() && poll(newcomer.as_mut()).is_pending());
        assert_eq!(told(), [false, true, false]);
        // A request came at the same moment: it is answered, and the next one goes instead.
        second.busy();
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(told(), [true, true, false]);
        drop(first);
        assert!(poll(newcomer).is_ready());
        drop((second, third));
        assert!(limit.idle.borrow().is_empty() && limit.leaving.get().is_none());
    }

    #[test]
    fn who_becomes_idle_while_somebody_waits_gives_way() {
        let limit = ConnectionLimit::new(1);
        let place = take(&limit);
        let mut cx = Context::from_waker(Waker::noop());
        let mut newcomer = pin!(limit.place());
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(place.close_reason(&mut cx), None);
        place.idle();
        assert!(limit.waiting.borrow().is_empty(), "who waits was woken");
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(place.close_reason(&mut cx), Some(CloseReason::GivesWay));
        drop(place);
        assert!(poll(newcomer).is_ready());
    }
}
