//! `soak kills` and `soak crash`: `kill -9` and SIGTERM at random moments, and a check of the ledger after each start. `kills` has a
//! load of every kind of request. `crash` has 200 full checks at slow mail servers under way, most on one account, and the others
//! on accounts of their own, whose credits show the result of every single check.
//!
//! Programs send checks and batches (programs.rs). Users sign up, create keys, upload lists (people.rs, lists.rs) and
//! connect assistants (assistant.rs). Each client records which requests were acknowledged (records.rs). After each
//! start, while no request is under way, the records are compared with the ledger (compare.rs). Requests without an
//! answer are repeated, so at the end the ledger must have each charge exactly once.

mod addresses;
mod assistant;
mod lists;
mod people;
mod programs;
mod records;
mod start;

use super::assistants::tools;
use super::client::{self, HttpClient, HttpRequest};
use super::crowd::{lock, spawn};
use super::judge;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Ledger, Mailnet, Serve, copy_folder, no_panic};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally, outcome};
use mailnet::Scenario;
use people::Person;
use programs::Program;
use records::{Account, Life, OF_CHECKS, RULES, Rule, Secret, SharedRecords};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A load, and how often and when its server is killed.
pub struct KillPlan {
    name: &'static str,
    /// How many accounts programs share, each with the number of its programs.
    accounts: &'static [(usize, usize)],
    people: usize,
    /// The programs only make full checks at slow mail servers.
    only_checks: bool,
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
    accounts: &[(4, 4)],
    people: 6,
    only_checks: false,
    rate_min: 200.0,
    kills: [1000, 12],
    life_max: Duration::from_millis(1500),
    drains: true,
    audits: 2,
};
/// Many charged checks at once.
pub const CRASH: KillPlan = KillPlan {
    name: "crash",
    accounts: &[(1, 150), (50, 1)],
    people: 0,
    only_checks: true,
    rate_min: 0.0,
    kills: [20, 3],
    life_max: Duration::from_secs(3),
    drains: false,
    audits: usize::MAX,
};

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

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions, plan: &'static KillPlan) -> Result<Tally, Failure> {
    let kills = options.kills.unwrap_or(plan.kills[usize::from(options.small)]);
    let seed = options.seed();
    let programs: usize = plan.accounts.iter().map(|(accounts, programs)| accounts * programs).sum();
    let clients = programs + plan.people;
    report::line(&format!("{}: seed {seed}, {kills} kills under the load of {clients} clients", plan.name));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(addresses::SCENARIO)?;
    let campaign = KillCampaign::prepare(plan, world, mailnet, fastrand::Rng::with_seed(seed))?;
    campaign.go(kills, !options.small)
}

struct KillCampaign {
    plan: &'static KillPlan,
    world: CampaignFolder,
    mailnet: Mailnet,
    shared: SharedRecords,
    programs: Vec<Program>,
    people: Vec<Person>,
    random: fastrand::Rng,
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
    fn go(mut self, kills: u32, is_full: bool) -> Result<Tally, Failure> {
        let mut serve = self.start()?;
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
                self.read_all_again(number);
                let each = began.elapsed().as_secs_f64() / f64::from(number);
                report::line(&format!(
                    "      {number} kills, {each:.2} s each, {:.0} requests/s",
                    self.figures.rate()
                ));
            }
            if self.shared.has_faults() {
                break;
            }
        }
        let each =
            began.elapsed().as_secs_f64() / f64::from(self.figures.killed + self.figures.terminated).max(1.0);
        let open = self.finish(serve, kills + 1)?;
        let (median, slowest) = self.figures.median_and_slowest_start();
        if median > START_MEDIAN || slowest > START_LIMIT {
            self.shared.fault(Rule::Starts, format!("median {median:?}, {slowest:?} at most"));
        }
        let faults = self.shared.take_faults();
        let mut tally = self.report(is_full, each, open, &faults);
        if faults.is_empty() {
            tally.check("an older ledger is noticed", self.plant(kills + 2)?);
        }
        self.mailnet.end(&mut tally)?;
        Ok(tally)
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
        let ended = {
            let KillCampaign { shared, programs, people, figures, .. } = self;
            let current = Life::new(shared, number);
            with_load(&current, programs, people, || {
                let (began, before) = (Instant::now(), answers(current.shared));
                let slept = sleep(life);
                figures.up += began.elapsed();
                figures.answers += answers(current.shared) - before;
                current.ending.store(true, Ordering::SeqCst);
                let ended = slept.and_then(|()| end_server(serve, end, figures, current.shared));
                current.over.store(true, Ordering::SeqCst);
                ended
            })
        };
        let took = ended?;
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
            self.shared.fault(Rule::Log, panics);
        }
        interrupted()
    }

    /// Runs the last life: every request is repeated until it is answered, and each credit is accounted for. Returns
    /// the credits whose use is unknown.
    fn finish(&mut self, serve: Serve, number: u32) -> Result<u64, Failure> {
        let has_faults = self.shared.has_faults();
        if !has_faults {
            let current = Life { finishing: true, ..Life::new(&self.shared, number) };
            with_load(&current, &mut self.programs, &mut self.people, || Ok(()))?;
            self.read_all_again(number);
            self.compare(number, true)?;
        }
        let (began, stopped) = (Instant::now(), serve.stop());
        if let Err(failure) = stopped {
            self.shared.fault(Rule::Ends, format!("{} after {} ms", failure.0, began.elapsed().as_millis()));
        }
        if let Err(panics) = no_panic(&self.world.last_log()?) {
            self.shared.fault(Rule::Log, panics);
        }
        let accounts = lock(&self.shared.accounts);
        let open = accounts.iter().map(|account| account.claim().open).sum();
        if let Some(account) =
            accounts.iter().find(|account| account.claim().lasting != 0).filter(|_| !has_faults)
        {
            let what = format!("{}{:?} has not ended: {:?}", account.email, account.name(), account.claim());
            drop(accounts);
            self.shared.fault(Rule::Holds, what);
        }
        Ok(open)
    }

    /// Reads every complete batch, while no other client sends requests.
    fn read_all_again(&mut self, number: u32) {
        let current = Life::new(&self.shared, number);
        for program in &mut self.programs {
            program.hang_up();
            program.read_all_again(&current);
            program.hang_up();
        }
    }

    /// Replaces the ledger after a life by the one before it, which loses acknowledged requests. The comparison must
    /// find that.
    fn plant(&mut self, number: u32) -> Result<Result<String, String>, Failure> {
        let copy = self.world.folder().join("before");
        copy_folder(&self.world.data(), &copy)?;
        let serve = self.start()?;
        self.live(serve, number, self.plan.life_max, End::Kill)?;
        std::fs::remove_dir_all(self.world.data())
            .map_err(|error| Failure(format!("the data folder: {error}")))?;
        copy_folder(&copy, &self.world.data())?;
        let serve = self.start()?;
        self.compare(number, false)?;
        serve.kill();
        Ok(match self.shared.take_faults().len() {
            0 => Err("it is not noticed".to_owned()),
            count => Ok(format!("noticed by {count} faults")),
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
        let accounts: Vec<Arc<Account>> = lock(&self.shared.accounts).clone();
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
                    self.shared.judge(
                        Rule::Charges,
                        "accounts compared",
                        judge::account(&name, &claim, credits),
                    );
                    self.shared.judge(Rule::Holds, "holds compared", judge::held(&name, &claim, credits));
                }
                None => self.shared.fault(Rule::SignUps, format!("{name} is not in the ledger")),
            }
        }
        self.compare_secrets(number)
    }

    fn compare_sign_ups(&self, listed: usize) {
        let sure = self.made as u64 + self.shared.signed_up.load(Ordering::SeqCst);
        let most = sure + self.shared.signing_up.load(Ordering::SeqCst);
        if !(sure..=most).contains(&(listed as u64)) {
            self.shared.fault(Rule::SignUps, format!("{listed} accounts, and {sure} to {most} can be"));
        }
    }

    fn audit(&self, account: &Account) -> Result<(), Failure> {
        let name = account.name().unwrap_or_else(|| account.email.clone());
        let shown = match self.world.json(&["account", "show", &name]) {
            Ok(shown) => shown,
            Err(failure) => {
                self.shared.fault(Rule::SignUps, format!("{name}: {}", failure.0));
                return interrupted();
            }
        };
        if let Some(name) = shown["account"]["name"].as_str() {
            account.is_named(name);
        }
        let audited = judge::audit(&name, &account.claim(), &Ledger::of(&shown)?);
        self.shared.judge(Rule::Charges, "audits", audited);
        Ok(())
    }

    /// Checks some keys and tokens: some must work, and the revoked ones must not.
    fn compare_secrets(&self, number: u32) -> Result<(), Failure> {
        let mut client = HttpClient::program(self.shared.server);
        for (kind, secret, works) in self.shared.some_secrets(SECRETS) {
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
                self.shared.fault(Rule::Secrets, what);
            } else {
                self.shared.verified(if works { "secrets that work" } else { "secrets that are revoked" }, 1);
            }
        }
        Ok(())
    }

    fn report(&self, is_full: bool, each: f64, open: u64, faults: &[(Rule, String)]) -> Tally {
        let (figures, rate) = (self.shared.figures(), self.figures.rate());
        for (kind, [answered, refused, lost]) in self.shared.totals() {
            report::line(&format!(
                "      {kind}: {answered} answered, {refused} refused for now, {lost} without an answer"
            ));
        }
        let all: Vec<String> = figures.iter().map(|(what, count)| format!("{count} {what}")).collect();
        report::line(&format!("      verified: {}", all.join(", ")));
        if !faults.is_empty() {
            let trace = self.shared.trace();
            trace[trace.len().saturating_sub(TRACE_SHOWN)..].iter().for_each(|text| report::line(text));
        }
        let mut tally = Tally::default();
        // Without users, only checks are made.
        let is_tested = |rule: &Rule| self.plan.people > 0 || OF_CHECKS.contains(rule);
        for (rule, name) in RULES.into_iter().filter(|(rule, _)| is_tested(rule)) {
            let broken: Vec<&String> =
                faults.iter().filter(|(of, _)| *of == rule).map(|(_, what)| what).collect();
            let outcome = match broken.first() {
                None => Ok(self.note(rule, open)),
                Some(first) => Err(format!("{} times, such as {first}", broken.len())),
            };
            tally.check(name, outcome);
        }
        let said = format!("{rate:.0} requests/s while the server was up, {each:.2} s a kill");
        tally.check("the load", outcome(!is_full || rate >= self.plan.rate_min, said));
        tally
    }

    fn note(&self, rule: Rule, open: u64) -> String {
        let (verified, figures) = (self.shared.figures(), &self.figures);
        let count = |what: &str| verified.get(what).copied().unwrap_or_default();
        match rule {
            Rule::Charges => {
                let compared = count("accounts compared");
                format!(
                    "{compared} comparisons, {} audits, {open} credits of which no answer tells",
                    count("audits")
                )
            }
            Rule::Batches => {
                format!("{} accepted, {} complete", count("batches accepted"), count("batches complete"))
            }
            Rule::Holds => format!("{} comparisons", count("holds compared")),
            Rule::Replays => format!(
                "{} repeats, {} replays, {} batches and {} downloads read again",
                count("repeats"),
                count("replays of batches"),
                count("batches read again"),
                count("downloads again")
            ),
            Rule::Lists => format!("{} uploads, {} complete", count("uploads"), count("lists complete")),
            Rule::SignUps => {
                format!("{}, {} signed in again", count("sign-ups"), count("sign-ins after a sign-up"))
            }
            Rule::Secrets => format!(
                "{} keys and {} connections made, {} and {} ended",
                count("keys made"),
                count("connections"),
                count("keys revoked"),
                count("connections ended")
            ),
            Rule::Answers => format!("{} answers", figures.answers),
            Rule::Starts => {
                let (median, slowest) = figures.median_and_slowest_start();
                let (median, slowest) = (median.as_millis(), slowest.as_millis());
                format!("median {median} ms, {slowest} ms at most; {} were cut short", figures.cut_starts)
            }
            Rule::Ends => format!(
                "{} of {} ends, {} ms at most; {} were cut short",
                figures.terminated,
                figures.terminated + figures.killed,
                figures.slowest_drain.as_millis(),
                figures.cut_drains
            ),
            Rule::Log => "none".to_owned(),
        }
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

/// Runs every client on its own thread until the server has ended, or until all of them have finished.
fn with_load<T>(
    life: &Life<'_>,
    programs: &mut [Program],
    people: &mut [Person],
    meanwhile: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let mut started = Ok(());
        for program in programs {
            let work = move || {
                program.hang_up();
                until_over(life, || program.step(life));
            };
            started = started.and(spawn(scope, work).map(drop));
        }
        for person in people {
            let work = move || {
                person.hang_up();
                until_over(life, || person.step(life));
            };
            started = started.and(spawn(scope, work).map(drop));
        }
        if started.is_err() {
            life.over.store(true, Ordering::SeqCst);
        }
        let outcome = meanwhile();
        started.and(outcome)
    })
}

fn until_over(life: &Life<'_>, mut step: impl FnMut() -> bool) {
    let end = Instant::now() + FINISH_LIMIT;
    while !life.over.load(Ordering::SeqCst) && interrupted().is_ok() && step() {
        if life.finishing && Instant::now() > end {
            let what = format!("a client is not done {} s after the last start", FINISH_LIMIT.as_secs());
            life.shared.fault(Rule::Answers, what);
            return;
        }
    }
}

/// Ends the server and returns the duration of a drain.
fn end_server(
    serve: Serve,
    end: End,
    figures: &mut KillFigures,
    shared: &SharedRecords,
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
                shared.fault(Rule::Ends, failure.0);
            }
            took = began.elapsed();
            figures.slowest_drain = figures.slowest_drain.max(took);
            if took > DRAIN_LIMIT {
                shared.fault(Rule::Ends, format!("a drain took {} s", took.as_secs()));
            }
        }
    }
    Ok(took)
}

/// The number of requests that were answered so far.
fn answers(shared: &SharedRecords) -> u64 {
    shared.totals().values().map(|[answered, refused, _]| answered + refused).sum()
}
