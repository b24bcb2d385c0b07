//! Decides when an address is asked about again, if its answer decided nothing or if it got none: the delays after a reply of a
//! mail server, the schedules of rows, and what applies to both. After a failure of DNS, [`crate::dns::ttl`] decides.
//!
//! The engine itself soon asks about an address once more, both for a [single check](SINGLE_RETRY_MIN) and for a
//! [row](TRANSIENT_WAIT). After that, batches (`frontend/checks/src/batch/queue.rs`) and lists of the command line
//! (`frontend/clean/src/driver/answers.rs`) ask again by a [`Schedule`], which depends on the cause of the retry. The caller
//! remembers the times and the [`Tries`] of each address.
//!
//! The causes in the first row of this table share one number of retries. After greylisting, the wanted delay is
//! [`GREYLISTING_WAIT`], whatever the server names. A schedule limits such delays, and says how often and until when an address is
//! asked again.
//!
//! | cause | batch or uploaded list | list of the command line |
//! | --- | --- | --- |
//! | greylisting, and other servers that want to be asked later | [`BATCH_LATER`] | [`CLEAN_LATER`] |
//! | the budget of refused recipients is used up | [`BATCH_BUDGET`] | [`CLEAN_BUDGET`] |
//! | DNS or our network is out of order | [`BATCH_OUTAGE`] | each row every [`CLEAN_OUTAGE_PAUSE`] |
//!
//! The schedules for "later" differ for this reason: a batch runs for hours without a user, so its delays double, and a row is
//! answered at once if its server wants a longer delay than is left of the wait. The user of a command waits for the list, and has
//! chosen the length of the wait, so delays do not double, and a row has a last try at the end of the wait. The comments of the
//! other schedules give their reasons.
//!
//! Each day (UTC) has another control recipient (`control_recipient` in `engine/src/asking.rs`), and after midnight a greylisting
//! server does not know the new one yet. Schedules with delays of several hours have to take this into account.

use crate::limits::CONTROL_TRANSIENT_TTL;
use crate::verdict::classify::rules;
use crate::verdict::{Class, Scope};
use std::time::Duration;

/// The parameters of the retries of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Shortest delay before a retry, even if the server wants a shorter one. Only the end of the wait can make it shorter.
    pub delay_min: Duration,
    /// Longest delay before a retry, even if the server wants a longer one.
    pub delay_max: Duration,
    /// Whether each delay is at least twice the last one.
    pub is_doubling: bool,
    /// Maximum number of retries of one address; `None` if only the wait limits them. Batches do not count retries, so their
    /// schedules have `None`.
    pub retries_max: Option<u8>,
    /// If the server wants a longer delay than is left of the wait: whether the address has a last try at the end of the wait.
    /// Without it, the wait ends at once.
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

/// A single check is asked about once more this long after a transient reply, or up to [`SINGLE_RETRY_SPREAD`] later. By then,
/// Postfix has finished its postscreen tests or its verification of the recipient.
pub const SINGLE_RETRY_MIN: Duration = Duration::from_secs(5);
/// The random part of that delay.
pub const SINGLE_RETRY_SPREAD: Duration = Duration::from_secs(3);
/// A row that got a transient reply is asked about once more after this time. The cause of such a reply, such as a failed look-up
/// or too many processes, ends within seconds or lasts for hours.
pub const TRANSIENT_WAIT: Duration = Duration::from_secs(10);
/// A greylisted recipient may be asked about again after this time, even if the server names another one. This is the default delay
/// of Postgrey.
pub const GREYLISTING_WAIT: Duration = Duration::from_secs(300);

const _: () = assert!(CONTROL_TRANSIENT_TTL.as_millis() < SINGLE_RETRY_MIN.as_millis());

/// Rows of batches: the server wants to be asked later.
pub const BATCH_LATER: Schedule = Schedule {
    delay_min: Duration::from_secs(1),
    delay_max: Duration::MAX,
    is_doubling: true,
    retries_max: None,
    has_last_try: false,
};
/// Rows of batches: DNS or our network is out of order.
pub const BATCH_OUTAGE: Schedule =
    Schedule { delay_max: Duration::from_secs(60), has_last_try: true, ..BATCH_LATER };
/// Rows of batches: the budget of the site is used up. Recipients that are accepted meanwhile may enlarge the budget, so the delay
/// has a limit. A row has a last try, because it has no answer yet and would be refunded.
pub const BATCH_BUDGET: Schedule =
    Schedule { delay_max: Duration::from_secs(300), is_doubling: false, has_last_try: true, ..BATCH_LATER };

/// Most retries of a row of the command line.
pub const CLEAN_RETRIES: u8 = 8;
/// Rows of the command line: the server wants to be asked later. Greylisting servers require one to fifteen minutes, and the delay
/// that they name is often a guess.
pub const CLEAN_LATER: Schedule = Schedule {
    delay_min: Duration::from_millis(1),
    delay_max: Duration::from_secs(15 * 60),
    is_doubling: false,
    retries_max: Some(CLEAN_RETRIES),
    has_last_try: true,
};
/// Rows of the command line: the budget of the site is used up. There may be thousands of such rows, so they do not return at once,
/// even if the engine gives a shorter delay. A last try before the engine's delay is over would find the budget still used up, so
/// there is none.
pub const CLEAN_BUDGET: Schedule = Schedule {
    delay_min: Duration::from_secs(1),
    delay_max: Duration::MAX,
    is_doubling: false,
    retries_max: None,
    has_last_try: false,
};
/// How long a row of the command line waits after an outage before its next try.
pub const CLEAN_OUTAGE_PAUSE: Duration = Duration::from_secs(5);

impl Schedule {
    /// The delay before the next retry; `None` if there is none, and the wait of the address ends now.
    ///
    /// `wanted` is the delay that the server or the engine asks for. `left` is what is left of the wait (see [`left`]).
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

/// What is left of a wait that began at `since` and lasts for `wait` in all. The two times are milliseconds of one clock. If the
/// clock was set back to before `since`, the whole wait is left.
pub fn left(wait: Duration, since: u64, now: u64) -> Duration {
    wait.saturating_sub(Duration::from_millis(now.saturating_sub(since)))
}

/// Whether an unverifiable result is about the address itself: the result is final, or it follows from a reply about this
/// recipient. A session that ended or a failed connection is not about the address. `rule` is the rule of the finding, and
/// `retry_after` its delay.
pub fn is_about_address(rule: &str, retry_after: Option<Duration>) -> bool {
    let about_recipient = || rules().any(|(name, _, scope, _)| name == rule && scope == Scope::Recipient);
    retry_after.is_none() || about_recipient()
}

/// Rules that are not in the table of replies, and the rule of a reply without a meaning, for which a later check gives the same
/// answer.
const CLOSED: [&str; 5] = ["accepts_everything", "ipv6_only", "no_source", "no_smtputf8", "no-meaning"];

/// Whether a later check may show more about an address that is unverifiable by this rule. It does not after a refusal of us or of
/// our reverse-path, or after a refusal that stops every check: then somebody first has to remove the cause. docs/verdicts.md
/// ("Acting on `unverifiable`") says what to do for each rule.
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
