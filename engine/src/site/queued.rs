//! Groups that wait for a session: at their site, for the network of their hosts, or in the shard.

use super::{Group, GroupState};
use crate::faults::{Fault, planted};
use crate::invariants::{Invariant, holds};
use crate::turns::Turn;
use std::rc::{Rc, Weak};

/// The wait of a group for a session.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// Whether the group waits among those with single checks.
    is_single: bool,
    number: u64,
}

/// A group in a queue for sessions. If its wait has ended in the meantime, for example because it waits for an earlier turn now, this
/// has no effect any more.
pub(crate) struct QueuedGroup {
    group: Weak<Group>,
    number: u64,
}

impl QueuedGroup {
    /// The group, if it still exists.
    pub(crate) fn group(&self) -> Option<Rc<Group>> {
        self.group.upgrade()
    }

    /// Ends the wait of the group, which has left the queue. `None` if this wait has ended already.
    pub(crate) fn leave(self) -> Option<Rc<Group>> {
        let group = self.group()?;
        let ended = group.state().wait.take_if(|wait| wait.number == self.number).is_some();
        ended.then_some(group)
    }
}

impl GroupState {
    /// Begins a wait for a session, and returns its turn and its number. `None` if the group waits already, unless it waits among
    /// those with rows only and now has a single check.
    fn begin_wait(&mut self) -> Option<(Turn, u64)> {
        let turn = self.queue.turn()?;
        let waits = self.wait.is_some_and(|wait| wait.is_single || !turn.is_single);
        if waits && !planted(Fault::Break(Invariant::QueuedOnce)) {
            return None;
        }
        let number = self.next_number();
        self.wait = Some(Wait { is_single: turn.is_single, number });
        Some((turn, number))
    }
}

impl Group {
    /// Begins a wait for a session, and returns its turn and what goes into the queue. `None` if the group waits already.
    pub(crate) fn queue_for_session(self: &Rc<Group>) -> Option<(Turn, QueuedGroup)> {
        let (turn, number) = self.state().begin_wait()?;
        Some((turn, QueuedGroup { group: Rc::downgrade(self), number }))
    }

    /// Queues the group at its site for a session, unless it waits already.
    pub(crate) fn queue_at_site(self: &Rc<Group>) {
        let site = &mut *self.site.state();
        let before = site.groups[self.slot].wait;
        let Some((turn, number)) = site.groups[self.slot].begin_wait() else { return };
        holds(Invariant::QueuedOnce, || {
            let is_same = |wait: Wait| wait.is_single == turn.is_single;
            let is_self = |other: &QueuedGroup| std::ptr::eq(other.group.as_ptr(), Rc::as_ptr(self));
            let is_it = |other: &QueuedGroup, wait: Wait| is_self(other) && other.number == wait.number;
            let queued = |wait: Wait| site.waiting.iter().any(|other| is_it(other, wait));
            !before.is_some_and(|wait| is_same(wait) && queued(wait))
        });
        site.waiting.push(turn, QueuedGroup { group: Rc::downgrade(self), number });
    }

    /// Whether another group of the site waits for a session and has works for it.
    pub(crate) fn is_another_queued(&self) -> bool {
        let site = self.site.state();
        let waits = |other: Rc<Group>| other.slot != self.slot && site.groups[other.slot].queue.len() > 0;
        site.waiting.iter().filter_map(QueuedGroup::group).any(waits)
    }
}
