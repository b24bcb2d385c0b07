//! `cargo xtask suites`: what `cargo test --workspace` runs, two test programs at a time.
//!
//! Cargo runs one program after another, and many of ours spend their time waiting: for a server to hang up, for a
//! deadline to pass. Cargo itself says which programs there are, so none is left out.

use crate::interop::Failure;
use crate::interop::process;
use crate::interop::report;
use crate::soak::world::cargo;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Options {
    /// How many programs at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    at_once: u8,
    /// Only the programs whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    /// Package and target.
    name: String,
    executable: PathBuf,
    /// Where cargo would run it: the root of its package.
    folder: PathBuf,
}

/// Those that take longest, and above all wait: they begin first, so that the others fit beside them.
const LONGEST: [&str; 5] =
    ["engine/mailnet", "frontend/http", "frontend/contract", "engine/sites", "engine/egress"];
/// A build from nothing on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
/// Several times what the longest takes.
const SUITE_LIMIT: Duration = Duration::from_secs(600);

pub fn main(options: &Options) -> ExitCode {
    match process::watch_signals().and_then(|()| run(options)) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            report::line(&format!("failed: {}", failed.join(", ")));
            ExitCode::FAILURE
        }
        Err(Failure(message)) => {
            report::line(&format!("suites: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs them; the names of those that failed.
fn run(options: &Options) -> Result<Vec<String>, Failure> {
    let folder = tempfile::Builder::new().prefix("suites-").tempdir();
    let folder = folder.map_err(|error| Failure(format!("no folder: {error}")))?;
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let built = process::run(build, "", folder.path(), BUILD_LIMIT)?.success("cargo test --no-run")?;
    let mut suites = suites(&built)?;
    suites.retain(|suite| options.only.as_ref().is_none_or(|only| suite.name.contains(only)));
    if suites.is_empty() {
        return Err(Failure("there is no such test program".into()));
    }
    let (queue, failed) = (Mutex::new(suites.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.at_once {
            scope.spawn(|| {
                while let Some(suite) = locked(&queue).next() {
                    if let Err(Failure(why)) = run_one(&suite, folder.path()) {
                        report::line(&format!("{}: {why}", suite.name));
                        locked(&failed).push(suite.name);
                    }
                }
            });
        }
    });
    process::interrupted()?;
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if options.only.is_none() && !examples_of_documentation(folder.path())? {
        failed.push("examples of the documentation".into());
    }
    Ok(failed)
}

/// Runs one and prints all that it said, at once.
fn run_one(suite: &Suite, folder: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let mut command = Command::new(&suite.executable);
    command.current_dir(&suite.folder).env("CARGO_MANIFEST_DIR", &suite.folder);
    let finished = process::run(command, "", folder, SUITE_LIMIT)?;
    let took = began.elapsed().as_secs_f32();
    report::line(&format!("-- {}, {took:.1} s\n{}{}", suite.name, finished.stdout, finished.stderr));
    if finished.status.success() { Ok(()) } else { Err(Failure(finished.status.to_string())) }
}

/// Whether they hold. They are compiled one by one, which only cargo can do.
fn examples_of_documentation(folder: &Path) -> Result<bool, Failure> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    let finished = process::run(command, "", folder, BUILD_LIMIT)?;
    report::line(&format!("{}{}", finished.stdout, finished.stderr));
    Ok(finished.status.success())
}

/// The test programs that cargo says it has built, the longest first.
fn suites(messages: &str) -> Result<Vec<Suite>, Failure> {
    let mut suites = Vec::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).map_err(|error| Failure(format!("cargo says {error}")))?;
        suites.extend(suite(&message));
    }
    let rank = |name: &str| LONGEST.iter().position(|long| *long == name).unwrap_or(LONGEST.len());
    suites.sort_by(|a, b| (rank(&a.name), &a.name).cmp(&(rank(&b.name), &b.name)));
    Ok(suites)
}

/// The test program that a message of cargo is about, if it is about one.
fn suite(message: &Value) -> Option<Suite> {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    if text("/reason")? != "compiler-artifact" || message.pointer("/profile/test")? != true {
        return None;
    }
    let folder = Path::new(text("/manifest_path")?).parent()?.to_owned();
    let package = text("/package_id")?.rsplit('/').next()?.split(['#', '@']).next()?;
    let name = format!("{package}/{}", text("/target/name")?);
    Some(Suite { name, executable: text("/executable")?.into(), folder })
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_messages_name_the_programs() {
        let artifact = |package: &str, target: &str, test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/{package}#0.1.0\",\
                 \"manifest_path\":\"/w/{package}/Cargo.toml\",\"target\":{{\"name\":\"{target}\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":{executable}}}\n"
            )
        };
        let messages = artifact("api", "api", true, "\"/t/api-1\"")
            + &artifact("frontend", "mailprobe", false, "\"/t/mailprobe\"")
            + &artifact("frontend", "http", true, "\"/t/http-1\"")
            + &artifact("api", "api", false, "null")
            + "{\"reason\":\"build-finished\",\"success\":true}\n";
        let found = suites(&messages).unwrap();
        let names: Vec<&str> = found.iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["frontend/http", "api/api"]);
        assert_eq!((&*found[1].folder, &*found[1].executable), (Path::new("/w/api"), Path::new("/t/api-1")));
        assert!(suites("no JSON").is_err());
    }
}
