//! How many connections a thread has, and the word that it is time to go.
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
    live: Cell<usize>,
    next: Cell<u64>,
    draining: Cell<bool>,
    /// Who wants to know of the draining, by place.
    told: RefCell<HashMap<u64, Waker>>,
    /// Who waits until a place is free or all are.
    waiting: RefCell<Vec<Waker>>,
}

/// A place; free again when dropped.
pub struct Place {
    gate: Rc<Gate>,
    number: u64,
}

impl Gate {
    /// A gate with so many places.
    pub fn new(places: usize) -> Rc<Gate> {
        Rc::new(Gate {
            places,
            live: Cell::new(0),
            next: Cell::new(0),
            draining: Cell::new(false),
            told: RefCell::default(),
            waiting: RefCell::default(),
        })
    }

    /// Waits for a free place.
    pub async fn place(self: &Rc<Gate>) -> Place {
        self.wait_until(|gate| gate.live.get() < gate.places).await;
        self.take()
    }

    /// Takes a place whether one is free or not: for work that was promised and has to be waited for.
    pub fn take(self: &Rc<Gate>) -> Place {
        self.live.set(self.live.get() + 1);
        let number = self.next.replace(self.next.get() + 1);
        Place { gate: Rc::clone(self), number }
    }

    /// Waits until every place is free.
    pub async fn empty(&self) {
        self.wait_until(|gate| gate.live.get() == 0).await;
    }

    /// Tells everybody who has a place that it is time to go.
    pub fn drain(&self) {
        self.draining.set(true);
        for (_, waker) in self.told.take() {
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
        self.gate.live.set(self.gate.live.get() - 1);
        self.gate.told.borrow_mut().remove(&self.number);
        for waker in self.gate.waiting.take() {
            waker.wake();
        }
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
        drop(first);
        assert!(poll(pin!(gate.empty())).is_ready());
        assert!(poll(second).is_ready());
    }

    #[test]
    fn draining_is_told_once_it_begins() {
        let gate = Gate::new(1);
        let place = gate.take();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!place.draining(&mut cx));
        gate.drain();
        assert!(place.draining(&mut cx));
    }
}
