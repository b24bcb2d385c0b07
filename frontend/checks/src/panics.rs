//! Handling of panics in tasks.
//!
//! A panic that leaves a task would end the executor, and with it every connection of the thread. So each task catches
//! its own panics. The message of a panic may contain its input, for example an address, so only its source position is
//! logged.

use futures_lite::FutureExt;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, set_hook};

/// The error of a task that panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

/// Runs a future and returns its panic as an error. A large future should be pinned by the caller: this one has the space of its
/// argument twice.
///
/// State that the future shares must be consistent after a panic: here it is changed by short calls that hold no borrow
/// across an await.
pub async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| {
        forget(payload);
        Panicked
    })
}

/// Leaks the payload of a panic, since dropping it may panic again.
pub fn forget(payload: Box<dyn Any + Send>) {
    std::mem::forget(payload);
}

/// Makes every later panic be logged by its source position alone.
pub fn log_panics() {
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%place, "a panic: the current request fails, and the server continues; report this bug");
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
