//! Periodic work that no request causes: the store removes expired data.

use crate::deletion::remove_rows;
use futures_lite::future::block_on;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::UnixMs;
use store_rules::Store;

/// The time between two purges.
const PERIOD: Duration = Duration::from_secs(60);

/// How often the thread checks whether a failure of the store has ended. Until then the server is not ready.
const LOOK: Duration = Duration::from_secs(5);

/// The most steps of one deletion of an account between two purges.
const DELETION_STEPS_MAX: usize = 200;

/// The pause between two parts of a long purge, in which requests can write.
const BREATH: Duration = Duration::from_millis(50);

/// The thread of periodic work, which ends on drop.
pub struct Housekeeping {
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeping {
    /// Starts the thread; the first purge is at once.
    ///
    /// # Errors
    ///
    /// The operating system has no thread for it.
    pub fn start(store: Arc<Store>, clock: fn() -> UnixMs) -> io::Result<Housekeeping> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("housekeeping".into())
            .spawn(move || keep(&store, clock, &stopped))?;
        Ok(Housekeeping { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic was logged at its source.
            let _ = thread.join();
        }
    }
}

fn keep(store: &Store, clock: fn() -> UnixMs, stopped: &Receiver<()>) {
    let mut pause = Duration::ZERO;
    let mut last = None;
    let mut told = None;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = LOOK;
        let is_due = last.is_none_or(|last: Instant| last.elapsed() >= PERIOD);
        if !is_due && store.health().is_ok() {
            continue;
        }
        match store.purge(clock()).wait() {
            Ok(purged) => {
                if purged.ended > 0 {
                    tracing::warn!(
                        batches = purged.ended,
                        "ended batches, with those of lists, that stayed unfinished"
                    );
                }
                told = None;
                if purged.more {
                    pause = BREATH;
                } else {
                    continue_deletions(store, clock, stopped);
                    last = Some(Instant::now());
                }
            }
            Err(error) => {
                last = Some(Instant::now());
                if told.as_ref() != Some(&error) {
                    if error.is_away() {
                        tracing::warn!("some expired data could not be removed: {error}");
                    } else {
                        tracing::error!("some expired data could not be removed: {error}");
                    }
                    told = Some(error);
                }
            }
        }
    }
}

/// Continues the deletions of accounts that a crash or a check under way has interrupted. Each takes a limited number of steps, so
/// that the next purge is not late.
fn continue_deletions(store: &Store, clock: fn() -> UnixMs, stopped: &Receiver<()>) {
    let closed = match store.closed_accounts().wait() {
        Ok(closed) => closed,
        Err(error) => return tracing::warn!("the deleted accounts could not be read: {error}"),
    };
    for account in closed {
        let mut steps = 0;
        let may_continue = || {
            steps += 1;
            steps <= DELETION_STEPS_MAX && stopped.try_recv() == Err(TryRecvError::Empty)
        };
        if let Err(error) = block_on(remove_rows(store, account, clock, may_continue)) {
            tracing::warn!("the deletion of an account could not be continued: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::PlanTable;
    use store_redb::StoreOptions;

    #[test]
    fn an_idle_server_destroys_keys_and_stops_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::default();
        let open = || store_redb::open(folder.path(), PlanTable::standard(), options, 1).unwrap().0;
        let keys = || std::fs::read_dir(folder.path().join(store_redb::KEY_FOLDER)).unwrap().count();
        drop(Housekeeping::start(open(), || 1).unwrap());
        let store = open();
        store.purge(1).wait().unwrap();
        let first = keys();
        assert!(first > 1, "{first}");
        let housekeeping = Housekeeping::start(Arc::clone(&store), || 60 * 24 * 60 * 60 * 1000).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let old = folder.path().join(store_redb::KEY_FOLDER).join("short-24");
        while old.exists() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(housekeeping);
        assert_eq!(keys(), first);
    }
}
