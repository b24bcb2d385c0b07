//! The sender with a store of redb and receivers on loopback.

use super::*;
use engine::config::Network;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use store::webhooks::{CLAIM_MS, DeliveryState, EventSet, NewWebhook, WebhookSecret};
use store::{AccountId, Authority, BatchId, BatchMode, NewAccount, NewBatch, NewRow, PlanTable, WebhookId};
use store_redb::StoreOptions;
use store_rules::Store;
use tempfile::TempDir;

/// A time that only tests move.
static NOW: AtomicU64 = AtomicU64::new(1_801_386_000_000);

fn now() -> UnixMs {
    NOW.load(Ordering::Acquire)
}

const PATIENCE: Duration = Duration::from_secs(30);

fn loopback() -> Destinations {
    Destinations::new(vec![Network::parse("127.0.0.0/8").expect("a network")])
}

struct World {
    store: Arc<Store>,
    account: AccountId,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = store_redb::open(folder.path(), PlanTable::standard(), StoreOptions::default(), now());
        let store: Arc<Store> = opened.expect("a new store").0;
        let world = World { store, account: AccountId::new(now(), 1), _folder: folder };
        world.create_account(1);
        world
    }

    /// A world with an endpoint that answers with this status after this time.
    fn with_hook(status: u16, after: Duration) -> (World, Hook, WebhookId) {
        let (world, hook) = (World::new(), Hook::start_at("127.0.0.1:0", status, after));
        let webhook = world.webhook(hook.url());
        (world, hook, webhook)
    }

    fn create_account(&self, number: u128) -> AccountId {
        let id = AccountId::new(now(), number);
        let new = NewAccount { id, name: number.to_string(), plan: "free".into() };
        self.store.create_account(new, now()).wait().expect("an account");
        id
    }

    fn webhook(&self, url: String) -> WebhookId {
        self.webhook_of(self.account, url)
    }

    fn webhook_of(&self, account: AccountId, url: String) -> WebhookId {
        let id = WebhookId::new(now(), random_bits().expect("random bits"));
        let (label, events) = (String::new(), EventSet::ALL);
        let secret = WebhookSecret([7; 24]);
        let new = NewWebhook { id, account, url, label, events, secret };
        self.store.create_webhook(new, Authority::OPERATOR, now()).wait().expect("an endpoint").id
    }

    fn test(&self, webhook: WebhookId) {
        self.test_of(self.account, webhook);
    }

    fn test_of(&self, account: AccountId, webhook: WebhookId) {
        self.store.test_webhook(account, webhook, now()).wait().expect("a message");
    }

    fn sender(&self) -> Sender {
        let settings = Settings { destinations: loopback(), clock: now };
        Sender::start(Arc::clone(&self.store), settings).expect("a thread")
    }

    fn states(&self, webhook: WebhookId) -> Vec<DeliveryState> {
        let log = self.store.deliveries(self.account, webhook, None, 1000).wait().expect("a log");
        log.iter().map(|delivery| delivery.state).collect()
    }

    #[track_caller]
    fn wait_for(&self, webhook: WebhookId, states: &[DeliveryState]) {
        until(|| self.states(webhook) == states, || format!("{:?}", self.states(webhook)));
    }

    /// What the newest message of the endpoint has been answered.
    fn attempts(&self, webhook: WebhookId) -> Vec<AttemptResult> {
        let log = self.store.deliveries(self.account, webhook, None, 1).wait().expect("a log");
        log[0].attempts.iter().map(|attempt| attempt.result).collect()
    }
}

/// Waits until something holds; otherwise the text says what there is instead.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool, found: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{}", found());
        thread::sleep(Duration::from_millis(10));
    }
}

/// A receiver that answers each request with this status after this time, and counts the connections at once.
struct Hook {
    address: SocketAddr,
    ids: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicU64>,
}

impl Hook {
    fn start_at(address: &str, status: u16, after: Duration) -> Hook {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (ids, most) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicU64>::default());
        let (to, peak, count) = (Arc::clone(&ids), Arc::clone(&most), Arc::<AtomicU64>::default());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (to, peak, count) = (Arc::clone(&to), Arc::clone(&peak), Arc::clone(&count));
                thread::spawn(move || {
                    peak.fetch_max(count.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                    let id = read_id(&stream);
                    thread::sleep(after);
                    count.fetch_sub(1, Ordering::AcqRel);
                    to.lock().expect("no panic").push(id);
                    let _ = (&stream).write_all(format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes());
                });
            }
        });
        Hook { address, ids, most }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Waits for the first connection.
    #[track_caller]
    fn wait(&self) {
        until(|| self.most.load(Ordering::Acquire) > 0, || "no connection".into());
    }

    fn ids(&self) -> Vec<String> {
        self.ids.lock().expect("no panic").clone()
    }
}

/// Reads a request, and returns its `webhook-id`.
fn read_id(mut stream: &TcpStream) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains("}}") {
        match stream.read(&mut piece) {
            Ok(length) if length > 0 => text += &String::from_utf8_lossy(&piece[..length]),
            _ => break,
        }
    }
    let line = text.lines().find_map(|line| line.strip_prefix("webhook-id: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn messages_are_delivered_in_order() {
    let (world, hook, webhook) = World::with_hook(200, Duration::ZERO);
    (0..CHAIN_MAX + 5).for_each(|_| world.test(webhook));
    let log = world.store.deliveries(world.account, webhook, None, 1000).wait().expect("a log");
    assert_eq!(log.len(), CHAIN_MAX + 5);
    let sender = world.sender();
    world.wait_for(webhook, &[DeliveryState::Delivered; CHAIN_MAX + 5]);
    drop(sender);
    assert_eq!(hook.ids().len(), CHAIN_MAX + 5);
    assert_eq!(hook.most.load(Ordering::Acquire), 1, "one at a time");
}

/// The ten endpoints of each of eight accounts, which are silent and have a message each.
fn silent_hooks(world: &World) -> Vec<Hook> {
    let mut silent = Vec::new();
    for number in 0..8 {
        let account = world.create_account(10 + number);
        for host in 0..10 {
            // Half of them are on the host of others.
            let address = if host % 2 == 0 { [127, 0, number as u8 + 1, host + 1] } else { [127, 0, 0, 2] };
            let hook =
                Hook::start_at(&format!("{}:0", std::net::Ipv4Addr::from(address)), 200, 10 * PATIENCE);
            world.test_of(account, world.webhook_of(account, hook.url()));
            silent.push(hook);
        }
    }
    silent
}

#[test]
fn silent_endpoints_of_many_accounts_delay_nobody() {
    let world = World::new();
    let quick = Hook::start_at("127.0.0.2:0", 204, Duration::ZERO);
    let silent = silent_hooks(&world);
    let of_quick = world.webhook(quick.url());
    let contacted = || silent.iter().filter(|hook| hook.most.load(Ordering::Acquire) > 0).count();
    let sender = world.sender();
    let deliver = |number: usize| {
        world.test(of_quick);
        let began = Instant::now();
        world.wait_for(of_quick, &vec![DeliveryState::Delivered; number]);
        assert!(began.elapsed() < Duration::from_secs(2), "message {number} waited for silent endpoints");
    };
    // Before any of them was attempted, and when they have all places for slow endpoints.
    deliver(1);
    until(|| contacted() >= 40, || format!("they get their turn too: {}", contacted()));
    deliver(2);
    // Another account's first message, to an endpoint that has not been attempted yet.
    let late = Hook::start_at("127.0.0.3:0", 204, Duration::ZERO);
    let account = world.create_account(30);
    world.test_of(account, world.webhook_of(account, late.url()));
    let began = Instant::now();
    while late.ids().is_empty() {
        assert!(began.elapsed() < Duration::from_millis(2500), "a new endpoint waited for silent ones");
        thread::sleep(Duration::from_millis(20));
    }
    // The attempts at silent endpoints take 15 s, for which a drop waits.
    std::mem::forget(sender);
}

#[test]
fn a_failed_attempt_ends_a_chain() {
    let (world, hook, webhook) = World::with_hook(500, Duration::ZERO);
    // Messages of two objects, which do not wait for each other.
    world.test(webhook);
    let row =
        NewRow { email: "one@example.com".into(), address: world.store.hash_address("one@example.com") };
    let (id, mode) = (BatchId::new(now(), 1), BatchMode::Test(vec![api::Reason::CatchAll]));
    let batch = NewBatch { id, account: world.account, name: None, rows: vec![row], idempotency: None, mode };
    world.store.create_batch(batch, Authority::OPERATOR, now()).wait().expect("a batch");
    let due = world.store.due_webhooks(None, 1, now()).wait().expect("an endpoint");
    let message = world.store.claim_webhooks([1; 16], due, now()).wait().expect("a claim").remove(0);
    let poster = Poster::new(loopback()).expect("TLS");
    let shared = Shared { store: Arc::clone(&world.store), poster, clock: now, is_draining: Arc::default() };
    shared.send_all(Claimed { number: [1; 16], message }, &channel().0);
    assert_eq!(hook.ids().len(), 1);
    assert_eq!(world.store.due_webhooks(None, 9, now()).wait().map(|due| due.len()), Ok(1));
}

/// A clock for [`a_claim_that_was_lost_is_not_continued`] alone.
static LATE: AtomicU64 = AtomicU64::new(1_801_386_000_000);

/// A clock for [`a_message_without_a_look_up_waits_and_has_no_failed_attempt`] alone.
static BUSY: AtomicU64 = AtomicU64::new(1_801_386_000_000);

#[test]
fn a_claim_that_was_lost_is_not_continued() {
    let (world, hook, webhook) = World::with_hook(200, Duration::from_secs(2));
    (0..4).for_each(|_| world.test(webhook));
    let settings = Settings { destinations: loopback(), clock: || LATE.load(Ordering::Acquire) };
    let _sender = Sender::start(Arc::clone(&world.store), settings).expect("a thread");
    hook.wait();
    // As after a suspension of the process: the attempt is under way, and its claim is over.
    LATE.fetch_add(CLAIM_MS, Ordering::AcqRel);
    world.wait_for(webhook, &[DeliveryState::Delivered; 4]);
    let ids = hook.ids();
    assert_eq!(ids.len(), 5, "only the first message was sent twice: {ids:?}");
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_drain_waits_for_attempts_and_begins_no_others() {
    let (world, hook, webhook) = World::with_hook(200, Duration::from_secs(1));
    world.test(webhook);
    world.test(webhook);
    let sender = world.sender();
    hook.wait();
    drop(sender);
    let states = world.states(webhook);
    assert_eq!(states.iter().filter(|state| **state == DeliveryState::Delivered).count(), 1, "{states:?}");
    assert_eq!(states.iter().filter(|state| **state == DeliveryState::Waiting).count(), 1, "{states:?}");
    let _next = world.sender();
    world.wait_for(webhook, &[DeliveryState::Delivered; 2]);
}

#[test]
fn a_failed_attempt_waits_for_its_time() {
    let (world, _hook, webhook) = World::with_hook(500, Duration::ZERO);
    world.test(webhook);
    let _sender = world.sender();
    until(|| !world.attempts(webhook).is_empty(), || "no attempt".into());
    thread::sleep(3 * LOOK);
    assert_eq!(world.attempts(webhook), [AttemptResult::Status(500)]);
    assert_eq!(world.states(webhook), [DeliveryState::Waiting]);
}

#[test]
fn a_message_without_a_look_up_waits_and_has_no_failed_attempt() {
    let (world, hook, webhook) = World::with_hook(200, Duration::ZERO);
    world.test(webhook);
    let (looks, address) = (Arc::new(AtomicU64::new(0)), hook.address);
    let counted = Arc::clone(&looks);
    let look_up = move |_: [u8; 16], _: &str, _: u16, _: Instant| match counted.fetch_add(1, Ordering::AcqRel)
    {
        0 => Err(io::ErrorKind::ResourceBusy.into()),
        1 => Err(io::ErrorKind::QuotaExceeded.into()),
        _ => Ok(vec![address]),
    };
    let poster = Poster::with_look_up(loopback(), look_up).expect("TLS");
    let clock = || BUSY.load(Ordering::Acquire);
    let _sender = Sender::start_with(Arc::clone(&world.store), poster, clock).expect("a thread");
    until(|| looks.load(Ordering::Acquire) > 0, || "no look-up".into());
    let time_passes = || {
        BUSY.fetch_add(100, Ordering::AcqRel);
        !hook.ids().is_empty()
    };
    until(time_passes, || "no message".into());
    world.wait_for(webhook, &[DeliveryState::Delivered]);
    assert_eq!(world.attempts(webhook).len(), 1);
}

#[test]
fn a_url_that_is_no_longer_allowed_gets_nothing() {
    let (world, hook, webhook) = World::with_hook(200, Duration::ZERO);
    world.test(webhook);
    let strict = Settings { destinations: Destinations::default(), clock: now };
    let _sender = Sender::start(Arc::clone(&world.store), strict).expect("a thread");
    until(|| !world.attempts(webhook).is_empty(), || "no attempt".into());
    assert_eq!(world.attempts(webhook)[0], AttemptResult::Failed(AttemptFault::UrlNotAllowed));
    assert!(hook.ids().is_empty());
}
