//! A limit on the connections of a thread: it selects the idle connection that closes for a new one, and announces the
//! drain.
//!
//! It belongs to one thread and its tasks, so it has no locks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The limit on the simultaneous connections of a thread.
pub struct ConnectionLimit {
    max: usize,
    open: Cell<usize>,
    next: Cell<u64>,
    draining: Cell<bool>,
    /// The permits of idle connections, by the order in which they became idle.
    idle: RefCell<BTreeMap<u64, u64>>,
    /// The permit that was asked to close and is not free yet.
    closing: Cell<Option<u64>>,
    /// The tasks to wake when their connection must close, by permit.
    close_wakers: RefCell<HashMap<u64, Waker>>,
    /// The tasks that wait until a permit is free, or until all are free.
    waiting: RefCell<Vec<Waker>>,
}

/// The permit of one connection, which is free again on drop.
pub struct ConnectionPermit {
    limit: Rc<ConnectionLimit>,
    number: u64,
    /// Its position among the idle connections.
    idle: Cell<Option<u64>>,
    /// The connection was asked to close.
    evicted: Cell<bool>,
}

/// The reason why a connection must close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The server is draining and accepts nothing new.
    Draining,
    /// A new connection needs the permit.
    Evicted,
}

impl ConnectionLimit {
    /// A limit of `max` simultaneous connections.
    pub fn new(max: usize) -> Rc<ConnectionLimit> {
        Rc::new(ConnectionLimit {
            max,
            open: Cell::new(0),
            next: Cell::new(0),
            draining: Cell::new(false),
            idle: RefCell::default(),
            closing: Cell::new(None),
            close_wakers: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Waits for a free permit. If there is none, the connection that has been idle for longest must close.
    pub async fn acquire(self: &Rc<ConnectionLimit>) -> ConnectionPermit {
        self.wait_until(|limit| limit.open.get() < limit.max || limit.evict_one()).await;
        self.open.set(self.open.get() + 1);
        ConnectionPermit {
            limit: Rc::clone(self),
            number: self.count_up(),
            idle: Cell::new(None),
            evicted: Cell::new(false),
        }
    }

    /// Waits until every permit is free.
    pub async fn empty(&self) {
        self.wait_until(|limit| limit.open.get() == 0).await;
    }

    /// Announces the end of the server to all connections.
    pub fn drain(&self) {
        self.draining.set(true);
        for (_, waker) in self.close_wakers.take() {
            waker.wake();
        }
    }

    /// Asks the longest idle connection to close, one at a time. Returns `false`, since its permit is not free yet.
    fn evict_one(&self) -> bool {
        if self.closing.get().is_none() {
            let longest = self.idle.borrow_mut().pop_first();
            if let Some((_, number)) = longest {
                self.closing.set(Some(number));
                let waker = self.close_wakers.borrow_mut().remove(&number);
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
    /// Whether the server is draining, so that the connection takes no further request.
    pub fn is_draining(&self) -> bool {
        self.limit.draining.get()
    }

    /// The reason why this connection must close; `None` wakes the task when there is one.
    pub fn close_reason(&self, cx: &mut Context<'_>) -> Option<CloseReason> {
        if self.limit.draining.get() {
            return Some(CloseReason::Draining);
        }
        if self.evicted.get() || self.limit.closing.get() == Some(self.number) {
            self.evicted.set(true);
            return Some(CloseReason::Evicted);
        }
        let mut wakers = self.limit.close_wakers.borrow_mut();
        match wakers.get_mut(&self.number) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                wakers.insert(self.number, cx.waker().clone());
            }
        }
        None
    }

    /// Notes that the connection waits for its next request.
    pub fn set_idle(&self) {
        if self.idle.get().is_none() {
            let order = self.limit.count_up();
            self.idle.set(Some(order));
            self.limit.idle.borrow_mut().insert(order, self.number);
            if self.limit.open.get() >= self.limit.max {
                // A task may wait because no connection was idle.
                self.limit.wake();
            }
        }
    }

    /// Notes that the connection has a request again.
    pub fn set_busy(&self) {
        if let Some(order) = self.idle.take() {
            self.limit.idle.borrow_mut().remove(&order);
            if self.limit.closing.get() == Some(self.number) {
                // This connection closes after the answer; until then another one must close.
                self.evicted.set(true);
                self.limit.closing.set(None);
                self.limit.wake();
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.set_busy();
        self.limit.open.set(self.limit.open.get() - 1);
        self.limit.close_wakers.borrow_mut().remove(&self.number);
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
    fn permits_are_counted() {
        let limit = ConnectionLimit::new(1);
        let Poll::Ready(first) = poll(pin!(limit.acquire())) else { panic!("no permit") };
        let mut second = pin!(limit.acquire());
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(pin!(limit.empty())).is_pending());
        drop(first);
        assert!(poll(pin!(limit.empty())).is_ready());
        assert!(poll(second).is_ready());
    }

    #[test]
    fn draining_closes_every_connection() {
        let limit = ConnectionLimit::new(1);
        let Poll::Ready(permit) = poll(pin!(limit.acquire())) else { panic!("no permit") };
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(permit.close_reason(&mut cx), None);
        limit.drain();
        assert_eq!(permit.close_reason(&mut cx), Some(CloseReason::Draining));
    }

    fn take(limit: &Rc<ConnectionLimit>) -> ConnectionPermit {
        let Poll::Ready(permit) = poll(pin!(limit.acquire())) else { panic!("no permit") };
        permit
    }

    #[test]
    fn only_the_longest_idle_is_evicted() {
        let limit = ConnectionLimit::new(3);
        let (first, second, third) = (take(&limit), take(&limit), take(&limit));
        let mut cx = Context::from_waker(Waker::noop());
        let mut evicted = || {
            [&first, &second, &third].map(|permit| permit.close_reason(&mut cx) == Some(CloseReason::Evicted))
        };
        second.set_idle();
        first.set_idle();
        assert_eq!(evicted(), [false; 3], "no connection closes while no permit is wanted");
        let mut newcomer = pin!(limit.acquire());
        assert!(poll(newcomer.as_mut()).is_pending() && poll(newcomer.as_mut()).is_pending());
        assert_eq!(evicted(), [false, true, false]);
        // A request came at the same moment. It is answered, and another connection closes instead.
        second.set_busy();
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(evicted(), [true, true, false]);
        drop(first);
        assert!(poll(newcomer).is_ready());
        drop((second, third));
        assert!(limit.idle.borrow().is_empty() && limit.closing.get().is_none());
    }

    #[test]
    fn a_connection_that_becomes_idle_while_another_waits_is_evicted() {
        let limit = ConnectionLimit::new(1);
        let permit = take(&limit);
        let mut cx = Context::from_waker(Waker::noop());
        let mut newcomer = pin!(limit.acquire());
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(permit.close_reason(&mut cx), None);
        permit.set_idle();
        assert!(limit.waiting.borrow().is_empty(), "the waiting task was woken");
        assert!(poll(newcomer.as_mut()).is_pending());
        assert_eq!(permit.close_reason(&mut cx), Some(CloseReason::Evicted));
        drop(permit);
        assert!(poll(newcomer).is_ready());
    }
}
