//! `soak credits`: many clients at once spend the last credits of an account, and the account never pays more than it
//! has.
//!
//! First [`CLIENTS`] clients share an account with fewer credits than there are checks. As many checks as there are
//! credits must be answered and charged, and every other check refused with 402. No balance in an answer may exceed the
//! balance before the run. Then the same is tested with batches.

use super::api::Api;
use super::client::HttpReply;
use super::crowd::each;
use super::judge::{self, Claim};
use super::options::{SoakOptions, sizes};
use super::world::CampaignFolder;
use crate::failure::{Failure, ensure};
use crate::interop::report::{self, Tally, outcome};
use serde_json::Value;
use std::time::Duration;

const CLIENTS: usize = 64;
/// Addresses of one batch.
const BATCH: usize = 200;
/// How long the accepted batches may take to complete.
const COMPLETION_LIMIT: Duration = Duration::from_secs(600);

sizes! {
    struct CreditSize {
        credits: usize = 1000, 100;
        checks: usize = 5000, 500;
        /// How many batches the second account can pay.
        paid: usize = 100, 5;
        batches: usize = 500, 25;
    }
}

const SCENARIO: &str =
    "seed = 5\n[[group]]\nname = \"shop-{n}.example\"\ncount = 100\nmailboxes.ok = [\"user-#\"]\n";

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = CreditSize::of(options.small);
    report::line(&format!(
        "credits: {CLIENTS} clients, {} checks for {} credits, {} batches of {BATCH} for {}",
        size.checks, size.credits, size.batches, size.paid
    ));
    let world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(SCENARIO)?;
    let serve = world.serve(&mailnet, &[])?;
    let key = world.unlimited("checks", size.credits as u64)?;
    tally.check("checks", checks(&size, Api::new(serve.address, &key)));
    let claim = |credits: usize| Claim::exact(credits as u64, credits as u64);
    tally.check("the ledger after the checks", world.judge("checks", &claim(size.credits)));
    let key = world.unlimited("batches", (size.paid * BATCH) as u64)?;
    tally.check("batches", batches(&size, Api::new(serve.address, &key)));
    tally.check("the ledger after the batches", world.judge("batches", &claim(size.paid * BATCH)));
    tally.check("the server ends in order", serve.end());
    mailnet.stop()?;
    Ok(())
}

fn address(number: usize) -> String {
    format!("user-{}@shop-{}.example", number + 1, number % 100 + 1)
}

/// Splits the answers into those of status `good` and those of status 402, which must state the remaining credits.
fn split(answers: Vec<HttpReply>, good: u16, most: usize) -> Result<(Vec<Value>, usize), String> {
    let (mut paid, mut refused) = (Vec::new(), 0);
    for answer in answers {
        // The value is read as unsigned: a negative balance is an error.
        let left = answer.json()["credits_remaining"].as_u64();
        ensure!(left.is_some_and(|left| left <= most as u64), "a balance that cannot be: {answer}");
        match (answer.status, answer.word("error").as_str()) {
            (status, "") if status == good => paid.push(answer.json()),
            (402, "insufficient_credits") => refused += 1,
            _ => return Err(answer.to_string()),
        }
    }
    Ok((paid, refused))
}

fn checks(size: &CreditSize, api: Api<'_>) -> Result<String, String> {
    let answers = each(size.checks, CLIENTS, |number| api.verify(&address(number)))?;
    let (paid, refused) = split(answers.into_iter().collect::<Result<_, _>>()?, 200, size.credits)?;
    if let Some(wrong) = paid.iter().find(|body| body["reason"] != "mailbox_exists") {
        return Err(format!("wrong: {wrong}"));
    }
    let figures = format!("{} answered, {refused} refused with 402", paid.len());
    outcome(paid.len() == size.credits && refused == size.checks - size.credits, figures)
}

fn batches(size: &CreditSize, api: Api<'_>) -> Result<String, String> {
    let rows =
        |batch: usize| (0..BATCH).map(|row| address(1_000_000 + batch * BATCH + row)).collect::<Vec<_>>();
    let answers = each(size.batches, CLIENTS, |batch| api.submit("", &rows(batch)))?;
    let answers: Vec<HttpReply> = answers.into_iter().collect::<Result<_, _>>()?;
    let unpriced = |answer: &&HttpReply| answer.status == 402 && answer.json()["credits_required"] != BATCH;
    if let Some(answer) = answers.iter().find(unpriced) {
        return Err(format!("402 without its price: {answer}"));
    }
    let accepted: Vec<usize> = (0..size.batches).filter(|batch| answers[*batch].status == 202).collect();
    let (paid, refused) = split(answers, 202, size.paid * BATCH)?;
    let figures = format!("{} accepted, {refused} refused with 402", paid.len());
    if paid.len() != size.paid || refused != size.batches - size.paid {
        return Err(figures);
    }
    for (body, batch) in paid.iter().zip(accepted) {
        let id = body["batch_id"].as_str().unwrap_or_default();
        let expected = judge::alike(&rows(batch), "mailbox_exists");
        judge::rows(id, &expected, &api.complete(id, COMPLETION_LIMIT)?)?;
    }
    Ok(figures)
}
