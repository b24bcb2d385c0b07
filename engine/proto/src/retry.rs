//! Decides when mailprobe asks about an address again, if the last try gave no clear answer or none at all. This module has the
//! delays after a mail server's reply, and the schedules of rows. After a failed look-up for one domain, [`crate::dns::ttl`]
//! decides.
//!
//! The engine itself soon asks about an address once more, both for a [single check](SINGLE_RETRY_MIN) and for a
//! [row](TRANSIENT_WAIT). After that, batches (`frontend/checks/src/batch/queue.rs`) and lists of the command line
//! (`frontend/clean/src/driver/answers.rs`) ask again according to a [`Schedule`], which depends on the cause of the retry. The
//! caller remembers the times and the [`Tries`] of each address.
//!
//! | cause | batch or uploaded list | list of the command line |
//! | --- | --- | --- |
//! | greylisting, and other servers that want to be asked later | [`BATCH_LATER`] | [`CLEAN_LATER`] |
//! | the budget of refused recipients is used up | [`BATCH_BUDGET`] | [`CLEAN_BUDGET`] |
//! | DNS or our network is out of order | [`BATCH_OUTAGE`] | each row every [`CLEAN_OUTAGE_PAUSE`], or every half of a short `--max-outage` |
//!
//! In lists of the command line, the retries for all causes in the first row count towards one limit; batches do not count them.
//! After greylisting, the wanted delay is [`GREYLISTING_WAIT`], whatever delay the server names.
//!
//! [`BATCH_LATER`] and [`CLEAN_LATER`] differ, because a batch runs for hours without a user. So its delays double, and a row is
//! answered at once if its server wants a delay that is longer than the time that is left for the row. The user of a command waits
//! for the list, and has chosen the length of the wait. So delays do not double, and a row has a last try at the end of the wait.
//!
//! The control recipient of a domain, a recipient that does not exist, changes each day (UTC; `control_recipient` in
//! `engine/src/asking.rs`). So after midnight a greylisting server does not know the new one yet. Schedules with delays of several
//! hours have to take this into account.

use crate::limits::CONTROL_TRANSIENT_TTL;
use crate::verdict::classify::rules;
use crate::verdict::{Class, Scope};
use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

/// The parameters of the retries of one cause. The wait of an address is the total time that its retries may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Shortest delay before a retry, even if the server wants a shorter one. Only the end of the wait can shorten the delay.
    pub delay_min: Duration,
    /// Longest delay before a retry, even if the server wants a longer one.
    pub delay_max: Duration,
    /// Whether each delay is at least twice the last one, unless `delay_max` or the end of the wait shortens it.
    pub is_doubling: bool,
    /// The highest number of retries of one address; `None` if only the wait limits them. Batches do not count retries, so their
    /// schedules have `None`.
    pub retries_max: Option<u8>,
    /// Whether the address has a last try at the end of the wait if the server wants a longer delay than is left. Without a last
    /// try, the wait ends at once.
    pub has_last_try: bool,
}

/// The earlier tries of one address for one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Number of retries so far. Only schedules with `retries_max` use this number.
    pub retries: u8,
    /// The delay before the last retry. Only schedules with `is_doubling` use this delay.
    pub last_delay: Duration,
}

/// After a transient reply, a single check asks about its address once more after this time, or up to [`SINGLE_RETRY_SPREAD`]
/// later. By then, Postfix has finished its postscreen tests or its verification of the recipient.
pub const SINGLE_RETRY_MIN: Duration = Duration::from_secs(5);
/// The longest random time that is added to [`SINGLE_RETRY_MIN`].
pub const SINGLE_RETRY_SPREAD: Duration = Duration::from_secs(3);
/// After a transient reply about a row, mailprobe asks about the row once more after this time. The cause of such a reply, such as
/// a failed look-up or too many processes, ends within seconds or lasts for hours.
pub const TRANSIENT_WAIT: Duration = Duration::from_secs(10);
/// A greylisted recipient may be asked about again after this time, even if the server names a longer or shorter one. This is the
/// default delay of Postgrey.
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
/// has a limit. A row has a last try, because it has no answer yet and would otherwise be refunded.
pub const BATCH_BUDGET: Schedule =
    Schedule { delay_max: Duration::from_secs(300), is_doubling: false, has_last_try: true, ..BATCH_LATER };

/// The largest number of retries of a row of `mailprobe clean`.
pub const CLEAN_RETRIES: u8 = 8;
/// Rows of `mailprobe clean`: the server wants to be asked later. Greylisting servers require one to fifteen minutes, and the delay
/// that they name is often a guess.
pub const CLEAN_LATER: Schedule = Schedule {
    delay_min: Duration::from_millis(1),
    delay_max: Duration::from_secs(15 * 60),
    is_doubling: false,
    retries_max: Some(CLEAN_RETRIES),
    has_last_try: true,
};
/// Rows of `mailprobe clean`: the budget of the site is used up. There may be thousands of such rows, so the delay has a minimum,
/// even if the engine gives a shorter one. There is no last try before the engine's delay is over, because the budget would still
/// be used up.
pub const CLEAN_BUDGET: Schedule = Schedule {
    delay_min: Duration::from_secs(1),
    delay_max: Duration::MAX,
    is_doubling: false,
    retries_max: None,
    has_last_try: false,
};
/// How long a row of `mailprobe clean` waits for its next try if the last one failed because of an outage.
pub const CLEAN_OUTAGE_PAUSE: Duration = Duration::from_secs(5);

impl Schedule {
    /// The delay before the next retry; `None` if there is none, so that the wait of the address ends now.
    ///
    /// `wanted` is the delay that the server or the engine asks for. `left` is the time that is left of the wait (see [`left`]).
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

/// The time that is left of a wait that began at `since` and lasts for `wait` in all. `since` and `now` are milliseconds of one
/// clock. If the clock was set back to before `since`, the whole wait is left.
pub fn left(wait: Duration, since: u64, now: u64) -> Duration {
    wait.saturating_sub(Duration::from_millis(now.saturating_sub(since)))
}

/// Whether an unverifiable result is about the address itself: it is final, or it follows from a reply about this recipient. If a
/// session ended or a connection failed, the result is not about the address. `rule` is the rule of the finding, and `retry_after`
/// its delay.
pub fn is_about_address(rule: &str, retry_after: Option<Duration>) -> bool {
    let about_recipient = || rules().any(|(name, _, scope, _)| name == rule && scope == Scope::Recipient);
    retry_after.is_none() || about_recipient()
}

/// Rules after which a later check gives the same answer. Each unverifiable answer is looked up here.
static CLOSED: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let stays = |class, scope| match class {
        Class::AuthRequired => true,
        Class::Policy | Class::Unclear => matches!(scope, Scope::Us | Scope::Sender | Scope::Recipient),
        _ => false,
    };
    let of_replies = rules().filter(|&(_, class, scope, _)| stays(class, scope)).map(|(name, ..)| name);
    // The last one is the rule of a reply without a meaning.
    of_replies.chain(["accepts_everything", "ipv6_only", "no_source", "no_smtputf8", "no-meaning"]).collect()
});

/// Whether a later check may show more about an address that is unverifiable by this rule. It shows no more if the server requires
/// authentication, or if the server refuses us, our reverse-path or the recipient by its policy or in unclear words: then somebody
/// first has to remove the cause. docs/verdicts.md ("Acting on `unverifiable`") says what to do for each rule.
pub fn may_tell_more(rule: &str) -> bool {
    !CLOSED.contains(rule)
}

#[cfg(test)]
mod tests;
