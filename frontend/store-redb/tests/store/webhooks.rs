//! Webhooks: a message is written with the end of its object, claimed by one sender, repeated, and sent in order.

use crate::world::{DAY, OPERATOR, START, World, attempt_report};
use api::Reason::{self, CatchAll, MailboxExists};
use store::RowOutcome::{Unanswered, Verified};
use store::webhooks::schedule::WAITS_MS;
use store::webhooks::*;
use store::*;

const ME: ClaimNumber = [1; 16];
const OTHER: ClaimNumber = [2; 16];
const URL: &str = "https://hooks.example/in?token=needle";

fn new(world: &mut World, account: AccountId, events: EventSet) -> NewWebhook {
    let id = WebhookId::new(world.now, world.random());
    NewWebhook { id, account, url: URL.into(), label: "mine".into(), events, secret: WebhookSecret([7; 24]) }
}

fn webhook(world: &mut World, account: AccountId, events: EventSet) -> WebhookId {
    let new = new(world, account, events);
    world.create_webhook(new, OPERATOR, world.now).wait().unwrap().id
}

fn world() -> (World, AccountId, WebhookId) {
    let (mut world, account) = World::with_account("free");
    let id = webhook(&mut world, account, EventSet::ALL);
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
    note_by(world, claimed, status, ME);
}

fn note_by(world: &World, claimed: &ClaimedMessage, status: u16, claim: ClaimNumber) {
    let report = AttemptReport { claim, ..report(world, claimed, AttemptResult::Status(status)) };
    assert_eq!(world.note_attempt(report, world.now).wait(), Ok(None));
}

/// Notes an attempt, and claims the next message of the endpoint.
fn note_and_claim(world: &World, claimed: &ClaimedMessage, status: u16) -> Option<ClaimedMessage> {
    let report = AttemptReport { wants_next: true, ..report(world, claimed, AttemptResult::Status(status)) };
    world.note_attempt(report, world.now).wait().unwrap()
}

/// Changes an endpoint.
fn change(world: &World, account: AccountId, id: WebhookId, change: WebhookChange) -> Webhook {
    world.change_webhook(account, id, change, OPERATOR, world.now).wait().unwrap()
}

fn enabled(enabled: bool) -> WebhookChange {
    WebhookChange { enabled: Some(enabled), ..WebhookChange::default() }
}

fn secret(secret: WebhookSecret) -> WebhookChange {
    WebhookChange { secret: Some(secret), ..WebhookChange::default() }
}

fn url(url: &str) -> WebhookChange {
    WebhookChange { url: Some(url.into()), ..WebhookChange::default() }
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

fn list(world: &mut World, account: AccountId) -> List {
    let id = ListId::new(world.now, world.random());
    let list = List::new(id, account, world.now, "my list.csv".into());
    let list = List { addresses: 3, distinct: 2, ..list };
    world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
    list
}

/// Moves a list from one state to the next.
fn step(world: &World, list: &mut List, to: ListState) {
    let before = std::mem::replace(&mut list.state, to);
    assert_eq!(world.put_list(list, before, None, world.now).wait(), Ok(true));
}

#[test]
fn endpoints_are_created_changed_and_deleted() {
    let (mut world, a, id) = world();
    let b = world.account("b", "free");
    let found = see(&world, a, id);
    assert_eq!((found.url.as_str(), found.label.as_str(), found.events), (URL, "mine", EventSet::ALL));
    assert_eq!((found.created_at, found.health, found.waiting), (START, EndpointHealth::NEW, 0));
    assert_eq!(world.webhook(b, id).wait(), Ok(None), "another account's");
    let change = WebhookChange {
        url: Some("https://other.example/".into()),
        label: Some(String::new()),
        events: Some(EventSet::of([EventKind::ListPaused])),
        enabled: Some(false),
        secret: None,
    };
    assert_eq!(
        world.change_webhook(b, id, change.clone(), OPERATOR, START).wait(),
        Err(WebhookError::Unknown)
    );
    let changed = world.change_webhook(a, id, change, OPERATOR, START).wait().unwrap();
    world.reopen();
    assert_eq!(see(&world, a, id), changed);
    assert_eq!((changed.url.as_str(), changed.label.as_str()), ("https://other.example/", ""));
    assert_eq!(changed.health.state, EndpointState::Disabled(DisableReason::Owner));
    assert_eq!(changed.old_secret_until, None);
    for bad in ["", "https://a.example/\n", "https://ä.example/", &"x".repeat(WEBHOOK_URL_BYTES_MAX + 1)] {
        let changed = world.change_webhook(a, id, url(bad), OPERATOR, START).wait();
        assert_eq!(changed, Err(WebhookError::Bad));
    }
    assert_eq!(world.delete_webhook(b, id).wait(), Ok(false));
    assert_eq!(world.delete_webhook(a, id).wait(), Ok(true));
    assert_eq!(world.delete_webhook(a, id).wait(), Ok(false));
    assert_eq!(world.webhooks(a).wait(), Ok(vec![]));
}

#[test]
fn an_account_has_few_endpoints() {
    let (mut world, a) = World::with_account("free");
    let made: Vec<_> = (0..WEBHOOKS_MAX).map(|_| webhook(&mut world, a, EventSet::ALL)).collect();
    let more = new(&mut world, a, EventSet::ALL);
    assert_eq!(world.create_webhook(more, OPERATOR, START).wait(), Err(WebhookError::TooMany));
    let found = world.webhooks(a).wait().unwrap();
    assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), made);
    let nobody = AccountId::new(START, world.random());
    let lost = new(&mut world, nobody, EventSet::ALL);
    assert_eq!(
        world.create_webhook(lost, OPERATOR, START).wait(),
        Err(WebhookError::Store(StoreError::Outdated))
    );
    complete(&mut world, a);
    assert_eq!(claim(&world, ME).len(), WEBHOOKS_MAX);
}

#[test]
fn the_end_of_a_batch_is_a_message_with_its_counts() {
    let (mut world, a, id) = world();
    let batch = world.batch(a, &["one@example.com", "two@example.com", "three@example.com"]);
    world.answer(batch, &[(0, Verified(MailboxExists.into())), (1, Verified(MailboxExists.into()))]);
    assert_eq!(due(&world, world.now), []);
    assert_eq!(world.answer(batch, &[(2, Unanswered(None))]), [batch]);
    assert_eq!(due(&world, world.now).len(), 1);
    let claimed = claim_one(&world, ME);
    let counts = vec![(MailboxExists, 2), (Reason::Unverifiable, 1)];
    let object = EventObject::Batch(batch);
    let event = Event { kind: EventKind::BatchCompleted, object, total: 3, checked: 3, counts };
    assert_eq!((claimed.event.clone(), claimed.created_at), (event.clone(), world.now));
    assert_eq!((claimed.account, claimed.webhook, claimed.url.as_str()), (a, id, URL));
    assert_eq!(claimed.secrets, [WebhookSecret([7; 24])]);
    note(&world, &claimed, 204);
    let [delivery] = log(&world, a, id).try_into().unwrap();
    assert_eq!((delivery.event, delivery.state), (event, DeliveryState::Delivered));
    assert_eq!((delivery.attempts.len(), delivery.next_at), (1, None));
    assert_eq!(see(&world, a, id).waiting, 0);
    assert!(claim(&world, ME).is_empty());
}

#[test]
fn a_batch_that_is_complete_at_once_is_a_message_too() {
    let (mut world, a, _) = world();
    let mut test = world.new_batch(a, &["one@example.com"]);
    test.mode = BatchMode::Test(vec![CatchAll]);
    assert!(world.create(test).unwrap().completed);
    assert_eq!(claim_one(&world, ME).event.counts, [(CatchAll, 1)]);
    // The end after the longest time is an end as well.
    let late = world.batch(a, &["late@example.com"]);
    world.now += BATCH_OPEN_MS;
    world.purge();
    let claimed = claim(&world, ME);
    assert!(claimed.iter().all(|found| found.event.object != EventObject::Batch(late)), "it waits behind");
    let events = log(&world, a, claimed[0].webhook);
    assert_eq!(events[0].event.object, EventObject::Batch(late));
}

#[test]
fn an_endpoint_gets_only_what_it_wants() {
    let (mut world, a) = World::with_account("free");
    let b = world.account("b", "free");
    let batches = webhook(&mut world, a, EventSet::of([EventKind::BatchCompleted]));
    webhook(&mut world, a, EventSet::of([EventKind::ListPaused]));
    webhook(&mut world, b, EventSet::ALL);
    let disabled = webhook(&mut world, a, EventSet::ALL);
    change(&world, a, disabled, enabled(false));
    complete(&mut world, a);
    assert_eq!(claim_one(&world, ME).webhook, batches);
}

#[test]
fn the_batches_of_a_list_are_no_events_and_its_end_is() {
    let (mut world, a, id) = world();
    let mut list = list(&mut world, a);
    step(&world, &mut list, ListState::Running);
    let mut batch = world.new_batch(a, &["one@example.com"]);
    batch.id = world.batch_of_list(&list, 0);
    list.submitted = 1;
    let made = world.submit_batch_of_list(&list, batch.clone(), world.now).wait().unwrap();
    assert!(matches!(made, BatchOfList::Made(_)));
    world.answer(batch.id, &[(0, Verified(MailboxExists.into()))]);
    assert!(claim(&world, ME).is_empty());
    list.counts = vec![(MailboxExists, 1)];
    assert_eq!(world.put_list(&list, ListState::Running, None, world.now).wait(), Ok(true));
    assert!(claim(&world, ME).is_empty(), "the state is the same");
    step(&world, &mut list, ListState::Paused);
    step(&world, &mut list, ListState::Running);
    step(&world, &mut list, ListState::Completed);
    // They wait for each other.
    let paused = claim_one(&world, ME);
    let expected = (EventKind::ListPaused, EventObject::List(list.id), 2, 1, &[(MailboxExists, 1)][..]);
    let Event { kind, object, total, checked, counts } = &paused.event;
    assert_eq!((*kind, *object, *total, *checked, counts.as_slice()), expected);
    note(&world, &paused, 500);
    assert!(claim(&world, ME).is_empty());
    let [second, first] = log(&world, a, id).try_into().unwrap();
    assert_eq!((first.next_at, second.next_at), (Some(world.now + WAITS_MS[0]), None));
    assert_eq!(
        (first.created_at, second.created_at),
        (world.now, world.now),
        "what expires has the caller's time"
    );
    world.now += WAITS_MS[0];
    let again = claim_one(&world, ME);
    assert_eq!(again, paused, "with the same id");
    let next = note_and_claim(&world, &again, 200).unwrap();
    assert_eq!(next.event.kind, EventKind::ListCompleted);
    assert_ne!(next.message, paused.message);
    note(&world, &next, 200);
    assert_eq!(see(&world, a, id).waiting, 0);
}

#[test]
fn an_object_does_not_wait_for_another() {
    let (mut world, a, _) = world();
    let first = complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    let second = complete(&mut world, a);
    note(&world, &claimed, 500);
    let claimed = claim_one(&world, ME);
    assert_eq!(claimed.event.object, EventObject::Batch(second));
    note(&world, &claimed, 200);
    world.now += WAITS_MS[0];
    assert_eq!(claim_one(&world, ME).event.object, EventObject::Batch(first));
}

#[test]
fn an_endpoint_has_one_claim_until_its_time_is_over() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    let claimed = claim_one(&world, OTHER);
    complete(&mut world, a);
    assert!(claim(&world, ME).is_empty());
    world.now += CLAIM_MS - 1;
    assert!(claim(&world, ME).is_empty());
    world.now += 1;
    let mine = claim_one(&world, ME);
    assert_eq!(mine.message, claimed.message);
    // The report of the claim that was lost changes nothing.
    note_by(&world, &claimed, 200, OTHER);
    assert_eq!(see(&world, a, id).waiting, 2);
    note(&world, &mine, 200);
    assert_eq!(see(&world, a, id).waiting, 1);
    // A claim without an attempt is due again after a second.
    let mine = claim_one(&world, ME);
    let back = AttemptReport { attempt: None, ..report(&world, &mine, AttemptResult::Status(200)) };
    assert_eq!(world.note_attempt(back, world.now).wait(), Ok(None));
    assert!(claim(&world, ME).is_empty());
    world.now += 1000;
    assert_eq!(claim_one(&world, ME).message, mine.message);
}

#[test]
fn endpoints_are_due_in_the_order_of_their_times_and_claimed_once() {
    let (mut world, a) = World::with_account("free");
    let b = world.account("b", "free");
    for _ in 0..WEBHOOKS_MAX {
        webhook(&mut world, a, EventSet::ALL);
    }
    webhook(&mut world, b, EventSet::ALL);
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

#[test]
fn a_message_is_repeated_for_three_days_and_disables_its_endpoint() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    let mut attempts = 0;
    let first = claim_one(&world, ME);
    let mut claimed = first.clone();
    loop {
        attempts += 1;
        let failed = AttemptResult::Failed(AttemptFault::ALL[attempts % AttemptFault::ALL.len()]);
        let report = report(&world, &claimed, failed);
        assert_eq!(world.note_attempt(report, world.now).wait(), Ok(None));
        let [delivery] = log(&world, a, id).try_into().unwrap();
        assert_eq!(delivery.attempts.len(), attempts);
        let Some(next) = delivery.next_at else {
            assert_eq!(delivery.state, DeliveryState::Failed);
            break;
        };
        world.now = next - 1;
        assert!(claim(&world, ME).is_empty());
        world.now = next;
        claimed = claim_one(&world, ME);
        assert_eq!(claimed, first);
    }
    assert_eq!(attempts, 10);
    assert!((3 * DAY..4 * DAY).contains(&(world.now - START)));
    let found = see(&world, a, id);
    assert_eq!(found.health.state, EndpointState::Disabled(DisableReason::Failures));
    assert_eq!((found.health.failing_since, found.waiting), (Some(START), 0));
    complete(&mut world, a);
    assert!(claim(&world, ME).is_empty());
    assert_eq!(change(&world, a, id, enabled(true)).health, EndpointHealth::NEW);
    complete(&mut world, a);
    claim_one(&world, ME);
}

#[test]
fn a_410_ends_an_endpoint_at_once() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    complete(&mut world, a);
    note(&world, &claimed, 410);
    assert_eq!(see(&world, a, id).health.state, EndpointState::Disabled(DisableReason::Gone));
    // What waits there is discarded when it is due.
    assert!(claim(&world, ME).is_empty());
    let states: Vec<_> = log(&world, a, id).iter().map(|found| found.state).collect();
    assert_eq!(states, [DeliveryState::Discarded, DeliveryState::Failed]);
    assert_eq!(see(&world, a, id).waiting, 0);
    assert_eq!(world.test_webhook(a, id, world.now).wait(), Err(WebhookError::Disabled));
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
    change(&world, a, disabled, enabled(false));
    let b = world.account("b", "free");
    let other = webhook(&mut world, b, EventSet::ALL);
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
fn a_success_ends_a_series_of_failures() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    note(&world, &claim_one(&world, ME), 302);
    assert_eq!(see(&world, a, id).health.failing_since, Some(START));
    world.now += WAITS_MS[0];
    note(&world, &claim_one(&world, ME), 200);
    assert_eq!(see(&world, a, id).health, EndpointHealth::NEW);
}

#[test]
fn results_of_the_old_url_do_not_count_against_the_new_one() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    note(&world, &claim_one(&world, ME), 500);
    assert_eq!(change(&world, a, id, url(URL)).health.failing_since, Some(START), "the same URL");
    world.now += WAITS_MS[0];
    let old = claim_one(&world, ME);
    let changed = change(&world, a, id, url("https://new.example/"));
    assert_eq!(changed.health, EndpointHealth::NEW);
    // The message is due at the new URL at once, and the end of the attempt at the old one comes later.
    let next = claim_one(&world, OTHER);
    assert_eq!((next.message, next.url.as_str()), (old.message, "https://new.example/"));
    note(&world, &old, 410);
    assert_eq!(see(&world, a, id).health, EndpointHealth::NEW);
    note_by(&world, &next, 200, OTHER);
    assert_eq!(see(&world, a, id).waiting, 0);
}

#[test]
fn a_report_that_is_repeated_counts_once() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    complete(&mut world, a);
    // The claim goes on, as if the first answer was lost.
    let next = note_and_claim(&world, &claimed, 500).unwrap();
    assert_eq!(note_and_claim(&world, &claimed, 500).as_ref(), Some(&next));
    note(&world, &next, 200);
    note(&world, &next, 200);
    let counts: Vec<_> = log(&world, a, id).iter().map(|found| found.attempts.len()).collect();
    assert_eq!((counts, see(&world, a, id).waiting), (vec![1, 1], 1));
}

#[test]
fn two_secrets_sign_for_a_day_after_a_rotation() {
    let (mut world, a, id) = world();
    let next = WebhookSecret([9; 24]);
    assert_eq!(change(&world, a, id, secret(next)).old_secret_until, Some(START + OLD_SECRET_MS));
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    assert_eq!(claimed.secrets, [next, WebhookSecret([7; 24])]);
    note(&world, &claimed, 200);
    world.now += OLD_SECRET_MS;
    complete(&mut world, a);
    assert_eq!(claim_one(&world, ME).secrets, [next]);
}

#[test]
fn every_secret_signs_for_a_day_after_its_rotation() {
    let (mut world, a, id) = world();
    let numbered = |number: usize| WebhookSecret([number as u8 + 7; 24]);
    let rotate = |world: &World, number| {
        world.change_webhook(a, id, secret(numbered(number)), OPERATOR, world.now).wait()
    };
    for number in 1..=OLD_SECRETS_MAX {
        world.now += 1000;
        let found = rotate(&world, number).unwrap();
        assert_eq!(found.old_secret_until, Some(world.now + OLD_SECRET_MS));
    }
    let before = see(&world, a, id);
    assert_eq!(rotate(&world, 9), Err(WebhookError::TooManySecrets));
    assert_eq!(see(&world, a, id), before);
    world.reopen();
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    assert_eq!(claimed.secrets, [3, 2, 1, 0].map(numbered));
    note(&world, &claimed, 200);
    // The first old secret ends, and makes room.
    world.now = START + 1000 + OLD_SECRET_MS;
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    assert_eq!(claimed.secrets, [3, 2, 1].map(numbered));
    note(&world, &claimed, 200);
    rotate(&world, 4).unwrap();
    complete(&mut world, a);
    assert_eq!(claim_one(&world, ME).secrets, [4, 3, 2, 1].map(numbered));
}

#[test]
fn a_test_is_a_message_for_one_endpoint() {
    let (mut world, a, id) = world();
    webhook(&mut world, a, EventSet::ALL);
    let message = world.test_webhook(a, id, world.now).wait().unwrap();
    let claimed = claim_one(&world, ME);
    assert_eq!((claimed.message, claimed.event.kind), (message, EventKind::Test));
    assert_eq!(claimed.event.object, EventObject::Webhook(id));
    let unknown = WebhookId::new(START, world.random());
    assert_eq!(world.test_webhook(a, unknown, START).wait(), Err(WebhookError::Unknown));
}

#[test]
fn a_test_does_not_wait_for_earlier_tests_that_have_failed() {
    let (mut world, a, id) = world();
    let test = |world: &World| world.test_webhook(a, id, world.now).wait().unwrap();
    let first = test(&world);
    let claimed = claim_one(&world, ME);
    // While an attempt is under way, its result counts, so the order stays.
    let second = test(&world);
    note(&world, &claimed, 500);
    assert!(claim(&world, ME).is_empty(), "the first is due in some seconds");
    world.now += 1_000;
    let third = test(&world);
    assert_eq!(claim_one(&world, ME).message, third, "at once");
    let next_at = |world: &World, message| {
        let found = log(world, a, id).into_iter().find(|found| found.message == message);
        found.map(|found| (found.state, found.next_at))
    };
    assert_eq!(next_at(&world, first), Some((DeliveryState::Waiting, None)));
    let claimed = ClaimedMessage { message: third, ..claimed };
    note(&world, &claimed, 200);
    // The endpoint works, so the earlier tests are tried at once too, in their order.
    assert_eq!(next_at(&world, first), Some((DeliveryState::Waiting, Some(world.now))));
    for message in [first, second] {
        let claimed = claim_one(&world, ME);
        assert_eq!(claimed.message, message);
        note(&world, &claimed, 200);
    }
    assert_eq!(see(&world, a, id).waiting, 0);
    assert_eq!(due(&world, UnixMs::MAX), []);
    // The messages of a batch keep their order.
    complete(&mut world, a);
    note(&world, &claim_one(&world, ME), 500);
    let fourth = test(&world);
    assert_eq!(claim_one(&world, ME).message, fourth, "objects do not wait for each other");
}

#[test]
fn a_deleted_endpoint_leaves_nothing_to_send() {
    let (mut world, a, id) = world();
    complete(&mut world, a);
    let claimed = claim_one(&world, ME);
    complete(&mut world, a);
    assert_eq!(world.delete_webhook(a, id).wait(), Ok(true));
    note(&world, &claimed, 200);
    world.now += CLAIM_MS;
    assert!(claim(&world, ME).is_empty());
    assert_eq!(world.deliveries(a, id, None, 10).wait(), Err(WebhookError::Unknown));
    assert_eq!(due(&world, UnixMs::MAX), []);
    // Its log is gone, too: an endpoint with its id has none.
    let again = NewWebhook { id, ..new(&mut world, a, EventSet::ALL) };
    world.create_webhook(again, OPERATOR, world.now).wait().unwrap();
    assert_eq!(log(&world, a, id), []);
    world.now += DELIVERY_KEEP_MS;
    assert_eq!(world.purge().deliveries, 0);
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
