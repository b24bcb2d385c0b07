//! One check at a time for an account and an address, over all threads.
//!
//! Whoever comes first flies; the others wait until the flight has landed. Then they look up what it has brought, or
//! get its error: what failed a moment ago would fail again, and each of them would wait its time out anew.

use crate::CheckError;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use store::{AccountId, AddressHash};

/// What a flight is about.
pub type Key = (AccountId, AddressHash);

/// The checks under way.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<Key, Arc<Landing>>>);

/// The outcome of asking for a seat.
pub enum Seat {
    /// Nobody asks about the address: the caller does.
    First(Flight),
    /// Somebody does already: the outcome is an error, or nothing, when it is worth to look again.
    Behind(Waiting),
}

/// A check under way; over when it is dropped, whichever way it ended.
pub struct Flight {
    flights: Arc<Flights>,
    key: Key,
    landing: Arc<Landing>,
}

/// Somebody else's check under way.
pub struct Waiting(Arc<Landing>);

#[derive(Default)]
struct Landing(Mutex<State>);

#[derive(Default)]
struct State {
    landed: bool,
    error: Option<CheckError>,
    waiting: Vec<Waker>,
}

impl Flights {
    /// Takes a seat.
    pub fn board(self: &Arc<Flights>, key: Key) -> Seat {
        let mut flights = self.lock();
        if let Some(landing) = flights.get(&key) {
            return Seat::Behind(Waiting(Arc::clone(landing)));
        }
        let landing = Arc::<Landing>::default();
        flights.insert(key, Arc::clone(&landing));
        Seat::First(Flight { flights: Arc::clone(self), key, landing })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Landing>>> {
        // A map is whole after a panic of whoever held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Lands with an error: everybody who waits gets the same.
    pub fn fail(self, error: &CheckError) {
        self.landing.lock().error = Some(error.clone());
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // First out of the map: who comes from now on does not wait for a flight that is over.
        self.flights.lock().remove(&self.key);
        let waiting = {
            let mut state = self.landing.lock();
            state.landed = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Landing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Waiting {
    type Output = Option<CheckError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CheckError>> {
        let mut state = self.0.lock();
        if state.landed {
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

    fn first(flights: &Arc<Flights>, key: Key) -> Flight {
        match flights.board(key) {
            Seat::First(flight) => flight,
            Seat::Behind(_) => panic!("somebody flies already"),
        }
    }

    fn behind(flights: &Arc<Flights>, key: Key) -> Waiting {
        match flights.board(key) {
            Seat::First(_) => panic!("nobody flies"),
            Seat::Behind(waiting) => waiting,
        }
    }

    #[test]
    fn all_wait_for_the_first_and_are_woken_from_another_thread() {
        let flights = Arc::<Flights>::default();
        let flight = first(&flights, key(1, 1));
        drop((first(&flights, key(1, 2)), first(&flights, key(2, 1))));
        let (mut one, mut other) = (behind(&flights, key(1, 1)), behind(&flights, key(1, 1)));
        let woken = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(Pin::new(&mut one).poll(&mut cx).is_pending());
        }
        assert!(Pin::new(&mut other).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::spawn(move || drop(flight)).join().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(matches!(Pin::new(&mut one).poll(&mut cx), Poll::Ready(None)));
        assert!(matches!(Pin::new(&mut other).poll(&mut cx), Poll::Ready(None)));
        drop(first(&flights, key(1, 1)));
        assert!(flights.lock().is_empty());
    }

    #[test]
    fn an_error_is_everybody_s() {
        let flights = Arc::<Flights>::default();
        let flight = first(&flights, key(1, 1));
        let mut waiting = behind(&flights, key(1, 1));
        flight.fail(&CheckError::TimedOut);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut waiting).poll(&mut cx), Poll::Ready(Some(CheckError::TimedOut)));
        drop(first(&flights, key(1, 1)));
    }
}
