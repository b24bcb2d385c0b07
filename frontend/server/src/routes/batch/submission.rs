//! The submission of a batch: it is read completely first, and then created in one transaction.

use crate::call::Call;
use crate::worker::Worker;
use api::error::OFFENDERS_MAX;
use api::{BatchBody, BatchCreated, BatchState, ErrorCode, Offender};
use checks::auth::Caller;
use checks::idempotency::{self, Claim};
use checks::panics::catch_panic;
use checks::test_mode;
use engine::proto::address::{Address, AddressError};
use http_core::Refusal;
use http_core::Reply;
use std::rc::Rc;
use store::clock;
use store::id::random_bits;
use store::{
    self, BatchError, BatchId, BatchMode, HoldError, Idempotency, KeyMode, NewBatch, NewRow, OpenBatch,
};

/// A submitted batch with its caller.
pub struct Submission {
    caller: Caller,
    body: BatchBody,
    addresses: Vec<Address>,
    idempotency: Option<Idempotency>,
}

impl Submission {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// 400, with all errors in the form of the request, or otherwise with all errors in its addresses.
    pub fn read(caller: Caller, call: &Call) -> Result<Submission, Refusal> {
        let mut issues = Vec::new();
        let key = idempotency::key(&call.idempotency_key).unwrap_or_else(|issue| {
            issues.push(issue);
            None
        });
        let body = match BatchBody::parse(&call.body) {
            Ok(body) if issues.is_empty() => body,
            Ok(_) => return Err(Refusal::invalid(issues)),
            Err(found) => {
                issues.extend(found);
                return Err(Refusal::invalid(issues));
            }
        };
        let addresses = addresses(&body.emails)?;
        let idempotency = match key {
            Some(key) => {
                let body = idempotency::fingerprint(&call.body)
                    .map_err(|_| Refusal::defect().inside("a body that was read is no JSON any longer"))?;
                Some(Idempotency { key, body })
            }
            None => None,
        };
        Ok(Submission { caller, body, addresses, idempotency })
    }

    /// The idempotency key of the request, if it has one.
    pub fn key(&self) -> Option<&str> {
        self.idempotency.as_ref().map(|idempotency| idempotency.key.as_str())
    }

    /// Creates the batch, or finds the one that an earlier request with the same key created. It completes even if the
    /// caller hangs up, and the key remains claimed until then.
    ///
    /// # Errors
    ///
    /// 422 for a key that was used with another body, 402 for too few credits, 503 if the store fails.
    pub async fn submit(self, worker: Rc<Worker>, claim: Option<Claim>) -> Result<Reply, Refusal> {
        monoio::spawn(async move {
            let _promise = worker.checks.drain.guard();
            let _claim = claim;
            let made = catch_panic(self.make(&worker)).await;
            made.unwrap_or_else(|_panicked| Err(Refusal::defect().inside("making a batch panicked")))
        })
        .await
    }

    async fn make(self, worker: &Worker) -> Result<Reply, Refusal> {
        let now = clock::now();
        let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
        let (account, by, credits) =
            (self.caller.account, self.caller.authority(), self.body.emails.len() as u64);
        let mode = match self.caller.mode {
            KeyMode::Live => BatchMode::Live,
            KeyMode::Test => {
                BatchMode::Test(self.addresses.iter().map(|it| test_mode::reason(it.local())).collect())
            }
        };
        let hashes =
            self.addresses.iter().map(|address| worker.checks.store.hash_address(&address.canonical()));
        let rows = self.body.emails.into_iter().zip(hashes);
        let new = NewBatch {
            id: BatchId::new(now, bits),
            account,
            name: self.body.name,
            rows: rows.map(|(email, address)| NewRow { email, address }).collect(),
            idempotency: self.idempotency,
            mode,
        };
        let made =
            worker.checks.store.create_batch(new, by, now).await.map_err(|error| refuse(error, credits))?;
        if !made.replayed && !made.completed {
            let (batch, total) = (made.batch, made.submitted);
            worker.shared.new_batches.enter(OpenBatch {
                batch,
                account,
                created_at: now,
                total,
                answered: 0,
            });
        }
        render(made)
    }
}

/// The parsed addresses, or the refusal that names all invalid ones.
fn addresses(emails: &[String]) -> Result<Vec<Address>, Refusal> {
    let parsed: Vec<Result<Address, AddressError>> =
        emails.iter().map(|email| Address::parse(email)).collect();
    let offenders = parsed.iter().enumerate().filter(|(_, parsed)| parsed.is_err()).map(|(index, _)| index);
    let count = offenders.clone().count();
    if count == 0 {
        return Ok(parsed.into_iter().flatten().collect());
    }
    let message = "The batch contains addresses that are not valid; nothing was charged.";
    let mut refusal = Refusal::new(ErrorCode::InvalidEmails, message);
    let offender = |index: usize| Offender { index, email: emails[index].clone() };
    refusal.body.invalid = offenders.take(OFFENDERS_MAX).map(offender).collect();
    refusal.body.invalid_count = Some(count);
    Err(refusal)
}

fn refuse(error: BatchError, credits: u64) -> Refusal {
    match error {
        BatchError::KeyReused => {
            let message = "This Idempotency-Key came before with another body; use a new key.";
            Refusal::new(ErrorCode::IdempotencyKeyReused, message)
        }
        BatchError::Hold(HoldError::Insufficient { available }) => {
            let message = format!("The batch takes {credits} credits; fewer are left.");
            let mut refusal = Refusal::new(ErrorCode::InsufficientCredits, message);
            refusal.body.credits_remaining = Some(available);
            refusal.body.credits_required = Some(credits);
            refusal
        }
        BatchError::Hold(error) => error.into(),
        BatchError::Store(error) => error.into(),
    }
}

/// The answer depends only on the stored batch, so a replay is identical to the byte. A live batch is `processing` even
/// if all its rows are known: only a poll has results.
fn render(made: store::BatchCreated) -> Result<Reply, Refusal> {
    let body = BatchCreated {
        batch_id: made.batch.to_string(),
        emails_submitted: made.submitted,
        status: match made.credits_remaining {
            Some(_) => BatchState::Processing,
            None => BatchState::Completed,
        },
        credits_remaining: made.credits_remaining,
    };
    let reply = Reply::json(202, &body)?;
    Ok(if made.replayed { reply.header("idempotent-replayed", "true") } else { reply })
}
