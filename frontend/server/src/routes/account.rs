//! `GET /v1/account`, which is free, and has the same answer for live and test keys.

use crate::router::Call;
use checks::convert;
use http_core::Refusal;
use http_core::Reply;
use store::clock;

/// Answers with the caller's plan and balance.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    let store = &call.worker.checks.store;
    let account = store
        .account(call.caller()?.account, clock::now())
        .await?
        .ok_or_else(|| Refusal::defect().inside("a key's account is not there"))?;
    let plan = store.plans().find(&account.plan).cloned();
    Reply::json(200, &convert::account(account, plan.as_ref()))
}
