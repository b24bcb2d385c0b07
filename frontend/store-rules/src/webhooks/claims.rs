//! Claims of endpoints by senders, and the results of attempts.

use super::{due_range, open, parts};
use crate::rows::{Rows, Walk, Want};
use crate::tables::{
    DELIVERIES, OUTBOX, OUTBOX_DUE, WEBHOOK_TURNS, WEBHOOKS, WebhookRow, delivery_key, due_key, outbox_key,
    split_due_key, split_turn_key, turn_key, webhook_key,
};
use crate::txn::Txn;
use std::ops::Bound;
use store::webhooks::*;
use store::{MessageId, StoreError, UnixMs, WebhookId};

/// The pause before a message that was claimed and not attempted is due again, in milliseconds.
const PUT_BACK_MS: UnixMs = 1000;

/// The most messages that one claim discards at a disabled endpoint. The next claim discards the rest, so no transaction is large.
const DISCARDED_MAX: usize = 64;

/// The most expired messages that one claim skips at an endpoint.
const SKIPPED_MAX: usize = 16;

/// The endpoints that can be claimed now, at most `most`, behind `after`.
pub(crate) fn due(
    rows: &dyn Rows,
    after: Option<DueWebhook>,
    most: usize,
    now: UnixMs,
) -> Result<Vec<DueWebhook>, StoreError> {
    let mut due = Vec::new();
    let after = after.map(|DueWebhook { since, webhook, .. }| turn_key(since, webhook));
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let last = turn_key(now, WebhookId::from_bytes([0xff; 16]));
    if after.is_some_and(|after| after >= last) {
        return Ok(due);
    }
    WEBHOOK_TURNS.walk(rows, (from, Bound::Included(last)), most, |key, account| {
        let (since, webhook) = split_turn_key(&key);
        due.push(DueWebhook { since, webhook, account });
        Walk::On
    })?;
    Ok(due)
}

impl Txn<'_> {
    /// Ends all claims, of a process that has ended.
    pub(crate) fn release_webhooks(&mut self, now: UnixMs) -> Result<(), StoreError> {
        let mut turns = Vec::new();
        WEBHOOK_TURNS.walk_all(self.rows(), |key, account| turns.push((key, account)))?;
        for (turn, account) in turns {
            let (at, id) = split_turn_key(&turn);
            let key = webhook_key(account, id);
            let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { continue };
            if row.turn_at == Some(at) && row.claim.take().is_some() {
                self.set_turn(&key, &mut row, Some(now))?;
                WEBHOOKS.put(self.rows, &key, &row)?;
            }
        }
        Ok(())
    }

    pub(crate) fn claim_webhooks(
        &mut self,
        claim: ClaimNumber,
        due: &[DueWebhook],
        now: UnixMs,
    ) -> Result<Vec<ClaimedMessage>, StoreError> {
        let keys: Vec<_> = due.iter().map(|due| webhook_key(due.account, due.webhook)).collect();
        WEBHOOKS.expect(self.rows(), &keys);
        let mut endpoints = Vec::new();
        for (due, key) in due.iter().zip(keys) {
            match WEBHOOKS.get(self.rows(), &key)? {
                Some(row) if row.turn_at == Some(due.since) && due.since <= now => endpoints.push((key, row)),
                // Another sender has claimed it.
                Some(_) => {}
                None => WEBHOOK_TURNS.remove(self.rows, &turn_key(due.since, due.webhook))?,
            }
        }
        let most = |row: &WebhookRow| if row.health.is_enabled() { 1 } else { DISCARDED_MAX };
        let wanted: Vec<_> = endpoints.iter().map(|(key, row)| (parts(key).1, most(row))).collect();
        self.expect_messages(&wanted)?;
        let mut claimed = Vec::new();
        for (key, mut row) in endpoints {
            claimed.extend(self.claim_next(&key, &mut row, claim, now)?);
            WEBHOOKS.put(self.rows, &key, &row)?;
        }
        Ok(claimed)
    }

    /// Says that up to this many of the next messages of each endpoint will be read.
    fn expect_messages(&self, wanted: &[(WebhookId, usize)]) -> Result<(), StoreError> {
        let rows = self.rows();
        rows.expect(&mut wanted.iter().map(|(id, most)| {
            let (from, to) = due_range(*id, UnixMs::MAX).into_inner();
            let (table, from, to) = (OUTBOX_DUE.table, from.to_vec(), to.to_vec());
            // The next one behind them tells the next turn.
            Want::Range { table, from, to, backwards: false, most: most + 1 }
        }));
        let mut objects = Vec::new();
        for &(id, most) in wanted {
            for due in OUTBOX_DUE.keys(rows, due_range(id, UnixMs::MAX), most)? {
                objects.push((id, outbox_key(id, split_due_key(&due).1), most));
            }
        }
        OUTBOX.expect(rows, objects.iter().map(|(_, key, _)| key));
        let mut deliveries = Vec::new();
        for &(id, key, most) in &objects {
            let queue = OUTBOX.get(rows, &key)?.unwrap_or_default();
            deliveries.extend(queue.messages.iter().take(most).map(|message| delivery_key(id, *message)));
        }
        DELIVERIES.expect(rows, &deliveries);
        Ok(())
    }

    /// Claims the first message of an endpoint that is due, and sets the turn of the endpoint. The caller writes the row.
    fn claim_next(
        &mut self,
        key: &[u8; 32],
        row: &mut WebhookRow,
        claim: ClaimNumber,
        now: UnixMs,
    ) -> Result<Option<ClaimedMessage>, StoreError> {
        let (account, id) = parts(key);
        row.claim = None;
        let texts = open(&self.shared.vault, key, &row.texts)?;
        let Some(texts) = texts.filter(|_| row.health.is_enabled()) else {
            self.discard_due(key, row, now)?;
            return Ok(None);
        };
        for _ in 0..=SKIPPED_MAX {
            let Some(due) = OUTBOX_DUE.keys(self.rows(), due_range(id, UnixMs::MAX), 1)?.pop() else {
                self.set_turn(key, row, None)?;
                return Ok(None);
            };
            let (at, object) = split_due_key(&due);
            if at > now {
                self.set_turn(key, row, Some(at))?;
                return Ok(None);
            }
            let mut queue = OUTBOX.get(self.rows(), &outbox_key(id, object))?.unwrap_or_default();
            let Some(message) = queue.first() else {
                OUTBOX_DUE.remove(self.rows, &due)?;
                continue;
            };
            let Some(delivery) = DELIVERIES.get(self.rows(), &delivery_key(id, message))? else {
                // It has expired.
                queue.end_first(now);
                self.put_queue(id, &due, queue)?;
                continue;
            };
            row.claim = Some(claim);
            self.set_turn(key, row, Some(now.saturating_add(CLAIM_MS)))?;
            let old = texts.old_secrets.iter().filter(|(_, until)| now < *until).map(|(secret, _)| *secret);
            return Ok(Some(ClaimedMessage {
                account,
                webhook: id,
                message,
                event: delivery.event,
                created_at: delivery.created_at,
                url: texts.url.clone(),
                secrets: std::iter::once(texts.secret).chain(old).collect(),
            }));
        }
        // The next claim goes on.
        self.set_turn(key, row, Some(now))?;
        Ok(None)
    }

    /// Replaces the messages of an object, with their row in `outbox_due`.
    fn put_queue(&mut self, id: WebhookId, due: &[u8; 40], queue: ObjectQueue) -> Result<(), StoreError> {
        let (_, object) = split_due_key(due);
        let outbox = outbox_key(id, object);
        OUTBOX_DUE.remove(self.rows, due)?;
        if queue.messages.is_empty() {
            return OUTBOX.remove(self.rows, &outbox);
        }
        OUTBOX_DUE.put(self.rows, &due_key(id, queue.due_at, object), &())?;
        OUTBOX.put(self.rows, &outbox, &queue)
    }

    /// Discards messages that are due at an endpoint that gets none, and sets the turn of the endpoint for the rest.
    fn discard_due(&mut self, key: &[u8; 32], row: &mut WebhookRow, now: UnixMs) -> Result<(), StoreError> {
        let id = parts(key).1;
        self.expect_messages(&[(id, DISCARDED_MAX)])?;
        let mut left = DISCARDED_MAX;
        for due in OUTBOX_DUE.keys(self.rows(), due_range(id, now), DISCARDED_MAX)? {
            let outbox = outbox_key(id, split_due_key(&due).1);
            let mut queue = OUTBOX.get(self.rows(), &outbox)?.unwrap_or_default();
            for message in queue.messages.drain(..left.min(queue.messages.len())) {
                self.end_delivery(id, row, message, DeliveryState::Discarded)?;
                left -= 1;
            }
            self.put_queue(id, &due, queue)?;
            if left == 0 {
                break;
            }
        }
        self.set_turn_to_due(key, row, now)
    }

    /// Sets the turn of an endpoint to the time of its next attempt, but not before `now`. The caller writes the row.
    pub(super) fn set_turn_to_due(
        &mut self,
        key: &[u8; 32],
        row: &mut WebhookRow,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let due = OUTBOX_DUE.keys(self.rows(), due_range(parts(key).1, UnixMs::MAX), 1)?.pop();
        self.set_turn(key, row, due.map(|due| split_due_key(&due).0.max(now)))
    }

    fn end_delivery(
        &mut self,
        id: WebhookId,
        row: &mut WebhookRow,
        message: MessageId,
        state: DeliveryState,
    ) -> Result<(), StoreError> {
        let key = delivery_key(id, message);
        let Some(mut delivery) = DELIVERIES.get(self.rows(), &key)? else { return Ok(()) };
        row.waiting = row.waiting.saturating_sub(1);
        (delivery.state, delivery.next_at) = (state, None);
        DELIVERIES.put(self.rows, &key, &delivery)
    }

    pub(crate) fn note_attempt(
        &mut self,
        report: &AttemptReport,
        now: UnixMs,
    ) -> Result<Option<ClaimedMessage>, StoreError> {
        let &AttemptReport { claim, account, webhook: id, object, wants_next, .. } = report;
        let key = webhook_key(account, id);
        let row = WEBHOOKS.get(self.rows(), &key)?.filter(|row| row.claim == Some(claim));
        let Some(mut row) = row else { return Ok(None) };
        let queue = OUTBOX.get(self.rows(), &outbox_key(id, object.to_bytes()))?.unwrap_or_default();
        let is_first = queue.first() == Some(report.message);
        if let Some(attempt) = report.attempt.filter(|_| is_first)
            && !self.is_noted(id, report.message, attempt)?
        {
            self.apply_attempt((id, &mut row), queue, attempt, report, now)?;
        }
        let mut next = None;
        if report.attempt.is_none() {
            row.claim = None;
            self.set_turn(&key, &mut row, Some(now.saturating_add(PUT_BACK_MS)))?;
        } else if wants_next {
            next = self.claim_next(&key, &mut row, claim, now)?;
        } else {
            row.claim = None;
            self.set_turn_to_due(&key, &mut row, now)?;
        }
        WEBHOOKS.put(self.rows, &key, &row)?;
        Ok(next)
    }

    /// Whether an attempt is noted already: its first report got no answer, and is repeated.
    fn is_noted(&self, id: WebhookId, message: MessageId, attempt: Attempt) -> Result<bool, StoreError> {
        let delivery = DELIVERIES.get(self.rows(), &delivery_key(id, message))?;
        Ok(delivery.is_some_and(|delivery| delivery.attempts.last() == Some(&attempt)))
    }

    fn apply_attempt(
        &mut self,
        (id, row): (WebhookId, &mut WebhookRow),
        mut queue: ObjectQueue,
        attempt: Attempt,
        report: &AttemptReport,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let message = report.message;
        let due = due_key(id, queue.due_at, report.object.to_bytes());
        let (success, gone) = (attempt.result.is_success(), attempt.result.is_gone());
        let state = if success {
            row.health.on_success();
            queue.end_first(now);
            DeliveryState::Delivered
        } else {
            row.health.on_failure(now, gone);
            if gone {
                queue.end_first(now);
                DeliveryState::Failed
            } else if queue.on_failure(now, report.jitter) {
                DeliveryState::Failed
            } else {
                DeliveryState::Waiting
            }
        };
        let key = delivery_key(id, message);
        if let Some(mut delivery) = DELIVERIES.get(self.rows(), &key)? {
            delivery.attempts.push(attempt);
            delivery.next_at = Some(queue.due_at);
            DELIVERIES.put(self.rows, &key, &delivery)?;
        }
        if state != DeliveryState::Waiting {
            self.end_delivery(id, row, message, state)?;
            if let Some(next) = queue.first() {
                self.set_next_at(id, next, Some(queue.due_at))?;
            }
        }
        self.put_queue(id, &due, queue)
    }

    /// Sets the time at which a message is attempted next; `None` if it waits for a message before it.
    pub(super) fn set_next_at(
        &mut self,
        id: WebhookId,
        message: MessageId,
        at: Option<UnixMs>,
    ) -> Result<(), StoreError> {
        let key = delivery_key(id, message);
        let Some(mut delivery) = DELIVERIES.get(self.rows(), &key)? else { return Ok(()) };
        delivery.next_at = at;
        DELIVERIES.put(self.rows, &key, &delivery)
    }
}
