//! Programs that use the API with keys: full and fast checks, repeats, and batches with Idempotency-Keys.
//!
//! A program repeats a request without an answer until it is answered, as docs/api says. So every check and every batch
//! is acknowledged in the end, and the ledger must have each of them once.

use super::addresses;
use super::client::{HttpClient, HttpReply, HttpRequest, Lost};
use super::records::{Account, Life, Purchase, Rule};
use crate::soak::judge::{self, Reasons};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long rows wait for servers that defer them, from the creation of their batch (`--batch-wait`).
pub const BATCH_WAIT: Duration = Duration::from_secs(15);
/// The same as the value of a flag.
pub const BATCH_WAIT_S: &str = "15";
/// How much longer a batch may take: restarts, and a busy machine.
const BATCH_SLACK: Duration = Duration::from_secs(120);
/// How many answered checks are kept for repeats.
const ANSWERED_MAX: usize = 40;
/// How many rows of a batch have addresses with known answers.
const KNOWN_ROWS: usize = 3;
/// How many batches of a program may be incomplete.
const OPEN_MAX: usize = 2;
/// How many complete batches are read again.
const COMPLETE_MAX: usize = 8;

/// A client with the keys of an account, and its open requests.
pub struct Program {
    client: HttpClient,
    account: Arc<Account>,
    /// The index of the account among those of the programs.
    place: u32,
    live: String,
    test: String,
    /// It only makes full checks at slow mail servers.
    only_checks: bool,
    random: fastrand::Rng,
    /// The check that has no answer yet.
    single: Option<Single>,
    answered: VecDeque<(String, Reasons)>,
    batches: Vec<ProgramBatch>,
}

/// A full check of one address, with its charge.
pub struct Single {
    pub email: String,
    pub reasons: Reasons,
    pub purchase: Purchase,
}

struct ProgramBatch {
    /// The Idempotency-Key of the batch.
    once: String,
    rows: Vec<(String, Reasons)>,
    test: bool,
    purchase: Purchase,
    began: Instant,
    /// The body of the 202, which a replay must repeat to the byte.
    created: Option<Vec<u8>>,
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
        server: SocketAddr,
        (place, account): (u32, &Arc<Account>),
        (live, test): (&str, &str),
        only_checks: bool,
        seed: u64,
    ) -> Program {
        Program {
            client: HttpClient::program(server),
            account: Arc::clone(account),
            place,
            live: live.into(),
            test: test.into(),
            only_checks,
            random: fastrand::Rng::with_seed(seed),
            single: None,
            answered: VecDeque::new(),
            batches: Vec::new(),
        }
    }

    /// Sends one request. Returns whether requests remain if nothing new is started.
    pub fn step(&mut self, life: &Life<'_>) -> bool {
        if let Some(single) = self.single.take() {
            self.check(life, single);
            return true;
        }
        if let Some(at) = self.batches.iter().position(|batch| batch.created.is_none()) {
            self.submit(life, at);
            return true;
        }
        if life.finishing {
            let Some(at) = self.batches.iter().position(|batch| batch.complete.is_none()) else {
                return false;
            };
            self.poll(life, at);
            std::thread::sleep(Duration::from_millis(30));
            return true;
        }
        match self.random.u32(0..100) {
            _ if self.only_checks => {
                let email = addresses::slow(life.shared.numbers(1));
                let reasons = judge::reasons(&life.shared.scenario, &email);
                self.check(life, Single { email, reasons, purchase: Purchase::new(&self.account, 1) });
            }
            0..22 => self.check_another(life),
            22..42 => self.fast(life),
            42..50 => self.made_up(life),
            50..66 => self.repeat(life),
            66..72 => self.submit_another(life),
            72..90 => self.any_batch(life, Program::poll),
            90..94 => self.any_batch(life, Program::replay),
            94..97 => self.any_batch(life, Program::reuse_key),
            _ => self.look_at_account(life),
        }
        true
    }

    /// Closes the connection: the server has ended.
    pub fn hang_up(&mut self) {
        self.client.hang_up();
    }

    /// Reads every complete batch again and compares it.
    pub fn read_all_again(&mut self, life: &Life<'_>) {
        for at in 0..self.batches.len() {
            if self.batches[at].complete.is_some() {
                self.poll(life, at);
            }
        }
    }

    fn check_another(&mut self, life: &Life<'_>) {
        let shared = (self.random.u32(0..4) == 0).then(|| life.shared.known_to_others(self.place)).flatten();
        let number = shared.unwrap_or_else(|| {
            let number = life.shared.numbers(1);
            life.shared.is_known(number, self.place);
            number
        });
        let email = addresses::live(number);
        let reasons = judge::reasons(&life.shared.scenario, &email);
        self.check(life, Single { email, reasons, purchase: Purchase::new(&self.account, 1) });
    }

    fn check(&mut self, life: &Life<'_>, single: Single) {
        match full_check(life, &mut self.client, &self.live, single) {
            Ok(answered) => {
                if self.answered.len() >= ANSWERED_MAX {
                    // A random one is removed, so that some are repeated after a long time.
                    self.answered.remove(self.random.usize(0..ANSWERED_MAX));
                }
                self.answered.push_back(answered);
            }
            Err(single) => self.single = Some(single),
        }
    }

    fn repeat(&mut self, life: &Life<'_>) {
        if self.answered.is_empty() {
            return self.check_another(life);
        }
        let at = self.random.usize(0..self.answered.len());
        let (email, reasons) = self.answered[at].clone();
        let request = HttpRequest::json("/v1/verify", &json!({ "email": email })).bearer(&self.live);
        match life.ask(&mut self.client, "repeat", &email, &request) {
            Ok(reply) if reply.status == 200 => {
                let outcome = judge::single(true, false, &reply.json(), &email, &reasons);
                life.shared.judge(Rule::Charges, "repeats", outcome);
            }
            other => expect(life, "repeat", &other, &[503]),
        }
    }

    fn fast(&mut self, life: &Life<'_>) {
        let email = addresses::live(life.shared.numbers(1));
        let request =
            HttpRequest::json("/v1/verify", &json!({ "email": email, "mode": "fast" })).bearer(&self.live);
        self.free(life, "fast check", &email, &request, None);
    }

    fn made_up(&mut self, life: &Life<'_>) {
        let (email, reason) = addresses::made_up(life.shared.numbers(1));
        let request = HttpRequest::json("/v1/verify", &json!({ "email": email })).bearer(&self.test);
        self.free(life, "test check", &email, &request, Some(reason));
    }

    fn free(
        &mut self,
        life: &Life<'_>,
        kind: &'static str,
        email: &str,
        request: &HttpRequest,
        reason: Option<&str>,
    ) {
        match life.ask(&mut self.client, kind, email, request) {
            Ok(reply) if reply.status == 200 => {
                let body = reply.json();
                if body["email"] != email
                    || !body["credits_remaining"].is_null()
                    || reason.is_some_and(|reason| body["reason"] != reason)
                {
                    life.wrong(kind, &reply);
                }
            }
            other => expect(life, kind, &other, &[503]),
        }
    }

    fn look_at_account(&mut self, life: &Life<'_>) {
        let request = HttpRequest::get("/v1/account").bearer(&self.live);
        match life.ask(&mut self.client, "account", "", &request) {
            Ok(reply) if reply.status == 200 && reply.json()["credits_remaining"].is_u64() => {}
            other => expect(life, "account", &other, &[503]),
        }
    }

    fn submit_another(&mut self, life: &Life<'_>) {
        if self.batches.iter().filter(|batch| batch.complete.is_none()).count() >= OPEN_MAX {
            return self.any_batch(life, Program::poll);
        }
        let (count, test) = (self.random.u64(5..=46), self.random.u32(0..8) == 0);
        let first = life.shared.numbers(count);
        let row = |number| {
            if test {
                let (email, reason) = addresses::made_up(number);
                return (email, vec![reason.to_owned()]);
            }
            let email = addresses::live(number);
            let reasons = judge::reasons(&life.shared.scenario, &email);
            (email, reasons)
        };
        let mut rows: Vec<(String, Reasons)> = (first..first + count).map(row).collect();
        // Addresses with known answers, and one address twice: each row is paid nevertheless.
        rows.extend(self.answered.iter().take(KNOWN_ROWS).filter(|_| !test).cloned());
        rows.push(rows[0].clone());
        let credits = if test { 0 } else { rows.len() as u64 };
        self.batches.push(ProgramBatch {
            once: format!("batch-{first}"),
            rows,
            test,
            purchase: Purchase::lasting(&self.account, credits),
            began: Instant::now(),
            created: None,
            id: String::new(),
            checked: 0,
            complete: None,
            read_again: false,
            complete_in: 0,
        });
        self.submit(life, self.batches.len() - 1);
    }

    fn send_batch(
        &mut self,
        life: &Life<'_>,
        kind: &'static str,
        at: usize,
        rows: usize,
    ) -> Result<HttpReply, Lost> {
        let batch = &self.batches[at];
        let emails: Vec<&str> = batch.rows.iter().take(rows).map(|(email, _)| email.as_str()).collect();
        let key = if batch.test { &self.test } else { &self.live };
        let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": emails }));
        let request = request.bearer(key).header("Idempotency-Key", &batch.once);
        life.ask(&mut self.client, kind, &batch.once, &request)
    }

    fn submit(&mut self, life: &Life<'_>, at: usize) {
        self.batches[at].purchase.asks();
        let outcome = self.send_batch(life, "batch", at, usize::MAX);
        let batch = &mut self.batches[at];
        match outcome {
            Ok(reply) if reply.status == 202 => {
                let body = reply.json();
                let rows = batch.rows.len() as u64;
                if body["batch_id"].as_str().is_none_or(str::is_empty) || body["emails_submitted"] != rows {
                    life.wrong("batch", &reply);
                }
                if reply.header("idempotent-replayed").is_some() && !batch.purchase.in_doubt() {
                    let fault = format!("{}: it was refused, and there is one", batch.once);
                    life.shared.fault(Rule::Batches, fault);
                }
                batch.id = body["batch_id"].as_str().unwrap_or_default().to_owned();
                batch.created = Some(reply.body);
                batch.began = Instant::now();
                batch.purchase.paid();
                life.shared.verified("batches accepted", 1);
                life.shared.verified("rows accepted", rows);
            }
            Ok(reply) if reply.status == 503 && reply.nothing_was_charged() => batch.purchase.refused(),
            Ok(reply) if matches!(reply.status, 409 | 503) => batch.purchase.unknown(),
            Ok(reply) => {
                life.wrong("batch", &reply);
                batch.purchase.unknown();
            }
            Err(Lost::NotSent) => {}
            Err(Lost::NoAnswer(_)) => batch.purchase.unknown(),
        }
    }

    /// Applies a function to one of the acknowledged batches.
    fn any_batch(&mut self, life: &Life<'_>, what: fn(&mut Program, &Life<'_>, usize)) {
        if self.batches.is_empty() {
            return self.fast(life);
        }
        let at = self.random.usize(0..self.batches.len());
        what(self, life, at);
    }

    fn poll(&mut self, life: &Life<'_>, at: usize) {
        let batch = &mut self.batches[at];
        let request = HttpRequest::get(format!("/v1/verify/batch/{}", batch.id)).bearer(&self.live);
        let outcome = life.ask(&mut self.client, "poll", &batch.id, &request);
        let Ok(reply) = outcome else { return };
        if reply.status != 200 {
            return expect(life, "poll", &Ok(reply), &[503]);
        }
        let body = reply.json();
        let checked = body["checked"].as_u64().unwrap_or_default();
        if checked < batch.checked || body["total"] != batch.rows.len() as u64 {
            life.shared.fault(
                Rule::Batches,
                format!("{}: {} rows were checked, now {body}", batch.id, batch.checked),
            );
        }
        batch.checked = checked;
        if body["status"] != "completed" {
            let late = batch.began.elapsed();
            if late > BATCH_WAIT + BATCH_SLACK {
                life.shared
                    .fault(Rule::Holds, format!("{} is open after {} s: {body}", batch.id, late.as_secs()));
            }
            if batch.complete.is_some() {
                life.shared.fault(Rule::Batches, format!("{} was complete: {body}", batch.id));
            }
            return;
        }
        match &batch.complete {
            None => {
                life.shared.judge(
                    Rule::Batches,
                    "batches complete",
                    judge::rows(&batch.id, &batch.rows, &body),
                );
                batch.purchase.ended();
                batch.complete = Some(reply.body);
                batch.complete_in = life.number;
            }
            Some(first) => {
                let outcome = judge::same(&batch.id, first, &reply.body);
                life.shared.judge(Rule::Replays, "batches read again", outcome);
                batch.read_again |= life.number > batch.complete_in;
            }
        }
        self.forget_one();
    }

    /// Removes a batch that was read in two lives.
    fn forget_one(&mut self) {
        let done = |batch: &ProgramBatch| batch.read_again;
        if self.batches.iter().filter(|batch| batch.complete.is_some()).count() > COMPLETE_MAX {
            let all: Vec<usize> = (0..self.batches.len()).filter(|&at| done(&self.batches[at])).collect();
            if let Some(&at) = self.random.choice(&all) {
                self.batches.swap_remove(at);
            }
        }
    }

    fn replay(&mut self, life: &Life<'_>, at: usize) {
        let outcome = self.send_batch(life, "replay", at, usize::MAX);
        let Some(created) = &self.batches[at].created else { return };
        match outcome {
            Ok(reply) if reply.status == 202 => {
                let what = format!("the replay of {}", self.batches[at].once);
                life.shared.judge(
                    Rule::Replays,
                    "replays of batches",
                    judge::same(&what, created, &reply.body),
                );
                if reply.header("idempotent-replayed") != Some("true") {
                    life.shared.fault(Rule::Replays, format!("{what} does not say that it is one"));
                }
            }
            other => expect(life, "replay", &other, &[409, 503]),
        }
    }

    /// Checks that another body with the same Idempotency-Key is refused, also after restarts.
    fn reuse_key(&mut self, life: &Life<'_>, at: usize) {
        let rows = self.batches[at].rows.len() - 1;
        match self.send_batch(life, "other body", at, rows) {
            Ok(reply) if reply.status == 422 => life.shared.verified("keys with another body refused", 1),
            Ok(reply) if !matches!(reply.status, 409 | 503) => {
                let fault =
                    format!("{} with another body: {} {}", self.batches[at].once, reply.status, reply.text());
                life.shared.fault(Rule::Replays, fault);
            }
            _ => {}
        }
    }
}

/// Sends a full check; returns it if it has no answer yet.
pub fn full_check(
    life: &Life<'_>,
    client: &mut HttpClient,
    key: &str,
    mut single: Single,
) -> Result<(String, Reasons), Single> {
    single.purchase.asks();
    let request = HttpRequest::json("/v1/verify", &json!({ "email": single.email })).bearer(key);
    match life.ask(client, "full check", &single.email, &request) {
        Ok(reply) if reply.status == 200 => {
            life.shared.judge(Rule::Charges, "checks", judge(&single, &reply.json()));
            single.purchase.paid();
            return Ok((single.email, single.reasons));
        }
        Ok(reply) if reply.status == 503 && reply.nothing_was_charged() => single.purchase.refused(),
        Ok(reply) => {
            if reply.status != 503 {
                life.wrong("full check", &reply);
            }
            single.purchase.unknown();
        }
        Err(Lost::NotSent) => {}
        Err(Lost::NoAnswer(_)) => single.purchase.unknown(),
    }
    Err(single)
}

/// Checks the answer to a full check that was not acknowledged before.
pub fn judge(single: &Single, answer: &Value) -> Result<(), String> {
    judge::single(false, single.purchase.in_doubt(), answer, &single.email, &single.reasons)
}

/// Records a fault unless the answer is missing or has one of these statuses.
pub fn expect(life: &Life<'_>, kind: &str, outcome: &Result<HttpReply, Lost>, statuses: &[u16]) {
    if let Ok(reply) = outcome
        && !statuses.contains(&reply.status)
    {
        life.wrong(kind, reply);
    }
}
