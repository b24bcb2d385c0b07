//! The output for the terminal, and the counts of checks.

use crate::failure::Failure;
use std::io::Write;
use std::process::ExitCode;

/// Counts of checks by their result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The number of checks that passed.
    pub passed: u32,
    /// The number of checks that failed.
    pub failed: u32,
}

/// Prints the last line of the task `name`: its counts, or the failure, in the form that `.ci/run` reads.
pub fn end(name: &str, outcome: Result<Tally, Failure>) -> ExitCode {
    let Tally { passed, failed } = outcome.unwrap_or_else(|Failure(message)| {
        line(&format!("{name}: {message}"));
        Tally { passed: 0, failed: 1 }
    });
    line(&format!("{passed} passed, {failed} failed"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Tally {
    /// Counts a check and prints its line.
    pub fn check(&mut self, name: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(note) => {
                self.passed += 1;
                line(&format!("ok    {name}: {note}"));
            }
            Err(complaint) => {
                self.failed += 1;
                line(&format!("FAIL  {name}: {complaint}"));
            }
        }
    }

    /// Counts a check without a line of its own.
    pub fn count(&mut self, is_right: bool) {
        self.passed += u32::from(is_right);
        self.failed += u32::from(!is_right);
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// The figures of a check as its outcome.
pub fn outcome(is_right: bool, figures: String) -> Result<String, String> {
    if is_right { Ok(figures) } else { Err(figures) }
}

/// The outcome of a check that may find several faults: the figures if there are none.
pub fn faultless(figures: String, faults: &[String]) -> Result<String, String> {
    if faults.is_empty() { Ok(figures) } else { Err(faults.join("\n      ")) }
}

/// Prints a line. Errors are ignored: a closed standard output must not leave servers running.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
