//! `/v1/webhooks`: the endpoints of an account, and the log of their deliveries.
//!
//! Only live keys may use it: an endpoint gets the events of the whole account, and users protect test keys less well.

use crate::call::Call;
use api::request::Choice;
use api::{
    DeliveryList, ErrorCode, Issue, IssueType, WebhookBody, WebhookChangeBody, WebhookEvent, WebhookList,
    WebhookTested,
};
use checks::auth::Caller;
use checks::convert;
use http_core::{Query, Refusal, Reply};
use outbound::Destinations;
use store::id::random_bits;
use store::webhooks::{EventKind, EventSet, NewWebhook, Webhook, WebhookChange, WebhookError, WebhookSecret};
use store::{KeyMode, WebhookId, clock};
use webhooks::signature::{random_secret, reveal};
use webhooks::url::WebhookUrl;

/// The deliveries of a page, if the request names no number.
const DELIVERIES: usize = 20;
/// The most deliveries of a page.
const DELIVERIES_MAX: usize = 100;

/// `POST /v1/webhooks`: creates an endpoint, and shows its secret.
pub async fn create(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let WebhookBody { url, events, label } = WebhookBody::parse(&call.body).map_err(Refusal::invalid)?;
    let url = read_url(&url, &call.worker.shared.webhook_destinations)?;
    let label = label.unwrap_or_default();
    check_label(&label)?;
    let now = clock::now();
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let secret = random_secret().map_err(|error| Refusal::unready().inside(error))?;
    let new = NewWebhook {
        id: WebhookId::new(now, bits),
        account: caller.account,
        url,
        label,
        events: events.map_or(EventSet::ALL, |events| set_of(&events)),
        secret,
    };
    let made =
        call.worker.checks.store.create_webhook(new, caller.authority(), now).await.map_err(refusal)?;
    with_secret(201, made, &secret)
}

/// `GET /v1/webhooks`: the endpoints of the account, without secrets.
pub async fn list(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let found = call.worker.checks.store.webhooks(caller.account).await?;
    let webhooks = found.into_iter().map(convert::webhook).collect();
    Reply::json(200, &WebhookList { webhooks })
}

/// `GET /v1/webhooks/{webhook_id}`: one endpoint, without its secret.
pub async fn show(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let found = call.worker.checks.store.webhook(caller.account, id(&call)?).await?;
    Reply::json(200, &convert::webhook(found.ok_or_else(no_such_webhook)?))
}

/// `PATCH /v1/webhooks/{webhook_id}`: changes the fields of the body.
pub async fn change(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let id = id(&call)?;
    let WebhookChangeBody { url, events, label, enabled } =
        WebhookChangeBody::parse(&call.body).map_err(Refusal::invalid)?;
    let shared = &call.worker.shared;
    let url = url.map(|url| read_url(&url, &shared.webhook_destinations)).transpose()?;
    label.as_deref().map_or(Ok(()), check_label)?;
    let events = events.as_deref().map(set_of);
    let change = WebhookChange { url, label, events, enabled, secret: None };
    let store = &call.worker.checks.store;
    let by = caller.authority();
    let changed =
        store.change_webhook(caller.account, id, change, by, clock::now()).await.map_err(refusal)?;
    Reply::json(200, &convert::webhook(changed))
}

/// `DELETE /v1/webhooks/{webhook_id}`: deletes an endpoint with its messages.
pub async fn delete(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    match call.worker.checks.store.delete_webhook(caller.account, id(&call)?).await? {
        true => Ok(Reply { status: 204, headers: Vec::new(), body: Vec::new() }),
        false => Err(no_such_webhook()),
    }
}

/// `POST /v1/webhooks/{webhook_id}/rotate`: gives the endpoint a new secret.
pub async fn rotate(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let id = id(&call)?;
    let secret = random_secret().map_err(|error| Refusal::unready().inside(error))?;
    let change = WebhookChange { secret: Some(secret), ..WebhookChange::default() };
    let store = &call.worker.checks.store;
    let by = caller.authority();
    let changed =
        store.change_webhook(caller.account, id, change, by, clock::now()).await.map_err(refusal)?;
    with_secret(200, changed, &secret)
}

/// `POST /v1/webhooks/{webhook_id}/test`: sends a message of the event `webhook.test`.
pub async fn test(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let store = &call.worker.checks.store;
    let message = store.test_webhook(caller.account, id(&call)?, clock::now()).await.map_err(refusal)?;
    Reply::json(202, &WebhookTested { message_id: message.to_string() })
}

/// `GET /v1/webhooks/{webhook_id}/deliveries`: a page of the log.
pub async fn deliveries(call: Call) -> Result<Reply, Refusal> {
    let caller = owner(&call)?;
    let id = id(&call)?;
    let query = Query::parse(&call.query).map_err(Refusal::invalid)?;
    let limit = limit(&query).map_err(|issue| Refusal::invalid(vec![issue]))?;
    let after = query.get("after").and_then(|after| {
        let wrong = |_| Issue::new(&["query", "after"], IssueType::StringPatternMismatch, "is not a cursor");
        after.map(|after| after.parse().map_err(wrong)).transpose()
    });
    let after = after.map_err(|issue| Refusal::invalid(vec![issue]))?;
    let store = &call.worker.checks.store;
    // One more shows whether there is a next page.
    let mut found = store.deliveries(caller.account, id, after, limit + 1).await.map_err(refusal)?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|delivery| delivery.message.to_string());
    let deliveries = found.into_iter().map(convert::delivery).collect();
    Reply::json(200, &DeliveryList { deliveries, next })
}

/// The caller, if its key is a live one.
fn owner(call: &Call) -> Result<Caller, Refusal> {
    let caller = call.caller()?;
    match caller.mode {
        KeyMode::Live => Ok(caller),
        KeyMode::Test => {
            let message = "Webhooks need a live key: an endpoint gets the events of the whole account.";
            Err(Refusal::new(ErrorCode::LiveKeyRequired, message))
        }
    }
}

fn id(call: &Call) -> Result<WebhookId, Refusal> {
    call.parameter.parse().map_err(|_| no_such_webhook())
}

fn no_such_webhook() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "There is no such webhook on this account.")
}

fn refusal(error: WebhookError) -> Refusal {
    let conflict =
        |error: WebhookError| Refusal::new(ErrorCode::InvalidState, format!("Not possible: {error}."));
    match error {
        WebhookError::Unknown => no_such_webhook(),
        WebhookError::TooMany
        | WebhookError::Disabled
        | WebhookError::Full
        | WebhookError::TooManySecrets => conflict(error),
        WebhookError::Store(error) => error.into(),
        // The URL, the label and the id were checked or made here.
        WebhookError::Bad => Refusal::defect().inside(error),
    }
}

/// The URL in its normal form.
fn read_url(text: &str, destinations: &Destinations) -> Result<String, Refusal> {
    match WebhookUrl::parse(text, destinations) {
        Ok(url) => Ok(url.as_str().to_owned()),
        Err(fault) => {
            let kind = IssueType::StringPatternMismatch;
            Err(Refusal::invalid(vec![Issue::new(&["body", "url"], kind, fault.to_string())]))
        }
    }
}

fn check_label(label: &str) -> Result<(), Refusal> {
    if label.chars().any(char::is_control) {
        let kind = IssueType::StringPatternMismatch;
        let issue = Issue::new(&["body", "label"], kind, "must have no control characters");
        return Err(Refusal::invalid(vec![issue]));
    }
    Ok(())
}

fn set_of(events: &[WebhookEvent]) -> EventSet {
    let name =
        |event: &WebhookEvent| WebhookEvent::VALUES.iter().find(|(_, known)| known == event).map(|it| it.0);
    EventSet::of(events.iter().filter_map(name).filter_map(EventKind::parse))
}

fn with_secret(status: u16, webhook: Webhook, secret: &WebhookSecret) -> Result<Reply, Refusal> {
    let secret = Some(reveal(secret));
    Reply::json(status, &api::Webhook { secret, ..convert::webhook(webhook) })
}

fn limit(query: &Query) -> Result<usize, Issue> {
    let Some(text) = query.get("limit")? else { return Ok(DELIVERIES) };
    let number = text.parse().ok().filter(|number| (1..=DELIVERIES_MAX).contains(number));
    number.ok_or_else(|| {
        let msg = format!("must be a number from 1 to {DELIVERIES_MAX}");
        Issue::new(&["query", "limit"], IssueType::StringPatternMismatch, msg)
    })
}
