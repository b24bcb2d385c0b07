//! A charged check: hold a credit, ask, then settle with the result or void.
//!
//! Before it come the account's own answer of the last 24 hours, which is free, and somebody's check of the same
//! address at this moment, which is waited for ([`flights`]). A verdict that is known from another account's check
//! costs the credit and asks nobody.
//!
//! All this runs as a task of its own. A caller who hangs up does not stop it: the probe was made for them, so its
//! credit is settled all the same, or voided when nothing could be asked. Every way out of the task after the hold
//! goes through settle or void; what a kill cuts short is voided at the next start.

pub mod flights;

use crate::clock;
use crate::convert;
use crate::engine_client::NoFinding;
use crate::refusal::Refusal;
use crate::store::id::random_bits;
use crate::store::{
    AccountId, AddressHash, EntryId, HoldRef, HoldRequest, Known, ResultRecord, Settlement, StoredResult,
};
use crate::survive::survive;
use crate::worker::Worker;
use api::Reason;
use engine::proto::address::Address;
use engine::proto::limits::SINGLE_PATIENCE;
use engine::{Finding, Outage, Priority};
use flights::Seat;
use std::rc::Rc;
use std::time::Duration;

/// The longest that a caller waits. The engine answers well before; this is for the day on which it does not.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(60);
const _: () = assert!(PROBE_TIME_MAX.as_secs() >= SINGLE_PATIENCE.as_secs() + 10);

/// What a full check came to.
pub struct Checked {
    /// The verdict's reason.
    pub reason: Reason,
    /// The balance after it; none when nothing was charged.
    pub credits_remaining: Option<u64>,
    /// It is the account's own answer of the last 24 hours.
    pub cached: bool,
}

/// Who asks about what.
struct Question {
    account: AccountId,
    address: Address,
    hash: AddressHash,
}

/// Checks an address for a credit of the account; for none if it is a repeat.
///
/// # Errors
/// 402 without a credit, 503 without an answer; then nothing is charged.
pub async fn check(worker: &Rc<Worker>, account: AccountId, address: Address) -> Result<Checked, Refusal> {
    let hash = worker.store.hash_address(&address.canonical());
    if let Known::Own(result) = worker.store.known(account, &hash, clock::now())? {
        return Ok(repeat(result));
    }
    let worker = Rc::clone(worker);
    monoio::spawn(async move {
        let _promise = worker.gate.promise();
        one_at_a_time(&worker, Question { account, address, hash }).await
    })
    .await
}

/// One for an account and an address: whoever is behind another has a repeat when that one is through. If that one
/// is refused, so are those behind it.
async fn one_at_a_time(worker: &Worker, question: Question) -> Result<Checked, Refusal> {
    loop {
        match worker.commons.flights.board((question.account, question.hash)) {
            Seat::First(flight) => {
                let outcome = survive(look_then_charge(worker, &question)).await;
                let outcome =
                    outcome.unwrap_or_else(|_panicked| Err(Refusal::defect().inside("a check panicked")));
                if let Err(refusal) = &outcome {
                    flight.refuse(refusal);
                }
                return outcome;
            }
            Seat::Behind(waiting) => {
                if let Some(refusal) = waiting.await {
                    return Err(refusal);
                }
            }
        }
    }
}

/// From here on nobody else checks the address for this account, so what the store says stays true.
async fn look_then_charge(worker: &Worker, question: &Question) -> Result<Checked, Refusal> {
    let now = clock::now();
    let known = worker.store.known(question.account, &question.hash, now)?;
    if let Known::Own(result) = known {
        return Ok(repeat(result));
    }
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let hold = HoldRef { account: question.account, id: EntryId::new(now, bits) };
    let share = worker.limiter.take_fair_use(question.account, now)?;
    if let Known::Shared(result) = known {
        let record = ResultRecord { address: question.hash, reason: result.reason };
        let balance = worker.store.charge_known(hold, record, now).await?;
        share.charged();
        return Ok(charged(result.reason, balance.available()));
    }
    worker.store.hold(HoldRequest { hold, credits: 1 }, now).await?;
    let probe = worker.engine.probe(question.address.clone(), Priority::Single);
    let refusal = match survive(monoio::time::timeout(PROBE_TIME_MAX, probe)).await {
        Ok(Ok(Ok(finding))) => {
            return settle(worker, hold, question.hash, &finding).await.inspect(|_| share.charged());
        }
        Ok(Ok(Err(none))) => refuse(none),
        Ok(Err(_elapsed)) => Refusal::full().inside("the engine did not answer in time"),
        Err(_panicked) => Refusal::defect().inside("a probe panicked"),
    };
    if let Err(error) = worker.store.void(hold, clock::now()).await {
        tracing::error!(hold = %hold.id, "a hold could not be voided and stays until the next start: {error}");
    }
    Err(refusal)
}

async fn settle(
    worker: &Worker,
    hold: HoldRef,
    address: AddressHash,
    finding: &Finding,
) -> Result<Checked, Refusal> {
    let reason = convert::reason(finding.reason);
    let with = Settlement { result: Some(ResultRecord { address, reason }) };
    match worker.store.settle(hold, with, clock::now()).await {
        Ok(balance) => Ok(charged(reason, balance.available())),
        // Not given away: an answer is only an answer once it is durable.
        Err(error) => Err(Refusal::unready().inside(format!("hold {} was not settled: {error}", hold.id))),
    }
}

fn charged(reason: Reason, credits_remaining: u64) -> Checked {
    Checked { reason, credits_remaining: Some(credits_remaining), cached: false }
}

fn repeat(result: StoredResult) -> Checked {
    Checked { reason: result.reason, credits_remaining: None, cached: true }
}

/// Why nothing was found, for the caller.
pub(super) fn refuse(none: NoFinding) -> Refusal {
    match none {
        NoFinding::Outage(Outage::Unavailable) => Refusal::outage(),
        NoFinding::Refused(engine::Refusal::Full) | NoFinding::Outage(Outage::Crowded) => Refusal::full(),
        NoFinding::Outage(Outage::Stopping) | NoFinding::Refused(engine::Refusal::Stopping) => {
            Refusal::unready()
        }
    }
}
