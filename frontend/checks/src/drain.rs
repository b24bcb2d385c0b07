//! A counter of charged work that a drain must wait for, even if the caller has gone.
//!
//! It belongs to one thread and its tasks, so it has no locks.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A counter of work under way.
#[derive(Default)]
pub struct Drain {
    under_way: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// A unit of work that a drain waits for; it ends on drop.
pub struct DrainGuard {
    drain: Rc<Drain>,
}

impl Drain {
    /// Counts a new unit of work.
    pub fn guard(self: &Rc<Drain>) -> DrainGuard {
        self.under_way.set(self.under_way.get() + 1);
        DrainGuard { drain: Rc::clone(self) }
    }

    /// Waits until no work is under way.
    pub async fn done(&self) {
        poll_fn(|cx| {
            if self.under_way.get() == 0 {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        self.drain.under_way.set(self.drain.under_way.get() - 1);
        for waker in self.drain.waiting.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn a_drain_waits_for_all_work() {
        let drain = Rc::new(Drain::default());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(drain.done()).poll(&mut cx).is_ready());
        let (one, other) = (drain.guard(), drain.guard());
        let mut done = pin!(drain.done());
        assert!(done.as_mut().poll(&mut cx).is_pending());
        drop(one);
        assert!(done.as_mut().poll(&mut cx).is_pending());
        drop(other);
        assert!(done.as_mut().poll(&mut cx).is_ready());
    }
}
