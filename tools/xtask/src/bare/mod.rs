//! `cargo xtask bare`: README's commands on a minimal Debian with nothing but what README names.
//!
//! Each release of Debian gets a root file system by debootstrap, with the packages of README and the Rust toolchain of this machine
//! (root.rs). An ordinary user clones the repository there and runs the commands of README as they are written (readme.rs): the server,
//! the tests and `cargo install`. The root has only loopback: the crates come from the registry cache of this machine, which
//! `cargo fetch` completes before. The requirements of README are wrong if a step fails here and passes elsewhere.
//!
//! With `--test-only`, only README's test command runs, on this checkout and its target folder, both at their usual paths. So nothing is
//! built twice. `.ci/run` runs its tests like this. The output is that of cargo, without a last line of counts of its own.

mod readme;
pub mod root;

use crate::failure::{Context, Failure};
use crate::interop::drivers::first_key;
use crate::interop::process::{self, ServerProcess, wait_until};
use crate::interop::report::{self, Tally, outcome};
use crate::isolation::isolated;
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::world::cargo;
use clap::Args;
use readme::Promises;
use root::{BareRoot, HOME, Release};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// A build from nothing takes ten minutes on two free cores, and the tests as long again.
const STEP_LIMIT: Duration = Duration::from_secs(2 * 3600);
/// Downloads of crates, and copies of folders.
const COPY_LIMIT: Duration = Duration::from_secs(900);
/// A drain of the server takes up to 65 s.
const DRAIN_LIMIT: Duration = Duration::from_secs(80);
/// What a new user's disk must have free for the tests. The size hardly depends on the machine, so it is checked, other than times.
const TESTS_BYTES: u64 = 5_000_000_000;
/// Nothing of this machine asks the DNS in the namespaces of the commands.
const NO_RESOLVER: &str = "127.0.0.1";
/// Programs of the machine, with what installs them.
const TOOLS: [(&str, &str); 5] = [
    ("debootstrap", "apt-get install debootstrap"),
    ("git", "apt-get install git"),
    ("unshare", "apt-get install util-linux"),
    ("ip", "apt-get install iproute2"),
    ("cargo", "https://rustup.rs"),
];
/// The environment that decides what cargo builds and how tests run. Everything else is that of a new user.
const PASSED_ON: [&str; 3] = ["CARGO_INCREMENTAL", "CARGO_TERM_COLOR", "RUST_TEST_THREADS"];
const PASSED_ON_PREFIX: &str = "CARGO_PROFILE_";

/// The options of `cargo xtask bare`.
#[derive(Args)]
pub struct BareOptions {
    /// Release of Debian; both by default
    #[arg(long, value_enum, value_name = "RELEASE")]
    release: Vec<Release>,
    /// Run only README's test command, on this checkout and its target folder, as cargo prints it
    #[arg(long)]
    test_only: bool,
    /// With --test-only: the target folder, in which the tests are built; by default that of this program
    #[arg(long, value_name = "DIR", requires = "test_only")]
    target: Option<PathBuf>,
    /// Fewest tests that `cargo test` must run
    #[arg(long, value_name = "N", default_value_t = 1)]
    tests_min: u64,
}

/// Runs the steps on each release; the exit code is 0 if all of them passed.
pub fn main(options: &BareOptions) -> ExitCode {
    let prepared = process::watch_signals().and_then(|()| prepare());
    if options.test_only {
        return match prepared.and_then(|promises| test_only(options, &promises)) {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(failure) => report::end("bare", Err(failure)),
        };
    }
    report::end("bare", prepared.and_then(|promises| bare(options, &promises)))
}

/// Looks for everything that would fail later, and reads README.
fn prepare() -> Result<Promises, Failure> {
    process::require(&TOOLS)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Failure("root is needed, for debootstrap and mounts".into()));
    }
    let path = repository()?.join("README.md");
    let text = fs::read_to_string(&path).at(&path)?;
    Promises::read(&text).map_err(|why| Failure(format!("README.md: {why}")))
}

fn bare(options: &BareOptions, promises: &Promises) -> Result<Tally, Failure> {
    let releases = if options.release.is_empty() { &Release::ALL[..] } else { &options.release };
    // The roots have no network, so the cache of crates must be complete before.
    let mut fetch = cargo();
    fetch.args(["fetch", "--locked", "--quiet"]);
    let fetched = process::accompany(fetch)?;
    if !fetched.success() {
        return Err(Failure(format!("cargo fetch: {fetched}")));
    }
    let mut tally = Tally::default();
    for release in releases {
        let root = BareRoot::make(*release, &promises.packages)?;
        // The root has a file of its own with the machine's resolvers, which its network cannot reach.
        isolated(root.folder(), NO_RESOLVER, || on_release(&root, promises, options, &mut tally))?;
    }
    Ok(tally)
}

/// All steps on one release.
fn on_release(
    root: &BareRoot,
    promises: &Promises,
    options: &BareOptions,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let name = root.release();
    let log = root.folder().with_file_name(format!("{name}.log"));
    report::line(&format!("{name}: the output of the commands is in {}", log.display()));
    let checkout = check_out(root)?;
    // Without a network, `cargo install` would try for minutes to ask the registry which versions were withdrawn.
    let script = format!("cd {}\nexport CARGO_NET_OFFLINE=true\n", checkout.inside.display());
    let mut steps = Steps { root, log, tally, script };
    steps.serve(promises, &checkout.outside)?;
    let tested = steps.run(&promises.test)?;
    let counts = TestCounts::of(&tested.said);
    steps.judge(&promises.test, &tested, Ok(format!("{} tests passed", counts.passed)));
    let enough = counts.passed >= options.tests_min && counts.failed == 0;
    let ran = format!("{} tests, of which {} failed", counts.passed + counts.failed, counts.failed);
    steps.tally.check(&format!("{name}: at least {} tests", options.tests_min), outcome(enough, ran));
    let installed = steps.run(&format!("{} && ~/.cargo/bin/mailprobe --version", promises.install))?;
    let version = installed.said.lines().last().unwrap_or_default().to_owned();
    steps.judge(&promises.install, &installed, Ok(version));
    let target = checkout.outside.join("target");
    let (all, tests) = (size_of(&target)?, size_of(&target.join("debug"))?);
    let sizes = format!("{:.2} GB, with the release build {:.2} GB", tests as f64 / 1e9, all as f64 / 1e9);
    let name = format!("{name}: the tests take at most {:.0} GB", TESTS_BYTES as f64 / 1e9);
    steps.tally.check(&name, outcome(tests <= TESTS_BYTES, sizes));
    Ok(())
}

/// The clone of the repository in a root, as paths inside and outside of it.
struct Checkout {
    inside: PathBuf,
    outside: PathBuf,
}

/// Clones the repository, and copies the cache of crates of this machine: the root has no network.
fn check_out(root: &BareRoot) -> Result<Checkout, Failure> {
    let (repository, inside) = (repository()?, Path::new(HOME).join("mailprobe"));
    let outside = root.outside(&inside);
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(&repository).arg(&outside);
    process::run(clone, "", root.folder(), COPY_LIMIT)?.success("git clone")?;
    let registry = root.outside(&Path::new(HOME).join(".cargo/registry"));
    fs::create_dir_all(&registry).at(&registry)?;
    let mut copy = Command::new("cp");
    copy.arg("--archive").args(["index", "cache"].map(|part| root.registry().join(part))).arg(&registry);
    process::run(copy, "", root.folder(), COPY_LIMIT)?.success("cp of the registry")?;
    root.give(&[(Path::new(HOME), true)])?;
    Ok(Checkout { inside, outside })
}

/// The steps on one release.
struct Steps<'a> {
    root: &'a BareRoot,
    log: PathBuf,
    tally: &'a mut Tally,
    /// The lines of shell before each command.
    script: String,
}

/// A command that ended.
struct Ended {
    status: ExitStatus,
    time: Duration,
    /// What it printed.
    said: String,
}

impl Steps<'_> {
    /// Runs one command of README to its end.
    fn run(&self, command: &str) -> Result<Ended, Failure> {
        let began = Instant::now();
        let mut child = self.start(command)?;
        let status = child.wait(STEP_LIMIT)?;
        Ok(Ended { status, time: began.elapsed(), said: child.log()? })
    }

    fn start(&self, command: &str) -> Result<ServerProcess, Failure> {
        let script = format!("{}{command}\n", self.script);
        ServerProcess::start(command, self.root.command(&script, &[]), &self.log)
    }

    /// Counts a step by its exit code, with its time.
    fn judge(&mut self, command: &str, ended: &Ended, note: Result<String, String>) {
        let Ended { status, time, said } = ended;
        let lines: Vec<&str> = said.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        let name = format!("{}: {command}", self.root.release());
        let judged = if status.success() { note } else { Err(format!("{status}\n{tail}")) };
        self.tally.check(&name, judged.map(|note| format!("{} s, {note}", time.as_secs())));
    }

    /// Builds and starts the server, asks it, and ends it by SIGTERM.
    fn serve(&mut self, promises: &Promises, checkout: &Path) -> Result<(), Failure> {
        let stop = checkout.join("stop");
        // The server's own exit code is that of the script. `kill` is the shell's: Debian's minimal systems have no such program.
        let script = format!(
            "{} &\nserver=$!\nwhile kill -0 $server 2>/dev/null && [ ! -e stop ]; do sleep 0.2; done\n\
             kill -TERM $server\nwait $server",
            promises.serve
        );
        let began = Instant::now();
        let mut child = self.start(&script)?;
        let mut client = HttpClient::program(promises.server);
        wait_until(&promises.serve, STEP_LIMIT, || {
            child.running().map_err(|Failure(why)| child.complain(&why))?;
            let is_ready = client.send(&HttpRequest::get("/readyz")).is_ok_and(|reply| reply.status == 200);
            Ok(is_ready)
        })?;
        let name = self.root.release();
        let ready = format!("{} s until /readyz is 200", began.elapsed().as_secs());
        self.tally.check(&format!("{name}: {}", promises.serve), Ok(ready));
        let key = first_key(&checkout.join("data"), "test")?;
        let asked = client.send(&HttpRequest::get(promises.path.as_str()).bearer(&key));
        let answer = asked.map_or_else(|lost| format!("{lost:?}"), |reply| reply.text());
        let is_same = answer.trim() == promises.answer.trim();
        self.tally.check(
            &format!("{name}: the answer to {}", promises.path),
            if is_same { Ok("as README shows".into()) } else { Err(answer) },
        );
        fs::write(&stop, "").at(&stop)?;
        let status = child.wait(DRAIN_LIMIT)?;
        let said = if status.success() {
            Ok(status.to_string())
        } else {
            Err(child.complain(&status.to_string()).0)
        };
        self.tally.check(&format!("{name}: SIGTERM ends the server"), said);
        fs::remove_file(&stop).at(&stop)
    }
}

/// Runs README's test command on this checkout, with the terminal of this process.
fn test_only(options: &BareOptions, promises: &Promises) -> Result<ExitStatus, Failure> {
    let release = options.release.first().copied().unwrap_or(Release::Bookworm);
    let checkout = repository()?;
    let target = options.target.clone().map_or_else(process::target_folder, Ok)?;
    let target = target.canonicalize().at(&target)?;
    let mut root = BareRoot::make(release, &promises.packages)?;
    open_to_all(&checkout)?;
    root.bind(&checkout, &checkout, true)?;
    // Cargo locks this folder, and doc tests are built into it.
    root.bind(&target, &target, false)?;
    root.give(&[(&target, false), (&target.join("debug"), true), (&target.join("tmp"), true)])?;
    // Cargo builds a crate again if the path of its source is another one.
    let registry = root.registry().to_owned();
    root.bind(&registry, &registry, true)?;
    root.let_through(&registry)?;
    let is_passed_on = |name: &str| PASSED_ON.contains(&name) || name.starts_with(PASSED_ON_PREFIX);
    let mut variables: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| is_passed_on(name)).collect();
    variables.push(("CARGO_TARGET_DIR".into(), target.display().to_string()));
    let cargo_home = registry.parent().unwrap_or(&registry);
    variables.push(("CARGO_HOME".into(), cargo_home.display().to_string()));
    let all = if promises.test.contains("--no-fail-fast") { "" } else { " --no-fail-fast" };
    let script = format!("cd {}\n{}{all}\n", checkout.display(), promises.test);
    isolated(root.folder(), NO_RESOLVER, || process::accompany(root.command(&script, &variables)))
}

/// Lets other users enter the checkout: a folder of mktemp is its owner's alone.
fn open_to_all(checkout: &Path) -> Result<(), Failure> {
    let changed = fs::metadata(checkout).and_then(|found| {
        let mode = found.permissions().mode();
        fs::set_permissions(checkout, fs::Permissions::from_mode(mode | 0o055))
    });
    changed.at(checkout)
}

/// Sums of cargo's lines `test result: ok. 3 passed; 0 failed; ...`.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    passed: u64,
    failed: u64,
}

impl TestCounts {
    fn of(said: &str) -> TestCounts {
        let mut counts = TestCounts::default();
        for line in said.lines().filter(|line| line.starts_with("test result: ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let before = |word: &str| {
                let at = words.iter().position(|found| found.trim_end_matches(';') == word);
                at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<u64>().ok()).unwrap_or(0)
            };
            counts.passed += before("passed");
            counts.failed += before("failed");
        }
        counts
    }
}

/// The bytes on disk of a folder.
fn size_of(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry.at(folder)?.path();
        let found = fs::symlink_metadata(&path).at(&path)?;
        bytes += if found.is_dir() { size_of(&path)? } else { found.blocks() * 512 };
    }
    Ok(bytes)
}

/// The folder of the repository.
fn repository() -> Result<PathBuf, Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().at(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted() {
        let said = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
                    test other ... ok\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(TestCounts::of(said), TestCounts { passed: 15, failed: 2 });
    }
}
