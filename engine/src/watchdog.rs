//! A thread that sees to it that no shard sleeps while it has work.
//!
//! glommio 0.9.0 can go to sleep with runnable tasks queued, when its preempt timer fires between arming and
//! running; a wake-up from another thread ends that. The watchdog wakes every shard whose heartbeat is overdue, on
//! either runtime, and says so.

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
                // Whoever stops the engine unparks it: nobody waits for the rest of a beat.
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
                tracing::warn!(shard = index, waiting, "a shard's heartbeat is overdue: it is woken");
            }
            face.inbox.wake();
        }
        *was = late;
    }
}
