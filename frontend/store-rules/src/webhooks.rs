//! Webhooks: endpoints, and the messages that events write for them. [`claims`] has the claims by senders.
//!
//! [`Txn::note_event`] is called where a batch or list ends. A row of `outbox` has the waiting messages of one object at one
//! endpoint, of which the first is attempted. `outbox_due` orders these rows of an endpoint by time, and `webhook_turns` the
//! endpoints. A claim moves the turn of an endpoint to the end of the claim. A claim expires at that time if no report ends it.
//!
//! Each change locks the row of the endpoint first. URLs and secrets are sealed under the key of users, because they are kept
//! as long as their endpoint.

mod claims;

pub(crate) use claims::due;

use crate::reason;
use crate::row::Row;
use crate::rows::{Rows, Walk, Want};
use crate::tables::{
    DELIVERIES, DeliveryRow, Expiring, ListRow, OUTBOX, OUTBOX_DUE, WEBHOOK_TURNS, WEBHOOKS, WebhookRow,
    WebhookTexts, account_range, delivery_key, due_key, join, outbox_key, split, split_due_key, turn_key,
    webhook_key,
};
use crate::txn::Txn;
use crate::write_error::{WriteError, refuse};
use api::Reason;
use std::ops::RangeInclusive;
use store::webhooks::*;
use store::{
    AccountId, Authority, BatchId, ListId, ListState, MessageId, StoreError, UnixMs, WebhookId, count_one,
};
use vault::{Place, Vault};

/// How many of the oldest deliveries are read first in the search for one that has ended: usually it is the oldest one.
const OLDEST_FIRST: usize = 4;

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
        Some(WebhookTexts { url, label, old_secrets, .. }) => (url, label, old_secrets.first().copied()),
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

/// The range of an endpoint's rows in `deliveries`.
fn log_range(webhook: WebhookId) -> RangeInclusive<[u8; 32]> {
    join(webhook.to_bytes(), [0; 16])..=join(webhook.to_bytes(), [0xff; 16])
}

/// The event of a batch that has ended with these answers, one byte per row.
pub(crate) fn batch_event(kind: EventKind, id: BatchId, total: u32, answers: &[u8]) -> Event {
    let mut counts: Vec<(Reason, u64)> = Vec::new();
    for reason in answers.iter().filter_map(|&answer| reason::of_answer(answer)) {
        count_one(&mut counts, reason);
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
    let counts = row.reasons();
    let checked = counts.iter().map(|(_, count)| count).sum();
    let object = EventObject::List(id);
    // A list of format 6 checks the address of each row.
    let total = row.more.map_or(row.addresses, |more| more.distinct);
    Some(Event { kind, object, total, checked, counts })
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
        by: &Authority,
        now: UnixMs,
    ) -> Result<Webhook, WriteError<WebhookError>> {
        let NewWebhook { id, account, ref url, ref label, events, secret } = *new;
        let key = webhook_key(account, id);
        if !fits(url, label) || WEBHOOKS.has(self.rows(), &key)? {
            return refuse(WebhookError::Bad);
        }
        // A deleted account has neither sessions nor keys. The row of the account is read first, because it guards the sessions.
        if !self.has_account(account)? || !self.holds(by, account, now)? {
            return refuse(StoreError::Outdated.into());
        }
        if WEBHOOKS.keys(self.rows(), account_range(account), WEBHOOKS_MAX)?.len() >= WEBHOOKS_MAX {
            return refuse(WebhookError::TooMany);
        }
        let texts = WebhookTexts { url: url.clone(), label: label.clone(), secret, old_secrets: Vec::new() };
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
            claim: None,
        };
        WEBHOOKS.put(self.rows, &key, &row)?;
        Ok(view(&self.shared.vault, &key, row)?)
    }

    pub(crate) fn change_webhook(
        &mut self,
        (account, id): (AccountId, WebhookId),
        change: &WebhookChange,
        by: &Authority,
        now: UnixMs,
    ) -> Result<Webhook, WriteError<WebhookError>> {
        // The account's row comes first: it guards the sessions.
        if !self.has_account(account)? || !self.holds(by, account, now)? {
            return refuse(StoreError::Outdated.into());
        }
        let key = webhook_key(account, id);
        let Some(mut row) = WEBHOOKS.get(self.rows(), &key)? else { return refuse(WebhookError::Unknown) };
        let Some(mut texts) = open(&self.shared.vault, &key, &row.texts)? else {
            return refuse(WebhookError::Unknown);
        };
        let WebhookChange { url, label, events, enabled, secret } = change.clone();
        let is_moved = url.as_ref().is_some_and(|url| *url != texts.url);
        texts.url = url.unwrap_or(texts.url);
        texts.label = label.unwrap_or(texts.label);
        if !fits(&texts.url, &texts.label) {
            return refuse(WebhookError::Bad);
        }
        if let Some(secret) = secret {
            texts.old_secrets.retain(|(_, until)| now < *until);
            if texts.old_secrets.len() >= OLD_SECRETS_MAX {
                return refuse(WebhookError::TooManySecrets);
            }
            let old = std::mem::replace(&mut texts.secret, secret);
            texts.old_secrets.insert(0, (old, now.saturating_add(OLD_SECRET_MS)));
        }
        if is_moved {
            row.health.on_new_url();
            // The result of an attempt at the old URL does not count. Its message is sent to the new one.
            if row.claim.take().is_some() {
                self.set_turn_to_due(&key, &mut row, now)?;
            }
        }
        row.events = events.unwrap_or(row.events);
        if let Some(enabled) = enabled {
            row.health.set_enabled(enabled);
        }
        row.texts = seal(&self.shared.vault, &key, &texts)?;
        WEBHOOKS.put(self.rows, &key, &row)?;
        Ok(view(&self.shared.vault, &key, row)?)
    }

    /// Deletes an endpoint with its messages and its log.
    pub(crate) fn delete_webhook(&mut self, account: AccountId, id: WebhookId) -> Result<bool, StoreError> {
        let key = webhook_key(account, id);
        let Some(row) = WEBHOOKS.get(self.rows(), &key)? else { return Ok(false) };
        for due in OUTBOX_DUE.keys(self.rows(), due_range(id, UnixMs::MAX), WAITING_MAX as usize)? {
            OUTBOX.remove(self.rows, &outbox_key(id, split_due_key(&due).1))?;
            OUTBOX_DUE.remove(self.rows, &due)?;
        }
        let mut deliveries = Vec::new();
        DELIVERIES.walk(self.rows(), log_range(id), DELIVERIES_MAX as usize, |key, row| {
            deliveries.push((key, row.created_at));
            Walk::On
        })?;
        for (key, created_at) in deliveries {
            self.remove_delivery(&key, created_at)?;
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
        let mut wanting = Vec::new();
        for key in keys {
            let row = WEBHOOKS.get(self.rows(), &key)?;
            let row = row.filter(|row| row.health.is_enabled() && row.events.contains(event.kind));
            wanting.extend(row.map(|row| (key, row)));
        }
        let rows = self.rows();
        let object = event.object.to_bytes();
        let outbox: Vec<_> = wanting.iter().map(|(key, _)| outbox_key(parts(key).1, object)).collect();
        OUTBOX.expect(rows, &outbox);
        let full = wanting.iter().filter(|(_, row)| row.logged >= DELIVERIES_MAX);
        rows.expect(&mut full.map(|(key, _)| {
            let (from, to) = log_range(parts(key).1).into_inner();
            let (table, from, to) = (DELIVERIES.table, from.to_vec(), to.to_vec());
            Want::Range { table, from, to, backwards: false, most: OLDEST_FIRST }
        }));
        for (key, mut row) in wanting {
            self.enqueue(&key, &mut row, event, now)?;
            WEBHOOKS.put(self.rows, &key, &row)?;
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

    /// Writes the message of an event for one endpoint, whose row the caller writes. `None` if too many messages wait there. A test does
    /// not wait for earlier tests that have failed: its sender wants to know whether the endpoint works now.
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
        let mut queue = OUTBOX.get(self.rows(), &outbox)?.unwrap_or_default();
        // An attempt of an earlier test may be under way: its result counts only for the first message.
        let skips = event.kind == EventKind::Test && queue.failed > 0 && row.claim.is_none();
        if skips && let Some(earlier) = queue.first() {
            OUTBOX_DUE.remove(self.rows, &due_key(id, queue.due_at, object))?;
            self.set_next_at(id, earlier, None)?;
        }
        let is_first = skips || queue.messages.is_empty();
        match skips {
            true => queue.push_first(message, now),
            false => queue.push(message, now),
        }
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
        OUTBOX.put(self.rows, &outbox, &queue)?;
        row.waiting = row.waiting.saturating_add(1);
        row.logged = row.logged.saturating_add(1);
        if is_first && row.claim.is_none() && row.turn_at.is_none_or(|at| now < at) {
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
        let mut oldest = None;
        for most in [OLDEST_FIRST, WAITING_MAX as usize + 1] {
            DELIVERIES.walk(self.rows(), log_range(id), most, |key, delivery| {
                if delivery.state == DeliveryState::Waiting {
                    return Walk::On;
                }
                oldest = Some((key, delivery.created_at));
                Walk::Stop
            })?;
            if oldest.is_some() {
                break;
            }
        }
        let Some((key, created_at)) = oldest else { return Ok(()) };
        self.remove_delivery(&key, created_at)?;
        row.logged = row.logged.saturating_sub(1);
        Ok(())
    }

    /// Removes a delivery with the note of its expiry.
    fn remove_delivery(&mut self, key: &[u8; 32], created_at: UnixMs) -> Result<(), StoreError> {
        DELIVERIES.remove(self.rows, key)?;
        self.unexpire(Expiring::Delivery, created_at.saturating_add(DELIVERY_KEEP_MS), key)
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

#[cfg(test)]
mod tests;
