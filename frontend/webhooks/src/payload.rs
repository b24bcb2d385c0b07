//! The body of a message: what happened, without an address, a name of a file or a key.

use api::{WebhookData, WebhookPayload};
use store::UnixMs;
use store::credits::calendar::Iso8601;
use store::webhooks::{Event, EventKind, EventObject};

/// The status of the object, which the kind of event implies.
fn status(kind: EventKind) -> Option<&'static str> {
    match kind {
        EventKind::BatchCompleted | EventKind::ListCompleted => Some("completed"),
        EventKind::BatchCancelled | EventKind::ListCancelled => Some("cancelled"),
        EventKind::ListPaused => Some("paused"),
        EventKind::ListUnfit => Some("unfit"),
        EventKind::Test => None,
    }
}

/// The body of a message about an event at this time. It is the same in each attempt.
pub fn body(event: &Event, created_at: UnixMs) -> Vec<u8> {
    let Event { kind, object, total, checked, ref counts } = *event;
    let id = match object {
        EventObject::Batch(id) => id.to_string(),
        EventObject::List(id) => id.to_string(),
        EventObject::Webhook(id) => id.to_string(),
    };
    let data = match (object, status(kind)) {
        (EventObject::Batch(_), Some(status)) => {
            WebhookData::Batch { batch_id: id, status, total, checked, counts: counts.clone().into() }
        }
        (EventObject::List(_), Some(status)) => {
            WebhookData::List { list_id: id, status, total, checked, counts: counts.clone().into() }
        }
        _ => WebhookData::Test { webhook_id: id },
    };
    let payload = WebhookPayload { kind: kind.as_str(), timestamp: Iso8601(created_at).to_string(), data };
    // Writing to memory does not fail, and the keys are texts.
    serde_json::to_vec(&payload).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason::{CatchAll, MailboxExists};
    use store::{BatchId, ListId, WebhookId};

    #[track_caller]
    fn check(kind: EventKind, object: EventObject, counts: &[(api::Reason, u64)], expected: &str) {
        let event = Event { kind, object, total: 3, checked: 2, counts: counts.to_vec() };
        let text = String::from_utf8(body(&event, 1_801_386_000_000)).expect("JSON");
        let (start, end) = ("\"timestamp\":\"2027-01-31T09:00:00", "\"data\":");
        assert!(text.contains(start), "{text}");
        let (_, data) = text.split_once(end).expect("data");
        assert_eq!(format!("{}{data}", text.split_once(',').expect("a type").0), expected);
    }

    #[test]
    fn bodies_have_the_form_of_the_decision() {
        let batch = EventObject::Batch(BatchId::from_bytes([0; 16]));
        let list = EventObject::List(ListId::from_bytes([0; 16]));
        let zeros = "0".repeat(26);
        check(
            EventKind::BatchCompleted,
            batch,
            &[(CatchAll, 1), (MailboxExists, 2)],
            &format!(
                r#"{{"type":"batch.completed"{{"batch_id":"bat_{zeros}","status":"completed","total":3,"checked":2,"counts":{{"mailbox_exists":2,"catch_all":1}}}}}}"#
            ),
        );
        check(
            EventKind::ListPaused,
            list,
            &[],
            &format!(
                r#"{{"type":"list.paused"{{"list_id":"lst_{zeros}","status":"paused","total":3,"checked":2,"counts":{{}}}}}}"#
            ),
        );
        check(
            EventKind::Test,
            EventObject::Webhook(WebhookId::from_bytes([0; 16])),
            &[],
            &format!(r#"{{"type":"webhook.test"{{"webhook_id":"whk_{zeros}"}}}}"#),
        );
    }
}
