//! The control recipient: does a domain refuse mailboxes that do not exist?
//!
//! No reply text says "catch-all". An accepted recipient proves its mailbox only where a recipient that nobody
//! owns is refused, permanently and for itself. Whatever else comes of the control recipient proves nothing,
//! and the address ends as unverifiable: the check fails closed.

use super::classify::{Classification, reason_at_rcpt};
use super::provider::Provider;
use super::{Class, Reason, Scope};

/// What the control recipient showed about its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlFinding {
    /// It was refused, permanently and for itself: the domain tells its mailboxes apart.
    RefusesUnknown,
    /// It was accepted: the domain accepts every recipient.
    AcceptsAll,
    /// Neither: a transient reply, a policy, a full mailbox of that name, a hang-up.
    Unknown,
}

impl ControlFinding {
    /// What the reply to the control recipient's RCPT says. A hang-up or a time-out is
    /// [`ControlFinding::Unknown`].
    pub fn of(control: &Classification) -> ControlFinding {
        match control.class {
            Class::Accepted if control.scope == Scope::Recipient => ControlFinding::AcceptsAll,
            Class::NotFound if control.permanent && control.scope == Scope::Recipient => {
                ControlFinding::RefusesUnknown
            }
            _ => ControlFinding::Unknown,
        }
    }
}

/// The verdict's reason from the address's own reply and, where that was an accept, from what the control
/// recipient showed. `role` is true for a role address such as `info@`.
pub fn settle(real: &Classification, control: Option<ControlFinding>, role: bool) -> Reason {
    match (reason_at_rcpt(real), control) {
        (Reason::MailboxExists, Some(ControlFinding::RefusesUnknown)) if role => Reason::RoleAccount,
        (Reason::MailboxExists, Some(ControlFinding::RefusesUnknown)) => Reason::MailboxExists,
        (Reason::MailboxExists, Some(ControlFinding::AcceptsAll)) => Reason::CatchAll,
        (Reason::MailboxExists, Some(ControlFinding::Unknown) | None) => Reason::Unverifiable,
        (reason, _) => reason,
    }
}

/// True for MX hosts that accept every RCPT and refuse only after DATA: their accepts, of the control recipient
/// too, show nothing, and addresses they accept end as [`Reason::Unverifiable`].
pub fn accepts_everything(mx: &str) -> bool {
    Provider::of_mx(mx) == Some(Provider::Yahoo)
}

/// Fewest and most characters of a control recipient's local part.
pub const CONTROL_LOCAL_PART_CHARS: std::ops::RangeInclusive<usize> = 16..=24;

const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

/// A local part that nobody owns, from 16 random bytes. It can be spoken like a name, because patterns such as
/// long hexadecimal strings or the word "test" are what spam traps and probe filters look for, and it ends in
/// digits, because 60 random bits of syllables and digits are no one's name.
pub fn control_local_part(random: [u8; 16]) -> String {
    let mut local = String::with_capacity(*CONTROL_LOCAL_PART_CHARS.end());
    let syllables = 6 + usize::from(random[15] & 3);
    for byte in &random[..syllables] {
        local.push(char::from(CONSONANTS[usize::from(byte & 15)]));
        local.push(char::from(VOWELS[usize::from(byte >> 4 & 3)]));
    }
    let digits = 4 + usize::from(random[15] >> 2 & 1);
    for byte in &random[9..9 + digits] {
        local.push(char::from(b'0' + byte % 10));
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(class: Class, scope: Scope, permanent: bool) -> Classification {
        Classification { class, scope, permanent, to_all: false, rule: "test" }
    }

    #[test]
    fn an_accept_needs_a_refused_control_recipient() {
        use ControlFinding::*;
        let accepted = found(Class::Accepted, Scope::Recipient, false);
        for (control, role, reason) in [
            (Some(RefusesUnknown), false, Reason::MailboxExists),
            (Some(RefusesUnknown), true, Reason::RoleAccount),
            (Some(AcceptsAll), false, Reason::CatchAll),
            (Some(AcceptsAll), true, Reason::CatchAll),
            (Some(Unknown), false, Reason::Unverifiable),
            (Some(Unknown), true, Reason::Unverifiable),
            (None, false, Reason::Unverifiable),
            (None, true, Reason::Unverifiable),
        ] {
            assert_eq!(settle(&accepted, control, role), reason, "{control:?} {role}");
        }
    }

    #[test]
    fn a_refusal_needs_no_control_recipient() {
        let missing = found(Class::NotFound, Scope::Recipient, true);
        for control in [None, Some(ControlFinding::AcceptsAll), Some(ControlFinding::Unknown)] {
            assert_eq!(settle(&missing, control, true), Reason::MailboxNotFound);
        }
        let full = found(Class::Full, Scope::Recipient, false);
        assert_eq!(settle(&full, None, false), Reason::InboxFull);
    }

    #[test]
    fn only_a_permanent_refusal_of_the_recipient_proves_that_unknown_ones_are_refused() {
        use ControlFinding::*;
        for (control, finding) in [
            (found(Class::NotFound, Scope::Recipient, true), RefusesUnknown),
            (found(Class::NotFound, Scope::Host, true), Unknown),
            (found(Class::NotFound, Scope::Recipient, false), Unknown),
            (found(Class::Accepted, Scope::Recipient, false), AcceptsAll),
            (found(Class::Policy, Scope::Us, true), Unknown),
            (found(Class::Unclear, Scope::Us, true), Unknown),
            (found(Class::Temporary, Scope::Recipient, false), Unknown),
            (found(Class::Full, Scope::Recipient, true), Unknown),
            (found(Class::ExistsThrottled, Scope::Recipient, false), Unknown),
            (found(Class::ExistsRestricted, Scope::Recipient, true), Unknown),
            (found(Class::Disabled, Scope::Recipient, true), Unknown),
            (found(Class::DomainDead, Scope::Site, true), Unknown),
            (found(Class::Relay, Scope::Host, true), Unknown),
        ] {
            assert_eq!(ControlFinding::of(&control), finding, "{control:?}");
        }
    }

    #[test]
    fn yahoo_accepts_everything() {
        assert!(accepts_everything("mta7.am0.yahoodns.net"));
        assert!(accepts_everything("mx-aol.mail.gm0.yahoodns.net."));
        assert!(!accepts_everything("aspmx.l.google.com"));
    }

    proptest! {
        #[test]
        fn control_local_parts_keep_their_shape(random: [u8; 16]) {
            let local = control_local_part(random);
            prop_assert!(CONTROL_LOCAL_PART_CHARS.contains(&local.len()), "{}", local);
            prop_assert!(local.starts_with(|c: char| c.is_ascii_lowercase()));
            prop_assert!(local.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        }
    }
}
