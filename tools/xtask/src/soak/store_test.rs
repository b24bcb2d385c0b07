//! Campaigns of the store's own tests (frontend/store-redb/src/tests/crash), run by cargo.

use super::world::cargo;
use crate::failure::{Context, Failure};

/// The lines of a complaint.
const SHOWN: usize = 10;

/// A campaign of the store that has ended.
pub struct StoreTest {
    /// It ended without a failure.
    pub succeeded: bool,
    output: String,
    /// What cargo and panics have written.
    pub errors: String,
}

impl StoreTest {
    /// Runs the test with this name and these variables.
    ///
    /// # Errors
    ///
    /// cargo cannot be started.
    pub fn run(release: bool, test: &str, variables: &[(&str, u64)]) -> Result<StoreTest, Failure> {
        let mut command = cargo();
        command.args(["test", "--package", "store-redb", "--lib"]).args(release.then_some("--release"));
        command.args(["--", "--ignored", "--exact", "--nocapture", test]).env("RUST_BACKTRACE", "0");
        command.envs(variables.iter().map(|(name, value)| (name, value.to_string())));
        let ended = command.output().about("cargo did not start")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (output, errors) = (text(&ended.stdout), text(&ended.stderr));
        Ok(StoreTest { succeeded: ended.status.success(), output, errors })
    }

    /// The line of its output with this part.
    pub fn line(&self, part: &str) -> Option<String> {
        self.output.lines().find(|line| line.contains(part)).map(str::to_owned)
    }

    /// The last lines of its errors.
    pub fn complaint(&self) -> String {
        let lines: Vec<&str> = self.errors.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}
