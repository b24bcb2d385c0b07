//! `soak batches`: `kill -9` of a server that accepts and works on batches, and a check of every batch afterwards.
//!
//! First many clients send the same few Idempotency-Keys at once and repeatedly, with kills in between, until each key
//! has its 202. Every key must have one batch and one charge.
//!
//! Then clients submit batches while the server is killed again and again. A client without an answer repeats its
//! request under the same key, so the server accepts every batch in the end. Each batch must complete, and have every
//! row once, in order and right. Single checks continue meanwhile: their latency outside the restarts is compared with
//! that of an idle server.

use super::api::Api;
use super::client::HttpReply;
use super::crowd::{each, into_inner, joined, lock, spawn};
use super::judge::{self, Claim};
use super::options::SoakOptions;
use super::slow_peers::{limit, millis, percentile, percentile_at};
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use mailnet::Scenario;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
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
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let size = if options.small { SMALL } else { FULL };
    let seed = options.seed();
    report::line(&format!(
        "batches: seed {seed}, {} keys {SAME_AT_ONCE} times at once, then {} batches of {BATCH}, {} kills",
        size.keys, size.batches, size.kills
    ));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let scenario = Scenario::parse(SCENARIO).map_err(|error| Failure(format!("the scenario: {error}")))?;
    let random = fastrand::Rng::with_seed(seed);
    let mut campaign = BatchCampaign { world, mailnet, scenario, random, lives: AtomicU32::new(0) };
    let mut tally = Tally::default();
    let serve = campaign.world.serve(&campaign.mailnet, &[])?;
    let serve = campaign.same_keys(&size, serve, &mut tally)?;
    let serve = campaign.many(&size, serve, &mut tally)?;
    tally.check("the server ends in order", serve.end());
    campaign.mailnet.end(&mut tally)?;
    Ok(tally)
}

struct BatchCampaign {
    world: CampaignFolder,
    mailnet: Mailnet,
    scenario: Scenario,
    random: fastrand::Rng,
    /// Counts starts and ends of the server: odd while there is no server.
    lives: AtomicU32,
}

/// Repeats a request until its answer is not one that asks to repeat it later.
fn insist(send: impl Fn() -> Result<HttpReply, String>) -> Result<HttpReply, String> {
    let end = Instant::now() + RETRY_LIMIT;
    loop {
        match send() {
            Ok(answer) if !matches!(answer.status, 409 | 503) => return Ok(answer),
            other if Instant::now() > end => return other,
            _ => sleep(Duration::from_millis(20))?,
        }
    }
}

impl BatchCampaign {
    /// Kills the server and starts another one on the same data.
    fn kill(&self, serve: Serve) -> Result<Serve, Failure> {
        self.lives.fetch_add(1, Ordering::SeqCst);
        let serve = self.world.restart(serve, &self.mailnet, &[])?;
        self.lives.fetch_add(1, Ordering::SeqCst);
        Ok(serve)
    }

    /// Waits until the account holds no credits.
    fn settled(&self, name: &str) -> Result<(), Failure> {
        wait_until("the end of all holds", COMPLETION_LIMIT, || {
            sleep(Duration::from_millis(200))?;
            Ok(self.world.ledger(name)?.credits.held == 0)
        })
    }

    fn same_keys(&mut self, size: &BatchSize, mut serve: Serve, tally: &mut Tally) -> Result<Serve, Failure> {
        let granted = (size.keys * FEW * 2) as u64;
        let key = self.world.unlimited("same", granted)?;
        let api = Api::new(serve.address, &key);
        let mut ids = BTreeSet::new();
        let (mut kills, mut wrong, mut replays) = (0, Vec::new(), 0);
        for first in (0..size.keys).step_by(KEYS_AT_ONCE) {
            let keys = KEYS_AT_ONCE.min(size.keys - first);
            // During every other wave the server is killed, at one of the first answers.
            let kill_after = (first / KEYS_AT_ONCE).is_multiple_of(2).then(|| self.random.usize(0..60));
            let answered = AtomicUsize::new(0);
            let ask = |number: usize| {
                let number = first + number / SAME_AT_ONCE;
                let answer = insist(|| api.submit(&format!("wave-{number}"), &few(number)));
                answered.fetch_add(1, Ordering::SeqCst);
                answer
            };
            let answers;
            let count = keys * SAME_AT_ONCE;
            (answers, serve) = std::thread::scope(|scope| {
                let asking = spawn(scope, || each(count, count, ask))?;
                let mut living = serve;
                if let Some(least) = kill_after {
                    let is_due = || Ok(answered.load(Ordering::SeqCst) >= least);
                    wait_until("answers before a kill", RETRY_LIMIT, is_due)?;
                    kills += 1;
                    living = self.kill(living)?;
                }
                Ok::<_, Failure>((joined(asking)?, living))
            })?;
            for (at, copies) in answers.chunks(SAME_AT_ONCE).enumerate() {
                let mut of_key = BTreeSet::new();
                for answer in copies {
                    match answer {
                        Ok(answer) if answer.status == 202 => {
                            replays += usize::from(answer.is_replay());
                            of_key.insert(answer.word("batch_id"));
                        }
                        Ok(answer) => wrong.push(answer.to_string()),
                        Err(error) => wrong.push(error.clone()),
                    }
                }
                if of_key.len() != 1 {
                    wrong.push(format!("key {} has {} batches", first + at, of_key.len()));
                }
                ids.extend(of_key);
            }
        }
        let figures = format!("{} keys, {} batches, {replays} replays, {kills} kills", size.keys, ids.len());
        let judged = match wrong.first() {
            None if ids.len() == size.keys => Ok(figures),
            first => Err(format!("{figures}; {} wrong, such as {}", wrong.len(), first.map_or("", |w| w))),
        };
        tally.check("one batch a key", judged);
        self.settled("same")?;
        let claim = Claim::exact(granted, (size.keys * FEW) as u64);
        tally.check("one charge a key", self.world.judge("same", &claim));
        Ok(serve)
    }

    fn many(&mut self, size: &BatchSize, serve: Serve, tally: &mut Tally) -> Result<Serve, Failure> {
        let rows = (size.batches * BATCH) as u64;
        let key = self.world.unlimited("many", rows)?;
        let single_key = self.world.unlimited("single", 10_000_000)?;
        let (api, single) = (Api::new(serve.address, &key), Api::new(serve.address, &single_key));
        let number = AtomicUsize::new(0);
        let idle = singles(single, &self.lives, &number, |done| done >= size.idle)?;
        let stop = AtomicBool::new(false);
        let batches: Vec<Vec<String>> = (0..size.batches).map(|batch| self.rows(batch)).collect();
        // The submissions are distributed over the kills.
        let pause = size.life * size.kills as u32 * SUBMITTERS as u32 / size.batches as u32;
        let submit = |batch: usize| {
            let answer = insist(|| api.submit(&format!("many-{batch}"), &batches[batch]));
            std::thread::sleep(pause);
            answer
        };
        let lives: Vec<f64> = (0..size.kills).map(|_| 0.5 + self.random.f64()).collect();
        let mut living = Some(serve);
        let is_over = |_| stop.load(Ordering::SeqCst);
        let (answers, busy) = std::thread::scope(|scope| {
            let measuring = spawn(scope, || singles(single, &self.lives, &number, is_over))?;
            let submitting = spawn(scope, || each(size.batches, SUBMITTERS, submit))?;
            let killed = lives.iter().try_for_each(|life| {
                sleep(size.life.mul_f64(*life))?;
                // A failed start leaves no server, and the campaign ends.
                living = living.take().map(|serve| self.kill(serve)).transpose()?;
                Ok(())
            });
            let settled = killed.and_then(|()| self.settled("many"));
            stop.store(true, Ordering::SeqCst);
            settled.and(Ok((joined(submitting)?, joined(measuring)?)))
        })?;
        let judged = self.results(api, &answers, &batches);
        tally.check("every batch completes, each row once and right", judged);
        self.settled("many")?;
        tally.check("one charge a row", self.world.judge("many", &Claim::exact(rows, rows)));
        tally.check("single checks meanwhile", compare(&idle, &busy, size));
        living.ok_or_else(|| Failure("there is no server".into()))
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
        api: Api<'_>,
        answers: &[Result<HttpReply, String>],
        batches: &[Vec<String>],
    ) -> Result<String, String> {
        let mut ids = BTreeSet::new();
        for (answer, rows) in answers.iter().zip(batches) {
            let answer = answer.as_ref()?;
            let (id, polled) = (answer.word("batch_id"), api.poll(&answer.word("batch_id"))?);
            let reasons =
                |row: &String| (row.clone(), vec![self.scenario.expected(row).reason.as_str().to_owned()]);
            judge::rows(&id, &rows.iter().map(reasons).collect::<Vec<_>>(), &polled.json())?;
            ids.insert(id);
        }
        outcome(ids.len() == batches.len(), format!("{} batches of {BATCH} rows", ids.len()))
    }
}

fn few(number: usize) -> Vec<String> {
    (0..FEW)
        .map(|row| format!("user-{}@bulk-{}.example", 9_000_000 + number * FEW + row, number % 200 + 1))
        .collect()
}

/// Clients that send single checks one after the other, until `is_done` of the number of checks. The latencies, or the first wrong
/// answer. A check counts if the server lived from its beginning to its end.
fn singles(
    api: Api<'_>,
    lives: &AtomicU32,
    next: &AtomicUsize,
    is_done: impl Fn(usize) -> bool + Sync,
) -> Result<Result<Vec<Duration>, String>, Failure> {
    let done = AtomicUsize::new(0);
    let (taken, wrong) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    each(SINGLES, SINGLES, |_| {
        while !is_done(done.fetch_add(1, Ordering::SeqCst)) && interrupted().is_ok() {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let address = format!("user-{}@single-{}.example", number + 1, number % 50 + 1);
            let life = lives.load(Ordering::SeqCst);
            let begin = Instant::now();
            let answer = api.verify(&address);
            let time = begin.elapsed();
            if life % 2 == 1 || lives.load(Ordering::SeqCst) != life {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            match answer {
                Ok(answer) if answer.status == 200 && answer.word("reason") == "mailbox_exists" => {
                    lock(&taken).push(time);
                }
                Ok(answer) => lock(&wrong).push(answer.to_string()),
                Err(error) => lock(&wrong).push(error),
            }
        }
    })?;
    let (taken, wrong) = (into_inner(taken), into_inner(wrong));
    Ok(match wrong.first() {
        None => Ok(taken),
        Some(first) => {
            Err(format!("{} of {} wrong, such as {first}", wrong.len(), wrong.len() + taken.len()))
        }
    })
}

/// Requires a p99 of at most twice the idle one, or 10 ms more. The small version only prints the figures, since it
/// runs debug builds beside other work.
fn compare(
    idle: &Result<Vec<Duration>, String>,
    busy: &Result<Vec<Duration>, String>,
    size: &BatchSize,
) -> Result<String, String> {
    let (idle, busy) = (idle.as_ref()?, busy.as_ref()?);
    if idle.is_empty() || busy.is_empty() {
        return Err("too few checks to compare".into());
    }
    let (idle_p99, busy_p99) = (percentile(idle.clone()), percentile(busy.clone()));
    let half = |taken: &[Duration]| millis(percentile_at(taken.to_vec(), 50));
    let figures = format!(
        "p50 {:.1} ms, p99 {:.1} ms of {}; idle: {:.1} and {:.1} of {}",
        half(busy),
        millis(busy_p99),
        busy.len(),
        half(idle),
        millis(idle_p99),
        idle.len()
    );
    let most = limit(idle_p99, Duration::from_millis(10));
    outcome(size.batches < FULL.batches || busy_p99 <= most, figures)
}
