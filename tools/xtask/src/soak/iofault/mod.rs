//! `soak iofault`: the disk under the server fails, once at each of its operations.
//!
//! First the store alone, on a storage of the tests (frontend/store-redb/src/crash/faults.rs): every write and sync of four loads, with
//! three faults. Then the server, whose system calls on its data folder are answered by us ([`super::intercept`]): a run for each
//! operation and fault. A run checks single addresses and a batch, and sends what got no answer again after the restart. Then each
//! address has to be answered and paid once: less is a loss, more is a charge without an answer.

use super::intercept::{self, Fault, Intercepted, Plan};
use super::load::{Client, Load};
use super::world::{Mailnet, World, cargo, listening};
use super::{Failure, Options};
use crate::interop::process::{Server, interrupted};
use crate::interop::report::{self, Tally};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FAULTS: [Fault; 4] = [Fault::Error, Fault::Full, Fault::Short, Fault::SlowSync];
/// Operations that a run of the full campaign has at least.
const OPERATIONS_MIN: u64 = 500;
/// Runs at a time: most of each is waiting.
const WORKERS: u64 = 4;
/// The small version looks at every such operation.
const STEP_SMALL: u64 = 97;
const STORE_SEEDS: u64 = 20;
const STORE_TEST: &str = "crash::faults::campaign";
const END_LIMIT: Duration = Duration::from_secs(60);
/// `/livez` answers within this, whatever the disk does.
const LIVEZ_LIMIT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);
const SCENARIO: &str =
    "seed = 11\n[[group]]\nname = \"shop-{n}.example\"\ncount = 60\nmailboxes.ok = [\"user-#\"]\n";
const ACCOUNT: &str = "one";
const GRANTED: u64 = 10_000;

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let seed = options.seed();
    report::line(&format!("iofault: seed {seed}"));
    let mut tally = Tally::default();
    if !options.small && options.wants("store") {
        tally.check("the store alone", of_store(seed % 1_000_000));
    }
    let world = World::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let plans = world.plans()?;
    let serve = world.serve(&mailnet, &plans.each_ref().map(String::as_str))?;
    let key = world.unlimited(ACCOUNT, GRANTED)?;
    serve.stop()?;
    let campaign = Campaign { template: world.path("data"), world, mailnet, plans, key };
    let operations = campaign.one_run(0, None)?.operations;
    let enough = if options.small || operations >= OPERATIONS_MIN { Ok } else { Err };
    tally.check("a run without a fault", enough(format!("{operations} operations")));
    for fault in FAULTS.into_iter().filter(|fault| options.wants(&format!("{fault:?}"))) {
        let step = if options.small { STEP_SMALL } else { 1 };
        tally.check(&format!("{fault:?}"), campaign.every_operation(fault, operations, step));
    }
    campaign.mailnet.stop()?;
    Ok(Some(tally))
}

/// Every write and sync of the store's own loads.
fn of_store(seed: u64) -> Result<String, String> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "store-redb", "--lib"]);
    command.args(["--", "--ignored", "--exact", "--nocapture", STORE_TEST]);
    command.env("MAILPROBE_IOFAULT_SEED", seed.to_string());
    command.env("MAILPROBE_IOFAULT_SEEDS", STORE_SEEDS.to_string()).env("RUST_BACKTRACE", "0");
    let output = command.output().map_err(|error| format!("cargo did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text.lines().find(|line| line.contains("on a disk that failed")).map(str::to_owned);
    match told {
        Some(told) if output.status.success() => Ok(told),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = errors.lines().collect();
            Err(lines[lines.len().saturating_sub(10)..].join("\n"))
        }
    }
}

struct Campaign {
    world: World,
    mailnet: Mailnet,
    plans: [String; 2],
    key: String,
    /// A data folder with an account.
    template: PathBuf,
}

/// What a run saw.
#[derive(Debug, Default)]
struct Seen {
    operations: u64,
    met: bool,
    /// Servers that did not start.
    not_started: u64,
    /// Answers that said that nothing was charged, or that it is not known.
    refused: u64,
    unknown: u64,
    slowest_livez: Duration,
}

impl Campaign {
    /// One fault at every `step`-th operation.
    fn every_operation(&self, fault: Fault, operations: u64, step: u64) -> Result<String, String> {
        let (next, sum) = (AtomicU64::new(1), Mutex::new((0, 0, Seen::default())));
        let failed: Mutex<Vec<String>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(step, Ordering::SeqCst);
                        if at > operations || interrupted().is_err() {
                            return;
                        }
                        match self.one_run(at, Some(fault)) {
                            Ok(seen) => {
                                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                                sum.0 += 1;
                                sum.1 += u64::from(seen.met);
                                sum.2.add(&seen);
                            }
                            Err(Failure(why)) => failed
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .push(format!("operation {at}: {why}")),
                        }
                    }
                });
            }
        });
        interrupted().map_err(|failure| failure.0)?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = failed.first() {
            return Err(format!("{} runs failed, such as {first}", failed.len()));
        }
        let (runs, met, seen) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Operations differ a little from run to run, so the last ones may not be reached.
        if met == 0 || met * 10 < runs * 9 {
            return Err(format!("only {met} of {runs} runs met the fault"));
        }
        Ok(format!(
            "{runs} runs, {met} met it, {} did not start; {} requests refused, {} of unknown outcome; /livez at most {} ms",
            seen.not_started,
            seen.refused,
            seen.unknown,
            seen.slowest_livez.as_millis()
        ))
    }

    /// A server on a folder of its own, which fails at that operation, and then one on the same folder that does not.
    fn one_run(&self, at: u64, fault: Option<Fault>) -> Result<Seen, Failure> {
        let name = fault.map_or_else(|| "none".to_owned(), |fault| format!("{fault:?}-{at}"));
        let folder = self.world.path(&name);
        copy(&self.template, &folder)?;
        let mut load = Load::new();
        let seen = self.failing_life(&folder, &name, fault.map(|fault| (at, fault)), &mut load)?;
        self.healthy_life(&folder, &name, &mut load)?;
        for path in [folder, self.log(&name, "failing"), self.log(&name, "healthy")] {
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        }
        Ok(seen)
    }

    fn failing_life(
        &self,
        folder: &Path,
        name: &str,
        planned: Option<(u64, Fault)>,
        load: &mut Load,
    ) -> Result<Seen, Failure> {
        let plan = planned.map_or(Plan::Nothing, |(at, fault)| Plan::Fail(at, fault));
        let mut command = self.command(folder);
        intercept::ask_us(&mut command);
        let log = self.log(name, "failing");
        let mut server = Server::start("mailprobe serve", command, &log)?;
        let calls = Intercepted::attach(server.id(), folder, plan)?;
        let mut seen = Seen::default();
        match listening(&mut server)? {
            Some(address) => {
                let client = Client { address, key: &self.key };
                let over = AtomicBool::new(false);
                let outcome = std::thread::scope(|scope| {
                    let watch = scope.spawn(|| slowest_livez(address, &over));
                    let outcome = load.run(&client, &calls);
                    over.store(true, Ordering::SeqCst);
                    seen.slowest_livez = watch.join().map_err(|_| "the watch panicked".to_owned())??;
                    outcome
                });
                outcome.map_err(|why| server.complain(&why))?;
                (seen.refused, seen.unknown) = (load.refused, load.unknown);
                if planned.is_none_or(|(_, fault)| fault == Fault::SlowSync)
                    && load.refused + load.unknown > 0
                {
                    return Err(server.complain("refuses requests on a disk that works"));
                }
                server.terminate(END_LIMIT)?;
            }
            None if calls.is_met() => seen.not_started = 1,
            None => return Err(server.complain("it does not start")),
        }
        (seen.operations, seen.met) = (calls.operations(), calls.is_met());
        calls.finish()?;
        let text = std::fs::read_to_string(&log).map_err(|error| Failure(format!("log: {error}")))?;
        super::hostile::no_panic(&text).map_err(Failure)?;
        Ok(seen)
    }

    fn healthy_life(&self, folder: &Path, name: &str, load: &mut Load) -> Result<(), Failure> {
        let mut server = Server::start("mailprobe serve", self.command(folder), &self.log(name, "healthy"))?;
        let Some(address) = listening(&mut server)? else {
            return Err(server.complain("it does not start after the fault"));
        };
        let client = Client { address, key: &self.key };
        let spent = || self.spent(folder).map_err(|failure| failure.0);
        load.settle(&client, spent).map_err(|why| server.complain(&why))
    }

    /// What the account has spent and holds.
    fn spent(&self, folder: &Path) -> Result<(u64, u64), Failure> {
        let credits = self.world.books(folder, ACCOUNT)?;
        if credits.granted != GRANTED {
            return Err(Failure(format!("{} credits were granted, not {GRANTED}", credits.granted)));
        }
        Ok((credits.spent, credits.held))
    }

    fn command(&self, folder: &Path) -> Command {
        self.world.serve_on(folder, &self.mailnet, &self.plans.each_ref().map(String::as_str))
    }

    fn log(&self, name: &str, life: &str) -> PathBuf {
        self.world.path(&format!("{name}-{life}.log"))
    }
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.not_started += other.not_started;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.slowest_livez = self.slowest_livez.max(other.slowest_livez);
    }
}

/// Asks for `/livez` again and again until the load is over.
fn slowest_livez(address: SocketAddr, over: &AtomicBool) -> Result<Duration, String> {
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let answer = super::http::open(address, "/livez")?;
        slowest = slowest.max(began.elapsed());
        if answer.status != 200 || slowest > LIVEZ_LIMIT {
            return Err(format!("/livez: {} after {} ms", answer.status, slowest.as_millis()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(slowest)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    match copied {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure(format!("cannot copy {}", from.display()))),
    }
}
