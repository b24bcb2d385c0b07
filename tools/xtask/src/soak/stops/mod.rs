//! `soak stops`: `mailprobe clean` stopped again and again by SIGINT, SIGTERM and SIGKILL, and continued with `--resume`.
//!
//! The first rows of the list are of servers that are dead, silent, slow or greylisting, so that the rows behind them are known long
//! before they can be written. The list is cleaned once without a stop. Then several outputs of it are made at the same time, each
//! by a chain of runs: all runs of a chain but the last one are stopped, at a random time or a tenth of a second after their start,
//! some with a second signal. Each chain has a mail internet of its own. Its journal shows who was asked (judge.rs). The campaign
//! checks:
//! - the output has each row once, in order unless `--unordered` is given, with the verdict that mailnet expects, as the run without
//!   a stop has it;
//! - no mailbox is asked about again whose permanent or positive reply an earlier run has read, except after SIGKILL or a second
//!   signal: there those of the last two seconds may be, and those that a session held without a proof until then (the report counts
//!   both);
//! - a signal ends the run in time and by itself, and the message says how to continue;
//! - OUT.state and OUT.results never contain a plain address, and are gone at the end.
//!
//! `target/stops.txt` has all mailboxes that were asked about again.

mod judge;

use super::crowd::each;
use super::list_output::{ListOutput, MARK};
use super::list_rows::ListRows;
use super::options::{SoakOptions, sizes};
use super::peers::{self, clean_command, watch};
use super::world::CampaignFolder;
use crate::failure::{Context, Failure};
use crate::interop::process::{ServerProcess, target_folder};
use crate::interop::report::{self, Tally, outcome};
use judge::{Again, PastRun};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

sizes! {
    struct StopsSize {
        lines: u64 = 10_000, 1_500;
        domains: u64 = 500, 75;
        /// The number of stops in all.
        stops: usize = 200, 16;
        /// The number of chains, and of those that run at the same time.
        chains: usize = 20, 4;
        at_once: usize = 4, 4;
        /// The longest time until a stop.
        stop_at_last: Duration = Duration::from_secs(16), Duration::from_secs(4);
        /// The first rows also have servers that cost the longest timeouts.
        has_timeouts: bool = true, false;
        /// The time limit of a run.
        limit: Duration = Duration::from_secs(240), Duration::from_secs(60);
    }
}

/// One in this number of runs is stopped right after its start.
const EARLY_SHARE: usize = 8;
const EARLY: Duration = Duration::from_millis(100);
/// The longest time from a signal to the end: two seconds for replies under way, and one for the rest.
const END_MAX: Duration = Duration::from_secs(3);
/// A run that has read its arguments watches for signals.
const WATCHES_AFTER: Duration = Duration::from_millis(500);
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(10);
const SESSIONS: &str = "40";

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// By one signal that it can handle.
    Once(Signal),
    /// By two of them, the second one while it ends.
    Twice(Signal),
    Kill,
}

/// The forms of output, one chain after the other.
const FORMS: [(&str, &str, &[&str]); 4] = [
    ("in order", "out.csv", &[]),
    ("in order, packed", "out.csv.gz", &["--memory", "1"]),
    ("out of order", "out.csv", &["--unordered"]),
    ("in order, more columns", "out.csv", &["--columns", "rule,checked_at"]),
];

fn scenario(size: StopsSize) -> String {
    let text =
        include_str!("../../../soak/scenarios/stops.toml").replace("DOMAINS", &size.domains.to_string());
    if size.has_timeouts { text + include_str!("../../../soak/scenarios/stops-timeouts.toml") } else { text }
}

/// The number of slow, greylisting and silent domains each.
const FRONT: u64 = 3;

/// The domain of a row. One in fifty rows is of the domains that take long, and so are most of the first ones.
fn domain(draw: u64, n: u64, size: StopsSize) -> String {
    let one = |count: u64| 1 + draw / 64 % count;
    let is_first = n < size.lines / 50;
    match draw % 50 {
        0 => format!("{MARK}-slow-{}.example", one(FRONT)),
        _ if !is_first => format!("{MARK}-{}.example", 1 + (draw / 64 + n) % size.domains),
        1..=12 => format!("{MARK}-grey-{}.example", one(FRONT)),
        13..=24 => format!("{MARK}-dead-{}.example", if size.has_timeouts { one(2) } else { 1 }),
        25..=36 if size.has_timeouts => format!("{MARK}-silent-{}.example", one(FRONT)),
        25..=44 => format!("{MARK}-slow-{}.example", one(FRONT)),
        _ => format!("{MARK}-{}.example", one(size.domains)),
    }
}

fn rows(seed: u64, size: StopsSize) -> Result<ListRows, Failure> {
    ListRows::new(seed, size.lines, &scenario(size), move |draw, n| domain(draw, n, size))
}

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = StopsSize::of(options.small);
    let seed = options.seed();
    report::line(&format!("stops: seed {seed}, {} lines, {} stops", size.lines, size.stops));
    let world = CampaignFolder::make(options)?;
    let input = world.path("list.csv");
    rows(seed, size)?.write(&input)?;
    let campaign = StopsCampaign { world: &world, size, seed, input };

    // The first chain is the run without a stop.
    let chains = each(size.chains + 1, size.at_once, |n| campaign.chain(n))?;
    let (mut again, mut stops) = (Again::default(), 0);
    for (n, chain) in chains.into_iter().enumerate() {
        let chain = chain?;
        tally.check(&campaign.name(n), chain.verdict);
        again.add(&chain.again);
        stops += chain.stops;
    }
    let enough = stops * 10 >= size.stops * 9;
    let stopped = format!("{stops} of {} runs were stopped before their end", size.stops);
    tally.check("stops", outcome(enough, stopped));
    tally.check("nobody is asked again", again.verdict());
    let trace = target_folder()?.join("stops.txt");
    fs::write(&trace, again.all()).at(&trace)?;
    Ok(())
}

struct StopsCampaign<'a> {
    world: &'a CampaignFolder,
    size: StopsSize,
    seed: u64,
    input: PathBuf,
}

/// What a chain has shown.
struct ChainOutcome {
    verdict: Result<String, String>,
    /// The number of runs that were stopped before their end.
    stops: usize,
    again: Again,
}

impl StopsCampaign<'_> {
    fn name(&self, n: usize) -> String {
        let (form, _, _) = FORMS[n % FORMS.len()];
        if n == 0 { "without a stop".to_owned() } else { format!("chain {n}, {form}") }
    }

    /// Makes one output. That of chain 0 has no stop.
    fn chain(&self, n: usize) -> Result<ChainOutcome, Failure> {
        let (_, file, flags) = FORMS[n % FORMS.len()];
        let list = rows(self.seed, self.size)?;
        let output = ListOutput {
            list: &list,
            path: self.world.path(&format!("{n}-{file}")),
            is_ordered: !flags.contains(&"--unordered"),
            has_more_columns: flags.contains(&"--columns"),
            titles: 0,
        };
        let mut random = fastrand::Rng::with_seed(self.seed ^ (n as u64) << 32);
        let count = if n == 0 { 0 } else { self.size.stops / self.size.chains };
        let plan: Vec<(Duration, Stop)> =
            (0..count).map(|run| self.stop(&mut random, n * count + run)).collect();
        let mailnet_began = Instant::now();
        let net = peers::start(&scenario(self.size))?;
        let (mut past, mut faults, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
        let mut is_complete = false;
        for stop in plan.into_iter().map(Some).chain([None]) {
            let mut command = clean_command(self.world, &net, true);
            command.arg(&self.input).arg("-o").arg(&output.path).args(flags);
            command.args(["--pace", "lab", "--sessions", SESSIONS, "--max-wait", "5", "--state", "none"]);
            if !past.is_empty() {
                command.arg("--resume");
            }
            let log = self.world.path(&format!("{n}.log"));
            let began = Instant::now();
            let mut process = ServerProcess::start("mailprobe clean", command, &log)?;
            let (run, more) = self.watch(&mut process, &output, stop, (mailnet_began, began))?;
            took += began.elapsed();
            faults.extend(more);
            past.push(run);
            if past.last().is_some_and(|run| run.stop.is_none()) {
                is_complete = true;
                break;
            }
        }
        faults.extend((!is_complete).then(|| "the last run was stopped".to_owned()));
        faults.extend(output.nothing_beside().err());
        faults.extend(output.judge().err());
        let journal = net.journal();
        let again = judge::judge(&journal, &list, &past);
        faults.extend((journal.lost > 0).then(|| "mailnet's journal is not complete".to_owned()));
        let stops = past.len() - 1;
        let stats = net.stop();
        if !stats.violations.is_empty() {
            faults.push(format!("rules of the protocols broken: {:?}", stats.violations));
        }
        let figures = format!("{stops} stops, {:.0} s in all; {again}", took.as_secs_f64());
        let verdict =
            if faults.is_empty() { Ok(figures) } else { Err(format!("{figures}; {}", faults.join("; "))) };
        Ok(ChainOutcome { verdict, stops, again })
    }

    /// How and after which time a run of a chain is stopped. Each kind has its share of any few runs.
    fn stop(&self, random: &mut fastrand::Rng, run: usize) -> (Duration, Stop) {
        let after = match run % EARLY_SHARE {
            0 => EARLY,
            _ => Duration::from_millis(random.u64(300..self.size.stop_at_last.as_millis() as u64)),
        };
        let stop = match run % 9 {
            0 | 4 | 7 => Stop::Once(Signal::INT),
            2 | 5 => Stop::Once(Signal::TERM),
            8 => Stop::Twice(if random.bool() { Signal::INT } else { Signal::TERM }),
            _ => Stop::Kill,
        };
        (after, stop)
    }

    /// Stops a run as planned, or waits for its end. Returns its times by mailnet's clock, and what is wrong with its end.
    fn watch(
        &self,
        process: &mut ServerProcess,
        output: &ListOutput<'_>,
        plan: Option<(Duration, Stop)>,
        (mailnet_began, began): (Instant, Instant),
    ) -> Result<(PastRun, Vec<String>), Failure> {
        let past = |signalled: Instant, stop| PastRun {
            began: began - mailnet_began,
            signalled: signalled - mailnet_began,
            ended: mailnet_began.elapsed(),
            stop,
        };
        let stopped = watch(process, self.size.limit, |process| {
            let Some((after, stop)) = plan.filter(|(after, _)| began.elapsed() >= *after) else {
                return Ok(None);
            };
            let signalled = Instant::now();
            let status = self.end(process, stop)?;
            // It may have ended by itself in the moment of the signal.
            if status.success() {
                return Ok(Some((past(signalled, None), Vec::new())));
            }
            let run = past(signalled, Some(stop));
            let mut faults = complaint(stop, status, run.ended - run.signalled, &process.log()?, after);
            faults.extend(output.eyes().look().err());
            let told = |fault| format!("{stop:?} after {:.1} s: {fault}", after.as_secs_f64());
            Ok(Some((run, faults.into_iter().map(told).collect())))
        })?;
        Ok(stopped.unwrap_or_else(|| (past(Instant::now(), None), Vec::new())))
    }

    /// Sends the signals of a stop, and waits for the end.
    fn end(&self, process: &mut ServerProcess, stop: Stop) -> Result<ExitStatus, Failure> {
        let signal = match stop {
            Stop::Kill => Signal::KILL,
            Stop::Once(signal) => signal,
            Stop::Twice(signal) => {
                process.signal(signal)?;
                let second = Instant::now() + SECOND_SIGNAL_AFTER;
                while Instant::now() < second {
                    if let Some(status) = process.ended()? {
                        return Ok(status);
                    }
                    std::thread::sleep(LOOK);
                }
                signal
            }
        };
        process.end_by(signal, END_MAX * 10)
    }
}

/// What is wrong with the end of a stopped run.
fn complaint(stop: Stop, status: ExitStatus, took: Duration, said: &str, ran: Duration) -> Vec<String> {
    let (Stop::Once(signal) | Stop::Twice(signal)) = stop else { return Vec::new() };
    let says_how = said.trim_end().ends_with("--resume");
    let must_say = matches!(stop, Stop::Once(_)) && ran > WATCHES_AFTER;
    let faults = [
        (status.signal() != Some(signal.as_raw()), format!("ended: {status}")),
        (took > END_MAX + Duration::from_millis(500), format!("took {:.1} s", took.as_secs_f64())),
        (must_say && !says_how, format!("does not say how to continue: {}", said.trim_end())),
        (said.contains(MARK) && said.contains('@'), "an address is in a message".to_owned()),
    ];
    faults.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, fault)| fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_take_long() {
        for size in [StopsSize::of(false), StopsSize::of(true)] {
            let list = rows(1, size).unwrap();
            let first: Vec<String> = (0..size.lines / 50).map(|n| list.address(n).to_lowercase()).collect();
            for (kind, at_least) in [("-slow-", 2), ("-grey-", 2), ("-dead-", 2)] {
                let count = first.iter().filter(|address| address.contains(kind)).count();
                assert!(count >= at_least, "{count} {kind} of {}", first.len());
            }
            for n in 0..size.lines {
                let address = list.address(n).to_lowercase();
                let is_known = !address.contains('@')
                    || list.scenario.exists(&address).is_some()
                    || address.contains("-dead-");
                assert!(is_known, "{address}");
            }
        }
    }

    #[test]
    fn the_end_of_a_stopped_run_is_judged() {
        let stop = Stop::Once(Signal::INT);
        let by = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let said =
            "mailprobe: stopped after 5 rows; finished checks are kept (a.partial): continue with --resume\n";
        let (soon, ran) = (Duration::from_secs(1), Duration::from_secs(9));
        assert!(complaint(stop, by(Signal::INT), soon, said, ran).is_empty());
        assert_eq!(complaint(stop, by(Signal::TERM), Duration::from_secs(9), "", ran).len(), 3);
        assert_eq!(complaint(stop, by(Signal::INT), soon, "", EARLY).len(), 0);
        assert_eq!(complaint(Stop::Kill, by(Signal::KILL), soon, "", ran).len(), 0);
    }
}
