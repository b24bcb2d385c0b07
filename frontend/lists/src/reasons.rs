//! Reasons in the rows of a list: their numbers, their values at the end of a row, and counts of rows.

use crate::Class;
use api::Reason;

/// The number of a reason, a compact form for millions of rows. 0 means that there is none.
pub const fn code(reason: Reason) -> u8 {
    reason as u8 + 1
}

/// The reason with this number.
pub fn of_code(code: u8) -> Option<Reason> {
    Reason::ALL.get(usize::from(code.checked_sub(1)?)).copied()
}

/// The reason with this name.
pub(crate) fn named(name: &str) -> Option<Reason> {
    Reason::ALL.into_iter().find(|reason| reason.as_str() == name)
}

/// The value of `deliverable` in a CSV file: unknown is empty.
pub fn deliverable_csv(reason: Reason) -> &'static str {
    match reason.deliverable() {
        Some(true) => "true",
        Some(false) => "false",
        None => "",
    }
}

/// The value of `deliverable` in JSON.
pub(crate) fn deliverable_json(reason: Reason) -> &'static str {
    match reason.deliverable() {
        None => "null",
        Some(_) => deliverable_csv(reason),
    }
}

/// Numbers of rows by their reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReasonCounts([u64; Reason::ALL.len()]);

impl ReasonCounts {
    /// Counts a row with this reason.
    pub fn add(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// Number of rows with a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// Number of rows of a class.
    pub fn of_class(&self, class: Class) -> u64 {
        Reason::ALL
            .into_iter()
            .filter(|reason| Class::of(*reason) == class)
            .map(|reason| self.of(reason))
            .sum()
    }

    /// Number of all rows.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons with their numbers of rows, the most frequent first.
    pub fn sorted(&self) -> Vec<(Reason, u64)> {
        let counted = Reason::ALL.map(|reason| (reason, self.of(reason)));
        let mut counted: Vec<_> = counted.into_iter().filter(|(_, rows)| *rows > 0).collect();
        counted.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_code_of_its_own() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((usize::from(code(reason)), of_code(code(reason))), (at + 1, Some(reason)));
        }
        assert_eq!((of_code(0), of_code(Reason::ALL.len() as u8 + 1)), (None, None));
    }

    #[test]
    fn rows_are_counted_by_reason_and_class() {
        let mut counts = ReasonCounts::default();
        for reason in [Reason::NoMx, Reason::CatchAll, Reason::CatchAll, Reason::RoleAccount] {
            counts.add(reason);
        }
        let expected = [(Reason::CatchAll, 2), (Reason::RoleAccount, 1), (Reason::NoMx, 1)];
        assert_eq!(counts.sorted(), expected);
        assert_eq!(Class::ALL.map(|class| counts.of_class(class)), [1, 1, 2]);
        assert_eq!((counts.total(), counts.of(Reason::CatchAll)), (4, 2));
    }
}
