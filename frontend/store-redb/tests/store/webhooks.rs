//! Webhooks: a message is written with the end of its object, claimed by one sender, repeated, and sent in order.

use crate::world::{OPERATOR, START, World, attempt_report, new_webhook};
use api::Reason::{CatchAll, MailboxExists};
use store::RowOutcome::Verified;
use store::webhooks::*;
use store::*;

const ME: ClaimNumber = [1; 16];
const OTHER: ClaimNumber = [2; 16];
fn webhook(world: &mut World, account: AccountId) -> WebhookId {
    let id = WebhookId::new(world.now, world.random());
    let new = NewWebhook { id, ..new_webhook(account, 0) };
    world.create_webhook(new, OPERATOR, world.now).wait().unwrap().id
}

fn world() -> (World, AccountId, WebhookId) {
    let (mut world, account) = World::with_account("free");
    let id = webhook(&mut world, account);
    (world, account, id)
}

fn due(world: &World, now: UnixMs) -> Vec<DueWebhook> {
    world.due_webhooks(None, 100, now).wait().unwrap()
}

fn claim(world: &World, number: ClaimNumber) -> Vec<ClaimedMessage> {
    world.claim_webhooks(number, due(world, world.now), world.now).wait().unwrap()
}

fn claim_one(world: &World, number: ClaimNumber) -> ClaimedMessage {
    let mut claimed = claim(world, number);
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

fn report(world: &World, claimed: &ClaimedMessage, result: AttemptResult) -> AttemptReport {
    attempt_report(claimed, ME, Attempt { at: world.now, took_ms: 3, result })
}

fn note(world: &World, claimed: &ClaimedMessage, status: u16) {
    let report = report(world, claimed, AttemptResult::Status(status));
    assert_eq!(world.note_attempt(report, world.now).wait(), Ok(None));
}

/// Notes an attempt, and claims the next message of the endpoint.
fn note_and_claim(world: &World, claimed: &ClaimedMessage, status: u16) -> Option<ClaimedMessage> {
    let report = AttemptReport { wants_next: true, ..report(world, claimed, AttemptResult::Status(status)) };
    world.note_attempt(report, world.now).wait().unwrap()
}

/// Sends as many tests as may wait.
fn fill(world: &World, account: AccountId, id: WebhookId) {
    for _ in 0..WAITING_MAX {
        world.test_webhook(account, id, world.now).wait().unwrap();
    }
}

fn see(world: &World, account: AccountId, id: WebhookId) -> Webhook {
    world.webhook(account, id).wait().unwrap().unwrap()
}

fn log(world: &World, account: AccountId, id: WebhookId) -> Vec<Delivery> {
    world.deliveries(account, id, None, 1000).wait().unwrap()
}

/// A batch of one row that is complete.
fn complete(world: &mut World, account: AccountId) -> BatchId {
    let id = world.batch(account, &["one@example.com"]);
    world.answer(id, &[(0, Verified(MailboxExists.into()))]);
    id
}

#[test]
fn endpoints_are_due_in_the_order_of_their_times_and_claimed_once() {
    let (mut world, a) = World::with_account("free");
    let b = world.account("b", "free");
    for _ in 0..WEBHOOKS_MAX {
        webhook(&mut world, a);
    }
    webhook(&mut world, b);
    complete(&mut world, a);
    world.now += 1;
    complete(&mut world, b);
    let store = world.store();
    let all = due(&world, world.now);
    let times: Vec<_> = all.iter().map(|due| (due.account, due.since)).collect();
    assert_eq!((&times[..10], &times[10..]), (&[(a, START); 10][..], &[(b, START + 1)][..]));
    assert_eq!(due(&world, START).len(), 10, "the last one is not due yet");
    let mut pages = Vec::new();
    loop {
        let page = store.due_webhooks(pages.last().copied(), 4, world.now).wait().unwrap();
        pages.extend(&page);
        if page.len() < 4 {
            break;
        }
    }
    assert_eq!(pages, all);
    assert_eq!(store.due_webhooks(all.last().copied(), 4, START).wait(), Ok(vec![]));
    let accounts = |claimed: Vec<ClaimedMessage>| claimed.iter().map(|one| one.account).collect::<Vec<_>>();
    let chosen = vec![all[10], all[3]];
    assert_eq!(accounts(store.claim_webhooks(ME, chosen.clone(), world.now).wait().unwrap()), [b, a]);
    assert_eq!(store.claim_webhooks(OTHER, chosen, world.now).wait(), Ok(vec![]), "they are claimed");
    assert_eq!(store.claim_webhooks(OTHER, all, world.now).wait().unwrap().len(), 9);
    assert_eq!(store.claim_webhooks(OTHER, vec![], world.now).wait(), Ok(vec![]));
}

#[test]
fn messages_survive_a_stop_and_claims_of_the_last_process_do_not() {
    let (mut world, a, _) = world();
    complete(&mut world, a);
    let claimed = claim_one(&world, OTHER);
    world.reopen();
    assert!(claim(&world, ME).is_empty());
    world.release_webhooks(world.now).wait().unwrap();
    if world.has_nodes() {
        assert!(claim(&world, ME).is_empty(), "it may be the claim of another node");
        world.now += CLAIM_MS;
    }
    assert_eq!(claim_one(&world, ME), claimed);
}

/// Ends many batches at once.
fn complete_many(world: &mut World, account: AccountId, count: u32) {
    for _ in 0..count {
        let mut batch = world.new_batch(account, &["one@example.com"]);
        batch.mode = BatchMode::Test(vec![CatchAll]);
        assert!(world.create(batch).unwrap().completed);
    }
}

#[test]
fn many_objects_of_a_disabled_endpoint_are_discarded_in_parts_and_block_nobody() {
    let (mut world, a, disabled) = world();
    complete_many(&mut world, a, WAITING_MAX);
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    world.change_webhook(a, disabled, change, OPERATOR, world.now).wait().unwrap();
    let b = world.account("b", "free");
    let other = webhook(&mut world, b);
    world.now += 1;
    world.test_webhook(b, other, world.now).wait().unwrap();
    let mut waiting = WAITING_MAX;
    let first = claim_one(&world, ME);
    assert_eq!(first.webhook, other);
    note(&world, &first, 200);
    loop {
        let left = see(&world, a, disabled).waiting;
        assert!((1..=100).contains(&(waiting - left)), "{waiting} and then {left}");
        waiting = left;
        if waiting == 0 {
            break;
        }
        assert!(claim(&world, ME).is_empty());
    }
    assert!(log(&world, a, disabled).iter().all(|found| found.state == DeliveryState::Discarded));
    assert_eq!(due(&world, UnixMs::MAX), []);
    world.now += DELIVERY_KEEP_MS;
    assert_eq!(world.purge().deliveries, u64::from(WAITING_MAX) + 1);
}

#[test]
fn many_messages_of_one_object_are_discarded_in_parts() {
    let (world, a, id) = world();
    fill(&world, a, id);
    let gone = claim_one(&world, ME);
    // With the report of the first, a part of the others is discarded.
    assert_eq!(note_and_claim(&world, &gone, 410), None);
    assert!((WAITING_MAX - 100..WAITING_MAX - 1).contains(&see(&world, a, id).waiting));
    while see(&world, a, id).waiting > 0 {
        assert!(claim(&world, ME).is_empty());
    }
    let states: Vec<_> = log(&world, a, id).iter().map(|found| found.state).collect();
    assert_eq!(states[..499], [DeliveryState::Discarded; 499]);
    assert_eq!(due(&world, UnixMs::MAX), []);
}

#[test]
fn many_expired_messages_are_skipped_in_parts() {
    let (mut world, a, id) = world();
    fill(&world, a, id);
    world.now += DELIVERY_KEEP_MS;
    assert_eq!(world.purge().deliveries, u64::from(WAITING_MAX));
    let mut claims = 0;
    while !due(&world, world.now).is_empty() {
        assert!(claim(&world, ME).is_empty());
        claims += 1;
    }
    assert!((WAITING_MAX / 20..WAITING_MAX / 10).contains(&claims), "{claims}");
    complete(&mut world, a);
    claim_one(&world, ME);
}

#[test]
fn only_so_many_messages_wait_and_the_rest_is_counted() {
    let (mut world, a, id) = world();
    fill(&world, a, id);
    assert_eq!(world.test_webhook(a, id, world.now).wait(), Err(WebhookError::Full));
    complete(&mut world, a);
    complete(&mut world, a);
    let found = see(&world, a, id);
    assert_eq!((found.waiting, found.missed), (WAITING_MAX, 2));
    // The order is that of their events.
    let mut claimed = Some(claim_one(&world, ME));
    let mut sent = Vec::new();
    while let Some(message) = claimed {
        sent.push(message.message);
        claimed = note_and_claim(&world, &message, 200);
    }
    assert_eq!(sent.len(), WAITING_MAX as usize);
    assert_eq!(see(&world, a, id).waiting, 0);
}

#[test]
fn the_log_is_read_in_pages_and_has_bounds() {
    let (mut world, a, id) = world();
    let mut expected = Vec::new();
    for _ in 0..DELIVERIES_MAX + 5 {
        world.now += 1;
        expected.push(world.test_webhook(a, id, world.now).wait().unwrap());
        note(&world, &claim_one(&world, ME), 200);
    }
    expected.reverse();
    expected.truncate(DELIVERIES_MAX as usize);
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = world.deliveries(a, id, before, 300).wait().unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.message);
        found.extend(page.iter().map(|delivery| delivery.message));
    }
    assert_eq!(found, expected);
    world.now += DELIVERY_KEEP_MS;
    assert_eq!(world.purge().deliveries, u64::from(DELIVERIES_MAX));
    assert_eq!(log(&world, a, id), []);
    // A message that expired before it was sent is not sent.
    world.test_webhook(a, id, world.now).wait().unwrap();
    world.now += DELIVERY_KEEP_MS;
    world.purge();
    assert_eq!(see(&world, a, id).waiting, 0);
    assert!(claim(&world, ME).is_empty());
    assert_eq!(due(&world, UnixMs::MAX), []);
}
