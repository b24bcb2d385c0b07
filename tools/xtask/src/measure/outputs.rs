//! One list with the outputs that users ask for, beside the plain run: further columns, one file per class, the report, and a
//! spreadsheet. Full checks, then fast ones.

use super::bench::{Bench, TableRow};
use super::cost::RunCost;
use super::loadtest::middle;
use super::setting::{ExpectedVerdict, KnownNet, PeerAddresses, SampleList, many_half_known, right, verdict};
use crate::failure::{Context, Failure};
use crate::interop::report::{self, Tally};
use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::time::Duration;

const EACH: u64 = 100;
const LIMIT: Duration = Duration::from_secs(3600);
/// The rows of the spreadsheet, unless the list is shorter.
const SHEET_ROWS: u64 = 1_000_000;
/// Three further columns.
const THREE: &str = "suggestion,rule,checked_at";
/// All further columns that need no additional DNS queries.
const SIX: &str = "suggestion,role,free,disposable,rule,checked_at";

/// An output beside the plain one.
struct Wanted {
    name: &'static str,
    /// The further columns; none is the plain run.
    columns: &'static str,
}

const WANTED: [Wanted; 3] = [
    Wanted { name: "plain", columns: "" },
    Wanted { name: "three columns, --split, --report", columns: THREE },
    Wanted { name: "six columns, --split, --report", columns: SIX },
];

/// Measures each output in turn, and counts whether the verdicts are right.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let net = KnownNet::start(bench, &many_half_known(bench.lines.div_ceil(EACH)))?;
    let full = |address: &str| net.reason(address);
    let peers = net.peers();
    let (input, output, _) = bench.files();
    let list = SampleList { domains: bench.lines.div_ceil(EACH), each: EACH, rounds: 1 };
    list.write(&input)?;
    TableRow::head();
    let mut ratios = Vec::new();
    for (flags, peer, expected) in [
        (&[][..], "mailnet, knows half", &full as ExpectedVerdict<'_>),
        (&["--fast"], "mailnet, DNS only", &|_: &str| "fast_check_passed"),
    ] {
        let mut costs: [Vec<RunCost>; 3] = Default::default();
        let mut worst = [list.len(); 3];
        for _ in 0..bench.runs {
            for (at, wanted) in WANTED.iter().enumerate() {
                costs[at].push(clean(bench, &peers, flags, wanted)?);
                let count = match wanted.columns {
                    "" => right(list, &output, expected)?,
                    _ => right_by_class(list, &output, expected)?,
                };
                worst[at] = worst[at].min(count);
            }
        }
        let mut plain = 0.0;
        for ((wanted, costs), right) in WANTED.iter().zip(costs).zip(worst) {
            let cost = middle(costs, |cost| cost.cpu_s)?;
            match wanted.columns {
                "" => plain = cost.cpu_s,
                _ => ratios.push(format!(
                    "CPU of {}{}: {:.2} times that of the plain run",
                    flags.iter().map(|flag| format!("{flag}, ")).collect::<String>(),
                    wanted.name,
                    cost.cpu_s / plain
                )),
            }
            let client = ["mailprobe clean --pace lab", &flags.join(" "), wanted.name].join(" ");
            TableRow { client, peer: peer.into(), addresses: list.len(), right: Some(right), cost }
                .check(tally);
        }
    }
    sheet(bench, &peers)?;
    ratios.iter().for_each(|ratio| report::line(ratio));
    net.stop()
}

fn clean(bench: &Bench, peers: &PeerAddresses, flags: &[&str], wanted: &Wanted) -> Result<RunCost, Failure> {
    let (input, output, _) = bench.files();
    let page = output.with_extension("html");
    let mut command = bench.clean(&input, &output, peers, &["--pace", "lab"]);
    command.args(flags);
    if !wanted.columns.is_empty() {
        command.args(["--columns", wanted.columns, "--split", "--force", "--report"]).arg(page);
    }
    bench.run(command, LIMIT)
}

/// Measures a spreadsheet. Its rows are checked by the tests of the crate lists, so the table has no number of right ones.
fn sheet(bench: &Bench, peers: &PeerAddresses) -> Result<(), Failure> {
    let (input, output, _) = bench.files();
    let domains = bench.lines.min(SHEET_ROWS).div_ceil(EACH);
    let list = SampleList { domains, each: EACH, rounds: 1 };
    list.write(&input)?;
    for (name, output) in [("plain", output.clone()), ("-o out.xlsx", output.with_extension("xlsx"))] {
        let flags = ["--pace", "lab", "--fast"];
        let cost = bench.median(|| bench.run(bench.clean(&input, &output, peers, &flags), LIMIT))?;
        let client = format!("mailprobe clean --pace lab --fast {name}");
        let peer = "mailnet, DNS only".into();
        TableRow { client, peer, addresses: list.len(), right: None, cost }.print();
    }
    Ok(())
}

/// Counts the right rows of a list in one file per class: each row is the next one of the file of its class.
///
/// # Errors
///
/// A file cannot be read, or the files together have another number of rows.
fn right_by_class(list: SampleList, output: &Path, expected: ExpectedVerdict<'_>) -> Result<u64, Failure> {
    let classes = ["true", "false", ""];
    let mut files: Vec<Lines<BufReader<File>>> = Vec::new();
    for class in ["deliverable", "undeliverable", "unknown"] {
        let mut lines =
            BufReader::new(File::open(output.with_extension(format!("{class}.csv"))).at(output)?).lines();
        let head = lines.next().transpose().at(output)?.unwrap_or_default();
        if !head.starts_with("email,deliverable,reason,suggestion,") {
            return Err(Failure(format!("{class}: another head: {head}")));
        }
        files.push(lines);
    }
    let (mut rows, mut right) = (0, 0);
    for index in 0..list.len() {
        let address = list.address(index);
        let reason = expected(&address);
        let deliverable = verdict(reason);
        let Some(file) = classes.iter().position(|class| *class == deliverable) else { continue };
        let Some(line) = files[file].next().transpose().at(output)? else { continue };
        rows += 1;
        right += u64::from(line.starts_with(&format!("{address},{deliverable},{reason},")));
    }
    let left: usize = files.into_iter().map(Iterator::count).sum();
    if rows != list.len() || left > 0 {
        return Err(Failure(format!("{rows} rows and {left} more, not {}", list.len())));
    }
    Ok(right)
}
