//! The score of an address from 0 to 100, and its grade.
//!
//! The score is the sum of the points of all signals that hold, limited to 0 to 100. `SIGNALS` has all signals, and
//! docs/verdicts.md has the same table. The verdict has the most weight. Among addresses with the same verdict, the other facts
//! decide.

use crate::facts::{DmarcPolicy, DnsFacts};
use crate::verdict::Reason;

/// The grade of a score, from A to F.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// A score of at least 90.
    A,
    /// A score from 75 to 89.
    B,
    /// A score from 60 to 74.
    C,
    /// A score from 40 to 59.
    D,
    /// A score below 40.
    F,
}

/// The lowest score of each grade, the best grade first.
const GRADES: [(u8, Grade); 5] =
    [(90, Grade::A), (75, Grade::B), (60, Grade::C), (40, Grade::D), (0, Grade::F)];

impl Grade {
    /// The grade of a score.
    pub fn of(score: u8) -> Grade {
        GRADES.iter().find(|(least, _)| score >= *least).map_or(Grade::F, |(_, grade)| *grade)
    }

    /// The grade as a capital letter.
    pub fn as_str(self) -> &'static str {
        match self {
            Grade::A => "A",
            Grade::B => "B",
            Grade::C => "C",
            Grade::D => "D",
            Grade::F => "F",
        }
    }
}

/// The facts of an address that the score depends on.
#[derive(Debug, Clone, Copy)]
pub struct ScoreFacts<'a> {
    /// The reason of the verdict.
    pub reason: Reason,
    /// Whether the address is a role address, such as `info@`.
    pub role: bool,
    /// Whether the domain belongs to a free provider, where anyone can get a mailbox.
    pub free: bool,
    /// The DNS facts of the domain.
    pub dns: &'a DnsFacts,
}

/// A signal: its points, and the condition under which they count.
struct ScoreSignal {
    points: i32,
    holds: fn(&ScoreFacts<'_>) -> bool,
}

const fn signal(points: i32, holds: fn(&ScoreFacts<'_>) -> bool) -> ScoreSignal {
    ScoreSignal { points, holds }
}

/// All signals. The positive ones that can hold for a confirmed mailbox add up to 100.
const SIGNALS: [ScoreSignal; 14] = [
    // The verdict.
    signal(60, |facts| facts.reason.deliverable()),
    signal(25, |facts| facts.reason == Reason::CatchAll),
    signal(15, |facts| facts.reason == Reason::Unverifiable),
    signal(-40, |facts| matches!(facts.reason, Reason::MailboxNotFound | Reason::MailboxDisabled)),
    signal(-60, |facts| matches!(facts.reason, Reason::Disposable | Reason::InvalidSyntax)),
    signal(-100, |facts| facts.reason == Reason::Spamtrap),
    // The address of a person, in the domain of an organization.
    signal(15, |facts| !facts.role),
    signal(5, |facts| !facts.free),
    // A domain with the records of a maintained mail service.
    signal(5, |facts| facts.dns.spf),
    signal(3, |facts| facts.dns.dmarc_policy.is_some()),
    signal(2, |facts| facts.dns.dmarc_policy.is_some_and(|policy| policy > DmarcPolicy::None)),
    signal(5, |facts| !facts.dns.dkim_selectors.is_empty()),
    signal(3, |facts| facts.dns.ptr),
    signal(2, |facts| facts.dns.bimi),
];

/// The score of an address.
pub fn score(facts: &ScoreFacts<'_>) -> u8 {
    let sum: i32 = SIGNALS.iter().filter(|signal| (signal.holds)(facts)).map(|signal| signal.points).sum();
    // A number from 0 to 100 always fits.
    u8::try_from(sum.clamp(0, 100)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> DnsFacts {
        DnsFacts {
            spf: true,
            dmarc_policy: Some(DmarcPolicy::Reject),
            dkim_selectors: vec!["default"],
            bimi: true,
            ptr: true,
            ..DnsFacts::default()
        }
    }

    /// The facts of a large free provider.
    fn free() -> DnsFacts {
        DnsFacts { dmarc_policy: Some(DmarcPolicy::None), bimi: false, ..good() }
    }

    #[test]
    fn scores_and_grades() {
        let bare = DnsFacts::default();
        for (reason, role, is_free, dns, expected) in [
            (Reason::MailboxExists, false, false, &good(), (100, "A")),
            (Reason::MailboxExists, false, true, &free(), (91, "A")),
            (Reason::MailboxExists, false, false, &bare, (80, "B")),
            (Reason::RoleAccount, true, false, &good(), (85, "B")),
            (Reason::RoleAccount, true, false, &bare, (65, "C")),
            (Reason::CatchAll, false, false, &good(), (65, "C")),
            (Reason::CatchAll, false, false, &bare, (45, "D")),
            (Reason::Unverifiable, false, false, &good(), (55, "D")),
            (Reason::Unverifiable, true, true, &bare, (15, "F")),
            (Reason::InboxFull, false, false, &good(), (40, "D")),
            (Reason::MailboxDisabled, false, false, &good(), (0, "F")),
            (Reason::MailboxNotFound, false, false, &good(), (0, "F")),
            (Reason::Disposable, false, false, &good(), (0, "F")),
            (Reason::Spamtrap, false, false, &good(), (0, "F")),
        ] {
            let score = score(&ScoreFacts { reason, role, free: is_free, dns });
            assert_eq!((score, Grade::of(score).as_str()), expected, "{reason:?} {role} {is_free}");
        }
    }

    #[test]
    fn grades_begin_where_they_are_said_to() {
        for (score, grade) in [
            (100, "A"),
            (90, "A"),
            (89, "B"),
            (75, "B"),
            (74, "C"),
            (60, "C"),
            (59, "D"),
            (40, "D"),
            (39, "F"),
            (0, "F"),
        ] {
            assert_eq!(Grade::of(score).as_str(), grade, "{score}");
        }
    }

    #[test]
    fn nothing_beats_a_confirmed_mailbox_of_the_same_domain() {
        for reason in Reason::ALL {
            for dns in [&good(), &free(), &DnsFacts::default()] {
                let of = |reason| score(&ScoreFacts { reason, role: false, free: false, dns });
                assert!(of(reason) <= of(Reason::MailboxExists));
                assert!(of(reason) < 75 || reason.deliverable(), "{reason:?} is no better than C");
            }
        }
    }
}
