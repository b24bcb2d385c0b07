//! `soak credits`: many clients at once spend the last credits of an account, and the account never pays more than it
//! has.
//!
//! First [`CLIENTS`] clients share an account with fewer credits than there are checks. As many checks as there are
//! credits must be answered and charged, and every other check refused with 402. No balance in an answer may exceed the
//! balance before the run. Then the same is tested with batches.

use super::http;
use super::options::SoakOptions;
use super::world::{CampaignFolder, Credits};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
/// Addresses of one batch.
const BATCH: usize = 200;
/// How long the accepted batches may take to complete.
const COMPLETION_LIMIT: Duration = Duration::from_secs(600);

struct CreditSize {
    credits: usize,
    checks: usize,
    /// How many batches the second account can pay.
    paid: usize,
    batches: usize,
}

const FULL: CreditSize = CreditSize { credits: 1000, checks: 5000, paid: 100, batches: 500 };
const SMALL: CreditSize = CreditSize { credits: 100, checks: 500, paid: 5, batches: 25 };

const SCENARIO: &str =
    "seed = 5\n[[group]]\nname = \"shop-{n}.example\"\ncount = 100\nmailboxes.ok = [\"user-#\"]\n";

/// Runs the campaign and returns the counts of its checks.
///
/// # Errors
///
/// The campaign cannot be set up, or a step of it fails in an unexpected way.
pub fn run(options: &SoakOptions) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!(
        "credits: {CLIENTS} clients, {} checks for {} credits, {} batches of {BATCH} for {}",
        size.checks, size.credits, size.batches, size.paid
    ));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let plans = world.plans()?;
    let serve = world.serve(&mailnet, &plans.each_ref().map(String::as_str))?;
    let mut tally = Tally::default();
    let key = world.unlimited("checks", size.credits as u64)?;
    tally.check("checks", checks(&size, serve.address, &key));
    tally.check("the ledger after the checks", ledger(&world, "checks", size.credits));
    let key = world.unlimited("batches", (size.paid * BATCH) as u64)?;
    tally.check("batches", batches(&size, serve.address, &key));
    tally.check("the ledger after the batches", ledger(&world, "batches", size.paid * BATCH));
    let stopped = serve.stop().map(|()| "status 0".to_owned()).map_err(|failure| failure.0);
    tally.check("the server ends in order", stopped);
    mailnet.stop()?;
    Ok(Some(tally))
}

fn address(number: usize) -> String {
    format!("user-{}@shop-{}.example", number + 1, number % 100 + 1)
}

/// Sends `count` requests from all clients and returns every answer.
fn storm(
    count: usize,
    send: impl Fn(usize) -> Result<http::ApiAnswer, String> + Sync,
) -> Result<Vec<http::ApiAnswer>, String> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let client = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count || interrupted().is_err() {
            return;
        }
        let answer = send(number);
        answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
    interrupted().map_err(|failure| failure.0)?;
    answers.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

/// Splits the answers into those of status `good` and those of status 402, which must state the remaining credits.
fn split(answers: Vec<http::ApiAnswer>, good: u16, most: usize) -> Result<(Vec<Value>, usize), String> {
    let (mut paid, mut refused) = (Vec::new(), 0);
    for answer in answers {
        // The value is read as unsigned: a negative balance is an error.
        let left = answer.body.get("credits_remaining").and_then(Value::as_u64);
        if left.is_none_or(|left| left > most as u64) {
            return Err(format!("{} with a balance that cannot be: {}", answer.status, answer.body));
        }
        match (answer.status, answer.text("error")) {
            (status, "") if status == good => paid.push(answer.body),
            (402, "insufficient_credits") => refused += 1,
            (status, _) => return Err(format!("{status} {}", answer.body)),
        }
    }
    Ok((paid, refused))
}

fn checks(size: &CreditSize, server: SocketAddr, key: &str) -> Result<String, String> {
    let answers = storm(size.checks, |number| http::verify(server, key, &address(number)))?;
    let (paid, refused) = split(answers, 200, size.credits)?;
    if let Some(wrong) = paid.iter().find(|body| body["reason"] != "mailbox_exists") {
        return Err(format!("wrong: {wrong}"));
    }
    let figures = format!("{} answered, {refused} refused with 402", paid.len());
    let exact = paid.len() == size.credits && refused == size.checks - size.credits;
    if exact { Ok(figures) } else { Err(figures) }
}

fn batches(size: &CreditSize, server: SocketAddr, key: &str) -> Result<String, String> {
    let rows =
        |batch: usize| (0..BATCH).map(|row| address(1_000_000 + batch * BATCH + row)).collect::<Vec<_>>();
    let answers = storm(size.batches, |batch| http::submit(server, key, "", &rows(batch)))?;
    let unpriced =
        |answer: &&http::ApiAnswer| answer.status == 402 && answer.body["credits_required"] != BATCH;
    if let Some(answer) = answers.iter().find(unpriced) {
        return Err(format!("402 without its price: {}", answer.body));
    }
    let (paid, refused) = split(answers, 202, size.paid * BATCH)?;
    let figures = format!("{} accepted, {refused} refused with 402", paid.len());
    if paid.len() != size.paid || refused != size.batches - size.paid {
        return Err(figures);
    }
    let end = Instant::now() + COMPLETION_LIMIT;
    for batch in &paid {
        let id = batch["batch_id"].as_str().unwrap_or_default();
        let polled = loop {
            let polled = http::poll(server, key, id)?;
            if polled.text("status") == "completed" {
                break polled;
            }
            if Instant::now() > end || polled.status != 200 {
                return Err(format!("{id} does not complete: {} {}", polled.status, polled.body));
            }
            sleep(Duration::from_millis(200)).map_err(|failure| failure.0)?;
        };
        let rows = polled.body["results"].as_array().map_or(&[][..], Vec::as_slice);
        if rows.len() != BATCH || rows.iter().any(|row| row["reason"] != "mailbox_exists") {
            return Err(format!("{id}: wrong rows"));
        }
    }
    Ok(figures)
}

/// Checks that everything is spent, nothing is held, and the sums agree.
fn ledger(world: &CampaignFolder, name: &str, granted: usize) -> Result<String, String> {
    let shown = world.json(&["account", "show", name]).map_err(|failure| failure.0)?;
    let credits = Credits::of(shown.get("account").unwrap_or(&shown)).map_err(|failure| failure.0)?;
    let faults = shown["audit"]["faults"].as_array().map_or(usize::MAX, Vec::len);
    let all = granted as u64;
    let expected = Credits { available: 0, held: 0, spent: all, expired: 0, granted: all };
    if credits == expected && faults == 0 { Ok(format!("{all} spent")) } else { Err(shown.to_string()) }
}
