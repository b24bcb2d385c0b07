//! `/v1/verify/batch`: up to 200 addresses at once, answered later.

mod submission;

use super::lists::wait;
use super::page;
use crate::call::Call;
use api::{BatchPage, BatchStatus, BatchSummary, ErrorCode, ResultRow};
use checks::auth::Caller;
use http_core::Refusal;
use http_core::Reply;
use store::clock;
use store::credits::calendar::Iso8601;
use store::{AccountId, BatchId, BatchView, KeyEndpoint, KeyMode};
use submission::Submission;

/// `POST /v1/verify/batch`. Each row costs one credit, which is charged before the answer. The rows are checked
/// afterwards.
pub async fn create(call: Call) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    let submission = Submission::read(caller, &call)?;
    let claim = match submission.key() {
        Some(key) => {
            let claim =
                call.worker.shared.in_progress.claim(caller.account, caller.mode, KeyEndpoint::Batches, key);
            Some(claim.ok_or_else(in_progress)?)
        }
        None => None,
    };
    submission.submit(call.worker, claim).await
}

/// 409: a request with the same key is under way.
pub(super) fn in_progress() -> Refusal {
    let message = "A request with this Idempotency-Key is still under way; retry shortly.";
    Refusal::new(ErrorCode::IdempotencyInProgress, message).header("retry-after", "1")
}

/// `GET /v1/verify/batch/{batch_id}`. It is free, with any key of the account.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    let account = call.caller()?.account;
    let id: BatchId = call.parameter.parse().map_err(|_| no_such_batch())?;
    let view = call.worker.checks.store.batch(account, id, clock::now()).await?.ok_or_else(no_such_batch)?;
    Reply::json(200, &status(&call, id, account, view))
}

/// `GET /v1/verify/batch`: the batches of the account without their results, newest first.
pub async fn index(call: Call) -> Result<Reply, Refusal> {
    let account = call.caller()?.account;
    let (limit, after) = page::parameters(&call.query)?;
    let page = call.worker.checks.store.batches(account, after, limit, clock::now()).await?;
    let summary = |batch: store::BatchSummary| BatchSummary {
        batch_id: batch.batch.to_string(),
        name: batch.name,
        completed: batch.completed,
        total: batch.total,
        checked: batch.checked,
        created_at: Iso8601(batch.created_at).to_string(),
    };
    let batches = page.batches.into_iter().map(summary).collect();
    Reply::json(200, &BatchPage { batches, next: page.next.map(|next| next.to_string()) })
}

/// `POST /v1/verify/batch/{batch_id}/cancel`: ends a batch. Rows without an answer are refunded.
pub async fn cancel(call: Call) -> Result<Reply, Refusal> {
    let Caller { account, mode, .. } = call.caller()?;
    let id: BatchId = call.parameter.parse().map_err(|_| no_such_batch())?;
    if mode == KeyMode::Test {
        // What a test key makes is complete at once.
        let found = call.worker.checks.store.batch(account, id, clock::now()).await?;
        if !found.ok_or_else(no_such_batch)?.completed {
            let message = "A test key cannot cancel a batch of a live key.";
            return Err(Refusal::new(ErrorCode::LiveKeyRequired, message));
        }
    }
    let view = call.worker.checks.store.cancel_batch(account, id, clock::now()).await?;
    let view = view.ok_or_else(no_such_batch)?;
    call.worker.shared.new_batches.cancel([id]);
    Reply::json(202, &status(&call, id, account, view))
}

fn no_such_batch() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "There is no such batch on this account, or not any longer.")
}

/// The state of a batch, with the reasons that are for this account.
fn status(call: &Call, id: BatchId, account: AccountId, mut view: BatchView) -> BatchStatus {
    let checks = &call.worker.checks;
    if let Some(rows) = &mut view.results {
        checks.own_evidence.apply_to_rows(account, rows, &checks.engine.lists());
    }
    let open = u64::from(view.total - view.checked);
    let waiting = call.worker.shared.lists.actions.waiting(&view.waiting, open);
    let row = |(email, reason)| ResultRow { email, reason };
    BatchStatus {
        batch_id: id.to_string(),
        total: view.total,
        checked: view.checked,
        results: view.results.map(|rows| rows.into_iter().map(row).collect()),
        waiting: waiting.into_iter().map(wait).collect(),
    }
}
