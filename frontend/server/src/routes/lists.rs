//! `/v1/lists`: files of addresses, which are uploaded, checked, and read with their verdicts.
//!
//! A list of a live key and one of a test key never meet: each key sees only the lists of its mode.

mod render;
mod results;
mod upload;

pub use render::wait;
pub use results::results;
pub use upload::{append, create};

use super::page;
use crate::call::Call;
use api::{ErrorCode, Issue, IssueType};
use http_core::{Query, Refusal, Reply};
use list_work::actions::StartError;
use lists::numbers::{counted, grouped};
use store::clock;
use store::{HoldError, List, ListId, ListState};

/// `GET /v1/lists`: the lists of the account, newest first.
pub async fn index(call: Call) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    let (limit, after) = page::parameters::<ListId>(&call.query)?;
    let mut lists = call.worker.checks.store.lists(caller.account, clock::now()).await?;
    lists.retain(|list| list.mode == caller.mode && after.is_none_or(|after| list.id < after));
    let next = (lists.len() > limit).then(|| lists[limit - 1].id.to_string());
    lists.truncate(limit);
    let mut rendered = Vec::with_capacity(lists.len());
    for list in lists {
        rendered.push(render::list(&call, list).await?);
    }
    Reply::json(200, &api::ListPage { lists: rendered, next })
}

/// `GET /v1/lists/{list_id}`: a list with its progress.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    let list = find(&call).await?;
    reply(&call, 200, list).await
}

/// `POST /v1/lists/{list_id}/start`. A repetition changes nothing.
pub async fn start(call: Call) -> Result<Reply, Refusal> {
    let list = find(&call).await?;
    let by = call.caller()?.authority();
    let list = call.worker.shared.lists.actions.start(list, by).await.map_err(not_started)?;
    reply(&call, 202, list).await
}

/// `POST /v1/lists/{list_id}/cancel`. Addresses that were not asked are refunded.
pub async fn cancel(call: Call) -> Result<Reply, Refusal> {
    let list = find(&call).await?;
    let cancelled = call.worker.shared.lists.actions.cancel(list.account, list.id).await?;
    reply(&call, 202, cancelled.ok_or_else(no_such_list)?).await
}

/// `DELETE /v1/lists/{list_id}`. A running list is cancelled first.
pub async fn delete(call: Call) -> Result<Reply, Refusal> {
    let list = find(&call).await?;
    match call.worker.shared.lists.actions.delete(list.account, list.id).await? {
        true => Ok(Reply { status: 204, headers: Vec::new(), body: Vec::new() }),
        false => Err(no_such_list()),
    }
}

/// The list that the path names, if it belongs to the account and the mode of the caller.
async fn find(call: &Call) -> Result<List, Refusal> {
    let caller = call.caller()?;
    let id: ListId = call.parameter.parse().map_err(|_| no_such_list())?;
    let list = call.worker.checks.store.list(caller.account, id, clock::now()).await?;
    list.filter(|list| list.mode == caller.mode).ok_or_else(no_such_list)
}

/// A parameter that is `true`, `false` or absent.
fn flag(query: &Query, name: &'static str, issues: &mut Vec<Issue>) -> Option<bool> {
    let issue = match query.get(name) {
        Ok(None | Some("")) => return None,
        Ok(Some("true")) => return Some(true),
        Ok(Some("false")) => return Some(false),
        Ok(Some(_)) => Issue::new(&["query", name], IssueType::BoolType, "must be true or false"),
        Err(issue) => issue,
    };
    issues.push(issue);
    None
}

async fn reply(call: &Call, status: u16, list: List) -> Result<Reply, Refusal> {
    Reply::json(status, &render::list(call, list).await?)
}

fn no_such_list() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "There is no such list on this account, or not any longer.")
}

fn invalid_state(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidState, message.into())
}

fn not_started(error: StartError) -> Refusal {
    match error {
        StartError::State(state) => invalid_state(match state {
            ListState::Uploading => {
                "The list is `uploading`: its content is not complete yet. Send the rest, then poll it until `status` is `ready`."
            }
            ListState::Reading => {
                "The list is `reading`: its content is counted. Poll it until `status` is `ready`."
            }
            ListState::Unfit => {
                "The list is `unfit`: it cannot be checked, and `problem` says why. Correct the list, and upload it again."
            }
            _ => {
                "The list is `cancelled`, which is final. Upload it again to check the rest; what was checked within 24 hours is free."
            }
        }),
        StartError::Insufficient { required, available } => {
            let message = format!(
                "The addresses that are left cost about {}, and the account has {}. Get more credits, then start the list again.",
                counted(required, "credit", "credits"),
                grouped(available)
            );
            let mut refusal = Refusal::new(ErrorCode::InsufficientCredits, message);
            refusal.body.credits_remaining = Some(available);
            refusal.body.credits_required = Some(required);
            refusal
        }
        StartError::Inactive { status, available } => HoldError::Inactive { status, available }.into(),
        StartError::Gone => no_such_list(),
        StartError::Store(error) => error.into(),
    }
}
