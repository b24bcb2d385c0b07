//! The announcement of new batches and of the shutdown to the feeder.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use store::OpenBatch;

/// A channel from the frontend threads to the feeder. If an announcement is lost, its batch is only late: it is in the
/// store, and the next start continues it.
#[derive(Default)]
pub struct NewBatches(Mutex<Arrivals>);

#[derive(Default)]
struct Arrivals {
    /// The announcements since the feeder's last turn; each has a few words.
    arrived: Vec<OpenBatch>,
    closed: bool,
    feeder: Option<Waker>,
}

impl NewBatches {
    /// Announces a new batch to the feeder.
    pub fn enter(&self, batch: OpenBatch) {
        let mut state = self.lock();
        if !state.closed {
            state.arrived.push(batch);
        }
        wake(state);
    }

    /// Announces the shutdown of the server.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.arrived.clear();
        wake(state);
    }

    /// Whether the shutdown was announced.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes the batches that were announced since the last call.
    pub fn take(&self) -> Vec<OpenBatch> {
        std::mem::take(&mut self.lock().arrived)
    }

    /// Ready if there is a batch to take, or after the shutdown was announced.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.closed || !state.arrived.is_empty() {
            return Poll::Ready(());
        }
        state.feeder = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut state: MutexGuard<'_, Arrivals>) {
    let feeder = state.feeder.take();
    drop(state);
    if let Some(feeder) = feeder {
        feeder.wake();
    }
}
