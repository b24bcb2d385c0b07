//! The forms of endpoints and deliveries in the API.

use store::UnixMs;
use store::credits::calendar::Iso8601;
use store::webhooks::{
    Attempt, AttemptFault, AttemptResult, Delivery, DeliveryState, DisableReason, EndpointState, EventKind,
    EventObject,
};

/// An endpoint without its secret.
pub fn webhook(webhook: store::webhooks::Webhook) -> api::Webhook {
    let store::webhooks::Webhook { id, created_at, url, label, events, health, waiting, missed, .. } =
        webhook;
    let time = |at: UnixMs| Iso8601(at).to_string();
    let event = |kind: EventKind| {
        use api::request::Choice;
        api::WebhookEvent::VALUES.iter().find(|(name, _)| *name == kind.as_str()).map(|(_, event)| *event)
    };
    let reason = match health.state {
        EndpointState::Enabled => None,
        EndpointState::Disabled(DisableReason::Owner) => Some(api::WebhookDisabledReason::Owner),
        EndpointState::Disabled(DisableReason::Gone) => Some(api::WebhookDisabledReason::Gone),
        EndpointState::Disabled(DisableReason::Failures) => Some(api::WebhookDisabledReason::Failures),
    };
    api::Webhook {
        webhook_id: id.to_string(),
        url,
        label: Some(label).filter(|label| !label.is_empty()),
        events: events.kinds().filter_map(event).collect(),
        enabled: health.is_enabled(),
        disabled_reason: reason,
        failing_since: health.failing_since.map(time),
        waiting,
        missed,
        old_secret_until: webhook.old_secret_until.map(time),
        created_at: time(created_at),
        secret: None,
    }
}

/// A message in the log of deliveries.
pub fn delivery(delivery: Delivery) -> api::Delivery {
    let Delivery { message, event, created_at, state, attempts, next_at } = delivery;
    let object_id = match event.object {
        EventObject::Batch(id) => id.to_string(),
        EventObject::List(id) => id.to_string(),
        EventObject::Webhook(id) => id.to_string(),
    };
    api::Delivery {
        message_id: message.to_string(),
        kind: event.kind.as_str().to_owned(),
        object_id,
        created_at: Iso8601(created_at).to_string(),
        status: match state {
            DeliveryState::Waiting => api::DeliveryStatus::Waiting,
            DeliveryState::Delivered => api::DeliveryStatus::Delivered,
            DeliveryState::Failed => api::DeliveryStatus::Failed,
            DeliveryState::Discarded => api::DeliveryStatus::Discarded,
        },
        attempts: attempts.into_iter().map(attempt).collect(),
        next_attempt_at: next_at.map(|at| Iso8601(at).to_string()),
    }
}

fn attempt(attempt: Attempt) -> api::DeliveryAttempt {
    let (status, error) = match attempt.result {
        AttemptResult::Status(status) => (Some(status), None),
        AttemptResult::Failed(fault) => (None, Some(delivery_error(fault))),
    };
    api::DeliveryAttempt { at: Iso8601(attempt.at).to_string(), duration_ms: attempt.took_ms, status, error }
}

fn delivery_error(fault: AttemptFault) -> api::DeliveryError {
    match fault {
        AttemptFault::NoAddress => api::DeliveryError::NoAddress,
        AttemptFault::AddressNotAllowed => api::DeliveryError::AddressNotAllowed,
        AttemptFault::Connection => api::DeliveryError::ConnectionFailed,
        AttemptFault::Tls => api::DeliveryError::TlsFailed,
        AttemptFault::Timeout => api::DeliveryError::Timeout,
        AttemptFault::InvalidAnswer => api::DeliveryError::InvalidAnswer,
        AttemptFault::UrlNotAllowed => api::DeliveryError::UrlNotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::request::Choice;
    use store::webhooks::EventSet;

    #[test]
    fn names_are_those_of_the_store() {
        for fault in AttemptFault::ALL {
            assert_eq!(serde_json::to_value(delivery_error(fault)).unwrap(), fault.as_str());
        }
        let known: Vec<&str> = api::WebhookEvent::VALUES.iter().map(|(name, _)| *name).collect();
        assert_eq!(EventSet::ALL.kinds().map(EventKind::as_str).collect::<Vec<_>>(), known);
    }
}
