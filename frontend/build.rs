//! Sets MAILPROBE_VERSION for `mailprobe --version`: the version, and the commit of a release build.
//!
//! MAILPROBE_COMMIT names the commit, for builds from an archive. Otherwise a release build asks git. A debug build does not:
//! it would have to be made again after each commit.

use std::io::{self, Write};
use std::process::Command;

fn main() -> io::Result<()> {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    writeln!(io::stdout(), "cargo::rerun-if-env-changed=MAILPROBE_COMMIT")?;
    let given = std::env::var("MAILPROBE_COMMIT").ok();
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| if is_release { commit_of_git() } else { None });
    let shown = match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    writeln!(io::stdout(), "cargo::rustc-env=MAILPROBE_VERSION={shown}")
}

/// The first characters of the commit's hash, and `-dirty` if files differ from it. Without git or a repository: none.
fn commit_of_git() -> Option<String> {
    for file in ["HEAD", "logs/HEAD"] {
        writeln!(io::stdout(), "cargo::rerun-if-changed=../.git/{file}").ok()?;
    }
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    let text = String::from_utf8(described.stdout).ok()?;
    described.status.success().then(|| text.trim().to_owned())
}
