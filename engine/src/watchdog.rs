//! A thread that wakes shards that sleep although they have work.
//!
//! glommio 0.9.0 can sleep with runnable tasks, if its preempt timer fires between arming and running. A wake-up from another
//! thread ends that. The watchdog wakes every shard whose heartbeat is overdue, on each runtime, and logs it.

use crate::StartError;
use crate::shard::{HEARTBEAT, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A heartbeat that is later than this is overdue.
const OVERDUE: Duration = Duration::from_secs(1);

pub(crate) fn start(shared: Arc<Shared>) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(move || {
            let mut overdue = vec![false; shared.shards.len()];
            while !shared.stopping.load(Ordering::Relaxed) {
                // The stop of the engine unparks this thread, so it does not wait for the rest of the interval.
                std::thread::park_timeout(HEARTBEAT);
                look(&shared, &mut overdue);
            }
        })
        .map_err(|error| StartError(format!("a thread could not be started: {error}")))
}

fn look(shared: &Shared, overdue: &mut [bool]) {
    let now = shared.age(Instant::now()).as_millis() as u64;
    for (index, (face, was)) in shared.shards.iter().zip(overdue).enumerate() {
        let beat = face.heartbeat.load(Ordering::Relaxed);
        let late = beat != 0 && beat != u64::MAX && now.saturating_sub(beat) > OVERDUE.as_millis() as u64;
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
