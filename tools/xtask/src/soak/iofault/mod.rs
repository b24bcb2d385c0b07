//! `soak iofault`: the disk under the server fails, once at each of its operations.
//!
//! The first part tests the store alone, on a storage of its tests (frontend/store-redb/src/tests/crash/faults.rs): every
//! write and sync of four loads, with three faults. The second part tests the server, whose system calls on its data
//! folder are intercepted ([`super::intercept`]), with one run for each operation and fault. A run checks single
//! addresses and a batch, and repeats unanswered requests after the restart. Then each address must be answered and
//! paid once: a lower charge is a loss, and a higher one is a charge without an answer.

use super::api::Api;
use super::crowd::each;
use super::disk::remove_folder;
use super::intercept::{self, Fault, InterceptPlan, Intercepted};
use super::judge::Claim;
use super::load::RequestLoad;
use super::options::SoakOptions;
use super::store_test::StoreTest;
use super::world::{ANY_PORT, CampaignFolder, Mailnet, copy_folder, listening, no_panic};
use crate::failure::{Context, Failure};
use crate::interop::process::ServerProcess;
use crate::interop::report::{self, Tally, outcome};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FAULTS: [Fault; 4] = [Fault::Error, Fault::Full, Fault::Short, Fault::SlowSync];
/// The fewest operations of a run in the full campaign.
const OPERATIONS_MIN: u64 = 500;
/// How many runs are made at once: most of each is waiting.
const WORKERS: usize = 4;
/// The small version tests each operation with a multiple of this number.
const STEP_SMALL: u64 = 97;
const STORE_SEEDS: u64 = 20;
const STORE_TEST: &str = "tests::crash::faults::campaign";
const END_LIMIT: Duration = Duration::from_secs(60);
/// The longest allowed time of `/livez`, also while the disk fails.
const LIVEZ_LIMIT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);
const SCENARIO: &str =
    "seed = 11\n[[group]]\nname = \"shop-{n}.example\"\ncount = 60\nmailboxes.ok = [\"user-#\"]\n";
const ACCOUNT: &str = "one";
const GRANTED: u64 = 10_000;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    report::line(&format!("iofault: seed {seed}"));
    if !options.small && options.wants("store") {
        tally.check("the store alone", of_store(seed % 1_000_000));
    }
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let serve = world.serve(&mailnet, &[])?;
    let key = world.unlimited(ACCOUNT, GRANTED)?;
    serve.stop()?;
    let campaign = IoFaultCampaign { template: world.path("data"), world, mailnet, key };
    let operations = campaign.one_run(0, None)?.operations;
    let is_enough = options.small || operations >= OPERATIONS_MIN;
    tally.check("a run without a fault", outcome(is_enough, format!("{operations} operations")));
    for fault in FAULTS.into_iter().filter(|fault| options.wants(&format!("{fault:?}"))) {
        let step = if options.small { STEP_SMALL } else { 1 };
        tally.check(&format!("{fault:?}"), campaign.every_operation(fault, operations, step));
    }
    campaign.mailnet.stop()?;
    Ok(())
}

/// Tests every write and sync of the store's own loads.
fn of_store(seed: u64) -> Result<String, String> {
    let variables = [("MAILPROBE_IOFAULT_SEED", seed), ("MAILPROBE_IOFAULT_SEEDS", STORE_SEEDS)];
    let run = StoreTest::run(true, STORE_TEST, &variables)?;
    run.line("on a disk that failed").filter(|_| run.succeeded).ok_or_else(|| run.complaint())
}

struct IoFaultCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    key: String,
    /// A data folder with an account, which each run copies.
    template: PathBuf,
}

/// The observations of a run.
#[derive(Debug, Default)]
struct RunRecord {
    operations: u64,
    met: bool,
    /// Servers that did not start.
    not_started: u64,
    /// Answers which stated that nothing was charged, or that the charge is not known.
    refused: u64,
    unknown: u64,
    slowest_livez: Duration,
}

impl IoFaultCampaign {
    /// Tests one fault at every `step`-th operation.
    fn every_operation(&self, fault: Fault, operations: u64, step: u64) -> Result<String, String> {
        // The number of operations varies from run to run, so a run may end before the last ones.
        let certain = operations - operations / 10;
        let places: Vec<u64> = (1..=operations).step_by(step as usize).collect();
        let (mut seen, mut met, mut missed, mut failed) = (RunRecord::default(), 0, 0, Vec::new());
        let runs = each(places.len(), WORKERS, |run| self.one_run(places[run], Some(fault)))?;
        for (at, run) in places.iter().zip(runs) {
            match run {
                Ok(run) => {
                    met += usize::from(run.met);
                    missed += usize::from(!run.met && *at <= certain);
                    seen.not_started += run.not_started;
                    seen.refused += run.refused;
                    seen.unknown += run.unknown;
                    seen.slowest_livez = seen.slowest_livez.max(run.slowest_livez);
                }
                Err(Failure(why)) => failed.push(format!("operation {at}: {why}")),
            }
        }
        if let Some(first) = failed.first() {
            return Err(format!("{} runs failed, such as {first}", failed.len()));
        }
        let runs = places.len();
        // A few runs may have far fewer operations.
        if met == 0 || missed * 20 > runs {
            return Err(format!(
                "only {met} of {runs} runs met the fault, and {missed} missed it before operation {certain}"
            ));
        }
        Ok(format!(
            "{runs} runs, {met} met it, {} did not start; {} requests refused, {} of unknown outcome; /livez at most {} ms",
            seen.not_started,
            seen.refused,
            seen.unknown,
            seen.slowest_livez.as_millis()
        ))
    }

    /// Runs a server on a new folder, with a failure at that operation, and then one on the same folder without a
    /// failure.
    fn one_run(&self, at: u64, fault: Option<Fault>) -> Result<RunRecord, Failure> {
        let name = fault.map_or_else(|| "none".to_owned(), |fault| format!("{fault:?}-{at}"));
        let (place, mut load) = (self.world.path(&name), RequestLoad::new());
        std::fs::create_dir(&place).at(&place)?;
        copy_folder(&self.template, &place.join("data"))?;
        let seen = self.failing_life(&place, fault.map(|fault| (at, fault)), &mut load)?;
        self.healthy_life(&place, &mut load)?;
        remove_folder(&place)?;
        Ok(seen)
    }

    fn failing_life(
        &self,
        place: &Path,
        planned: Option<(u64, Fault)>,
        load: &mut RequestLoad,
    ) -> Result<RunRecord, Failure> {
        let plan = planned.map_or(InterceptPlan::Nothing, |(at, fault)| InterceptPlan::Fail(at, fault));
        let (folder, log) = (place.join("data"), place.join("failing.log"));
        let mut command = self.command(&folder);
        intercept::ask_us(&mut command);
        let mut server = ServerProcess::start("mailprobe serve", command, &log)?;
        let calls = Intercepted::attach(server.id(), &folder, plan)?;
        let mut seen = RunRecord::default();
        match listening(&mut server)? {
            Some(address) => {
                let over = AtomicBool::new(false);
                let outcome = std::thread::scope(|scope| {
                    let watch = scope.spawn(|| slowest_livez(Api::new(address, ""), &over));
                    let outcome = load.run(Api::new(address, &self.key), &calls);
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
        let text = std::fs::read_to_string(&log).about("log")?;
        no_panic(&text)?;
        Ok(seen)
    }

    fn healthy_life(&self, place: &Path, load: &mut RequestLoad) -> Result<(), Failure> {
        let (folder, log) = (place.join("data"), place.join("healthy.log"));
        let mut server = ServerProcess::start("mailprobe serve", self.command(&folder), &log)?;
        let Some(address) = listening(&mut server)? else {
            return Err(server.complain("it does not start after the fault"));
        };
        let judge = |claim: &Claim| {
            self.world.judge_in(&folder, ACCOUNT, &Claim { granted: Some(GRANTED), ..*claim })
        };
        load.settle(Api::new(address, &self.key), judge).map_err(|why| server.complain(&why))
    }

    fn command(&self, folder: &Path) -> Command {
        self.world.serve_on(folder, ANY_PORT, self.mailnet.engine(), &[])
    }
}

/// Requests `/livez` repeatedly until the load is over, and returns the longest time.
fn slowest_livez(api: Api<'_>, over: &AtomicBool) -> Result<Duration, String> {
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let answer = api.get("/livez")?;
        slowest = slowest.max(began.elapsed());
        if answer.status != 200 || slowest > LIVEZ_LIMIT {
            return Err(format!("/livez: {} after {} ms", answer.status, slowest.as_millis()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(slowest)
}
