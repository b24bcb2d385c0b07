//! The requests of a client, their answers, and the comparison with the ledger.

use super::api::Api;
use super::client::HttpReply;
use super::intercept::Intercepted;
use super::judge::{self, Claim};
use crate::failure::ensure;
use std::time::{Duration, Instant};

/// How many single checks a run has, and how many rows its batches have.
const CHECKS: usize = 16;
const BATCHES: usize = 2;
const CHECKS_BETWEEN: usize = CHECKS / BATCHES;
const ROWS: usize = 10;
/// How long a batch may take to complete, and how long a store may take to report a failure.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// The answer when no resolver or no mail server replied. On a busy machine this can be the first answer of a server,
/// and it says nothing of the disk.
const UNREACHED: &str = "provider_unavailable";
/// The times of a request that was not sent.
const NEVER: Times = Times { sent: u64::MAX, answered: u64::MAX };

/// What the client knows about the charge of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The request was not sent, or the answer stated that nothing was charged.
    Nothing,
    /// There was no answer, or the answer stated that the charge is not known.
    Unknown,
    Done,
}

/// The time of a request, counted in changes of the data folder.
#[derive(Debug, Clone, Copy)]
struct Times {
    sent: u64,
    answered: u64,
}

/// The requests of a run with their answers, in the order in which they are sent.
#[derive(Clone)]
pub struct RequestLoad {
    requests: Vec<LoadRequest>,
    pub refused: u64,
    pub unknown: u64,
}

/// A single check, or a batch.
#[derive(Clone)]
struct LoadRequest {
    addresses: Vec<String>,
    /// The Idempotency-Key of a batch; empty for a check.
    once: String,
    told: Told,
    times: Times,
    /// The id of the batch, if it is known.
    id: String,
}

impl LoadRequest {
    fn new(once: String, numbers: std::ops::Range<usize>) -> LoadRequest {
        let address = |number: usize| format!("user-{number}@shop-{}.example", number % 60 + 1);
        let (addresses, id) = (numbers.map(address).collect(), String::new());
        LoadRequest { addresses, once, told: Told::Nothing, times: NEVER, id }
    }

    fn is_batch(&self) -> bool {
        !self.once.is_empty()
    }
}

impl RequestLoad {
    /// The requests of a run, of which none is sent yet.
    pub fn new() -> RequestLoad {
        let mut requests = Vec::new();
        for number in 0..CHECKS {
            let (batch, rest) = (number / CHECKS_BETWEEN, number % CHECKS_BETWEEN);
            if rest == 0 {
                let first = 1_000 + batch * ROWS;
                requests.push(LoadRequest::new(format!("once-{batch}"), first..first + ROWS));
            }
            requests.push(LoadRequest::new(String::new(), number..number + 1));
        }
        RequestLoad { requests, refused: 0, unknown: 0 }
    }

    fn batches(&self) -> impl Iterator<Item = &LoadRequest> {
        self.requests.iter().filter(|request| request.is_batch())
    }

    fn checks(&self) -> impl Iterator<Item = &LoadRequest> {
        self.requests.iter().filter(|request| !request.is_batch())
    }

    /// What a client knows if the server lost power at that change. Requests answered by then count as done, and
    /// requests sent later as not sent.
    pub fn at(&self, change: u64) -> RequestLoad {
        let known = |told: Told, times: Times| match told {
            _ if times.sent >= change => Told::Nothing,
            Told::Done if times.answered > change => Told::Unknown,
            known => known,
        };
        let mut load = self.clone();
        load.requests.iter_mut().for_each(|request| request.told = known(request.told, request.times));
        load
    }

    /// Sends every request once, on a disk that may fail.
    ///
    /// # Errors
    ///
    /// The server gave an answer that contradicts the plan of failures.
    pub fn run(&mut self, api: Api<'_>, calls: &Intercepted) -> Result<(), String> {
        for request in &mut self.requests {
            let sent = calls.operations();
            request.told = if request.is_batch() {
                let answer = api.submit(&request.once, &request.addresses);
                request.id = answer.as_ref().map(|answer| answer.word("batch_id")).unwrap_or_default();
                told(&answer, 202)?
            } else {
                ask(api, &request.addresses[0])?
            };
            request.times = Times { sent, answered: calls.operations() };
        }
        let count = |told| self.requests.iter().filter(|request| request.told == told).count() as u64;
        (self.refused, self.unknown) = (count(Told::Nothing), count(Told::Unknown));
        // Reads must continue after any failure.
        let account = api.get("/v1/account")?;
        ensure!(account.status == 200, "the account: {account}");
        if self.refused + self.unknown > 0 {
            return if calls.is_met() { self.says_so(api) } else { Err("refused before the fault".into()) };
        }
        self.batches().try_for_each(|batch| match batch.told {
            Told::Done if !calls.is_met() => completes(api, batch),
            _ => Ok(()),
        })
    }

    /// Checks that the server reports that it is not ready, or takes requests again.
    fn says_so(&mut self, api: Api<'_>) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let check = self.requests.last_mut().ok_or("there are no requests")?;
        loop {
            let ready = api.get("/readyz")?;
            if ready.status == 503 || check.told == Told::Done {
                return Ok(());
            }
            ensure!(Instant::now() <= end, "it takes no requests, and /readyz does not say so");
            std::thread::sleep(LOOK);
            check.told = ask(api, &check.addresses[0])?;
        }
    }

    /// Repeats requests without an answer, on a disk that works: each is then answered and paid once. `judge` compares the ledger
    /// of the account with a claim.
    pub fn settle(
        &mut self,
        api: Api<'_>,
        judge: impl Fn(&Claim) -> Result<String, String>,
    ) -> Result<(), String> {
        // The server works on accepted batches meanwhile, so their cost so far is unknown. Only that of the checks is
        // known.
        for batch in self.requests.iter_mut().filter(|request| request.is_batch()) {
            let answer = api.submit(&batch.once, &batch.addresses)?;
            let id = answer.word("batch_id");
            let is_done = batch.told == Told::Done;
            if answer.status != 202 || (is_done && (id != batch.id || !answer.is_replay())) {
                return Err(format!("{} again: {answer}", batch.once));
            }
            if batch.told == Told::Nothing && answer.is_replay() {
                return Err(format!("{} was said not to be charged, and was taken", batch.once));
            }
            batch.id = id;
        }
        self.batches().try_for_each(|batch| completes(api, batch))?;
        let count = |told: Told| self.checks().filter(|check| check.told == told).count() as u64;
        let lasting = (BATCHES * ROWS) as u64;
        judge(&Claim {
            granted: None,
            paid: count(Told::Done) + lasting,
            open: count(Told::Unknown),
            lasting,
            lasting_count: BATCHES as u64,
        })?;
        for address in self.checks().flat_map(|check| &check.addresses) {
            let answer = verify(api, address);
            if read_check(address, &answer)? != Told::Done {
                return Err(format!("{address} gets no answer on a disk that works: {answer:?}"));
            }
        }
        judge(&RequestLoad::whole_claim()).map(drop)
    }

    /// The claim after all requests were answered.
    pub fn whole_claim() -> Claim {
        Claim { paid: (CHECKS + BATCHES * ROWS) as u64, ..Claim::default() }
    }
}

fn ask(api: Api<'_>, address: &str) -> Result<Told, String> {
    read_check(address, &verify(api, address))
}

/// Checks an address, and repeats the request while the server reaches no resolver or no mail server.
fn verify(api: Api<'_>, address: &str) -> Result<HttpReply, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = api.verify(address)?;
        if answer.word("error") != UNREACHED || Instant::now() > end {
            return Ok(answer);
        }
        std::thread::sleep(LOOK);
    }
}

/// What the client knows from the answer to a single check. Any reason other than the right one is a defect.
fn read_check(address: &str, answer: &Result<HttpReply, String>) -> Result<Told, String> {
    let told = told(answer, 200)?;
    match answer {
        Ok(answer) if told == Told::Done && answer.word("reason") != "mailbox_exists" => {
            Err(format!("{address}: {answer}"))
        }
        _ => Ok(told),
    }
}

/// What the client knows from an answer. Any status other than `done` and 503 is a defect.
fn told(answer: &Result<HttpReply, String>, done: u16) -> Result<Told, String> {
    match answer {
        Err(_) => Ok(Told::Unknown),
        Ok(answer) if answer.status == done => Ok(Told::Done),
        Ok(answer) if answer.status == 503 && answer.nothing_was_charged() => Ok(Told::Nothing),
        Ok(answer) if answer.status == 503 => Ok(Told::Unknown),
        Ok(answer) => Err(answer.to_string()),
    }
}

/// Checks that the batch ends with each row once, in order, and right.
fn completes(api: Api<'_>, batch: &LoadRequest) -> Result<(), String> {
    let expected = judge::alike(&batch.addresses, "mailbox_exists");
    judge::rows(&batch.once, &expected, &api.complete(&batch.id, PATIENCE)?)
}
