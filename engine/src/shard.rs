//! A shard: one thread with one runtime, and the data that only this thread uses.

use crate::Outage;
use crate::asking::Asking;
use crate::common::Common;
use crate::dispatch;
use crate::faults::{Fault, planted};
use crate::inbox::Inbox;
use crate::machine;
use crate::resolution::Resolution;
use crate::runtime::{Main, Runtime};
use crate::seed;
use crate::shared::{HEARTBEAT, Shared};
use crate::start_warnings;
use crate::verify;
use crate::work::Message;
use futures_lite::FutureExt;
use rand::RngExt;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shortest interval of the search for works (addresses in the engine) with a deadline that has passed. The search runs at a
/// heartbeat (every 200 ms), so the real interval is about 400 ms.
const SWEEP: Duration = Duration::from_millis(250);
/// Interval of the search for groups that have not been used for a while, and for results of walks that are too old. If groups take
/// too much memory, the interval is [`SWEEP`].
const FORGET: Duration = Duration::from_secs(2);
/// Interval of the timers by which a shard measures how late timers fire.
const LATE_TICK: Duration = Duration::from_millis(20);
/// The largest number of messages that are handled before the clock is read again: far less than a millisecond of work.
const MESSAGES_A_LOOK: usize = 32;
/// How long the shard looks for recalled works after a recall, or for waiting works after a client has begun to drain. A work that
/// was on its way from one queue to another at that moment arrives within this time.
const RECALL_LASTS: Duration = Duration::from_secs(5);

/// The state of a shard, in two halves: `resolution` for DNS, and `asking` for mail servers.
pub(crate) struct Shard<R: Runtime> {
    common: Rc<Common>,
    resolution: Rc<Resolution<R>>,
    asking: Rc<Asking>,
}

/// How many recalls the shard has noticed, and until when it looks for recalled works.
#[derive(Default)]
struct AnsweredRecalls {
    count: u64,
    until: Option<Instant>,
}

/// The main future of a shard's thread.
pub(crate) struct ShardMain {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
}

impl Main for ShardMain {
    async fn run<R: Runtime>(self) {
        let shard = Rc::new(Shard::<R>::new(&self.shared, self.index));
        #[cfg(feature = "sim")]
        {
            let (asking, resolution) = (Rc::downgrade(&shard.asking), Rc::downgrade(&shard.resolution));
            crate::census::watch(Box::new(move || match asking.upgrade() {
                Some(asking) => Some(asking.census()),
                None => (resolution.strong_count() > 0).then(Default::default),
            }));
        }
        let (kept, index) = (Rc::clone(&shard), self.index);
        R::spawn(async move { keep_up::<R, _>(|| housekeeping(Rc::clone(&kept), index)).await });
        if self.index == 0 {
            let (resolver, shared) = (shard.resolution.resolver.clone(), Arc::clone(&self.shared));
            let with_names = !shared.config.is_on_loopback();
            R::spawn(
                async move { start_warnings::warn_of_sources(&shared.pool, &resolver, with_names).await },
            );
            let (resolver, shared) = (shard.resolution.resolver.clone(), Arc::clone(&self.shared));
            R::spawn(
                async move { start_warnings::warn_of_silence(&resolver, &shared.config.resolvers).await },
            );
        }
        let face = &self.shared.shards[self.index];
        let handle = |message, now| {
            match message {
                Message::Resolve(work) => verify::resolve(&shard.resolution, work, now),
                Message::Probe(work, plan) => dispatch::receive::<R>(&shard.asking, work, &plan, now),
                Message::Inquire(inquiry) => verify::inquire(&shard.resolution, inquiry, now),
                Message::Stop => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        };
        keep_up::<R, _>(|| serve::<R, _>(&face.inbox, &handle)).await;
        shard.abandon();
        // Inquiries need no answer here, because an inquiry that is dropped sends its answer itself.
        while let Some(message) = face.inbox.try_pop() {
            if let Message::Resolve(work) | Message::Probe(work, _) = message {
                work.fail(Outage::Stopping);
            }
        }
        face.heartbeat.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Awaits a future that `begin` makes. If the future panics, awaits a new one, because the shard cannot work without it. The works
/// that the future had taken from a queue are dropped, and so answered.
async fn keep_up<R: Runtime, F: Future<Output = ()>>(begin: impl Fn() -> F) {
    while let Err(panic) = AssertUnwindSafe(begin()).catch_unwind().await {
        // Dropping the content of a panic may panic again.
        std::mem::forget(panic);
        R::on_panic();
    }
}

/// Passes the messages of an inbox to `handle`, until `handle` breaks off.
async fn serve<R: Runtime, T>(inbox: &Inbox<T>, handle: &impl Fn(T, Instant) -> ControlFlow<()>) {
    loop {
        let mut next = Some(inbox.pop().await);
        // The clock is read once for messages that have arrived together.
        let now = R::now();
        let mut left = MESSAGES_A_LOOK;
        while let Some(message) = next {
            if handle(message, now).is_break() {
                return;
            }
            left -= 1;
            next = if left > 0 { inbox.try_pop() } else { None };
        }
    }
}

/// Records the heartbeat, answers overdue works and drops unused state, until the shard ends.
async fn housekeeping<R: Runtime>(shard: Rc<Shard<R>>, index: usize) {
    let (mut swept, mut forgot, mut recalls) = (R::now(), R::now(), AnsweredRecalls::default());
    loop {
        let face = &shard.common.shared.shards[index];
        let now = R::now();
        let alive = shard.common.shared.age(now).as_millis() as u64;
        face.sessions.store(shard.asking.state().open, Ordering::Relaxed);
        face.queued.store(shard.asking.state().queued(), Ordering::Relaxed);
        face.answers.store(shard.asking.state().answers, Ordering::Relaxed);
        if let Some(busy) = machine::thread_time() {
            face.busy_us.store(busy.as_micros() as u64, Ordering::Relaxed);
        }
        // A shard that ended has set the heartbeat to `u64::MAX`, which must stay.
        if face.heartbeat.swap(alive, Ordering::Relaxed) == u64::MAX {
            face.heartbeat.store(u64::MAX, Ordering::Relaxed);
            return;
        }
        if now.saturating_duration_since(swept) >= SWEEP {
            swept = now;
            shard.sweep(swept, &mut recalls);
        }
        let pause = if shard.asking.state().has_too_many_groups { SWEEP } else { FORGET };
        if now.saturating_duration_since(forgot) >= pause {
            forgot = now;
            shard.forget(forgot);
        }
        rest(&shard, now + HEARTBEAT).await;
    }
}

/// Sleeps until a heartbeat. While single checks and rows share the thread, measures how late timers fire, and adapts the number of
/// sessions for rows.
async fn rest<R: Runtime>(shard: &Rc<Shard<R>>, until: Instant) {
    let asking = &shard.asking;
    let is_measured = {
        let state = asking.state();
        state.rows.is_limited() || state.rows.is_shared(R::now()) && !state.starved.is_empty()
    };
    if !is_measured {
        return R::sleep(until.saturating_duration_since(R::now())).await;
    }
    let (mut late, mut times) = (Duration::ZERO, 0);
    while R::now() < until {
        let due = R::now() + LATE_TICK;
        R::sleep(LATE_TICK).await;
        late += R::now().saturating_duration_since(due);
        times += 1;
    }
    {
        let state = &mut *asking.state();
        state.rows.adapt(late / times.max(1), state.open, R::now());
    }
    dispatch::wake_starved::<R>(asking);
}

impl<R: Runtime> Shard<R> {
    fn new(shared: &Arc<Shared>, index: usize) -> Shard<R> {
        let mut random = seed::rng();
        let selector = format!("x{:016x}", random.random::<u64>());
        let common = Rc::new(Common::new(Arc::clone(shared), random));
        Shard {
            resolution: Rc::new(Resolution::new(Rc::clone(&common), selector)),
            asking: Rc::new(Asking::new(Rc::clone(&common), index)),
            common,
        }
    }

    fn sweep(&self, now: Instant, recalls: &mut AnsweredRecalls) {
        if planted(Fault::AnswerLate) {
            return;
        }
        self.asking.answer_expired(now);
        verify::sweep(&self.resolution, now);
        self.common.begin_anew(now);
        self.common.answer_undoubted(now);
        self.answer_recalled(now, recalls);
        dispatch::begin_wanted::<R>(&self.asking, now);
    }

    /// After a client has recalled its requests, answers its works. After a client has begun to drain, answers those of its works
    /// that wait. The shard does so for [`RECALL_LASTS`].
    fn answer_recalled(&self, now: Instant, answered: &mut AnsweredRecalls) {
        let shared = &self.common.shared;
        let count = shared.recalls.load(Ordering::SeqCst);
        if count != answered.count {
            *answered = AnsweredRecalls { count, until: Some(now + RECALL_LASTS) };
        } else if answered.until.is_none_or(|until| until <= now) {
            return;
        }
        self.asking.answer_recalled(now);
        self.common.take_recalled().into_iter().for_each(|work| shared.give_up(work, now));
        verify::answer_recalled(&self.resolution, now);
    }

    fn forget(&self, now: Instant) {
        self.asking.forget(now);
        self.resolution.walks.borrow_mut().forget(now);
    }

    /// Answers all works and inquiries that wait, because the engine stops. The works of a session are answered when its task is
    /// dropped.
    fn abandon(&self) {
        self.asking.abandon();
        self.common.take_all().into_iter().for_each(|work| work.fail(Outage::Stopping));
        self.resolution.walks.borrow_mut().abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Driver, Monoio, run};
    use std::cell::RefCell;

    #[test]
    fn a_message_that_panics_does_not_end_the_shard() {
        let inbox = Inbox::new(8);
        (0..5).for_each(|message| inbox.push(message).expect("room"));
        let handled = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&handled);
        run(Driver::Epoll, async move {
            let handle = |message, _| {
                assert_ne!(message, 1, "planted");
                seen.borrow_mut().push(message);
                if message == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            keep_up::<Monoio, _>(|| serve::<Monoio, _>(&inbox, &handle)).await;
            assert_eq!(inbox.try_pop(), Some(4));
        })
        .expect("a runtime");
        assert_eq!(*handled.borrow(), [0, 2, 3]);
    }
}
