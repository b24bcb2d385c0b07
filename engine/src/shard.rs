//! A shard: one thread with one runtime, and the data that only this thread uses.

use crate::Outage;
use crate::asking::Asking;
use crate::common::Common;
use crate::dispatch;
use crate::faults::{Fault, planted};
use crate::machine;
use crate::resolution::Resolution;
use crate::runtime::{Main, Runtime};
use crate::seed;
use crate::shared::{HEARTBEAT, Shared};
use crate::start_warnings;
use crate::verify;
use crate::work::Message;
use rand::RngExt;
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
        R::spawn(housekeeping(Rc::clone(&shard), self.index));
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
        'serving: loop {
            let mut next = Some(face.inbox.pop().await);
            // The clock is read once for messages that have arrived together.
            let now = R::now();
            let mut left = MESSAGES_A_LOOK;
            while let Some(message) = next {
                match message {
                    Message::Resolve(work) => verify::resolve(&shard.resolution, work, now),
                    Message::Probe(work, plan) => dispatch::receive::<R>(&shard.asking, work, &plan, now),
                    Message::Inquire(inquiry) => verify::inquire(&shard.resolution, inquiry, now),
                    Message::Stop => break 'serving,
                }
                left -= 1;
                next = if left > 0 { face.inbox.try_pop() } else { None };
            }
        }
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
        // The end of the shard has set the heartbeat to its last value, which must stay.
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
        R::sleep(HEARTBEAT).await;
    }
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
