//! Rows that are unverifiable, but for which a later try may tell more: the reasons, and the option that waits for them.

use indicatif::HumanCount;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Smallest useful `--max-wait`: greylisting servers require one to fifteen minutes.
const MAX_WAIT_MIN: Duration = Duration::from_secs(900);

/// Rows by the rule that left them unverifiable.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Left {
    rules: BTreeMap<&'static str, LeftByRule>,
}

/// The rows of one rule.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LeftByRule {
    /// Number of rows.
    pub rows: u64,
    /// Longest wait before the next try of one of them; zero if it is unknown.
    pub wait: Duration,
}

impl Left {
    /// The rule of rows that were not checked because the budget of refused recipients was spent.
    pub const BUDGET: &'static str = "refusal_budget";
    /// The rule of rows that were not checked because their site did not answer.
    pub const SILENT: &'static str = "site_silent";

    /// The rule of rows for which no server could be reached.
    pub const NO_CONNECTION: &'static str = "no_connection";

    /// Counts a row; `wait` is the time before its next try.
    pub(super) fn add(&mut self, rule: &'static str, wait: Duration) {
        let left = self.rules.entry(rule).or_default();
        left.rows += 1;
        left.wait = left.wait.max(wait);
    }

    /// Number of rows of all rules.
    pub fn rows(&self) -> u64 {
        self.rules.values().map(|left| left.rows).sum()
    }

    /// Longest wait of all rules.
    pub fn wait(&self) -> Duration {
        self.rules.values().map(|left| left.wait).max().unwrap_or_default()
    }

    /// The rules, those with the most rows first.
    pub fn by_rule(&self) -> Vec<(&'static str, LeftByRule)> {
        let mut rules: Vec<_> = self.rules.iter().map(|(rule, left)| (*rule, *left)).collect();
        rules.sort_by_key(|(_, left)| std::cmp::Reverse(left.rows));
        rules
    }

    /// The JSON for scripts, for a run with this `--max-wait`.
    pub(super) fn json(&self, max_wait: Duration) -> serde_json::Value {
        let one = |(rule, left): (&str, LeftByRule)| {
            serde_json::json!({
                "rule": rule,
                "rows": left.rows,
                "longest_wait_s": left.wait.as_secs(),
                "max_wait_s": left.max_wait(max_wait).as_secs(),
            })
        };
        self.by_rule().into_iter().map(one).collect()
    }

    /// Writes the text for people, for a run with this `--max-wait`.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, max_wait: Duration) -> fmt::Result {
        match self.rows() {
            0 => return Ok(()),
            1 => writeln!(f, "1 address is unverifiable for now; a later try may tell more:")?,
            rows => {
                let rows = HumanCount(rows);
                writeln!(f, "{rows} addresses are unverifiable for now; a later try may tell more:")?;
            }
        }
        for (rule, rows, advice) in self.advice(max_wait) {
            writeln!(f, "  {rule:<28}{:>12}  {advice}", HumanCount(rows).to_string())?;
        }
        Ok(())
    }

    /// Writes the text for people about rows for which a later try alone does not tell more.
    pub(super) fn write_settled(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows() {
            0 => return Ok(()),
            1 => writeln!(f, "1 address is unverifiable, and a later try alone does not help:")?,
            rows => {
                writeln!(
                    f,
                    "{} addresses are unverifiable, and a later try alone does not help:",
                    HumanCount(rows)
                )?;
            }
        }
        for (rule, left) in self.by_rule() {
            writeln!(f, "  {rule:<28}{:>12}  {}", HumanCount(left.rows).to_string(), settled_advice(rule))?;
        }
        Ok(())
    }

    /// Each rule with its rows and the option that waits for them, for a run with this `--max-wait`.
    pub(super) fn advice(&self, max_wait: Duration) -> Vec<(&'static str, u64, String)> {
        let advice = |(rule, left): (&'static str, LeftByRule)| {
            let seconds = left.max_wait(max_wait).as_secs();
            let text = match rule {
                Left::BUDGET => format!(
                    "not checked; --max-wait {seconds} or a later run checks them, --pace fast checks more per hour"
                ),
                Left::SILENT => format!("not checked; --max-wait {seconds} or a later run checks them"),
                Left::NO_CONNECTION => {
                    format!("--max-wait {seconds} tries them again; `mailprobe doctor` tests the connection")
                }
                _ => format!("--max-wait {seconds} tries them again"),
            };
            (rule, left.rows, text)
        };
        self.by_rule().into_iter().map(advice).collect()
    }
}

/// The rules of refusals of this machine: class POL and scope us in docs/verdicts.md.
const ABOUT_US: [&str; 14] = [
    "all-recipients-denied",
    "microsoft-blocked",
    "sender-authentication",
    "blocklist",
    "too-many-unknown",
    "our-name",
    "conduct",
    "uncertain",
    "echo-of-us",
    "about-us",
    "denied",
    "policy-status",
    "session-refused",
    "bare-refusal",
];
/// The rules of refusals of the reverse-path: class POL and scope sender.
const ABOUT_SENDER: [&str; 5] =
    ["sender-status", "sender-refused", "mail-sender", "sender-word", "mail-refused"];

/// What to do about rows of a rule that a later try alone does not change.
fn settled_advice(rule: &str) -> &'static str {
    match rule {
        "accepts_everything" => "the server accepts every recipient: decide as for catch_all",
        "ipv6_only" | "no_source" => "no source reaches the hosts of the domain: see `mailprobe doctor`",
        "no_smtputf8" => "the server takes no such address",
        "uncertain" | "uncertain-status" | "uncertain-5.1.1" | "no-meaning" => {
            "mailprobe does not understand the refusal: read it with `mailprobe check --trace`"
        }
        _ if ABOUT_US.contains(&rule) => "the server refuses this machine: see `mailprobe doctor`",
        _ if ABOUT_SENDER.contains(&rule) => {
            "the server refuses the sender: see `mailprobe doctor`, and set --mail-from"
        }
        _ => "see docs/verdicts.md",
    }
}

impl LeftByRule {
    /// The `--max-wait` that waits for these rows, in whole minutes. It is at least twice the `given` one, which was too short.
    fn max_wait(&self, given: Duration) -> Duration {
        let wanted = self.wait.max(given * 2).max(MAX_WAIT_MIN);
        Duration::from_secs(wanted.as_secs().next_multiple_of(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(rows: &[(&'static str, u64)]) -> Left {
        let mut left = Left::default();
        rows.iter().for_each(|&(rule, wait)| left.add(rule, Duration::from_secs(wait)));
        left
    }

    /// The text for these rows with this `--max-wait`. Each row is a rule and its wait in seconds.
    fn said(rows: &[(&'static str, u64)], max_wait: u64) -> String {
        struct Shown(Left, Duration);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, self.1)
            }
        }
        Shown(left(rows), Duration::from_secs(max_wait)).to_string()
    }

    #[test]
    fn it_says_how_many_why_and_which_option_waits() {
        assert_eq!(said(&[], 0), "");
        assert_eq!(
            said(&[("greylisted", 300)], 0),
            "1 address is unverifiable for now; a later try may tell more:\n  \
             greylisted                             1  --max-wait 900 tries them again\n"
        );
        assert_eq!(
            said(&[("session-closing", 60), (Left::BUDGET, 3001), (Left::BUDGET, 200), (Left::SILENT, 0)], 0),
            "4 addresses are unverifiable for now; a later try may tell more:\n  \
             refusal_budget                         2  not checked; --max-wait 3060 or a later run checks them, \
             --pace fast checks more per hour\n  \
             session-closing                        1  --max-wait 900 tries them again\n  \
             site_silent                            1  not checked; --max-wait 900 or a later run checks them\n"
        );
        assert!(said(&[("no_connection", 60)], 0).contains("again; `mailprobe doctor` tests the connection"));
        // The text does not suggest a value that was too short.
        assert!(said(&[("greylisted", 60)], 900).contains("--max-wait 1800 tries"));
    }

    #[test]
    fn rows_that_no_later_try_changes_are_told_with_their_cause() {
        struct Shown(Left);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_settled(f)
            }
        }
        assert_eq!(Shown(left(&[])).to_string(), "");
        assert_eq!(
            Shown(left(&[("blocklist", 0)])).to_string(),
            "1 address is unverifiable, and a later try alone does not help:\n  \
             blocklist                              1  the server refuses this machine: see `mailprobe doctor`\n"
        );
        assert_eq!(
            Shown(left(&[("accepts_everything", 0), ("accepts_everything", 0), ("sender-refused", 0)]))
                .to_string(),
            "3 addresses are unverifiable, and a later try alone does not help:\n  \
             accepts_everything                     2  the server accepts every recipient: decide as for catch_all\n  \
             sender-refused                         1  the server refuses the sender: see `mailprobe doctor`, and set --mail-from\n"
        );
    }

    /// The table of the rules in docs/verdicts.md is the source of both lists.
    #[test]
    fn rules_about_us_and_the_sender_are_those_of_the_documentation() {
        let docs = include_str!("../../../docs/verdicts.md");
        let rules = |scope: &str| -> Vec<&str> {
            let row = |line: &'static str| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                let is_row = cells.len() == 6 && cells[2] == "POL" && cells[3] == scope;
                is_row.then(|| cells[1].trim_matches('`'))
            };
            docs.lines().filter_map(row).collect()
        };
        assert_eq!((ABOUT_US.to_vec(), ABOUT_SENDER.to_vec()), (rules("us"), rules("sender")));
    }

    #[test]
    fn scripts_get_the_same() {
        let left = left(&[("greylisted", 300), ("greylisted", 60), ("hung_up", 0)]);
        assert_eq!((left.rows(), left.wait()), (3, Duration::from_secs(300)));
        assert_eq!(
            left.json(Duration::ZERO),
            serde_json::json!([
                {"rule": "greylisted", "rows": 2, "longest_wait_s": 300, "max_wait_s": 900},
                {"rule": "hung_up", "rows": 1, "longest_wait_s": 0, "max_wait_s": 900},
            ])
        );
    }
}
