//! Lists from ten thousand to ten million lines, with as many addresses of each domain: the cost of an address is the
//! same, and memory does not grow from the first million on.

use super::cost::{Cost, Running};
use super::setting::{List, Peers, SERVER, right};
use super::{Bench, Failure, Row, median};
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use std::time::Duration;

const EACH: u64 = 100;
/// Of lists so long it is told how memory goes.
const TOLD_FROM: u64 = 10_000_000;
/// A list of that length comes in another form too: a tenth of the domains, so many times over. All that is kept of domains is
/// there after the first time, and what grows from then on grows with the lines.
const ROUNDS: u64 = 10;
const LIMIT: Duration = Duration::from_secs(3600);

pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let text = format!(
        r#"
seed = 4
[listen]
addresses = "wildcard"
[[group]]
name = "d{{n}}.example"
count = {}
server = "bench"
mailboxes.ok = ["50% user-#"]
"#,
        bench.lines.div_ceil(EACH)
    );
    let text = text + SERVER;
    let known = Scenario::parse(&text).map_err(|error| Failure(error.to_string()))?;
    let expected = |address: &str| known.expected(address).reason.as_str();
    let mailnet = bench.world.mailnet(&text)?;
    let peers = Peers::of(&mailnet);
    let empty = empty(bench, &peers)?;
    report::line(&format!("an empty list: {:.2} CPU s, {:.2} s", empty.cpu_s, empty.wall.as_secs_f64()));
    Row::head();
    let sizes = (4..=18).map(|power| 10_u64.pow(power)).take_while(|&lines| lines <= bench.lines);
    let mut sizes: Vec<u64> = sizes.collect();
    if sizes.last() != Some(&bench.lines) {
        sizes.push(bench.lines);
    }
    let list = |lines: u64, rounds: u64| List { domains: lines / EACH / rounds, each: EACH, rounds };
    let mut lists: Vec<List> = sizes.iter().map(|&lines| list(lines, 1)).collect();
    if bench.lines >= TOLD_FROM {
        lists.push(list(bench.lines, ROUNDS));
    }
    for list in lists {
        let (mut cost, right) = bench.measure(list, &peers, &["--pace", "lab"], &expected, LIMIT)?;
        cost.cpu_s -= empty.cpu_s;
        let client = match list.rounds {
            1 => "mailprobe clean --pace lab".into(),
            rounds => format!("the same, {} domains {rounds} times over", list.domains),
        };
        let tenths = (list.len() >= TOLD_FROM).then(|| tenths(&cost));
        Row { client, peer: "mailnet, knows half".into(), addresses: list.len(), right: Some(right), cost }
            .check(tally);
        if let Some(tenths) = tenths {
            report::line(&format!("resident at the end of each tenth, in MiB: {tenths:?}"));
        }
    }
    mailnet.stop()?;
    Ok(())
}

/// What was resident at the end of each tenth of the time, in MiB: the lines are done at an even rate.
fn tenths(cost: &Cost) -> Vec<u64> {
    let at = |tenth: u32| {
        let until = cost.wall.mul_f64(f64::from(tenth) / 10.0);
        let before = cost.samples.iter().take_while(|(at, _)| *at <= until);
        before.last().map_or(0, |&(_, resident)| resident / 1024)
    };
    (1..=10).map(at).collect()
}

/// A list without an address: what a run costs before it does anything.
fn empty(bench: &Bench, peers: &Peers) -> Result<Cost, Failure> {
    let (input, output, log) = bench.files();
    let wrong = |error: std::io::Error| Failure(format!("{}: {error}", input.display()));
    std::fs::write(&input, "email\n").map_err(wrong)?;
    let mut costs = Vec::new();
    for _ in 0..bench.runs {
        let command = bench.clean(&input, &output, peers, &["--pace", "lab"]);
        costs.push(Running::start(command, &log)?.wait(&log, LIMIT)?);
        right(List { domains: 0, each: 1, rounds: 1 }, &output, &|_| "")?;
    }
    median(costs).ok_or_else(|| Failure("no runs".into()))
}
