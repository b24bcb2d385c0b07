//! The states of an endpoint.
//!
//! ```text
//!            410, or three days of failures, or its owner
//!  enabled ------------------------------------------------> disabled
//!          <------------------------------------------------
//!                             its owner
//! ```

use super::schedule::FAILING_MS_MAX;
use crate::UnixMs;

/// The reason why an endpoint is disabled. The numbers are those in the tables, where 0 is an endpoint that is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableReason {
    /// Its owner has disabled it.
    Owner = 1,
    /// It has answered 410.
    Gone = 2,
    /// All attempts of three days have failed.
    Failures = 3,
}

impl DisableReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DisableReason; 3] = [DisableReason::Owner, DisableReason::Gone, DisableReason::Failures];
}

/// Whether an endpoint gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointState {
    /// It gets messages.
    Enabled,
    /// It gets no messages.
    Disabled(DisableReason),
}

/// The state of an endpoint with what decides about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Whether it gets messages.
    pub state: EndpointState,
    /// The time of the first failure since the last success.
    pub failing_since: Option<UnixMs>,
}

impl EndpointHealth {
    /// The health of a new endpoint.
    pub const NEW: EndpointHealth = EndpointHealth { state: EndpointState::Enabled, failing_since: None };

    /// Whether it gets messages.
    pub fn is_enabled(&self) -> bool {
        self.state == EndpointState::Enabled
    }

    /// An attempt has succeeded.
    pub fn on_success(&mut self) {
        self.failing_since = None;
    }

    /// An attempt has failed. If the owner has disabled the endpoint during the attempt, it stays disabled.
    pub fn on_failure(&mut self, now: UnixMs, is_gone: bool) {
        let since = *self.failing_since.get_or_insert(now);
        if !self.is_enabled() {
            return;
        }
        if is_gone {
            self.state = EndpointState::Disabled(DisableReason::Gone);
        } else if now.saturating_sub(since) >= FAILING_MS_MAX {
            self.state = EndpointState::Disabled(DisableReason::Failures);
        }
    }

    /// The owner has changed its URL, so earlier failures no longer count. An endpoint that is disabled stays so.
    pub fn on_new_url(&mut self) {
        self.failing_since = None;
    }

    /// The owner enables or disables it. An endpoint that is enabled again begins without earlier failures.
    pub fn set_enabled(&mut self, enabled: bool) {
        match (enabled, self.state) {
            (true, EndpointState::Disabled(_)) => *self = EndpointHealth::NEW,
            (false, EndpointState::Enabled) => self.state = EndpointState::Disabled(DisableReason::Owner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Step {
        Success,
        Failure(UnixMs),
        Gone(UnixMs),
        Enable,
        Disable,
        Move,
    }

    #[test]
    fn states_follow_from_attempts_and_the_owner() {
        use DisableReason::{Failures, Gone, Owner};
        use Step::{Disable, Enable, Failure, Move, Success};
        const DAY: UnixMs = 24 * 60 * 60 * 1000;
        let enabled = EndpointState::Enabled;
        let disabled = EndpointState::Disabled;
        for (steps, state, failing_since) in [
            (&[][..], enabled, None),
            (&[Failure(5)], enabled, Some(5)),
            (&[Failure(5), Failure(DAY)], enabled, Some(5)),
            (&[Failure(5), Success], enabled, None),
            (&[Failure(0), Failure(3 * DAY - 1)], enabled, Some(0)),
            (&[Failure(0), Failure(3 * DAY)], disabled(Failures), Some(0)),
            (&[Failure(0), Success, Failure(3 * DAY), Failure(4 * DAY)], enabled, Some(3 * DAY)),
            (&[Step::Gone(7)], disabled(Gone), Some(7)),
            (&[Step::Gone(7), Enable], enabled, None),
            (&[Disable], disabled(Owner), None),
            (&[Disable, Step::Gone(7)], disabled(Owner), Some(7)),
            (&[Disable, Failure(0), Failure(9 * DAY)], disabled(Owner), Some(0)),
            (&[Step::Gone(7), Disable], disabled(Gone), Some(7)),
            (&[Failure(0), Failure(3 * DAY), Enable, Failure(3 * DAY + 1)], enabled, Some(3 * DAY + 1)),
            (&[Failure(1), Enable], enabled, Some(1)),
            (&[Failure(5), Move], enabled, None),
            (&[Failure(0), Move, Failure(3 * DAY)], enabled, Some(3 * DAY)),
            (&[Step::Gone(7), Move], disabled(Gone), None),
            // A clock that goes back.
            (&[Failure(9 * DAY), Failure(0)], enabled, Some(9 * DAY)),
        ] {
            let mut health = EndpointHealth::NEW;
            for step in steps {
                match *step {
                    Success => health.on_success(),
                    Failure(at) => health.on_failure(at, false),
                    Step::Gone(at) => health.on_failure(at, true),
                    Enable => health.set_enabled(true),
                    Disable => health.set_enabled(false),
                    Move => health.on_new_url(),
                }
            }
            assert_eq!(health, EndpointHealth { state, failing_since });
        }
    }
}
