//! The export of an account's data for its owner: one JSON object. It has no secret: no hash of a key, no token, and no secret of
//! a webhook.

use crate::convert;
use api::Reason;
use serde_json::{Value, json};
use store::credits::calendar::{Iso8601, day_text};
use store::webhooks::{EventKind, Webhook};
use store::{
    Account, AccountId, BatchSummary, ChargedFor, Connection, DayCounts, Entry, KeyInfo, KeyMode, List,
    ListProgress, ListState, StoreError, UnixMs,
};
use store_rules::Store;

/// The most entries of the ledger in an export, the newest ones.
pub const ENTRIES_MAX: usize = 10_000;
/// The most batches in an export, the newest ones.
pub const BATCHES_MAX: usize = 1_000;
/// The most rows of batches in an export. The other batches are there without their results.
pub const ROWS_MAX: usize = 10_000;

/// How many batches one look at the store returns.
const BATCH_PAGE: usize = 100;

/// The data of an account, as docs/operations.md lists them; `None` if there is no such account.
///
/// # Errors
///
/// The store cannot read it.
pub async fn export(store: &Store, id: AccountId, now: UnixMs) -> Result<Option<Value>, StoreError> {
    let Some(account) = store.account(id, now).await? else { return Ok(None) };
    let user = store.user(id).await?;
    let entries = store.entries(id, ENTRIES_MAX).await?;
    let (days, keys) = (store.days(id, now).await?, store.keys(id).await?);
    let (lists, webhooks) = (store.lists(id, now).await?, store.webhooks(id).await?);
    let connections = store.connections(id, now).await?;
    let batches = batches(store, id, now).await?;
    let mut shown_lists = Vec::with_capacity(lists.len());
    for list in lists {
        let (list, progress) = match list.state {
            ListState::Running | ListState::Paused => store.list_progress(&list, now).await?,
            _ => (list.clone(), ListProgress::of(&list)),
        };
        shown_lists.push(of_list(&list, &progress));
    }
    Ok(Some(json!({
        "exported_at": time(now),
        "account": of_account(&account, user.map(|user| user.email)),
        "ledger": entries.iter().map(of_entry).collect::<Vec<_>>(),
        "usage": days.iter().map(of_day).collect::<Vec<_>>(),
        "keys": keys.iter().map(of_key).collect::<Vec<_>>(),
        "lists": shown_lists,
        "batches": batches,
        "connections": connections.iter().map(of_connection).collect::<Vec<_>>(),
        "webhooks": webhooks.iter().map(of_webhook).collect::<Vec<_>>(),
    })))
}

fn time(at: UnixMs) -> String {
    Iso8601(at).to_string()
}

fn of_account(account: &Account, email: Option<String>) -> Value {
    let balance = &account.balance;
    json!({
        "id": account.id.to_string(),
        "name": account.name,
        "email": email,
        "plan": account.plan,
        "status": account.status.as_str(),
        "cancel_at_period_end": account.cancel_at_period_end,
        "created_at": time(account.created_at),
        "period_end": account.period_end.map(time),
        "credits": {
            "available": balance.available(),
            "plan": balance.plan_left,
            "pack": balance.pack_left,
            "held": balance.held,
            "granted": balance.granted,
            "spent": balance.spent,
            "expired": balance.expired,
        },
    })
}

fn of_entry(entry: &Entry) -> Value {
    let (batch, list) = match entry.charged_for() {
        Some(ChargedFor::Batch(id)) => (Some(id.to_string()), None),
        Some(ChargedFor::List(id)) => (None, Some(id.to_string())),
        None => (None, None),
    };
    json!({
        "id": entry.id.to_string(),
        "kind": entry.kind,
        "at": time(entry.at),
        "granted": entry.granted,
        "spent": entry.spent,
        "expired": entry.expired,
        "note": entry.note,
        "batch_id": batch,
        "list_id": list,
    })
}

fn reasons(counts: &[(Reason, u64)]) -> Value {
    counts.iter().map(|(reason, count)| (reason.as_str().to_owned(), json!(count))).collect()
}

fn of_day(day: &DayCounts) -> Value {
    json!({ "day": day_text(day.day), "singles": day.singles, "rows": day.rows, "reasons": reasons(&day.reasons) })
}

fn of_key(key: &KeyInfo) -> Value {
    json!({
        "id": key.id.to_string(),
        "label": key.label,
        "mode": key.mode,
        "last4": key.last4,
        "scopes": key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
        "created_at": time(key.created_at),
        "last_used_at": key.last_used_at.map(time),
        "expires_at": key.expires_at.map(time),
        "revoked_at": key.revoked_at.map(time),
    })
}

fn of_list(list: &List, progress: &ListProgress) -> Value {
    json!({
        "list_id": list.id.to_string(),
        "name": list.name,
        "mode": list.mode,
        "column": list.column,
        "found": list.found.as_ref().map(convert::found_addresses),
        "status": convert::list_status(list.state),
        "bytes": list.bytes,
        "rows": list.rows,
        "addresses": list.addresses,
        "distinct": list.distinct,
        "credits_charged": progress.charged,
        "counts": reasons(&progress.counts),
        "created_at": time(list.created_at),
    })
}

fn of_connection(connection: &Connection) -> Value {
    json!({
        "id": connection.id.to_string(),
        "client": connection.client,
        "client_name": connection.client_name,
        "redirect_host": connection.redirect_host,
        "checks_allowed": connection.allowance,
        "checks_used": connection.used,
        "created_at": time(connection.created_at),
        "last_used_at": time(connection.last_used_at),
        "expires_at": time(connection.expires_at),
    })
}

fn of_webhook(webhook: &Webhook) -> Value {
    json!({
        "webhook_id": webhook.id.to_string(),
        "url": webhook.url,
        "label": webhook.label,
        "events": webhook.events.kinds().map(EventKind::as_str).collect::<Vec<_>>(),
        "enabled": webhook.health.is_enabled(),
        "created_at": time(webhook.created_at),
    })
}

/// The batches, newest first, with their results as far as they fit.
async fn batches(store: &Store, account: AccountId, now: UnixMs) -> Result<Value, StoreError> {
    let (mut shown, mut rows, mut after) = (Vec::new(), 0, None);
    loop {
        let page = store.batches(account, after, BATCH_PAGE, now).await?;
        for batch in page.batches {
            let fits = rows + batch.total as usize <= ROWS_MAX;
            let view = match batch.completed && fits {
                true => store.batch(account, batch.batch, now).await?,
                false => None,
            };
            rows += if view.is_some() { batch.total as usize } else { 0 };
            shown.push(of_batch(&batch, view.and_then(|view| view.results)));
        }
        after = page.next;
        if after.is_none() || shown.len() >= BATCHES_MAX {
            return Ok(Value::Array(shown));
        }
    }
}

fn of_batch(batch: &BatchSummary, results: Option<Vec<(String, Reason)>>) -> Value {
    let row = |(email, reason): (String, Reason)| json!({ "email": email, "reason": reason.as_str() });
    json!({
        "batch_id": batch.batch.to_string(),
        "name": batch.name,
        "mode": if batch.is_test { KeyMode::Test } else { KeyMode::Live },
        "created_at": time(batch.created_at),
        "completed": batch.completed,
        "total": batch.total,
        "checked": batch.checked,
        "refunded": batch.refunded,
        "results": results.map(|rows| rows.into_iter().map(row).collect::<Vec<_>>()),
    })
}
