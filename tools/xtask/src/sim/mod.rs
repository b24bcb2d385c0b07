//! `cargo xtask sim`: the engine's shards in made-up worlds on a virtual clock, and what must hold in every one of them.
//!
//! A seed draws a world (`plan.rs`), the world plays all mail servers and resolvers (`world.rs`, `smtp.rs`, `dns.rs`) and
//! holds the engine to its invariants (`judge.rs`). A breach is printed with the seed, the invariant and the story.

mod dns;
mod judge;
mod plan;
mod scaling;
mod smtp;
mod texts;
mod world;

use crate::interop::Failure;
use crate::interop::process::{interrupted, watch_signals};
use crate::interop::report::{self, Tally};
use clap::Args;
use engine::config::EngineConfig;
use engine::sim::{Ending, FAULTS, Fault, Setup};
use plan::Plan;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Invariant, RESOLVER, World};

#[derive(Args)]
pub struct Options {
    /// The first seed.
    #[arg(default_value_t = 1)]
    seed: u64,
    /// How many seeds, from the first on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The version of `.ci/run`: 200 seeds, and every fault.
    #[arg(long)]
    small: bool,
    /// Plant a fault and see whether it is noticed.
    #[arg(long, value_parser = fault)]
    plant: Option<Fault>,
    /// Measure one shard against two on each runtime and driver, with peers in memory.
    #[arg(long)]
    scaling: bool,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Tell the story of this request.
    #[arg(long)]
    ticket: Option<u64>,
}

fn fault(name: &str) -> Result<Fault, String> {
    let known = FAULTS.iter().find(|(_, known)| *known == name);
    known.map(|(fault, _)| *fault).ok_or_else(|| {
        let names: Vec<&str> = FAULTS.iter().map(|(_, name)| *name).collect();
        format!("one of {}", names.join(", "))
    })
}

/// Seeds of the small version.
const SMALL_SEEDS: u64 = 200;
/// Seeds within which a planted fault must show.
const FAULT_SEEDS: u64 = 8;
/// A world that is not done by then is not going to be.
const LIMIT: Duration = Duration::from_secs(3600);

pub fn main(options: &Options) -> ExitCode {
    let mut tally = Tally::default();
    // A campaign that is interrupted says how far it came.
    if let Err(Failure(message)) = watch_signals() {
        tally.check("signals", Err(message));
    }
    if options.scaling {
        if let Err(Failure(message)) = scaling::run(&mut tally) {
            tally.check("scaling", Err(message));
        }
    } else if let Some(fault) = options.plant {
        plant(fault, options.seed, &mut tally);
    } else {
        let seeds = if options.small { SMALL_SEEDS } else { options.seeds };
        campaign(options.seed, seeds, options, &mut tally);
    }
    if options.small {
        FAULTS.iter().for_each(|(fault, _)| plant(*fault, options.seed, &mut tally));
    }
    report::line(&format!("{} passed, {} failed", tally.passed, tally.failed));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a seed came to.
struct Outcome {
    world: World,
    ending: Ending,
}

/// Runs one world.
fn run(seed: u64, fault: Option<Fault>, telling: Option<u64>) -> Result<Outcome, String> {
    let plan = Rc::new(Plan::draw(seed));
    let config = EngineConfig {
        resolvers: vec![RESOLVER],
        ehlo: Some("probe.example".into()),
        mail_from: Some("postmaster@probe.example".into()),
        shards: plan.shards,
        pace: plan.pace,
        sessions: plan.sessions,
        tickets_max: 4096,
        ..EngineConfig::default()
    };
    let world = World::new(plan, seed, telling);
    let arrivals = world.arrivals();
    let setup = Setup { seed, config, ipv6: false, fault, limit: LIMIT };
    let (ending, mut world) = engine::sim::run(setup, world, arrivals).map_err(|error| error.to_string())?;
    world.close();
    hold_to_the_end(&ending, &mut world);
    Ok(Outcome { world, ending })
}

/// What must hold when all is over.
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

/// Many seeds, on several threads; the first that fails is told in full.
fn campaign(first: u64, seeds: u64, options: &Options, tally: &mut Tally) {
    let (next, broken) = (AtomicU64::new(0), AtomicBool::new(false));
    let (addresses, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= seeds || broken.load(Ordering::Relaxed) || interrupted().is_err() {
                        return;
                    }
                    let seed = first + at;
                    match run(seed, None, options.ticket) {
                        Ok(outcome) => {
                            addresses.fetch_add(outcome.world.tickets.len() as u64, Ordering::Relaxed);
                            if seeds == 1 {
                                tell(&outcome);
                            }
                            if let Some(complaint) = complaint(seed, &outcome) {
                                broken.store(true, Ordering::Relaxed);
                                failures.lock().unwrap_or_else(|poison| poison.into_inner()).push(complaint);
                            }
                        }
                        Err(error) => {
                            broken.store(true, Ordering::Relaxed);
                            failures.lock().unwrap_or_else(|poison| poison.into_inner()).push(error);
                        }
                    }
                }
            });
        }
    });
    let (seconds, addresses) = (begun.elapsed().as_secs_f64(), addresses.into_inner());
    let done = next.into_inner().min(seeds);
    let note = format!(
        "{done} worlds, {addresses} addresses in {seconds:.1} s, {:.1} us an address and thread",
        seconds * 1e6 * options.threads as f64 / addresses.max(1) as f64
    );
    let mut failures = failures.into_inner().unwrap_or_else(|poison| poison.into_inner());
    if failures.is_empty() && interrupted().is_err() {
        failures.push(format!("interrupted: {note}"));
    }
    tally.check("worlds", if failures.is_empty() { Ok(note) } else { Err(failures.join("\n")) });
}

fn tell(outcome: &Outcome) {
    outcome.world.told.iter().for_each(|line| report::line(line));
    let Ending { trace, answered, .. } = &outcome.ending;
    let trace = trace ^ outcome.world.trace;
    report::line(&format!("all answered after {:.1} s; trace {trace:016x}", answered.as_secs_f64()));
}

/// Which invariants a world broke, with the story of the first address that it concerns.
fn complaint(seed: u64, outcome: &Outcome) -> Option<String> {
    let breaches = &outcome.world.breaches;
    let first = breaches.first()?;
    let mut text = format!("seed {seed}: {}", first.text);
    for breach in breaches {
        let ticket = breach.ticket.map_or(String::new(), |ticket| format!("ticket {ticket}, "));
        text.push_str(&format!("\n  {}: {ticket}{}", breach.invariant.name(), breach.text));
    }
    if let Some(ticket) = breaches.iter().find_map(|breach| breach.ticket) {
        text.push_str(&format!("\n  the story: cargo xtask sim {seed} --ticket {ticket}"));
    }
    Some(text)
}

/// Sees that a planted fault is noticed, and as what it is.
fn plant(fault: Fault, first: u64, tally: &mut Tally) {
    let name = FAULTS.iter().find(|(known, _)| *known == fault).map_or("", |(_, name)| name);
    let invariant = broken_by(fault);
    let mut found = Vec::new();
    for seed in first..first + FAULT_SEEDS {
        match run(seed, Some(fault), None) {
            Err(error) => return tally.check(name, Err(error)),
            Ok(outcome) => {
                let breaches = outcome.world.breaches;
                if let Some(breach) = breaches.iter().find(|breach| breach.invariant == invariant) {
                    return tally
                        .check(name, Ok(format!("seed {seed}, {}: {}", invariant.name(), breach.text)));
                }
                found.extend(breaches.into_iter().map(|breach| breach.text));
            }
        }
    }
    found.truncate(4);
    tally
        .check(name, Err(format!("{} was not noticed in {FAULT_SEEDS} worlds; {found:?}", invariant.name())));
}

fn broken_by(fault: Fault) -> Invariant {
    match fault {
        Fault::LoseTicket | Fault::AnswerTwice | Fault::AnswerLate => Invariant::Answered,
        Fault::SessionAsRecipient | Fault::ConfirmWithoutControl => Invariant::Truth,
        Fault::IgnoreSessions | Fault::IgnoreStarts => Invariant::Manners,
        Fault::StarveSite => Invariant::Fairness,
        Fault::LeakTask | Fault::LeakSession | Fault::LeakGroup => Invariant::Memory,
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
    fn every_planted_fault_is_noticed_as_what_it_is() {
        let mut tally = Tally::default();
        FAULTS.iter().for_each(|(fault, _)| plant(*fault, 1, &mut tally));
        assert_eq!((tally.passed as usize, tally.failed), (FAULTS.len(), 0));
    }
}
