//! Servers that distinguish mailboxes only for a while, or only on some nodes: the trigger of the change, and the
//! behaviour after it.

use super::texts::Text;
use std::time::Duration;

/// The behaviour of a host that no longer distinguishes mailboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It accepts every recipient of its domains.
    AcceptsAll,
    /// It refuses every recipient of its domains, in words that deny that the mailbox exists.
    RefusesAll(Text),
}

/// The count or the time at which a host changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Unknown recipients of the session. The next session gets true answers again until it reaches this count.
    Session(u32),
    /// Unknown recipients of the client at all hosts of the site.
    Client(u32),
    /// Unknown recipients of all clients at the host: the count, and how many of them per minute come from other
    /// clients.
    Host(u32, u32),
    /// A time: the host's directory is down from then on.
    Time(Duration),
}

/// A change of a host, which happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostChange {
    pub trigger: Trigger,
    pub turn: Turn,
}

/// Nodes behind one address that all behave alike, and differently from the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// How many of 256 connections reach these nodes.
    pub share: u8,
    pub turn: Turn,
}

/// Unknown recipients that were refused so far: in the session, and at the site and host in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    pub session: u32,
    pub client: u32,
    pub host: u32,
}

impl HostChange {
    /// The behaviour of the host at the time `now`, if it has changed.
    pub fn now(&self, refused: Refused, now: Duration) -> Option<Turn> {
        let due = match self.trigger {
            Trigger::Session(most) => refused.session >= most,
            Trigger::Client(most) => refused.client >= most,
            Trigger::Host(most, others) => {
                refused.host.saturating_add(others.saturating_mul((now.as_secs() / 60) as u32)) >= most
            }
            Trigger::Time(at) => now >= at,
        };
        due.then_some(self.turn)
    }

    /// Whether the change also applies to every later session.
    pub fn lasts(&self) -> bool {
        !matches!(self.trigger, Trigger::Session(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_changes_when_its_own_count_is_reached() {
        let minute = Duration::from_secs(60);
        let counted = |session, client, host| Refused { session, client, host };
        for (trigger, refused, now, changed) in [
            (Trigger::Session(3), counted(2, 90, 90), minute, false),
            (Trigger::Session(3), counted(3, 3, 3), minute, true),
            (Trigger::Client(7), counted(6, 6, 90), minute, false),
            (Trigger::Client(7), counted(0, 7, 0), minute, true),
            (Trigger::Host(12, 0), counted(11, 90, 11), minute, false),
            (Trigger::Host(12, 0), counted(0, 0, 12), minute, true),
            (Trigger::Host(12, 2), counted(0, 0, 0), 5 * minute, false),
            (Trigger::Host(12, 2), counted(0, 0, 0), 6 * minute, true),
            (Trigger::Time(minute), counted(90, 90, 90), minute - Duration::from_nanos(1), false),
            (Trigger::Time(minute), counted(0, 0, 0), minute, true),
        ] {
            let change = HostChange { trigger, turn: Turn::AcceptsAll };
            let turn = changed.then_some(Turn::AcceptsAll);
            assert_eq!(change.now(refused, now), turn, "{trigger:?} after {refused:?}");
        }
    }
}
