//! 20,000 addresses over 1,000 domains beside real resolvers with the receive buffers that the kernel gives: how many of the
//! questions that leave at once are lost, and what they cost.
//!
//! Unbound, BIND, Knot Resolver and dnsmasq run as they are shipped, one after another and each with an empty cache, before one
//! authoritative NSD, in a network namespace of their own (resolvers.rs). smtp-sink accepts every recipient: in the same namespace, and
//! 20 ms away. A list of domains that do not exist is cleaned twice, so that the second time the resolver's cache denies
//! them.

use super::cost::{Cost, Running};
use super::link::DelayedLink;
use super::loadtest::verdict;
use super::resolvers::{ADDRESS, Resolver, Running as Serving, Space};
use super::setting::{List, Peers};
use super::{Bench, Failure};
use crate::interop::report::{self, Tally};
use std::process::Command;
use std::time::Duration;

const LIST: List = List { domains: 1000, each: 20, rounds: 1 };
/// Domains that do not exist.
const DEAD: u64 = 300;
const LIMIT: Duration = Duration::from_secs(120);
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// The most that may be dropped at the resolver's socket, of the questions.
const DROPS_MAX: f64 = 0.01;
/// The most seconds that a run beside Unbound may take.
const SECONDS_MAX: f64 = 1.0;
/// The least addresses a second where the mail servers are far away.
const RATE_MIN: f64 = 20_000.0;

/// What is asked, and what has to be said about each address.
struct Work {
    addresses: Vec<String>,
    reason: &'static str,
    /// Questions that it takes at least.
    questions: u64,
}

/// One run.
struct Run {
    cost: Cost,
    right: usize,
    drops: u64,
}

/// Measures; wall times are figures for people.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let unbound = near(bench, tally)?;
    let far = far(bench)?;
    row("Unbound, mail servers 20 ms away", &accepted(), &far, tally);
    report::line("");
    let most = unbound.iter().map(|run| run.cost.wall.as_secs_f64()).fold(0.0, f64::max);
    verdict(&format!("{most:.2} s beside Unbound, at most {SECONDS_MAX}"), most <= SECONDS_MAX);
    let slowest = far.iter().map(|run| run.cost.wall.as_secs_f64()).fold(0.0, f64::max);
    let rate = LIST.len() as f64 / slowest;
    verdict(&format!("{rate:.0} addresses/s with 20 ms, at least {RATE_MIN:.0}"), rate >= RATE_MIN);
    Ok(())
}

/// Runs beside each resolver.
pub fn beside_each(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    near(bench, tally).map(drop)
}

/// The same; gives those beside Unbound.
fn near(bench: &Bench, tally: &mut Tally) -> Result<Vec<Run>, Failure> {
    let space = Space::make(bench.world.path("resolvers"), LIST.domains)?;
    let _sink = space.sink(&space.prefix(), 25)?;
    report::line(
        "| resolver | runs | addresses | right | s, median | s, most | drops of 100 questions, most |",
    );
    report::line("|---|---:|---:|---:|---:|---:|---:|");
    let mut beside_unbound = Vec::new();
    for resolver in Resolver::ALL {
        let runs = runs(bench, &space, resolver)?;
        row(resolver.name(), &accepted(), &runs, tally);
        // The second time the resolver's cache denies them.
        let server = space.start(resolver)?;
        for when in ["first", "again"] {
            let run = clean(bench, &space, &server, &dead())?;
            row(&format!("{}, no such domains, {when}", resolver.name()), &dead(), &[run], tally);
        }
        if resolver == Resolver::Unbound {
            beside_unbound = runs;
        }
    }
    Ok(beside_unbound)
}

/// Mail servers that are 20 ms away, beside Unbound.
fn far(bench: &Bench) -> Result<Vec<Run>, Failure> {
    let line = DelayedLink::make(ROUND_TRIP / 2)?;
    let space = Space::within(line.near(), bench.world.path("resolvers-far"), LIST.domains)?;
    let _sink = space.sink(&line.far().map(str::to_owned), 25)?;
    runs(bench, &space, Resolver::Unbound)
}

/// Each with an empty cache.
fn runs(bench: &Bench, space: &Space, resolver: Resolver) -> Result<Vec<Run>, Failure> {
    let one = |_| clean(bench, space, &space.start(resolver)?, &accepted());
    (0..bench.runs).map(one).collect()
}

fn accepted() -> Work {
    let addresses = (0..LIST.len()).map(|index| LIST.address(index)).collect();
    Work { addresses, reason: "catch_all", questions: 2 * LIST.domains }
}

fn dead() -> Work {
    let addresses = (0..DEAD).map(|number| format!("user@nobody-{number}.example")).collect();
    Work { addresses, reason: "mailbox_not_found", questions: DEAD }
}

fn clean(bench: &Bench, space: &Space, server: &Serving, work: &Work) -> Result<Run, Failure> {
    let (input, output, log) = bench.files();
    let wrong = |path: &std::path::Path, error| Failure(format!("{}: {error}", path.display()));
    let list = format!("email\n{}\n", work.addresses.join("\n"));
    std::fs::write(&input, list).map_err(|error| wrong(&input, error))?;
    let networks = ["127.0.0.0/8", "10.78.0.0/16"].iter().flat_map(|net| ["--allow-net", net]);
    let peers = Peers {
        resolver: format!("{ADDRESS}:53"),
        smtp_port: "25".into(),
        networks: networks.map(str::to_owned).collect(),
    };
    let clean = bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", "1000"]);
    let prefix = space.prefix();
    let mut command = Command::new(&prefix[0]);
    command.args(&prefix[1..]).arg(clean.get_program()).args(clean.get_args());
    let before = space.drops()?;
    let cost = Running::start(command, &log)?.wait(&log, LIMIT)?;
    let drops = space.drops()?.saturating_sub(before);
    server.is_well()?;
    let said = std::fs::read_to_string(&output).map_err(|error| wrong(&output, error))?;
    let expected = work.addresses.iter().map(|address| {
        let deliverable = work.reason == "mailbox_exists";
        format!("{address},{deliverable},{}", work.reason)
    });
    let right = said.lines().skip(1).zip(expected).filter(|(line, expected)| line == expected).count();
    Ok(Run { cost, right, drops })
}

/// Prints a row and counts it: every address has to be right, and next to nothing dropped.
fn row(what: &str, work: &Work, runs: &[Run], tally: &mut Tally) {
    let right = runs.iter().map(|run| run.right).min().unwrap_or_default();
    let mut seconds: Vec<f64> = runs.iter().map(|run| run.cost.wall.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    let most = seconds.last().copied().unwrap_or_default();
    let drops = runs.iter().map(|run| run.drops).max().unwrap_or_default() as f64 / work.questions as f64;
    report::line(&format!(
        "| {what} | {} | {} | {right} | {middle:.2} | {most:.2} | {:.2} |",
        runs.len(),
        work.addresses.len(),
        drops * 100.0,
    ));
    if right == work.addresses.len() && drops < DROPS_MAX {
        tally.passed += 1;
    } else {
        tally.failed += 1;
    }
}
