//! What the person at the terminal sees, and the count of it.

use super::Failure;
use std::io::Write;
use std::process::ExitCode;

/// How many checks held.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Those that held.
    pub passed: u32,
    /// Those that did not.
    pub failed: u32,
}

/// Closes a run of the task `name`: with its counts, or with why there are none, as `.ci/run` reads them.
pub fn end(name: &str, outcome: Result<Tally, Failure>) -> ExitCode {
    let Tally { passed, failed } = outcome.unwrap_or_else(|Failure(message)| {
        line(&format!("{name}: {message}"));
        Tally { passed: 0, failed: 1 }
    });
    line(&format!("{passed} passed, {failed} failed"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Tally {
    /// Counts a check and prints it.
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

    /// Adds another count.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Prints a line. A closed standard output is no reason to leave servers behind, so its error is not ours.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
