//! Rows that are unverifiable, by the rule that left them so: those for which a later try may tell more, with the option that waits
//! for them, and the others, with what to do.

use engine::proto::retry::CLEAN_LATER;
use lists::numbers::grouped;
use lists::report::ReportRule;
use lists::words::{self, RuleWords};
use std::collections::BTreeMap;
use std::time::Duration;
use usage::values::time_text;

/// Smallest useful `--max-wait`: greylisting servers require one to fifteen minutes.
const MAX_WAIT_MIN: Duration = CLEAN_LATER.delay_max;

/// The refusals of an hour count for the budget of a site. So after this time, all that it has now is free again.
const BUDGET_WAIT_MIN: Duration = Duration::from_secs(3600);

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
                "max_wait_s": left.max_wait(rule, max_wait).as_secs(),
            })
        };
        self.by_rule().into_iter().map(one).collect()
    }

    /// Each rule with its rows, its words and the option that waits for them, for a run with this `--max-wait`. The command `later`
    /// checks such rows later.
    pub(super) fn open_lines(&self, max_wait: Duration, later: &str) -> Vec<ReportRule> {
        let line = |(rule, left): (&'static str, LeftByRule)| {
            let wait = time_text(left.max_wait(rule, max_wait));
            let advice = match rule {
                Left::BUDGET => {
                    format!(
                        "--max-wait {wait} waits for the site's next hour, and {later} checks them later; many rows need several \
                         hours, --pace fast fewer"
                    )
                }
                Left::SILENT => format!("--max-wait {wait} or a later {later} checks them"),
                Left::NO_CONNECTION => {
                    format!("--max-wait {wait} tries them again; `mailprobe doctor` tests the connection")
                }
                _ => format!("--max-wait {wait} tries them again"),
            };
            let RuleWords { meaning, .. } = words::rule(rule);
            ReportRule { rule: rule.into(), rows: left.rows, meaning: meaning.into(), advice }
        };
        self.by_rule().into_iter().map(line).collect()
    }

    /// Each rule with its rows and words, for rules that a later try alone does not change.
    pub(super) fn settled_lines(&self) -> Vec<ReportRule> {
        let line = |(rule, left): (&'static str, LeftByRule)| {
            let RuleWords { meaning, advice } = words::rule(rule);
            ReportRule { rule: rule.into(), rows: left.rows, meaning: meaning.into(), advice: advice.into() }
        };
        self.by_rule().into_iter().map(line).collect()
    }
}

/// The line for people about the rows of a rule.
pub(super) fn line(rule: &ReportRule) -> String {
    let ReportRule { rule, rows, meaning, advice } = rule;
    format!("    {rule:<24}{:>12}  {meaning}: {advice}", grouped(*rows))
}

impl LeftByRule {
    /// The `--max-wait` that waits for these rows, in whole minutes. It is at least twice the `given` one, which was too short.
    fn max_wait(&self, rule: &str, given: Duration) -> Duration {
        let least = if rule == Left::BUDGET { BUDGET_WAIT_MIN } else { MAX_WAIT_MIN };
        let wanted = self.wait.max(given * 2).max(least);
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

    /// The lines for these rows with this `--max-wait`. Each row is a rule and its wait in seconds.
    fn said(rows: &[(&'static str, u64)], max_wait: u64) -> String {
        let lines = left(rows).open_lines(Duration::from_secs(max_wait), "`clean --retry`");
        lines.iter().map(|rule| line(rule) + "\n").collect()
    }

    #[test]
    fn it_says_how_many_why_and_which_option_waits() {
        assert_eq!(said(&[], 0), "");
        assert_eq!(
            said(&[("session-closing", 60), (Left::BUDGET, 3001), (Left::BUDGET, 200), (Left::SILENT, 0)], 0),
            "    refusal_budget                     2  not asked: the site of its mail server has refused as many recipients as mailprobe allows \
             in an hour: --max-wait 1h waits for the site's next hour, and `clean --retry` checks them later; many rows need several hours, \
             --pace fast fewer\n    \
             session-closing                    1  the mail server cannot answer for now: --max-wait 15m tries them again\n    \
             site_silent                        1  not asked: the mail server did not answer about other addresses: \
             --max-wait 15m or a later `clean --retry` checks them\n"
        );
        assert!(said(&[("no_connection", 60)], 0).contains("again; `mailprobe doctor` tests the connection"));
        // The text does not suggest a value that was too short.
        assert!(said(&[("greylisted", 60)], 900).contains("--max-wait 30m tries"));
        // The first part of a budget is free after minutes, and all of it after an hour.
        assert!(said(&[(Left::BUDGET, 120)], 900).contains("--max-wait 1h waits for"));
        assert!(said(&[(Left::BUDGET, 120)], 3600).contains("--max-wait 2h waits for"));
    }

    #[test]
    fn rows_that_no_later_try_changes_are_told_with_their_cause() {
        let rows = [("accepts_everything", 0), ("accepts_everything", 0), ("blocklist", 0)];
        let lines = left(&rows).settled_lines();
        let said: String = lines.iter().map(|rule| line(rule) + "\n").collect();
        assert_eq!(
            said,
            "    accepts_everything                 2  the mail server accepts every recipient, and refuses only after the message: \
             no check can decide: decide as for catch_all\n    \
             blocklist                          1  the mail server refuses this machine, for example because of a blocklist: \
             see `mailprobe doctor`, and remove the cause\n"
        );
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
