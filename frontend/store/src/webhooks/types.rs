//! Endpoints, events, messages and deliveries.

use super::{EndpointHealth, OLD_SECRETS_MAX, WEBHOOKS_MAX};
use crate::id::{AccountId, BatchId, ListId, MessageId, WebhookId};
use crate::names::quiet_debug;
use crate::{StoreError, UnixMs};
use api::Reason;
use api::named;
use std::fmt;
use thiserror::Error;

/// The bytes of a secret.
pub const WEBHOOK_SECRET_BYTES: usize = 24;

/// The secret that signs the messages of an endpoint. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WebhookSecret(pub [u8; WEBHOOK_SECRET_BYTES]);

quiet_debug!(WebhookSecret, WebhookChange);

named! {
    /// A kind of event. The numbers of the values, from 0, are those in the tables.
    EventKind {
        /// Every row of a batch has its answer.
        BatchCompleted = "batch.completed",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
        /// Every address of a list has its answer.
        ListCompleted = "list.completed",
        /// A list was cancelled.
        ListCancelled = "list.cancelled",
        /// A list waits for credits.
        ListPaused = "list.paused",
        /// A list cannot be checked.
        ListUnfit = "list.unfit",
        /// The owner of an endpoint tests it.
        Test = "webhook.test",
    }
}

/// A set of kinds of events, one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSet(u8);

impl EventSet {
    /// Every kind that an endpoint can choose: a test is sent to any endpoint.
    pub const ALL: EventSet = EventSet((1 << EventKind::Test as u8) - 1);

    /// The set of these kinds. A test is never part of a set.
    pub fn of(kinds: impl IntoIterator<Item = EventKind>) -> EventSet {
        EventSet(kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u8) & EventSet::ALL.0)
    }

    /// The set with these bits; `None` if a bit has no kind.
    pub fn from_bits(bits: u8) -> Option<EventSet> {
        (bits & !EventSet::ALL.0 == 0).then_some(EventSet(bits))
    }

    /// The bits of the set.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether the set has this kind.
    pub fn contains(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The kinds of the set, in the order of their numbers.
    pub fn kinds(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventObject {
    /// The batch that has ended.
    Batch(BatchId),
    /// A list.
    List(ListId),
    /// The endpoint itself, for a test.
    Webhook(WebhookId),
}

impl EventObject {
    /// The bytes of the object's id.
    pub fn to_bytes(self) -> [u8; 16] {
        match self {
            EventObject::Batch(id) => id.to_bytes(),
            EventObject::List(id) => id.to_bytes(),
            EventObject::Webhook(id) => id.to_bytes(),
        }
    }

    /// The object of an event of this kind.
    pub fn of(kind: EventKind, id: [u8; 16]) -> EventObject {
        match kind {
            EventKind::BatchCompleted | EventKind::BatchCancelled => {
                EventObject::Batch(BatchId::from_bytes(id))
            }
            EventKind::ListCompleted
            | EventKind::ListCancelled
            | EventKind::ListPaused
            | EventKind::ListUnfit => EventObject::List(ListId::from_bytes(id)),
            EventKind::Test => EventObject::Webhook(WebhookId::from_bytes(id)),
        }
    }
}

/// The end of a batch or list. It has no address and no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// What ended.
    pub object: EventObject,
    /// The number of rows of a batch, or of different addresses of a list.
    pub total: u64,
    /// How many of them have an answer.
    pub checked: u64,
    /// How often each reason occurs.
    pub counts: Vec<(Reason, u64)>,
}

/// An endpoint before its creation, with the secret in clear text.
#[derive(Clone)]
pub struct NewWebhook {
    /// The id, which the caller creates.
    pub id: WebhookId,
    /// The account.
    pub account: AccountId,
    /// The URL, which the caller has checked.
    pub url: String,
    /// A label of the owner, which may be empty.
    pub label: String,
    /// The events that it gets.
    pub events: EventSet,
    /// The secret.
    pub secret: WebhookSecret,
}

/// An endpoint as its owner sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The id.
    pub id: WebhookId,
    /// The time of creation.
    pub created_at: UnixMs,
    /// The URL.
    pub url: String,
    /// The label, which may be empty.
    pub label: String,
    /// The events that it gets.
    pub events: EventSet,
    /// The state, and since when attempts fail.
    pub health: EndpointHealth,
    /// How many messages wait.
    pub waiting: u32,
    /// How many events were missed because [`WAITING_MAX`](super::WAITING_MAX) messages waited.
    pub missed: u64,
    /// The time until which the secret before the last rotation signs as well. Earlier ones end earlier.
    pub old_secret_until: Option<UnixMs>,
}

/// A change of an endpoint. `None` leaves a value as it is.
#[derive(Clone, Default)]
pub struct WebhookChange {
    /// The new URL, which the caller has checked.
    pub url: Option<String>,
    /// The new label.
    pub label: Option<String>,
    /// The events that it gets from now on.
    pub events: Option<EventSet>,
    /// Whether it gets messages.
    pub enabled: Option<bool>,
    /// The new secret. The one before signs as well for [`OLD_SECRET_MS`](super::OLD_SECRET_MS), even if there are further
    /// rotations in this time.
    pub secret: Option<WebhookSecret>,
}

/// The random number of a claim. Each claim has its own, also each claim of the same sender: a sender that was suspended for
/// longer than [`CLAIM_MS`](super::CLAIM_MS) must not continue with a claim that it has lost to itself.
pub type ClaimNumber = [u8; 16];

/// An endpoint with a message that is due. They are in the order of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueWebhook {
    /// The time since which it can be claimed.
    pub since: UnixMs,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The account.
    pub account: AccountId,
}

/// A message that a sender has claimed. `Debug` shows neither the URL nor a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimedMessage {
    /// The account.
    pub account: AccountId,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The id of the message, which is the same in each attempt.
    pub message: MessageId,
    /// The event.
    pub event: Event,
    /// The time of the event.
    pub created_at: UnixMs,
    /// The URL.
    pub url: String,
    /// The secrets that sign: the present one, and those before for some time after a rotation. The newest one is the first.
    pub secrets: Vec<WebhookSecret>,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    /// The endpoint answered with this status.
    Status(u16),
    /// There was no answer.
    Failed(AttemptFault),
}

impl AttemptResult {
    /// Whether the message is delivered.
    pub fn is_success(self) -> bool {
        matches!(self, AttemptResult::Status(200..=299))
    }

    /// Whether the endpoint says that it wants no messages.
    pub fn is_gone(self) -> bool {
        self == AttemptResult::Status(410)
    }
}

named! {
    /// The reason why an attempt got no answer. The numbers of the values, from 0, are those in the tables.
    AttemptFault {
        /// The name of the host has no address.
        NoAddress = "no_address",
        /// The host has only addresses that are not public.
        AddressNotAllowed = "address_not_allowed",
        /// The connection failed or broke.
        Connection = "connection_failed",
        /// The handshake of TLS failed, or the certificate is not valid.
        Tls = "tls_failed",
        /// There was no answer in time.
        Timeout = "timeout",
        /// The answer is not HTTP.
        InvalidAnswer = "invalid_answer",
        /// The URL is no longer allowed.
        UrlNotAllowed = "url_not_allowed",
    }
}

/// An attempt to deliver a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The time of its end.
    pub at: UnixMs,
    /// Its duration in milliseconds.
    pub took_ms: u32,
    /// Its result.
    pub result: AttemptResult,
}

/// The report of a sender about a claimed message.
#[derive(Debug, Clone)]
pub struct AttemptReport {
    /// The number of the claim.
    pub claim: ClaimNumber,
    /// The account.
    pub account: AccountId,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The message.
    pub message: MessageId,
    /// What the message is about.
    pub object: EventObject,
    /// The attempt; `None` if there was none, and the message is to be tried again in a second.
    pub attempt: Option<Attempt>,
    /// A random number for the time of the next attempt.
    pub jitter: u16,
    /// Whether the next message of the endpoint is wanted.
    pub wants_next: bool,
}

named! {
    /// The state of a delivery. The numbers of the values, from 0, are those in the tables.
    DeliveryState {
        /// It waits for its first or next attempt.
        Waiting = "waiting",
        /// The endpoint has answered with success.
        Delivered = "delivered",
        /// All attempts have failed, or the endpoint has answered 410.
        Failed = "failed",
        /// Its endpoint was disabled when it was due.
        Discarded = "discarded",
    }
}

/// A message in the log of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id of the message.
    pub message: MessageId,
    /// The event.
    pub event: Event,
    /// The time of the event.
    pub created_at: UnixMs,
    /// The state.
    pub state: DeliveryState,
    /// The attempts so far, oldest first.
    pub attempts: Vec<Attempt>,
    /// The time of the next attempt, unless the message has ended or waits for an earlier one of its object.
    pub next_at: Option<UnixMs>,
}

/// The reason why an endpoint was not created, changed or tested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookError {
    /// The account has no such endpoint, or there is no such account.
    #[error("no such endpoint")]
    Unknown,
    /// The account has [`WEBHOOKS_MAX`] endpoints.
    #[error("the account has {WEBHOOKS_MAX} endpoints")]
    TooMany,
    /// The endpoint is disabled.
    #[error("the endpoint is disabled")]
    Disabled,
    /// Too many messages wait at the endpoint.
    #[error("too many messages wait at the endpoint")]
    Full,
    /// The endpoint has [`OLD_SECRETS_MAX`] old secrets that sign, so it gets no new secret.
    #[error("the secret was replaced {OLD_SECRETS_MAX} times within 24 hours")]
    TooManySecrets,
    /// A value is out of range, or the id exists.
    #[error("a value is out of range, or the id exists")]
    Bad,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// URLs may have secrets, and `Debug` output may be logged.
impl fmt::Debug for NewWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewWebhook({})", self.id)
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({}, {:?}, {} waiting)", self.id, self.health, self.waiting)
    }
}

impl fmt::Debug for ClaimedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedMessage({}, {}, {:?})", self.webhook, self.message, self.event.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_come_back() {
        for (number, kind) in (0..).zip(EventKind::ALL) {
            assert_eq!((kind as u8, EventKind::parse(kind.as_str())), (number, Some(kind)));
            assert_eq!(EventSet::ALL.contains(kind), kind != EventKind::Test);
        }
        assert!((0..).zip(AttemptFault::ALL).all(|(number, fault)| fault as u8 == number));
        assert!((0..).zip(DeliveryState::ALL).all(|(number, state)| state as u8 == number));
        assert_eq!(EventKind::parse("batch"), None);
    }

    #[test]
    fn a_set_has_the_kinds_it_was_made_of() {
        let set = EventSet::of([EventKind::ListPaused, EventKind::BatchCompleted, EventKind::Test]);
        assert_eq!(set.kinds().collect::<Vec<_>>(), [EventKind::BatchCompleted, EventKind::ListPaused]);
        assert_eq!(EventSet::from_bits(set.bits()), Some(set));
        assert_eq!(EventSet::from_bits(1 << EventKind::Test as u8), None);
        assert_eq!(EventSet::ALL.kinds().count(), 6);
    }

    #[test]
    fn only_2yz_is_a_success() {
        for (status, success, gone) in [
            (199, false, false),
            (200, true, false),
            (299, true, false),
            (302, false, false),
            (410, false, true),
        ] {
            let result = AttemptResult::Status(status);
            assert_eq!((result.is_success(), result.is_gone()), (success, gone), "{status}");
        }
        assert!(!AttemptResult::Failed(AttemptFault::Timeout).is_success());
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = WebhookSecret([7; 24]);
        assert_eq!(format!("{secret:?}"), "WebhookSecret");
    }
}
