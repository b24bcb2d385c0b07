//! What is written behind a row.

use engine_proto::verdict::Reason;

/// A verdict in the words of the API contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Yes, no, or not known (fast mode).
    pub deliverable: Option<bool>,
    /// The reason's code.
    pub reason: &'static str,
}

impl Verdict {
    /// For rows that hold no address.
    pub const INVALID_SYNTAX: Verdict = Verdict { deliverable: Some(false), reason: "invalid_syntax" };

    /// For rows about which nobody has said anything that counts.
    pub const UNVERIFIABLE: Verdict = Verdict { deliverable: Some(false), reason: "unverifiable" };

    /// Every verdict that can stand in a list, those of fast mode behind those of full mode.
    pub fn all() -> impl Iterator<Item = Verdict> {
        let fast = [
            Verdict { deliverable: Some(false), reason: "possible_typo" },
            Verdict { deliverable: Some(false), reason: "no_mx" },
            Verdict { deliverable: None, reason: "fast_check_passed" },
        ];
        Reason::ALL.into_iter().map(Verdict::from).chain(fast)
    }

    /// Its number, by which verdicts are kept by the million. 0 is no verdict.
    pub fn code(self) -> u8 {
        let at = Verdict::all().position(|verdict| verdict == self);
        at.map_or(0, |at| at as u8 + 1)
    }

    /// As it stands in a CSV file: what is not known is empty.
    pub fn deliverable_csv(self) -> &'static str {
        match self.deliverable {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        }
    }

    /// As it stands in JSON.
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
}
