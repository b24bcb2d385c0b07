//! A thread that wakes shards that sleep although they have work to do.
//!
//! glommio 0.9.0 can fall asleep while tasks could run, if its preempt timer fires after it is armed and before the tasks run. A
//! wake-up from another thread ends this sleep. With every runtime, the watchdog wakes a shard with an overdue heartbeat again and
//! again, and logs the first time.

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
                // When the engine stops, it unparks this thread.
                std::thread::park_timeout(HEARTBEAT);
                watchdog.look(&shared, shared.age(Instant::now()));
            }
        })
        .map_err(|error| StartError(format!("a thread could not be started: {error}")))
}

/// What the watchdog remembers between two looks at the shards.
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

    /// Checks the heartbeats of all shards, and wakes the shards with an overdue one. `now` is the age of the engine.
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

/// How old a heartbeat may be if the last look was `since` ago. If this thread has slept for longer than [`HEARTBEAT`], probably
/// the whole machine stood still (a paused virtual machine, a busy host). Then the shards could not run either.
fn heartbeat_age_max(since: Duration) -> Duration {
    OVERDUE + since.saturating_sub(HEARTBEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_the_machine_stood_still_counts_for_no_shard() {
        assert_eq!(heartbeat_age_max(HEARTBEAT), OVERDUE);
        // When the engine stops, it unparks the thread early.
        assert_eq!(heartbeat_age_max(Duration::ZERO), OVERDUE);
        // The last heartbeat came at most 200 ms before the machine stood still for 30 s.
        let stop = Duration::from_secs(30);
        assert!(HEARTBEAT + stop < heartbeat_age_max(HEARTBEAT + stop));
        assert!(HEARTBEAT + stop > OVERDUE, "without this a paused machine gives a warning for each shard");
    }
}
