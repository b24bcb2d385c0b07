//! The works that wait at a group of hosts, in the order of their turns. No I/O, and no frequent operation looks at all works.
//!
//! Works wait in *lanes*: the works in one lane have tried the same routes. So it is enough to look at the lanes to see whether a
//! route has work, and whether a work has a route left. There are few lanes, because routes are tried in order. Recipients that are
//! to be asked about alone have lanes of their own.
//!
//! Single checks come first, then batches, then lists. In each of these classes the owners take turns, one work each. A class that
//! was passed over [`QUEUE_PASSED_MAX`] times gets the next turn, so no class starves under constant load.
//!
//! A work that is taken out of turn, for example because it has expired, leaves its number in its lane. Whoever comes to that
//! number next drops it.
//!
//! Each work that was added is returned once, by one of the `take` methods. The caller then answers it or adds it again; the queue
//! answers nothing. The methods are of four kinds:
//!
//! - for a work that arrives: [`Queue::push_back`]; for a work that a session has to return: [`Queue::push_front`]
//! - for a session that begins a transaction: [`Queue::has_for`] and [`Queue::take`]
//! - for the sweep of the shard, and for findings about a route: [`Queue::take_expired`], [`Queue::take_all`],
//!   [`Queue::take_where`], [`Queue::take_unroutable`] and [`Queue::take_singles`], which return works that no session should ask
//!   about
//! - for decisions about the number of sessions: [`Queue::len`], [`Queue::singles`] and [`Queue::first_single`]

use crate::Priority;
use crate::faults::{Fault, planted, sometimes};
use crate::invariants::{Invariant, holds};
use crate::work::Work;
use engine_proto::address::Domain;
use engine_proto::limits::QUEUE_PASSED_MAX;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

const CLASSES: usize = 3;
const SINGLE: usize = Priority::Single as usize;

/// The waiting works of a group: see the module.
pub(crate) struct Queue {
    /// Whether the recipients of a transaction must have the same domain.
    one_domain: bool,
    /// The waiting works by their numbers, which count up with each work that is added.
    works: BTreeMap<u64, Work>,
    deadlines: [BTreeSet<(Instant, u64)>; CLASSES],
    lanes: Vec<Lane>,
    next: u64,
    /// The index (modulo the number of lanes) from which the search for a lane begins. It moves on with each transaction.
    turn: usize,
    /// How often each class was passed over.
    passed: [u8; CLASSES],
}

/// Works that have tried the same routes.
struct Lane {
    tried: u64,
    /// Whether the recipients are to be asked about alone.
    suspect: bool,
    /// Works that were put back. They come before all owners.
    returned: [VecDeque<u64>; CLASSES],
    classes: [Turns; CLASSES],
    /// Number of works in each class.
    counts: [usize; CLASSES],
}

/// The numbers of the waiting works, by owner; below that by domain if transactions must have one domain, or else under `None`.
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

    /// Puts a work after the other works of its owner.
    pub(crate) fn push_back(&mut self, work: Work) {
        let (number, class, owner, domain) = self.place(&work);
        self.lane(&work).classes[class].join(owner).join(domain).push_back(number);
        self.works.insert(number, work);
        let known = || self.deadlines.iter().map(BTreeSet::len).sum::<usize>();
        holds(Invariant::QueueDeadlines, || known() == self.works.len());
    }

    /// Puts a work back in front of all others of its class.
    pub(crate) fn push_front(&mut self, work: Work) {
        let (number, class, ..) = self.place(&work);
        self.lane(&work).returned[class].push_front(number);
        self.works.insert(number, work);
    }

    /// Takes up to `most` works for a transaction on `route`. A batch or list work is taken only if it has tried all of the routes
    /// in `awaited` (a bit for each route). A work that is to be asked about alone is returned alone.
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

    /// Takes all works whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Work> {
        self.take_due(|deadline| deadline <= now)
    }

    /// Takes all works, class by class, each class in the order of the deadlines.
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

    /// Takes all works for which the condition holds.
    pub(crate) fn take_where(&mut self, is_such: impl Fn(&Work) -> bool) -> Vec<Work> {
        let such = self.works.iter().filter(|(_, work)| is_such(work));
        let numbers: Vec<u64> = such.map(|(&number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// Takes the works for which no route is left: those of the lanes where `is_open` returns false for the routes that were tried.
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

    /// Takes the single checks that have tried none of `routes` (a bit for each route; with no bits, all single checks).
    pub(crate) fn take_singles(&mut self, routes: u64) -> Vec<Work> {
        let mut taken = Vec::new();
        let has = |lane: &Lane| lane.counts[SINGLE] > 0 && lane.has_tried_none_of(routes);
        while let Some(lane) = self.lanes.iter().position(has) {
            let tried = self.lanes[lane].tried;
            self.drain(lane, tried, SINGLE, &mut taken);
        }
        taken
    }

    /// Whether [`Queue::take`] would find a work with these arguments.
    pub(crate) fn has_for(&self, route: usize, awaited: u64) -> bool {
        let wants = |lane: &Lane| lane.counts[SINGLE] > 0 || lane.tried & awaited == awaited;
        self.lanes.iter().any(|lane| lane.has_tried_none_of(1 << route) && wants(lane))
    }

    pub(crate) fn len(&self) -> usize {
        self.works.len()
    }

    /// The number of waiting single checks.
    pub(crate) fn singles(&self) -> usize {
        self.deadlines[SINGLE].len()
    }

    /// The earliest deadline of a waiting single check: that of the check that arrived first.
    pub(crate) fn first_single(&self) -> Option<Instant> {
        self.deadlines[SINGLE].first().map(|&(deadline, _)| deadline)
    }

    /// All works, to add to their traces.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Work> {
        self.works.values_mut()
    }

    /// Gives a work its number, and returns it with the class, the owner and the domain under which the work is queued.
    fn place(&mut self, work: &Work) -> (u64, usize, u64, Option<Domain>) {
        let (number, class) = (self.next, work.priority as usize);
        self.next += 1;
        if !planted(Fault::Break(Invariant::QueueDeadlines)) {
            self.deadlines[class].insert((work.deadline, number));
        }
        (number, class, work.owner, self.one_domain.then(|| work.address.domain().clone()))
    }

    /// The lane for a work that is added. The work is counted there.
    fn lane(&mut self, work: &Work) -> &mut Lane {
        let at = self.lanes.iter().position(|lane| lane.takes(work)).unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            // Reserves room for one lane and not for four, because most groups have one lane at a time.
            self.lanes.reserve_exact(1);
            self.lanes.push(Lane::new(work));
        }
        let lane = &mut self.lanes[at];
        lane.counts[work.priority as usize] += 1;
        lane
    }

    /// Decides which lane and class have the next turn on `route`. `alone`: works that are to be asked about alone may be chosen
    /// too.
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

    /// Takes the next work of a class from a lane; `None` if that work was already taken out of turn.
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

    /// Returns the first work together with those works of its domain that come next in its lane, up to `most` in all.
    fn with_same_domain(&mut self, first: Work, most: usize) -> Vec<Work> {
        let domain = Some(first.address.domain().clone());
        let mut taken = vec![first];
        while taken.len() < most {
            let Some(number) = self.companion(&taken[0], &domain) else { break };
            taken.extend(self.remove(number));
        }
        taken
    }

    /// Takes out the number of the next work of the same lane, class, owner and domain. Works that were put back count regardless
    /// of their owner.
    fn companion(&mut self, first: &Work, domain: &Option<Domain>) -> Option<u64> {
        let class = first.priority as usize;
        let lane = self.lanes.iter_mut().find(|lane| lane.takes(first))?;
        let works = &self.works;
        let same = |number: &mut u64| works.get(number).map(|work| work.address.domain()) == domain.as_ref();
        let returned = lane.returned[class].pop_front_if(same);
        returned.or_else(|| lane.classes[class].get(&first.owner)?.get(domain)?.pop_front())
    }

    /// Takes a work out of the queue. If it was the last one of its lane, the lane is removed.
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

    /// Takes all works of a class from a lane. An empty lane is removed, so another lane may then have its index.
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

/// Members that take turns, such as the owners of works. A member without works is removed.
struct Ring<K, V> {
    order: VecDeque<K>,
    members: BTreeMap<K, V>,
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Ring<K, V> {
        Ring { order: VecDeque::new(), members: BTreeMap::new() }
    }
}

impl<K: Clone + Ord, V: Default> Ring<K, V> {
    /// The member with this key. A new member has the last turn.
    fn join(&mut self, key: K) -> &mut V {
        match self.members.entry(key) {
            Entry::Occupied(member) => member.into_mut(),
            Entry::Vacant(member) => {
                self.order.push_back(member.key().clone());
                member.insert(V::default())
            }
        }
    }

    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.members.get_mut(key)
    }

    fn first(&mut self) -> Option<&mut V> {
        self.members.get_mut(self.order.front()?)
    }

    /// Ends the turn of the first member: it becomes the last, or is removed if it has nothing left.
    fn pass(&mut self, has_nothing: impl Fn(&V) -> bool) {
        let Some(key) = self.order.pop_front() else { return };
        if self.members.get(&key).is_some_and(has_nothing) {
            self.members.remove(&key);
        } else {
            self.order.push_back(key);
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests;
