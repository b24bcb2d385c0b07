//! What a client asks for, what it was told, and whether the ledger says the same afterwards.

use super::http::{self, Answer};
use super::intercept::Intercepted;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Single checks of a run, and rows of its batches.
const CHECKS: usize = 16;
const BATCHES: usize = 2;
const ROWS: usize = 10;
/// For a batch to complete, and for a store that has failed to say so.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Of a request that was not sent.
const NEVER: Times = Times { sent: u64::MAX, answered: u64::MAX };

/// Who asks.
pub struct Client<'a> {
    pub address: SocketAddr,
    pub key: &'a str,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It was not sent, or the answer said that nothing was charged.
    Nothing,
    /// No answer, or one that says that it is not known.
    Unknown,
    Done,
}

/// A request's time, counted in changes of the data folder.
#[derive(Debug, Clone, Copy)]
struct Times {
    sent: u64,
    answered: u64,
}

/// The requests of a run.
#[derive(Clone)]
pub struct Load {
    checks: Vec<Check>,
    batches: Vec<Batch>,
    pub refused: u64,
    pub unknown: u64,
}

#[derive(Clone)]
struct Check {
    address: String,
    told: Told,
    times: Times,
}

#[derive(Clone)]
struct Batch {
    once: String,
    rows: Vec<String>,
    told: Told,
    times: Times,
    /// Its id, once it is known.
    id: String,
}

impl Load {
    pub fn new() -> Load {
        let address = |number: usize| format!("user-{number}@shop-{}.example", number % 60 + 1);
        let batch = |number: usize| Batch {
            once: format!("once-{number}"),
            rows: (0..ROWS).map(|row| address(1_000 + number * ROWS + row)).collect(),
            told: Told::Nothing,
            times: NEVER,
            id: String::new(),
        };
        Load {
            checks: (0..CHECKS)
                .map(|number| Check { address: address(number), told: Told::Nothing, times: NEVER })
                .collect(),
            batches: (0..BATCHES).map(batch).collect(),
            refused: 0,
            unknown: 0,
        }
    }

    /// What a client knows whose server lost its power at that change. What was answered by then is done, what was sent later is not.
    pub fn at(&self, change: u64) -> Load {
        let known = |told: Told, times: Times| match told {
            _ if times.sent >= change => Told::Nothing,
            Told::Done if times.answered > change => Told::Unknown,
            known => known,
        };
        let mut load = self.clone();
        load.checks.iter_mut().for_each(|check| check.told = known(check.told, check.times));
        load.batches.iter_mut().for_each(|batch| batch.told = known(batch.told, batch.times));
        load
    }

    /// What all of it costs.
    pub fn price() -> u64 {
        (CHECKS + BATCHES * ROWS) as u64
    }

    /// Asks for everything once, on a disk that may fail.
    pub fn run(&mut self, client: &Client<'_>, calls: &Intercepted) -> Result<(), String> {
        let batch_every = CHECKS / BATCHES;
        for number in 0..CHECKS {
            if number % batch_every == 0
                && let Some(batch) = self.batches.get_mut(number / batch_every)
            {
                let sent = calls.operations();
                let answer = http::submit(client.address, client.key, &batch.once, &batch.rows);
                batch.times = Times { sent, answered: calls.operations() };
                batch.told = told(&answer, 202)?;
                if let (Told::Done, Ok(answer)) = (batch.told, &answer) {
                    batch.id = answer.text("batch_id").to_owned();
                }
            }
            let check = &mut self.checks[number];
            let sent = calls.operations();
            check.told = ask(client, &check.address)?;
            check.times = Times { sent, answered: calls.operations() };
        }
        let all =
            || self.checks.iter().map(|check| check.told).chain(self.batches.iter().map(|one| one.told));
        self.refused = all().filter(|told| *told == Told::Nothing).count() as u64;
        self.unknown = all().filter(|told| *told == Told::Unknown).count() as u64;
        // Reads go on, whatever has failed.
        let account = http::get(client.address, client.key, "/v1/account")?;
        if account.status != 200 {
            return Err(format!("the account: {} {}", account.status, account.body));
        }
        if self.refused + self.unknown > 0 {
            return if calls.is_met() {
                self.says_so(client)
            } else {
                Err("refused before the fault".into())
            };
        }
        self.batches.iter().try_for_each(|batch| match batch.told {
            Told::Done if !calls.is_met() => completes(client, batch),
            _ => Ok(()),
        })
    }

    /// The server says that it is not ready, or takes requests again.
    fn says_so(&mut self, client: &Client<'_>) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let check = &mut self.checks[CHECKS - 1];
        loop {
            let ready = http::open(client.address, "/readyz")?;
            if ready.status == 503 || check.told == Told::Done {
                return Ok(());
            }
            if Instant::now() > end {
                return Err("it takes no requests, and /readyz does not say so".into());
            }
            std::thread::sleep(LOOK);
            check.told = ask(client, &check.address)?;
        }
    }

    /// Asks again for what got no answer, on a disk that works: each is then answered and paid once. `spent` gives what the account
    /// has spent, and what is held.
    pub fn settle(
        &mut self,
        client: &Client<'_>,
        spent: impl Fn() -> Result<(u64, u64), String>,
    ) -> Result<(), String> {
        // Batches that were taken are worked on meanwhile: what they have cost so far is not known, only what the checks have.
        for batch in &mut self.batches {
            let answer = http::submit(client.address, client.key, &batch.once, &batch.rows)?;
            let id = answer.text("batch_id");
            if answer.status != 202 || (batch.told == Told::Done && (id != batch.id || !answer.replayed)) {
                return Err(format!("{} again: {} {}", batch.once, answer.status, answer.body));
            }
            if batch.told == Told::Nothing && answer.replayed {
                return Err(format!("{} was said not to be charged, and was taken", batch.once));
            }
            batch.id = id.to_owned();
        }
        self.batches.iter().try_for_each(|batch| completes(client, batch))?;
        let of_checks = spent()?.0.checked_sub((BATCHES * ROWS) as u64);
        let done = self.checks.iter().filter(|check| check.told == Told::Done).count() as u64;
        let maybe = done + self.checks.iter().filter(|check| check.told == Told::Unknown).count() as u64;
        if !of_checks.is_some_and(|credits| (done..=maybe).contains(&credits)) {
            return Err(format!(
                "{of_checks:?} credits for {done} checks that were answered, {maybe} at the most"
            ));
        }
        for Check { address, .. } in &self.checks {
            if ask(client, address)? != Told::Done {
                return Err(format!("{address} gets no answer on a disk that works"));
            }
        }
        match spent()? {
            (credits, 0) if credits == Load::price() => Ok(()),
            (credits, held) => {
                Err(format!("{credits} credits spent and {held} held, instead of {}", Load::price()))
            }
        }
    }
}

fn ask(client: &Client<'_>, address: &str) -> Result<Told, String> {
    let answer = http::verify(client.address, client.key, address);
    let told = told(&answer, 200)?;
    match answer {
        Ok(answer) if told == Told::Done && answer.text("reason") != "mailbox_exists" => {
            Err(format!("{address}: {}", answer.body))
        }
        _ => Ok(told),
    }
}

/// What an answer means for the ledger. Any other status than `done` and 503 is a defect.
fn told(answer: &Result<Answer, String>, done: u16) -> Result<Told, String> {
    match answer {
        Err(_) => Ok(Told::Unknown),
        Ok(answer) if answer.status == done => Ok(Told::Done),
        Ok(answer) if answer.status == 503 && answer.text("message").contains("nothing was charged") => {
            Ok(Told::Nothing)
        }
        Ok(answer) if answer.status == 503 => Ok(Told::Unknown),
        Ok(answer) => Err(format!("{} {}", answer.status, answer.body)),
    }
}

/// The batch ends with each row once, in order, and right.
fn completes(client: &Client<'_>, batch: &Batch) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = http::poll(client.address, client.key, &batch.id)?;
        if answer.status == 200 && answer.text("status") == "completed" {
            let results = answer.body.get("results").and_then(Value::as_array).cloned().unwrap_or_default();
            let text = |row: &Value, field: &str| row.get(field).and_then(Value::as_str).map(str::to_owned);
            let is_right = results.len() == batch.rows.len()
                && results.iter().zip(&batch.rows).all(|(row, address)| {
                    text(row, "email").as_ref() == Some(address)
                        && text(row, "reason").as_deref() == Some("mailbox_exists")
                });
            return if is_right { Ok(()) } else { Err(format!("{}: {}", batch.once, answer.body)) };
        }
        if answer.status != 200 || Instant::now() > end {
            return Err(format!("{}: {} {}", batch.once, answer.status, answer.body));
        }
        std::thread::sleep(LOOK);
    }
}
