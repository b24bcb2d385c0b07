//! One check at a time for an account and an address, over all threads.
//!
//! The first request makes the check, and the others wait until it has ended. Then they look up its result or get its
//! error. A second attempt right after a failure would fail in the same way, and each request would wait for the full
//! time.

use crate::CheckError;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use store::{AccountId, AddressHash};

/// The account and the address of a check.
pub type Key = (AccountId, AddressHash);

/// The checks under way on all threads.
#[derive(Default)]
pub struct SharedChecks(Mutex<HashMap<Key, Arc<Outcome>>>);

/// The result of joining a check.
pub enum Joined {
    /// There is no such check, so the caller makes it.
    First(SharedCheck),
    /// There is such a check. The wait ends with its error, or with `None`, after which the caller looks up the result.
    Waits(Waiting),
}

/// A check under way, which ends on drop.
pub struct SharedCheck {
    shared_checks: Arc<SharedChecks>,
    key: Key,
    outcome: Arc<Outcome>,
}

/// A wait for the check of another request.
pub struct Waiting(Arc<Outcome>);

#[derive(Default)]
struct Outcome(Mutex<OutcomeState>);

#[derive(Default)]
struct OutcomeState {
    ended: bool,
    error: Option<CheckError>,
    waiting: Vec<Waker>,
}

impl SharedChecks {
    /// Joins the check of this address, or starts it.
    pub fn join(self: &Arc<SharedChecks>, key: Key) -> Joined {
        let mut shared_checks = self.lock();
        if let Some(outcome) = shared_checks.get(&key) {
            return Joined::Waits(Waiting(Arc::clone(outcome)));
        }
        let outcome = Arc::<Outcome>::default();
        shared_checks.insert(key, Arc::clone(&outcome));
        Joined::First(SharedCheck { shared_checks: Arc::clone(self), key, outcome })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Outcome>>> {
        // The map is consistent after a panic of a lock's holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedCheck {
    /// Ends with an error, which all waiting requests get.
    pub fn fail(self, error: &CheckError) {
        self.outcome.lock().error = Some(error.clone());
    }
}

impl Drop for SharedCheck {
    fn drop(&mut self) {
        // The entry is removed first, so that later requests do not wait for a check that has ended.
        self.shared_checks.lock().remove(&self.key);
        let waiting = {
            let mut state = self.outcome.lock();
            state.ended = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Outcome {
    fn lock(&self) -> MutexGuard<'_, OutcomeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Waiting {
    type Output = Option<CheckError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CheckError>> {
        let mut state = self.0.lock();
        if state.ended {
            return Poll::Ready(state.error.clone());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
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

    fn key(account: u128, address: u8) -> Key {
        (AccountId::new(1, account), AddressHash([address; 16]))
    }

    fn first(shared_checks: &Arc<SharedChecks>, key: Key) -> SharedCheck {
        match shared_checks.join(key) {
            Joined::First(shared_check) => shared_check,
            Joined::Waits(_) => panic!("somebody checks already"),
        }
    }

    fn behind(shared_checks: &Arc<SharedChecks>, key: Key) -> Waiting {
        match shared_checks.join(key) {
            Joined::First(_) => panic!("nobody checks"),
            Joined::Waits(waiting) => waiting,
        }
    }

    #[test]
    fn all_wait_for_the_first_and_are_woken_from_another_thread() {
        let shared_checks = Arc::<SharedChecks>::default();
        let shared_check = first(&shared_checks, key(1, 1));
        drop((first(&shared_checks, key(1, 2)), first(&shared_checks, key(2, 1))));
        let (mut one, mut other) = (behind(&shared_checks, key(1, 1)), behind(&shared_checks, key(1, 1)));
        let woken = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(Pin::new(&mut one).poll(&mut cx).is_pending());
        }
        assert!(Pin::new(&mut other).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::spawn(move || drop(shared_check)).join().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(matches!(Pin::new(&mut one).poll(&mut cx), Poll::Ready(None)));
        assert!(matches!(Pin::new(&mut other).poll(&mut cx), Poll::Ready(None)));
        drop(first(&shared_checks, key(1, 1)));
        assert!(shared_checks.lock().is_empty());
    }

    #[test]
    fn an_error_is_everybody_s() {
        let shared_checks = Arc::<SharedChecks>::default();
        let shared_check = first(&shared_checks, key(1, 1));
        let mut waiting = behind(&shared_checks, key(1, 1));
        shared_check.fail(&CheckError::TimedOut);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut waiting).poll(&mut cx), Poll::Ready(Some(CheckError::TimedOut)));
        drop(first(&shared_checks, key(1, 1)));
    }
}
