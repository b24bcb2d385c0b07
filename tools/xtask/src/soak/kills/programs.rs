//! Programs that use the API with keys: full and fast checks, repeats, and batches with Idempotency-Keys.
//!
//! A program repeats a request without an answer until it is answered, as docs/api says. So every check and every batch
//! is acknowledged in the end, and the ledger must have each of them once.

use super::client::{HttpReply, HttpRequest};
use super::gate::{ClientResult, Over};
use super::records::{Account, KilledClient, Purchase, Records, Rule, TIMED_CHECK};
use super::{REPORT_EVERY, addresses};
use crate::soak::crowd::each;
use crate::soak::judge::{self, Reasons};
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long rows wait for servers that defer them, from the creation of their batch (`--batch-wait`).
pub const BATCH_WAIT: Duration = Duration::from_secs(15);
/// The same as the value of a flag.
pub const BATCH_WAIT_S: &str = "15";
/// How much longer a batch may take: restarts, and a busy machine.
const BATCH_SLACK: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(30);
/// How many answered checks are kept for repeats.
const ANSWERED_MAX: usize = 40;
/// How many rows of a batch have addresses with known answers.
const KNOWN_ROWS: usize = 3;
/// How many batches of a program may be incomplete.
const OPEN_MAX: usize = 2;
/// The same for a program that only submits batches.
const OPEN_BULK_MAX: usize = 3;
/// The rows of its batches, and of those that are submitted many times at once.
const BULK_ROWS: u64 = 200;
const FEW_ROWS: u64 = 5;
/// Its pause before each request: the campaign measures single checks beside batches, and not the processor.
const BULK_PAUSE: Duration = Duration::from_millis(200);
/// How often such a batch is submitted at once.
const SAME_AT_ONCE: usize = 50;
/// How many complete batches are read again.
const COMPLETE_MAX: usize = 8;

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramLoad {
    /// It sends every kind of request.
    Everything,
    /// It makes full checks at slow mail servers.
    SlowChecks,
    /// It makes full checks whose times are recorded, also on the idle server before the first kill.
    TimedChecks,
    /// It submits batches: long ones, and short ones many times at once.
    Batches,
}

/// A client with the keys of an account, and its batches.
pub struct Program {
    records: Arc<Records>,
    client: KilledClient,
    account: Arc<Account>,
    /// The index of the account among those of the programs.
    place: u32,
    /// A live key and a test key.
    keys: [String; 2],
    load: ProgramLoad,
    random: fastrand::Rng,
    answered: VecDeque<(String, Reasons)>,
    batches: Vec<ProgramBatch>,
}

/// A batch that was accepted.
struct ProgramBatch {
    /// The Idempotency-Key of the batch.
    once: String,
    rows: Vec<(String, Reasons)>,
    test: bool,
    purchase: Purchase,
    began: Instant,
    /// The body of the 202, which a replay must repeat to the byte.
    created: Vec<u8>,
    id: String,
    /// The number of checked rows in the last poll, which never decreases.
    checked: u64,
    /// The first poll which stated that the batch is complete.
    complete: Option<Vec<u8>>,
    /// The batch was read again in another life of the server.
    read_again: bool,
    complete_in: u32,
}

impl Program {
    /// A program with the keys of an account.
    pub fn new(
        records: &Arc<Records>,
        (place, account): (u32, &Arc<Account>),
        keys: [String; 2],
        load: ProgramLoad,
        seed: u64,
    ) -> Program {
        Program {
            records: Arc::clone(records),
            client: KilledClient::program(records),
            account: Arc::clone(account),
            place,
            keys,
            load,
            random: fastrand::Rng::with_seed(seed),
            answered: VecDeque::new(),
            batches: Vec::new(),
        }
    }

    /// Sends requests until the clients finish, waits for its batches, and reads all of them again, as it also does after every
    /// [`REPORT_EVERY`] lives.
    pub fn work(&mut self) -> ClientResult {
        let mut reports = 0;
        loop {
            let now = self.records.gate.now();
            if now.is_finishing() {
                break;
            }
            if now.life / REPORT_EVERY > reports {
                reports = now.life / REPORT_EVERY;
                self.read_all_again()?;
            }
            self.act()?;
        }
        while let Some(at) = self.batches.iter().position(|batch| batch.complete.is_none()) {
            self.poll(at)?;
            std::thread::sleep(LOOK);
        }
        self.read_all_again()
    }

    fn act(&mut self) -> ClientResult {
        match self.load {
            ProgramLoad::Everything => self.act_at_random(),
            ProgramLoad::SlowChecks => self.check("full check", addresses::slow(self.records.numbers(1))),
            ProgramLoad::TimedChecks => self.check(TIMED_CHECK, addresses::single(self.records.numbers(1))),
            // The first life is that of an idle server.
            ProgramLoad::Batches if self.records.pass()? == 0 => {
                std::thread::sleep(LOOK);
                Ok(())
            }
            ProgramLoad::Batches => {
                std::thread::sleep(BULK_PAUSE);
                match self.random.u32(0..10) {
                    0..2 => self.submit_bulk(FEW_ROWS, SAME_AT_ONCE),
                    2..5 => self.submit_bulk(BULK_ROWS, 1),
                    _ => self.any_batch(Program::poll),
                }
            }
        }
    }

    fn act_at_random(&mut self) -> ClientResult {
        match self.random.u32(0..100) {
            0..22 => self.check_another(),
            22..42 => self.fast(),
            42..50 => self.made_up(),
            50..66 => self.repeat(),
            66..72 => self.submit(),
            72..90 => self.any_batch(Program::poll),
            90..94 => self.any_batch(Program::replay),
            94..97 => self.any_batch(Program::reuse_key),
            _ => self.look_at_account(),
        }
    }

    /// Reads every complete batch again and compares it.
    fn read_all_again(&mut self) -> ClientResult {
        for at in (0..self.batches.len()).rev() {
            if self.batches[at].complete.is_some() {
                self.poll(at)?;
            }
        }
        Ok(())
    }

    fn check_another(&mut self) -> ClientResult {
        let shared = (self.random.u32(0..4) == 0).then(|| self.records.known_to_others(self.place)).flatten();
        let number = shared.unwrap_or_else(|| {
            let number = self.records.numbers(1);
            self.records.is_known(number, self.place);
            number
        });
        self.check("full check", addresses::live(number))
    }

    fn check(&mut self, kind: &'static str, email: String) -> ClientResult {
        let single = self.records.single(&self.account, email);
        let answered = self.client.full_check(kind, &self.keys[0], single)?;
        if self.answered.len() >= ANSWERED_MAX {
            // A random one is removed, so that some are repeated after a long time.
            self.answered.remove(self.random.usize(0..ANSWERED_MAX));
        }
        self.answered.push_back(answered);
        Ok(())
    }

    fn repeat(&mut self) -> ClientResult {
        if self.answered.is_empty() {
            return self.check_another();
        }
        let (email, reasons) = &self.answered[self.random.usize(0..self.answered.len())];
        let request = HttpRequest::json("/v1/verify", &json!({ "email": email })).bearer(&self.keys[0]);
        let outcome = self.client.ask("repeat", email, &request)?;
        if let Ok(reply) = &outcome
            && reply.status == 200
        {
            let outcome = judge::single(true, false, &reply.json(), email, reasons);
            self.records.judge(Rule::Charges, "repeats", outcome);
        }
        self.records.expect("repeat", &outcome, &[200, 503])
    }

    fn fast(&mut self) -> ClientResult {
        let email = addresses::live(self.records.numbers(1));
        let body = json!({ "email": email, "mode": "fast" });
        let request = HttpRequest::json("/v1/verify", &body).bearer(&self.keys[0]);
        self.free("fast check", &email, &request, None)
    }

    fn made_up(&mut self) -> ClientResult {
        let (email, reason) = addresses::made_up(self.records.numbers(1));
        let request = HttpRequest::json("/v1/verify", &json!({ "email": email })).bearer(&self.keys[1]);
        self.free("test check", &email, &request, Some(reason))
    }

    fn free(
        &mut self,
        kind: &'static str,
        email: &str,
        request: &HttpRequest,
        reason: Option<&str>,
    ) -> ClientResult {
        let outcome = self.client.ask(kind, email, request)?;
        if let Ok(reply) = &outcome
            && reply.status == 200
        {
            let body = reply.json();
            if body["email"] != email
                || !body["credits_remaining"].is_null()
                || reason.is_some_and(|reason| body["reason"] != reason)
            {
                return Err(self.records.wrong(kind, reply));
            }
        }
        self.records.expect(kind, &outcome, &[200, 503])
    }

    fn look_at_account(&mut self) -> ClientResult {
        let request = HttpRequest::get("/v1/account").bearer(&self.keys[0]);
        match self.client.ask("account", "", &request)? {
            Ok(reply) if reply.status == 200 && reply.json()["credits_remaining"].is_u64() => Ok(()),
            other => self.records.expect("account", &other, &[503]),
        }
    }

    /// Whether so many batches are incomplete.
    fn has_open(&self, count: usize) -> bool {
        self.batches.iter().filter(|batch| batch.complete.is_none()).count() >= count
    }

    /// Submits a batch until it is accepted.
    fn submit(&mut self) -> ClientResult {
        if self.has_open(OPEN_MAX) {
            return self.any_batch(Program::poll);
        }
        let (count, test) = (self.random.u64(5..=46), self.random.u32(0..8) == 0);
        let first = self.records.numbers(count);
        let row = |number| {
            if test {
                let (email, reason) = addresses::made_up(number);
                return (email, vec![reason.to_owned()]);
            }
            let email = addresses::live(number);
            let reasons = judge::reasons(&self.records.scenario, &email);
            (email, reasons)
        };
        let mut rows: Vec<(String, Reasons)> = (first..first + count).map(row).collect();
        // Addresses with known answers, and one address twice: each row is paid nevertheless.
        rows.extend(self.answered.iter().take(KNOWN_ROWS).filter(|_| !test).cloned());
        rows.push(rows[0].clone());
        let mut batch = ProgramBatch::new(&self.account, format!("batch-{first}"), rows, test);
        let request = batch.request(&self.keys, usize::MAX);
        loop {
            batch.purchase.asks();
            match self.client.ask("batch", &batch.once, &request)? {
                Ok(reply) if reply.status == 202 => return self.accept(batch, reply),
                other => {
                    batch.purchase.is_open(&other);
                    self.records.expect("batch", &other, &[409, 503])?;
                }
            }
        }
    }

    /// Submits a batch so many times at once, and again those without an answer. All answers must name one batch.
    fn submit_bulk(&mut self, rows: u64, copies: usize) -> ClientResult {
        if self.has_open(OPEN_BULK_MAX) {
            return self.any_batch(Program::poll);
        }
        let first = self.records.numbers(rows);
        let row = |number| {
            let email = addresses::bulk(number);
            let reasons = judge::reasons(&self.records.scenario, &email);
            (email, reasons)
        };
        let rows = (first..first + rows).map(row).collect();
        let mut batch = ProgramBatch::new(&self.account, format!("bulk-{first}"), rows, false);
        let request = batch.request(&self.keys, usize::MAX);
        let mut accepted: Vec<HttpReply> = Vec::new();
        while accepted.len() < copies {
            batch.purchase.asks();
            batch.purchase.unknown();
            let life = self.records.pass()?;
            let unanswered = copies - accepted.len();
            let answers = each(unanswered, unanswered, |_| {
                let mut client = KilledClient::program(&self.records);
                client.send(life, "batch", &batch.once, &request)
            });
            for answer in answers.map_err(|_| Over)? {
                match answer {
                    Ok(reply) if reply.status == 202 => accepted.push(reply),
                    other => self.records.expect("batch", &other, &[409, 503])?,
                }
            }
        }
        let ids: BTreeSet<String> = accepted.iter().map(|reply| reply.word("batch_id")).collect();
        let originals = accepted.iter().filter(|reply| !reply.is_replay()).count();
        if ids.len() > 1 || originals > 1 {
            let fault = format!("{} has {} batches, {originals} originals", batch.once, ids.len());
            return Err(self.records.stop(Rule::Batches, fault));
        }
        self.records.verified("batches submitted at once", u64::from(copies > 1));
        self.accept(batch, accepted.swap_remove(0))
    }

    fn accept(&mut self, mut batch: ProgramBatch, reply: HttpReply) -> ClientResult {
        let rows = batch.rows.len() as u64;
        batch.id = reply.word("batch_id");
        if batch.id.is_empty() || reply.json()["emails_submitted"] != rows {
            return Err(self.records.wrong("batch", &reply));
        }
        if reply.header("idempotent-replayed").is_some() && !batch.purchase.in_doubt() {
            self.records.fault(Rule::Batches, format!("{}: it was refused, and there is one", batch.once));
        }
        batch.created = reply.body;
        batch.began = Instant::now();
        batch.purchase.paid();
        self.records.verified("batches accepted", 1);
        self.records.verified("rows accepted", rows);
        self.batches.push(batch);
        Ok(())
    }

    /// Applies a function to one of the batches.
    fn any_batch(&mut self, what: fn(&mut Program, usize) -> ClientResult) -> ClientResult {
        if self.batches.is_empty() {
            return self.fast();
        }
        let at = self.random.usize(0..self.batches.len());
        what(self, at)
    }

    fn poll(&mut self, at: usize) -> ClientResult {
        let batch = &mut self.batches[at];
        let request = HttpRequest::get(format!("/v1/verify/batch/{}", batch.id)).bearer(&self.keys[0]);
        let (reply, _) = self.client.insist("poll", &batch.id, &request, &[200])?;
        let (body, life) = (reply.json(), self.records.gate.now().life);
        let checked = body["checked"].as_u64().unwrap_or_default();
        if checked < batch.checked || body["total"] != batch.rows.len() as u64 {
            let fault = format!("{}: {} rows were checked, now {body}", batch.id, batch.checked);
            self.records.fault(Rule::Batches, fault);
        }
        batch.checked = checked;
        if body["status"] != "completed" {
            let late = batch.began.elapsed();
            if late > BATCH_WAIT + BATCH_SLACK {
                let fault = format!("{} is open after {} s: {body}", batch.id, late.as_secs());
                self.records.fault(Rule::Holds, fault);
            }
            if batch.complete.is_some() {
                self.records.fault(Rule::Batches, format!("{} was complete: {body}", batch.id));
            }
            return Ok(());
        }
        match &batch.complete {
            None => {
                let outcome = judge::rows(&batch.id, &batch.rows, &body);
                self.records.judge(Rule::Batches, "batches complete", outcome);
                batch.purchase.ended();
                batch.complete = Some(reply.body);
                batch.complete_in = life;
            }
            Some(first) => {
                let outcome = judge::same(&batch.id, first, &reply.body);
                self.records.judge(Rule::Replays, "batches read again", outcome);
                batch.read_again |= life > batch.complete_in;
            }
        }
        self.forget_one();
        Ok(())
    }

    /// Removes a batch that was read in two lives.
    fn forget_one(&mut self) {
        if self.batches.iter().filter(|batch| batch.complete.is_some()).count() > COMPLETE_MAX {
            let done = |at: &usize| self.batches[*at].read_again;
            let all: Vec<usize> = (0..self.batches.len()).filter(done).collect();
            if let Some(&at) = self.random.choice(&all) {
                self.batches.swap_remove(at);
            }
        }
    }

    fn replay(&mut self, at: usize) -> ClientResult {
        let batch = &self.batches[at];
        let request = batch.request(&self.keys, usize::MAX);
        let outcome = self.client.ask("replay", &batch.once, &request)?;
        if let Ok(reply) = &outcome
            && reply.status == 202
        {
            let what = format!("the replay of {}", batch.once);
            let same = judge::same(&what, &batch.created, &reply.body);
            self.records.judge(Rule::Replays, "replays of batches", same);
            if !reply.is_replay() {
                self.records.fault(Rule::Replays, format!("{what} does not say that it is one"));
            }
        }
        self.records.expect("replay", &outcome, &[202, 409, 503])
    }

    /// Checks that another body with the same Idempotency-Key is refused, also after restarts.
    fn reuse_key(&mut self, at: usize) -> ClientResult {
        let batch = &self.batches[at];
        let request = batch.request(&self.keys, batch.rows.len() - 1);
        match self.client.ask("other body", &batch.once, &request)? {
            Ok(reply) if reply.status == 422 => self.records.verified("keys with another body refused", 1),
            Ok(reply) if !matches!(reply.status, 409 | 503) => {
                let fault = format!("{} with another body: {reply}", self.batches[at].once);
                self.records.fault(Rule::Replays, fault);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ProgramBatch {
    /// A batch that is not submitted yet.
    fn new(account: &Arc<Account>, once: String, rows: Vec<(String, Reasons)>, test: bool) -> ProgramBatch {
        let credits = if test { 0 } else { rows.len() as u64 };
        ProgramBatch {
            once,
            rows,
            test,
            purchase: Purchase::lasting(account, credits),
            began: Instant::now(),
            created: Vec::new(),
            id: String::new(),
            checked: 0,
            complete: None,
            read_again: false,
            complete_in: 0,
        }
    }

    /// The request for the first rows with the Idempotency-Key of the batch.
    fn request(&self, keys: &[String; 2], rows: usize) -> HttpRequest {
        let emails: Vec<&str> = self.rows.iter().take(rows).map(|(email, _)| email.as_str()).collect();
        let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": emails }));
        request.bearer(&keys[usize::from(self.test)]).header("Idempotency-Key", &self.once)
    }
}
