//! Turns: the owners of requests (accounts) share a queue, and the one whose turn has passed goes to its end. The works of a group
//! wait in such turns for a transaction (`queue.rs`), and groups wait in them for a session ([`Waiting`]).

use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use engine_proto::limits::QUEUE_PASSED_MAX;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Where a group stands among those that wait for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whether a single check waits in the group.
    pub(crate) is_single: bool,
    /// The owner of the work that comes first in the group.
    pub(crate) owner: u64,
}

/// Those that wait for a session. With single checks, they come first, but after they came first [`QUEUE_PASSED_MAX`] times in a row,
/// one without is next. So at least a tenth of the sessions are for rows, as long as rows wait. In each of these two classes, the
/// owners take turns.
pub(crate) struct Waiting<T> {
    singles: Ring<u64, VecDeque<T>>,
    rows: Ring<u64, VecDeque<T>>,
    /// How many times in a row the rows were passed over.
    passed: u8,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { singles: Ring::default(), rows: Ring::default(), passed: 0 }
    }
}

impl<T> Waiting<T> {
    pub(crate) fn push(&mut self, turn: Turn, one: T) {
        let class = if turn.is_single { &mut self.singles } else { &mut self.rows };
        class.join(turn.owner).push_back(one);
    }

    /// Takes out the one that is next.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.pop_if(true, true)
    }

    /// Takes out the one that is next, if there is room for it: for one with single checks, and for one with rows only.
    pub(crate) fn pop_if(&mut self, single_room: bool, rows_room: bool) -> Option<T> {
        let is_owed = self.passed >= QUEUE_PASSED_MAX && !planted(Fault::Break(Invariant::SessionTurns));
        let takes_rows = self.singles.is_empty() || is_owed && rows_room && !self.rows.is_empty();
        if !(if takes_rows { rows_room } else { single_room }) {
            return None;
        }
        self.passed =
            if takes_rows || self.rows.is_empty() || !rows_room { 0 } else { self.passed.saturating_add(1) };
        holds(Invariant::SessionTurns, || self.passed <= QUEUE_PASSED_MAX);
        let class = if takes_rows { &mut self.rows } else { &mut self.singles };
        let next = class.first().and_then(VecDeque::pop_front);
        class.pass(VecDeque::is_empty);
        next
    }

    /// All that wait, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.singles.iter().chain(self.rows.iter()).flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.singles.is_empty() && self.rows.is_empty()
    }
}

/// Members that take turns, such as the owners of works.
pub(crate) struct Ring<K, V> {
    order: VecDeque<K>,
    members: BTreeMap<K, V>,
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Ring<K, V> {
        Ring { order: VecDeque::new(), members: BTreeMap::new() }
    }
}

impl<K: Clone + Ord, V: Default> Ring<K, V> {
    /// The member with this key. If there is none yet, adds it at the end of the order.
    pub(crate) fn join(&mut self, key: K) -> &mut V {
        match self.members.entry(key) {
            Entry::Occupied(member) => member.into_mut(),
            Entry::Vacant(member) => {
                self.order.push_back(member.key().clone());
                member.insert(V::default())
            }
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        self.members.get_mut(key)
    }

    pub(crate) fn first_key(&self) -> Option<&K> {
        self.order.front()
    }

    pub(crate) fn first(&mut self) -> Option<&mut V> {
        self.members.get_mut(self.order.front()?)
    }

    /// Ends the turn of the first member. The member goes to the end of the order, or is removed if it has nothing left.
    pub(crate) fn pass(&mut self, has_nothing: impl Fn(&V) -> bool) {
        let Some(key) = self.order.pop_front() else { return };
        if self.members.get(&key).is_some_and(has_nothing) {
            self.members.remove(&key);
        } else {
            self.order.push_back(key);
        }
    }

    /// The members, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.members.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes out all that wait.
    fn order(mut waiting: Waiting<&'static str>) -> Vec<&'static str> {
        let mut order = Vec::new();
        while let Some(next) = waiting.pop() {
            order.push(next);
        }
        assert!(waiting.is_empty());
        order
    }

    #[test]
    fn single_checks_come_first_and_owners_take_turns() {
        let mut waiting = Waiting::default();
        for (owner, is_single, name) in [
            (1, false, "row of 1"),
            (1, false, "second row of 1"),
            (1, true, "check of 1"),
            (1, true, "second check of 1"),
            (2, false, "row of 2"),
            (2, true, "check of 2"),
        ] {
            waiting.push(Turn { is_single, owner }, name);
        }
        assert_eq!(
            order(waiting),
            ["check of 1", "check of 2", "second check of 1", "row of 1", "row of 2", "second row of 1"]
        );
    }

    #[test]
    fn a_tenth_of_the_sessions_is_for_rows() {
        let mut waiting = Waiting::default();
        for at in 0..40 {
            waiting.push(Turn { is_single: true, owner: at % 3 }, "check");
        }
        for at in 0..3 {
            waiting.push(Turn { is_single: false, owner: at }, "row");
        }
        let order = order(waiting);
        let rows: Vec<usize> = (0..order.len()).filter(|&at| order[at] == "row").collect();
        assert_eq!(rows, [9, 19, 29]);
    }
}
