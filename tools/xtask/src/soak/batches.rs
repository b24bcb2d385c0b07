//! `soak batches`: `kill -9` of a server that accepts and works on batches, and a check of every batch afterwards.
//!
//! First many clients send the same few Idempotency-Keys at once and repeatedly, with kills in between, until each key
//! has its 202. Every key must have one batch and one charge.
//!
//! Then clients submit batches while the server is killed again and again. A client without an answer repeats its
//! request under the same key, so the server accepts every batch in the end. Each batch must complete, and have every
//! row once, in order and right. Single checks continue meanwhile: their latency outside the restarts is compared with
//! that of an idle server.

use super::http;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use mailnet::Scenario;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Addresses of a batch of the first part, which tests the number of batches.
const FEW: usize = 5;
/// How many clients send the same key at once.
const SAME_AT_ONCE: usize = 50;
/// How many keys are sent at once.
const KEYS_AT_ONCE: usize = 10;
/// Addresses of a batch of the second part.
const BATCH: usize = 200;
/// How many clients submit batches in the second part.
const SUBMITTERS: usize = 8;
/// How many clients send single checks.
const SINGLES: usize = 4;
const COMPLETION_LIMIT: Duration = Duration::from_secs(1200);
/// How long a request is repeated while there is no server.
const RETRY_LIMIT: Duration = Duration::from_secs(120);
const STACK_BYTES: usize = 256 * 1024;

struct BatchSize {
    keys: usize,
    batches: usize,
    kills: usize,
    /// The number of single checks on the idle server.
    idle: usize,
    /// The time between two kills.
    life: Duration,
}

const FULL: BatchSize =
    BatchSize { keys: 200, batches: 1000, kills: 20, idle: 2000, life: Duration::from_secs(4) };
const SMALL: BatchSize =
    BatchSize { keys: 20, batches: 20, kills: 3, idle: 200, life: Duration::from_secs(2) };

const SCENARIO: &str = "seed = 7\n[dns]\nlatency_ms = 20\n\
    [[group]]\nname = \"bulk-{n}.example\"\ncount = 200\nserver = { latency_ms = 20 }\n\
    mailboxes = { ok = [\"user-#\"], full = [\"full-#\"], disabled = [\"gone-#\"] }\n\
    [[group]]\nname = \"single-{n}.example\"\ncount = 50\nserver = { latency_ms = 20 }\nmailboxes.ok = [\"user-#\"]\n";

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    let seed = options.seed();
    report::line(&format!(
        "batches: seed {seed}, {} keys {SAME_AT_ONCE} times at once, then {} batches of {BATCH}, {} kills",
        size.keys, size.batches, size.kills
    ));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let plans = world.plans()?;
    let scenario = Scenario::parse(SCENARIO).map_err(|error| Failure(format!("the scenario: {error}")))?;
    let random = fastrand::Rng::with_seed(seed);
    let mut campaign = BatchCampaign { world, mailnet, plans, scenario, random };
    let mut tally = Tally::default();
    let serve = campaign.start()?;
    let serve = campaign.same_keys(&size, serve, &mut tally)?;
    let serve = campaign.many(&size, serve, &mut tally)?;
    let stopped = serve.stop().map(|()| "status 0".to_owned()).map_err(|failure| failure.0);
    tally.check("the server ends in order", stopped);
    let violations = campaign.mailnet.stop()?.get("violations").map(Value::to_string).unwrap_or_default();
    let held = if violations == "{}" { Ok("none".to_owned()) } else { Err(violations) };
    tally.check("no rule of the protocols broken", held);
    Ok(Some(tally))
}

struct BatchCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    plans: [String; 2],
    scenario: Scenario,
    random: fastrand::Rng,
}

/// The address of the server and the number of its starts, from which clients find it after a kill.
struct ServerLocation {
    address: RwLock<SocketAddr>,
    /// Counts starts and ends: odd while there is no server.
    lives: AtomicU32,
}

impl ServerLocation {
    fn new(serve: &Serve) -> ServerLocation {
        ServerLocation { address: RwLock::new(serve.address), lives: AtomicU32::new(0) }
    }

    fn address(&self) -> SocketAddr {
        *self.address.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats a request until its answer is not one that asks to repeat it later.
    fn insist(
        &self,
        send: impl Fn(SocketAddr) -> Result<http::ApiAnswer, String>,
    ) -> Result<http::ApiAnswer, String> {
        let end = Instant::now() + RETRY_LIMIT;
        loop {
            let answer = send(self.address());
            match answer {
                Ok(answer) if !matches!(answer.status, 409 | 503) => return Ok(answer),
                other if Instant::now() > end => return other,
                _ => {}
            }
            interrupted().map_err(|failure| failure.0)?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl BatchCampaign {
    fn start(&self) -> Result<Serve, Failure> {
        self.world.serve(&self.mailnet, &self.plans.each_ref().map(String::as_str))
    }

    /// Kills the server and starts another one on the same data.
    fn kill(&self, serve: Serve, place: &ServerLocation) -> Result<Serve, Failure> {
        let log = serve.log()?;
        super::hostile::no_panic(&log).map_err(Failure)?;
        place.lives.fetch_add(1, Ordering::SeqCst);
        serve.kill();
        let serve = self.start()?;
        *place.address.write().unwrap_or_else(PoisonError::into_inner) = serve.address;
        place.lives.fetch_add(1, Ordering::SeqCst);
        Ok(serve)
    }

    fn credits(&self, name: &str) -> Result<Credits, Failure> {
        let shown = self.world.json(&["account", "show", name])?;
        let faults = shown["audit"]["faults"].as_array().map_or(usize::MAX, Vec::len);
        if faults != 0 {
            return Err(Failure(format!("{name}: {}", shown["audit"])));
        }
        Credits::of(shown.get("account").unwrap_or(&shown))
    }

    /// Waits until the account holds no credits.
    fn settled(&self, name: &str) -> Result<Credits, Failure> {
        let end = Instant::now() + COMPLETION_LIMIT;
        loop {
            let credits = self.credits(name)?;
            if credits.held == 0 || Instant::now() > end {
                return Ok(credits);
            }
            sleep(Duration::from_millis(200))?;
        }
    }

    fn same_keys(&mut self, size: &BatchSize, mut serve: Serve, tally: &mut Tally) -> Result<Serve, Failure> {
        let granted = (size.keys * FEW * 2) as u64;
        let key = self.world.unlimited("same", granted)?;
        let place = ServerLocation::new(&serve);
        let mut ids = BTreeSet::new();
        let (mut kills, mut wrong, mut replays) = (0, Vec::new(), 0);
        for first in (0..size.keys).step_by(KEYS_AT_ONCE) {
            let keys = first..(first + KEYS_AT_ONCE).min(size.keys);
            // During every other wave the server is killed, at one of the first answers.
            let kill_after = (first / KEYS_AT_ONCE).is_multiple_of(2).then(|| self.random.usize(0..60));
            let answered = AtomicUsize::new(0);
            let outcomes = Mutex::new(Vec::new());
            serve = std::thread::scope(|scope| {
                for number in keys.clone().flat_map(|number| std::iter::repeat_n(number, SAME_AT_ONCE)) {
                    let (place, key, answered, outcomes) = (&place, &key, &answered, &outcomes);
                    let ask = move || {
                        let once = format!("wave-{number}");
                        let answer = place.insist(|server| http::submit(server, key, &once, &few(number)));
                        answered.fetch_add(1, Ordering::SeqCst);
                        outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
                    };
                    let spawned =
                        std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, ask);
                    spawned.map_err(|error| Failure(format!("no thread for a request: {error}")))?;
                }
                let Some(least) = kill_after else { return Ok(serve) };
                let end = Instant::now() + RETRY_LIMIT;
                while answered.load(Ordering::SeqCst) < least && Instant::now() < end {
                    sleep(Duration::from_millis(1))?;
                }
                kills += 1;
                self.kill(serve, &place)
            })?;
            interrupted()?;
            let mut of_key = vec![BTreeSet::new(); size.keys];
            for (number, answer) in outcomes.into_inner().unwrap_or_else(PoisonError::into_inner) {
                match answer {
                    Ok(answer) if answer.status == 202 => {
                        replays += usize::from(answer.replayed);
                        of_key[number].insert(answer.text("batch_id").to_owned());
                    }
                    Ok(answer) => wrong.push(format!("{} {}", answer.status, answer.body)),
                    Err(error) => wrong.push(error),
                }
            }
            for number in keys {
                if of_key[number].len() != 1 {
                    wrong.push(format!("key {number} has {} batches", of_key[number].len()));
                }
                ids.extend(std::mem::take(&mut of_key[number]));
            }
        }
        let figures = format!("{} keys, {} batches, {replays} replays, {kills} kills", size.keys, ids.len());
        let judged = match wrong.first() {
            None if ids.len() == size.keys => Ok(figures),
            first => Err(format!("{figures}; {} wrong, such as {}", wrong.len(), first.map_or("", |w| w))),
        };
        tally.check("one batch a key", judged);
        let credits = self.settled("same")?;
        let spent = (size.keys * FEW) as u64;
        let expected = Credits { available: granted - spent, held: 0, spent, expired: 0, granted };
        let judged =
            if credits == expected { Ok(format!("{spent} spent")) } else { Err(format!("{credits:?}")) };
        tally.check("one charge a key", judged);
        Ok(serve)
    }

    fn many(&mut self, size: &BatchSize, mut serve: Serve, tally: &mut Tally) -> Result<Serve, Failure> {
        let rows = (size.batches * BATCH) as u64;
        let key = self.world.unlimited("many", rows)?;
        let single_key = self.world.unlimited("single", 10_000_000)?;
        let place = ServerLocation::new(&serve);
        let singles = Singles::new(&place, &single_key);
        singles.run(|number| number >= size.idle)?;
        let idle = singles.take();
        let (accepted, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let batches: Vec<Vec<String>> = (0..size.batches).map(|batch| self.rows(batch)).collect();
        serve = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| singles.run(|_| stop.load(Ordering::SeqCst)));
            for _ in 0..SUBMITTERS {
                scope.spawn(|| {
                    while let Some(rows) = batches.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let number = rows_number(&rows[0]);
                        let once = format!("many-{number}");
                        match place.insist(|server| http::submit(server, &key, &once, rows)) {
                            Ok(answer) if answer.status == 202 => {
                                let id = answer.text("batch_id").to_owned();
                                accepted.lock().unwrap_or_else(PoisonError::into_inner).push((number, id));
                            }
                            other => {
                                let said = other.map(|answer| answer.body.to_string());
                                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
                                return;
                            }
                        }
                        // The submissions are distributed over the kills.
                        std::thread::sleep(
                            size.life * size.kills as u32 * SUBMITTERS as u32 / size.batches as u32,
                        );
                    }
                });
            }
            let killed = self.kill_often(size, serve, &place);
            let settled = killed.and_then(|serve| self.settled("many").map(|_| serve));
            stop.store(true, Ordering::SeqCst);
            measuring.join().unwrap_or_else(|_| Err(Failure("a client panicked".into())))?;
            settled
        })?;
        let busy = singles.take();
        if let Some(said) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            tally.check("every batch is accepted", Err(format!("{said:?}")));
        }
        let accepted = accepted.into_inner().unwrap_or_else(PoisonError::into_inner);
        let judged = self.results(place.address(), &key, &accepted, &batches, rows);
        tally.check("every batch completes, each row once and right", judged);
        let credits = self.settled("many")?;
        let expected = Credits { available: 0, held: 0, spent: rows, expired: 0, granted: rows };
        let judged =
            if credits == expected { Ok(format!("{rows} spent")) } else { Err(format!("{credits:?}")) };
        tally.check("one charge a row", judged);
        tally.check("single checks meanwhile", compare(&idle, &busy, size));
        Ok(serve)
    }

    fn kill_often(
        &mut self,
        size: &BatchSize,
        mut serve: Serve,
        place: &ServerLocation,
    ) -> Result<Serve, Failure> {
        for _ in 0..size.kills {
            let life = size.life.mul_f64(0.5 + self.random.f64());
            sleep(life)?;
            serve = self.kill(serve, place)?;
        }
        Ok(serve)
    }

    /// The addresses of a batch; every kind of domain occurs.
    fn rows(&self, batch: usize) -> Vec<String> {
        let kind = |row: usize| ["user", "user", "user", "full", "gone", "nobody"][row % 6];
        let row = |row: usize| {
            let number = batch * BATCH + row;
            format!("{}-{number}@bulk-{}.example", kind(row), number % 200 + 1)
        };
        (0..BATCH).map(row).collect()
    }

    fn results(
        &self,
        server: SocketAddr,
        key: &str,
        accepted: &[(usize, String)],
        batches: &[Vec<String>],
        rows: u64,
    ) -> Result<String, String> {
        let ids: BTreeSet<&str> = accepted.iter().map(|(_, id)| id.as_str()).collect();
        if ids.len() != batches.len() || accepted.len() != batches.len() {
            return Err(format!("{} ids for {} batches", ids.len(), batches.len()));
        }
        for (number, id) in accepted {
            let polled = http::poll(server, key, id)?;
            if polled.status != 200 || polled.text("status") != "completed" {
                return Err(format!("{id}: {} {}", polled.status, polled.text("status")));
            }
            let found = polled.body["results"].as_array().map_or(&[][..], Vec::as_slice);
            if found.len() != BATCH {
                return Err(format!("{id}: {} rows", found.len()));
            }
            for (row, address) in found.iter().zip(&batches[number / BATCH]) {
                let expected = self.scenario.expected(address).reason.as_str();
                if row["email"] != address.as_str() || row["reason"] != expected {
                    return Err(format!("{id}: {row} for {address}, {expected}"));
                }
            }
        }
        Ok(format!("{} batches, {rows} rows", batches.len()))
    }
}

/// The number of the batch, from an address of it.
fn rows_number(address: &str) -> usize {
    let digits = address.split(['-', '@']).nth(1);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn few(number: usize) -> Vec<String> {
    (0..FEW)
        .map(|row| format!("user-{}@bulk-{}.example", 9_000_000 + number * FEW + row, number % 200 + 1))
        .collect()
}

/// Clients that send single checks one after the other, and the latency of each check.
struct Singles<'a> {
    place: &'a ServerLocation,
    key: &'a str,
    next: AtomicUsize,
    taken: Mutex<Vec<Duration>>,
    wrong: Mutex<Vec<String>>,
}

impl<'a> Singles<'a> {
    fn new(place: &'a ServerLocation, key: &'a str) -> Singles<'a> {
        Singles { place, key, next: AtomicUsize::new(0), taken: Mutex::default(), wrong: Mutex::default() }
    }

    fn run(&self, done: impl Fn(usize) -> bool + Sync) -> Result<(), Failure> {
        std::thread::scope(|scope| {
            for _ in 0..SINGLES {
                scope.spawn(|| {
                    loop {
                        let number = self.next.fetch_add(1, Ordering::SeqCst);
                        if done(number) || interrupted().is_err() {
                            return;
                        }
                        self.one(number);
                    }
                });
            }
        });
        interrupted()
    }

    /// Makes one check. It counts if the server lived from its beginning to its end.
    fn one(&self, number: usize) {
        let address = format!("user-{}@single-{}.example", number + 1, number % 50 + 1);
        let life = self.place.lives.load(Ordering::SeqCst);
        let begin = Instant::now();
        let answer = http::verify(self.place.address(), self.key, &address);
        let taken = begin.elapsed();
        if life % 2 == 1 || self.place.lives.load(Ordering::SeqCst) != life {
            std::thread::sleep(Duration::from_millis(50));
            return;
        }
        match answer {
            Ok(answer) if answer.status == 200 && answer.text("reason") == "mailbox_exists" => {
                self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(taken);
            }
            Ok(answer) => {
                let said = format!("{} {}", answer.status, answer.body);
                self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            }
            Err(error) => self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(error),
        }
    }

    /// The latencies since the last call, in ascending order, or the first wrong answer.
    fn take(&self) -> Result<Vec<Duration>, String> {
        let wrong = std::mem::take(&mut *self.wrong.lock().unwrap_or_else(PoisonError::into_inner));
        let mut taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        taken.sort_unstable();
        match wrong.first() {
            None => Ok(taken),
            Some(first) => {
                Err(format!("{} of {} wrong, such as {first}", wrong.len(), wrong.len() + taken.len()))
            }
        }
    }
}

/// Requires a p99 of at most twice the idle one, or 10 ms more. The small version only prints the figures, since it
/// runs debug builds beside other work.
fn compare(
    idle: &Result<Vec<Duration>, String>,
    busy: &Result<Vec<Duration>, String>,
    size: &BatchSize,
) -> Result<String, String> {
    let (idle, busy) = (idle.as_ref()?, busy.as_ref()?);
    let at = |taken: &[Duration], percent: usize| {
        taken.get((taken.len() * percent).div_ceil(100).saturating_sub(1)).copied()
    };
    let p99 = |taken: &[Duration]| at(taken, 99).ok_or("too few checks to compare");
    let (idle_p99, busy_p99) = (p99(idle)?, p99(busy)?);
    let most = (idle_p99 * 2).max(idle_p99 + Duration::from_millis(10));
    let ms = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let figures = format!(
        "p50 {:.1} ms, p99 {:.1} ms of {}; idle: {:.1} and {:.1} of {}",
        ms(at(busy, 50)),
        ms(Some(busy_p99)),
        busy.len(),
        ms(at(idle, 50)),
        ms(Some(idle_p99)),
        idle.len()
    );
    let judge = size.batches >= FULL.batches;
    if judge && busy_p99 > most { Err(figures) } else { Ok(figures) }
}
