//! How the feeder hears of new batches, and that it is time to go.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use store::OpenBatch;

/// Between the frontend threads and the feeder. A batch that is lost here is only late: the store has it, and the
/// next start takes it up.
#[derive(Default)]
pub struct NewBatches(Mutex<Arrivals>);

#[derive(Default)]
struct Arrivals {
    /// As many as are created until the feeder looks: a few words each.
    arrived: Vec<OpenBatch>,
    closed: bool,
    feeder: Option<Waker>,
}

impl NewBatches {
    /// A batch was created.
    pub fn enter(&self, batch: OpenBatch) {
        let mut state = self.lock();
        if !state.closed {
            state.arrived.push(batch);
        }
        wake(state);
    }

    /// It is time to go.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.arrived.clear();
        wake(state);
    }

    /// Whether it is time to go.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The batches that were created since it was last asked.
    pub fn take(&self) -> Vec<OpenBatch> {
        std::mem::take(&mut self.lock().arrived)
    }

    /// Ready when there is something to take, or it is time to go.
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
