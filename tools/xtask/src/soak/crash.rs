//! `soak crash`: `kill -9` of a server that has 200 charged checks under way, and a check of its ledger afterwards.
//!
//! Each round makes an account with granted credits that has [`SHARED`] checks under way at once, and [`ALONE`]
//! accounts with one check each. The spent credits of the latter show the result of every single check. The mail
//! servers answer slowly. The server is killed after a random number of answered checks, in one round before any. After
//! the restart:
//! - available + held + spent + expired = granted, and nothing is held, on every account;
//! - a check that was answered 200 is charged once, and another one at most once;
//! - no account of an earlier round has changed;
//! - the audit of the ledger finds no fault, and a check of the same accounts works.

use super::http;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of checks on the shared account.
const SHARED: usize = 150;
/// The number of accounts with one check each.
const ALONE: usize = 50;
const UNDER_WAY: usize = SHARED + ALONE;
const GRANTED: u64 = 1000;
const DOMAINS: usize = 50;
/// The longest wait for the random number of answers.
const ANSWERS_LIMIT: Duration = Duration::from_secs(60);
const STACK_BYTES: usize = 256 * 1024;

/// A check takes 1 to 3 s: greeting, EHLO, STARTTLS, EHLO, the transaction, the control recipient.
fn scenario() -> String {
    format!(
        "seed = 3\n[dns]\nlatency_ms = [1, 30]\n[[group]]\nname = \"slow-{{n}}.example\"\ncount = {DOMAINS}\n\
         mailboxes.ok = [\"user-#\"]\nserver = {{ latency_ms = [100, 500] }}\n"
    )
}

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    let rounds = if options.small { 3 } else { 20 };
    let seed = options.seed();
    report::line(&format!("crash: seed {seed}, {UNDER_WAY} checks under way, {rounds} kills"));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(&scenario())?;
    let serve = world.serve(&mailnet, &[])?;
    let keys = (0..ALONE).map(|number| world.account(&alone(number), 0)).collect::<Result<_, _>>()?;
    let campaign = CrashCampaign { world, mailnet, alone: keys, random: fastrand::Rng::with_seed(seed) };
    let mut tally = Tally::default();
    campaign.go(serve, rounds, &mut tally)?;
    Ok(Some(tally))
}

fn alone(number: usize) -> String {
    format!("alone-{number}")
}

fn shared(round: usize) -> String {
    format!("shared-{round}")
}

struct CrashCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    /// The keys of the accounts with one check each.
    alone: Vec<String>,
    random: fastrand::Rng,
}

/// The answers that the clients of one round got.
struct RoundRecord {
    /// The checks of the shared account first, then those of the other accounts.
    answered: Vec<bool>,
    /// Answers other than 200, and answers that contradict the scenario.
    wrong: Vec<String>,
    /// How many answers arrived before the server was killed.
    before_kill: usize,
}

type CreditLedger = HashMap<String, Credits>;

impl CrashCampaign {
    fn go(mut self, mut serve: Serve, rounds: usize, tally: &mut Tally) -> Result<(), Failure> {
        for round in 0..rounds {
            let key = self.world.account(&shared(round), GRANTED)?;
            let before = self.ledger()?;
            // The first kill precedes any answer. Later ones are at any time until three quarters are answered.
            let answers = if round == 0 { 0 } else { self.random.usize(1..UNDER_WAY * 3 / 4) };
            let (seen, log) = self.check_and_kill(serve, round, &key, answers)?;
            serve = self.world.serve(&self.mailnet, &[])?;
            let after = self.ledger()?;
            let judged = judge(round, &before, &after, &seen)
                .and_then(|figures| self.audit(round).map(|()| figures))
                .and_then(|figures| super::hostile::no_panic(&log).map(|_| figures));
            tally.check(&format!("kill {round}"), judged);
            tally.check(&format!("checks after kill {round}"), self.goes_on(&serve, round, &key));
        }
        let stopped = serve.stop().map(|()| "status 0".to_owned()).map_err(|failure| failure.0);
        tally.check("the server ends in order", stopped);
        let violations = self.mailnet.stop()?.get("violations").map(Value::to_string).unwrap_or_default();
        let held = if violations == "{}" { Ok("none".to_owned()) } else { Err(violations) };
        tally.check("no rule of the protocols broken", held);
        Ok(())
    }

    /// Starts all checks and kills the server after this many answers. Also returns its log.
    fn check_and_kill(
        &self,
        serve: Serve,
        round: usize,
        shared_key: &str,
        answers: usize,
    ) -> Result<(RoundRecord, String), Failure> {
        let (count, sent) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let seen =
            Mutex::new(RoundRecord { answered: vec![false; UNDER_WAY], wrong: Vec::new(), before_kill: 0 });
        let (server, killed) = (serve.address, AtomicUsize::new(0));
        let log = std::thread::scope(|scope| {
            for place in 0..UNDER_WAY {
                let key = place.checked_sub(SHARED).map_or(shared_key, |number| &self.alone[number]);
                let (count, sent, seen, killed) = (&count, &sent, &seen, &killed);
                let ask = move || {
                    sent.fetch_add(1, Ordering::SeqCst);
                    let answer = http::verify(server, key, &address(round, place));
                    count.fetch_add(1, Ordering::SeqCst);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.take(place, answer, killed.load(Ordering::SeqCst) == 1);
                };
                let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, ask);
                spawned.map_err(|error| Failure(format!("no thread for a check: {error}")))?;
            }
            let waited = wait(|| sent.load(Ordering::SeqCst) == UNDER_WAY)
                // The first replies of the mail servers take a tenth of a second, so all checks are under way by then.
                .and_then(|()| if answers == 0 { sleep(Duration::from_millis(300)) } else { Ok(()) })
                .and_then(|()| wait(|| count.load(Ordering::SeqCst) >= answers));
            let log = serve.log();
            killed.store(1, Ordering::SeqCst);
            let before_kill = count.load(Ordering::SeqCst);
            serve.kill();
            seen.lock().unwrap_or_else(PoisonError::into_inner).before_kill = before_kill;
            waited.and(log)
        })?;
        interrupted()?;
        Ok((seen.into_inner().unwrap_or_else(PoisonError::into_inner), log))
    }

    /// The credits of every account, by its name.
    fn ledger(&self) -> Result<CreditLedger, Failure> {
        let accounts = self.world.json(&["account", "list"])?;
        let accounts = accounts.as_array().ok_or_else(|| Failure("account list: no list".into()))?;
        let named = |account: &Value| {
            let name = account.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok((name, Credits::of(account)?))
        };
        accounts.iter().map(named).collect()
    }

    /// Runs the store's own audit on the accounts of a round.
    fn audit(&self, round: usize) -> Result<(), String> {
        for name in std::iter::once(shared(round)).chain((0..ALONE).map(alone)) {
            let shown = self.world.json(&["account", "show", &name]).map_err(|failure| failure.0)?;
            let audit = shown.get("audit").ok_or_else(|| format!("{name}: no audit"))?;
            let faults = audit.get("faults").and_then(Value::as_array).map_or(usize::MAX, Vec::len);
            let open = audit.get("open_holds").and_then(Value::as_u64).unwrap_or(u64::MAX);
            if faults != 0 || open != 0 {
                return Err(format!("{name}: {audit}"));
            }
        }
        Ok(())
    }

    /// Checks that the restarted server answers and charges as before.
    fn goes_on(&self, serve: &Serve, round: usize, key: &str) -> Result<String, String> {
        let name = shared(round);
        let spent = || self.ledger().map_err(|failure| failure.0).map(|ledger| ledger[&name].spent);
        let before = spent()?;
        let answer = http::verify(serve.address, key, &format!("user-{round}@slow-1.example"))?;
        let charged = spent()?.saturating_sub(before);
        match (answer.status, answer.text("reason"), charged) {
            (200, "mailbox_exists", 1) => Ok("right, and one credit".into()),
            (status, _, charged) => Err(format!("{status} {}, {charged} credits", answer.body)),
        }
    }
}

impl RoundRecord {
    fn take(&mut self, place: usize, answer: Result<http::ApiAnswer, String>, killed: bool) {
        match answer {
            Ok(answer) if answer.status == 200 => {
                self.answered[place] = true;
                if answer.text("reason") != "mailbox_exists" {
                    self.wrong.push(format!("check {place}: {}", answer.text("reason")));
                }
            }
            Ok(answer) => self.wrong.push(format!("check {place}: {} {}", answer.status, answer.body)),
            // The kill cut this request off, which is allowed.
            Err(_) if killed => {}
            Err(error) => self.wrong.push(format!("check {place}, before the kill: {error}")),
        }
    }
}

fn address(round: usize, place: usize) -> String {
    format!("user-{}@slow-{}.example", (round + 1) * 1000 + place, place % DOMAINS + 1)
}

fn judge(
    round: usize,
    before: &CreditLedger,
    after: &CreditLedger,
    seen: &RoundRecord,
) -> Result<String, String> {
    if let Some(wrong) = seen.wrong.first() {
        return Err(format!("{} wrong answers, such as {wrong}", seen.wrong.len()));
    }
    for (name, credits) in after {
        if !credits.add_up() || credits.held != 0 {
            return Err(format!("{name}: {credits:?}"));
        }
    }
    let spent_of = |name: &str| -> Result<u64, String> {
        let (Some(before), Some(after)) = (before.get(name), after.get(name)) else {
            return Err(format!("{name} is gone"));
        };
        if before.granted != after.granted {
            return Err(format!("{name}: granted {} became {}", before.granted, after.granted));
        }
        after.spent.checked_sub(before.spent).ok_or_else(|| format!("{name}: spent less than before"))
    };
    let mut charged = 0;
    for (number, &answered) in seen.answered[SHARED..].iter().enumerate() {
        let spent = spent_of(&alone(number))?;
        if spent > 1 || (answered && spent == 0) {
            return Err(format!("{}: {spent} credits for a check, answered: {answered}", alone(number)));
        }
        charged += spent;
    }
    let answered = seen.answered[..SHARED].iter().filter(|&&answered| answered).count() as u64;
    let spent = spent_of(&shared(round))?;
    if spent < answered || spent > SHARED as u64 {
        return Err(format!("{}: {spent} credits for {answered} answers", shared(round)));
    }
    for earlier in (0..round).map(shared) {
        if spent_of(&earlier)? != 0 {
            return Err(format!("{earlier} has paid for checks of others"));
        }
    }
    charged += spent;
    let all = seen.answered.iter().filter(|&&answered| answered).count();
    Ok(format!(
        "{} answered before it, {} under way; {all} answered in all, {charged} charged",
        seen.before_kill,
        UNDER_WAY - seen.before_kill
    ))
}

fn wait(mut reached: impl FnMut() -> bool) -> Result<(), Failure> {
    let end = Instant::now() + ANSWERS_LIMIT;
    while !reached() {
        if Instant::now() > end {
            return Err(Failure(format!("no such number of answers within {} s", ANSWERS_LIMIT.as_secs())));
        }
        sleep(Duration::from_millis(1))?;
    }
    Ok(())
}
