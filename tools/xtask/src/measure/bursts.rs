//! 20,000 addresses over 1,000 domains beside real resolvers with the kernel's default receive buffers: how many of the
//! simultaneous questions are lost, and their cost.
//!
//! Unbound, BIND, Knot Resolver and dnsmasq run with their default configurations, one after another and each with an
//! empty cache, in front of one authoritative NSD, in their own network namespace (resolvers.rs). smtp-sink accepts
//! every recipient, in the same namespace and 20 ms away. A list of domains that do not exist is cleaned twice: the
//! second time the resolver denies them from its cache.

use super::bench::Bench;
use super::cost::RunCost;
use super::link::DelayedLink;
use super::loadtest::verdict;
use super::resolvers::{ADDRESS, DnsNamespace, ResolverProgram, RunningResolver};
use super::setting::{PeerAddresses, SampleList};
use crate::failure::{Context, Failure};
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: SampleList = SampleList { domains: 1000, each: 20, rounds: 1 };
/// The number of domains that do not exist.
const DEAD: u64 = 300;
const LIMIT: Duration = Duration::from_secs(120);
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// The largest share of questions that may be dropped at the resolver's socket.
const DROPS_MAX: f64 = 0.01;
/// The longest run beside Unbound, in seconds.
const SECONDS_MAX: f64 = 1.0;
/// The fewest addresses per second with distant mail servers.
const RATE_MIN: f64 = 20_000.0;

/// A list and the expected reason of each address.
struct Work {
    addresses: Vec<String>,
    reason: &'static str,
    /// The fewest questions that it needs.
    questions: u64,
}

/// The figures of one run.
struct BurstRun {
    cost: RunCost,
    right: usize,
    drops: u64,
}

/// Measures all combinations. Wall times are printed and not judged.
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

/// Cleans the list beside each resolver, and judges the drops.
pub fn beside_each(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    near(bench, tally).map(drop)
}

/// Does the same, and returns the runs beside Unbound.
fn near(bench: &Bench, tally: &mut Tally) -> Result<Vec<BurstRun>, Failure> {
    let space = DnsNamespace::make(bench.world.path("resolvers"), LIST.domains)?;
    let _sink = space.sink(&space.space, 25)?;
    report::line("| resolver | runs | addresses | right | s, median | s, max | dropped questions, %, max |");
    report::line("|---|---:|---:|---:|---:|---:|---:|");
    let mut beside_unbound = Vec::new();
    for resolver in ResolverProgram::ALL {
        let runs = runs(bench, &space, resolver)?;
        row(resolver.name(), &accepted(), &runs, tally);
        // The second run uses the resolver's cache of denials.
        let server = space.start(resolver)?;
        for when in ["first", "again"] {
            let run = clean(bench, &space, &server, &dead())?;
            row(&format!("{}, no such domains, {when}", resolver.name()), &dead(), &[run], tally);
        }
        if resolver == ResolverProgram::Unbound {
            beside_unbound = runs;
        }
    }
    Ok(beside_unbound)
}

/// Measures mail servers that are 20 ms away, beside Unbound.
fn far(bench: &Bench) -> Result<Vec<BurstRun>, Failure> {
    let line = DelayedLink::make(ROUND_TRIP / 2)?;
    let space = DnsNamespace::within(&line.near, bench.world.path("resolvers-far"), LIST.domains)?;
    let _sink = space.sink(&line.far, 25)?;
    runs(bench, &space, ResolverProgram::Unbound)
}

/// Makes the runs, each with an empty cache.
fn runs(bench: &Bench, space: &DnsNamespace, resolver: ResolverProgram) -> Result<Vec<BurstRun>, Failure> {
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

fn clean(
    bench: &Bench,
    space: &DnsNamespace,
    server: &RunningResolver,
    work: &Work,
) -> Result<BurstRun, Failure> {
    let (input, output, _) = bench.files();
    let list = format!("email\n{}\n", work.addresses.join("\n"));
    std::fs::write(&input, list).at(&input)?;
    let networks = ["127.0.0.0/8", "10.78.0.0/16"].iter().flat_map(|net| ["--allow-net", net]);
    let peers = PeerAddresses {
        resolver: format!("{ADDRESS}:53"),
        smtp_port: "25".into(),
        networks: networks.map(str::to_owned).collect(),
    };
    let clean = bench.clean(&input, &output, &peers, &["--pace", "lab", "--sessions", "1000"]);
    let before = space.drops()?;
    let cost = bench.run(space.space.command_of(&clean), LIMIT)?;
    let drops = space.drops()?.saturating_sub(before);
    server.is_well()?;
    let said = std::fs::read_to_string(&output).at(&output)?;
    let expected = work.addresses.iter().map(|address| {
        let deliverable = work.reason == "mailbox_exists";
        format!("{address},{deliverable},{}", work.reason)
    });
    let right = said.lines().skip(1).zip(expected).filter(|(line, expected)| line == expected).count();
    Ok(BurstRun { cost, right, drops })
}

/// Prints a row and judges it: every address must be right, and at most [`DROPS_MAX`] of the questions dropped.
fn row(what: &str, work: &Work, runs: &[BurstRun], tally: &mut Tally) {
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
    tally.count(right == work.addresses.len() && drops < DROPS_MAX);
}
