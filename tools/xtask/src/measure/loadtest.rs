//! Runs of `mailprobe-loadtest`, a client over HTTP, and of the programs of `bench/examples`, with their figures.

use super::bench::Bench;
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::soak::world::cargo;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The time limit of a release build from an empty target folder on two cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// The figures of a run of `mailprobe-loadtest`.
#[derive(Debug, Clone)]
pub struct LoadtestFigures {
    /// Good answers per second.
    pub rate: f64,
    /// Processor seconds of the server per thousand requests.
    pub cpu_s_per_1000: f64,
    /// The median latency of the requested endpoint, in milliseconds.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Requests without a good answer.
    pub errors: u64,
    pub requests: u64,
}

impl Bench {
    /// Builds `mailprobe-loadtest` and the programs of `bench/examples` next to the binaries, unless these were given.
    pub fn build_tools(&self) -> Result<(), Failure> {
        if self.given {
            return Ok(());
        }
        let mut command = cargo();
        command.args(["build", "--release", "--package", "loadtest", "--bin", "mailprobe-loadtest"]);
        process::run(command, "", &self.world.path(""), BUILD_LIMIT)?.success("cargo build")?;
        let mut command = cargo();
        command.args(["build", "--release", "--package", "bench", "--examples"]);
        process::run(command, "", &self.world.path(""), BUILD_LIMIT)?.success("cargo build").map(drop)
    }

    /// The path of a program in `bench/examples`.
    pub fn example(&self, name: &str) -> PathBuf {
        self.world.binary("examples").join(name)
    }

    /// Runs a program of `bench/examples`. Returns its output by line, divided at white space.
    pub fn run_example(&self, name: &str, arguments: &[&str]) -> Result<Vec<Vec<String>>, Failure> {
        let mut command = Command::new(self.example(name));
        command.args(arguments);
        let said = process::run(command, "", &self.world.path(""), RUN_LIMIT)?.success(name)?;
        Ok(said.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect())
    }

    /// Runs `mailprobe-loadtest run` with these flags; those after `--` come last.
    ///
    /// # Errors
    ///
    /// The program fails, or more than a thousandth of the requests have no good answer.
    pub fn loadtest(&self, flags: &[&str]) -> Result<LoadtestFigures, Failure> {
        let json = self.world.path("loadtest.json");
        let mut command = Command::new(self.world.binary("mailprobe-loadtest"));
        command.arg("run").arg("--json").arg(&json).args(flags);
        process::run(command, "", &self.world.path(""), RUN_LIMIT)?.success("mailprobe-loadtest")?;
        let text = std::fs::read_to_string(&json).at(&json)?;
        let value: Value = serde_json::from_str(&text).at(&json)?;
        let number = |path: &str| {
            let found = value.pointer(path).and_then(Value::as_f64);
            found.ok_or(format!("no number at {path}")).at(&json)
        };
        let figures = LoadtestFigures {
            rate: number("/rate")?,
            cpu_s_per_1000: number("/server/cpu_s_per_1000")?,
            p50_ms: number("/endpoints/0/latency_ms/p50")?,
            p99_ms: number("/endpoints/0/latency_ms/p99")?,
            errors: number("/errors")? as u64,
            requests: number("/requests")? as u64,
        };
        if figures.errors * 1000 > figures.requests {
            return Err(Failure(format!("{} of {} requests failed", figures.errors, figures.requests)));
        }
        Ok(figures)
    }
}

/// The median element by `key`.
pub fn middle<T>(mut all: Vec<T>, key: impl Fn(&T) -> f64) -> Result<T, Failure> {
    all.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let middle = all.len() / 2;
    if middle < all.len() { Ok(all.swap_remove(middle)) } else { Err(Failure("no runs".into())) }
}

/// Prints whether a figure is within its limit. A figure beyond its limit is no failure.
pub fn verdict(what: &str, holds: bool) {
    crate::interop::report::line(&format!("{what}: {}", if holds { "met" } else { "missed" }));
}
