//! A charged check: hold a credit, ask, then settle with the result or void.
//!
//! Two cases precede it. The account's own answer of the last 24 hours is free. If the account is already checking the
//! same address, the request waits for that check ([`shared`]). A verdict that is known from another account's check
//! costs a credit, but no server is asked.
//!
//! A charged check runs as a separate task. If the caller hangs up, the task continues: its credit is settled, or
//! voided if nothing could be asked. Every path of the task after the hold ends with settle or void. The next start
//! voids the holds of a killed process.

pub mod shared;

use crate::convert;
use crate::counters::count;
use crate::engine_client::NoFinding;
use crate::limiter::{FairUse, Share};
use crate::panics::catch_panic;
use crate::{CheckError, Checks, evidence};
use api::{Reason, UnverifiableCause};
use engine::proto::address::Address;
use engine::proto::limits::SINGLE_PATIENCE;
use engine::{Finding, Outage, Priority};
use shared::Joined;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::clock;
use store::id::random_bits;
use store::rate_limit::fair_use;
use store::{
    AccountId, AddressHash, AttemptError, Authority, Basis, Begun, ConnectionId, EntryId, HoldRef, Known,
    NewCheck, ResultRecord, SettleError, Settlement, StoreError, StoredResult, UnixMs, Verdict,
};

/// The longest wait of a caller. The engine answers well before; this is a safeguard against a defect of the engine.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(60);
/// How often a check looks for the result of another node's check of the same address.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
const _: () = assert!(PROBE_TIME_MAX.as_secs() >= SINGLE_PATIENCE.as_secs() + 10);

/// The result of a full check.
pub struct Checked {
    /// The reason of the verdict.
    pub reason: Reason,
    /// Why the address is `unverifiable`, if that is known.
    pub cause: Option<UnverifiableCause>,
    /// The balance after the check; `None` if nothing was charged.
    pub credits_remaining: Option<u64>,
    /// If the answer is the account's own one of the last 24 hours: the time from which on a check is a new one, which costs a
    /// credit.
    pub repeats_until: Option<UnixMs>,
    /// What the verdict is based on; `None` if an earlier version stored it.
    pub basis: Option<Arc<Basis>>,
}

/// The account that pays for a check, and the basis of its right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payer {
    /// The account that pays.
    pub account: AccountId,
    /// The connection of an assistant, which allows a number of charged checks; `None` if the account itself asks.
    pub connection: Option<ConnectionId>,
    /// The key or the session of the request. The connection of an assistant is compared by itself.
    pub by: Authority,
}

/// An address with the account that asks about it.
struct PaidQuestion {
    payer: Payer,
    address: Address,
    hash: AddressHash,
}

/// Checks an address for a credit of the account; a repeat is free.
///
/// # Errors
///
/// There is no credit or no answer. Nothing is charged then.
pub async fn check(checks: &Rc<Checks>, payer: Payer, address: Address) -> Result<Checked, CheckError> {
    let Some(learned) = checks.own_evidence.of(payer.account) else {
        return check_by_servers(checks, payer, address).await;
    };
    let checked = check_by_servers(checks, payer, address.clone()).await?;
    Ok(match learned.apply(&address, checked.reason, &checks.engine.lists()) {
        Some(applied) => {
            let basis = Some(Arc::new(evidence::of_event(&applied)));
            Checked { reason: applied.reason, basis, ..checked }
        }
        None => checked,
    })
}

/// The answer of the mail servers, which the store keeps.
async fn check_by_servers(
    checks: &Rc<Checks>,
    payer: Payer,
    address: Address,
) -> Result<Checked, CheckError> {
    let hash = checks.store.hash_address(&address.canonical());
    if let Known::Own(result) = checks.store.known(payer.account, &hash, clock::now()).await? {
        return Ok(repeat(result));
    }
    let checks = Rc::clone(checks);
    // In a box, since the executor moves a task several times, and this one is large.
    monoio::spawn(Box::pin(async move {
        let _guard = checks.drain.guard();
        one_at_a_time(&checks, PaidQuestion { payer, address, hash }).await
    }))
    .await
}

/// Makes one check at a time for an account and an address. A second request for the same address finds a repeat after
/// the first has succeeded, and fails with it if it fails.
///
/// An error about a connection's permissions, or about a key or session that has ended, does not fail requests that others make.
async fn one_at_a_time(checks: &Checks, question: PaidQuestion) -> Result<Checked, CheckError> {
    loop {
        match checks.shared_checks.join((question.payer.account, question.hash)) {
            Joined::First(check) => {
                let outcome = catch_panic(look_then_charge(checks, &question)).await;
                let outcome = outcome.unwrap_or(Err(CheckError::Defect("a check panicked")));
                match &outcome {
                    Ok(_) | Err(CheckError::Attempt(_) | CheckError::Store(StoreError::Outdated)) => {}
                    Err(error) => check.fail(error),
                }
                return outcome;
            }
            Joined::Waits(waiting) => {
                if let Some(error) = waiting.await {
                    return Err(error);
                }
            }
        }
    }
}

/// No other task checks the address for this account from here on, so the store's answer remains true.
async fn look_then_charge(checks: &Checks, question: &PaidQuestion) -> Result<Checked, CheckError> {
    let now = clock::now();
    let Payer { account, connection, by } = question.payer;
    let bits = random_bits().map_err(|error| CheckError::NoRandomBits(error.to_string()))?;
    let hold = HoldRef { account, id: EntryId::new(now, bits) };
    let (share, fair_use) = match checks.limiter.fair_use(account, now) {
        Ok(FairUse::Taken(share)) => (Some(share), None),
        Ok(FairUse::Shared(limits)) => (None, Some(limits)),
        // A repeat is free, also after the fair use.
        Err(limited) => match checks.store.known(account, &question.hash, now).await? {
            Known::Own(result) => return Ok(repeat(result)),
            Known::Shared(_) | Known::Nothing => return Err(limited.into()),
        },
    };
    let charge = |share: Option<Share<'_>>| share.map_or((), Share::charged);
    let check = NewCheck { hold, connection, address: question.hash, fair_use, by };
    let begun = begin(checks, check, now).await.map_err(|error| match (error, fair_use) {
        (AttemptError::FairUse { wait_ms }, Some(limits)) => fair_use::limited(limits, wait_ms, now).into(),
        (error, _) => CheckError::from(error),
    })?;
    match begun {
        Begun::Own(result) => return Ok(repeat(result)),
        Begun::Charged(result, balance) => {
            charge(share);
            return Ok(charged(result.verdict, balance.available()));
        }
        Begun::Held(_) => {}
        Begun::UnderWay => return Err(CheckError::TimedOut),
    }
    let probe = checks.engine.probe(question.address.clone(), Priority::Single);
    let error = match catch_panic(monoio::time::timeout(PROBE_TIME_MAX, probe)).await {
        Ok(Ok(Ok(finding))) => {
            return settle(checks, hold, question.hash, &finding).await.inspect(|_| charge(share));
        }
        Ok(Ok(Err(none))) => {
            if matches!(none, NoFinding::Outage(Outage::OverBudget { .. })) {
                count(&checks.tally.over_budget);
            }
            none.into()
        }
        Ok(Err(_elapsed)) => CheckError::TimedOut,
        Err(_panicked) => CheckError::Defect("a probe panicked"),
    };
    give_back(checks, hold).await;
    Err(error)
}

/// Begins a check, and waits while another node checks the address for the account.
async fn begin(checks: &Checks, check: NewCheck, now: UnixMs) -> Result<Begun, AttemptError> {
    let mut looks = PROBE_TIME_MAX.as_millis() / LOOK_PAUSE.as_millis();
    loop {
        let begun = checks.store.begin_check(check, now).await?;
        if begun != Begun::UnderWay || looks == 0 {
            return Ok(begun);
        }
        looks -= 1;
        monoio::time::sleep(LOOK_PAUSE).await;
    }
}

async fn settle(
    checks: &Checks,
    hold: HoldRef,
    address: AddressHash,
    finding: &Finding,
) -> Result<Checked, CheckError> {
    let verdict = convert::verdict(finding, clock::now());
    let with = Settlement { result: Some(ResultRecord { address, verdict: verdict.clone() }) };
    match checks.store.settle(hold, with, clock::now()).await {
        Ok(balance) => Ok(charged(verdict, balance.available())),
        // The result is withheld: an answer must be durable first.
        Err(error) => {
            give_back(checks, hold).await;
            Err(CheckError::NotSettled { hold: hold.id, error })
        }
    }
}

/// Voids the hold of a check without a result.
async fn give_back(checks: &Checks, hold: HoldRef) {
    match checks.store.void(hold, clock::now()).await {
        // With PostgreSQL, a settlement without an answer may succeed later, and another node voids the holds of a paused one.
        Ok(_) | Err(SettleError::AlreadySettled | SettleError::AlreadyVoided) => {}
        // The end of a hold is tried on.
        Err(SettleError::Store(error @ (StoreError::Away(_) | StoreError::Unknown(_))))
            if checks.store.has_nodes() =>
        {
            tracing::warn!(hold = %hold.id, "a hold is not voided yet: {error}");
        }
        Err(error) => {
            tracing::error!(hold = %hold.id, "a hold could not be voided and stays until the next start: {error}");
        }
    }
}

fn charged(Verdict { reason, cause, basis, .. }: Verdict, credits_remaining: u64) -> Checked {
    Checked { reason, cause, credits_remaining: Some(credits_remaining), repeats_until: None, basis }
}

fn repeat(result: StoredResult) -> Checked {
    let repeats_until = Some(result.repeats_until());
    let Verdict { reason, cause, basis, .. } = result.verdict;
    Checked { reason, cause, credits_remaining: None, repeats_until, basis }
}
