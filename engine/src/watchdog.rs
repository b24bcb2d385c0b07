//! A thread that wakes shards that sleep although they have work.
//!
//! glommio 0.9.0 can sleep with runnable tasks, if its preempt timer fires between arming and running. A wake-up from another
//! thread ends that. With every runtime, the watchdog wakes each shard that has an overdue heartbeat, and logs when this begins.

use crate::StartError;
use crate::shared::{HEARTBEAT, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A heartbeat that is older than this is overdue.
const OVERDUE: Duration = Duration::from_secs(1);

pub(crate) fn start(shared: Arc<Shared>) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(move || {
            let mut watchdog = Watchdog::new(shared.shards.len());
            while !shared.stopping.load(Ordering::Relaxed) {
                // The stop of the engine unparks this thread, so it does not wait for the rest of the interval.
                std::thread::park_timeout(HEARTBEAT);
                watchdog.look(&shared, shared.age(Instant::now()));
            }
        })
        .map_err(|error| StartError(format!("a thread could not be started: {error}")))
}

/// What the watchdog remembers from one look to the next.
struct Watchdog {
    /// The age of the engine at the last look.
    last: Option<Duration>,
    /// For each shard, whether its heartbeat was overdue at the last look.
    overdue: Vec<bool>,
}

impl Watchdog {
    fn new(shards: usize) -> Watchdog {
        Watchdog { last: None, overdue: vec![false; shards] }
    }

    /// Checks the heartbeats of all shards. `now` is the age of the engine.
    fn look(&mut self, shared: &Shared, now: Duration) {
        let since = self.last.replace(now).map_or(HEARTBEAT, |last| now.saturating_sub(last));
        let age_max = heartbeat_age_max(since);
        for (index, (face, was)) in shared.shards.iter().zip(&mut self.overdue).enumerate() {
            let beat = face.heartbeat.load(Ordering::Relaxed);
            let late =
                beat != 0 && beat != u64::MAX && now.saturating_sub(Duration::from_millis(beat)) > age_max;
            if late {
                if !*was {
                    let waiting = face.inbox.len();
                    tracing::warn!(
                        shard = index,
                        waiting,
                        "a shard's heartbeat is overdue: the watchdog wakes the shard"
                    );
                }
                face.inbox.wake();
            }
            *was = late;
        }
    }
}

/// How old a heartbeat may be if the last look was `since` ago. If this thread has slept for longer than it should have, the whole
/// machine probably stood still (a paused virtual machine, a busy host), and the shards had no time either.
fn heartbeat_age_max(since: Duration) -> Duration {
    OVERDUE + since.saturating_sub(HEARTBEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_the_machine_stood_still_counts_for_no_shard() {
        assert_eq!(heartbeat_age_max(HEARTBEAT), OVERDUE);
        // A stop of the engine unparks the thread early.
        assert_eq!(heartbeat_age_max(Duration::ZERO), OVERDUE);
        // The last heartbeat was 200 ms before the stop of 30 s at most.
        let stop = Duration::from_secs(30);
        assert!(HEARTBEAT + stop < heartbeat_age_max(HEARTBEAT + stop));
        assert!(HEARTBEAT + stop > OVERDUE, "without this a paused machine gives a warning for each shard");
    }
}
