//! The answer to a write that is on its way: a future for any executor, or something to block on.
//!
//! The writer thread makes a [`Reply`] and its [`Pending`] with [`pending`]; it wakes whoever waits from its own
//! thread. A reply that is dropped unanswered (the writer is gone) resolves to [`StoreError::Closed`], so nobody
//! ever waits for nothing.

use super::StoreError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a write will have brought once it is durable.
#[must_use = "the write's outcome is not known until this is awaited or waited for"]
pub struct Pending<T, E> {
    slot: Arc<PendingSlot<T, E>>,
}

/// The writer's end.
pub struct Reply<T, E: From<StoreError>> {
    /// Empty once answered.
    slot: Option<Arc<PendingSlot<T, E>>>,
}

struct PendingSlot<T, E> {
    state: Mutex<State<T, E>>,
    answered: Condvar,
}

struct State<T, E> {
    outcome: Option<Result<T, E>>,
    waker: Option<Waker>,
}

/// A write's two ends.
pub fn pending<T, E: From<StoreError>>() -> (Reply<T, E>, Pending<T, E>) {
    let slot = Arc::new(PendingSlot::new(None));
    (Reply { slot: Some(Arc::clone(&slot)) }, Pending { slot })
}

impl<T, E> PendingSlot<T, E> {
    fn new(outcome: Option<Result<T, E>>) -> PendingSlot<T, E> {
        PendingSlot { state: Mutex::new(State { outcome, waker: None }), answered: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        // Nothing that can panic runs under this lock, but a waker's clone is foreign code.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, E> Pending<T, E> {
    /// An outcome that is known already.
    pub fn ready(outcome: Result<T, E>) -> Pending<T, E> {
        Pending { slot: Arc::new(PendingSlot::new(Some(outcome))) }
    }

    /// Blocks the thread until the write is durable or refused. Not for the thread of an executor.
    ///
    /// # Errors
    /// The write's own.
    pub fn wait(self) -> Result<T, E> {
        let mut state = self.slot.lock();
        loop {
            match state.outcome.take() {
                Some(outcome) => return outcome,
                None => state = self.slot.answered.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Ready once; a future that was ready must not be polled again (it would stay pending for ever).
impl<T, E> Future for Pending<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        let mut state = self.slot.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl<T, E: From<StoreError>> Reply<T, E> {
    /// Hands the outcome over and wakes whoever waits.
    pub fn answer(mut self, outcome: Result<T, E>) {
        self.put(outcome);
    }

    fn put(&mut self, outcome: Result<T, E>) {
        let Some(slot) = self.slot.take() else { return };
        let waker = {
            let mut state = slot.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        slot.answered.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T, E: From<StoreError>> Drop for Reply<T, E> {
    fn drop(&mut self) {
        self.put(Err(E::from(StoreError::Closed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll<T, E>(future: &mut Pending<T, E>, waker: &Arc<Count>) -> Poll<Result<T, E>> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
    }

    #[test]
    fn a_future_is_woken_from_another_thread() {
        let (reply, mut future) = pending::<u8, StoreError>();
        let woken = Arc::new(Count::default());
        assert!(poll(&mut future, &woken).is_pending());
        assert!(poll(&mut future, &woken).is_pending());
        std::thread::spawn(move || reply.answer(Ok(7))).join().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(matches!(poll(&mut future, &woken), Poll::Ready(Ok(7))));
    }

    #[test]
    fn the_last_waker_counts() {
        let (reply, mut future) = pending::<u8, StoreError>();
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        assert!(poll(&mut future, &first).is_pending());
        assert!(poll(&mut future, &second).is_pending());
        reply.answer(Ok(1));
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    }

    #[test]
    fn waiting_blocks_until_the_answer() {
        let (reply, waiting) = pending::<u8, StoreError>();
        let other = std::thread::spawn(move || waiting.wait());
        reply.answer(Ok(3));
        assert!(matches!(other.join().unwrap(), Ok(3)));
    }

    #[test]
    fn a_dropped_reply_is_an_error_and_a_dropped_future_harms_nobody() {
        let (reply, waiting) = pending::<u8, StoreError>();
        drop(reply);
        assert!(matches!(waiting.wait(), Err(StoreError::Closed)));

        let (reply, waiting) = pending::<u8, StoreError>();
        drop(waiting);
        reply.answer(Ok(1));
    }

    #[test]
    fn a_known_outcome_is_ready() {
        assert!(matches!(Pending::<u8, StoreError>::ready(Ok(9)).wait(), Ok(9)));
    }
}
