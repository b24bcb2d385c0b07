//! The callers of reads and writes, and the longest time that they wait.
//!
//! A job waits in a queue, or in a group that was sent to a silent server, or until the result of its group is known. The
//! caller is answered in time wherever the job is, so the reply is shared with [`Deadlines`], which a task looks through.

use super::Waiting;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use store::StoreError;
use store_rules::task::AnyReply;

/// How long a caller waits for a database that is away. It is shorter than many failovers: the lock of a primary that died
/// usually ends after 20 s or more, and a caller of HTTP rather tries again.
pub const WAIT_MAX: Duration = Duration::from_secs(15);

/// What is known of a caller that waits.
struct Slot {
    reply: Arc<dyn AnyReply>,
    /// A write is in a group that may be committed. Otherwise it was not done.
    is_under_way: bool,
    /// The job is done also without its caller, as the end of a hold: [`StoreError::Away`] says so.
    is_tried_on: bool,
}

impl Slot {
    /// Answers a caller that has waited for too long.
    fn expire(&self, why: &str) {
        let may_be_done = self.is_under_way && !self.is_tried_on;
        let failure = if may_be_done { StoreError::Unknown } else { StoreError::Away };
        self.reply.refuse(failure(why.to_owned()));
    }
}

/// The caller of a job.
pub struct Caller {
    slot: Arc<Mutex<Slot>>,
    since: Instant,
    /// One of the jobs that wait, until this is dropped.
    _waiting: Waiting,
}

impl Caller {
    /// A caller from now on. With `is_tried_on`, the job is done also without its caller.
    pub fn new(
        (reply, is_tried_on): (Arc<dyn AnyReply>, bool),
        waiting: Waiting,
        deadlines: Option<&Deadlines>,
    ) -> Caller {
        let slot = Arc::new(Mutex::new(Slot { reply, is_under_way: false, is_tried_on }));
        let since = Instant::now();
        if let Some(deadlines) = deadlines {
            deadlines.add(since, Arc::downgrade(&slot));
        }
        Caller { slot, since, _waiting: waiting }
    }

    /// The job begins to run in a group. Returns whether its caller still waits.
    pub fn begin(&self) -> bool {
        let mut slot = lock(&self.slot);
        slot.is_under_way = !slot.reply.is_given();
        slot.is_under_way
    }

    /// The lane has the job back, with this failure. Answers a caller that has waited for too long; returns whether nobody
    /// waits any more.
    pub fn expire(&self, failure: &StoreError) -> bool {
        let mut slot = lock(&self.slot);
        slot.is_under_way = matches!(failure, StoreError::Unknown(_));
        if self.since.elapsed() >= WAIT_MAX
            && let StoreError::Unknown(why) | StoreError::Away(why) = failure
        {
            slot.expire(why);
        }
        slot.reply.is_given()
    }
}

/// Nothing panics while a slot is locked.
fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A caller and the instant of its call.
type Waiter = (Instant, Weak<Mutex<Slot>>);

/// The callers that wait, in the order of their calls.
#[derive(Default)]
pub struct Deadlines(Mutex<VecDeque<Waiter>>);

/// The number of callers that are looked at when one is added. It is more than one, so that the list becomes shorter again after
/// a job that took long.
const LOOKED_AT: usize = 3;

impl Deadlines {
    fn add(&self, since: Instant, caller: Weak<Mutex<Slot>>) {
        let mut waiters = lock(&self.0);
        for _ in 0..LOOKED_AT {
            let is_done =
                |waiter: &Waiter| waiter.1.upgrade().is_none_or(|slot| lock(&slot).reply.is_given());
            if waiters.pop_front_if(|waiter| is_done(waiter)).is_none() {
                break;
            }
        }
        waiters.push_back((since, caller));
    }

    /// Answers all callers whose time is over.
    pub fn expire(&self) {
        loop {
            let is_late = |waiter: &Waiter| waiter.0.elapsed() >= WAIT_MAX;
            let Some((_, caller)) = lock(&self.0).pop_front_if(|waiter| is_late(waiter)) else { return };
            if let Some(slot) = caller.upgrade() {
                lock(&slot).expire(&format!("no answer for {} s", WAIT_MAX.as_secs()));
            }
        }
    }
}
