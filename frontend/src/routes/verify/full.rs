//! A charged check: hold a credit, ask, then settle or void.
//!
//! The three steps run as a task of their own. A caller who hangs up does not stop it: the probe was made for
//! them, so its credit is settled all the same, or voided when nothing could be asked. Every way out of the task
//! after the hold goes through settle or void; what a kill cuts short is voided at the next start.

use crate::clock;
use crate::convert;
use crate::engine_client::NoFinding;
use crate::refusal::Refusal;
use crate::store::id::random_bits;
use crate::store::{AccountId, EntryId, HoldRef, HoldRequest, Settlement};
use crate::survive::survive;
use crate::worker::Worker;
use api::Reason;
use engine::proto::address::Address;
use engine::proto::limits::SINGLE_PATIENCE;
use engine::{Finding, Outage, Priority};
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

/// Checks an address for a credit of the account.
///
/// # Errors
/// 402 without a credit, 503 without an answer; then nothing is charged.
pub async fn check(worker: &Rc<Worker>, account: AccountId, address: Address) -> Result<Checked, Refusal> {
    let worker = Rc::clone(worker);
    monoio::spawn(async move {
        let _promise = worker.gate.promise();
        let outcome = survive(charged(&worker, account, address)).await;
        outcome.unwrap_or_else(|_panicked| Err(Refusal::defect().inside("a check panicked")))
    })
    .await
}

async fn charged(worker: &Worker, account: AccountId, address: Address) -> Result<Checked, Refusal> {
    let now = clock::now();
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let hold = HoldRef { account, id: EntryId::new(now, bits) };
    worker.store.hold(HoldRequest { hold, credits: 1 }, now).await?;
    let probe = worker.engine.probe(address, Priority::Single);
    let refusal = match survive(monoio::time::timeout(PROBE_TIME_MAX, probe)).await {
        Ok(Ok(Ok(finding))) => return settle(worker, hold, &finding).await,
        Ok(Ok(Err(none))) => refuse(none),
        Ok(Err(_elapsed)) => Refusal::full().inside("the engine did not answer in time"),
        Err(_panicked) => Refusal::defect().inside("a probe panicked"),
    };
    if let Err(error) = worker.store.void(hold, clock::now()).await {
        tracing::error!(hold = %hold.id, "a hold could not be voided and stays until the next start: {error}");
    }
    Err(refusal)
}

async fn settle(worker: &Worker, hold: HoldRef, finding: &Finding) -> Result<Checked, Refusal> {
    match worker.store.settle(hold, Settlement::default(), clock::now()).await {
        Ok(balance) => Ok(Checked {
            reason: convert::reason(finding.reason),
            credits_remaining: Some(balance.available()),
            cached: false,
        }),
        // Not given away: an answer is only an answer once it is durable.
        Err(error) => Err(Refusal::unready().inside(format!("hold {} was not settled: {error}", hold.id))),
    }
}

/// Why nothing was found, for the caller.
pub(super) fn refuse(none: NoFinding) -> Refusal {
    match none {
        NoFinding::Outage(Outage::Unavailable) => Refusal::outage(),
        NoFinding::Refused(engine::Refusal::Full) => Refusal::full(),
        NoFinding::Outage(Outage::Stopping) | NoFinding::Refused(engine::Refusal::Stopping) => {
            Refusal::unready()
        }
    }
}
