//! The bodies of messages, and the requests and answers of `/v1/webhooks`.

use crate::request::{Choice, choice, keep, object, optional_bool, optional_string, required_string};
use crate::{Issue, IssueType, Loc, Reason};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
#[cfg(test)]
use utoipa::ToSchema;

/// The most characters of an endpoint's URL.
pub const URL_CHARS_MAX: usize = 2048;
/// The most characters of an endpoint's label.
pub const LABEL_CHARS_MAX: usize = 100;
/// The most events in a request.
pub const EVENTS_MAX: usize = 6;

/// How often each reason occurs: an object with the reasons as its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonCounts(Vec<(Reason, u64)>);

impl From<Vec<(Reason, u64)>> for ReasonCounts {
    fn from(counts: Vec<(Reason, u64)>) -> ReasonCounts {
        ReasonCounts(counts)
    }
}

impl Serialize for ReasonCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        // In the order of the reasons, so that the same counts have the same text.
        for reason in Reason::ALL {
            for (_, count) in self.0.iter().filter(|(counted, _)| *counted == reason) {
                map.serialize_entry(&reason, count)?;
            }
        }
        map.end()
    }
}

/// The body of a message to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookPayload {
    /// The event, such as `batch.completed`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The time of the event, in ISO 8601.
    pub timestamp: String,
    /// The object of the event.
    pub data: WebhookData,
}

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum WebhookData {
    /// The end of a batch.
    Batch {
        /// The id of the batch.
        batch_id: String,
        /// Its status.
        status: &'static str,
        /// The number of rows.
        total: u64,
        /// The number of rows with an answer.
        checked: u64,
        /// How often each reason occurs.
        counts: ReasonCounts,
    },
    /// A list.
    List {
        /// The id of the list.
        list_id: String,
        /// Its status.
        status: &'static str,
        /// The number of different addresses.
        total: u64,
        /// The number of different addresses with an answer.
        checked: u64,
        /// How often each reason occurs.
        counts: ReasonCounts,
    },
    /// A test.
    Test {
        /// The id of the endpoint.
        webhook_id: String,
    },
}

/// The answer about an endpoint.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Webhook {
    /// The id of the endpoint.
    pub webhook_id: String,
    /// The URL that gets the messages.
    pub url: String,
    /// Your name for the endpoint; null if it has none.
    pub label: Option<String>,
    /// The events that are sent to the endpoint.
    pub events: Vec<WebhookEvent>,
    /// Whether the endpoint gets messages.
    pub enabled: bool,
    /// The reason why the endpoint is disabled; null if it is enabled.
    pub disabled_reason: Option<WebhookDisabledReason>,
    /// The time of the first failed attempt since the last success; null if the last attempt succeeded. After three days of
    /// failures, the endpoint is disabled.
    pub failing_since: Option<String>,
    /// The number of messages that wait for their first or next attempt.
    pub waiting: u32,
    /// The number of events that were not sent, because 500 messages waited.
    pub missed: u64,
    /// The time until which the secret before the last rotation signs too; null without a rotation.
    pub old_secret_until: Option<String>,
    /// The time of creation.
    pub created_at: String,
    /// The secret that verifies messages. Only the answers that create or rotate it have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    pub secret: Option<String>,
}

/// An event that an endpoint can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub enum WebhookEvent {
    /// Every address of a batch has its result.
    #[serde(rename = "batch.completed")]
    BatchCompleted,
    /// A batch was cancelled.
    #[serde(rename = "batch.cancelled")]
    BatchCancelled,
    /// Every address of a list has its result.
    #[serde(rename = "list.completed")]
    ListCompleted,
    /// A list was cancelled.
    #[serde(rename = "list.cancelled")]
    ListCancelled,
    /// A list waits for credits.
    #[serde(rename = "list.paused")]
    ListPaused,
    /// A list cannot be checked.
    #[serde(rename = "list.unfit")]
    ListUnfit,
}

impl Choice for WebhookEvent {
    const VALUES: &'static [(&'static str, WebhookEvent)] = &[
        ("batch.completed", WebhookEvent::BatchCompleted),
        ("batch.cancelled", WebhookEvent::BatchCancelled),
        ("list.completed", WebhookEvent::ListCompleted),
        ("list.cancelled", WebhookEvent::ListCancelled),
        ("list.paused", WebhookEvent::ListPaused),
        ("list.unfit", WebhookEvent::ListUnfit),
    ];
}

/// The reason why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebhookDisabledReason {
    /// Its owner has disabled it.
    Owner,
    /// It has answered 410.
    Gone,
    /// All attempts of three days have failed.
    Failures,
}

/// The answer with all endpoints of the account.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct WebhookList {
    /// The endpoints, oldest first.
    pub webhooks: Vec<Webhook>,
}

/// The answer to a test of an endpoint.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct WebhookTested {
    /// The id of the message, which is its header `webhook-id`.
    pub message_id: String,
}

/// A page of the log of deliveries.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct DeliveryList {
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A message in the log of deliveries.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct Delivery {
    /// The id of the message, which is its header `webhook-id`.
    pub message_id: String,
    /// The event: one of those that an endpoint can get, or `webhook.test`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The id of the batch or list; of the endpoint itself for a test.
    pub object_id: String,
    /// The time of the event.
    pub created_at: String,
    /// The status of the delivery.
    pub status: DeliveryStatus,
    /// The attempts so far, oldest first.
    pub attempts: Vec<DeliveryAttempt>,
    /// The time of the next attempt. Null if there is none, or if an earlier message of the same object waits.
    pub next_attempt_at: Option<String>,
}

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It waits for its first or next attempt.
    Waiting,
    /// The endpoint has answered with a status from 200 to 299.
    Delivered,
    /// All attempts have failed, or the endpoint has answered 410.
    Failed,
    /// The endpoint was disabled when an attempt was due.
    Discarded,
}

/// An attempt to deliver a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct DeliveryAttempt {
    /// The time of the end of the attempt.
    pub at: String,
    /// The duration in milliseconds.
    pub duration_ms: u32,
    /// The HTTP status of the answer; null without an answer.
    pub status: Option<u16>,
    /// The reason why there was no answer; null with an answer.
    pub error: Option<DeliveryError>,
}

/// The reason why an attempt got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryError {
    /// The name of the host has no address.
    NoAddress,
    /// The host has only addresses that are not public.
    AddressNotAllowed,
    /// The connection failed or broke.
    ConnectionFailed,
    /// The handshake of TLS failed, or the certificate is not valid.
    TlsFailed,
    /// There was no connection to an address within 5 seconds, or no answer within 15 seconds in total.
    Timeout,
    /// The answer is not HTTP.
    InvalidAnswer,
    /// The service no longer allows the URL.
    UrlNotAllowed,
}

/// The body of a request that creates an endpoint.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = WebhookRequest))]
pub struct WebhookBody {
    /// The URL that gets the messages: `https`, a public host name, and no user name.
    #[cfg_attr(test, schema(format = "uri", max_length = 2048))]
    pub url: String,
    /// The events; all events if it is absent.
    #[cfg_attr(test, schema(min_items = 1, max_items = 6))]
    pub events: Option<Vec<WebhookEvent>>,
    /// Your name for the endpoint.
    #[cfg_attr(test, schema(max_length = 100, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"))]
    pub label: Option<String>,
}

impl WebhookBody {
    /// Reads a body. It does not check the URL.
    ///
    /// # Errors
    ///
    /// All errors in the body.
    pub fn parse(body: &[u8]) -> Result<WebhookBody, Vec<Issue>> {
        let fields = object(body).map_err(|issue| vec![issue])?;
        let mut issues = Vec::new();
        let url = keep(required_string(&fields, "url", URL_CHARS_MAX), &mut issues);
        let events = keep(events(&fields), &mut issues).flatten();
        let label = keep(optional_string(&fields, "label", LABEL_CHARS_MAX), &mut issues).flatten();
        match url {
            Some(url) if issues.is_empty() => Ok(WebhookBody { url, events, label }),
            _ => Err(issues),
        }
    }
}

/// A change of an endpoint. A field that is absent or null stays as it is.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(ToSchema))]
#[cfg_attr(test, schema(as = WebhookChangeRequest))]
pub struct WebhookChangeBody {
    /// The URL that gets the messages from now on.
    #[cfg_attr(test, schema(format = "uri", max_length = 2048))]
    pub url: Option<String>,
    /// The events from now on.
    #[cfg_attr(test, schema(min_items = 1, max_items = 6))]
    pub events: Option<Vec<WebhookEvent>>,
    /// Your name for the endpoint; an empty text removes it.
    #[cfg_attr(test, schema(max_length = 100, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"))]
    pub label: Option<String>,
    /// Whether the endpoint gets messages.
    pub enabled: Option<bool>,
}

impl WebhookChangeBody {
    /// Reads a body. It does not check the URL.
    ///
    /// # Errors
    ///
    /// All errors in the body.
    pub fn parse(body: &[u8]) -> Result<WebhookChangeBody, Vec<Issue>> {
        let fields = object(body).map_err(|issue| vec![issue])?;
        let mut issues = Vec::new();
        let url = keep(optional_string(&fields, "url", URL_CHARS_MAX), &mut issues).flatten();
        let events = keep(events(&fields), &mut issues).flatten();
        let label = keep(optional_string(&fields, "label", LABEL_CHARS_MAX), &mut issues).flatten();
        let enabled = keep(optional_bool(&fields, "enabled"), &mut issues).flatten();
        if issues.is_empty() { Ok(WebhookChangeBody { url, events, label, enabled }) } else { Err(issues) }
    }
}

/// Null is the same as absent. Duplicates are allowed: it is a set.
fn events(fields: &Map<String, Value>) -> Result<Option<Vec<WebhookEvent>>, Issue> {
    let items = match fields.get("events") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(Issue::new(&["body", "events"], IssueType::ListType, "must be an array")),
    };
    if items.is_empty() {
        return Err(
            Issue::new(&["body", "events"], IssueType::TooShort, "at least 1 event").ctx("min_length", 1)
        );
    }
    if items.len() > EVENTS_MAX {
        let issue =
            Issue::new(&["body", "events"], IssueType::TooLong, format!("at most {EVENTS_MAX} events"));
        return Err(issue.ctx("max_length", EVENTS_MAX));
    }
    let read = |(index, item): (usize, &Value)| {
        let read = match item {
            Value::String(name) => choice(["body", "events"], name),
            _ => Err(Issue::new(&["body", "events"], IssueType::StringType, "must be a string")),
        };
        read.map_err(|mut issue| {
            issue.loc.push(Loc::Index(index));
            issue
        })
    };
    items.iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_the_order_of_the_reasons() {
        let counts = ReasonCounts::from(vec![(Reason::CatchAll, 2), (Reason::MailboxExists, 1)]);
        assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"mailbox_exists":1,"catch_all":2}"#);
    }

    #[test]
    fn names_of_events_are_those_that_are_read() {
        for (name, event) in WebhookEvent::VALUES {
            assert_eq!(serde_json::to_value(event).unwrap(), *name);
        }
        assert_eq!(WebhookEvent::VALUES.len(), EVENTS_MAX);
    }

    #[test]
    fn bodies_are_read_strictly() {
        let read = |body: &str| WebhookBody::parse(body.as_bytes()).map_err(|issues| issues[0].kind);
        let body = read(r#"{"url":"https://a.example/","events":["list.paused"],"label":null,"x":1}"#);
        let body = body.ok().unwrap();
        assert_eq!((body.url.as_str(), body.label), ("https://a.example/", None));
        assert_eq!(body.events, Some(vec![WebhookEvent::ListPaused]));
        for (body, kind) in [
            ("", IssueType::JsonInvalid),
            ("[]", IssueType::ObjectType),
            ("{}", IssueType::Missing),
            (r#"{"url":1}"#, IssueType::StringType),
            (r#"{"url":"x","events":"list.paused"}"#, IssueType::ListType),
            (r#"{"url":"x","events":[]}"#, IssueType::TooShort),
            (r#"{"url":"x","events":[1]}"#, IssueType::StringType),
            (r#"{"url":"x","events":["webhook.test"]}"#, IssueType::Enum),
            (
                r#"{"url":"x","events":["list.unfit","list.unfit","list.unfit","list.unfit","list.unfit","list.unfit","list.unfit"]}"#,
                IssueType::TooLong,
            ),
        ] {
            assert_eq!(read(body).err(), Some(kind), "{body}");
        }
        let long = format!(r#"{{"url":"x","label":"{}"}}"#, "x".repeat(LABEL_CHARS_MAX + 1));
        assert_eq!(read(&long).err(), Some(IssueType::StringTooLong));
        let change = |body: &str| WebhookChangeBody::parse(body.as_bytes()).map_err(|issues| issues[0].kind);
        let changed = change(r#"{"enabled":false,"label":""}"#).ok().unwrap();
        assert_eq!((changed.enabled, changed.label.as_deref(), changed.url), (Some(false), Some(""), None));
        assert_eq!(change(r#"{"enabled":"no"}"#).err(), Some(IssueType::BoolType));
        assert!(change("{}").is_ok());
    }
}
