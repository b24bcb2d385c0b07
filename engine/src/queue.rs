//! The works that wait at a group of hosts, in the order of their turns. No I/O, and no step that looks at all works.
//!
//! Works wait in *lanes*: works that have tried the same routes are in one lane. So a lane tells whether a route has work, and
//! whether a work has a route. There are few lanes, because routes are tried in order. Recipients that are to be asked about alone
//! have lanes of their own.
//!
//! The order in a lane is: single checks, then batches, then lists. In a class, owners take turns, one work each. A class that was
//! passed over [`QUEUE_PASSED_MAX`] times gets the next turn, so no class starves under constant load.
//!
//! A work that expires leaves its number in its lane; the next reader of the lane drops that number.
//!
//! Each work that was added is returned once, by one of the `take` methods, and whoever gets it answers it or adds it again. The
//! queue answers nobody. Its methods are of four kinds:
//!
//! - for a work that arrives: [`Queue::push_back`]; for one whose session could not ask about it: [`Queue::push_front`]
//! - for a session that begins a transaction: [`Queue::has_for`] and [`Queue::take`]
//! - for the sweep of the shard, and for what is found out about a route: [`Queue::take_expired`], [`Queue::take_all`], [`Queue::take_where`],
//!   [`Queue::take_unroutable`] and [`Queue::take_singles`], which return works that no session should ask about
//! - for decisions about sessions: [`Queue::len`], [`Queue::singles`] and [`Queue::first_single`]

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

/// See the module.
pub(crate) struct Queue {
    /// Transactions are to have recipients of one domain only.
    one_domain: bool,
    /// By their numbers, which are given in the order of arrival.
    works: BTreeMap<u64, Work>,
    deadlines: [BTreeSet<(Instant, u64)>; CLASSES],
    lanes: Vec<Lane>,
    next: u64,
    /// The lane that is looked at first.
    turn: usize,
    /// How often each class was passed over.
    passed: [u8; CLASSES],
}

/// Works that have tried the same routes.
struct Lane {
    tried: u64,
    /// They are to be asked alone.
    suspect: bool,
    /// Works that were put back. They come before the owners that take turns.
    returned: [VecDeque<u64>; CLASSES],
    classes: [Turns; CLASSES],
    /// Works in each class.
    counts: [usize; CLASSES],
}

/// Owners, and below them domains, where that makes a difference.
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

    /// Puts a work behind its owner's others.
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

    /// Takes up to `most` works for a transaction on `route`. Patient ones only if they have tried the routes `awaited`,
    /// a bit each.
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
                return self.company(work, most);
            }
            taken.push(work);
        }
        taken
    }

    /// Takes all works whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Work> {
        self.take_due(|deadline| deadline <= now)
    }

    /// Takes all works, in the order of their deadlines.
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

    /// Takes the works of every lane for which `is_open` says no of the routes that they have tried.
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

    /// Takes the single checks that have tried none of `routes`, a bit each.
    pub(crate) fn take_singles(&mut self, routes: u64) -> Vec<Work> {
        let mut taken = Vec::new();
        let has = |lane: &Lane| lane.counts[SINGLE] > 0 && lane.has_before(routes);
        while let Some(lane) = self.lanes.iter().position(has) {
            let tried = self.lanes[lane].tried;
            self.drain(lane, tried, SINGLE, &mut taken);
        }
        taken
    }

    /// Whether [`Queue::take`] would find any.
    pub(crate) fn has_for(&self, route: usize, awaited: u64) -> bool {
        let wants = |lane: &Lane| lane.counts[SINGLE] > 0 || lane.tried & awaited == awaited;
        self.lanes.iter().any(|lane| lane.has_before(1 << route) && wants(lane))
    }

    pub(crate) fn len(&self) -> usize {
        self.works.len()
    }

    /// Number of single checks that wait.
    pub(crate) fn singles(&self) -> usize {
        self.deadlines[SINGLE].len()
    }

    /// The first deadline of a single check, which has waited for the longest.
    pub(crate) fn first_single(&self) -> Option<Instant> {
        self.deadlines[SINGLE].first().map(|&(deadline, _)| deadline)
    }

    /// All works, to add to their traces.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Work> {
        self.works.values_mut()
    }

    /// A number for a work, and where it belongs.
    fn place(&mut self, work: &Work) -> (u64, usize, u64, Option<Domain>) {
        let (number, class) = (self.next, work.priority as usize);
        self.next += 1;
        if !planted(Fault::Break(Invariant::QueueDeadlines)) {
            self.deadlines[class].insert((work.deadline, number));
        }
        (number, class, work.owner, self.one_domain.then(|| work.address.domain().clone()))
    }

    /// The lane of a work that comes in.
    fn lane(&mut self, work: &Work) -> &mut Lane {
        let at = self.lanes.iter().position(|lane| lane.takes(work)).unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            // Room for one more, and not for four: most groups have one lane at a time.
            self.lanes.reserve_exact(1);
            self.lanes.push(Lane::new(work));
        }
        let lane = &mut self.lanes[at];
        lane.counts[work.priority as usize] += 1;
        lane
    }

    /// The lane and the class that have the next turn on `route`. `alone`: recipients that are asked about alone count too.
    fn choose(&mut self, route: usize, awaited: u64, alone: bool) -> Option<(usize, usize)> {
        let count = self.lanes.len();
        let open = |lane: &Lane, class: usize| {
            lane.counts[class] > 0
                && (lane.has_before(1 << route) || sometimes(Fault::Break(Invariant::TakenUntried)))
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

    /// The next work of a lane's class; `None` for one that has expired.
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

    /// With the first one, as many works of its domain that come next in its lane as there are, up to `most`.
    fn company(&mut self, first: Work, most: usize) -> Vec<Work> {
        let domain = Some(first.address.domain().clone());
        let mut taken = vec![first];
        while taken.len() < most {
            let Some(number) = self.companion(&taken[0], &domain) else { break };
            taken.extend(self.remove(number));
        }
        taken
    }

    /// The number of the next work of the same lane, class, owner and domain.
    fn companion(&mut self, first: &Work, domain: &Option<Domain>) -> Option<u64> {
        let class = first.priority as usize;
        let lane = self.lanes.iter_mut().find(|lane| lane.takes(first))?;
        let works = &self.works;
        let same = |number: &mut u64| works.get(number).map(|work| work.address.domain()) == domain.as_ref();
        let returned = lane.returned[class].pop_front_if(same);
        returned.or_else(|| lane.classes[class].get(&first.owner)?.get(domain)?.pop_front())
    }

    /// Takes a work out, and its lane with the last one in it.
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

    /// Takes all works of a class from a lane. An empty lane is removed, and another lane may take its index.
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

    fn has_before(&self, routes: u64) -> bool {
        self.tried & routes == 0
    }
}

/// Owners in the order of their turns. An owner without works has no turn.
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
    /// The member called `key`; a new one is the last.
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

    /// The first had its turn: it is the last, or gone if it has nothing left.
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
