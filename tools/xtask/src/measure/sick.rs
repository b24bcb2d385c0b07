//! Three defective sites among a thousand: one never greets, one sends a byte every five seconds, one greylists. The
//! other sites should hardly be delayed.

use super::bench::Bench;
use super::cost::MeasuredChild;
use super::loadtest::middle;
use super::setting::{KnownNet, SERVER, SampleList};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

const LIST: SampleList = SampleList { domains: 1000, each: 500, rounds: 1 };
/// The domains with defects; in the other run they have none.
const SICK: [&str; 3] = ["d100.example", "d500.example", "d900.example"];

fn scenario(sick: bool) -> String {
    let group = |first: u64, count: u64| {
        format!(
            "[[group]]\nname = \"d{{n}}.example\"\nfirst = {first}\ncount = {count}\nserver = \"bench\"\nmailboxes.ok = [\"50% user-#\"]\n"
        )
    };
    let mut text = String::from(
        r#"
seed = 4
[listen]
addresses = "wildcard"
"#,
    );
    let mut first = 1;
    for (domain, number) in SICK.iter().zip([100, 500, 900]) {
        text += &group(first, number - first);
        let server = match number {
            100 => r#"server = { personality = "bench", faults = [{ at = "banner", does = "hang" }] }"#,
            500 => {
                r#"server = { personality = "bench", faults = [{ at = "banner", does = "drip", ms = 5000 }] }"#
            }
            _ => "server = \"bench\"\ngreylist_everyone = true\ngreylist_ms = 300000",
        };
        if sick {
            text += &format!("[[domain]]\nname = \"{domain}\"\n{server}\nmailboxes.ok = [\"50% user-#\"]\n");
        } else {
            text += &group(number, 1);
        }
        first = number + 1;
    }
    text + &group(first, LIST.domains + 1 - first)
}

/// Measures the healthy domains with and without the defective ones, and prints both.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    report::line(
        "| faulty sites | verdicts of other sites | right | s until the last of these verdicts | s in all |",
    );
    report::line("|---:|---:|---:|---:|---:|");
    let mut times = Vec::new();
    for sick in [false, true] {
        let runs = (0..bench.runs).map(|_| once(bench, sick)).collect::<Result<Vec<_>, _>>()?;
        let run = middle(runs, |run| run.last.as_secs_f64())?;
        report::line(&format!(
            "| {} | {} | {} | {:.2} | {:.2} |",
            if sick { 3 } else { 0 },
            run.rows,
            run.right,
            run.last.as_secs_f64(),
            run.all.as_secs_f64()
        ));
        tally.count(run.rows == run.right);
        times.push(run.last);
    }
    if let [alone, beside] = times[..] {
        report::line(&format!(
            "{:.2} times as long beside the faulty sites\n",
            beside.as_secs_f64() / alone.as_secs_f64()
        ));
    }
    Ok(())
}

struct Once {
    rows: u64,
    right: u64,
    last: Duration,
    all: Duration,
}

/// Cleans the list out of order, and records the time of the last row of a healthy domain.
fn once(bench: &Bench, sick: bool) -> Result<Once, Failure> {
    let net = KnownNet::start(bench, &(scenario(sick) + SERVER))?;
    let (input, _, log) = bench.files();
    LIST.write(&input)?;
    let mut command = bench.clean(&input, "-".as_ref(), &net.peers(), &["--unordered"]);
    command.stdout(Stdio::piped());
    let started = Instant::now();
    let mut running = MeasuredChild::start(command, &log)?;
    let pipe = running.child().stdout.take().ok_or_else(|| Failure("no pipe".into()))?;
    let mut once = Once { rows: 0, right: 0, last: Duration::ZERO, all: Duration::ZERO };
    for line in BufReader::new(pipe).lines().skip(1) {
        let line = line.map_err(Failure::of)?;
        let address = line.split(',').next().unwrap_or_default();
        if SICK.iter().any(|domain| address.ends_with(&format!("@{domain}"))) {
            continue;
        }
        once.rows += 1;
        once.right += u64::from(line.rsplit(',').next() == Some(net.reason(address)));
        once.last = started.elapsed();
    }
    running.wait(&log, Duration::from_secs(900))?;
    once.all = started.elapsed();
    Ok(once)
}
