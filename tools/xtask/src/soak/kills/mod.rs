//! `soak kills`: `kill -9` and SIGTERM at random moments under a load of everything that callers do, and what the ledger
//! says after each start.
//!
//! Programs ask for checks and batches (programs.rs), people sign up, make keys, upload lists (people.rs, lists.rs) and
//! connect assistants (assistant.rs). Each of them knows what was acknowledged (records.rs). After each start, while no
//! request is under way, that is compared with the ledger (compare.rs). What had no answer is asked for again, so that at
//! the end the ledger must have each charge exactly once.

mod addresses;
mod assistant;
mod compare;
mod lists;
mod people;
mod programs;
mod records;
mod start;

use super::client::{self, Client, Request};
use super::world::{Credits, Mailnet, Serve, World};
use super::{Failure, Options, hostile};
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use people::Person;
use programs::Program;
use records::{Account, Life, RULES, Rule, Secret, Shared};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Accounts that programs share, and programs on each.
const ACCOUNTS: usize = 4;
const PROGRAMS_OF_AN_ACCOUNT: usize = 4;
const PEOPLE: usize = 6;
/// So many requests per second are wanted of the full version while the server is up.
const RATE_MIN: f64 = 200.0;
/// Half of the starts are quicker than the first, all than the second: the disk of a busy machine can stop for seconds.
const START_MEDIAN: Duration = Duration::from_secs(3);
const START_LIMIT: Duration = Duration::from_secs(30);
/// A drain takes 65 s at most.
const DRAIN_LIMIT: Duration = Duration::from_secs(70);
/// Of a longer one the report shows so many lines of the log.
const DRAIN_TOLD: Duration = Duration::from_secs(10);
const DRAIN_LINES: usize = 12;
/// For all that is open when the last life begins: rows that wait, and everything that has to be asked for again.
const FINISH_LIMIT: Duration = Duration::from_secs(180);
/// Every so many kills every complete batch is read again, and a line tells how far it is.
const REPORT_EVERY: u32 = 50;
/// Every so many starts one is killed on its way.
const CUT_START_EVERY: u32 = 8;
/// Secrets of each kind that are looked at after a start.
const SECRETS: usize = 4;
/// The life that is taken back, to see whether that is noticed.
const PLANTED_LIFE: Duration = Duration::from_millis(1500);
/// Lines of the trace that a failure shows.
const TRACE_SHOWN: usize = 40;
const STACK_BYTES: usize = 512 * 1024;

/// Runs the campaign.
pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let kills = options.kills.unwrap_or(if options.small { 12 } else { 1000 });
    let seed = options.seed();
    let clients = ACCOUNTS * PROGRAMS_OF_AN_ACCOUNT + PEOPLE;
    report::line(&format!("kills: seed {seed}, {kills} kills under the load of {clients} clients"));
    let world = World::make(options)?;
    let mailnet = world.mailnet(addresses::SCENARIO)?;
    let campaign = Campaign::prepare(world, mailnet, fastrand::Rng::with_seed(seed))?;
    campaign.go(kills, !options.small).map(Some)
}

struct Campaign {
    world: World,
    mailnet: Mailnet,
    flags: Vec<String>,
    shared: Shared,
    programs: Vec<Program>,
    people: Vec<Person>,
    random: fastrand::Rng,
    /// How the next lives end, the next at the end.
    ends: Vec<End>,
    /// Accounts that nobody signed up for.
    made: usize,
    figures: Figures,
}

/// What is measured on the way.
#[derive(Default)]
struct Figures {
    killed: u32,
    terminated: u32,
    cut_drains: u32,
    cut_starts: u32,
    answers: u64,
    up: Duration,
    starts: Vec<Duration>,
    slowest_drain: Duration,
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
    /// `kill -9` so long after SIGTERM.
    CutDrain(Duration),
}

impl Campaign {
    fn go(mut self, kills: u32, is_full: bool) -> Result<Tally, Failure> {
        let mut serve = self.start()?;
        let began = Instant::now();
        for number in 1..=kills {
            let life = Duration::from_millis(self.random.u64(50..=1500));
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
            tally.check("a ledger that has lost a life", self.plant(kills + 2)?);
        }
        let violations = self.mailnet.stop()?.get("violations").map(Value::to_string).unwrap_or_default();
        let held = if violations == "{}" { Ok("none".to_owned()) } else { Err(violations) };
        tally.check("no rule of the protocols broken", held);
        Ok(tally)
    }

    /// Three of four ends are `kill -9`, and some SIGTERMs are followed by one.
    fn draw_end(&mut self) -> End {
        if self.ends.is_empty() {
            self.ends = vec![End::Kill; 9];
            self.ends.extend([End::Terminate, End::Terminate]);
            self.ends.push(End::CutDrain(Duration::from_millis(self.random.u64(0..300))));
            self.random.shuffle(&mut self.ends);
        }
        self.ends.pop().unwrap_or(End::Kill)
    }

    /// One life: the clients work until the server is gone.
    fn live(&mut self, serve: Serve, number: u32, life: Duration, end: End) -> Result<(), Failure> {
        let ended = {
            let Campaign { shared, programs, people, figures, .. } = self;
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
        if let Err(panics) = hostile::no_panic(&log) {
            self.shared.fault(Rule::Log, panics);
        }
        interrupted()
    }

    /// The last life: everything is asked for until it is answered, and then each credit is accounted for. Gives the
    /// credits of which nobody can tell.
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
        if let Err(panics) = hostile::no_panic(&self.world.last_log()?) {
            self.shared.fault(Rule::Log, panics);
        }
        let accounts = records::lock(&self.shared.accounts);
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

    /// Every complete batch, while no client asks for anything.
    fn read_all_again(&mut self, number: u32) {
        let current = Life::new(&self.shared, number);
        for program in &mut self.programs {
            program.hang_up();
            program.read_all_again(&current);
            program.hang_up();
        }
    }

    /// Puts the ledger of before a life in the place of the one after it, which loses what was acknowledged in between.
    /// The comparison has to find that.
    fn plant(&mut self, number: u32) -> Result<Result<String, String>, Failure> {
        let copy = self.world.folder().join("before");
        start::copy_folder(&self.world.data(), &copy)?;
        let serve = self.start()?;
        self.live(serve, number, PLANTED_LIFE, End::Kill)?;
        std::fs::remove_dir_all(self.world.data())
            .map_err(|error| Failure(format!("the data folder: {error}")))?;
        start::copy_folder(&copy, &self.world.data())?;
        let serve = self.start()?;
        self.compare(number, false)?;
        serve.kill();
        Ok(match self.shared.take_faults().len() {
            0 => Err("it is not noticed".to_owned()),
            count => Ok(format!("noticed by {count} faults")),
        })
    }

    /// The records against the ledger, while no client asks for anything.
    fn compare(&self, number: u32, is_whole: bool) -> Result<(), Failure> {
        let listed = self.world.json(&["account", "list"])?;
        let listed = listed.as_array().ok_or_else(|| Failure("account list: no list".into()))?;
        let mut ledger = HashMap::new();
        for account in listed {
            let name = account.get("name").and_then(Value::as_str).unwrap_or_default();
            ledger.insert(name.to_owned(), Credits::of(account)?);
        }
        self.compare_sign_ups(ledger.len());
        let accounts: Vec<Arc<Account>> = records::lock(&self.shared.accounts).clone();
        for (at, account) in accounts.iter().enumerate() {
            // The store's own audit: of those that are new, and of the others in turn.
            let turn = number as usize;
            let has_turn = is_whole || at == turn % accounts.len() || at == turn % ACCOUNTS;
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
                        compare::account(&name, &claim, credits),
                    );
                    self.shared.judge(Rule::Holds, "holds compared", compare::held(&name, &claim, credits));
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
        let audit = &shown["audit"];
        if audit["faults"].as_array().is_none_or(|faults| !faults.is_empty()) {
            self.shared.fault(Rule::Charges, format!("{name}: {audit}"));
        }
        if let Err(what) = compare::open_holds(&name, &account.claim(), audit) {
            self.shared.fault(Rule::Holds, what);
        }
        self.shared.verified("audits", 1);
        Ok(())
    }

    /// Of keys and tokens, some that have to work and some that never may again.
    fn compare_secrets(&self, number: u32) -> Result<(), Failure> {
        let mut client = Client::program(self.shared.server);
        for (kind, secret, works) in self.shared.some_secrets(SECRETS) {
            let request = match kind {
                Secret::Key => Request::get("/v1/account").bearer(&secret),
                Secret::Token => assistant::tools(&secret),
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
        for (rule, name) in RULES {
            let broken: Vec<&String> =
                faults.iter().filter(|(of, _)| *of == rule).map(|(_, what)| what).collect();
            let outcome = match broken.first() {
                None => Ok(self.note(rule, open)),
                Some(first) => Err(format!("{} times, such as {first}", broken.len())),
            };
            tally.check(name, outcome);
        }
        let said = format!("{rate:.0} requests/s while the server was up, {each:.2} s a kill");
        tally.check("the load", if is_full && rate < RATE_MIN { Err(said) } else { Ok(said) });
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

impl Figures {
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

/// Lets every client work on a thread of its own until the server is gone, or until all of them are done.
fn with_load<T>(
    life: &Life<'_>,
    programs: &mut [Program],
    people: &mut [Person],
    meanwhile: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().stack_size(STACK_BYTES);
        let no_thread = |error| Failure(format!("no thread for a client: {error}"));
        let mut started = Ok(());
        for program in programs {
            let work = move || {
                program.hang_up();
                until_over(life, || program.step(life));
            };
            started = started.and(thread().spawn_scoped(scope, work).map(drop).map_err(no_thread));
        }
        for person in people {
            let work = move || {
                person.hang_up();
                until_over(life, || person.step(life));
            };
            started = started.and(thread().spawn_scoped(scope, work).map(drop).map_err(no_thread));
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

/// Ends the server; gives how long a drain took.
fn end_server(serve: Serve, end: End, figures: &mut Figures, shared: &Shared) -> Result<Duration, Failure> {
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

/// Requests that were answered so far.
fn answers(shared: &Shared) -> u64 {
    shared.totals().values().map(|[answered, refused, _]| answered + refused).sum()
}
