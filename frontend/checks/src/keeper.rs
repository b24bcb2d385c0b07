//! A thread that repeats a function until it is dropped, and then calls it once more.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running thread that calls a function periodically.
pub struct Keeper {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts a thread with this name that calls `work` after each `period`.
    ///
    /// # Errors
    ///
    /// The operating system has no thread for it.
    pub fn start(name: &str, period: Duration, work: impl FnMut() + Send + 'static) -> io::Result<Keeper> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = std::thread::Builder::new().name(name.into()).spawn({
            let end = Arc::clone(&end);
            move || keep(&end, period, work)
        })?;
        Ok(Keeper { end, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was logged when it happened. At most the work of the last seconds is lost.
            let _ = thread.join();
        }
    }
}

fn keep(end: &(Mutex<bool>, Condvar), period: Duration, mut work: impl FnMut()) {
    loop {
        let ended = end.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = end.1.wait_timeout_while(ended, period, |ended| !*ended);
        let ended = *waited.unwrap_or_else(PoisonError::into_inner).0;
        work();
        if ended {
            return;
        }
    }
}
