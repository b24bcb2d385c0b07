//! The operations of `/v1/webhooks`.

use super::super::answers::{self, answer, with_limits};
use super::super::examples::Example;
use super::super::{examples, schemas};
use super::{after, body, limit, link, path_id, responses};
use crate::{
    Delivery, DeliveryAttempt, DeliveryError, DeliveryList, DeliveryStatus, Webhook, WebhookBody,
    WebhookChangeBody, WebhookDisabledReason, WebhookEvent, WebhookList, WebhookTested,
};
use serde_json::{Value, json};

const WEBHOOK_ID: &str = "whk_01kdvds2j0emq8k9w39qsaekf4";
const MESSAGE_ID: &str = "msg_01kdvf0q40c2v9f7n6x8y5r3ta";
const CREATED_AT: &str = "2026-01-01T00:00:00+00:00";

pub fn create() -> Value {
    let mut made = answer(
        "The endpoint was created. Store its `secret`: it is not shown again.",
        &schemas::of::<Webhook>(),
        vec![("created", "A new endpoint", json!(secret_webhook()))],
        &with_limits(&[]),
    );
    let link = |operation: &str, description: &str| link(operation, "webhook_id", description);
    made["links"] = json!({
        "show": link("showWebhook", "Look at the endpoint."),
        "change": link("changeWebhook", "Change or disable the endpoint."),
        "delete": link("deleteWebhook", "Delete the endpoint."),
        "rotate": link("rotateWebhookSecret", "Get another secret."),
        "test": link("testWebhook", "Send a message to the endpoint."),
        "deliveries": link("listDeliveries", "Look at the messages and their attempts."),
    });
    json!({
        "operationId": "createWebhook",
        "tags": ["Webhooks"],
        "summary": "Create an endpoint",
        "description": "The service sends a message to this URL when a batch or a list of the account ends. An \
            account has at most 10 endpoints. All operations on webhooks need a live key.",
        "requestBody": body::<WebhookBody>(requests()),
        "responses": responses(
            "201",
            made,
            &answers::INVALID,
            &[&answers::LIVE_ONLY, &answers::INVALID_STATE, &answers::TOO_LARGE, &answers::NO_JSON],
        ),
    })
}

pub fn list() -> Value {
    let all = WebhookList { webhooks: vec![webhook(), disabled()] };
    let shown = answer(
        "The endpoints of the account.",
        &schemas::of::<WebhookList>(),
        vec![("two", "Two endpoints", json!(all))],
        &with_limits(&[]),
    );
    json!({
        "operationId": "listWebhooks",
        "tags": ["Webhooks"],
        "summary": "List the endpoints",
        "description": "Free. No answer of this operation has a secret.",
        "responses": responses("200", shown, &answers::INVALID, &[&answers::LIVE_ONLY]),
    })
}

pub fn show() -> Value {
    json!({
        "operationId": "showWebhook",
        "tags": ["Webhooks"],
        "summary": "Show an endpoint",
        "description": "Free.",
        "parameters": [id()],
        "responses": responses(
            "200",
            one("The endpoint.", "failing", "Its attempts fail", &failing()),
            &answers::INVALID,
            &[&answers::LIVE_ONLY, &answers::NOT_FOUND],
        ),
    })
}

pub fn change() -> Value {
    json!({
        "operationId": "changeWebhook",
        "tags": ["Webhooks"],
        "summary": "Change an endpoint",
        "description": "Fields that are absent stay as they are. An endpoint that is enabled again begins without \
            earlier failures. A disabled endpoint gets no messages: each message is discarded when its next attempt \
            would begin.",
        "parameters": [id()],
        "requestBody": body::<WebhookChangeBody>(changes()),
        "responses": responses(
            "200",
            one("The endpoint after the change.", "changed", "After the change", &webhook()),
            &answers::INVALID,
            &[&answers::LIVE_ONLY, &answers::NOT_FOUND, &answers::TOO_LARGE, &answers::NO_JSON],
        ),
    })
}

pub fn delete() -> Value {
    let mut gone = answer("The endpoint was deleted.", &json!({}), Vec::new(), &with_limits(&[]));
    if let Some(gone) = gone.as_object_mut() {
        gone.remove("content");
    }
    json!({
        "operationId": "deleteWebhook",
        "tags": ["Webhooks"],
        "summary": "Delete an endpoint",
        "description": "Messages that wait are not sent any more.",
        "parameters": [id()],
        "responses":
            responses("204", gone, &answers::INVALID, &[&answers::LIVE_ONLY, &answers::NOT_FOUND]),
    })
}

pub fn rotate() -> Value {
    json!({
        "operationId": "rotateWebhookSecret",
        "tags": ["Webhooks"],
        "summary": "Replace the secret",
        "description": "Each message has a signature by the new secret and, for 24 hours, one by the secret before. \
            More than three rotations within 24 hours are refused.",
        "parameters": [id()],
        "responses": responses(
            "200",
            one("The endpoint with its new `secret`.", "rotated", "After a rotation", &rotated()),
            &answers::INVALID,
            &[&answers::LIVE_ONLY, &answers::NOT_FOUND, &answers::INVALID_STATE],
        ),
    })
}

pub fn test() -> Value {
    let tested = answer(
        "The message is on its way.",
        &schemas::of::<WebhookTested>(),
        vec![("tested", "The message", json!(WebhookTested { message_id: MESSAGE_ID.into() }))],
        &with_limits(&[]),
    );
    json!({
        "operationId": "testWebhook",
        "tags": ["Webhooks"],
        "summary": "Send a test",
        "description": "Sends an event `webhook.test` to the endpoint, even if its `events` do not contain it. It counts against the \
            limit of new batches.",
        "parameters": [id()],
        "responses": responses(
            "202",
            tested,
            &answers::INVALID,
            &[&answers::LIVE_ONLY, &answers::NOT_FOUND, &answers::INVALID_STATE],
        ),
    })
}

pub fn deliveries() -> Value {
    let limit = limit("The most deliveries in the answer.", ("most", 100));
    let after = after("msg", "The value of `next` in the answer before.", ("cursor", MESSAGE_ID));
    let log = answer(
        "A page of the log, newest first.",
        &schemas::of::<DeliveryList>(),
        vec![("two", "A message that waits, and one that was delivered", json!(log()))],
        &with_limits(&[]),
    );
    json!({
        "operationId": "listDeliveries",
        "tags": ["Webhooks"],
        "summary": "Show the log of deliveries",
        "description": "Free. The log has the last 1,000 messages of the endpoint, for at most 7 days.",
        "parameters": [id(), limit, after],
        "responses": responses("200", log, &answers::INVALID, &[&answers::LIVE_ONLY, &answers::NOT_FOUND]),
    })
}

fn id() -> Value {
    path_id("webhook_id", "The id of the endpoint.", WEBHOOK_ID)
}

fn one(description: &str, name: &'static str, summary: &'static str, webhook: &Webhook) -> Value {
    let examples: Vec<Example> = vec![(name, summary, json!(webhook))];
    answer(description, &schemas::of::<Webhook>(), examples, &with_limits(&[]))
}

fn requests() -> Vec<Example> {
    vec![
        (
            "chosen",
            "Two events",
            json!({
                "url": "https://hooks.example.com/mailprobe",
                "events": ["batch.completed", "list.completed"],
                "label": "Production",
            }),
        ),
        ("all", "All events", json!({ "url": "https://hooks.example.com/mailprobe" })),
    ]
}

fn changes() -> Vec<Example> {
    vec![
        ("disable", "No messages for now", json!({ "enabled": false })),
        (
            "move",
            "Another URL and other events",
            json!({
                "url": "https://hooks.example.com/v2",
                "events": ["list.paused"],
                "label": "Second version",
            }),
        ),
    ]
}

fn webhook() -> Webhook {
    Webhook {
        webhook_id: WEBHOOK_ID.into(),
        url: "https://hooks.example.com/mailprobe".into(),
        label: Some("Production".into()),
        events: vec![WebhookEvent::BatchCompleted, WebhookEvent::ListCompleted],
        enabled: true,
        disabled_reason: None,
        failing_since: None,
        waiting: 0,
        missed: 0,
        old_secret_until: None,
        created_at: CREATED_AT.into(),
        secret: None,
    }
}

fn secret_webhook() -> Webhook {
    // A secret of zeros, which scanners of secrets ignore.
    Webhook { secret: Some(format!("whsec_{}", "A".repeat(32))), ..webhook() }
}

fn rotated() -> Webhook {
    Webhook { old_secret_until: Some("2026-01-02T00:00:00+00:00".into()), ..secret_webhook() }
}

fn failing() -> Webhook {
    Webhook { failing_since: Some("2026-01-01T06:00:00+00:00".into()), waiting: 3, ..webhook() }
}

fn disabled() -> Webhook {
    let reason = Some(WebhookDisabledReason::Failures);
    Webhook { enabled: false, disabled_reason: reason, label: None, waiting: 0, missed: 2, ..failing() }
}

fn log() -> DeliveryList {
    let attempt =
        |at: &str, duration_ms, status, error| DeliveryAttempt { at: at.into(), duration_ms, status, error };
    let waiting = Delivery {
        message_id: MESSAGE_ID.into(),
        kind: "batch.completed".into(),
        object_id: examples::BATCH_ID.into(),
        created_at: CREATED_AT.into(),
        status: DeliveryStatus::Waiting,
        attempts: vec![
            attempt("2026-01-01T00:00:01+00:00", 120, Some(503), None),
            attempt("2026-01-01T00:00:21+00:00", 15_000, None, Some(DeliveryError::Timeout)),
        ],
        next_attempt_at: Some("2026-01-01T00:05:30+00:00".into()),
    };
    let delivered = Delivery {
        message_id: "msg_01kdvds2j0a7d3e5f1g9h2j4km".into(),
        kind: "webhook.test".into(),
        object_id: WEBHOOK_ID.into(),
        status: DeliveryStatus::Delivered,
        attempts: vec![attempt("2026-01-01T00:00:00+00:00", 95, Some(204), None)],
        next_attempt_at: None,
        ..waiting.clone()
    };
    DeliveryList { next: Some(delivered.message_id.clone()), deliveries: vec![waiting, delivered] }
}
