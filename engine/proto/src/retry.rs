//! The rules by which an address is asked about again, after an answer that decides nothing or without an answer.
//!
//! Batches (`frontend/checks/src/batch/queue.rs`) and lists of the command line (`frontend/clean/src/driver/answers.rs`) use
//! the same rules with their own parameters: a [`Schedule`] for each cause of a retry. The caller keeps the times and the
//! [`Tries`] of each address.

use crate::verdict::classify::rules;
use crate::verdict::{Class, Scope};
use std::time::Duration;

/// The parameters of the retries of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Shortest delay before a retry, whatever the server wants. Only the end of the wait makes it shorter.
    pub delay_min: Duration,
    /// Longest delay before a retry, whatever the server wants.
    pub delay_max: Duration,
    /// Whether each delay is at least twice the last one.
    pub is_doubling: bool,
    /// Maximum number of retries of one address; `None` if only the wait bounds them.
    pub retries_max: Option<u8>,
    /// Whether an address has a last try at the end of its wait if its server wants a longer delay than is left. Otherwise
    /// its wait ends at once.
    pub has_last_try: bool,
}

/// The earlier tries of one address for one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Number of retries so far. Only schedules with `retries_max` read it.
    pub retries: u8,
    /// The delay before the last retry. Only schedules with `is_doubling` read it.
    pub last_delay: Duration,
}

impl Schedule {
    /// The delay before the next retry; `None` if the wait of the address ends now.
    ///
    /// `wanted` is the delay that the server or the engine asks for, `left` is the rest of the wait ([`left`]).
    pub fn delay(&self, tries: Tries, wanted: Duration, left: Duration) -> Option<Duration> {
        let wanted = wanted.max(self.delay_min);
        let is_out_of_tries = self.retries_max.is_some_and(|max| tries.retries >= max);
        if left.is_zero() || is_out_of_tries || (wanted > left && !self.has_last_try) {
            return None;
        }
        let growing = if self.is_doubling { tries.last_delay.saturating_mul(2) } else { Duration::ZERO };
        Some(wanted.max(growing).min(self.delay_max).min(left))
    }
}

/// The rest of a wait that began at `since` and lasts `wait` in all. The two times are milliseconds of one clock. A clock that
/// was set back to before `since` leaves the whole wait.
pub fn left(wait: Duration, since: u64, now: u64) -> Duration {
    wait.saturating_sub(Duration::from_millis(now.saturating_sub(since)))
}

/// Whether an answer that leaves an address unverifiable is about this address: a server or DNS answered for it, finally or
/// for this recipient. An ended session, a failed connection and the like are not. `rule` is the rule of the finding, and
/// `retry_after` its delay.
pub fn is_about_address(rule: &str, retry_after: Option<Duration>) -> bool {
    let about_recipient = || rules().any(|(name, _, scope, _)| name == rule && scope == Scope::Recipient);
    retry_after.is_none() || about_recipient()
}

/// Rules of no reply, or of a reply without a meaning, after which a later check alone gives the same answer.
const CLOSED: [&str; 5] = ["accepts_everything", "ipv6_only", "no_source", "no_smtputf8", "no-meaning"];

/// Whether a later check may tell more about an address that this rule left unverifiable. Not after a refusal of us or of our
/// reverse-path, nor after one that no check can get past: its cause has to be removed first. docs/verdicts.md ("Acting on
/// `unverifiable`") says what to do for each rule.
pub fn may_tell_more(rule: &str) -> bool {
    let stays = |class, scope| match class {
        Class::AuthRequired => true,
        Class::Policy | Class::Unclear => matches!(scope, Scope::Us | Scope::Sender | Scope::Recipient),
        _ => false,
    };
    !CLOSED.contains(&rule) && !rules().any(|(name, class, scope, _)| name == rule && stays(class, scope))
}

#[cfg(test)]
mod tests;
