//! Look-ups of MX records compared with dnsperf, which only sends questions and counts answers. Both ask mailnet, whose
//! names here have a null MX, so that a name needs a single question.
//!
//! The measured value is the processor time of the client. The engine's shard is counted separately from the thread
//! that submits requests.

use super::bench::Bench;
use super::loadtest::{middle, verdict};
use crate::failure::{Context, Failure};
use crate::interop::report::{self, Tally};
use std::fmt::Write;
use std::fs::File;
use std::process::Command;
use std::time::Duration;

const NAMES: u64 = 100_000;
/// How many questions are under way: so few that no socket buffer overflows, since lost questions would be repeated.
const UNDER_WAY: &str = "100";
const US_MAX: f64 = 10.0;
const LIMIT: Duration = Duration::from_secs(120);

const SCENARIO: &str = r##"
[[group]]
name = "d{n}.null.example"
count = 100000
mx = "null"
"##;

struct LookupCost {
    seconds: f64,
    /// CPU seconds of the whole process, and of the thread that asks DNS.
    cpu_s: f64,
    asking_s: f64,
}

/// Measures both clients, and counts whether the engine's answers are right.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    bench.build_tools()?;
    let mailnet = bench.world.mailnet(SCENARIO)?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        theirs.push(dnsperf(bench, mailnet.engine().0)?);
        ours.push(engine(bench, mailnet.engine().0)?);
    }
    mailnet.kill();
    let (theirs, ours) = (middle(theirs, |cost| cost.cpu_s)?, middle(ours, |cost| cost.asking_s)?);
    report::line("| client | look-ups | s | CPU us per look-up | look-ups per CPU s | relative to dnsperf |");
    report::line("|---|---:|---:|---:|---:|---:|");
    for (name, seconds, cpu_s) in [
        ("dnsperf", theirs.seconds, theirs.cpu_s),
        ("the engine's shard", ours.seconds, ours.asking_s),
        ("the engine and its caller", ours.seconds, ours.cpu_s),
    ] {
        report::line(&format!(
            "| {name} | {NAMES} | {seconds:.2} | {:.2} | {:.0} | {:.2} |",
            cpu_s * 1e6 / NAMES as f64,
            NAMES as f64 / cpu_s,
            theirs.cpu_s / cpu_s,
        ));
        tally.passed += 1;
    }
    report::line("");
    let us = ours.asking_s * 1e6 / NAMES as f64;
    verdict(&format!("{us:.1} CPU us of the engine per look-up, at most {US_MAX:.0}"), us <= US_MAX);
    let share = theirs.cpu_s / ours.asking_s;
    verdict(&format!("{share:.2} of dnsperf's look-ups per CPU s, at least 1"), share >= 1.0);
    Ok(())
}

fn dnsperf(bench: &Bench, server: &str) -> Result<LookupCost, Failure> {
    let names = bench.world.path("names.txt");
    let mut text = String::new();
    for number in 1..=NAMES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "d{number}.null.example MX");
    }
    std::fs::write(&names, text).at(&names)?;
    let (host, port) = server.rsplit_once(':').ok_or_else(|| Failure(format!("no port in {server}")))?;
    let mut command = Command::new("dnsperf");
    // One thread, one socket, the file once, and EDNS as in the engine.
    command.args(["-s", host, "-p", port, "-n", "1", "-T", "1", "-c", "1", "-q", UNDER_WAY, "-e", "-d"]);
    let said = bench.world.path("dnsperf.out");
    let output = File::create(&said).at(&said)?;
    command.arg(&names).stdout(output);
    let cost = bench.run(command, LIMIT)?;
    let said = std::fs::read_to_string(&said).at(&said)?;
    let completed = said.lines().find_map(|line| line.trim().strip_prefix("Queries completed:"));
    let completed = completed.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    if completed != Some(NAMES) {
        return Err(Failure(format!("dnsperf lost look-ups: {completed:?} of {NAMES}")));
    }
    Ok(LookupCost { seconds: cost.wall.as_secs_f64(), cpu_s: cost.cpu_s, asking_s: cost.cpu_s })
}

fn engine(bench: &Bench, server: &str) -> Result<LookupCost, Failure> {
    let said = bench.run_example("resolve", &[server, &NAMES.to_string(), "null.example", UNDER_WAY])?;
    let figures: Vec<f64> = said.iter().flatten().filter_map(|word| word.parse().ok()).collect();
    let [_, seconds, asking_s, cpu_s] = figures[..] else {
        return Err(Failure(format!("resolve says {said:?}")));
    };
    Ok(LookupCost { seconds, cpu_s, asking_s })
}
