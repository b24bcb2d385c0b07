//! The codes of reasons in tables. A code never changes its meaning.

use crate::row::{Codec, In, Out};
use crate::tables::CountCode;
use api::{Reason, UnverifiableCause as Cause, WaitCause};
use store::Verdict;

/// The code of an unanswered row.
pub(crate) const UNANSWERED: u8 = 0;

/// The code of a row of a batch that was ended: it is shown as `unverifiable` and refunded. Up to format 10 also that of a row that
/// nobody was asked about.
pub(crate) const GIVEN_UP: u8 = 255;

/// The code of an unanswered row that waits for this.
pub(crate) fn wait_code(cause: WaitCause) -> u8 {
    match cause {
        WaitCause::Queue => UNANSWERED,
        WaitCause::RetryLater => 250,
        WaitCause::NoAnswer => 251,
        WaitCause::RefusalBudget => 252,
        WaitCause::Outage => 253,
    }
}

/// What a row waits for; `None` for an answered row.
pub(crate) fn wait_of(byte: u8) -> Option<WaitCause> {
    WaitCause::ALL.into_iter().find(|&cause| wait_code(cause) == byte)
}

/// Whether this is the code of an unanswered row.
pub(crate) fn is_open(byte: u8) -> bool {
    wait_of(byte).is_some()
}

/// The code of a reason.
pub(crate) fn code(reason: Reason) -> u8 {
    match reason {
        Reason::MailboxExists => 1,
        Reason::RoleAccount => 2,
        Reason::InvalidSyntax => 3,
        Reason::Disposable => 4,
        Reason::Spamtrap => 5,
        Reason::InboxFull => 6,
        Reason::MailboxDisabled => 7,
        Reason::CatchAll => 8,
        Reason::MailboxNotFound => 9,
        Reason::Unverifiable => 10,
        Reason::PossibleTypo => 11,
        Reason::NoMx => 12,
        Reason::FastCheckPassed => 13,
    }
}

/// Whether a row with this code is refunded, because nobody has answered about it.
pub(crate) fn is_refunded(byte: u8) -> bool {
    byte == GIVEN_UP || cause_of(byte).is_some_and(Cause::is_free)
}

/// The cause of an `unverifiable` answer, if its code has one: see [`Cause`].
pub(crate) fn cause_of(byte: u8) -> Option<Cause> {
    Cause::ALL.iter().copied().find(|&cause| cause as u8 == byte)
}

/// The code of a verdict.
pub(crate) fn verdict_code(verdict: &Verdict) -> u8 {
    let cause = verdict.cause.filter(|_| verdict.reason == Reason::Unverifiable).map(|cause| cause as u8);
    cause.filter(|&code| !is_refunded(code)).unwrap_or_else(|| code(verdict.reason))
}

/// The code of a row that nobody was asked about.
pub(crate) fn unanswered_code(cause: Option<Cause>) -> u8 {
    cause.map(|cause| cause as u8).filter(|&code| is_refunded(code)).unwrap_or(GIVEN_UP)
}

/// The reason of an answer that is not refunded.
pub(crate) fn of_code(byte: u8) -> Option<Reason> {
    let is_cause = !is_refunded(byte) && cause_of(byte).is_some();
    if is_cause { Some(Reason::Unverifiable) } else { exactly(byte) }
}

/// The reason of a code from [`code`].
pub(crate) fn exactly(byte: u8) -> Option<Reason> {
    Reason::ALL.into_iter().find(|&reason| code(reason) == byte)
}

impl Codec for Reason {
    fn write(&self, out: &mut Out) {
        out.byte(code(*self));
    }

    fn read(input: &mut In<'_>) -> Option<Reason> {
        exactly(input.byte()?)
    }
}

/// The code of a count in a list: that of a reason, or that of a cause.
impl Codec for CountCode {
    fn write(&self, out: &mut Out) {
        out.byte(self.0);
    }

    fn read(input: &mut In<'_>) -> Option<CountCode> {
        input.byte().filter(|&byte| exactly(byte).is_some() || cause_of(byte).is_some()).map(CountCode)
    }
}

/// The reason in a row of a batch; `None` for an unanswered row or an unknown code.
pub(crate) fn of_answer(byte: u8) -> Option<Reason> {
    if is_refunded(byte) { Some(Reason::Unverifiable) } else { of_code(byte) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_back_and_nothing_else_does() {
        let found: Vec<_> = (0..=255).filter_map(exactly).collect();
        assert_eq!(found.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(of_code(code(reason)), Some(reason));
            assert_eq!(of_answer(code(reason)), Some(reason));
        }
        assert_eq!((of_answer(UNANSWERED), of_answer(GIVEN_UP)), (None, Some(Reason::Unverifiable)));
        for cause in WaitCause::ALL {
            let code = wait_code(cause);
            assert_eq!((wait_of(code), of_answer(code), is_open(code)), (Some(cause), None, true));
        }
        assert!((0..=255).all(|code| !is_open(code) || of_answer(code).is_none()));
        let causes: Vec<_> = (0..=255).filter_map(cause_of).collect();
        assert_eq!(causes.len(), Cause::ALL.len());
        for &cause in Cause::ALL {
            let byte = cause as u8;
            assert_eq!((cause_of(byte), of_answer(byte)), (Some(cause), Some(Reason::Unverifiable)));
            let unasked = matches!(cause, Cause::RefusalBudget | Cause::Outage);
            assert_eq!((is_refunded(byte), of_code(byte).is_none(), exactly(byte)), (unasked, unasked, None));
            let verdict = Verdict { cause: Some(cause), ..Reason::Unverifiable.into() };
            assert_eq!(verdict_code(&verdict), if unasked { 10 } else { byte });
            assert_eq!(verdict_code(&Verdict { reason: Reason::CatchAll, ..verdict }), 8);
            assert_eq!(unanswered_code(Some(cause)), if unasked { byte } else { GIVEN_UP });
        }
    }
}
