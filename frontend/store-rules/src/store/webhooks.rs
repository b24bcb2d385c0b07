//! Endpoints of webhooks, and the claims and attempts of their messages.

use super::Store;
use crate::backend::{Class, Job};
use crate::tables::{WEBHOOKS, webhook_key};
use crate::webhooks;
use store::webhooks::*;
use store::*;

impl Store {
    /// Creates an endpoint, if the account has fewer than [`WEBHOOKS_MAX`].
    pub fn create_webhook(
        &self,
        new: NewWebhook,
        by: Authority,
        now: UnixMs,
    ) -> Pending<Webhook, WebhookError> {
        Pending::begin(|| {
            // The file of the key may be missing, and its creation should not delay other writes.
            self.shared().vault.users_key()?;
            Ok(self.write(Job::of(new.account, Class::New), move |txn| txn.create_webhook(&new, &by, now)))
        })
    }

    /// The endpoints of an account, oldest first.
    pub fn webhooks(&self, account: AccountId) -> Pending<Vec<Webhook>, StoreError> {
        self.read(None, move |shared, rows| webhooks::of_account(rows, &shared.vault, account))
    }

    /// An endpoint of this account.
    pub fn webhook(&self, account: AccountId, id: WebhookId) -> Pending<Option<Webhook>, StoreError> {
        let key = webhook_key(account, id);
        self.read(None, move |shared, rows| {
            WEBHOOKS.get(rows, &key)?.map(|row| webhooks::view(&shared.vault, &key, row)).transpose()
        })
    }

    /// Changes an endpoint; [`WebhookError::Unknown`] if the account has none with this id. A new URL ends the claim of the
    /// endpoint, so the result of an attempt at the old URL does not count.
    pub fn change_webhook(
        &self,
        account: AccountId,
        id: WebhookId,
        change: WebhookChange,
        by: Authority,
        now: UnixMs,
    ) -> Pending<Webhook, WebhookError> {
        let job = Job::of(account, Class::New);
        self.write(job, move |txn| txn.change_webhook((account, id), &change, &by, now))
    }

    /// Deletes an endpoint with its waiting messages and its log; returns whether it existed.
    pub fn delete_webhook(&self, account: AccountId, id: WebhookId) -> Pending<bool, StoreError> {
        self.write(Job::of(account, Class::New), move |txn| Ok(txn.delete_webhook(account, id)?))
    }

    /// Writes a message of [`EventKind::Test`] for one endpoint, which must be enabled.
    pub fn test_webhook(
        &self,
        account: AccountId,
        id: WebhookId,
        now: UnixMs,
    ) -> Pending<MessageId, WebhookError> {
        self.write(Job::of(account, Class::New), move |txn| txn.test_webhook(account, id, now))
    }

    /// The deliveries of an endpoint, newest first, older than `before`, at most `limit`; [`WebhookError::Unknown`] if the
    /// account has no such endpoint.
    pub fn deliveries(
        &self,
        account: AccountId,
        id: WebhookId,
        before: Option<MessageId>,
        limit: usize,
    ) -> Pending<Vec<Delivery>, WebhookError> {
        self.read(None, move |_, rows| webhooks::deliveries(rows, (account, id), before, limit))
    }

    /// Ends the claims of an earlier process on a database that no other process uses. With nodes, it does nothing: their claims
    /// end with their time.
    pub fn release_webhooks(&self, now: UnixMs) -> Pending<(), StoreError> {
        if self.shared().has_nodes {
            return Pending::ready(Ok(()));
        }
        self.write(Job::general(Class::Answer), move |txn| Ok(txn.release_webhooks(now)?))
    }

    /// The endpoints that can be claimed at `now`, those that are due for longest first: at most `most`, behind `after`.
    pub fn due_webhooks(
        &self,
        after: Option<DueWebhook>,
        most: usize,
        now: UnixMs,
    ) -> Pending<Vec<DueWebhook>, StoreError> {
        self.read(None, move |_, rows| webhooks::due(rows, after, most, now))
    }

    /// Claims endpoints, each with its first message. Those that another sender has claimed meanwhile are missing: an endpoint has
    /// one claim at a time. `claim` is a new random number.
    pub fn claim_webhooks(
        &self,
        claim: ClaimNumber,
        due: Vec<DueWebhook>,
        now: UnixMs,
    ) -> Pending<Vec<ClaimedMessage>, StoreError> {
        if due.is_empty() {
            return Pending::ready(Ok(Vec::new()));
        }
        self.write(Job::general(Class::New), move |txn| Ok(txn.claim_webhooks(claim, &due, now)?))
    }

    /// Notes the result of an attempt and ends the claim. If the report asks for it, the claim continues with the next message of
    /// the endpoint that is due, which is returned. A report of a claim that was lost changes nothing.
    pub fn note_attempt(
        &self,
        report: AttemptReport,
        now: UnixMs,
    ) -> Pending<Option<ClaimedMessage>, StoreError> {
        // There are never more of these than claims.
        let job = Job::of(report.account, Class::Answer);
        self.write(job, move |txn| Ok(txn.note_attempt(&report, now)?))
    }
}
