//! The values of a verdict at the end of a row. `source/shape.rs` writes them as columns.

use crate::Class;
use engine_proto::verdict::Reason;

/// A verdict in the words of the API contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Yes, no, or unknown (fast mode).
    pub deliverable: Option<bool>,
    /// The name of the reason.
    pub reason: &'static str,
}

impl Verdict {
    /// The verdict of rows without an address.
    pub const INVALID_SYNTAX: Verdict = Verdict { deliverable: Some(false), reason: "invalid_syntax" };

    /// The verdict of rows for which no reply gave evidence.
    pub const UNVERIFIABLE: Verdict = Verdict { deliverable: Some(false), reason: "unverifiable" };

    /// All verdicts that a list can contain, first those of full mode, then those of fast mode.
    pub fn all() -> impl Iterator<Item = Verdict> {
        let fast = [
            Verdict { deliverable: Some(false), reason: "possible_typo" },
            Verdict { deliverable: Some(false), reason: "no_mx" },
            Verdict { deliverable: None, reason: "fast_check_passed" },
        ];
        Reason::ALL.into_iter().map(Verdict::from).chain(fast)
    }

    /// Its number, a compact form for millions of rows. 0 means no verdict.
    pub fn code(self) -> u8 {
        let at = Verdict::all().position(|verdict| verdict == self);
        at.map_or(0, |at| at as u8 + 1)
    }

    /// The class of its reason.
    pub fn class(self) -> Class {
        let reason = api::Reason::ALL.into_iter().find(|reason| reason.as_str() == self.reason);
        reason.map_or(Class::Unknown, Class::of)
    }

    /// The value in a CSV file: unknown is empty.
    pub fn deliverable_csv(self) -> &'static str {
        match self.deliverable {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        }
    }

    /// The value in JSON.
    pub fn deliverable_json(self) -> &'static str {
        match self.deliverable {
            None => "null",
            Some(_) => self.deliverable_csv(),
        }
    }
}

impl From<api::Reason> for Verdict {
    fn from(reason: api::Reason) -> Verdict {
        Verdict { deliverable: reason.deliverable(), reason: reason.as_str() }
    }
}

impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Verdict {
        Verdict { deliverable: Some(reason.deliverable()), reason: reason.as_str() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_a_code_of_its_own() {
        for (at, verdict) in Verdict::all().enumerate() {
            assert_eq!(usize::from(verdict.code()), at + 1, "{}", verdict.reason);
        }
        assert_eq!(Verdict { deliverable: None, reason: "no_mx" }.code(), 0);
    }

    #[test]
    fn each_verdict_has_a_class() {
        let names = |class| -> Vec<&str> {
            let of = Verdict::all().filter(|verdict| verdict.class() == class);
            of.map(|verdict| verdict.reason).collect()
        };
        assert_eq!(names(Class::Deliverable), ["mailbox_exists", "role_account"]);
        assert_eq!(names(Class::Unknown), ["catch_all", "unverifiable", "fast_check_passed"]);
        assert_eq!(names(Class::Undeliverable).len() + 5, Verdict::all().count());
    }

    /// A reason without a code would write a row without an end.
    #[test]
    fn every_reason_of_the_contract_has_a_code() {
        for reason in api::Reason::ALL {
            assert_ne!(Verdict::from(reason).code(), 0, "{}", reason.as_str());
        }
    }
}
