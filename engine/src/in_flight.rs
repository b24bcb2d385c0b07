//! The works of one transaction: the server is being asked about their recipients.
//!
//! A session may take longer than the patience of some works. These works are answered at their deadline, and a later reply about
//! them is ignored.

use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::work::Work;
use std::time::Instant;

#[derive(Default)]
pub(crate) struct InFlight {
    /// The works by their places in the transaction. A place is empty once its work has an answer.
    works: Vec<Option<Work>>,
    /// No work expires before this instant. `None`: no work can expire.
    due: Option<Instant>,
}

impl InFlight {
    pub(crate) fn new(works: Vec<Work>) -> InFlight {
        let deadlines = works.iter().map(|work| work.deadline);
        let due = if planted(Fault::Break(Invariant::DueFirst)) { deadlines.max() } else { deadlines.min() };
        InFlight { works: works.into_iter().map(Some).collect(), due }
    }

    /// Takes the work at a place, if it is still there.
    pub(crate) fn take(&mut self, place: usize) -> Option<Work> {
        self.works.get_mut(place)?.take()
    }

    /// Takes the first work that is left.
    pub(crate) fn take_first(&mut self) -> Option<Work> {
        self.works.iter_mut().find_map(Option::take)
    }

    /// Takes all works that are left, in their order.
    pub(crate) fn take_all(&mut self) -> Vec<Work> {
        self.works.iter_mut().filter_map(Option::take).collect()
    }

    /// Takes the works whose deadline has passed.
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

    /// Takes the works for which the condition holds.
    pub(crate) fn take_where(&mut self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        self.works.iter_mut().filter_map(|slot| slot.take_if(|work| is_such(work))).collect()
    }

    /// Calls the function for each work that is left.
    pub(crate) fn each(&mut self, mut show: impl FnMut(&mut Work)) {
        self.works.iter_mut().flatten().for_each(&mut show);
    }

    /// Whether the condition holds for any work that is left.
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
