//! Works that leave a group out of turn: at their deadline, because their site gives no answer, or because their clients take them
//! back.

use super::Group;
use super::route::RouteState;
use crate::Priority;
use crate::work::Work;
use engine_proto::limits::{ROUTE_DOWN, SITE_LAST_TRY};
use std::time::Instant;

impl Group {
    /// Takes all works with a deadline that has passed. This includes works that a session asks about, and works with an answer
    /// that a session holds.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<Work> {
        let state = &mut *self.state();
        let mut expired = state.queue.take_expired(now);
        expired.extend(state.take_in_order(|works| (works.asked_at, works.in_flight.take_expired(now))));
        let is_over = |work: &Work| work.deadline <= now;
        expired.extend(state.take_in_order(|works| (works.begun_at, works.evidence.take_where(is_over))));
        expired
    }

    /// Takes the rows of batches that came to this site at least [`SITE_LAST_TRY`] ago, if the site has given no answer for as
    /// long. This includes rows that are being asked about. Their client decides when they come again.
    pub(crate) fn take_unanswered(&self, now: Instant) -> Vec<Work> {
        let is_long = |since: Instant| now >= since + SITE_LAST_TRY;
        let rule = {
            let site = self.site.state();
            if !site.pace.silent_since().is_some_and(is_long) {
                return Vec::new();
            }
            site.pushed
        };
        let is_late = |work: &Work| {
            let admitted = work.admission.as_ref().is_some_and(|admission| is_long(admission.at));
            work.priority == Priority::Batch && admitted
        };
        let state = &mut *self.state();
        let mut taken = state.queue.take_where(is_late);
        taken.extend(state.take_in_order(|works| (works.asked_at, works.in_flight.take_where(is_late))));
        // A fallback that names a host, or that has a rule other than `no_answer_in_time`, says more than the rule of the site.
        let is_first =
            |work: &&mut Work| work.fallback.rule == "no_answer_in_time" && work.fallback.observed.is_none();
        for work in taken.iter_mut().filter(is_first) {
            work.set_fallback(rule, Some(ROUTE_DOWN));
        }
        taken
    }

    /// Whether a failed connection was the last push-back of the site, and a host of the group has not replied about a recipient since.
    pub(crate) fn accepts_no_connection(&self) -> bool {
        self.site.state().pushed == "no_connection" && self.state().routes.iter().any(RouteState::has_lost)
    }

    pub(crate) fn take_all_waiting(&self) -> Vec<Work> {
        self.state().queue.take_all()
    }

    /// Takes the waiting works for which the condition holds.
    pub(crate) fn take_waiting(&self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        self.state().queue.take_where(&is_such)
    }

    /// Takes the works for which the condition holds. This includes works that a session asks about, and works with an answer that
    /// a session holds.
    pub(crate) fn take_where(&self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        let state = &mut *self.state();
        let mut taken = state.queue.take_where(&is_such);
        taken.extend(state.take_in_order(|works| (works.asked_at, works.in_flight.take_where(&is_such))));
        taken.extend(state.take_in_order(|works| (works.begun_at, works.evidence.take_where(&is_such))));
        taken
    }
}
