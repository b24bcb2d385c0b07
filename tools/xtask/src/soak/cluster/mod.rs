//! `soak cluster`: three nodes on one PostgreSQL that fails over, under faults of everything, and a judge of every answer.
//!
//! The world (world.rs) is in network namespaces. Clients (clients.rs) call all nodes and record each call (calls.rs), while faults
//! happen one after another (faults.rs). At the end, when all is healed and all batches are complete, the judge (judge.rs) compares
//! the calls with the ledger. Further parts (parts.rs) test a node that is paused for a minute, requests that are repeated at all
//! nodes at once, limits, and revocations.

mod calls;
mod clients;
mod faults;
mod judge;
mod parts;
pub mod world;

use super::client::Lost;
use super::crowd::{joined, lock};
use super::options::SoakOptions;
use super::world::{CampaignFolder, Ledger};
use crate::cluster::setup::Setup;
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally};
use calls::{CallLog, ClusterCall};
use clients::ClusterLoad;
use faults::CampaignFault;
use judge::{FaultWindow, longest_pause};
use std::collections::BTreeMap;
use std::time::Duration;
use world::{ClusterAccount, ClusterWorld, NODES, SCENARIO, WorldProfile};

/// The accounts of the load.
const ACCOUNTS: usize = 3;
/// Batches are complete and holds have ended after this time at the latest.
const FINISH_LIMIT: Duration = Duration::from_secs(200);
/// A hold of a dead node is voided after this time in seconds at the latest.
const HOLD_S: u32 = 200;
/// After this many faults a line of progress is printed.
const REPORT_EVERY: usize = 10;
/// The pause between two polls of a batch at the end.
const POLL_PAUSE: Duration = Duration::from_millis(500);
/// Calls before the first fault and after the last one.
const CALM: Duration = Duration::from_secs(3);

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let seed = options.seed();
    let mut random = fastrand::Rng::with_seed(seed);
    report::line(&format!("cluster: seed {seed}"));
    let profile = WorldProfile { scenario: SCENARIO, flags: &[], previous: options.previous.clone() };
    let mut world = ClusterWorld::of(CampaignFolder::make(options)?, profile)?;
    if options.wants("faults") {
        let count = options.faults.unwrap_or(if options.small { 4 } else { 200 });
        let plan = CampaignFault::plan(count, options.small, &mut random);
        FaultRun::make(&world, "load")?.go(&mut world, &plan, &mut random, tally)?;
    }
    parts::run(&mut world, options, &mut random, tally)?;
    let bad = world.stop_nodes()?;
    if let Some(outcome) = world.count_probes()? {
        tally.check("an address that is asked for at once is probed once", outcome);
    }
    tally.check("the logs have no panic", report::faultless("all".to_owned(), &bad));
    Ok(())
}

/// A run of faults under a load.
struct FaultRun {
    accounts: Vec<ClusterAccount>,
    log: CallLog,
    windows: Vec<FaultWindow>,
    /// Holds that were found too old.
    old_holds: Vec<String>,
}

impl FaultRun {
    fn make(world: &ClusterWorld, name: &str) -> Result<FaultRun, Failure> {
        let accounts = (0..ACCOUNTS).map(|number| world.account(&format!("{name}-{number}"), "unlimited"));
        let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
        let log = CallLog::make(&world.path(&format!("{name}.jsonl")))?;
        let (windows, old_holds) = Default::default();
        Ok(FaultRun { accounts, log, windows, old_holds })
    }

    fn go(
        mut self,
        world: &mut ClusterWorld,
        plan: &[CampaignFault],
        random: &mut fastrand::Rng,
        tally: &mut Tally,
    ) -> Result<(Vec<ClusterCall>, Vec<FaultWindow>), Failure> {
        let accounts = self.accounts.clone();
        let (windows, old_holds, log) = (&mut self.windows, &mut self.old_holds, &self.log);
        let load = ClusterLoad::new(world, &accounts, log);
        // The other nodes hear of new keys within two seconds.
        sleep(CALM)?;
        load.during(&mut random.fork(), || {
            sleep(CALM)?;
            for (number, fault) in plan.iter().enumerate() {
                let window = faults::execute(*fault, world, log, random)?;
                let took = (window.end - window.begin) as f64 / 1000.0;
                if (number + 1).is_multiple_of(REPORT_EVERY) || plan.len() < REPORT_EVERY {
                    report::line(&format!("      fault {}: {} {took:.1} s", number + 1, window.name));
                }
                windows.push(window);
                old_holds.extend(holds(world, HOLD_S)?);
            }
            sleep(CALM)
        })?;
        let mut faults = finish(world, &load)?;
        faults.extend(lock(&load.faults).drain(..));
        tally.check(
            "batches are complete, each row answered, and no hold is left",
            report::faultless("all".to_owned(), &faults),
        );
        tally.check("no hold is older than 200 s", report::faultless("all".to_owned(), old_holds));
        let calls = self.log.calls();
        self.judge(world, &calls, tally)?;
        Ok((calls, self.windows))
    }

    fn judge(&self, world: &ClusterWorld, calls: &[ClusterCall], tally: &mut Tally) -> Result<(), Failure> {
        let mut finals = Vec::new();
        for account in &self.accounts {
            finals.push(world.ledger(&account.name)?);
        }
        for finding in judge::judge(calls, &finals, &self.windows) {
            tally.check(finding.rule, finding.outcome());
        }
        tally.check("a charge that is counted twice is noticed", plant(calls, &finals, &self.windows));
        self.pauses(calls, tally);
        self.table(calls);
        Ok(())
    }

    /// Writes pause for at most twice the lock of a primary.
    fn pauses(&self, calls: &[ClusterCall], tally: &mut Tally) {
        let limit = u64::from(Setup::default().ttl) * 2000;
        let writes = writes(calls);
        let pause = |window: &FaultWindow| (window.name.clone(), longest_pause(&writes, window));
        let pauses: Vec<_> = self.windows.iter().map(pause).collect();
        let long = pauses.iter().filter(|(_, pause)| *pause > limit);
        let long: Vec<String> = long.map(|(name, pause)| format!("{name}: {pause} ms")).collect();
        let longest = pauses.iter().map(|(_, pause)| *pause).max().unwrap_or_default();
        let told = format!("{longest} ms at most, {limit} ms allowed");
        tally.check("writes pause for at most twice the lock", report::faultless(told, &long));
    }

    /// Prints a line for each kind of fault, and one for the errors of each kind of call.
    fn table(&self, calls: &[ClusterCall]) {
        let writes = writes(calls);
        let mut kinds: BTreeMap<&str, Vec<&FaultWindow>> = BTreeMap::new();
        self.windows.iter().for_each(|window| kinds.entry(&window.name).or_default().push(window));
        table_head(
            "fault | number | longest pause of writes (s) | longest time until everything worked again (s)",
        );
        for (name, windows) in kinds {
            let pause = windows.iter().map(|window| longest_pause(&writes, window)).max().unwrap_or_default();
            let took = windows.iter().map(|window| window.end - window.begin).max().unwrap_or_default();
            let is_within = |call: &&ClusterCall| {
                windows.iter().any(|window| (window.begin..=window.end).contains(&call.end))
            };
            let (pause, took) = (pause as f64 / 1000.0, took as f64 / 1000.0);
            let (number, errors) = (windows.len(), errors(calls.iter().filter(is_within)));
            report::line(&format!("| {name} | {number} | {pause:.1} | {took:.1} | {errors} |"));
        }
        report::line("");
        table_head("call | number | 2xx | slowest 2xx (s)");
        let mut kinds: BTreeMap<&str, Vec<&ClusterCall>> = BTreeMap::new();
        calls.iter().for_each(|call| kinds.entry(call.kind.name()).or_default().push(call));
        for (name, calls) in kinds {
            let good = calls.iter().filter(|call| call.success().is_some());
            let good: Vec<u64> = good.map(|call| call.end - call.begin).collect();
            let slowest = good.iter().max().copied().unwrap_or_default() as f64 / 1000.0;
            let errors = errors(calls.iter().copied());
            report::line(&format!("| {name} | {} | {} | {slowest:.1} | {errors} |", calls.len(), good.len()));
        }
    }
}

/// Prints the head of a table with these columns and those of [`errors`].
fn table_head(columns: &str) {
    report::line(&format!("| {columns} | 503 | 429 | 409 | connection broken | not connected |"));
    report::line("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
}

/// The times of all acknowledged writes, in order.
fn writes(calls: &[ClusterCall]) -> Vec<u64> {
    let mut writes: Vec<u64> = calls.iter().filter(|call| call.is_write()).map(|call| call.end).collect();
    writes.sort_unstable();
    writes
}

/// The cells of a table with the errors by their kind.
fn errors<'c>(calls: impl Iterator<Item = &'c ClusterCall>) -> String {
    let mut counts = [0_u32; 5];
    for call in calls {
        let kind = match &call.result {
            Ok(answer) => match answer.status {
                503 => 0,
                429 => 1,
                409 => 2,
                _ => continue,
            },
            Err(Lost::NoAnswer(_)) => 3,
            Err(Lost::NotSent) => 4,
        };
        counts[kind] += 1;
    }
    counts.map(|count| count.to_string()).join(" | ")
}

/// Holds that are older than this, one text for each.
fn holds(world: &ClusterWorld, seconds: u32) -> Result<Vec<String>, Failure> {
    let text = format!(
        "SELECT encode(k, 'hex'), node, epoch, clock_timestamp() - since FROM mailprobe.holds \
         WHERE since < clock_timestamp() - interval '{seconds} s'"
    );
    Ok(world.sql(&text)?.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Polls all batches until they are complete, and waits until no hold is left. Returns what is missing at the end.
fn finish(world: &ClusterWorld, load: &ClusterLoad<'_>) -> Result<Vec<String>, Failure> {
    let poll = || {
        load.namespace.enter()?;
        let mut clients: Vec<_> =
            (0..load.accounts.len()).map(|account| load.client(account, fastrand::Rng::new())).collect();
        let mut node = 0;
        wait_until("all batches are complete", FINISH_LIMIT, || {
            let open = lock(&load.batches).clone();
            for batch in &open {
                node = (node + 1) % NODES;
                clients[batch.account].poll_once(node, batch)?;
            }
            sleep(POLL_PAUSE)?;
            Ok(lock(&load.batches).is_empty())
        })
    };
    let polled = std::thread::scope(|scope| joined(scope.spawn(poll)));
    interrupted()?;
    let mut missing = Vec::new();
    if let Err(Failure(why)) = polled {
        let open = lock(&load.batches).iter().map(|batch| batch.id.clone()).collect::<Vec<_>>();
        missing.push(format!("{why}: {}", open.join(", ")));
    }
    let waited = wait_until("no hold is left", FINISH_LIMIT, || {
        sleep(Duration::from_millis(500))?;
        Ok(holds(world, 0)?.is_empty())
    });
    interrupted()?;
    if let Err(Failure(why)) = waited {
        missing.push(format!("{why}: {}", holds(world, 0)?.join(", ")));
    }
    Ok(missing)
}

/// The judge must notice a run in which one check was charged twice.
fn plant(calls: &[ClusterCall], finals: &[Ledger], windows: &[FaultWindow]) -> Result<String, String> {
    let charged = calls.iter().find(|call| call.is_charged_check());
    let charged = charged.ok_or("no check was charged")?;
    let again = ClusterCall { begin: charged.end + 1, end: charged.end + 2, ..charged.clone() };
    let planted: Vec<ClusterCall> = calls.iter().cloned().chain([again]).collect();
    let twice = judge::judge(&planted, finals, windows);
    let mut spent = finals.to_vec();
    let credits = &mut spent[charged.account].credits;
    (credits.spent, credits.available) =
        (credits.spent + 1_000_000, credits.available.saturating_sub(1_000_000));
    let more = judge::judge(calls, &spent, windows);
    let count =
        |findings: &[judge::Finding]| findings.iter().filter(|finding| !finding.wrong.is_empty()).count();
    match (count(&twice), count(&more)) {
        (1.., 1..) => Ok("by the calls and by the ledger".into()),
        counts => Err(format!("rules that notice it: {counts:?}")),
    }
}
