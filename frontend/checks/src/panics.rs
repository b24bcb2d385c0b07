//! Panics of tasks.
//!
//! A panic that leaves a task ends the executor, and with it every connection of the thread. So each task catches its own. The
//! message of a panic may quote its input, for example an address, so only the place in the code is logged.

use futures_lite::FutureExt;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, set_hook};

/// A task panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

/// Runs a future; its panic is its outcome.
///
/// What it shares with others must stand a panic: shared state here is changed by short calls that hold no borrow
/// across an await.
pub async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| {
        forget(payload);
        Panicked
    })
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
    use std::pin::pin;
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
