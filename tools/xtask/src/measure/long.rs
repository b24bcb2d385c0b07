//! Lists from ten thousand to ten million lines, with the same number of addresses per domain: the cost of an address
//! must be the same, and memory must not grow after the first million.

use super::bench::{Bench, TableRow};
use super::cost::RunCost;
use super::setting::{KnownNet, PeerAddresses, SampleList, many_half_known, right};
use crate::failure::{Context, Failure};
use crate::interop::report::{self, Tally};
use std::time::Duration;

const EACH: u64 = 100;
/// For lists of at least this length the samples of memory are printed.
const TOLD_FROM: u64 = 10_000_000;
/// A list of that length is also cleaned in another form: a tenth of the domains, repeated this often. Everything that
/// is kept per domain exists after the first repetition, so any later growth belongs to the lines.
const ROUNDS: u64 = 10;
const LIMIT: Duration = Duration::from_secs(3600);

/// Measures each length, and counts whether the verdicts are right.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let net = KnownNet::start(bench, &many_half_known(bench.lines.div_ceil(EACH)))?;
    let expected = |address: &str| net.reason(address);
    let peers = net.peers();
    let empty = empty(bench, &peers)?;
    report::line(&format!("an empty list: {:.2} CPU s, {:.2} s", empty.cpu_s, empty.wall.as_secs_f64()));
    TableRow::head();
    let sizes = (4..=18).map(|power| 10_u64.pow(power)).take_while(|&lines| lines <= bench.lines);
    let mut sizes: Vec<u64> = sizes.collect();
    if sizes.last() != Some(&bench.lines) {
        sizes.push(bench.lines);
    }
    let list = |lines: u64, rounds: u64| SampleList { domains: lines / EACH / rounds, each: EACH, rounds };
    let mut lists: Vec<SampleList> = sizes.iter().map(|&lines| list(lines, 1)).collect();
    if bench.lines >= TOLD_FROM {
        lists.push(list(bench.lines, ROUNDS));
    }
    for list in lists {
        let peers = (&peers, "mailnet, knows half");
        let mut row = bench.measure(list, peers, &["--pace", "lab"], &expected, LIMIT)?;
        row.cost.cpu_s -= empty.cpu_s;
        if list.rounds > 1 {
            row.client = format!("the same, {} domains {} times over", list.domains, list.rounds);
        }
        row.check(tally);
        let tenths = (list.len() >= TOLD_FROM).then(|| tenths(&row.cost));
        if let Some(tenths) = tenths {
            report::line(&format!("resident at the end of each tenth, in MiB: {tenths:?}"));
        }
    }
    net.stop()
}

/// The resident memory at the end of each tenth of the time, in MiB. Lines are processed at an even rate.
fn tenths(cost: &RunCost) -> Vec<u64> {
    let at = |tenth: u32| {
        let until = cost.wall.mul_f64(f64::from(tenth) / 10.0);
        let before = cost.samples.iter().take_while(|(at, _)| *at <= until);
        before.last().map_or(0, |&(_, resident)| resident / 1024)
    };
    (1..=10).map(at).collect()
}

/// Cleans a list without an address: the constant cost of a run.
fn empty(bench: &Bench, peers: &PeerAddresses) -> Result<RunCost, Failure> {
    let (input, output, _) = bench.files();
    std::fs::write(&input, "email\n").at(&input)?;
    bench.median(|| {
        let cost = bench.run(bench.clean(&input, &output, peers, &["--pace", "lab"]), LIMIT)?;
        right(SampleList { domains: 0, each: 1, rounds: 1 }, &output, &|_| "")?;
        Ok(cost)
    })
}
