//! The announcement of new and cancelled batches and of the shutdown to the feeder, and what the feeder tells the pages of batches.

use std::collections::{HashMap, HashSet};
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
    /// The rules by which sites refuse us, by the batches whose rows wait because of it.
    refusals: HashMap<BatchId, &'static str>,
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

    /// Rows of this batch wait for the budget of a site that refuses us by this rule.
    pub fn note_refusal(&self, batch: BatchId, rule: &'static str) {
        self.lock().refusals.insert(batch, rule);
    }

    /// Removes the notes about batches that are not among these.
    pub fn keep_refusals(&self, open: &[BatchId]) {
        let mut state = self.lock();
        if !state.refusals.is_empty() {
            let open: HashSet<&BatchId> = open.iter().collect();
            state.refusals.retain(|batch, _| open.contains(batch));
        }
    }

    /// The rule by which a site refuses us, if rows of one of these batches wait because of it. Only the node that works on a batch
    /// knows it, and not after a restart: this only explains a wait.
    pub fn refusal_of_us(&self, batches: &[BatchId]) -> Option<&'static str> {
        let state = self.lock();
        batches.iter().find_map(|batch| state.refusals.get(batch).copied())
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
