//! `/webhooks` and `/webhooks/{id}`: the endpoints of the account, their secrets, and the log of their deliveries. A secret is
//! shown once, in the answer to the form that created or replaced it.

use crate::attempt::count;
use crate::form::token_field;
use crate::keys::id_of;
use crate::page::{self, notice, time};
use crate::problem::Problem;
use crate::redirect;
use crate::session::SignedIn;
use crate::visit::Visit;
use http_core::Reply;
use maud::{Markup, html};
use store::clock;
use store::id::random_bits;
use store::rate_limit::Row;
use store::webhooks::{
    Attempt, AttemptFault, AttemptResult, Delivery, DeliveryState, DisableReason, EndpointState, EventKind,
    EventObject, EventSet, NewWebhook, WEBHOOK_LABEL_CHARS_MAX, WEBHOOK_URL_BYTES_MAX, WEBHOOKS_MAX, Webhook,
    WebhookChange, WebhookError, WebhookSecret,
};
use store::{Authority, MessageId, WebhookId};
use webhooks::signature::{random_secret, reveal};
use webhooks::url::WebhookUrl;

/// The deliveries of a page.
const DELIVERIES_SHOWN: usize = 50;
/// The field of the form that replaces a secret: it tells which secret that is.
const SECRET_FIELD: &str = "secret";

/// `GET /webhooks`: the endpoints, and the form for a new one.
pub async fn index(visit: Visit) -> Result<Reply, Problem> {
    render_all(&visit, None).await
}

/// `POST /webhooks`: creates an endpoint, and shows its secret once. A form that is sent again creates no second one.
pub async fn create(visit: Visit) -> Result<Reply, Problem> {
    let account = visit.signed_in()?.account;
    count(&visit, account, Row::Account).await?;
    let (url, label, events) = match read(&visit) {
        Ok(read) => read,
        Err(why) => return Ok(page::with_status(render_all(&visit, Some(&why)).await?, 400)),
    };
    let secret = random_secret().map_err(|error| Problem::unready().inside(error))?;
    let now = clock::now();
    let Ok(nonce) = visit.form.text("nonce").parse::<WebhookId>() else { return Err(Problem::not_found()) };
    let id = WebhookId(id_of(&visit.signed_in()?.session, nonce.0, now));
    let new = NewWebhook { id, account, url, label, events, secret };
    let by = Authority::session(visit.signed_in()?.session);
    match visit.checks.store.create_webhook(new, by, now).await {
        Ok(made) => render_one(&visit, &made, None, Some(&secret)).await,
        Err(WebhookError::TooMany) => {
            let why = format!("The account has {WEBHOOKS_MAX} webhooks. Delete one that you do not use.");
            Ok(page::with_status(render_all(&visit, Some(&why)).await?, 409))
        }
        // The URL and the label were checked, so the id exists.
        Err(WebhookError::Bad) => {
            let why =
                "This webhook already exists, and its secret cannot be shown again. Replace its secret.";
            Ok(page::with_status(render_all(&visit, Some(why)).await?, 409))
        }
        Err(error) => Err(problem(error)),
    }
}

/// `GET /webhooks/{id}`: an endpoint, and the log of its deliveries.
pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let webhook = find(&visit).await?;
    render_one(&visit, &webhook, None, None).await
}

/// `POST /webhooks/{id}`: changes the URL, the label and the events of an endpoint.
pub async fn change(visit: Visit) -> Result<Reply, Problem> {
    let webhook = find_to_change(&visit, Row::Account).await?;
    match read(&visit) {
        Ok((url, label, events)) => {
            let (url, label, events) = (Some(url), Some(label), Some(events));
            apply(&visit, &webhook, WebhookChange { url, label, events, ..WebhookChange::default() }).await?;
            Ok(redirect::see_other(path(&webhook)))
        }
        Err(why) => Ok(page::with_status(render_one(&visit, &webhook, Some(&why), None).await?, 400)),
    }
}

/// `POST /webhooks/{id}/enable`: lets an endpoint get messages again.
pub async fn enable(visit: Visit) -> Result<Reply, Problem> {
    set_enabled(visit, true).await
}

/// `POST /webhooks/{id}/disable`: stops the messages to an endpoint.
pub async fn disable(visit: Visit) -> Result<Reply, Problem> {
    set_enabled(visit, false).await
}

async fn set_enabled(visit: Visit, enabled: bool) -> Result<Reply, Problem> {
    let webhook = find_to_change(&visit, Row::Account).await?;
    let change = WebhookChange { enabled: Some(enabled), ..WebhookChange::default() };
    apply(&visit, &webhook, change).await?;
    Ok(redirect::see_other(path(&webhook)))
}

/// `POST /webhooks/{id}/rotate`: replaces the secret, and shows the new one once. A form that is sent again replaces nothing.
pub async fn rotate(visit: Visit) -> Result<Reply, Problem> {
    let webhook = find_to_change(&visit, Row::Account).await?;
    if visit.form.text(SECRET_FIELD) != secret_mark(&webhook) {
        let why = "The secret was replaced already, and cannot be shown again. If you do not have it, replace it once more.";
        return Ok(page::with_status(render_one(&visit, &webhook, Some(why), None).await?, 409));
    }
    let secret = random_secret().map_err(|error| Problem::unready().inside(error))?;
    let change = WebhookChange { secret: Some(secret), ..WebhookChange::default() };
    let SignedIn { account, session, .. } = *visit.signed_in()?;
    let by = Authority::session(session);
    match visit.checks.store.change_webhook(account, webhook.id, change, by, clock::now()).await {
        Ok(changed) => render_one(&visit, &changed, None, Some(&secret)).await,
        Err(error @ WebhookError::TooManySecrets) => {
            let why = format!("The secret was not replaced: {error}.");
            Ok(page::with_status(render_one(&visit, &webhook, Some(&why), None).await?, 409))
        }
        Err(error) => Err(problem(error)),
    }
}

/// A value that is another one after each rotation.
fn secret_mark(webhook: &Webhook) -> String {
    webhook.old_secret_until.unwrap_or_default().to_string()
}

/// `POST /webhooks/{id}/test`: sends a test.
pub async fn test(visit: Visit) -> Result<Reply, Problem> {
    let webhook = find_to_change(&visit, Row::Batch).await?;
    let account = visit.signed_in()?.account;
    match visit.checks.store.test_webhook(account, webhook.id, clock::now()).await {
        Ok(_) => Ok(redirect::see_other(path(&webhook))),
        Err(error @ (WebhookError::Disabled | WebhookError::Full)) => {
            let why = format!("The test was not sent: {error}.");
            Ok(page::with_status(render_one(&visit, &webhook, Some(&why), None).await?, 409))
        }
        Err(error) => Err(problem(error)),
    }
}

/// `POST /webhooks/{id}/delete`: deletes an endpoint.
pub async fn delete(visit: Visit) -> Result<Reply, Problem> {
    let webhook = find_to_change(&visit, Row::Account).await?;
    visit.checks.store.delete_webhook(visit.signed_in()?.account, webhook.id).await?;
    Ok(redirect::see_other("/webhooks"))
}

async fn find(visit: &Visit) -> Result<Webhook, Problem> {
    let id = visit.parameter.parse().map_err(|_| Problem::not_found())?;
    let found = visit.checks.store.webhook(visit.signed_in()?.account, id).await?;
    found.ok_or_else(Problem::not_found)
}

/// The endpoint of a form, which counts against a limit as the same request of the API.
async fn find_to_change(visit: &Visit, row: Row) -> Result<Webhook, Problem> {
    count(visit, visit.signed_in()?.account, row).await?;
    find(visit).await
}

async fn apply(visit: &Visit, webhook: &Webhook, change: WebhookChange) -> Result<Webhook, Problem> {
    let SignedIn { account, session, .. } = *visit.signed_in()?;
    let by = Authority::session(session);
    visit.checks.store.change_webhook(account, webhook.id, change, by, clock::now()).await.map_err(problem)
}

fn problem(error: WebhookError) -> Problem {
    match error {
        WebhookError::Unknown => Problem::not_found(),
        WebhookError::Store(error) => error.into(),
        other => Problem::unready().inside(format!("a webhook was not changed: {other}")),
    }
}

fn path(webhook: &Webhook) -> String {
    format!("/webhooks/{}", webhook.id)
}

/// The URL, the label and the events of a form.
fn read(visit: &Visit) -> Result<(String, String, EventSet), String> {
    let url = WebhookUrl::parse(visit.form.text("url").trim(), &visit.dashboard.webhook_destinations)
        .map_err(|fault| format!("The URL {fault}."))?;
    let label = visit.form.text("label").trim();
    if label.chars().count() > WEBHOOK_LABEL_CHARS_MAX || label.chars().any(char::is_control) {
        return Err("A label can have at most 100 characters, and no control characters.".into());
    }
    let chosen = EventSet::ALL.kinds().filter(|kind| visit.form.get(kind.as_str()).is_some());
    let events = EventSet::of(chosen);
    if events.kinds().next().is_none() {
        return Err("Choose at least one event.".into());
    }
    Ok((url.as_str().to_owned(), label.to_owned(), events))
}

async fn render_all(visit: &Visit, wrong: Option<&str>) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let all = visit.checks.store.webhooks(signed_in.account).await?;
    let bits = random_bits().map_err(|error| Problem::unready().inside(error))?;
    let body = html! {
        h1 { "Webhooks" }
        p { "A webhook sends a message to your server when a batch or a list ends, so your program need not poll." }
        (notice(wrong))
        @if all.is_empty() {
            p.empty { "There are no webhooks." }
        } @else {
            (page::table("Webhooks", &["URL", "Label", "State", "Waiting"], html! { @for webhook in &all { (row(webhook)) } }))
        }
        section.card {
            h2 { "New webhook" }
            form method="post" action="/webhooks" {
                (token_field(&signed_in.csrf))
                input type="hidden" name="nonce" value=(WebhookId::new(clock::now(), bits));
                (new_fields(visit, wrong.is_some()))
                button type="submit" { "Create webhook" }
            }
        }
    };
    Ok(page::page_at("Webhooks", Some("/webhooks"), Some(signed_in), body))
}

fn row(webhook: &Webhook) -> Markup {
    html! {
        tr {
            td.wrap data-label="URL" { a href=(path(webhook)) { (webhook.url) } }
            td.wrap data-label="Label" { @if webhook.label.is_empty() { span.soft { "none" } } @else { (webhook.label) } }
            td data-label="State" { (state(webhook)) }
            td data-label="Waiting" { (webhook.waiting) }
        }
    }
}

fn state(webhook: &Webhook) -> Markup {
    match (webhook.health.state, webhook.health.failing_since) {
        (EndpointState::Enabled, None) => html! { span.tag.good { "enabled" } },
        (EndpointState::Enabled, Some(_)) => html! { span.tag.warn { "failing" } },
        (EndpointState::Disabled(_), _) => html! { span.tag.warn { "disabled" } },
    }
}

/// The fields of a new endpoint, with the values of a form that was refused.
fn new_fields(visit: &Visit, refused: bool) -> Markup {
    if !refused {
        return fields(visit, "", "", EventSet::ALL);
    }
    let chosen = EventSet::of(EventSet::ALL.kinds().filter(|kind| visit.form.get(kind.as_str()).is_some()));
    fields(visit, visit.form.text("url"), visit.form.text("label"), chosen)
}

fn fields(visit: &Visit, url: &str, label: &str, events: EventSet) -> Markup {
    let hint = if visit.dashboard.webhook_destinations.has_allowed() {
        "It begins with https://, and its host has a public address. In the networks that the operator of this service allows, it may also begin with http://."
    } else {
        "It begins with https://, and its host has a public address. Only the operator of this service can allow others."
    };
    html! {
        label for="url" { "URL" }
        input #url name="url" type="url" required maxlength=(WEBHOOK_URL_BYTES_MAX) value=(url) autocomplete="off" aria-describedby="url-hint";
        p.hint #url-hint { (hint) }
        label for="label" { "Label" }
        input #label name="label" maxlength=(WEBHOOK_LABEL_CHARS_MAX) value=(label) autocomplete="off";
        fieldset {
            legend { "Events" }
            @for kind in EventSet::ALL.kinds() {
                label.choice {
                    input type="checkbox" name=(kind.as_str()) value="1" checked[events.contains(kind)];
                    span { code { (kind.as_str()) } ": " (meaning(kind)) }
                }
            }
        }
    }
}

fn meaning(kind: EventKind) -> &'static str {
    match kind {
        EventKind::BatchCompleted => "every address of a batch has its result",
        EventKind::BatchCancelled => "a batch was cancelled",
        EventKind::ListCompleted => "every address of a list has its result",
        EventKind::ListCancelled => "a list was cancelled",
        EventKind::ListPaused => "a list waits for credits",
        EventKind::ListUnfit => "a list cannot be checked",
        EventKind::Test => "a test of the webhook",
    }
}

async fn render_one(
    visit: &Visit,
    webhook: &Webhook,
    wrong: Option<&str>,
    secret: Option<&WebhookSecret>,
) -> Result<Reply, Problem> {
    let signed_in = visit.signed_in()?;
    let before: Option<MessageId> = visit.query("after").and_then(|after| after.parse().ok());
    let store = &visit.checks.store;
    let log = store.deliveries(signed_in.account, webhook.id, before, DELIVERIES_SHOWN + 1).await;
    let mut log = log.map_err(problem)?;
    let more = log.len() > DELIVERIES_SHOWN;
    log.truncate(DELIVERIES_SHOWN);
    let next = log.last().filter(|_| more).map(|delivery| delivery.message);
    let body = html! {
        h1 { "Webhook" }
        (notice(wrong))
        @if let Some(secret) = secret { (shown_once(secret)) }
        (facts(webhook))
        (actions(signed_in, webhook))
        details open[wrong.is_some()] {
            summary { "Change the URL, the label or the events" }
            form method="post" action=(path(webhook)) {
                (token_field(&signed_in.csrf))
                (fields(visit, &webhook.url, &webhook.label, webhook.events))
                button type="submit" { "Save changes" }
            }
        }
        h2 { "Deliveries" }
        div #deliveries data-refresh=[log.iter().any(is_waiting).then(|| path(webhook))] {
            @if log.is_empty() {
                p.empty { "There are no deliveries." }
            } @else {
                (page::table("Deliveries", &["Event", "Time", "State", "Attempts", "Next attempt", "Message"], html! {
                    @for delivery in &log { (delivery_row(delivery)) }
                }))
            }
        }
        @if let Some(next) = next {
            p { a href={ (path(webhook)) "?after=" (next) } { "Earlier deliveries" } }
        }
        p { a href="/webhooks" { "All webhooks" } }
    };
    Ok(page::page_at("Webhook", Some("/webhooks"), Some(signed_in), body))
}

fn shown_once(secret: &WebhookSecret) -> Markup {
    html! {
        section.card aria-labelledby="new-secret-title" {
            h2 #new-secret-title { "Your new secret" }
            p { "Your server verifies the messages with this secret ("  a href="/docs#tag-webhooks" { "how" } "). Copy it now: it cannot be shown again." }
            label for="new-secret" { "Secret" }
            input.key #new-secret type="text" readonly value=(reveal(secret)) autocomplete="off" spellcheck="false";
            button type="button" data-copy="new-secret" hidden { "Copy" }
        }
    }
}

fn facts(webhook: &Webhook) -> Markup {
    let kinds: Vec<&str> = webhook.events.kinds().map(EventKind::as_str).collect();
    html! {
        p { code { (webhook.url) } " " (state(webhook)) }
        @if !webhook.label.is_empty() { p { (webhook.label) } }
        p { "Events: " (kinds.join(", ")) }
        @match webhook.health.state {
            EndpointState::Disabled(DisableReason::Owner) => p { "You have disabled this webhook." },
            EndpointState::Disabled(DisableReason::Gone) => p.notice.warn { "The webhook is disabled: its server answered 410." },
            EndpointState::Disabled(DisableReason::Failures) => p.notice.warn { "The webhook is disabled: all attempts of three days have failed." },
            EndpointState::Enabled => {}
        }
        @if let Some(since) = webhook.health.failing_since { p { "Attempts have failed since " (time(since)) "." } }
        @if webhook.missed > 0 { p { (webhook.missed) " events were not sent, because too many messages waited." } }
        @if let Some(until) = webhook.old_secret_until.filter(|until| clock::now() < *until) {
            p { "The old secret signs as well until " (time(until)) "." }
        }
    }
}

fn actions(signed_in: &SignedIn, webhook: &Webhook) -> Markup {
    let form = |action: &str, class: &str, name: &str| {
        html! {
            form method="post" action={ (path(webhook)) "/" (action) } {
                (token_field(&signed_in.csrf))
                @if action == "rotate" { input type="hidden" name=(SECRET_FIELD) value=(secret_mark(webhook)); }
                button class=(class) type="submit" { (name) }
            }
        }
    };
    html! {
        div.actions {
            @if webhook.health.is_enabled() {
                (form("test", "", "Send a test"))
                (form("disable", "quiet", "Disable"))
            } @else {
                (form("enable", "", "Enable"))
            }
            (form("rotate", "quiet", "Replace the secret"))
            (form("delete", "danger", "Delete webhook"))
        }
    }
}

/// Whether the message will be sent, or sent again. The messages of an endpoint are sent in order.
fn is_waiting(delivery: &Delivery) -> bool {
    delivery.state == DeliveryState::Waiting
}

fn delivery_row(delivery: &Delivery) -> Markup {
    let object = match delivery.event.object {
        EventObject::Batch(id) => html! { a href={ "/batches/" (id) } { (id) } },
        EventObject::List(id) => html! { a href={ "/lists/" (id) } { (id) } },
        EventObject::Webhook(_) => html! {},
    };
    html! {
        tr {
            td data-label="Event" { code.whole { (delivery.event.kind.as_str()) } " " (object) }
            td data-label="Time" { (time(delivery.created_at)) }
            td data-label="State" {
                span.tag.good[delivery.state == DeliveryState::Delivered].warn[delivery.state != DeliveryState::Delivered] { (delivery.state.as_str()) }
            }
            td data-label="Attempts" {
                @if delivery.attempts.is_empty() { span.soft { "none" } }
                @else { ol { @for attempt in &delivery.attempts { li { (time(attempt.at)) ": " (result(attempt)) } } } }
            }
            td data-label="Next attempt" {
                @match delivery.next_at {
                    Some(at) => (time(at)),
                    None if is_waiting(delivery) => span.soft { "after the messages before it" },
                    None => span.soft { "none" },
                }
            }
            td.mono data-label="Message" { (delivery.message) }
        }
    }
}

fn result(attempt: &Attempt) -> String {
    let took_ms = attempt.took_ms;
    match attempt.result {
        AttemptResult::Status(status) => format!("status {status} after {took_ms} ms"),
        AttemptResult::Failed(fault) => {
            let why = match fault {
                AttemptFault::NoAddress => "the name of the host has no address",
                AttemptFault::AddressNotAllowed => {
                    "the host has no address that is allowed: https:// needs a public one, and http:// one in a network that the operator allows"
                }
                AttemptFault::Connection => "the connection failed",
                AttemptFault::Tls => "the certificate is not valid, or TLS failed",
                AttemptFault::Timeout => "no answer in time",
                AttemptFault::InvalidAnswer => "the answer is not HTTP",
                AttemptFault::UrlNotAllowed => "the URL is not allowed any longer",
            };
            format!("{why} ({took_ms} ms)")
        }
    }
}
