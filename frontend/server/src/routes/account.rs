//! `GET /v1/account`, which is free, and has the same answer for live and test keys; and `GET /v1/account/export`, which needs a
//! live key.

use crate::call::Call;
use api::ErrorCode;
use checks::convert;
use checks::export;
use http_core::Refusal;
use http_core::Reply;
use store::{KeyMode, KeyScope, clock};

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

/// Answers with the data of the caller's account, for a key that may also use batches and lists.
pub async fn export(call: Call) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    if caller.mode == KeyMode::Test {
        let message = "The export needs a live key: it has the data of the whole account.";
        return Err(Refusal::new(ErrorCode::LiveKeyRequired, message));
    }
    // It also has the contents of batches and the names of lists.
    let missing = [KeyScope::Batches, KeyScope::Lists].into_iter().find(|scope| !caller.scopes.has(*scope));
    if let Some(missing) = missing {
        return Err(Refusal::insufficient_scope(missing));
    }
    let exported = export::export(&call.worker.checks.store, caller.account, clock::now()).await?;
    Reply::json(200, &exported.ok_or_else(|| Refusal::defect().inside("a key's account is not there"))?)
}
