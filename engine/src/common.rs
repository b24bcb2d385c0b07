//! The state that both halves of a shard use: the half that resolves domains (`resolution.rs`), and the half that asks mail servers
//! (`asking.rs`).

use crate::invariants::{Invariant, holds};
use crate::shared::Shared;
use crate::work::{Message, Work};
use engine_proto::retry::{SINGLE_RETRY_MIN, SINGLE_RETRY_SPREAD};
use rand::RngExt;
use rand::rngs::StdRng;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    state: RefCell<CommonState>,
}

struct CommonState {
    /// Works that wait for another try, with the time of that try.
    later: Vec<(Instant, Work)>,
    /// Works that have been given up, and whose answers depend on whether there is an outage ([`Shared::is_in_doubt`]).
    in_doubt: Vec<Work>,
    /// Whether a request has ever asked for a trace. Until then, sessions and DNS walks record none.
    wants_traces: bool,
    random: StdRng,
}

impl Common {
    pub(crate) fn new(shared: Arc<Shared>, random: StdRng) -> Common {
        let state = CommonState { later: Vec::new(), in_doubt: Vec::new(), wants_traces: false, random };
        Common { shared, state: RefCell::new(state) }
    }

    pub(crate) fn random(&self) -> u64 {
        self.state.borrow_mut().random.random()
    }

    /// Remembers if a work that has come to the shard wants a trace.
    pub(crate) fn on_work(&self, work: &Work) {
        if work.trace.is_some() {
            self.state.borrow_mut().wants_traces = true;
        }
    }

    /// Whether any request has asked for a trace so far.
    pub(crate) fn wants_traces(&self) -> bool {
        self.state.borrow().wants_traces
    }

    /// Gives up the present try of a work. The work waits for another try if this may bring a better answer, enough time is left,
    /// and the work has not yet had its one extra try ([`Work::begin_anew`]). Otherwise the work is answered with what is known.
    pub(crate) fn give_up(&self, mut work: Work, now: Instant) {
        match work.begin_anew(now) {
            Some(after) => {
                holds(Invariant::AnewInTime, || now + after < work.deadline);
                self.state.borrow_mut().later.push((now + after, work));
            }
            None if self.shared.is_in_doubt(&work, now) => self.state.borrow_mut().in_doubt.push(work),
            None => self.shared.give_up(work, now),
        }
    }

    /// Answers the works that wait for the end of a doubt ([`Shared::is_in_doubt`]) if it has ended, or if their deadline has passed.
    pub(crate) fn answer_undoubted(&self, now: Instant) {
        let is_due = |work: &mut Work| work.deadline <= now || !self.shared.is_in_doubt(work, now);
        let due: Vec<_> = self.state.borrow_mut().in_doubt.extract_if(.., is_due).collect();
        due.into_iter().for_each(|work| self.shared.give_up(work, now));
    }

    /// The delay, with a random part, after which a single check is tried once more.
    pub(crate) fn single_retry(&self) -> Duration {
        SINGLE_RETRY_MIN + SINGLE_RETRY_SPREAD.mul_f64((self.random() % 1024) as f64 / 1024.0)
    }

    /// Sends the works that are due for another try to the home shards of their domains.
    pub(crate) fn begin_anew(&self, now: Instant) {
        let due: Vec<_> = self.state.borrow_mut().later.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, work) in due {
            let home = self.shared.shard_of(work.domain_hash);
            if let Err(Message::Resolve(work)) = home.inbox.push(Message::Resolve(work)) {
                // The inbox is never full, because the ticket of each work has reserved room.
                work.give_up();
            }
        }
    }

    /// Takes the works that wait for another try or for the end of a doubt, if their clients have recalled them or are draining.
    pub(crate) fn take_recalled(&self) -> Vec<Work> {
        let state = &mut *self.state.borrow_mut();
        let later = state.later.extract_if(.., |(_, work)| work.is_taken_back()).map(|(_, work)| work);
        later.chain(state.in_doubt.extract_if(.., |work| work.is_taken_back())).collect()
    }

    /// Takes all works that wait for another try or for the end of a doubt.
    pub(crate) fn take_all(&self) -> Vec<Work> {
        let state = &mut *self.state.borrow_mut();
        state.later.drain(..).map(|(_, work)| work).chain(state.in_doubt.drain(..)).collect()
    }

    /// The number of works that wait for another try or for the end of a doubt.
    #[cfg(feature = "sim")]
    pub(crate) fn waiting(&self) -> usize {
        let state = self.state.borrow();
        state.later.len() + state.in_doubt.len()
    }
}
