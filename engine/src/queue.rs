//! The queue of a group: the works (addresses) that wait until a session asks about them. The group has one or more routes (IP
//! addresses of hosts), and a session asks over one of them.
//!
//! A transaction takes works in this order. Single checks come first, then batches, then lists. Within a class, works that were put
//! back come first. Then the owners of the requests (accounts) take turns, one work each. If all recipients of a transaction must
//! have the same domain, the first work is followed by others of its owner and domain instead. A class that was passed over
//! [`QUEUE_PASSED_MAX`] times while works of it waited gets the next turn.
//!
//! Works wait in *lanes*. All works of a lane have tried the same routes, so the lanes show whether a route has work, and whether a
//! work has a route left, without looking at each work. There are few lanes, because routes are tried in order. Works at which a
//! session hung (`suspect`) are asked about alone, and have lanes of their own.
//!
//! A lane contains the numbers of its works. If a work is taken out of turn, for example at its deadline, its number stays in the
//! lane until its turn comes, and is then skipped.
//!
//! Each work that was added is returned once, by one of the `take` methods. The caller then answers it or adds it again.
//!
//! - [`Queue::push_back`] adds a work behind the others of its owner, and [`Queue::push_front`] before all others of its class and
//!   lane.
//! - [`Queue::has_for`] is for the choice of a route, and [`Queue::take`] for a session that begins a transaction.
//! - [`Queue::take_expired`], [`Queue::take_all`], [`Queue::take_where`], [`Queue::take_unroutable`] and [`Queue::take_singles`]
//!   take works out of turn, in most cases to answer them.
//! - [`Queue::len`], [`Queue::singles`], [`Queue::first_single`] and [`Queue::turn`] are there for the decision about sessions.

use crate::Priority;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::{Invariant, holds};
use crate::turns::{Ring, Turn};
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::QUEUE_PASSED_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

const CLASSES: usize = 3;
const SINGLE: usize = Priority::Single as usize;

pub(crate) struct Queue {
    /// Whether the recipients of a transaction must have the same domain.
    one_domain: bool,
    /// The waiting works by their numbers. Each work that is added gets the next number.
    works: BTreeMap<u64, Work>,
    deadlines: [BTreeSet<(Instant, u64)>; CLASSES],
    lanes: Vec<Lane>,
    next: u64,
    /// The search for a lane begins at this index, modulo the number of lanes. Each transaction adds one to the index.
    turn: usize,
    /// For each class, how many times in a row it was passed over although some of its works waited.
    passed: [u8; CLASSES],
}

/// The numbers of the works that have tried the same routes.
struct Lane {
    /// The routes that the works have tried, a bit each.
    tried: u64,
    /// Whether each work needs a transaction without other works.
    suspect: bool,
    /// Works that were put back. They come before the turns of the owners.
    returned: [VecDeque<u64>; CLASSES],
    classes: [Turns; CLASSES],
    /// How many works of each class wait in the lane. Works that were taken out of turn do not count, although the lane still
    /// contains their numbers.
    counts: [usize; CLASSES],
}

/// The numbers of works, by owner, and then by domain if all recipients of a transaction must have the same domain. Otherwise the
/// domain is `None`.
type Turns = Ring<u64, Ring<Option<Domain>, VecDeque<u64>>>;

impl Queue {
    pub(crate) fn new(one_domain: bool) -> Queue {
        Queue {
            one_domain,
            works: BTreeMap::new(),
            deadlines: Default::default(),
            lanes: Vec::new(),
            next: 0,
            turn: 0,
            passed: [0; CLASSES],
        }
    }

    /// Adds a work after the other works of its owner.
    pub(crate) fn push_back(&mut self, work: Work) {
        let (number, class, owner, domain) = self.place(&work);
        self.lane(&work).classes[class].join(owner).join(domain).push_back(number);
        self.works.insert(number, work);
        let known = || self.deadlines.iter().map(BTreeSet::len).sum::<usize>();
        holds(Invariant::QueueDeadlines, || known() == self.works.len());
    }

    /// Adds a work before all others of its class and lane.
    pub(crate) fn push_front(&mut self, work: Work) {
        let (number, class, ..) = self.place(&work);
        self.lane(&work).returned[class].push_front(number);
        self.works.insert(number, work);
    }

    /// Takes up to `most` works for a transaction on `route`. Batch and list works wait for the routes in `awaited` (a bit each),
    /// so they are taken only if they have tried all of these. A suspect work is returned alone.
    pub(crate) fn take(&mut self, route: usize, awaited: u64, most: usize) -> Vec<Work> {
        let mut taken = Vec::new();
        self.turn = self.turn.wrapping_add(1);
        while taken.len() < most {
            let Some((lane, class)) = self.choose(route, awaited, taken.is_empty()) else { break };
            let Some(work) = self.pop(lane, class) else { continue };
            if work.suspect && !planted(Fault::Break(Invariant::TakenAlone)) {
                return vec![work];
            }
            if self.one_domain {
                return self.with_same_domain(work, most);
            }
            taken.push(work);
        }
        taken
    }

    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Work> {
        self.take_due(|deadline| deadline <= now)
    }

    /// Takes all works: class by class, and within a class by their deadlines.
    pub(crate) fn take_all(&mut self) -> Vec<Work> {
        self.take_due(|_| true)
    }

    fn take_due(&mut self, is_due: impl Fn(Instant) -> bool) -> Vec<Work> {
        let mut taken = Vec::new();
        for class in 0..CLASSES {
            while let Some(&(deadline, number)) = self.deadlines[class].first()
                && is_due(deadline)
            {
                taken.extend(self.remove(number));
            }
        }
        taken
    }

    /// Takes all works for which the condition holds. Looks at all works.
    pub(crate) fn take_where(&mut self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        let such = self.works.iter().filter(|(_, work)| is_such(work));
        let numbers: Vec<u64> = such.map(|(&number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// Takes the works for which no route is left. `is_open` gets the routes that works have tried (a bit each), and returns
    /// whether any other route can be used.
    pub(crate) fn take_unroutable(&mut self, is_open: impl Fn(u64) -> bool) -> Vec<Work> {
        let mut taken = Vec::new();
        while let Some(lane) = self.lanes.iter().position(|lane| !is_open(lane.tried)) {
            let tried = self.lanes[lane].tried;
            for class in 0..CLASSES {
                self.drain(lane, tried, class, &mut taken);
            }
        }
        taken
    }

    /// Takes the single checks that have tried none of `routes` (a bit each). With 0, takes all single checks.
    pub(crate) fn take_singles(&mut self, routes: u64) -> Vec<Work> {
        let mut taken = Vec::new();
        let has = |lane: &Lane| lane.counts[SINGLE] > 0 && lane.has_tried_none_of(routes);
        while let Some(lane) = self.lanes.iter().position(has) {
            let tried = self.lanes[lane].tried;
            self.drain(lane, tried, SINGLE, &mut taken);
        }
        taken
    }

    /// Whether [`Queue::take`] would return a work for these arguments.
    pub(crate) fn has_for(&self, route: usize, awaited: u64) -> bool {
        let wants = |lane: &Lane| lane.counts[SINGLE] > 0 || lane.tried & awaited == awaited;
        self.lanes.iter().any(|lane| lane.has_tried_none_of(1 << route) && wants(lane))
    }

    pub(crate) fn len(&self) -> usize {
        self.works.len()
    }

    pub(crate) fn singles(&self) -> usize {
        self.deadlines[SINGLE].len()
    }

    /// The earliest deadline of the waiting single checks, which is that of the oldest one.
    pub(crate) fn first_single(&self) -> Option<Instant> {
        self.deadlines[SINGLE].first().map(|&(deadline, _)| deadline)
    }

    /// The turn of the group among those that wait for a session: that of the work that comes first. `None` if no work waits.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let class = (0..CLASSES).find(|&class| !self.deadlines[class].is_empty())?;
        let lane = self.lanes.iter().find(|lane| lane.counts[class] > 0)?;
        let returned = lane.returned[class].iter().find_map(|number| self.works.get(number));
        let owner = returned.map(|work| work.owner).or_else(|| lane.classes[class].first_key().copied())?;
        Some(Turn { is_single: class == SINGLE, owner })
    }

    /// All works, for lines in their traces.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Work> {
        self.works.values_mut()
    }

    /// Gives a work the next number. Returns the number, and the class, the owner and the domain by which the work is queued.
    fn place(&mut self, work: &Work) -> (u64, usize, u64, Option<Domain>) {
        let (number, class) = (self.next, work.priority as usize);
        self.next += 1;
        if !planted(Fault::Break(Invariant::QueueDeadlines)) {
            self.deadlines[class].insert((work.deadline, number));
        }
        (number, class, work.owner, self.one_domain.then(|| work.address.domain().clone()))
    }

    /// Finds or makes the lane for a work that is added, and counts the work there.
    fn lane(&mut self, work: &Work) -> &mut Lane {
        let at = self.lanes.iter().position(|lane| lane.takes(work)).unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            // Most groups have one lane at a time, and `push` alone would reserve memory for four.
            self.lanes.reserve_exact(1);
            self.lanes.push(Lane::new(work));
        }
        let lane = &mut self.lanes[at];
        lane.counts[work.priority as usize] += 1;
        lane
    }

    /// Decides which lane and class have the next turn on `route`. `alone`: the transaction is still empty, so a suspect work may
    /// be chosen too.
    fn choose(&mut self, route: usize, awaited: u64, alone: bool) -> Option<(usize, usize)> {
        let count = self.lanes.len();
        let open = |lane: &Lane, class: usize| {
            lane.counts[class] > 0
                && (lane.has_tried_none_of(1 << route) || sometimes(Fault::Break(Invariant::TakenUntried)))
                && (alone || !lane.suspect || planted(Fault::Break(Invariant::TakenAlone)))
                && (class == SINGLE || lane.tried & awaited == awaited)
        };
        let find = |class: usize| {
            let order = (0..count).map(|at| (self.turn.wrapping_add(at)) % count);
            order.into_iter().find(|&lane| open(&self.lanes[lane], class))
        };
        let lanes: [Option<usize>; CLASSES] = std::array::from_fn(find);
        let waits = |&class: &usize| lanes[class].is_some();
        let owed = (0..CLASSES).rev().filter(waits).find(|&class| self.passed[class] >= QUEUE_PASSED_MAX);
        let owed = owed.filter(|_| !planted(Fault::Break(Invariant::QueueTurns)));
        let class = owed.or_else(|| (0..CLASSES).find(waits))?;
        self.passed[class] = 0;
        for other in (class + 1..CLASSES).filter(waits) {
            self.passed[other] = self.passed[other].saturating_add(1);
        }
        holds(Invariant::QueueTurns, || self.passed.iter().all(|&passed| passed <= QUEUE_PASSED_MAX));
        lanes[class].map(|lane| (lane, class))
    }

    /// Takes the next number of a class out of a lane, and returns its work. `None` if the work was already taken out of turn.
    fn pop(&mut self, lane: usize, class: usize) -> Option<Work> {
        if let Some(number) = self.lanes[lane].returned[class].pop_front() {
            return self.remove(number);
        }
        let owners = &mut self.lanes[lane].classes[class];
        let domains = owners.first()?;
        let number = domains.first().and_then(VecDeque::pop_front);
        domains.pass(VecDeque::is_empty);
        owners.pass(Ring::is_empty);
        self.remove(number?)
    }

    /// Returns `first`, and further works of the same domain from the same lane: up to `most` works in all.
    fn with_same_domain(&mut self, first: Work, most: usize) -> Vec<Work> {
        let domain = Some(first.address.domain().clone());
        let mut taken = vec![first];
        while taken.len() < most {
            let Some(number) = self.companion(&taken[0], &domain) else { break };
            taken.extend(self.remove(number));
        }
        taken
    }

    /// Takes the number of the next work with the lane, the class, the owner and the domain of `first`. A work that was put back
    /// may have another owner.
    fn companion(&mut self, first: &Work, domain: &Option<Domain>) -> Option<u64> {
        let class = first.priority as usize;
        let lane = self.lanes.iter_mut().find(|lane| lane.takes(first))?;
        let works = &self.works;
        let same = |number: &mut u64| works.get(number).map(|work| work.address.domain()) == domain.as_ref();
        let returned = lane.returned[class].pop_front_if(same);
        returned.or_else(|| lane.classes[class].get(&first.owner)?.get(domain)?.pop_front())
    }

    /// Takes a work out of the queue, and removes its lane if that was the last work there.
    fn remove(&mut self, number: u64) -> Option<Work> {
        let work = self.works.remove(&number)?;
        let class = work.priority as usize;
        self.deadlines[class].remove(&(work.deadline, number));
        if let Some(at) = self.lanes.iter().position(|lane| lane.takes(&work)) {
            self.lanes[at].counts[class] -= 1;
            if self.lanes[at].counts == [0; CLASSES] {
                self.lanes.remove(at);
            }
        }
        Some(work)
    }

    /// Takes all works of a class from the lane at index `lane`. Stops if the lane was removed because it is empty: another lane
    /// may then have this index.
    fn drain(&mut self, lane: usize, tried: u64, class: usize, taken: &mut Vec<Work>) {
        let suspect = self.lanes.get(lane).map(|lane| lane.suspect);
        let same = |lane: &Lane| lane.tried == tried && Some(lane.suspect) == suspect;
        while self.lanes.get(lane).is_some_and(|lane| same(lane) && lane.counts[class] > 0) {
            taken.extend(self.pop(lane, class));
        }
    }
}

impl Lane {
    fn new(work: &Work) -> Lane {
        Lane {
            tried: work.tried,
            suspect: work.suspect,
            returned: Default::default(),
            classes: Default::default(),
            counts: [0; CLASSES],
        }
    }

    fn takes(&self, work: &Work) -> bool {
        self.tried == work.tried && self.suspect == work.suspect
    }

    fn has_tried_none_of(&self, routes: u64) -> bool {
        self.tried & routes == 0
    }
}

#[cfg(test)]
mod tests;
