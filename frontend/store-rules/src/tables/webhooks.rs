//! The tables and rows of webhooks: endpoints, the messages that wait at them, and the log of deliveries.

use super::{AccountId, join, key_of, part_of};
use crate::row::{Codec, In, Out, fields, row};
use crate::rows::{Table, TypedTable};
use store::webhooks::{
    Attempt, AttemptFault, AttemptResult, ClaimNumber, DeliveryState, DisableReason, EndpointHealth,
    EndpointState, Event, EventKind, EventObject, EventSet, OLD_SECRETS_MAX, ObjectQueue, WebhookSecret,
};
use store::{MessageId, UnixMs, WebhookId};

/// The endpoints of webhooks, by account and endpoint.
pub const WEBHOOKS: TypedTable<[u8; 32], WebhookRow> = TypedTable::new(Table::Webhooks);
/// The messages that wait, by endpoint and object.
pub const OUTBOX: TypedTable<[u8; 32], ObjectQueue> = TypedTable::new(Table::Outbox);
/// The objects of an endpoint whose messages wait, by endpoint, time of the next attempt, and object.
pub const OUTBOX_DUE: TypedTable<[u8; 40], ()> = TypedTable::new(Table::OutboxDue);
/// The account of every endpoint with waiting messages, by the time when it can be claimed, and endpoint.
pub const WEBHOOK_TURNS: TypedTable<[u8; 24], AccountId> = TypedTable::new(Table::WebhookTurns);
/// The log of deliveries, by endpoint and message.
pub const DELIVERIES: TypedTable<[u8; 32], DeliveryRow> = TypedTable::new(Table::Deliveries);

/// The key of [`WEBHOOKS`].
pub fn webhook_key(account: AccountId, id: WebhookId) -> [u8; 32] {
    join(account.to_bytes(), id.to_bytes())
}

/// The key of [`OUTBOX`].
pub fn outbox_key(webhook: WebhookId, object: [u8; 16]) -> [u8; 32] {
    join(webhook.to_bytes(), object)
}

/// The key of [`DELIVERIES`].
pub fn delivery_key(webhook: WebhookId, message: MessageId) -> [u8; 32] {
    join(webhook.to_bytes(), message.to_bytes())
}

/// The key of [`OUTBOX_DUE`].
pub fn due_key(webhook: WebhookId, at: UnixMs, object: [u8; 16]) -> [u8; 40] {
    key_of(&[&webhook.to_bytes(), &at.to_be_bytes(), &object])
}

/// The time and the object in a key of [`OUTBOX_DUE`].
pub fn split_due_key(key: &[u8; 40]) -> (UnixMs, [u8; 16]) {
    (UnixMs::from_be_bytes(part_of(key, 16)), part_of(key, 24))
}

/// The key of [`WEBHOOK_TURNS`].
pub fn turn_key(at: UnixMs, webhook: WebhookId) -> [u8; 24] {
    key_of(&[&at.to_be_bytes(), &webhook.to_bytes()])
}

/// The time and the endpoint in a key of [`WEBHOOK_TURNS`].
pub fn split_turn_key(key: &[u8; 24]) -> (UnixMs, WebhookId) {
    (UnixMs::from_be_bytes(part_of(key, 0)), WebhookId::from_bytes(part_of(key, 8)))
}

/// A row of [`WEBHOOKS`].
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookRow {
    pub created_at: UnixMs,
    pub events: EventSet,
    pub health: EndpointHealth,
    /// The sealed [`WebhookTexts`].
    pub texts: Vec<u8>,
    /// How many messages it ever had, for their ids.
    pub serial: u64,
    pub waiting: u32,
    /// How many rows it has in [`DELIVERIES`].
    pub logged: u32,
    pub missed: u64,
    /// The time in its key of [`WEBHOOK_TURNS`]; `None` if it has no row there.
    pub turn_at: Option<UnixMs>,
    /// The number of the claim that it has.
    pub claim: Option<ClaimNumber>,
}

impl Codec for EventSet {
    fn write(&self, out: &mut Out) {
        out.byte(self.bits());
    }

    fn read(input: &mut In<'_>) -> Option<EventSet> {
        EventSet::from_bits(input.byte()?)
    }
}

impl Codec for EndpointState {
    fn write(&self, out: &mut Out) {
        out.byte(match self {
            EndpointState::Enabled => 0,
            EndpointState::Disabled(reason) => *reason as u8,
        });
    }

    fn read(input: &mut In<'_>) -> Option<EndpointState> {
        let number = input.byte()?;
        let reason = DisableReason::ALL.into_iter().find(|reason| *reason as u8 == number);
        if number == 0 { Some(EndpointState::Enabled) } else { reason.map(EndpointState::Disabled) }
    }
}

fields!(EndpointHealth { state, failing_since });
row!(
    "webhooks",
    WebhookRow { created_at, events, health, texts, serial, waiting, logged, missed, turn_at, claim }
);

/// The sealed content of a row of [`WEBHOOKS`].
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookTexts {
    pub url: String,
    pub label: String,
    pub secret: WebhookSecret,
    /// The secrets before rotations, each with the time until which it signs, the newest first.
    pub old_secrets: Vec<(WebhookSecret, UnixMs)>,
}

impl Codec for WebhookTexts {
    fn write(&self, out: &mut Out) {
        debug_assert!(self.old_secrets.len() <= OLD_SECRETS_MAX, "a rotation is refused");
        out.all(&[&self.url, &self.label, &self.secret, &self.old_secrets]);
    }

    fn read(input: &mut In<'_>) -> Option<WebhookTexts> {
        let ((url, label), (secret, old_secrets)) = <(_, (_, Vec<_>))>::read(input)?;
        (old_secrets.len() <= OLD_SECRETS_MAX).then_some(WebhookTexts { url, label, secret, old_secrets })
    }
}

row!("webhooks", WebhookTexts);

row!("outbox", ObjectQueue { due_at, failed, messages });

/// A row of [`DELIVERIES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    pub account: AccountId,
    pub created_at: UnixMs,
    pub event: Event,
    pub state: DeliveryState,
    pub attempts: Vec<Attempt>,
    pub next_at: Option<UnixMs>,
}

/// The lowest code of an answer's status; those below are the numbers of faults.
const STATUS_MIN: u64 = 100;

row!("deliveries", DeliveryRow { account, created_at, event, state, attempts, next_at });

/// The kind tells what the id of the object is.
impl Codec for Event {
    fn write(&self, out: &mut Out) {
        let Event { kind, object, total, checked, counts } = self;
        out.all(&[&(*kind as u8), &object.to_bytes(), total, checked, counts]);
    }

    fn read(input: &mut In<'_>) -> Option<Event> {
        let kind = *EventKind::ALL.get(usize::from(input.byte()?))?;
        let object = EventObject::of(kind, input.array()?);
        let ((total, checked), counts) = Codec::read(input)?;
        Some(Event { kind, object, total, checked, counts })
    }
}

impl Codec for DeliveryState {
    fn write(&self, out: &mut Out) {
        out.byte(*self as u8);
    }

    fn read(input: &mut In<'_>) -> Option<DeliveryState> {
        DeliveryState::ALL.get(usize::from(input.byte()?)).copied()
    }
}

fields!(Attempt { at, took_ms, result });

/// The status of an answer, or the number of a fault.
impl Codec for AttemptResult {
    fn write(&self, out: &mut Out) {
        out.number(match self {
            AttemptResult::Status(status) => u64::from(*status),
            AttemptResult::Failed(fault) => *fault as u64,
        });
    }

    fn read(input: &mut In<'_>) -> Option<AttemptResult> {
        let code = input.number()?;
        if code >= STATUS_MIN {
            return u16::try_from(code).ok().map(AttemptResult::Status);
        }
        AttemptFault::ALL.get(usize::try_from(code).ok()?).copied().map(AttemptResult::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;
    use api::Reason;

    fn comes_back<R: Row + PartialEq>(row: &R) {
        assert!(R::decode(&row.encode()).is_ok_and(|again| again == *row), "{}", R::TABLE);
    }

    #[test]
    fn rows_come_back() {
        for state in [
            EndpointState::Enabled,
            EndpointState::Disabled(DisableReason::Owner),
            EndpointState::Disabled(DisableReason::Gone),
            EndpointState::Disabled(DisableReason::Failures),
        ] {
            for some in [None, Some(7)] {
                comes_back(&WebhookRow {
                    created_at: 1,
                    events: EventSet::ALL,
                    health: EndpointHealth { state, failing_since: some },
                    texts: vec![1, 2],
                    serial: 300,
                    waiting: 2,
                    logged: 3,
                    missed: 4,
                    turn_at: some,
                    claim: some.map(|_| [9; 16]),
                });
            }
        }
        let (secret, old) = (WebhookSecret([1; 24]), WebhookSecret([2; 24]));
        for old_secrets in [vec![], vec![(old, 9)], vec![(old, 9), (secret, 8), (old, 7)]] {
            comes_back(&WebhookTexts {
                url: "https://a.example/".into(),
                label: String::new(),
                secret,
                old_secrets,
            });
        }
        let messages = vec![MessageId::from_bytes([1; 16]), MessageId::from_bytes([2; 16])];
        comes_back(&ObjectQueue { messages, failed: 3, due_at: 4 });
        for kind in EventKind::ALL {
            let results = [AttemptResult::Status(204), AttemptResult::Status(999)];
            let faults = AttemptFault::ALL.map(AttemptResult::Failed);
            let attempt = |result| Attempt { at: 5, took_ms: 6, result };
            comes_back(&DeliveryRow {
                account: AccountId::from_bytes([3; 16]),
                created_at: 4,
                event: Event {
                    kind,
                    object: EventObject::of(kind, [5; 16]),
                    total: 6,
                    checked: 7,
                    counts: vec![(Reason::MailboxExists, 8)],
                },
                state: DeliveryState::Failed,
                attempts: results.into_iter().chain(faults).map(attempt).collect(),
                next_at: Some(9),
            });
        }
    }

    /// Rows with at most one old secret are older than the others.
    #[test]
    fn texts_have_the_form_of_the_first_rows() {
        let secret = WebhookSecret([1; 24]);
        let texts = |old_secrets| WebhookTexts { url: "u".into(), label: "l".into(), secret, old_secrets };
        let start = [&[1, b'u', 1, b'l'][..], &[1; 24]].concat();
        assert_eq!(texts(vec![]).encode(), [&start[..], &[0]].concat());
        let one = texts(vec![(WebhookSecret([2; 24]), 9)]);
        assert_eq!(one.encode(), [&start[..], &[1], &[2; 24], &[9]].concat());
        let four = [&start[..], &[4], &[0; 100]].concat();
        assert!(WebhookTexts::decode(&four).is_err());
    }

    #[test]
    fn keys_are_in_the_order_of_time() {
        let webhook = WebhookId::from_bytes([1; 16]);
        assert_eq!(split_due_key(&due_key(webhook, 256, [2; 16])), (256, [2; 16]));
        assert!(due_key(webhook, 255, [9; 16]) < due_key(webhook, 256, [2; 16]));
        assert_eq!(split_turn_key(&turn_key(256, webhook)), (256, webhook));
        assert!(turn_key(255, WebhookId::from_bytes([9; 16])) < turn_key(256, webhook));
    }
}
