//! The codes of reasons in tables. A code never changes its meaning.

use crate::row::{Codec, In, Out};
use api::{Reason, WaitCause};

/// The code of an unanswered row.
pub(crate) const UNANSWERED: u8 = 0;

/// The code of a row of a batch that was ended: it is shown as `unverifiable` and refunded.
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

/// The reason of a code from [`code`].
pub(crate) fn of_code(byte: u8) -> Option<Reason> {
    Reason::ALL.into_iter().find(|&reason| code(reason) == byte)
}

impl Codec for Reason {
    fn write(&self, out: &mut Out) {
        out.byte(code(*self));
    }

    fn read(input: &mut In<'_>) -> Option<Reason> {
        of_code(input.byte()?)
    }
}

/// The reason in a row of a batch; `None` for an unanswered row or an unknown code.
pub(crate) fn of_answer(byte: u8) -> Option<Reason> {
    if byte == GIVEN_UP { Some(Reason::Unverifiable) } else { of_code(byte) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_back_and_nothing_else_does() {
        let found: Vec<_> = (0..=255).filter_map(of_code).collect();
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
    }
}
