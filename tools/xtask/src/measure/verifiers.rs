//! Lists that mailprobe and two public verifiers check: the crate check-if-email-exists and the npm package deep-email-validator.
//!
//! cargo and npm install the two in temporary folders, so neither the workspace nor the tree depends on them. Each gets a program
//! of ours (tools/xtask/verifiers/) that reads the list and prints the verdicts. Both look for mail servers in the system's DNS
//! and on port 25. So all verifiers and mailnet run in namespaces where mailnet is the system's resolver, without a way out.

use super::bench::Bench;
use super::cost::RunCost;
use super::loadtest::middle;
use super::plot::{Bar, BarGroup, bars};
use super::setting::{ExpectedVerdict, PeerAddresses, SERVER, SampleList, half_known, known, right};
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::{self, Tally};
use crate::isolation::isolated;
use crate::soak::world::cargo;
use mailnet::Scenario;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Many addresses of few domains, and one address of each of many domains. With the second list, no session of mailprobe serves
/// two addresses.
const LISTS: [SampleList; 2] =
    [SampleList { domains: 20, each: 500, rounds: 1 }, SampleList { domains: 5000, each: 1, rounds: 1 }];
/// The headings of the lists in the plot.
const HEADINGS: [&str; 2] = ["500 addresses of each of 20 domains", "1 address of each of 5,000 domains"];
/// The most sessions of each verifier at the same time.
pub const SESSIONS: &str = "50";
/// The address of mailnet's DNS server.
pub const RESOLVER: &str = "127.0.0.53";
const LIMIT: Duration = Duration::from_secs(120);
/// Both installations come over the network, and the crate has 280 dependencies.
const INSTALL_LIMIT: Duration = Duration::from_secs(1200);

const CRATE: &str = "check-if-email-exists";
const CRATE_VERSION: &str = "0.11.11";
const CRATE_PROGRAM: &str = include_str!("../../verifiers/check_if_email_exists.rs");
const PACKAGE: &str = "deep-email-validator";
const PACKAGE_VERSION: &str = "0.1.27";
const PACKAGE_SCRIPT: &str = include_str!("../../verifiers/deep_email_validator.mjs");

/// A program that takes a list and a number of sessions. `None` is mailprobe.
pub type OtherVerifier = Option<Vec<PathBuf>>;
/// The name of a verifier, and its program.
pub type Verifier = (String, OtherVerifier);

/// The runs of a verifier with a list.
struct VerifierRuns {
    verifier: String,
    list: SampleList,
    costs: Vec<RunCost>,
    /// The number of right verdicts in the worst run.
    right: u64,
}

/// Measures all verifiers in turn, prints the table, and writes the plot if `plot` has a path.
pub fn run(bench: &Bench, plot: Option<&Path>, tally: &mut Tally) -> Result<(), Failure> {
    let verifiers = install(bench, format!("mailprobe clean --pace lab --sessions {SESSIONS}"))?;
    let text = scenario();
    let known = known(&text)?;
    let measured = isolated(bench.world.folder(), RESOLVER, || {
        let mailnet = bench.world.mailnet(&text)?;
        let mut measured = Vec::new();
        for list in LISTS {
            measured.extend(in_turn(bench, &known, list, &verifiers)?);
        }
        mailnet.stop()?;
        Ok(measured)
    })?;
    print(&measured, plot, tally)
}

/// mailprobe with this name, and the other verifiers after their installation.
pub fn install(bench: &Bench, mailprobe: String) -> Result<Vec<Verifier>, Failure> {
    Ok(vec![
        (mailprobe, None),
        (format!("{CRATE} {CRATE_VERSION} (Rust)"), Some(build_crate(bench)?)),
        (format!("{PACKAGE} {PACKAGE_VERSION} (Node.js)"), Some(install_package(bench)?)),
    ])
}

/// Servers without STARTTLS, which one of the verifiers does not use. They accept a space before a path, as one of them sends it.
fn scenario() -> String {
    let listen = format!("[listen]\ndns = \"{RESOLVER}:53\"\nsmtp_port = 25\naddresses = \"wildcard\"\n");
    let domains = LISTS.iter().map(|list| list.domains).max().unwrap_or_default();
    format!("seed = 4\nspace_before_path = true\n{listen}{SERVER}{}", half_known(domains))
}

/// Runs all verifiers with a list, one after another, and repeats this.
fn in_turn(
    bench: &Bench,
    known: &Scenario,
    list: SampleList,
    verifiers: &[Verifier],
) -> Result<Vec<VerifierRuns>, Failure> {
    list.write(&bench.files().0)?;
    let new = |(name, _): &(String, _)| VerifierRuns::new(name, list);
    let mut measured: Vec<VerifierRuns> = verifiers.iter().map(new).collect();
    for _ in 0..bench.runs {
        for (runs, (_, other)) in measured.iter_mut().zip(verifiers) {
            let (cost, right) = one_run(bench, known, list, other)?;
            runs.costs.push(cost);
            runs.right = runs.right.min(right);
        }
    }
    Ok(measured)
}

/// The cost of a run, and the number of right verdicts.
fn one_run(
    bench: &Bench,
    known: &Scenario,
    list: SampleList,
    other: &OtherVerifier,
) -> Result<(RunCost, u64), Failure> {
    let (input, output, _) = bench.files();
    let expected = |address: &str| known.expected(address).reason.as_str();
    let Some(words) = other else {
        let networks = vec!["--allow-net".into(), "127.0.0.0/8".into()];
        let peers = PeerAddresses { resolver: format!("{RESOLVER}:53"), smtp_port: "25".into(), networks };
        let command = bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", SESSIONS]);
        let cost = bench.run(command, LIMIT)?;
        return Ok((cost, right(list, &output, &expected)?));
    };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(&input).arg(SESSIONS);
    command.stdout(File::create(&output).at(&output)?);
    let cost = bench.run(command, LIMIT)?;
    Ok((cost, right_of_other(list, &output, &expected)?))
}

/// The verdict and the reason of each address, from lines `ADDRESS,VERDICT,REASON`, which are in any order.
pub fn verdicts(output: &str) -> HashMap<&str, (&str, &str)> {
    let read = |line| {
        let (address, rest) = str::split_once(line, ',')?;
        Some((address, rest.split_once(',').unwrap_or((rest, ""))))
    };
    output.lines().filter_map(read).collect()
}

/// Counts the right verdicts in the output of another verifier: `yes` or `no`.
fn right_of_other(list: SampleList, output: &Path, expected: ExpectedVerdict<'_>) -> Result<u64, Failure> {
    let text = fs::read_to_string(output).at(output)?;
    let verdicts = verdicts(&text);
    let is_right = |address: &String| {
        let wanted = if expected(address) == "mailbox_exists" { "yes" } else { "no" };
        verdicts.get(address.as_str()).is_some_and(|(verdict, _)| *verdict == wanted)
    };
    Ok((0..list.len()).map(|index| list.address(index)).filter(is_right).count() as u64)
}

impl VerifierRuns {
    fn new(verifier: &str, list: SampleList) -> VerifierRuns {
        VerifierRuns { verifier: verifier.into(), list, costs: Vec::new(), right: list.len() }
    }

    /// CPU seconds per 1,000 addresses in the median run, and the wall time of this run in seconds.
    fn median(&self) -> Result<(f64, f64), Failure> {
        let cost = middle(self.costs.clone(), |cost| cost.cpu_s)?;
        Ok((cost.cpu_s * 1000.0 / self.list.len() as f64, cost.wall.as_secs_f64()))
    }
}

/// Prints the table, and writes the plot.
fn print(measured: &[VerifierRuns], plot: Option<&Path>, tally: &mut Tally) -> Result<(), Failure> {
    report::line("| verifier | domains | addresses | right | s | CPU s per 1,000 | relative to mailprobe |");
    report::line("|---|---:|---:|---:|---:|---:|---:|");
    let mut groups = Vec::new();
    // mailprobe is the first verifier of each list.
    let of_lists = measured.chunk_by(|a, b| a.list.domains == b.list.domains);
    for (of_list, heading) in of_lists.zip(HEADINGS) {
        let domains = of_list[0].list.domains;
        let (addresses, of_mailprobe) = (of_list[0].list.len(), of_list[0].median()?.0);
        tally.count(of_list[0].right == addresses);
        let mut bars = Vec::new();
        for runs in of_list {
            let VerifierRuns { verifier, right, .. } = runs;
            let (cost, wall) = runs.median()?;
            let times = cost / of_mailprobe;
            report::line(&format!(
                "| {verifier} | {domains} | {addresses} | {right} | {wall:.2} | {cost:.4} | {times:.1} |"
            ));
            let name = verifier.split(' ').next().unwrap_or_default().to_owned();
            bars.push(Bar { name, value: cost, text: format!("{cost:.3}") });
        }
        groups.push(BarGroup { heading: heading.into(), bars });
    }
    let Some(path) = plot else { return Ok(()) };
    let title = "CPU seconds per 1,000 addresses (less is better)";
    fs::write(path, bars(title, &groups)).at(path)
}

/// Builds a program with the crate, outside the workspace, and returns its command.
fn build_crate(bench: &Bench) -> Result<Vec<PathBuf>, Failure> {
    let folder = bench.world.path("crate");
    let manifest = format!(
        "[package]\nname = \"verifier\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {CRATE} = \"={CRATE_VERSION}\"\ntokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\", \"sync\", \"time\"] }}\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src/main.rs"), CRATE_PROGRAM)?;
    let mut command = cargo();
    // The dependencies stay built for the next run.
    let target = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/verifiers"));
    command.args(["build", "--release", "--quiet", "--target-dir"]).arg(target).current_dir(&folder);
    process::run(command, "", &folder, INSTALL_LIMIT)?.success("cargo build")?;
    Ok(vec![target.join("release/verifier")])
}

/// Installs the package of npm, and returns the command of a script that uses it.
fn install_package(bench: &Bench) -> Result<Vec<PathBuf>, Failure> {
    let folder = bench.world.path("package");
    let package = format!(
        "{{\"private\": true, \"type\": \"module\", \"dependencies\": {{\"{PACKAGE}\": \"{PACKAGE_VERSION}\"}}}}\n"
    );
    write(&folder.join("package.json"), &package)?;
    let script = folder.join("verify.mjs");
    write(&script, PACKAGE_SCRIPT)?;
    let mut command = Command::new("npm");
    command.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    process::run(command, "", &folder, INSTALL_LIMIT)?.success("npm install")?;
    Ok(vec!["node".into(), script])
}

/// Writes a file, in a folder that need not exist yet.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_others_count_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let list = SampleList { domains: 2, each: 2, rounds: 1 };
        let expected = |address: &str| match address.starts_with("user-0@") {
            true => "mailbox_exists",
            false => "mailbox_not_found",
        };
        let all =
            "user-1@d2.example,no\nuser-0@d2.example,yes\nuser-1@d1.example,no\nuser-0@d1.example,yes\n";
        let some = "user-0@d1.example,yes\nuser-1@d1.example,unknown\nuser-0@d2.example,no\n";
        for (text, right) in [(all, 4), (some, 1), ("", 0)] {
            fs::write(&output, text).unwrap();
            assert_eq!(right_of_other(list, &output, &expected).unwrap_or_default(), right, "{text}");
        }
    }

    #[test]
    fn half_of_each_list_exists() {
        let known = Scenario::parse(&scenario()).unwrap();
        for list in LISTS {
            let exists =
                |index: &u64| known.expected(&list.address(*index)).reason.as_str() == "mailbox_exists";
            let count = (0..list.len()).filter(exists).count() as u64;
            assert!(count.abs_diff(list.len() / 2) < list.len() / 20, "{count} of {} exist", list.len());
        }
    }
}
