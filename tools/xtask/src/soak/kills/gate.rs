//! When the clients may send requests: while the server runs. Between its end and the comparison after the next start they wait, so
//! that no request is under way and every record is up to date.

use crate::interop::process::interrupted;
use crate::soak::crowd::lock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The campaign is over for a client: it leaves undone what it has begun.
#[derive(Debug)]
pub struct Over;

/// The result of a client's work, unless the campaign is over for the client.
pub type ClientResult<T = ()> = Result<T, Over>;

/// The gate that all clients pass before each request.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

/// The state of the server from the clients' view.
#[derive(Debug, Default, Clone, Copy)]
pub struct GateState {
    /// The number of the server's life.
    pub life: u32,
    is_open: bool,
    /// The signal is about to be sent: from now on answers may be missing.
    pub is_ending: bool,
    /// Clients start nothing new, and must have finished at this time.
    pub finish_by: Option<Instant>,
    is_over: bool,
    /// The number of clients that have not ended and do not wait at the gate.
    active: usize,
}

/// A client that has not ended until this is dropped.
pub struct RegisteredClient<'g>(&'g Gate);

/// Ends the work of all clients when it is dropped.
pub struct EndOfClients<'g>(pub &'g Gate);

impl GateState {
    /// Whether clients start nothing new.
    pub fn is_finishing(&self) -> bool {
        self.finish_by.is_some()
    }
}

impl Gate {
    /// The state at this moment.
    pub fn now(&self) -> GateState {
        *lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    fn wait_while<'g>(
        &self,
        state: MutexGuard<'g, GateState>,
        condition: impl Fn(&GateState) -> bool,
    ) -> MutexGuard<'g, GateState> {
        let state = self.changed.wait_while(state, |state| condition(state));
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares for new clients, which find the gate closed.
    pub fn reset(&self) {
        self.change(|state| *state = GateState::default());
    }

    /// Counts a client that is about to start.
    pub fn register(&self) -> RegisteredClient<'_> {
        self.change(|state| state.active += 1);
        RegisteredClient(self)
    }

    /// A life of the server begins.
    pub fn open(&self, life: u32) {
        self.change(|state| (state.life, state.is_open, state.is_ending) = (life, true, false));
    }

    /// The server is about to be ended.
    pub fn set_ending(&self) {
        self.change(|state| state.is_ending = true);
    }

    /// Closes the gate, and waits until no client is active.
    pub fn close(&self) {
        self.change(|state| state.is_open = false);
        drop(self.wait_while(lock(&self.state), |state| state.active > 0));
    }

    /// The last life begins, in which clients finish what they have begun.
    pub fn finish(&self, life: u32, limit: Duration) {
        self.change(|state| state.finish_by = Some(Instant::now() + limit));
        self.open(life);
    }

    /// Ends the work of all clients.
    pub fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    /// Waits until a server runs, and returns the number of its life.
    pub fn pass(&self) -> ClientResult<u32> {
        let mut state = lock(&self.state);
        if !state.is_open {
            state.active -= 1;
            self.changed.notify_all();
            state = self.wait_while(state, |state| !state.is_open && !state.is_over);
            state.active += 1;
        }
        if state.is_over || interrupted().is_err() { Err(Over) } else { Ok(state.life) }
    }
}

impl Drop for RegisteredClient<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.active -= 1);
    }
}

impl Drop for EndOfClients<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
