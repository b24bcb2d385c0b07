//! The rows of docs/accuracy.md: tests that judge a set print a line for each of its members.

use std::io::Write as _;

/// Whether an answer is right, or definite and wrong.
pub type Verdict = (bool, bool);

/// Prints a line for `cargo xtask measure accuracy`, which sets the variable: the set, the truth, what was said, the mark, the rule and
/// the name of the member. Output of this kind is not captured by the test harness.
pub fn judged(set: &str, truth: &str, said: &str, (is_right, is_wrong): Verdict, rule: &str, name: &str) {
    if std::env::var_os("MAILPROBE_ACCURACY").is_some() {
        let mark = if is_wrong {
            "wrong"
        } else if is_right {
            "right"
        } else {
            "missed"
        };
        let line = format!("accuracy|{set}|{truth}|{said}|{mark}|{rule}|{name}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("an open standard output");
    }
}
