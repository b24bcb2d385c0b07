//! The campaign with libFuzzer, which keeps inputs that reach new edges of the code, and mutates them.
//!
//! The stable compiler builds the binaries: its LLVM has the pass that counts edges (tools/fuzz/instrument). It has no
//! AddressSanitizer, and so no detection of leaks. The growth of resident memory is tested instead.

use super::super::world::cargo;
use super::log::{self, FuzzFigures};
use crate::failure::{Context, Failure};
use crate::interop::process::{self, target_folder};
use crate::interop::report::{self, Tally};
use crate::soak::crowd::{each, lock};
use crate::soak::options::SoakOptions;
use fastrand::Rng;
use fuzz::{Target, corpus, hex, input};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// How many targets run at once.
const JOBS: usize = 2;
/// How many inputs from the grammar a run starts with, in addition to the corpus.
const GROWN: usize = 200;
/// The longest allowed time of an input, in seconds.
const INPUT_SECONDS_MAX: u64 = 5;
/// The most resident memory of a run, in MiB.
const MEMORY_MIB_MAX: u64 = 1024;
/// The most growth of resident memory after the first 100,000 inputs, in MiB: of 10^7 inputs each may leave 13 bytes.
const GROWTH_MIB_MAX: u64 = 128;
/// The time limit of a build of the profile `soak` from an empty target folder.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
/// The time limit of one run.
const RUN_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs the targets, [`JOBS`] at a time, and counts them.
///
/// # Errors
///
/// The binaries cannot be built, or a file cannot be written.
pub fn run(options: &SoakOptions, targets: &[Target], tally: &mut Tally) -> Result<(), Failure> {
    let folder = tempfile::tempdir().about("no temporary folder")?;
    let binaries = match &options.bin_dir {
        Some(folder) => folder.clone(),
        None => build(folder.path())?,
    };
    let seed = options.seed();
    report::line(&format!("fuzz: seed {seed}, {} targets", targets.len()));
    let tally = Mutex::new(tally);
    each(targets.len(), JOBS, |number| {
        let (target, binaries) = (&targets[number], binaries.as_path());
        let run = FuzzRun { options, target, seed, binaries, folder: folder.path().join(target.name) };
        let outcome = run.feed().map_err(String::from);
        lock(&tally).check(target.name, outcome);
    })
    .map(drop)
}

/// Builds the binaries of all targets and returns their folder.
fn build(folder: &Path) -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["build", "--profile", "soak", "--package", "fuzz", "--features", "libfuzzer", "--bins"]);
    build.env("RUSTC_WORKSPACE_WRAPPER", concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/instrument"));
    process::run(build, "", folder, BUILD_LIMIT)?.success("cargo build")?;
    Ok(target_folder()?.join("soak"))
}

/// The run of one target.
struct FuzzRun<'r> {
    options: &'r SoakOptions,
    target: &'r Target,
    seed: u64,
    binaries: &'r Path,
    /// The folder of this run.
    folder: PathBuf,
}

impl FuzzRun<'_> {
    /// Runs the target to the end and returns a line of figures.
    fn feed(&self) -> Result<String, Failure> {
        let [found, known, failed, kept] =
            ["found", "known", "failed", "kept"].map(|name| self.folder.join(name));
        for folder in [&found, &known, &failed, &kept] {
            fs::create_dir_all(folder).at(folder)?;
        }
        let mut random = Rng::with_seed(self.seed ^ input::hash(self.target.name.as_bytes()));
        let mut inputs = corpus::read(self.target.name).map_err(|error| Failure(error.to_string()))?;
        inputs.extend((0..GROWN).map(|_| (self.target.grow)(&mut random)));
        for (number, input) in inputs.iter().enumerate() {
            fs::write(known.join(format!("{number:05}")), input).at(&known)?;
        }
        let mut command = self.command();
        let runs = self.options.runs.unwrap_or(self.target.runs);
        command.arg(format!("-runs={runs}"));
        if let Some(seconds) = self.options.seconds {
            command.arg(format!("-max_total_time={seconds}"));
        }
        // libFuzzer would replace the seed 0 by a random one.
        command.arg(format!("-seed={}", self.seed % 0xffff_fffe + 1));
        command.arg("-print_final_stats=1").arg(format!("-artifact_prefix={}/", failed.display()));
        if let Some(path) = corpus::dictionary(self.target.name) {
            command.arg(format!("-dict={}", path.display()));
        }
        command.args([&found, &known]);
        let finished = process::run(command, "", &self.folder, RUN_LIMIT)?;
        if !finished.status.success() {
            return Err(self.failure(&failed, &finished.stderr));
        }
        let figures = FuzzFigures::read(&finished.stderr)
            .ok_or_else(|| Failure(format!("libFuzzer says: {}", log::complaint(&finished.stderr))))?;
        let more = match self.options.keep {
            true => format!(", {} inputs kept", self.keep(&kept, &[&found, &known])?),
            false => String::new(),
        };
        let FuzzFigures { edges, reached, executions, per_second, corpus, warm_mib, end_mib, slowest_s } =
            figures;
        if end_mib > warm_mib + GROWTH_MIB_MAX {
            return Err(Failure(format!("{warm_mib} MiB became {end_mib} MiB in {executions} inputs")));
        }
        Ok(format!(
            "{executions} inputs, {per_second}/s, {reached} of {edges} edges, corpus {corpus}, {warm_mib} to {end_mib} \
             MiB, slowest {slowest_s} s{more}"
        ))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.binaries.join(format!("fuzz-{}", self.target.name)));
        command.arg(format!("-max_len={}", self.target.bytes_max));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command
    }

    /// The message of a failure, with the input that caused it.
    fn failure(&self, failed: &Path, log: &str) -> Failure {
        let complaint = log::complaint(log);
        let reproducer = files(failed).ok().and_then(|all| all.into_iter().next());
        Failure(match reproducer {
            Some(input) => format!("{complaint}\n      --replay {}:{}", self.target.name, hex(&input)),
            None => complaint,
        })
    }

    /// Writes to the committed corpus the smallest set of inputs that reaches the same edges as these. Returns its
    /// size.
    fn keep(&self, kept: &Path, from: &[&Path]) -> Result<usize, Failure> {
        let mut merge = self.command();
        merge.arg("-merge=1").arg(kept).args(from);
        process::run(merge, "", &self.folder, RUN_LIMIT)?.success("the merge")?;
        corpus::write(self.target.name, files(kept)?).at(kept)
    }
}

/// The contents of all files in a folder.
fn files(folder: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let entries = fs::read_dir(folder).at(folder)?;
    let content = |entry: std::io::Result<fs::DirEntry>| fs::read(entry?.path());
    entries.map(content).collect::<std::io::Result<_>>().at(folder)
}
