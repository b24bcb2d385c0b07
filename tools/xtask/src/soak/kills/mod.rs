//! `soak kills`, `soak crash` and `soak batches`: `kill -9` and SIGTERM at random moments, and a check of the ledger after each
//! start. `kills` has a load of every kind of request. `crash` has 200 full checks at slow mail servers under way, most on one
//! account, and the others on accounts of their own, whose credits show the result of every single check. `batches` has clients
//! that submit batches, some of them many times at once under the same Idempotency-Key, which must have one batch and one charge.
//! Single checks continue meanwhile: their times are compared with those on an idle server.
//!
//! Programs send checks and batches (programs.rs). Users sign up, create keys, upload lists (people.rs, lists.rs) and
//! connect assistants (assistant.rs). Each client records which requests were acknowledged (records.rs). After each
//! start, while no request is under way (gate.rs), the records are compared with the ledger. Requests without an
//! answer are repeated, so at the end the ledger must have each charge exactly once.

mod addresses;
mod assistant;
mod gate;
mod lists;
mod people;
mod programs;
mod records;
mod start;

use super::assistants::tools;
use super::client::{self, HttpClient, HttpRequest};
use super::crowd::{joined, lock, spawn};
use super::judge;
use super::options::SoakOptions;
use super::slow_peers::{limit, millis, percentile_at};
use super::world::{CampaignFolder, Credits, Ledger, Mailnet, Serve, copy_folder, no_panic};
use crate::failure::{Context, Failure, ensure};
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use gate::EndOfClients;
use mailnet::Scenario;
use programs::{Program, ProgramLoad};
use records::{Account, RULES, Records, Rule, Secret};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A load, and how often and when its server is killed.
pub struct KillPlan {
    name: &'static str,
    /// How many accounts programs share, each with the number and the load of its programs.
    accounts: &'static [(usize, usize, ProgramLoad)],
    people: usize,
    /// Whether this load tests a rule.
    tests: fn(Rule) -> bool,
    /// Verified facts with their fewest number in the full version and in the small one.
    facts_min: &'static [(&'static str, [u64; 2])],
    /// The number of timed checks on an idle server before the first kill, in the full version and in the small one.
    idle_checks: [usize; 2],
    /// The fewest requests per second of the full version while the server runs.
    rate_min: f64,
    /// The number of kills of the full version and of the small one.
    kills: [u32; 2],
    life_max: Duration,
    /// A life may end by SIGTERM too.
    drains: bool,
    /// How many accounts the store's own audit covers after a start.
    audits: usize,
}

/// Every kind of request.
pub const KILLS: KillPlan = KillPlan {
    name: "kills",
    accounts: &[(4, 4, ProgramLoad::Everything)],
    people: 6,
    tests: |_| true,
    facts_min: &[],
    idle_checks: [0, 0],
    rate_min: 200.0,
    kills: [1000, 12],
    life_max: Duration::from_millis(1500),
    drains: true,
    audits: 2,
};
/// Many charged checks at once.
pub const CRASH: KillPlan = KillPlan {
    name: "crash",
    accounts: &[(1, 150, ProgramLoad::SlowChecks), (50, 1, ProgramLoad::SlowChecks)],
    people: 0,
    tests: |rule| is_of_batches(rule) && !matches!(rule, Rule::Batches | Rule::Replays),
    facts_min: &[],
    idle_checks: [0, 0],
    rate_min: 0.0,
    kills: [20, 3],
    life_max: Duration::from_secs(3),
    drains: false,
    audits: usize::MAX,
};

/// Batches, and single checks beside them.
pub const BATCHES: KillPlan = KillPlan {
    name: "batches",
    accounts: &[(1, 8, ProgramLoad::Batches), (1, 4, ProgramLoad::TimedChecks)],
    tests: is_of_batches,
    facts_min: &[("batches accepted", [1000, 20]), ("batches submitted at once", [200, 4])],
    idle_checks: [2000, 200],
    kills: [80, 3],
    life_max: Duration::from_secs(6),
    ..CRASH
};

/// Whether programs alone can break a rule.
fn is_of_batches(rule: Rule) -> bool {
    !matches!(rule, Rule::Lists | Rule::SignUps | Rule::Secrets)
}

/// How many accounts of programs may know the addresses of each other.
const ACCOUNTS_SHARING: usize = 4;
/// The limits on the duration of a start: half of them are quicker than the first, all than the second. The disk of a
/// busy machine can stop for seconds.
const START_MEDIAN: Duration = Duration::from_secs(3);
const START_LIMIT: Duration = Duration::from_secs(30);
/// The longest allowed drain; a drain takes at most 65 s.
const DRAIN_LIMIT: Duration = Duration::from_secs(70);
/// After a drain longer than this the report shows this many lines of the log.
const DRAIN_TOLD: Duration = Duration::from_secs(10);
const DRAIN_LINES: usize = 12;
/// The time limit of the last life: rows that wait, and all requests that must be repeated.
const FINISH_LIMIT: Duration = Duration::from_secs(180);
/// After this many kills every complete batch is read again, and a line of progress is printed.
const REPORT_EVERY: u32 = 50;
/// Every start with a multiple of this number is killed before it completes.
const CUT_START_EVERY: u32 = 8;
/// How many secrets of each kind are checked after a start.
const SECRETS: usize = 4;
/// How many lines of the trace a failure shows.
const TRACE_SHOWN: usize = 40;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, plan: &'static KillPlan, tally: &mut Tally) -> Result<(), Failure> {
    let kills = options.kills.unwrap_or(plan.kills[usize::from(options.small)]);
    let seed = options.seed();
    let programs: usize = plan.accounts.iter().map(|(accounts, each, _)| accounts * each).sum();
    let clients = programs + plan.people;
    report::line(&format!("{}: seed {seed}, {kills} kills under the load of {clients} clients", plan.name));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(addresses::SCENARIO)?;
    let campaign = KillCampaign::prepare(plan, world, mailnet, fastrand::Rng::with_seed(seed))?;
    campaign.go(kills, !options.small, tally)
}

struct KillCampaign {
    plan: &'static KillPlan,
    world: CampaignFolder,
    mailnet: Mailnet,
    records: Arc<Records>,
    programs: Vec<Program>,
    random: fastrand::Rng,
    /// The times of checks on an idle server.
    idle: Vec<Duration>,
    /// The kinds of ends of the next lives, in reverse order.
    ends: Vec<End>,
    /// The number of accounts that the operator created.
    made: usize,
    figures: KillFigures,
}

/// The figures of the campaign.
#[derive(Default)]
struct KillFigures {
    killed: u32,
    terminated: u32,
    cut_drains: u32,
    cut_starts: u32,
    answers: u64,
    up: Duration,
    starts: Vec<Duration>,
    slowest_drain: Duration,
}

/// The way in which a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
    /// `kill -9` after this time from SIGTERM on.
    CutDrain(Duration),
}

impl KillCampaign {
    fn go(mut self, kills: u32, is_full: bool, tally: &mut Tally) -> Result<(), Failure> {
        let (serve, each) = self.with_clients(|campaign| campaign.kill(kills, is_full))?;
        let open = self.finish(serve, kills + 1)?;
        let (median, slowest) = self.figures.median_and_slowest_start();
        if median > START_MEDIAN || slowest > START_LIMIT {
            self.records.fault(Rule::Starts, format!("median {median:?}, {slowest:?} at most"));
        }
        let faults = self.records.take_faults();
        self.report(is_full, each, open, &faults, tally);
        if faults.is_empty() {
            tally.check("an older ledger is noticed", self.plant(kills + 2)?);
        }
        self.mailnet.end(tally).map(drop)
    }

    /// Runs the clients while `work` does, and until they have ended.
    fn with_clients<T>(
        &mut self,
        work: impl FnOnce(&mut KillCampaign) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let records = Arc::clone(&self.records);
        let (records, mut programs) = (&records, std::mem::take(&mut self.programs));
        records.gate.reset();
        let outcome = std::thread::scope(|scope| {
            // If a step fails or panics, no client waits for a server.
            let _end = EndOfClients(&records.gate);
            let mut clients = Vec::new();
            for program in &mut programs {
                let active = records.gate.register();
                clients.push(spawn(scope, move || program.work().map(|()| drop(active)))?);
            }
            for _ in 0..self.plan.people {
                let (active, random) = (records.gate.register(), self.random.fork());
                clients.push(spawn(scope, move || people::live(records, random).map(|()| drop(active)))?);
            }
            let outcome = work(self)?;
            // A client that has stopped early has recorded a fault.
            clients.into_iter().for_each(|client| drop(joined(client)));
            Ok(outcome)
        });
        self.programs = programs;
        outcome
    }

    /// Kills the server again and again. Returns the one after the last kill, and the seconds that a kill took.
    fn kill(&mut self, kills: u32, is_full: bool) -> Result<(Serve, f64), Failure> {
        let mut serve = self.start()?;
        let checks = self.plan.idle_checks[usize::from(!is_full)];
        if checks > 0 {
            self.records.gate.open(0);
            wait_until("the checks of an idle server", FINISH_LIMIT, || {
                Ok(lock(&self.records.waits).len() >= checks || self.records.has_faults())
            })?;
            self.records.gate.close();
            self.idle = std::mem::take(&mut lock(&self.records.waits));
        }
        let began = Instant::now();
        for number in 1..=kills {
            let longest = self.plan.life_max.as_millis() as u64;
            let life = Duration::from_millis(self.random.u64(50..=longest));
            let end = self.draw_end();
            self.live(serve, number, life, end)?;
            if number % CUT_START_EVERY == 0 {
                self.cut_start()?;
            }
            serve = self.start()?;
            self.compare(number, false)?;
            if number % REPORT_EVERY == 0 {
                let each = began.elapsed().as_secs_f64() / f64::from(number);
                let rate = self.figures.rate();
                report::line(&format!("      {number} kills, {each:.2} s each, {rate:.0} requests/s"));
            }
            if self.records.has_faults() {
                self.records.gate.end();
                break;
            }
        }
        self.records.gate.finish(kills + 1, FINISH_LIMIT);
        let ends = self.figures.killed + self.figures.terminated;
        Ok((serve, began.elapsed().as_secs_f64() / f64::from(ends).max(1.0)))
    }

    /// Draws the end of a life. Three of four are `kill -9`, and some SIGTERMs are followed by one.
    fn draw_end(&mut self) -> End {
        if self.ends.is_empty() && self.plan.drains {
            self.ends = vec![End::Kill; 9];
            self.ends.extend([End::Terminate, End::Terminate]);
            self.ends.push(End::CutDrain(Duration::from_millis(self.random.u64(0..300))));
            self.random.shuffle(&mut self.ends);
        }
        self.ends.pop().unwrap_or(End::Kill)
    }

    /// Runs one life: the clients work until the server has ended.
    fn live(&mut self, serve: Serve, number: u32, life: Duration, end: End) -> Result<(), Failure> {
        let (records, figures) = (self.records.as_ref(), &mut self.figures);
        records.gate.open(number);
        let (began, before) = (Instant::now(), answers(records));
        sleep(life)?;
        figures.up += began.elapsed();
        figures.answers += answers(records) - before;
        records.gate.set_ending();
        let took = end_server(serve, end, figures, records)?;
        records.gate.close();
        let log = self.world.last_log()?;
        if took > DRAIN_TOLD {
            let lines: Vec<&str> = log.lines().collect();
            report::line(&format!(
                "      the drain of life {number} took {} s, and its log ends:",
                took.as_secs()
            ));
            lines[lines.len().saturating_sub(DRAIN_LINES)..].iter().for_each(|line| report::line(line));
        }
        if let Err(panics) = no_panic(&log) {
            self.records.fault(Rule::Log, panics);
        }
        interrupted()
    }

    /// Compares and ends the last life, in which every request was repeated until it was answered. Returns the credits whose use is
    /// unknown.
    fn finish(&mut self, serve: Serve, number: u32) -> Result<u64, Failure> {
        let has_faults = self.records.has_faults();
        if !has_faults {
            self.compare(number, true)?;
        }
        let (began, stopped) = (Instant::now(), serve.stop());
        if let Err(failure) = stopped {
            self.records.fault(Rule::Ends, format!("{} after {} ms", failure.0, began.elapsed().as_millis()));
        }
        if let Err(panics) = no_panic(&self.world.last_log()?) {
            self.records.fault(Rule::Log, panics);
        }
        let accounts = lock(&self.records.accounts);
        let open = accounts.iter().map(|account| account.claim().open).sum();
        if let Some(account) =
            accounts.iter().find(|account| account.claim().lasting != 0).filter(|_| !has_faults)
        {
            let what = format!("{}{:?} has not ended: {:?}", account.email, account.name(), account.claim());
            drop(accounts);
            self.records.fault(Rule::Holds, what);
        }
        Ok(open)
    }

    /// Replaces the ledger after a life by the one before it, which loses acknowledged charges. The comparison must miss them:
    /// a fault of another kind, such as a start that takes too long, is no proof that it would.
    fn plant(&mut self, number: u32) -> Result<Result<String, String>, Failure> {
        let copy = self.world.folder().join("before");
        copy_folder(&self.world.data(), &copy)?;
        self.with_clients(|campaign| {
            let serve = campaign.start()?;
            campaign.live(serve, number, campaign.plan.life_max, End::Kill)?;
            campaign.records.gate.end();
            Ok(())
        })?;
        std::fs::remove_dir_all(self.world.data()).about("the data folder")?;
        copy_folder(&copy, &self.world.data())?;
        let serve = self.start()?;
        self.compare(number, false)?;
        serve.kill();
        let faults = self.records.take_faults();
        Ok(match faults.iter().filter(|(rule, _)| *rule == Rule::Charges).count() {
            0 => Err(format!("no lost charge is noticed, only {faults:?}")),
            count => Ok(format!("noticed by {count} charges of {} faults", faults.len())),
        })
    }

    /// Compares the records with the ledger, while no client sends requests.
    fn compare(&self, number: u32, is_whole: bool) -> Result<(), Failure> {
        let listed = self.world.json(&["account", "list"])?;
        let listed = listed.as_array().ok_or_else(|| Failure("account list: no list".into()))?;
        let mut ledger = HashMap::new();
        for account in listed {
            let name = account.get("name").and_then(Value::as_str).unwrap_or_default();
            ledger.insert(name.to_owned(), Credits::of(account)?);
        }
        self.compare_sign_ups(ledger.len());
        let accounts: Vec<Arc<Account>> = lock(&self.records.accounts).clone();
        for (at, account) in accounts.iter().enumerate() {
            // The store's own audit covers all new accounts, and the others in turn.
            let turn = (at + number as usize) % accounts.len();
            let has_turn = is_whole || turn < self.plan.audits;
            if account.name().is_none() || has_turn {
                self.audit(account)?;
            }
            let Some(name) = account.name() else { continue };
            match ledger.get(&name) {
                Some(credits) => {
                    let claim = account.claim();
                    self.records.judge(
                        Rule::Charges,
                        "accounts compared",
                        judge::account(&name, &claim, credits),
                    );
                    self.records.judge(Rule::Holds, "holds compared", judge::held(&name, &claim, credits));
                }
                None => self.records.fault(Rule::SignUps, format!("{name} is not in the ledger")),
            }
        }
        self.compare_secrets(number)
    }

    fn compare_sign_ups(&self, listed: usize) {
        let sure = self.made as u64 + self.records.signed_up.load(Ordering::SeqCst);
        let most = sure + self.records.signing_up.load(Ordering::SeqCst);
        if !(sure..=most).contains(&(listed as u64)) {
            self.records.fault(Rule::SignUps, format!("{listed} accounts, and {sure} to {most} can be"));
        }
    }

    fn audit(&self, account: &Account) -> Result<(), Failure> {
        let name = account.name().unwrap_or_else(|| account.email.clone());
        let shown = match self.world.json(&["account", "show", &name]) {
            Ok(shown) => shown,
            Err(failure) => {
                self.records.fault(Rule::SignUps, format!("{name}: {}", failure.0));
                return interrupted();
            }
        };
        if let Some(name) = shown["account"]["name"].as_str() {
            account.is_named(name);
        }
        let audited = judge::audit(&name, &account.claim(), &Ledger::of(&shown)?);
        self.records.judge(Rule::Charges, "audits", audited);
        Ok(())
    }

    /// Checks some keys and tokens: some must work, and the revoked ones must not.
    fn compare_secrets(&self, number: u32) -> Result<(), Failure> {
        let mut client = HttpClient::program(self.records.server);
        for (kind, secret, works) in self.records.some_secrets(SECRETS) {
            let request = match kind {
                Secret::Key => HttpRequest::get("/v1/account").bearer(&secret),
                Secret::Token => tools(&secret),
            };
            let status = match client.send(&request) {
                Ok(reply) => reply.status,
                Err(lost) => return Err(Failure(format!("after start {number}: {lost:?}"))),
            };
            if status != if works { 200 } else { 401 } {
                let what = format!("{kind:?} {}: {status}, works: {works}", &secret[..secret.len().min(16)]);
                self.records.fault(Rule::Secrets, what);
            } else {
                self.records
                    .verified(if works { "secrets that work" } else { "secrets that are revoked" }, 1);
            }
        }
        Ok(())
    }

    fn report(&self, is_full: bool, each: f64, open: u64, faults: &[(Rule, String)], tally: &mut Tally) {
        let (figures, rate) = (self.records.figures(), self.figures.rate());
        for (kind, [answered, refused, lost]) in self.records.totals() {
            report::line(&format!(
                "      {kind}: {answered} answered, {refused} refused for now, {lost} without an answer"
            ));
        }
        let all: Vec<String> = figures.iter().map(|(what, count)| format!("{count} {what}")).collect();
        report::line(&format!("      verified: {}", all.join(", ")));
        if !faults.is_empty() {
            let trace = self.records.trace();
            trace[trace.len().saturating_sub(TRACE_SHOWN)..].iter().for_each(|text| report::line(text));
        }
        for (rule, name, counted) in RULES.into_iter().filter(|(rule, ..)| (self.plan.tests)(*rule)) {
            let broken: Vec<&String> =
                faults.iter().filter(|(of, _)| *of == rule).map(|(_, what)| what).collect();
            let outcome = match broken.first() {
                None => Ok(self.note(rule, counted, open)),
                Some(first) => Err(format!("{} times, such as {first}", broken.len())),
            };
            tally.check(name, outcome);
        }
        let said = format!("{rate:.0} requests/s while the server was up, {each:.2} s a kill");
        tally.check("the load", outcome(!is_full || rate >= self.plan.rate_min, said));
        let (ends, version) = (self.figures.killed + self.figures.terminated, usize::from(!is_full));
        for (fact, least) in self.plan.facts_min {
            let count = figures.get(fact).copied().unwrap_or_default();
            // Another number of kills has its share of them.
            let least = least[version] * u64::from(ends) / u64::from(self.plan.kills[version]);
            tally.check(&format!("enough {fact}"), outcome(count >= least, format!("{count} of {least}")));
        }
        if self.plan.idle_checks != [0, 0] {
            let compared = compare_waits(&self.idle, &lock(&self.records.waits), is_full);
            tally.check("single checks meanwhile", compared);
        }
    }

    fn note(&self, rule: Rule, counted: &[&str], open: u64) -> String {
        let (verified, figures) = (self.records.figures(), &self.figures);
        let count = |what: &&str| format!("{} {what}", verified.get(what).copied().unwrap_or_default());
        let mut notes: Vec<String> = counted.iter().map(count).collect();
        match rule {
            Rule::Charges => notes.push(format!("{open} credits of which no answer tells")),
            Rule::Answers => notes.push(format!("{} answers", figures.answers)),
            Rule::Starts => {
                let (median, slowest) = figures.median_and_slowest_start();
                let (median, slowest) = (median.as_millis(), slowest.as_millis());
                let cut_short = figures.cut_starts;
                notes.push(format!("median {median} ms, {slowest} ms at most; {cut_short} were cut short"));
            }
            Rule::Ends => notes.push(format!(
                "{} of {} ends, {} ms at most; {} were cut short",
                figures.terminated,
                figures.terminated + figures.killed,
                figures.slowest_drain.as_millis(),
                figures.cut_drains
            )),
            _ => {}
        }
        notes.join(", ")
    }
}

impl KillFigures {
    fn median_and_slowest_start(&self) -> (Duration, Duration) {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let at = |index: usize| starts.get(index).copied().unwrap_or_default();
        (at(starts.len() / 2), at(starts.len().saturating_sub(1)))
    }

    fn rate(&self) -> f64 {
        self.answers as f64 / self.up.as_secs_f64().max(0.001)
    }
}

/// Requires a p99 of at most twice the idle one, or 10 ms more. The small version only prints the figures, since it runs debug
/// builds beside other work.
fn compare_waits(idle: &[Duration], busy: &[Duration], is_full: bool) -> Result<String, String> {
    ensure!(!idle.is_empty() && !busy.is_empty(), "too few checks to compare");
    let at = |waits: &[Duration], percent| percentile_at(waits.to_vec(), percent);
    let figures = |waits: &[Duration]| {
        let [half, most] = [50, 99].map(|percent| millis(at(waits, percent)));
        format!("p50 {half:.1} ms, p99 {most:.1} ms of {}", waits.len())
    };
    let is_right = !is_full || at(busy, 99) <= limit(at(idle, 99), Duration::from_millis(10));
    outcome(is_right, format!("{}; idle: {}", figures(busy), figures(idle)))
}

/// Ends the server and returns the duration of a drain.
fn end_server(
    serve: Serve,
    end: End,
    figures: &mut KillFigures,
    records: &Records,
) -> Result<Duration, Failure> {
    let mut took = Duration::ZERO;
    match end {
        End::Kill => {
            figures.killed += 1;
            serve.kill();
        }
        End::CutDrain(after) => {
            (figures.killed, figures.cut_drains) = (figures.killed + 1, figures.cut_drains + 1);
            serve.ask_to_end()?;
            sleep(after)?;
            serve.kill();
        }
        End::Terminate => {
            figures.terminated += 1;
            let began = Instant::now();
            if let Err(failure) = serve.stop() {
                interrupted()?;
                records.fault(Rule::Ends, failure.0);
            }
            took = began.elapsed();
            figures.slowest_drain = figures.slowest_drain.max(took);
            if took > DRAIN_LIMIT {
                records.fault(Rule::Ends, format!("a drain took {} s", took.as_secs()));
            }
        }
    }
    Ok(took)
}

/// The number of requests that were answered so far.
fn answers(records: &Records) -> u64 {
    records.totals().values().map(|[answered, refused, _]| answered + refused).sum()
}
