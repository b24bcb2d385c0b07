//! The control recipient: a recipient that does not exist. The reply to it shows whether its domain refuses mailboxes that do not
//! exist.
//!
//! No reply text says that a domain accepts every recipient. So an accept proves a mailbox only if the server refuses a recipient
//! of the same domain that does not exist. If the server refuses the control recipient permanently because it does not exist, an
//! accept proves a mailbox. If the server accepts the control recipient, the domain is a catch-all. Any other reply to the control
//! recipient proves nothing by itself: unless further questions give a proof (`evidence.rs`), the accepted address is unverifiable.

use super::classify::{Classification, reason_at_rcpt};
use super::provider::Provider;
use super::{Class, Reason, Scope};

/// What the reply to a control recipient shows about its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlFinding {
    /// The domain distinguishes its mailboxes: the control recipient was refused permanently because it does not exist, or it was
    /// refused in unclear words and further questions gave the proof (`evidence.rs`).
    RefusesUnknown,
    /// The control recipient was accepted. So the domain accepts every recipient.
    AcceptsAll,
    /// The reply shows neither: for example a transient reply, a refusal about us, a "mailbox full" or a hang-up.
    Unknown,
}

impl ControlFinding {
    /// The finding for a reply to RCPT of a control recipient. Without a reply, the finding is [`ControlFinding::Unknown`].
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

/// The reason of the verdict. The reply to the address itself (`real`) decides, unless it says that the mailbox exists: then the
/// finding of the control recipient decides. `role`: the address is a role address such as `info@`.
pub fn settle(real: &Classification, control: Option<ControlFinding>, role: bool) -> Reason {
    match (reason_at_rcpt(real), control) {
        (Reason::MailboxExists, Some(ControlFinding::RefusesUnknown)) if role => Reason::RoleAccount,
        (Reason::MailboxExists, Some(ControlFinding::RefusesUnknown)) => Reason::MailboxExists,
        (Reason::MailboxExists, Some(ControlFinding::AcceptsAll)) => Reason::CatchAll,
        (Reason::MailboxExists, Some(ControlFinding::Unknown) | None) => Reason::Unverifiable,
        (reason, _) => reason,
    }
}

/// Whether the MX host accepts every RCPT and refuses mail only after DATA. An accept from such a host shows nothing, either about
/// an address or about a control recipient, so the verdict is [`Reason::Unverifiable`].
pub fn accepts_everything(mx: &str) -> bool {
    Provider::of_mx(mx) == Some(Provider::Yahoo)
}

/// The lengths that the local part of a control recipient can have.
pub const CONTROL_LOCAL_PART_CHARS: std::ops::RangeInclusive<usize> = 11..=24;

const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";
const SEPARATORS: [&str; 4] = [".", "_", "-", ""];

/// The shape of the local parts of an installation's control recipients: the lengths of two words, the separator between them, and
/// the number of digits at the end.
///
/// Each installation draws its own shape. If all installations had the same shape, a server could recognize the control recipients
/// of every installation by one regular expression, and treat them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlShape {
    first: usize,
    separator: &'static str,
    second: usize,
    digits: usize,
}

impl ControlShape {
    /// Draws a shape from random bytes.
    pub fn draw(random: [u8; 16]) -> ControlShape {
        ControlShape {
            first: 6 + usize::from(random[0] % 5),
            separator: SEPARATORS[usize::from(random[1] % 4)],
            second: 5 + usize::from(random[2] % 5),
            digits: usize::from(random[3] % 5),
        }
    }

    /// The shape of the second control recipient. A domain that accepts every recipient may filter names of one shape, but is
    /// unlikely to filter names of both shapes.
    pub fn second(self) -> ControlShape {
        ControlShape {
            first: 6 + (self.first - 4) % 5,
            separator: if self.separator.is_empty() { "." } else { "" },
            second: self.second,
            digits: (self.digits + 2) % 5,
        }
    }

    /// Makes a local part from 16 bytes of a keyed hash. It has at least eleven random letters, so it is very unlikely that a
    /// mailbox of this name exists. It can be pronounced like a name, because filters look for patterns such as long hexadecimal
    /// strings or the word "test".
    pub fn local_part(self, hash: [u8; 16]) -> String {
        let mut letters = hash[..10].iter().flat_map(|byte| {
            let consonant = CONSONANTS[usize::from(byte & 15)];
            let vowel = VOWELS[usize::from(byte >> 4 & 3)];
            [char::from(consonant), char::from(vowel)]
        });
        let mut local: String = letters.by_ref().take(self.first).collect();
        local.push_str(self.separator);
        local.extend(letters.take(self.second));
        local.extend(hash[10..10 + self.digits].iter().map(|byte| char::from(b'0' + byte % 10)));
        local
    }
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

    /// The local part with `a` for each letter and `0` for each digit.
    fn outline(local: &str) -> String {
        let mark = |c: char| match c {
            _ if c.is_ascii_digit() => '0',
            _ if c.is_ascii_alphabetic() => 'a',
            _ => c,
        };
        local.chars().map(mark).collect()
    }

    #[test]
    fn installations_differ_in_the_shapes_of_their_names() {
        let mut shapes = std::collections::HashMap::<String, u32>::new();
        let mut state = 1u64;
        for _ in 0..1000 {
            let mut random = || {
                let mut bytes = [0; 16];
                for byte in &mut bytes {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *byte = (state >> 56) as u8;
                }
                bytes
            };
            let shape = ControlShape::draw(random());
            *shapes.entry(outline(&shape.local_part(random()))).or_default() += 1;
        }
        assert!(shapes.len() >= 50, "{} shapes", shapes.len());
        let most = shapes.values().max().copied().unwrap_or_default();
        assert!(most <= 50, "one shape has {most} of 1,000");
    }

    proptest! {
        #[test]
        fn control_local_parts_keep_their_shape(shape: [u8; 16], hash: [u8; 16], other: [u8; 16]) {
            let shape = ControlShape::draw(shape);
            let local = shape.local_part(hash);
            prop_assert!(CONTROL_LOCAL_PART_CHARS.contains(&local.len()), "{}", local);
            prop_assert!(local.starts_with(|c: char| c.is_ascii_lowercase()));
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
            prop_assert!(local.bytes().all(allowed), "{}", local);
            prop_assert_eq!(outline(&local), outline(&shape.local_part(other)));
            prop_assert!(outline(&local) != outline(&shape.second().local_part(hash)), "{}", local);
        }
    }
}
