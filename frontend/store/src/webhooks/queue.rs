//! The order of the messages of one object at one endpoint.

use super::schedule::next_attempt;
use crate::{MessageId, UnixMs};

/// The messages of a batch or list that wait at an endpoint. Only the first is attempted. The others wait until it is
/// delivered or given up, so they arrive in the order of their events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectQueue {
    /// The messages in the order of their events.
    pub messages: Vec<MessageId>,
    /// How many attempts of the first message have failed.
    pub failed: u32,
    /// The time of the next attempt of the first message.
    pub due_at: UnixMs,
}

impl ObjectQueue {
    /// The message that is attempted next.
    pub fn first(&self) -> Option<MessageId> {
        self.messages.first().copied()
    }

    /// Adds a message behind all others.
    pub fn push(&mut self, message: MessageId, now: UnixMs) {
        if self.messages.is_empty() {
            (self.failed, self.due_at) = (0, now);
        }
        self.messages.push(message);
    }

    /// Adds a message before all others, due at once. The others wait until it is delivered or given up.
    pub fn push_first(&mut self, message: MessageId, now: UnixMs) {
        self.messages.insert(0, message);
        (self.failed, self.due_at) = (0, now);
    }

    /// Removes the first message, which was delivered or given up. The next one is due at once.
    pub fn end_first(&mut self, now: UnixMs) {
        if !self.messages.is_empty() {
            self.messages.remove(0);
        }
        (self.failed, self.due_at) = (0, now);
    }

    /// An attempt of the first message has failed. Returns whether the message is given up.
    pub fn on_failure(&mut self, now: UnixMs, jitter: u16) -> bool {
        self.failed = self.failed.saturating_add(1);
        match next_attempt(self.failed, now, jitter) {
            Some(at) => {
                self.due_at = at;
                false
            }
            None => {
                self.end_first(now);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{ATTEMPTS_MAX, WAITS_MS};
    use super::*;

    fn message(number: u128) -> MessageId {
        MessageId::new(1, number)
    }

    fn queue(numbers: &[u128], failed: u32, due_at: UnixMs) -> ObjectQueue {
        ObjectQueue { messages: numbers.iter().copied().map(message).collect(), failed, due_at }
    }

    #[test]
    fn the_first_message_goes_first_whatever_happens_to_it() {
        let mut two = ObjectQueue::default();
        two.push(message(1), 10);
        assert_eq!(two, queue(&[1], 0, 10));
        assert!(!two.on_failure(20, 0));
        two.push(message(2), 30);
        // The second one does not change the time of the first.
        assert_eq!(two, queue(&[1, 2], 1, 20 + WAITS_MS[0]));
        two.end_first(40_000);
        assert_eq!(two, queue(&[2], 0, 40_000));
        two.end_first(50_000);
        assert_eq!(two.first(), None);
        two.push(message(3), 60_000);
        assert_eq!(two, queue(&[3], 0, 60_000));
    }

    #[test]
    fn a_message_is_given_up_after_its_last_attempt() {
        let mut two = queue(&[1, 2], 0, 0);
        for attempt in 1..ATTEMPTS_MAX {
            let now = two.due_at;
            assert!(!two.on_failure(now, u16::MAX), "{attempt}");
            assert_eq!((two.first(), two.failed), (Some(message(1)), attempt));
        }
        let now = two.due_at;
        assert!(two.on_failure(now, 0));
        assert_eq!(two, queue(&[2], 0, now));
    }

    #[test]
    fn a_message_before_all_others_does_not_wait_for_their_attempts() {
        let mut two = queue(&[1, 2], 3, 90_000);
        two.push_first(message(3), 40_000);
        assert_eq!(two, queue(&[3, 1, 2], 0, 40_000));
        two.end_first(41_000);
        assert_eq!(two, queue(&[1, 2], 0, 41_000));
    }

    #[test]
    fn an_empty_queue_survives_everything() {
        let mut none = ObjectQueue::default();
        none.end_first(5);
        assert!(!none.on_failure(5, 0));
        assert_eq!(none.first(), None);
    }
}
