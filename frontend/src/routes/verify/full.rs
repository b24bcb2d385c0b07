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

use crate::convert;
use crate::engine_client::NoFinding;
use crate::metrics::count;
use crate::refusal::Refusal;
use crate::survive::survive;
use crate::worker::Worker;
use api::Reason;
use engine::proto::address::Address;
use engine::proto::limits::SINGLE_PATIENCE;
use engine::{Finding, Outage, Priority};
use flights::Seat;
use std::rc::Rc;
use std::time::Duration;
use store::clock;
use store::id::random_bits;
use store::{
    AccountId, AddressHash, AttemptError, ConnectionId, EntryId, HoldRef, HoldRequest, Known, ResultRecord,
    SettleError, Settlement, StoreError, StoredResult,
};

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

/// Whose credits pay for a check, and by which right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payer {
    /// The account.
    pub account: AccountId,
    /// The connection of an assistant, of whose attempts a charged check takes one; none where the account itself asks.
    pub connection: Option<ConnectionId>,
}

/// Why nothing was checked.
pub enum Denied {
    /// As any caller is told.
    Refused(Refusal),
    /// The connection may not.
    Attempt(AttemptError),
}

impl<E: Into<Refusal>> From<E> for Denied {
    fn from(error: E) -> Denied {
        Denied::Refused(error.into())
    }
}

/// Who asks about what.
struct Question {
    payer: Payer,
    address: Address,
    hash: AddressHash,
}

/// Checks an address for a credit of the account; for none if it is a repeat.
///
/// # Errors
/// 402 without a credit, 503 without an answer; then nothing is charged.
pub async fn check(worker: &Rc<Worker>, account: AccountId, address: Address) -> Result<Checked, Refusal> {
    let checked = check_for(worker, Payer { account, connection: None }, address).await;
    checked.map_err(|denied| match denied {
        Denied::Refused(refusal) => refusal,
        Denied::Attempt(error) => Refusal::defect().inside(error),
    })
}

/// The same for a payer of any kind.
///
/// # Errors
/// As [`check`], and where the connection may not.
pub async fn check_for(worker: &Rc<Worker>, payer: Payer, address: Address) -> Result<Checked, Denied> {
    let hash = worker.store.hash_address(&address.canonical());
    if let Known::Own(result) = worker.store.known(payer.account, &hash, clock::now())? {
        return Ok(repeat(result));
    }
    let worker = Rc::clone(worker);
    monoio::spawn(async move {
        let _promise = worker.gate.promise();
        one_at_a_time(&worker, Question { payer, address, hash }).await
    })
    .await
}

/// One for an account and an address: whoever is behind another has a repeat when that one is through. If that one
/// is refused, so are those behind it.
///
/// What a connection may not is no reason to refuse anybody else.
async fn one_at_a_time(worker: &Worker, question: Question) -> Result<Checked, Denied> {
    loop {
        match worker.commons.flights.board((question.payer.account, question.hash)) {
            Seat::First(flight) => {
                let outcome = survive(look_then_charge(worker, &question)).await;
                let outcome = outcome
                    .unwrap_or_else(|_panicked| Err(Refusal::defect().inside("a check panicked").into()));
                if let Err(Denied::Refused(refusal)) = &outcome {
                    flight.refuse(refusal);
                }
                return outcome;
            }
            Seat::Behind(waiting) => {
                if let Some(refusal) = waiting.await {
                    return Err(refusal.into());
                }
            }
        }
    }
}

/// From here on nobody else checks the address for this account, so what the store says stays true.
async fn look_then_charge(worker: &Worker, question: &Question) -> Result<Checked, Denied> {
    let now = clock::now();
    let Payer { account, connection } = question.payer;
    let known = worker.store.known(account, &question.hash, now)?;
    if let Known::Own(result) = known {
        return Ok(repeat(result));
    }
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let hold = HoldRef { account, id: EntryId::new(now, bits) };
    let share = worker.limiter.take_fair_use(account, now)?;
    if let Known::Shared(result) = known {
        let record = ResultRecord { address: question.hash, verdict: result.verdict };
        let balance = match connection {
            None => worker.store.charge_known(hold, record, now).await?,
            Some(id) => worker.store.attempt_known(id, hold, record, now).await.map_err(deny)?.balance,
        };
        share.charged();
        return Ok(charged(result.verdict.reason, balance.available()));
    }
    match connection {
        None => drop(worker.store.hold(HoldRequest { hold, credits: 1 }, now).await?),
        Some(id) => drop(worker.store.attempt(id, hold, now).await.map_err(deny)?),
    }
    let probe = worker.engine.probe(question.address.clone(), Priority::Single);
    let refusal = match survive(monoio::time::timeout(PROBE_TIME_MAX, probe)).await {
        Ok(Ok(Ok(finding))) => {
            return Ok(settle(worker, hold, question.hash, &finding).await.inspect(|_| share.charged())?);
        }
        Ok(Ok(Err(none))) => {
            if matches!(none, NoFinding::Outage(Outage::OverBudget(_))) {
                count(&worker.tally.over_budget);
            }
            refuse(none)
        }
        Ok(Err(_elapsed)) => Refusal::full().inside("the engine did not answer in time"),
        Err(_panicked) => Refusal::defect().inside("a probe panicked"),
    };
    give_back(worker, hold).await;
    Err(refusal.into())
}

async fn settle(
    worker: &Worker,
    hold: HoldRef,
    address: AddressHash,
    finding: &Finding,
) -> Result<Checked, Refusal> {
    let verdict = convert::verdict(finding);
    let with = Settlement { result: Some(ResultRecord { address, verdict }) };
    match worker.store.settle(hold, with, clock::now()).await {
        Ok(balance) => Ok(charged(verdict.reason, balance.available())),
        // Not given away: an answer is only an answer once it is durable.
        Err(error) => {
            give_back(worker, hold).await;
            let refusal = match &error {
                SettleError::Store(StoreError::Unknown(_)) => Refusal::unknown(),
                _ => Refusal::unready(),
            };
            Err(refusal.inside(format!("hold {} was not settled: {error}", hold.id)))
        }
    }
}

/// Voids a hold that nothing came of.
async fn give_back(worker: &Worker, hold: HoldRef) {
    if let Err(error) = worker.store.void(hold, clock::now()).await {
        tracing::error!(hold = %hold.id, "a hold could not be voided and stays until the next start: {error}");
    }
}

fn deny(error: AttemptError) -> Denied {
    match error {
        AttemptError::Hold(error) => error.into(),
        AttemptError::Store(error) => error.into(),
        AttemptError::Ended | AttemptError::Spent { .. } => Denied::Attempt(error),
    }
}

fn charged(reason: Reason, credits_remaining: u64) -> Checked {
    Checked { reason, credits_remaining: Some(credits_remaining), cached: false }
}

fn repeat(result: StoredResult) -> Checked {
    Checked { reason: result.verdict.reason, credits_remaining: None, cached: true }
}

/// Why nothing was found, for the caller.
pub(super) fn refuse(none: NoFinding) -> Refusal {
    match none {
        NoFinding::Outage(Outage::Unavailable) => Refusal::outage(),
        NoFinding::Refused(engine::Refusal::Full) | NoFinding::Outage(Outage::Crowded) => Refusal::full(),
        NoFinding::Outage(Outage::OverBudget(after)) => Refusal::over_budget(after),
        NoFinding::Outage(Outage::Stopping) | NoFinding::Refused(engine::Refusal::Stopping) => {
            Refusal::unready()
        }
    }
}
