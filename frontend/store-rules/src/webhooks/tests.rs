//! The number of round trips that the rules of webhooks need on a database over a network. PostgreSQL gives up a write that needs too
//! many of them.

use crate::disk::Disk;
use crate::index::KeyIndex;
use crate::rows::{Each, KeyRange, Rows, RowsMut, Table, Walk, Want};
use crate::shared::{Shared, SharedPlans};
use crate::tables::{FORMAT, WEBHOOKS, account_range, webhook_key};
use crate::txn::Txn;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use store::webhooks::*;
use store::{AccountId, Authority, BatchId, NewAccount, PlanTable, StoreError, UnixMs, WebhookId};
use vault::Vault;

const NOW: UnixMs = 1_801_386_000_000;

type Content = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// A database over a network: a read of what was not fetched fails, and is fetched with all others that are known by then.
#[derive(Default)]
struct Remote {
    content: Content,
    /// The rows and walks that were fetched, and those that will be.
    fetched: HashSet<Want>,
    wanted: RefCell<HashSet<Want>>,
}

impl Remote {
    fn need(&self, want: Want) -> Result<(), StoreError> {
        if self.fetched.contains(&want) {
            return Ok(());
        }
        self.wanted.borrow_mut().insert(want);
        Err(StoreError::NotDone("it is not fetched".into()))
    }

    /// Does a work, and returns the number of its round trips.
    fn run<T>(
        &mut self,
        shared: &Shared,
        work: impl Fn(&mut Txn<'_>) -> Result<T, StoreError>,
    ) -> (T, usize) {
        let plans = shared.plans.get();
        self.fetched.clear();
        for trips in 0..200 {
            let before = self.content.clone();
            let done = work(&mut Txn::new(self, &plans, shared));
            let wanted = self.wanted.take();
            match done {
                Ok(done) => return (done, trips),
                Err(error) if wanted.is_empty() => panic!("{error}"),
                Err(_) => self.content = before,
            }
            self.fetched.extend(wanted);
        }
        panic!("too many round trips");
    }
}

impl Rows for Remote {
    fn get(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.need(Want::Row(table, key.to_vec()))?;
        Ok(self.content.get(&(table, key.to_vec())).map(|value| read(value)).is_some())
    }

    fn peek(&self, table: Table, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        if !self.fetched.contains(&Want::Row(table, key.to_vec())) {
            self.need(Want::Peek(table, key.to_vec()))?;
        }
        Ok(self.content.get(&(table, key.to_vec())).map(|value| read(value)).is_some())
    }

    fn walk(&self, table: Table, range: KeyRange<'_>, each: &mut Each<'_>) -> Result<(), StoreError> {
        let bound = |bound: Bound<&[u8]>, open: &[u8]| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
            Bound::Unbounded => open.to_vec(),
        };
        let (from, to) = (bound(range.from, &[]), bound(range.to, &[0xff; 64]));
        let is_fetched = self.fetched.iter().any(|want| match want {
            Want::Range { table: of, from: first, to: last, most, .. } => {
                (*of, &from) == (table, first) && (to <= *last) && range.most <= *most
            }
            _ => false,
        });
        if !is_fetched {
            let (from, to) = (from.clone(), to.clone());
            self.need(Want::Range { table, from, to, backwards: range.backwards, most: range.most })?;
        }
        for ((_, key), value) in self.content.range((table, from)..=(table, to)).take(range.most) {
            if each(key, value)? == Walk::Stop {
                break;
            }
        }
        Ok(())
    }

    fn count(&self, table: Table) -> Result<u64, StoreError> {
        Ok(self.content.keys().filter(|(of, _)| *of == table).count() as u64)
    }

    fn expect(&self, wants: &mut dyn Iterator<Item = Want>) {
        self.wanted.borrow_mut().extend(wants.filter(|want| !self.fetched.contains(want)));
    }
}

impl RowsMut for Remote {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.content.insert((table, key.to_vec()), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.content.remove(&(table, key.to_vec()));
        Ok(())
    }
}

fn account() -> AccountId {
    AccountId::from_bytes([1; 16])
}

/// A database with endpoints of one account, each with this many messages of different batches.
fn remote(endpoints: u8, messages: u8) -> (Remote, Shared) {
    let shared = Shared {
        plans: SharedPlans::new(PlanTable::standard()),
        vault: Arc::new(Vault::in_memory().unwrap()),
        index: KeyIndex::default(),
        clock_check: crate::clock_check::ClockCheck::default(),
        disk: Disk::UNKNOWN,
        has_nodes: true,
        format: FORMAT.into(),
        reuse: false,
    };
    let mut remote = Remote::default();
    let new = NewAccount { id: account(), name: "a".into(), plan: "free".into() };
    remote.run(&shared, |txn| txn.create_account(&new, NOW).map_err(|_| StoreError::Closed));
    for number in 0..endpoints {
        let new = NewWebhook {
            id: WebhookId::from_bytes([number; 16]),
            account: account(),
            url: "https://hooks.example/".into(),
            label: String::new(),
            events: EventSet::ALL,
            secret: WebhookSecret([7; 24]),
        };
        remote.run(&shared, |txn| {
            txn.create_webhook(&new, &Authority::OPERATOR, NOW).map_err(|_| StoreError::Closed)
        });
    }
    for number in 0..messages {
        remote.run(&shared, |txn| txn.note_event(account(), &event(number), NOW));
    }
    (remote, shared)
}

fn event(number: u8) -> Event {
    let object = EventObject::Batch(BatchId::from_bytes([number; 16]));
    Event { kind: EventKind::BatchCompleted, object, total: 1, checked: 0, counts: Vec::new() }
}

/// Changes the rows of all endpoints.
fn change_all(remote: &mut Remote, change: impl Fn(&mut crate::tables::WebhookRow)) {
    for ((table, _), value) in &mut remote.content {
        if *table == Table::Webhooks {
            let mut row = <crate::tables::WebhookRow as crate::row::Row>::decode(value).unwrap();
            change(&mut row);
            *value = crate::row::Row::encode(&row);
        }
    }
}

fn due(remote: &mut Remote, shared: &Shared) -> Vec<DueWebhook> {
    remote.run(shared, |txn| super::due(txn.rows(), None, 16, NOW)).0
}

#[test]
fn an_event_takes_few_round_trips() {
    let (mut remote, shared) = remote(10, 8);
    change_all(&mut remote, |row| row.logged = DELIVERIES_MAX);
    // A delivery has ended behind others that wait.
    let key = webhook_key(account(), WebhookId::from_bytes([3; 16]));
    let due = due(&mut remote, &shared);
    let (claimed, _) = remote.run(&shared, |txn| txn.claim_webhooks([1; 16], &due, NOW));
    assert_eq!(claimed.len(), 10);
    for claimed in &claimed {
        let attempt = Attempt { at: NOW, took_ms: 1, result: AttemptResult::Status(200) };
        let report = AttemptReport {
            claim: [1; 16],
            account: account(),
            webhook: claimed.webhook,
            message: claimed.message,
            object: claimed.event.object,
            attempt: Some(attempt),
            jitter: 0,
            wants_next: false,
        };
        remote.run(&shared, |txn| txn.note_attempt(&report, NOW));
    }
    let logged =
        |remote: &Remote| remote.content.keys().filter(|(table, _)| *table == Table::Deliveries).count();
    let before = logged(&remote);
    let ((), trips) = remote.run(&shared, |txn| txn.note_event(account(), &event(200), NOW));
    assert!(trips <= 4, "{trips}");
    assert_eq!(logged(&remote), before, "the oldest one that has ended is removed");
    let (row, _) = remote.run(&shared, |txn| WEBHOOKS.get(txn.rows(), &key));
    assert_eq!(row.unwrap().logged, DELIVERIES_MAX);
}

#[test]
fn claims_take_few_round_trips() {
    let (mut remote, shared) = remote(10, 100);
    change_all(&mut remote, |row| row.health.set_enabled(false));
    for _ in 0..2 {
        let due = due(&mut remote, &shared);
        let (claimed, trips) = remote.run(&shared, |txn| txn.claim_webhooks([1; 16], &due, NOW));
        assert!(claimed.is_empty() && trips <= 5 + 10, "{trips}");
    }
    change_all(&mut remote, |row| assert_eq!((row.waiting, row.turn_at), (0, None)));

    let (mut remote, shared) = self::remote(10, 100);
    let due = due(&mut remote, &shared);
    let (claimed, trips) = remote.run(&shared, |txn| txn.claim_webhooks([1; 16], &due, NOW));
    assert!(claimed.len() == 10 && trips <= 5, "{trips}");
}

#[test]
fn the_removal_of_deliveries_takes_few_round_trips() {
    let (mut remote, shared) = remote(10, 100);
    let later = NOW + DELIVERY_KEEP_MS;
    let (purged, trips) = remote.run(&shared, |txn| txn.purge(None, later));
    // A walk for each of ten kinds of expired data, the deliveries, and their endpoints.
    assert_eq!((purged.deliveries, trips), (1000, 10 + 2));
    let (left, _) = remote.run(&shared, |txn| WEBHOOKS.keys(txn.rows(), account_range(account()), 20));
    assert_eq!(left.len(), 10);
    change_all(&mut remote, |row| assert_eq!((row.waiting, row.logged), (0, 0)));
}
