//! Converts a list to the JSON of the API.

use crate::call::Call;
use api::Counts;
use checks::convert::{found_addresses, list_status};
use http_core::Refusal;
use list_work::actions::{Progress, WaitingAddresses};
use store::credits::calendar::Iso8601;
use store::{List, ListState};

/// The JSON of a list.
///
/// # Errors
///
/// 503: the store cannot be read.
pub async fn list(call: &Call, list: List) -> Result<api::List, Refusal> {
    let (list, progress) = call.worker.shared.lists.actions.progress(list).await?;
    let Progress { checked, counts, causes, charged, reserved, waiting, problem, cost: _, returns: _ } =
        progress;
    // A list without an address was read as well.
    let is_read = list.rows > 0 || !matches!(list.state, ListState::Uploading | ListState::Reading);
    let is_read = is_read && !(list.state == ListState::Cancelled && list.rows == 0);
    let when_read = |number: u64| is_read.then_some(number);
    let progress = match list.state {
        ListState::Completed => 100,
        _ => (checked * 100).checked_div(list.to_check()).unwrap_or(0).min(99),
    };
    Ok(api::List {
        list_id: list.id.to_string(),
        status: list_status(list.state),
        bytes: list.bytes,
        offset: list.offset,
        found: list.found.as_ref().map(found_addresses),
        rows: when_read(list.rows),
        addresses: when_read(list.addresses),
        distinct: when_read(list.to_check()),
        checked,
        progress,
        credits_required: when_read(list.price()),
        credits_charged: charged,
        credits_reserved: reserved,
        problem: (!problem.is_empty() && list.state != ListState::Cancelled).then_some(problem),
        created_at: Iso8601(list.created_at).to_string(),
        expires_at: Iso8601(list.expires_at()).to_string(),
        counts: Counts(counts),
        unverifiable: causes
            .into_iter()
            .map(|(cause, addresses)| api::UnverifiableAddresses { cause, addresses })
            .collect(),
        waiting: waiting.into_iter().map(wait).collect(),
        name: (!list.name.is_empty()).then_some(list.name),
    })
}

/// The JSON of addresses that wait.
pub fn wait(waiting: WaitingAddresses) -> api::ListWait {
    let WaitingAddresses { cause, addresses, until } = waiting;
    api::ListWait { cause, addresses, until: until.map(|until| Iso8601(until).to_string()) }
}
