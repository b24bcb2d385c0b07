//! The works that one transaction of a session asks about. A work is an address on its way through the engine.
//!
//! A transaction may last longer than some of its works can wait. The sweep of the shard takes such a work out at its deadline and
//! answers it. The later reply of the server then finds the place of the work empty.

use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::work::Work;
use std::time::Instant;

#[derive(Default)]
pub(crate) struct InFlight {
    /// The works in the order of the RCPT commands. A place is empty after its work was taken out.
    works: Vec<Option<Work>>,
    /// An instant at or before the earliest deadline of the works, so that most calls of [`InFlight::take_expired`] need not look
    /// at them. `None` only if there are no works.
    due: Option<Instant>,
}

impl InFlight {
    pub(crate) fn new(works: Vec<Work>) -> InFlight {
        let deadlines = works.iter().map(|work| work.deadline);
        let due = if planted(Fault::Break(Invariant::DueFirst)) { deadlines.max() } else { deadlines.min() };
        InFlight { works: works.into_iter().map(Some).collect(), due }
    }

    pub(crate) fn take(&mut self, place: usize) -> Option<Work> {
        self.works.get_mut(place)?.take()
    }

    /// RCPT was sent for the first `count` works.
    pub(crate) fn on_sent(&mut self, count: usize) {
        self.works.iter_mut().take(count).flatten().for_each(|work| work.was_sent = true);
    }

    pub(crate) fn take_first(&mut self) -> Option<Work> {
        self.works.iter_mut().find_map(Option::take)
    }

    pub(crate) fn take_all(&mut self) -> Vec<Work> {
        self.works.iter_mut().filter_map(Option::take).collect()
    }

    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Work> {
        let first = || self.works.iter().flatten().map(|work| work.deadline).min();
        holds(Invariant::DueFirst, || first().is_none_or(|first| self.due.is_some_and(|due| due <= first)));
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let works = &mut self.works;
        let over = |slot: &mut Option<Work>| slot.take_if(|work| work.deadline <= now);
        let expired = works.iter_mut().filter_map(over).collect();
        self.due = works.iter().flatten().map(|work| work.deadline).min();
        expired
    }

    pub(crate) fn take_where(&mut self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        self.works.iter_mut().filter_map(|slot| slot.take_if(|work| is_such(work))).collect()
    }

    pub(crate) fn each(&mut self, mut show: impl FnMut(&mut Work)) {
        self.works.iter_mut().flatten().for_each(&mut show);
    }

    pub(crate) fn any(&self, is_such: impl Fn(&Work) -> bool) -> bool {
        self.works.iter().flatten().any(is_such)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;
    use crate::work::testing::{mailbox, work};
    use std::time::Duration;

    #[test]
    fn those_whose_time_is_over_leave_their_places() {
        let (client, now) = (mailbox(), Instant::now());
        let mut works: Vec<Work> = (0..3).map(|_| work(&client, "u@a.example", Priority::List)).collect();
        works[1].deadline = now;
        let mut in_flight = InFlight::new(works);
        assert_eq!(in_flight.take_expired(now).len(), 1);
        assert!(in_flight.take(1).is_none() && in_flight.take(9).is_none());
        assert!(in_flight.take(0).is_some() && in_flight.take(0).is_none());
        assert_eq!(in_flight.take_expired(now).len(), 0);
        assert_eq!(in_flight.take_expired(now + Duration::from_secs(61)).len(), 1);
        assert!(in_flight.take_first().is_none() && in_flight.take_all().is_empty());
    }
}
