//! The end of a run by SIGINT or SIGTERM: the finished rows are written, and the user is told how to continue.
//!
//! The process then ends by the signal, as without this module: scripts see the same exit code.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// After this time the signal ends the process, even if a read of the list or a write still waits.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a run that ends waits for the replies that servers are about to give.
pub(super) const REPLY_TIME_MAX: Duration = Duration::from_secs(2);

/// Whether a signal ends the run. The loop over rows looks at it. Clones share the same signal.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<AtomicI32>);

impl StopSignal {
    /// Watches SIGINT and SIGTERM from now on. A second signal ends the process at once.
    ///
    /// # Errors
    /// The operating system has no thread or no handler for it.
    pub fn watch(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let stop = self.clone();
        let watch = move || {
            for signal in signals.forever() {
                if stop.0.swap(signal, Ordering::Relaxed) != 0 {
                    end_by(signal);
                }
                let late = move || {
                    thread::sleep(END_TIME_MAX);
                    end_by(signal);
                };
                if thread::Builder::new().name("end".into()).spawn(late).is_err() {
                    end_by(signal);
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
    }

    /// As if this signal had arrived.
    #[cfg(test)]
    pub(crate) fn arrive(&self, signal: i32) {
        self.0.store(signal, Ordering::Relaxed);
    }

    /// Whether a signal has arrived.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Ends the process by the signal that has arrived, if there is one.
    pub fn end(&self) {
        match self.0.load(Ordering::Relaxed) {
            0 => {}
            signal => end_by(signal),
        }
    }
}

fn end_by(signal: i32) {
    // It fails only for signals that have no default action.
    let _ = emulate_default_handler(signal);
}
