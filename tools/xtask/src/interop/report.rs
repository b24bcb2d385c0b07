//! What the person at the terminal sees, and the count of it.

use std::io::Write;

/// How many checks held.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Those that held.
    pub passed: u32,
    /// Those that did not.
    pub failed: u32,
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
