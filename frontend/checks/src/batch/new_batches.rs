//! The announcement of new and cancelled batches and of the shutdown to the feeder.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use store::{BatchId, OpenBatch};

/// A channel from the frontend threads to the feeder. If an announcement is lost, its batch is only late: it is in the
/// store, and the next start continues it.
#[derive(Default)]
pub struct NewBatches(Mutex<Arrivals>);

#[derive(Default)]
struct Arrivals {
    /// The announcements since the feeder's last turn.
    news: News,
    closed: bool,
    feeder: Option<Waker>,
}

/// Announcements; each has a few words.
#[derive(Default)]
pub struct News {
    /// New batches.
    pub arrived: Vec<OpenBatch>,
    /// Batches that have ended before all their rows had answers.
    pub cancelled: Vec<BatchId>,
}

impl NewBatches {
    /// Announces a new batch to the feeder.
    pub fn enter(&self, batch: OpenBatch) {
        let mut state = self.lock();
        if !state.closed {
            state.news.arrived.push(batch);
        }
        wake(state);
    }

    /// Announces batches that have ended before all their rows had answers. If the announcement is lost, their rows are asked about
    /// in vain.
    pub fn cancel(&self, batches: impl IntoIterator<Item = BatchId>) {
        let mut state = self.lock();
        if !state.closed {
            state.news.cancelled.extend(batches);
        }
        wake(state);
    }

    /// Announces the shutdown of the server.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.news = News::default();
        wake(state);
    }

    /// Whether the shutdown was announced.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes what was announced since the last call.
    pub fn take(&self) -> News {
        std::mem::take(&mut self.lock().news)
    }

    /// Ready if there is an announcement to take, or after the shutdown was announced.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.closed || !state.news.arrived.is_empty() || !state.news.cancelled.is_empty() {
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
