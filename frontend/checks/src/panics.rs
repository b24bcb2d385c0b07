//! Panics stay in the task that had them.
//!
//! A panic that left a task would end the executor, and with it every connection of the thread. Its message may
//! quote what it choked on, an address perhaps, so only the place in the code is logged.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::pin::{Pin, pin};

/// A task panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

/// Runs a future; its panic is its outcome.
///
/// What it shares with others must stand a panic: shared state here is changed by short calls that hold no borrow
/// across an await.
pub async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| {
        let mut poll = || Pin::new(&mut future).poll(cx);
        match catch_unwind(AssertUnwindSafe(&mut poll)) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => {
                forget(payload);
                std::task::Poll::Ready(Err(Panicked))
            }
        }
    })
    .await
}

/// Drops the payload of a panic without dropping it: that can panic again.
pub fn forget(payload: Box<dyn Any + Send>) {
    std::mem::forget(payload);
}

/// From now on a panic is logged by its place alone.
pub fn log_panics() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%place, "a defect was met; the request in hand fails, the server goes on");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn run<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("pending"),
        }
    }

    #[test]
    fn a_panic_is_an_outcome() {
        assert_eq!(run(catch_panic(async { 1 })), Ok(1));
        assert_eq!(run(catch_panic(async { [1][std::hint::black_box(1)] })), Err(Panicked));
    }
}
