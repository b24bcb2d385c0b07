//! Webhooks: endpoints of accounts, the messages for them, and the rules of their delivery.
//!
//! An endpoint gets a message when a batch or a list of its account ends. The write that ends the object also writes the
//! messages, so none is lost by a crash, and none is sent for something that did not end. A sender claims an endpoint for
//! [`CLAIM_MS`], attempts one message, and notes the result.
//!
//! The rules are pure: [`schedule`] has the times of attempts, [`ObjectQueue`] the order of messages, and [`EndpointHealth`] the
//! states of an endpoint.

mod health;
mod queue;
pub mod schedule;
mod types;

pub use health::{DisableReason, EndpointHealth, EndpointState};
pub use queue::ObjectQueue;
pub use types::*;

use crate::{AccountId, Authority, MessageId, Pending, StoreError, UnixMs, WebhookId};

/// The most endpoints of an account.
pub const WEBHOOKS_MAX: usize = 10;

/// The longest URL of an endpoint, in bytes.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;

/// The longest label of an endpoint, in characters.
pub const WEBHOOK_LABEL_CHARS_MAX: usize = 100;

/// How long the old secret signs as well after a rotation, in milliseconds.
pub const OLD_SECRET_MS: UnixMs = 24 * 60 * 60 * 1000;

/// The most old secrets that sign as well. Beyond it, a rotation is refused.
pub const OLD_SECRETS_MAX: usize = 3;

/// The most messages that wait at an endpoint. Beyond it, new events are missed: they are counted, and not sent.
pub const WAITING_MAX: u32 = 500;

/// The most deliveries that the log of an endpoint has, with those that wait. Beyond it, the oldest ended one is removed.
pub const DELIVERIES_MAX: u32 = 1000;

/// How long a delivery is in the log after its event, in milliseconds.
pub const DELIVERY_KEEP_MS: UnixMs = 7 * 24 * 60 * 60 * 1000;

/// How long a sender has an endpoint after a claim. If the sender does not note a result in this time, another one may
/// claim it.
pub const CLAIM_MS: UnixMs = 60 * 1000;

const _: () = assert!(WAITING_MAX < DELIVERIES_MAX);
const _: () = assert!(schedule::TOTAL_MS_MAX < DELIVERY_KEEP_MS);

/// The methods of the store for webhooks. The invariants of [`Store`](crate::Store) apply.
pub trait WebhookStore {
    /// Creates an endpoint, if the account has fewer than [`WEBHOOKS_MAX`].
    fn create_webhook(&self, new: NewWebhook, by: Authority, now: UnixMs) -> Pending<Webhook, WebhookError>;

    /// The endpoints of an account, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if they cannot be read, as for every read.
    fn webhooks(&self, account: AccountId) -> Pending<Vec<Webhook>, StoreError>;

    /// An endpoint of this account.
    ///
    /// # Errors
    ///
    /// As [`WebhookStore::webhooks`].
    fn webhook(&self, account: AccountId, id: WebhookId) -> Pending<Option<Webhook>, StoreError>;

    /// Changes an endpoint; [`WebhookError::Unknown`] if the account has none with this id. A new URL ends the claim of the
    /// endpoint, so the result of an attempt at the old URL does not count.
    fn change_webhook(
        &self,
        account: AccountId,
        id: WebhookId,
        change: WebhookChange,
        by: Authority,
        now: UnixMs,
    ) -> Pending<Webhook, WebhookError>;

    /// Deletes an endpoint with its waiting messages and its log; returns whether it existed.
    fn delete_webhook(&self, account: AccountId, id: WebhookId) -> Pending<bool, StoreError>;

    /// Writes a message of [`EventKind::Test`] for one endpoint, which must be enabled.
    fn test_webhook(
        &self,
        account: AccountId,
        id: WebhookId,
        now: UnixMs,
    ) -> Pending<MessageId, WebhookError>;

    /// The deliveries of an endpoint, newest first, older than `before`, at most `limit`; [`WebhookError::Unknown`] if the
    /// account has no such endpoint.
    fn deliveries(
        &self,
        account: AccountId,
        id: WebhookId,
        before: Option<MessageId>,
        limit: usize,
    ) -> Pending<Vec<Delivery>, WebhookError>;

    /// Ends the claims of an earlier process on a database that no other process uses. With nodes, it does nothing: their claims
    /// end with their time.
    fn release_webhooks(&self, now: UnixMs) -> Pending<(), StoreError>;

    /// The endpoints that can be claimed at `now`, those that are due for longest first: at most `most`, behind `after`.
    ///
    /// # Errors
    ///
    /// As [`WebhookStore::webhooks`].
    fn due_webhooks(
        &self,
        after: Option<DueWebhook>,
        most: usize,
        now: UnixMs,
    ) -> Pending<Vec<DueWebhook>, StoreError>;

    /// Claims endpoints, each with its first message. Those that another sender has claimed meanwhile are missing: an endpoint has
    /// one claim at a time. `claim` is a new random number.
    fn claim_webhooks(
        &self,
        claim: ClaimNumber,
        due: Vec<DueWebhook>,
        now: UnixMs,
    ) -> Pending<Vec<ClaimedMessage>, StoreError>;

    /// Notes the result of an attempt and ends the claim. If the report asks for it, the claim continues with the next message of
    /// the endpoint that is due, which is returned. A report of a claim that was lost changes nothing.
    fn note_attempt(&self, report: AttemptReport, now: UnixMs)
    -> Pending<Option<ClaimedMessage>, StoreError>;
}
