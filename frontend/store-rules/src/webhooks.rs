//! Webhooks: endpoints, the messages that events write for them, claims by senders, and the results of attempts.
//!
//! [`Txn::note_event`] is called where a batch or list ends. A row of `outbox` has the waiting messages of one object at one
//! endpoint, of which the first is attempted. `outbox_due` orders these rows of an endpoint by time, and `webhook_turns` the
//! endpoints. A claim moves the turn of an endpoint to the end of the claim. So a claim that nobody ends is over by itself.
//!
//! Each change locks the row of the endpoint first. URLs and secrets are sealed under the key of users, because they are kept
//! as long as their endpoint.

use crate::reason;
use crate::row::Row;
use crate::rows::{Rows, Walk, Want};
use crate::tables::{
    DELIVERIES, DeliveryRow, Expiring, ListRow, OUTBOX, OUTBOX_DUE, QueueRow, WEBHOOK_TURNS, WEBHOOKS,
    WebhookRow, WebhookTexts, account_range, delivery_key, due_key, join, outbox_key, split, split_due_key,
    split_turn_key, turn_key, webhook_key,
};
use crate::txn::Txn;
use crate::vault::{Place, Vault};
use crate::write_error::{WriteError, refuse};
use api::Reason;
use std::ops::RangeInclusive;
use store::webhooks::*;
use store::{AccountId, BatchId, ListId, ListState, MessageId, StoreError, UnixMs, WebhookId};

/// The pause before a message that was claimed and not attempted is due again, in milliseconds.
const PUT_BACK_MS: UnixMs = 1000;

/// The most messages that one claim discards at a disabled endpoint. The next claim discards the rest, so no transaction is large.
const DISCARDED_MAX: usize = 64;

/// Seals the texts of an endpoint.
pub(crate) fn seal(vault: &Vault, key: &[u8; 32], texts: &WebhookTexts) -> Result<Vec<u8>, StoreError> {
    vault.users_key()?.seal(Place { table: WebhookRow::TABLE, row: key }, &texts.encode())
}

/// `None` if the key was lost or replaced.
fn open(vault: &Vault, key: &[u8; 32], sealed: &[u8]) -> Result<Option<WebhookTexts>, StoreError> {
    let plain = vault.users_key()?.open(Place { table: WebhookRow::TABLE, row: key }, sealed);
    Ok(plain.and_then(|plain| WebhookTexts::decode(&plain).ok()))
}

/// An endpoint as its owner sees it; without texts if their key is gone.
pub(crate) fn view(vault: &Vault, key: &[u8; 32], row: WebhookRow) -> Result<Webhook, StoreError> {
    let texts = open(vault, key, &row.texts)?;
    let (url, label, old) = match texts {
        Some(WebhookTexts { url, label, old_secret, .. }) => (url, label, old_secret),
        None => (String::new(), String::new(), None),
    };
    Ok(Webhook {
        id: WebhookId::from_bytes(split(key).1),
        created_at: row.created_at,
        url,
        label,
        events: row.events,
        health: row.health,
        waiting: row.waiting,
        missed: row.missed,
        old_secret_until: old.map(|(_, until)| until),
    })
}

/// The endpoints of an account.
pub(crate) fn of_account(
    rows: &dyn Rows,
    vault: &Vault,
    account: AccountId,
) -> Result<Vec<Webhook>, StoreError> {
    let mut found = Vec::new();
    WEBHOOKS.walk(rows, account_range(account), WEBHOOKS_MAX, |key, row| {
        found.push((key, row));
        Walk::On
    })?;
    found.into_iter().map(|(key, row)| view(vault, &key, row)).collect()
}

/// The deliveries of an endpoint, newest first.
pub(crate) fn deliveries(
    rows: &dyn Rows,
    (account, id): (AccountId, WebhookId),
    before: Option<MessageId>,
    limit: usize,
) -> Result<Vec<Delivery>, WebhookError> {
    if !WEBHOOKS.has(rows, &webhook_key(account, id))? {
        return Err(WebhookError::Unknown);
    }
    let last = before.map_or([0xff; 16], MessageId::to_bytes);
    let range = join(id.to_bytes(), [0; 16])..join(id.to_bytes(), last);
    let mut found = Vec::new();
    DELIVERIES.walk_back(rows, range, limit, |key, row| {
        let DeliveryRow { created_at, event, state, attempts, next_at, .. } = row;
        let message = MessageId::from_bytes(split(&key).1);
        found.push(Delivery { message, event, created_at, state, attempts, next_at });
        Walk::On
    })?;
    Ok(found)
}

/// The range of an endpoint's rows in `outbox_due`, until a time.
fn due_range(webhook: WebhookId, until: UnixMs) -> RangeInclusive<[u8; 40]> {
    due_key(webhook, 0, [0; 16])..=due_key(webhook, until, [0xff; 16])
}

/// Whether an endpoint can be claimed at `now`.
pub(crate) fn has_due(rows: &dyn Rows, now: UnixMs) -> Result<bool, StoreError> {
    Ok(!WEBHOOK_TURNS.keys(rows, ..=turn_key(now, WebhookId::from_bytes([0xff; 16])), 1)?.is_empty())
}

/// The event of a batch that has ended with these answers, one byte per row.
pub(crate) fn batch_event(kind: EventKind, id: BatchId, total: u32, answers: &[u8]) -> Event {
    let mut counts: Vec<(Reason, u64)> = Vec::new();
    for reason in answers.iter().filter_map(|&answer| reason::of_answer(answer)) {
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    let checked = counts.iter().map(|(_, count)| count).sum();
    Event { kind, object: EventObject::Batch(id), total: total.into(), checked, counts }
}

/// The event of a list that has this state now; `None` if the state is no event.
pub(crate) fn list_event(id: ListId, row: &ListRow) -> Option<Event> {
    let kind = match row.state {
        ListState::Completed => EventKind::ListCompleted,
        ListState::Cancelled => EventKind::ListCancelled,
        ListState::Paused => EventKind::ListPaused,
        ListState::Unfit => EventKind::ListUnfit,
        ListState::Uploading | ListState::Reading | ListState::Ready | ListState::Running => return None,
    };
    let checked = row.counts.iter().map(|(_, count)| count).sum();
    let (object, counts) = (EventObject::List(id), row.counts.clone());
    Some(Event { kind, object, total: row.addresses, checked, counts })
}

fn fits(url: &str, label: &str) -> bool {
    (1..=WEBHOOK_URL_BYTES_MAX).contains(&url.len())
        && url.bytes().all(|byte| byte.is_ascii_graphic())
        && label.chars().count() <= WEBHOOK_LABEL_CHARS_MAX
        && !label.chars().any(char::is_control)
}

impl Txn<'_> {
    pub(crate) fn create_webhook(
        &mut self,
        new: &NewWebhook,
        now: UnixMs,
    ) -> Result<Webhook, WriteError<WebhookError>> {
        let NewWebhook { id, account, ref url, ref label, events, secret } = *new;
        let key = webhook_key(account, id);
        if !fits(url, label) || WEBHOOKS.has(self.rows(), &key)? {
            return refuse(WebhookError::Bad);
        }
        if !self.has_account(account)? {
            return refuse(WebhookError::Unknown);
        }
        if WEBHOOKS.keys(self.rows(), account_range(account), WEBHOOKS_MAX)?.len() >= WEBHOOKS_MAX {
            return refuse(WebhookError::TooMany);
        }
        let texts = WebhookTexts { url: url.clone(), label: label.clone(), secret, old_secret: None };
        let row = WebhookRow {
            created_at: now,
            events,
            health: EndpointHealth::NEW,
            texts: seal(&self.shared.vault, &key, &texts)?,
            serial: 0,
            waiting: 0,
            logged: 0,
            missed: 0,
            turn_at: None,
            claimant: None,
        };
        WEBHOOKS.put(self.rows, &key, &row)?;
        Ok(view(&self.shared.vault, &key, row)?)
    }

    pub(crate) fn change_webhook(
        &mut self,
        (account, id): (AccountId, WebhookId),
        change: &WebhookChange,
        now: UnixMs,
    ) -> Result<Webhook, WriteError<WebhookError>> {
        let key = webhook_key(account, id);
        let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { return refuse(WebhookError::Unknown) };
        let Some(mut texts) = open(&self.shared.vault, &key, &row.texts)? else {
            return refuse(WebhookError::Unknown);
        };
        let WebhookChange { url, label, events, enabled, secret } = change.clone();
        texts.url = url.unwrap_or(texts.url);
        texts.label = label.unwrap_or(texts.label);
        if !fits(&texts.url, &texts.label) {
            return refuse(WebhookError::Bad);
        }
        if let Some(secret) = secret {
            let old = std::mem::replace(&mut texts.secret, secret);
            texts.old_secret = Some((old, now.saturating_add(OLD_SECRET_MS)));
        }
        row.events = events.unwrap_or(row.events);
        if let Some(enabled) = enabled {
            row.health.set_enabled(enabled);
        }
        row.texts = seal(&self.shared.vault, &key, &texts)?;
        WEBHOOKS.put(self.rows, &key, &row)?;
        Ok(view(&self.shared.vault, &key, row)?)
    }

    /// Deletes an endpoint. Its deliveries can no longer be read, and are removed at their expiry.
    pub(crate) fn delete_webhook(&mut self, account: AccountId, id: WebhookId) -> Result<bool, StoreError> {
        let key = webhook_key(account, id);
        let Some(row) = WEBHOOKS.get(self.rows(), &key)? else { return Ok(false) };
        for due in OUTBOX_DUE.keys(self.rows(), due_range(id, UnixMs::MAX), WAITING_MAX as usize)? {
            OUTBOX.remove(self.rows, &outbox_key(id, split_due_key(&due).1))?;
            OUTBOX_DUE.remove(self.rows, &due)?;
        }
        if let Some(at) = row.turn_at {
            WEBHOOK_TURNS.remove(self.rows, &turn_key(at, id))?;
        }
        WEBHOOKS.remove(self.rows, &key)?;
        Ok(true)
    }

    /// Writes the messages of an event, one for each endpoint of the account that wants it. It belongs to the transaction
    /// that ends the object.
    pub(crate) fn note_event(
        &mut self,
        account: AccountId,
        event: &Event,
        now: UnixMs,
    ) -> Result<(), StoreError> {
        let keys = WEBHOOKS.keys(self.rows(), account_range(account), WEBHOOKS_MAX)?;
        WEBHOOKS.expect(self.rows(), &keys);
        for key in keys {
            let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { continue };
            if row.health.is_enabled() && row.events.contains(event.kind) {
                self.enqueue(&key, &mut row, event, now)?;
                WEBHOOKS.put(self.rows, &key, &row)?;
            }
        }
        Ok(())
    }

    pub(crate) fn test_webhook(
        &mut self,
        account: AccountId,
        id: WebhookId,
        now: UnixMs,
    ) -> Result<MessageId, WriteError<WebhookError>> {
        let key = webhook_key(account, id);
        let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { return refuse(WebhookError::Unknown) };
        if !row.health.is_enabled() {
            return refuse(WebhookError::Disabled);
        }
        if row.waiting >= WAITING_MAX {
            return refuse(WebhookError::Full);
        }
        let object = EventObject::Webhook(id);
        let event = Event { kind: EventKind::Test, object, total: 0, checked: 0, counts: Vec::new() };
        let message = self.enqueue(&key, &mut row, &event, now)?;
        WEBHOOKS.put(self.rows, &key, &row)?;
        message.map_or_else(|| refuse(WebhookError::Full), Ok)
    }

    /// Writes the message of an event for one endpoint, whose row the caller writes. `None` if too many messages wait there.
    fn enqueue(
        &mut self,
        key: &[u8; 32],
        row: &mut WebhookRow,
        event: &Event,
        now: UnixMs,
    ) -> Result<Option<MessageId>, StoreError> {
        let (account, id) = parts(key);
        if row.waiting >= WAITING_MAX {
            row.missed = row.missed.saturating_add(1);
            return Ok(None);
        }
        if row.logged >= DELIVERIES_MAX {
            self.remove_oldest_ended(id, row)?;
        }
        row.serial = row.serial.saturating_add(1);
        let message = self.message_id(id, event, row.serial, now);
        let object = event.object.to_bytes();
        let outbox = outbox_key(id, object);
        let QueueRow(mut queue) = OUTBOX.get(self.rows(), &outbox)?.unwrap_or_default();
        let is_first = queue.messages.is_empty();
        queue.push(message, now);
        let delivery = DeliveryRow {
            account,
            created_at: now,
            event: event.clone(),
            state: DeliveryState::Waiting,
            attempts: Vec::new(),
            next_at: is_first.then_some(now),
        };
        let delivery_key = delivery_key(id, message);
        DELIVERIES.put(self.rows, &delivery_key, &delivery)?;
        self.expire_at(Expiring::Delivery, now.saturating_add(DELIVERY_KEEP_MS), &delivery_key, now)?;
        if is_first {
            OUTBOX_DUE.put(self.rows, &due_key(id, now, object), &())?;
        }
        OUTBOX.put(self.rows, &outbox, &QueueRow(queue))?;
        row.waiting = row.waiting.saturating_add(1);
        row.logged = row.logged.saturating_add(1);
        if is_first && row.claimant.is_none() && row.turn_at.is_none_or(|at| now < at) {
            self.set_turn(key, row, Some(now))?;
        }
        Ok(Some(message))
    }

    /// An id that cannot be guessed, and is the same if the transaction runs again. The ids of one millisecond are in the order of
    /// their numbers, so the log has the order of the events.
    fn message_id(&self, id: WebhookId, event: &Event, serial: u64, now: UnixMs) -> MessageId {
        let parts: [&[u8]; 3] = [&id.to_bytes(), &event.object.to_bytes(), &serial.to_be_bytes()];
        let bits = self.shared.vault.hash("message of a webhook", &parts);
        let random = u128::from_be_bytes(bits) & ((1 << 62) - 1);
        // An id has 74 bits beside its time, of which the first 12 follow the time directly.
        MessageId::new(now, u128::from(serial & 0xfff) << 66 | random)
    }

    fn remove_oldest_ended(&mut self, id: WebhookId, row: &mut WebhookRow) -> Result<(), StoreError> {
        let range = join(id.to_bytes(), [0; 16])..=join(id.to_bytes(), [0xff; 16]);
        let mut oldest = None;
        DELIVERIES.walk(self.rows(), range, WAITING_MAX as usize + 1, |key, delivery| {
            if delivery.state == DeliveryState::Waiting {
                return Walk::On;
            }
            oldest = Some((key, delivery.created_at));
            Walk::Stop
        })?;
        let Some((key, created_at)) = oldest else { return Ok(()) };
        DELIVERIES.remove(self.rows, &key)?;
        self.unexpire(Expiring::Delivery, created_at.saturating_add(DELIVERY_KEEP_MS), &key)?;
        row.logged = row.logged.saturating_sub(1);
        Ok(())
    }

    /// Moves the turn of an endpoint, whose row the caller writes.
    fn set_turn(
        &mut self,
        key: &[u8; 32],
        row: &mut WebhookRow,
        at: Option<UnixMs>,
    ) -> Result<(), StoreError> {
        let (account, id) = parts(key);
        if let Some(before) = std::mem::replace(&mut row.turn_at, at) {
            WEBHOOK_TURNS.remove(self.rows, &turn_key(before, id))?;
        }
        match at {
            Some(at) => WEBHOOK_TURNS.put(self.rows, &turn_key(at, id), &account),
            None => Ok(()),
        }
    }

    /// Ends all claims, of a process that has ended.
    pub(crate) fn release_webhooks(&mut self, now: UnixMs) -> Result<(), StoreError> {
        let mut turns = Vec::new();
        WEBHOOK_TURNS.walk_all(self.rows(), |key, account| turns.push((key, account)))?;
        for (turn, account) in turns {
            let (at, id) = split_turn_key(&turn);
            let key = webhook_key(account, id);
            let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { continue };
            if row.turn_at == Some(at) && row.claimant.take().is_some() {
                self.set_turn(&key, &mut row, Some(now))?;
                WEBHOOKS.put(self.rows, &key, &row)?;
            }
        }
        Ok(())
    }

    pub(crate) fn claim_webhooks(
        &mut self,
        claimant: Claimant,
        most: usize,
        now: UnixMs,
    ) -> Result<Vec<ClaimedMessage>, StoreError> {
        let mut turns = Vec::new();
        let last = turn_key(now, WebhookId::from_bytes([0xff; 16]));
        WEBHOOK_TURNS.walk(self.rows(), [0; 24]..=last, most, |key, account| {
            turns.push((key, account));
            Walk::On
        })?;
        let keys: Vec<_> = turns.iter().map(|(turn, id)| webhook_key(*id, split_turn_key(turn).1)).collect();
        WEBHOOKS.expect(self.rows(), &keys);
        let mut endpoints = Vec::new();
        for ((turn, _), key) in turns.iter().zip(keys) {
            match WEBHOOKS.get(self.rows(), &key)? {
                Some(row) if row.turn_at == Some(split_turn_key(turn).0) => endpoints.push((key, row)),
                // Another sender has claimed it before the row was locked.
                Some(_) => {}
                None => WEBHOOK_TURNS.remove(self.rows, turn)?,
            }
        }
        let most = |row: &WebhookRow| if row.health.is_enabled() { 1 } else { DISCARDED_MAX };
        let wanted: Vec<_> = endpoints.iter().map(|(key, row)| (parts(key).1, most(row))).collect();
        self.expect_messages(&wanted)?;
        let mut claimed = Vec::new();
        for (key, mut row) in endpoints {
            claimed.extend(self.claim_next(&key, &mut row, claimant, now)?);
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
            let QueueRow(queue) = OUTBOX.get(rows, &key)?.unwrap_or_default();
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
        claimant: Claimant,
        now: UnixMs,
    ) -> Result<Option<ClaimedMessage>, StoreError> {
        let (account, id) = parts(key);
        row.claimant = None;
        let texts = open(&self.shared.vault, key, &row.texts)?;
        let Some(texts) = texts.filter(|_| row.health.is_enabled()) else {
            self.discard_due(key, row, now)?;
            return Ok(None);
        };
        loop {
            let Some(due) = OUTBOX_DUE.keys(self.rows(), due_range(id, UnixMs::MAX), 1)?.pop() else {
                self.set_turn(key, row, None)?;
                return Ok(None);
            };
            let (at, object) = split_due_key(&due);
            if at > now {
                self.set_turn(key, row, Some(at))?;
                return Ok(None);
            }
            let QueueRow(mut queue) = OUTBOX.get(self.rows(), &outbox_key(id, object))?.unwrap_or_default();
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
            row.claimant = Some(claimant);
            self.set_turn(key, row, Some(now.saturating_add(CLAIM_MS)))?;
            let old = texts.old_secret.filter(|(_, until)| now < *until).map(|(secret, _)| secret);
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
        OUTBOX.put(self.rows, &outbox, &QueueRow(queue))
    }

    /// Discards messages that are due at an endpoint that gets none, and sets the turn of the endpoint for the rest.
    fn discard_due(&mut self, key: &[u8; 32], row: &mut WebhookRow, now: UnixMs) -> Result<(), StoreError> {
        let id = parts(key).1;
        self.expect_messages(&[(id, DISCARDED_MAX)])?;
        let mut left = DISCARDED_MAX;
        for due in OUTBOX_DUE.keys(self.rows(), due_range(id, now), DISCARDED_MAX)? {
            let outbox = outbox_key(id, split_due_key(&due).1);
            let QueueRow(mut queue) = OUTBOX.get(self.rows(), &outbox)?.unwrap_or_default();
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
    fn set_turn_to_due(
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
        let &AttemptReport { claimant, account, webhook: id, object, wants_next, .. } = report;
        let key = webhook_key(account, id);
        let row = WEBHOOKS.get(self.rows(), &key)?.filter(|row| row.claimant == Some(claimant));
        let Some(mut row) = row else { return Ok(None) };
        let QueueRow(queue) =
            OUTBOX.get(self.rows(), &outbox_key(id, object.to_bytes()))?.unwrap_or_default();
        let is_first = queue.first() == Some(report.message);
        if let Some(attempt) = report.attempt.filter(|_| is_first)
            && !self.is_noted(id, report.message, attempt)?
        {
            self.apply_attempt((id, &mut row), queue, attempt, report, now)?;
        }
        let mut next = None;
        if report.attempt.is_none() {
            row.claimant = None;
            self.set_turn(&key, &mut row, Some(now.saturating_add(PUT_BACK_MS)))?;
        } else if wants_next {
            next = self.claim_next(&key, &mut row, claimant, now)?;
        } else {
            row.claimant = None;
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
                self.set_next_at(id, next, queue.due_at)?;
            }
        }
        self.put_queue(id, &due, queue)
    }

    /// The message of an object that is first now is due.
    fn set_next_at(&mut self, id: WebhookId, message: MessageId, at: UnixMs) -> Result<(), StoreError> {
        let key = delivery_key(id, message);
        let Some(mut delivery) = DELIVERIES.get(self.rows(), &key)? else { return Ok(()) };
        delivery.next_at = Some(at);
        DELIVERIES.put(self.rows, &key, &delivery)
    }

    /// Says what the removal of these deliveries will read. The rows of endpoints are among the first, as in every other change.
    pub(crate) fn expect_deliveries(&self, keys: &[[u8; 32]]) -> Result<(), StoreError> {
        let rows = self.rows();
        rows.expect(&mut keys.iter().map(|key| Want::Peek(DELIVERIES.table, key.to_vec())));
        let mut webhooks = Vec::new();
        for key in keys {
            webhooks.extend(DELIVERIES.peek(rows, key)?.map(|delivery| webhook_of(key, &delivery)));
        }
        WEBHOOKS.expect(rows, &webhooks);
        DELIVERIES.expect(rows, keys);
        Ok(())
    }

    /// Removes a delivery whose time in the log is over. If it still waits, the next claim skips it.
    pub(crate) fn forget_delivery(&mut self, key: &[u8; 32]) -> Result<(), StoreError> {
        let Some(delivery) = DELIVERIES.peek(self.rows(), key)? else { return Ok(()) };
        let webhook = webhook_of(key, &delivery);
        let row = WEBHOOKS.get(self.rows(), &webhook)?;
        // With the lock of the endpoint, its state no longer changes.
        let Some(delivery) = DELIVERIES.get(self.rows(), key)? else { return Ok(()) };
        DELIVERIES.remove(self.rows, key)?;
        let Some(mut row) = row else { return Ok(()) };
        row.logged = row.logged.saturating_sub(1);
        row.waiting = row.waiting.saturating_sub(u32::from(delivery.state == DeliveryState::Waiting));
        WEBHOOKS.put(self.rows, &webhook, &row)
    }
}

/// The key of the endpoint of a delivery.
fn webhook_of(key: &[u8; 32], delivery: &DeliveryRow) -> [u8; 32] {
    webhook_key(delivery.account, WebhookId::from_bytes(split(key).0))
}

/// The account and the endpoint of a key of `webhooks`.
fn parts(key: &[u8; 32]) -> (AccountId, WebhookId) {
    let (account, id) = split(key);
    (AccountId::from_bytes(account), WebhookId::from_bytes(id))
}
