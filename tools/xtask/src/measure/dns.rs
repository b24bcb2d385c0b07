//! Look-ups of MX records beside dnsperf, which does nothing but send questions and count answers, against the same server:
//! mailnet, whose names here have a null MX, so that a question is all there is to a name.
//!
//! What counts is the processor time of the asker. The engine's shard is told apart from the thread that asks it.

use super::cost::Running;
use super::loadtest::{middle, verdict};
use super::{Bench, Failure};
use crate::interop::report::{self, Tally};
use std::fmt::Write;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

const NAMES: u64 = 100_000;
/// Few enough that none is lost in a socket's buffer, as those would be timed out and asked again.
const UNDER_WAY: &str = "100";
const US_MAX: f64 = 10.0;
const LIMIT: Duration = Duration::from_secs(120);

const SCENARIO: &str = r##"
[[group]]
name = "d{n}.null.example"
count = 100000
mx = "null"
"##;

struct Cost {
    seconds: f64,
    /// Of the whole process, and of its part that asks DNS.
    cpu_s: f64,
    asking_s: f64,
}

pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    bench.build_tools()?;
    let installed = Command::new("dnsperf").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
    installed.map_err(|_| Failure("dns needs dnsperf: apt-get install dnsperf".into()))?;
    let mailnet = bench.world.mailnet(SCENARIO)?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        theirs.push(dnsperf(bench, mailnet.dns())?);
        ours.push(engine(bench, mailnet.dns())?);
    }
    mailnet.kill();
    let (theirs, ours) = (middle(theirs, |cost| cost.cpu_s)?, middle(ours, |cost| cost.asking_s)?);
    report::line("| client | look-ups | s | CPU us a look-up | look-ups a CPU s | of dnsperf's |");
    report::line("|---|---:|---:|---:|---:|---:|");
    for (name, seconds, cpu_s) in [
        ("dnsperf", theirs.seconds, theirs.cpu_s),
        ("the engine's shard", ours.seconds, ours.asking_s),
        ("the engine and who asks it", ours.seconds, ours.cpu_s),
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
    verdict(&format!("{us:.1} us of engine CPU a look-up, at most {US_MAX:.0}"), us <= US_MAX);
    let share = theirs.cpu_s / ours.asking_s;
    verdict(&format!("{share:.2} of dnsperf's look-ups a CPU second, at least 1"), share >= 1.0);
    Ok(())
}

fn dnsperf(bench: &Bench, server: &str) -> Result<Cost, Failure> {
    let (names, log) = (bench.world.path("names.txt"), bench.world.path("dnsperf.log"));
    let mut text = String::new();
    for number in 1..=NAMES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "d{number}.null.example MX");
    }
    std::fs::write(&names, text).map_err(|error| Failure(format!("{}: {error}", names.display())))?;
    let (host, port) = server.rsplit_once(':').ok_or_else(|| Failure(format!("no port in {server}")))?;
    let mut command = Command::new("dnsperf");
    // One thread and one socket; the file once; EDNS as the engine asks.
    command.args(["-s", host, "-p", port, "-n", "1", "-T", "1", "-c", "1", "-q", UNDER_WAY, "-e", "-d"]);
    let said = bench.world.path("dnsperf.out");
    let output = File::create(&said).map_err(|error| Failure(format!("{}: {error}", said.display())))?;
    command.arg(&names).stdout(output);
    let cost = Running::start(command, &log)?.wait(&log, LIMIT)?;
    let said =
        std::fs::read_to_string(&said).map_err(|error| Failure(format!("{}: {error}", said.display())))?;
    let completed = said.lines().find_map(|line| line.trim().strip_prefix("Queries completed:"));
    let completed = completed.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    if completed != Some(NAMES) {
        return Err(Failure(format!("dnsperf lost look-ups: {completed:?} of {NAMES}")));
    }
    Ok(Cost { seconds: cost.wall.as_secs_f64(), cpu_s: cost.cpu_s, asking_s: cost.cpu_s })
}

fn engine(bench: &Bench, server: &str) -> Result<Cost, Failure> {
    let said = bench.run_example("resolve", &[server, &NAMES.to_string(), "null.example", UNDER_WAY])?;
    let figures: Vec<f64> = said.iter().flatten().filter_map(|word| word.parse().ok()).collect();
    let [_, seconds, asking_s, cpu_s] = figures[..] else {
        return Err(Failure(format!("resolve says {said:?}")));
    };
    Ok(Cost { seconds, cpu_s, asking_s })
}
