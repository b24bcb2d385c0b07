//! How many connections a thread has, what it has promised to finish, and the word that it is time to go.
//!
//! For one thread and its tasks: nothing here is shared with other threads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// See the module.
pub struct Gate {
    places: usize,
    taken: Cell<usize>,
    promises: Cell<usize>,
    next: Cell<u64>,
    draining: Cell<bool>,
    /// Who wants to know of the draining, by place.
    told: RefCell<HashMap<u64, Waker>>,
    /// Who waits until a place is free, or nothing is left to do.
    waiting: RefCell<Vec<Waker>>,
}

/// A connection's place; free again when dropped.
pub struct Place {
    gate: Rc<Gate>,
    number: u64,
}

/// Work that a drain waits for, whether its caller is there or not; done when dropped.
pub struct Promise {
    gate: Rc<Gate>,
}

impl Gate {
    /// A gate with so many places.
    pub fn new(places: usize) -> Rc<Gate> {
        Rc::new(Gate {
            places,
            taken: Cell::new(0),
            promises: Cell::new(0),
            next: Cell::new(0),
            draining: Cell::new(false),
            told: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Waits for a free place.
    pub async fn place(self: &Rc<Gate>) -> Place {
        self.wait_until(|gate| gate.taken.get() < gate.places).await;
        self.taken.set(self.taken.get() + 1);
        let number = self.next.replace(self.next.get() + 1);
        Place { gate: Rc::clone(self), number }
    }

    /// Promises to finish something. Needs no place: its connection has one, or had.
    pub fn promise(self: &Rc<Gate>) -> Promise {
        self.promises.set(self.promises.get() + 1);
        Promise { gate: Rc::clone(self) }
    }

    /// Waits until every place is free and every promise kept.
    pub async fn empty(&self) {
        self.wait_until(|gate| gate.taken.get() == 0 && gate.promises.get() == 0).await;
    }

    /// Tells everybody who has a place that it is time to go.
    pub fn drain(&self) {
        self.draining.set(true);
        for (_, waker) in self.told.take() {
            waker.wake();
        }
    }

    fn wake(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    async fn wait_until(&self, done: impl Fn(&Gate) -> bool) {
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

impl Place {
    /// Whether it is time to go; if not, the task is woken when it is.
    pub fn draining(&self, cx: &mut Context<'_>) -> bool {
        if self.gate.draining.get() {
            return true;
        }
        let mut told = self.gate.told.borrow_mut();
        match told.get_mut(&self.number) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                told.insert(self.number, cx.waker().clone());
            }
        }
        false
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.taken.set(self.gate.taken.get() - 1);
        self.gate.told.borrow_mut().remove(&self.number);
        self.gate.wake();
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.gate.promises.set(self.gate.promises.get() - 1);
        self.gate.wake();
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
        let gate = Gate::new(1);
        let Poll::Ready(first) = poll(pin!(gate.place())) else { panic!("no place") };
        let mut second = pin!(gate.place());
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(pin!(gate.empty())).is_pending());
        let promise = gate.promise();
        drop(first);
        assert!(poll(pin!(gate.empty())).is_pending());
        drop(promise);
        assert!(poll(pin!(gate.empty())).is_ready());
        assert!(poll(second).is_ready());
    }

    #[test]
    fn draining_is_told_once_it_begins() {
        let gate = Gate::new(1);
        let Poll::Ready(place) = poll(pin!(gate.place())) else { panic!("no place") };
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!place.draining(&mut cx));
        gate.drain();
        assert!(place.draining(&mut cx));
    }
}
