//! The methods of webhooks: reads are here, writes in `webhooks.rs`.

use super::RowStore;
use crate::backend::{Backend, Class, Job};
use crate::tables::{WEBHOOKS, webhook_key};
use crate::webhooks;
use store::webhooks::*;
use store::*;

impl<B: Backend> WebhookStore for RowStore<B> {
    fn create_webhook(&self, new: NewWebhook, by: Authority, now: UnixMs) -> Pending<Webhook, WebhookError> {
        // The file of the key may be missing, and its creation should not delay other writes.
        if let Err(error) = self.shared().vault.users_key() {
            return Pending::ready(Err(error.into()));
        }
        self.write(Job::of(new.account, Class::New), move |txn| txn.create_webhook(&new, &by, now))
    }

    fn webhooks(&self, account: AccountId) -> Pending<Vec<Webhook>, StoreError> {
        self.read(None, move |shared, rows| webhooks::of_account(rows, &shared.vault, account))
    }

    fn webhook(&self, account: AccountId, id: WebhookId) -> Pending<Option<Webhook>, StoreError> {
        let key = webhook_key(account, id);
        self.read(None, move |shared, rows| {
            WEBHOOKS.get(rows, &key)?.map(|row| webhooks::view(&shared.vault, &key, row)).transpose()
        })
    }

    fn change_webhook(
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

    fn delete_webhook(&self, account: AccountId, id: WebhookId) -> Pending<bool, StoreError> {
        self.write(Job::of(account, Class::New), move |txn| Ok(txn.delete_webhook(account, id)?))
    }

    fn test_webhook(
        &self,
        account: AccountId,
        id: WebhookId,
        now: UnixMs,
    ) -> Pending<MessageId, WebhookError> {
        self.write(Job::of(account, Class::New), move |txn| txn.test_webhook(account, id, now))
    }

    fn deliveries(
        &self,
        account: AccountId,
        id: WebhookId,
        before: Option<MessageId>,
        limit: usize,
    ) -> Pending<Vec<Delivery>, WebhookError> {
        self.read(None, move |_, rows| webhooks::deliveries(rows, (account, id), before, limit))
    }

    fn release_webhooks(&self, now: UnixMs) -> Pending<(), StoreError> {
        if self.shared().has_nodes {
            return Pending::ready(Ok(()));
        }
        self.write(Job::general(Class::Answer), move |txn| Ok(txn.release_webhooks(now)?))
    }

    fn due_webhooks(
        &self,
        after: Option<DueWebhook>,
        most: usize,
        now: UnixMs,
    ) -> Pending<Vec<DueWebhook>, StoreError> {
        self.read(None, move |_, rows| webhooks::due(rows, after, most, now))
    }

    fn claim_webhooks(
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

    fn note_attempt(
        &self,
        report: AttemptReport,
        now: UnixMs,
    ) -> Pending<Option<ClaimedMessage>, StoreError> {
        // There are never more of these than claims.
        let job = Job::of(report.account, Class::Answer);
        self.write(job, move |txn| Ok(txn.note_attempt(&report, now)?))
    }
}
