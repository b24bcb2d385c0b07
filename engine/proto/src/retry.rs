//! When an address is asked about again, after an answer that decides nothing or without an answer: the delays after a reply of a
//! mail server, the schedules of rows, and the rules for both. After a failure of DNS, [`crate::dns::ttl`] decides.
//!
//! The engine itself asks about an address once more, soon: for a [single check](SINGLE_RETRY_MIN) and for a
//! [row](TRANSIENT_WAIT). After that, batches (`frontend/checks/src/batch/queue.rs`) and lists of the command line
//! (`frontend/clean/src/driver/answers.rs`) ask again by their [`Schedule`] for the cause of the retry. The caller keeps the times
//! and the [`Tries`] of each address.
//!
//! All causes of the first row share the number of retries. The delay after greylisting is [`GREYLISTING_WAIT`], whatever schedule
//! applies: a schedule bounds the delays that a server names, and says how often and until when an address is asked again.
//!
//! | cause | batch or uploaded list | list of the command line |
//! | --- | --- | --- |
//! | greylisting, and other servers that want to be asked later | [`BATCH_LATER`] | [`CLEAN_LATER`] |
//! | the budget of refused recipients is used up | [`BATCH_BUDGET`] | [`CLEAN_BUDGET`] |
//! | DNS or our network is out of order | [`BATCH_OUTAGE`] | each row every [`CLEAN_OUTAGE_PAUSE`] |
//!
//! For "later": a batch runs for hours without a user, so its delays double, and a row is answered at once if the server wants a
//! longer delay than the rest of the wait. The user of a command waits for the list, and has chosen the time of the wait: delays do
//! not double, and a row has a last try at the end of the wait. The other causes differ: each [`Schedule`] says why.
//!
//! A retry on another day (UTC) meets another control recipient, which a greylisting server does not know yet (`control_recipient`
//! in `engine/src/asking.rs`). Delays of several hours have to take this into account.

use crate::limits::CONTROL_TRANSIENT_TTL;
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
    /// Maximum number of retries of one address; `None` if only the wait bounds them. Batches keep no number of retries, so their
    /// schedules have `None`.
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

/// A single check is asked about once more this long after a transient reply, or up to [`SINGLE_RETRY_SPREAD`] later. By then
/// postscreen and the verification of recipients of Postfix have an answer.
pub const SINGLE_RETRY_MIN: Duration = Duration::from_secs(5);
/// The random part of that delay.
pub const SINGLE_RETRY_SPREAD: Duration = Duration::from_secs(3);
/// A row that met a transient failure is asked about once more after this time. The cause of such a reply (a failed look-up, too
/// many processes) ends within seconds or lasts for hours.
pub const TRANSIENT_WAIT: Duration = Duration::from_secs(10);
/// A greylisted recipient may be asked about again after this time, whatever time the server names: the default delay of Postgrey.
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
/// Rows of batches: the site must not be asked more for now. Recipients that are accepted meanwhile may extend its budget, so the
/// delay has a limit. A row has a last try, because it is refunded without an answer.
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
/// Rows of the command line: the site must not be asked more for now. There may be thousands of such rows, so they do not return at
/// once, even if the engine gives a shorter delay. Asking does not make room in the budget, so there is no last try.
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
