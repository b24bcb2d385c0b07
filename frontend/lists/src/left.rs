//! Rows of `mailprobe clean` that are unverifiable, by the rule that left them so: those for which a later try may tell more, with the
//! command that checks them again, and the others, with what to do.

use crate::numbers::grouped;
use crate::report::ReportRule;
use crate::shell;
use crate::words;
use api::CauseWords;
use engine_proto::retry::CLEAN_LATER;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use usage::values::time_text;

/// Smallest useful `--max-wait`: greylisting servers require one to fifteen minutes.
const MAX_WAIT_MIN: Duration = CLEAN_LATER.delay_max;

/// The refusals of an hour count for the budget of a site. So after this time, all that it has now is free again.
const BUDGET_WAIT_MIN: Duration = Duration::from_secs(3600);

/// Rows by the rule that left them unverifiable.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    rules: BTreeMap<String, LeftByRule>,
}

/// The rows of one rule.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Counts a row; `wait` is the time before its next try.
    pub fn add(&mut self, rule: &str, wait: Duration) {
        let left = self.rules.entry(rule.to_owned()).or_default();
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
    pub fn by_rule(&self) -> Vec<(&str, LeftByRule)> {
        let mut rules: Vec<_> = self.rules.iter().map(|(rule, left)| (rule.as_str(), *left)).collect();
        rules.sort_by_key(|(_, left)| std::cmp::Reverse(left.rows));
        rules
    }

    /// The JSON for scripts, for a run with this `--max-wait`.
    pub fn json(&self, max_wait: Duration) -> serde_json::Value {
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

    /// Each rule with its rows and words. For rules that a later try may change, also the option that waits for them, after a run with
    /// this `--max-wait`.
    pub fn lines(&self, max_wait: Option<Duration>) -> Vec<ReportRule> {
        let line = |(rule, left): (&str, LeftByRule)| {
            let CauseWords { meaning, advice } = words::rule(rule);
            let mut advice = advice.to_owned();
            if let Some(given) = max_wait {
                let wait = time_text(left.max_wait(rule, given));
                advice += &format!("; --max-wait {wait} tries again within one run");
            }
            if rule == Left::BUDGET {
                advice += "; many rows need several hours, --pace fast fewer";
            }
            ReportRule { rule: rule.to_owned(), rows: left.rows, meaning: meaning.into(), advice }
        };
        self.by_rule().into_iter().map(line).collect()
    }
}

/// The command that checks the open rows of an `output` again; `None`: standard output. `options` are those with which it is read.
pub fn retry_command(output: Option<&Path>, options: &str) -> String {
    let (old, new) = names(output);
    format!("mailprobe clean {old}{options} --retry -o {new}")
}

/// The command for an `output` with which `--retry` cannot work: it reads the `list` with the same `options`. It takes the results of
/// the `earlier` output if there is one.
pub fn known_command(list: &Path, options: &str, earlier: Option<&Path>, output: Option<&Path>) -> String {
    let (old, new) = names(output);
    let old = earlier.map_or(old, shell::path);
    format!("mailprobe clean {}{options} --known {old} -o {new}", shell::path(list))
}

/// What the command for open rows does, for rows whose rules are not known.
pub fn again(command: &str) -> String {
    format!("`{command}` checks those of them again that a later check may settle")
}

/// The end of the message about an `output` that does not fit its list, for example because the list has grown; empty if the output is
/// not finished.
pub fn finished_output(output: &Path, is_finished: bool) -> String {
    if !is_finished {
        return String::new();
    }
    let command = known_command(Path::new("INPUT"), "", None, Some(output));
    format!(
        "; --resume does not continue a finished output: `{command}` uses its results for a list with further rows"
    )
}

/// An output, and the name of the next one: the ending of a name decides on its form.
fn names(output: Option<&Path>) -> (String, String) {
    let Some(output) = output else { return ("OUT".to_owned(), "NEW".to_owned()) };
    let new = if output.file_stem().is_some_and(|name| name == "NEW") { "NEWER" } else { "NEW" };
    let new = Path::new(new).with_extension(output.extension().unwrap_or_default());
    (shell::path(output), shell::path(&new))
}

/// The line for people about the rows of a rule.
pub fn line(rule: &ReportRule) -> String {
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
        let lines = left(rows).lines(Some(Duration::from_secs(max_wait)));
        lines.iter().map(|rule| line(rule) + "\n").collect()
    }

    #[test]
    fn it_says_how_many_why_and_which_option_waits() {
        assert_eq!(said(&[], 0), "");
        assert_eq!(
            said(&[("session-closing", 60), (Left::BUDGET, 3001), (Left::BUDGET, 200), (Left::SILENT, 0)], 0),
            "    refusal_budget                     2  not asked: the site of its mail server has refused, or left without a reply, as many recipients as mailprobe allows \
             in an hour: check again after an hour; --max-wait 1h tries again within one run; many rows need several hours, \
             --pace fast fewer\n    \
             session-closing                    1  the mail server cannot answer for now: check again later; --max-wait 15m tries again within \
             one run\n    \
             site_silent                        1  not asked: the mail server did not answer about other addresses: check again later; if most \
             domains have this cause, run `mailprobe doctor`; --max-wait 15m tries again within one run\n"
        );
        // The text does not suggest a value that was too short.
        assert!(
            said(&[("greylisted", 60)], 900).contains("check again after 15 minutes; --max-wait 30m tries")
        );
        // The first part of a budget is free after minutes, and all of it after an hour.
        assert!(said(&[(Left::BUDGET, 120)], 900).contains("--max-wait 1h tries"));
        assert!(said(&[(Left::BUDGET, 120)], 3600).contains("--max-wait 2h tries"));
    }

    #[test]
    fn the_command_is_whole() {
        for (output, command) in [
            ("out.csv", "mailprobe clean out.csv --retry -o NEW.csv"),
            ("my lists/out", "mailprobe clean 'my lists/out' --retry -o NEW"),
            ("-out.csv.gz", "mailprobe clean ./-out.csv.gz --retry -o NEW.gz"),
        ] {
            assert_eq!(retry_command(Some(Path::new(output)), ""), command);
        }
        assert_eq!(
            known_command(Path::new("a b.csv"), " --column x", None, Some(Path::new("o.xlsx"))),
            "mailprobe clean 'a b.csv' --column x --known o.xlsx -o NEW.xlsx"
        );
        let finished = finished_output(Path::new("my out.csv"), true);
        assert!(finished.contains("`mailprobe clean INPUT --known 'my out.csv' -o NEW.csv`"), "{finished}");
    }

    #[test]
    fn rows_that_no_later_try_changes_are_told_with_their_cause() {
        let rows = [("accepts_everything", 0), ("accepts_everything", 0), ("blocklist", 0)];
        let lines = left(&rows).lines(None);
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
