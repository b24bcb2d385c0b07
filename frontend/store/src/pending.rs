//! The answer to a read or a write: a future for any executor, which can also be waited for by a thread.
//!
//! A store that reads from its own memory or disk answers a read at once, without an allocation. For a write, the writer thread creates a [`Reply`] and its [`Pending`] with [`pending`]; it wakes the waiting task from its own
//! thread. A reply that is dropped without an answer (the writer has ended) resolves to [`StoreError::Closed`], so no
//! task waits without end.

use super::StoreError;
use futures_channel::oneshot;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The result of a read, or of a write after it is durable.
#[must_use = "the outcome is not known until this is awaited or waited for"]
pub struct Pending<T, E>(State<T, E>);

enum State<T, E> {
    /// The outcome is known; `None` after it was taken.
    Ready(Option<Result<T, E>>),
    /// Another thread sends the outcome.
    Waiting(oneshot::Receiver<Result<T, E>>),
}

/// No reference into it is handed out, so it can be moved at any time.
impl<T, E> Unpin for Pending<T, E> {}

/// The writer's end, which must be answered once.
pub struct Reply<T, E>(oneshot::Sender<Result<T, E>>);

/// Creates the two ends of a write's answer.
pub fn pending<T, E>() -> (Reply<T, E>, Pending<T, E>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Pending(State::Waiting(receiver)))
}

impl<T, E: From<StoreError>> Pending<T, E> {
    /// An answer with a known result.
    pub fn ready(outcome: Result<T, E>) -> Pending<T, E> {
        Pending(State::Ready(Some(outcome)))
    }

    /// The answer of a read that this thread makes now.
    pub fn of(read: impl FnOnce() -> Result<T, E>) -> Pending<T, E> {
        Pending::ready(read())
    }

    /// The answer of a call that can fail before it is queued.
    pub fn begin(call: impl FnOnce() -> Result<Pending<T, E>, E>) -> Pending<T, E> {
        call().unwrap_or_else(|error| Pending::ready(Err(error)))
    }

    /// Blocks the thread until the read is answered, or the write is durable or refused. It must not run on the thread of an
    /// executor.
    ///
    /// # Errors
    ///
    /// The error of the read or write.
    pub fn wait(self) -> Result<T, E> {
        match self.0 {
            State::Ready(Some(outcome)) => outcome,
            State::Ready(None) => Err(StoreError::Closed.into()),
            State::Waiting(receiver) => futures_lite::future::block_on(receiver)
                .unwrap_or_else(|oneshot::Canceled| Err(StoreError::Closed.into())),
        }
    }
}

/// The future is ready once. Polled afterwards, it is [`StoreError::Closed`] or never ready again.
impl<T, E: From<StoreError>> Future for Pending<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        match &mut self.0 {
            State::Ready(outcome) => {
                Poll::Ready(outcome.take().unwrap_or_else(|| Err(StoreError::Closed.into())))
            }
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(cx)
                .map(|answer| answer.unwrap_or_else(|oneshot::Canceled| Err(StoreError::Closed.into()))),
        }
    }
}

impl<T, E> Reply<T, E> {
    /// Hands the outcome over and wakes the waiting task.
    pub fn answer(self, outcome: Result<T, E>) {
        // The outcome comes back if nobody waits for it any longer.
        let _ = self.0.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_answered_from_another_thread() {
        let (reply, mut future) = pending::<u8, StoreError>();
        let polled = futures_lite::future::block_on(futures_lite::future::poll_once(&mut future));
        assert!(polled.is_none());
        let other = std::thread::spawn(move || futures_lite::future::block_on(future));
        std::thread::spawn(move || reply.answer(Ok(7))).join().unwrap();
        assert!(matches!(other.join().unwrap(), Ok(7)));
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
