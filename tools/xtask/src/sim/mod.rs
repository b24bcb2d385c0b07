//! `cargo xtask sim`: the engine's shards in generated worlds on a virtual clock, and the invariants that must hold in
//! each world.
//!
//! A seed draws a world (`plan.rs`). The world plays all mail servers and resolvers (`world.rs`, `smtp.rs`, `dns.rs`)
//! and checks the invariants of the engine (`judge.rs`). A breach is printed with the seed, the invariant and the
//! trace.

mod budget;
mod change;
pub mod dns;
mod judge;
mod ledger;
mod misleading;
mod plan;
mod premises;
mod recipients;
mod scaling;
mod smtp;
mod texts;
mod world;

use crate::failure::Failure;
use crate::interop::process::{interrupted, watch_signals};
use crate::interop::report::{self, Tally};
use crate::proc;
use clap::Args;
use engine::config::EngineConfig;
use engine::sim::{Ending, FAULTS, Fault, INVARIANTS, Setup};
use plan::WorldPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Breach, Invariant, RESOLVER, Telling, World};

/// The options of `cargo xtask sim`.
#[derive(Args)]
pub struct SimOptions {
    /// First seed.
    #[arg(default_value_t = 1)]
    seed: u64,
    /// Number of seeds, from the first seed on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// The version of `.ci/run`: 200 seeds, nine worlds that failed once, and the faults that show within eight worlds.
    #[arg(long)]
    small: bool,
    /// Plant a fault in the engine and expect a failure.
    #[arg(long, value_name = "FAULT", value_parser = fault)]
    plant: Option<Fault>,
    /// Plant every fault, each in up to 10,000 worlds, and print after how many worlds it was found.
    #[arg(long)]
    faults: bool,
    /// Continue after a failure, and count the kinds of failures, with the first seeds and requests of each.
    #[arg(long)]
    survey: bool,
    /// Measure one and two shards on each runtime and driver, with peers in memory.
    #[arg(long)]
    scaling: bool,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Print the trace of the request with this number.
    #[arg(long, value_name = "N")]
    ticket: Option<u64>,
    /// With --ticket: print only what the peers saw. If the engine traces a request, it may take other steps.
    #[arg(long, requires = "ticket")]
    untraced: bool,
}

fn fault(name: &str) -> Result<Fault, String> {
    faults().find(|(_, known)| *known == name).map(|(fault, _)| fault).ok_or_else(|| {
        let names: Vec<&str> = faults().map(|(_, name)| name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// Every fault that can be planted.
fn faults() -> impl Iterator<Item = (Fault, &'static str)> {
    let asserted = INVARIANTS.iter().map(|&(invariant, name)| (Fault::Break(invariant), name));
    FAULTS.into_iter().chain(asserted)
}

/// The faults that show within a few worlds.
fn frequent_faults() -> impl Iterator<Item = (Fault, &'static str)> {
    faults().filter(|(_, name)| !RARE_FAULTS.contains(name))
}

/// The number of seeds of the small version.
const SMALL_SEEDS: u64 = 200;
/// Seeds of worlds that broke an invariant in the past; the small version also runs them.
const BROKEN_ONCE: [u64; 13] = [
    1_001_679, 1_008_039, 1_070_210, 1_083_868, 40_070_674, 40_098_697, 50_035_454, 50_072_922, 50_079_099,
    60_066_737, 60_070_245, 60_084_467, 61_000_103,
];
/// The faults that may need more worlds than the small version has for each.
const RARE_FAULTS: [&str; 17] = [
    "ask-on",
    "timer-first",
    "admitted-here",
    "believe-accept",
    "believe-refusals",
    "ignore-budget",
    "forget-reserved",
    "believe-control",
    "spare-early",
    "ignore-busy",
    "many-controls",
    "walk-fresh",
    "anew-in-time",
    "site-ceiling",
    "known-fresh",
    "carried-here",
    "session-turns",
];
/// The number of worlds in which a planted fault must show: in the small version, and otherwise.
const FAULT_SEEDS: u64 = 8;
const ALL_FAULTS_SEEDS: u64 = 10_000;
/// The longest virtual time of a world. A world that lasts longer does not end.
const LIMIT: Duration = Duration::from_secs(5 * 3600);

/// Runs the simulation as the options state; the exit code is 0 if every invariant held.
pub fn main(options: &SimOptions) -> ExitCode {
    let (mut tally, mut sound) = (Tally::default(), SoundWorlds::default());
    // An interrupted campaign reports how far it came.
    if let Err(Failure(message)) = watch_signals() {
        tally.check("signals", Err(message));
    }
    if options.scaling {
        if let Err(Failure(message)) = scaling::run(&mut tally) {
            tally.check("scaling", Err(message));
        }
    } else if options.faults {
        faults().for_each(|(fault, _)| plant(fault, options.seed, ALL_FAULTS_SEEDS, &mut sound, &mut tally));
    } else if let Some(fault) = options.plant {
        plant(fault, options.seed, ALL_FAULTS_SEEDS, &mut sound, &mut tally);
    } else {
        let seeds = if options.small { SMALL_SEEDS } else { options.seeds };
        campaign(options.seed, seeds, options, &mut tally);
    }
    if options.small {
        let broken = BROKEN_ONCE.into_iter().try_for_each(|seed| {
            let outcome = run(seed, None, None)?;
            complaint(seed, &outcome).map_or(Ok(()), Err)
        });
        tally.check("worlds that failed once", broken.map(|()| format!("{} worlds", BROKEN_ONCE.len())));
        frequent_faults()
            .for_each(|(fault, _)| plant(fault, options.seed, FAULT_SEEDS, &mut sound, &mut tally));
    }
    report::line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The result of one seed.
struct SeedOutcome {
    world: World,
    ending: Ending,
}

/// Runs the world of one seed.
fn run(seed: u64, fault: Option<Fault>, telling: Option<Telling>) -> Result<SeedOutcome, String> {
    let plan = Rc::new(WorldPlan::draw(seed));
    let config = EngineConfig {
        resolvers: vec![RESOLVER],
        ehlo: Some("probe.example".into()),
        mail_from: Some("postmaster@probe.example".into()),
        shards: plan.shards,
        pace: plan.pace,
        sessions: plan.sessions,
        // The client never holds more tickets than the engine takes.
        tickets_max: plan.asked.len().max(4096),
        installation: std::array::from_fn(|at| seed.to_le_bytes()[at % 8]),
        ..EngineConfig::default()
    };
    let ipv6 = plan.ipv6;
    let world = World::new(plan, seed, telling);
    let arrivals = world.arrivals();
    let setup = Setup { seed, config, ipv6, fault, limit: LIMIT };
    let (ending, mut world) = engine::sim::run(setup, world, arrivals).map_err(|error| error.to_string())?;
    world.close();
    hold_to_the_end(&ending, &mut world);
    let breach = |rule: &engine::sim::Invariant| Breach {
        invariant: Invariant::Engine,
        text: rule.rule().into(),
        ticket: None,
    };
    world.breaches.extend(ending.broken.iter().map(breach));
    Ok(SeedOutcome { world, ending })
}

/// Checks the invariants that hold at the end of a world.
fn hold_to_the_end(ending: &Ending, world: &mut World) {
    let kept: usize =
        ending.kept.iter().map(|shard| shard.sessions + shard.groups + shard.sites + shard.waiting).sum();
    let rows = [
        (
            ending.under_way == 0,
            Invariant::Memory,
            format!("{} tickets count as under way", ending.under_way),
        ),
        (kept == 0, Invariant::Memory, format!("the shards keep {:?}", ending.kept)),
        (ending.tasks == 0, Invariant::Memory, format!("{} tasks outlive the shards", ending.tasks)),
        (ending.connections == 0, Invariant::Memory, format!("{} connections stay open", ending.connections)),
        (ending.shards_left == 0, Invariant::Memory, format!("{} shards stay in memory", ending.shards_left)),
        (ending.panics == 0, Invariant::Health, format!("{} tasks panicked", ending.panics)),
        (!ending.spins, Invariant::Health, "a task runs on and on".to_owned()),
    ];
    for (holds, invariant, text) in rows {
        if !holds {
            world.breach(invariant, None, text);
        }
    }
}

/// Runs many seeds on several threads. The first failure is printed in full; a survey counts all failures.
fn campaign(first: u64, seeds: u64, options: &SimOptions, tally: &mut Tally) {
    let (next, broken) = (AtomicU64::new(0), AtomicBool::new(false));
    let (addresses, failures) = (AtomicU64::new(0), Mutex::new(Failures::default()));
    let (traces, simulated) = (AtomicU64::new(0), AtomicU64::new(0));
    let (begun, cpu) = (Instant::now(), cpu_s());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= seeds || broken.load(Ordering::Relaxed) || interrupted().is_err() {
                return;
            }
            let telling = options.ticket.map(|ticket| Telling { ticket, is_traced: !options.untraced });
            let (seed, outcome) = (first + at, run(first + at, None, telling));
            if let Ok(outcome) = &outcome {
                addresses.fetch_add(outcome.world.tickets.len() as u64, Ordering::Relaxed);
                // The sum depends on which world has which trace, and not on the order in which the threads end.
                let trace = trace_of(outcome).wrapping_mul(2 * (first + at) + 1);
                traces.fetch_add(trace, Ordering::Relaxed);
                simulated.fetch_add(outcome.ending.answered.as_secs(), Ordering::Relaxed);
                if seeds == 1 {
                    print_outcome(outcome);
                }
            }
            let mut failures = failures.lock().unwrap_or_else(|poison| poison.into_inner());
            if failures.take(seed, outcome) && !options.survey {
                broken.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| (0..options.threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    let (seconds, addresses) = (begun.elapsed().as_secs_f64(), addresses.into_inner());
    let done = next.into_inner().min(seeds);
    let note = format!(
        "{done} worlds, {addresses} addresses in {seconds:.1} s, {:.1} us per address and thread, {:.0} simulated s per CPU s; traces {:016x}",
        seconds * 1e6 * options.threads as f64 / addresses.max(1) as f64,
        simulated.into_inner() as f64 / (cpu_s() - cpu).max(0.01),
        traces.into_inner()
    );
    let failures = failures.into_inner().unwrap_or_else(|poison| poison.into_inner());
    tally.check("worlds", failures.report(options.survey, note));
    if seeds > 1 {
        tally.check("premises of the rules", premises::report(done));
    }
}

/// The processor time of this process so far.
fn cpu_s() -> f64 {
    proc::times("self").map_or(0.0, |times| times.cpu_s)
}

/// How many worlds of one kind of breach a survey names.
const SURVEYED_MAX: usize = 12;

/// The failures of a campaign.
#[derive(Default)]
struct Failures {
    told: Vec<String>,
    /// For each kind of breach: the seeds of the worlds, and the request in each of them.
    kinds: BTreeMap<String, Vec<(u64, Option<u64>)>>,
}

impl Failures {
    /// Takes the result of a seed; returns true if it is a failure that ends the campaign.
    fn take(&mut self, seed: u64, outcome: Result<SeedOutcome, String>) -> bool {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.told.push(error);
                return true;
            }
        };
        let Some(complaint) = complaint(seed, &outcome) else { return false };
        self.told.push(complaint);
        let mut seen = BTreeSet::new();
        for breach in &outcome.world.breaches {
            let kind = breach.kind();
            if seen.insert(kind.clone()) {
                self.kinds.entry(kind).or_default().push((seed, breach.ticket));
            }
        }
        true
    }

    fn report(mut self, survey: bool, note: String) -> Result<String, String> {
        if self.told.is_empty() && interrupted().is_err() {
            return Err(format!("interrupted: {note}"));
        }
        if self.told.is_empty() {
            return Ok(note);
        }
        if !survey {
            return Err(self.told.join("\n"));
        }
        let mut lines = vec![format!("{} of them broke an invariant; {note}", self.told.len())];
        while let Some((kind, worlds)) = self.kinds.pop_first() {
            lines.push(format!("  {} worlds: {kind}", worlds.len()));
            let named = |&(seed, ticket): &(u64, Option<u64>)| {
                let ticket = ticket.map_or(String::new(), |ticket| format!(" --ticket {ticket}"));
                format!("    sim {seed}{ticket}")
            };
            lines.extend(worlds.iter().take(SURVEYED_MAX).map(named));
        }
        Err(lines.join("\n"))
    }
}

fn print_outcome(outcome: &SeedOutcome) {
    outcome.world.told.iter().for_each(|line| report::line(line));
    let (answered, trace) = (outcome.ending.answered.as_secs_f64(), trace_of(outcome));
    report::line(&format!("all answered after {answered:.1} s; trace {trace:016x}"));
}

/// What differs if anything differs in a world: a step of the engine, or what its peers saw.
fn trace_of(outcome: &SeedOutcome) -> u64 {
    outcome.ending.trace ^ outcome.world.trace
}

/// The invariants that a world broke, with the trace of the first address that is concerned.
fn complaint(seed: u64, outcome: &SeedOutcome) -> Option<String> {
    let breaches = &outcome.world.breaches;
    let first = breaches.first()?;
    let mut text = format!("seed {seed}: {}", first.text);
    for breach in breaches {
        let ticket = breach.ticket.map_or(String::new(), |ticket| format!("ticket {ticket}, "));
        text.push_str(&format!("\n  {}: {ticket}{}", breach.invariant.name(), breach.text));
    }
    if let Some(ticket) = breaches.iter().find_map(|breach| breach.ticket) {
        text.push_str(&format!("\n  the trace: cargo xtask sim {seed} --ticket {ticket}"));
    }
    Some(text)
}

/// Checks that a planted fault is noticed as the right breach, in a world that has no failure without it.
fn plant(fault: Fault, first: u64, seeds: u64, sound: &mut SoundWorlds, tally: &mut Tally) {
    let name = faults().find(|(known, _)| *known == fault).map_or("", |(_, name)| name);
    tally.check(name, noticed(fault, first..first + seeds, sound));
}

/// Whether worlds have no failure without a fault, by their seeds: many faults show in the same world.
#[derive(Default)]
struct SoundWorlds(BTreeMap<u64, bool>);

impl SoundWorlds {
    fn has(&mut self, seed: u64) -> Result<bool, String> {
        if let Some(is_sound) = self.0.get(&seed) {
            return Ok(*is_sound);
        }
        let is_sound = run(seed, None, None)?.world.breaches.is_empty();
        self.0.insert(seed, is_sound);
        Ok(is_sound)
    }
}

fn noticed(fault: Fault, seeds: Range<u64>, sound: &mut SoundWorlds) -> Result<String, String> {
    let ((invariant, text), first, count) = (broken_by(fault), seeds.start, seeds.end - seeds.start);
    let is_it = |breach: &&Breach| breach.invariant == invariant && breach.text.contains(text);
    let mut found = Vec::new();
    for seed in seeds {
        let breaches = run(seed, Some(fault), None)?.world.breaches;
        if let Some(breach) = breaches.iter().find(is_it)
            && sound.has(seed)?
        {
            let worlds = seed - first + 1;
            return Ok(format!("after {worlds} worlds (seed {seed}), {}: {}", invariant.name(), breach.text));
        }
        found.extend(breaches.into_iter().map(|breach| breach.text));
    }
    found.truncate(4);
    Err(format!("{} was not noticed in {count} worlds; {found:?}", invariant.name()))
}

/// The invariant that a fault breaks, with words of the breach.
fn broken_by(fault: Fault) -> (Invariant, &'static str) {
    match fault {
        Fault::LoseTicket => (Invariant::Answered, "got no answer"),
        Fault::AnswerTwice => (Invariant::Answered, "answered twice"),
        Fault::AnswerLate => (Invariant::Answered, "answered after"),
        Fault::SessionAsRecipient
        | Fault::ConfirmWithoutControl
        | Fault::BelieveAccept
        | Fault::BelieveRefusals
        | Fault::BelieveControl
        | Fault::SpareEarly
        | Fault::TrustStep => (Invariant::Truth, "(rule "),
        Fault::BlameNetwork => (Invariant::Truth, "Unavailable, without cause"),
        Fault::CountAccepts => (Invariant::Truth, "over budget, without cause"),
        Fault::IgnoreSessions => (Invariant::Manners, " may be"),
        Fault::IgnoreStarts => (Invariant::Manners, "too many session starts"),
        Fault::IgnoreSessionLimits => (Invariant::Manners, "recipients in a session"),
        Fault::IgnoreBudget | Fault::ForgetReserved => (Invariant::Manners, ""),
        Fault::IgnoreBusy => (Invariant::Manners, "it said that we are too fast"),
        Fault::AskOn => (Invariant::Manners, "and is asked on"),
        Fault::ManyControls => (Invariant::Manners, "control recipients of"),
        Fault::NeverRest => (Invariant::Manners, "since it last brought an answer"),
        Fault::WriteTwice => (Invariant::Manners, "spoke before its turn"),
        Fault::StarveSite => (Invariant::Fairness, ""),
        Fault::LeakTask => (Invariant::Memory, "shards stay in memory"),
        Fault::LeakSession => (Invariant::Memory, "connections stay open"),
        Fault::LeakGroup => (Invariant::Memory, "the shards keep"),
        Fault::Panic => (Invariant::Health, "panicked"),
        Fault::Spin => (Invariant::Health, "runs on and on"),
        Fault::Break(rule) => (Invariant::Engine, rule.rule()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_one_another() {
        let trace = |seed| {
            let outcome = run(seed, None, None).unwrap();
            (outcome.ending.trace, outcome.world.trace)
        };
        let traces: Vec<_> = (1..6).map(trace).collect();
        assert_eq!(traces, (1..6).map(trace).collect::<Vec<_>>());
        assert!(traces.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_client_that_does_not_heed_a_site_is_noticed() {
        assert!(noticed(Fault::IgnoreBusy, 1..64, &mut SoundWorlds::default()).is_ok());
    }
}
