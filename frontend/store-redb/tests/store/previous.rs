//! A data folder of an earlier release opens without a loss.
//!
//! `format-5/`, `format-6/`, `format-7/`, `format-9/`, `format-10/` and `format-11/` are such folders with a compressed database. [`make_a_folder`] wrote each at the
//! last commit of its format. Format 8 only added fields to rows of limited keys, which format 9 has too.

use crate::world::{
    DAY, InFolder, OPERATOR, PASSWORD, START, World, basis, new_account, new_key, new_user, new_webhook,
};
use api::Reason::{CatchAll, InboxFull, MailboxExists, MailboxNotFound, Unverifiable};
use api::UnverifiableCause;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use store::rate_limit::{Bucket, Kept, Overrides, Row, Step, Window, WindowId};
use store::webhooks::{EventKind, EventSet, NewWebhook};
use store::*;
use store_redb::{DATABASE_FILE, KEY_FOLDER, backup};
use tempfile::TempDir;

const DATABASE: &str = "mailprobe.redb.zst";

/// Accounts, keys and batches of the folder: their ids have these numbers instead of random bits.
const ALICE: u128 = 1;
const BOB: u128 = 2;
const KEY: u128 = 3;
const OPEN: u128 = 4;
const COMPLETE: u128 = 5;
const LIST: u128 = 6;
const READY: u128 = 7;
const RUNNING: u128 = 8;
const TEST_KEY: u128 = 9;
const WEBHOOK: u128 = 10;

fn account(number: u128) -> AccountId {
    AccountId::new(START, number)
}

fn batch(number: u128) -> BatchId {
    BatchId::new(START, number)
}

fn own_limits() -> Overrides {
    Overrides { fast: Some(7), ..Overrides::default() }
}

/// A list of a format in which each row with an address is checked.
fn list(number: u128) -> List {
    let list = List::new(ListId::new(START, number), account(ALICE), START, "my list.csv".into());
    List { by_row: true, ..list }
}

fn counters() -> Kept {
    let window = Window::from_steps(vec![Step { began: START, last: START + 999, count: 600 }]).unwrap();
    let mut kept = Kept::default();
    kept.windows.insert(WindowId { key: KeyId::new(START, KEY), row: Row::Verify }, window);
    kept.fair_use.insert(account(ALICE), Bucket { level: 1_500, at: START });
    kept
}

fn open(folder: &Path) -> World {
    World::of(Box::new(InFolder(folder.to_owned())))
}

fn fill(world: &mut World) {
    for (number, name) in [(ALICE, "alice"), (BOB, "bob")] {
        let id = account(number);
        let account = new_account(id, name);
        if number == ALICE {
            let session = NewSession { hash: [8; 32], agent: "browser".into() };
            let new = new_user(account, "alice@example.com", session);
            world.sign_up(new, START).wait().unwrap();
        } else {
            world.create_account(account, START).wait().unwrap();
        }
    }
    let key = NewKey { id: KeyId::new(START, KEY), ..new_key(account(ALICE), 7) };
    let test = NewKey { id: KeyId::new(START, TEST_KEY), mode: KeyMode::Test, hash: [9; 32], ..key.clone() };
    world.create_key(key, OPERATOR, START).wait().unwrap();
    world.create_key(test, OPERATOR, START).wait().unwrap();
    world.revoke_key(KeyId::new(START, TEST_KEY), START + 1).wait().unwrap();
    let events = EventSet::of([EventKind::ListCompleted]);
    let webhook = NewWebhook { label: "mine".into(), events, ..new_webhook(account(ALICE), WEBHOOK) };
    world.create_webhook(webhook, OPERATOR, START).wait().unwrap();
    world.set_overrides(account(ALICE), false, own_limits()).wait().unwrap();
    world.keep_counters(counters()).wait().unwrap();
    world.grant(account(ALICE), 50).unwrap();
    let list = List { by_row: false, ..list(LIST) };
    world.create_list(&list, ListRoom::MOST, None, START).wait().unwrap();
    let part = NewPart { number: 0, from: 0, to: 15, plain: b"one@example.com", by: OPERATOR };
    world.put_list_part(&list, part, ListRoom::MOST, START).wait().unwrap();

    world.hold(account(BOB), 3).unwrap();
    for (address, reason) in
        [("exists", MailboxExists), ("unknown", MailboxNotFound), ("open", CatchAll), ("full", InboxFull)]
    {
        world.verify(account(ALICE), &format!("{address}@example.com"), reason);
    }
    world.reuse(account(BOB), "exists@example.com", MailboxExists).unwrap();
    for (number, addresses) in
        [(OPEN, ["a@example.com", "b@example.com"]), (COMPLETE, ["c@x.example", "d@x.example"])]
    {
        let mut new = world.new_batch(account(ALICE), &addresses);
        new.id = batch(number);
        new.name = Some(format!("batch {number}"));
        new.idempotency = Some(Idempotency { key: format!("key {number}"), body: [number as u8; 32] });
        world.create(new).unwrap();
    }
    world.answer(batch(OPEN), &[(0, RowOutcome::Verified(MailboxExists.into()))]);
    world.answer(
        batch(COMPLETE),
        &[(0, RowOutcome::Verified(MailboxNotFound.into())), (1, RowOutcome::Unanswered(None))],
    );
}

/// Writes such a folder to the path in `MAILPROBE_FOLDER`.
#[test]
#[ignore = "makes the stored folder of a format anew"]
fn make_a_folder() {
    let target =
        PathBuf::from(std::env::var_os("MAILPROBE_FOLDER").expect("MAILPROBE_FOLDER names a folder"));
    let folder = TempDir::new().unwrap();
    let mut world = open(folder.path());
    fill(&mut world);
    drop(world);
    backup::compact(folder.path()).unwrap();
    fs::create_dir_all(target.join(KEY_FOLDER)).unwrap();
    let database = File::open(folder.path().join(DATABASE_FILE)).unwrap();
    zstd::stream::copy_encode(database, File::create(target.join(DATABASE)).unwrap(), 19).unwrap();
    copy_keys(folder.path(), &target);
}

fn copy_keys(from: &Path, to: &Path) {
    for key in fs::read_dir(from.join(KEY_FOLDER)).unwrap() {
        let key = key.unwrap();
        fs::copy(key.path(), to.join(KEY_FOLDER).join(key.file_name())).unwrap();
    }
}

/// The stored folder of a format, unpacked.
fn stored(format: u32) -> TempDir {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/store/format-{format}"));
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join(KEY_FOLDER)).unwrap();
    let database = File::create(folder.path().join(DATABASE_FILE)).unwrap();
    zstd::stream::copy_decode(File::open(stored.join(DATABASE)).unwrap(), database).unwrap();
    copy_keys(&stored, folder.path());
    folder
}

/// The world on the stored folder of a format, a second after its start. A result of before has no basis, for its account and for others.
fn opened(format: u32) -> (TempDir, World) {
    let folder = stored(format);
    let mut world = open(folder.path());
    world.now = START + 1_000;
    let known = [ALICE, BOB].map(|number| world.known(account(number), "unknown@example.com"));
    let [Known::Own(own), Known::Shared(shared)] = known else { panic!("{known:?}") };
    assert_eq!([own, shared].map(|result| result.verdict), [MailboxNotFound.into(), MailboxNotFound.into()]);
    (folder, world)
}

#[test]
fn a_folder_of_format_5_opens_with_all_that_it_has() {
    let (_folder, mut world) = opened(5);
    assert_eq!(world.lists(account(ALICE), world.now).wait().unwrap(), [list(LIST)]);
    check_all_but_lists(&mut world);
}

#[test]
fn a_folder_of_format_6_opens_with_all_that_it_has() {
    let (_folder, world) = opened(6);
    let counted = |number, state| {
        let of_content = List { bytes: 56, offset: 56, rows: 4, addresses: 3, distinct: 3, ..list(number) };
        List { state, ..of_content }
    };
    let (ready, running) = (counted(READY, ListState::Ready), counted(RUNNING, ListState::Running));
    let running = List { submitted: 3, ..running };
    assert_eq!((ready.to_check(), ready.price()), (3, 3), "each row with an address");
    let alice = account(ALICE);
    let lists = world.lists(alice, world.now).wait().unwrap();
    assert_eq!(lists, [running.clone(), ready, list(LIST)]);
    // Three rows of the running list are held, and its batch is one like any other.
    world.check(alice, (90, 50, 5, 5, 0));
    let batch = world.batch_of_list(&running, 0);
    world.answer(
        batch,
        &[(0, RowOutcome::Verified(MailboxExists.into())), (2, RowOutcome::Repeated(MailboxExists.into()))],
    );
    let cancelled = world.cancel_list(alice, running.id, world.now).wait().unwrap().unwrap();
    assert_eq!((cancelled.list.state, cancelled.list.answered()), (ListState::Cancelled, 2));
    assert_eq!(cancelled.list, world.list(alice, running.id, world.now).wait().unwrap().unwrap());
    world.check(alice, (91, 50, 2, 7, 0));
    for number in [READY, RUNNING] {
        assert!(world.delete_list(alice, ListId::new(START, number), world.now).wait().unwrap().is_some());
    }
    assert_eq!(world.delete_unfinished_lists(None).wait(), Ok(1));
}

#[test]
fn a_folder_of_format_7_opens_with_all_that_it_has() {
    let (_folder, mut world) = opened(7);
    let alice = account(ALICE);
    let lists = world.lists(alice, world.now).wait().unwrap();
    assert_eq!(lists, [List { by_row: false, offset: 15, ..list(LIST) }]);
    let keys = world.keys(alice).wait().unwrap();
    let seen: Vec<_> =
        keys.iter().map(|key| (key.mode, key.scopes, key.expires_at, key.revoked_at.is_some())).collect();
    let all = KeyScopes::ALL;
    assert_eq!(seen, [(KeyMode::Live, all, None, false), (KeyMode::Test, all, None, true)]);
    let webhooks = world.webhooks(alice).wait().unwrap();
    assert_eq!(
        webhooks.iter().map(|hook| hook.url.as_str()).collect::<Vec<_>>(),
        ["https://hooks.example/in"]
    );
    // A key of the new format stands beside them.
    let scopes = KeyScopes::of([KeyScope::Lists]).unwrap();
    let new = NewKey { scopes, expires_at: Some(START + DAY), ..world.new_key(alice, "new") };
    world.create_key(new.clone(), OPERATOR, world.now).wait().unwrap();
    world.reopen();
    let found = world.key_by_hash(&new.hash).unwrap();
    assert_eq!((found.scopes, found.expires_at), (scopes, Some(START + DAY)));
    check_all_but_lists(&mut world);
}

#[test]
fn a_folder_of_format_9_opens_with_all_that_it_has() {
    let (_folder, mut world) = opened(9);
    let alice = account(ALICE);
    let list = List { by_row: false, offset: 15, ..list(LIST) };
    assert_eq!(world.lists(alice, world.now).wait().unwrap(), std::slice::from_ref(&list));
    // The use of lists is made from them when it is first needed, and a quota counts from now on.
    assert_eq!(world.lists_at_work(world.now).wait(), Ok(vec![]));
    let reading = List { state: ListState::Reading, ..list };
    assert_eq!(world.put_list(&reading, ListState::Uploading, None, world.now).wait(), Ok(true));
    assert_eq!(world.lists_at_work(world.now).wait(), Ok(vec![reading.clone()]));
    world.reopen();
    assert_eq!(world.lists_at_work(world.now).wait(), Ok(vec![reading]));
    world.batch(alice, &["new@example.com"]);
    world.check(alice, (92, 50, 3, 5, 0));
}

#[test]
fn a_folder_of_format_10_opens_with_all_that_it_has() {
    let (_folder, mut world) = opened(10);
    let alice = account(ALICE);
    let list = List { by_row: false, offset: 15, ..list(LIST) };
    assert_eq!(world.lists(alice, world.now).wait().unwrap(), [list]);
    // An answer of before has no cause, and a new one has.
    assert_eq!(world.view(alice, batch(COMPLETE)).unwrap().causes, [None, None]);
    let verdict = Verdict { cause: Some(UnverifiableCause::Greylisted), ..Unverifiable.into() };
    world.verify(alice, "new@example.com", verdict.clone());
    world.reopen();
    let known = world.known(alice, "new@example.com");
    assert!(matches!(known, Known::Own(result) if result.verdict == verdict));
}

#[test]
fn a_folder_of_format_11_opens_with_all_that_it_has() {
    let (_folder, mut world) = opened(11);
    let alice = account(ALICE);
    let list = List { by_row: false, offset: 15, ..list(LIST) };
    assert_eq!(world.lists(alice, world.now).wait().unwrap(), [list]);
    check_all_but_lists(&mut world);
    let verdict = Verdict { basis: basis(), ..MailboxExists.into() };
    world.verify(alice, "unknown@example.com", verdict.clone());
    world.reopen();
    let known = world.known(alice, "unknown@example.com");
    assert!(matches!(known, Known::Own(result) if result.verdict == verdict));
}

fn check_all_but_lists(world: &mut World) {
    let (alice, bob) = (account(ALICE), account(BOB));
    // Alice: four checks, a row of a batch of two, and an open batch.
    world.check(alice, (93, 50, 2, 5, 0));
    world.check(bob, (99, 0, 0, 1, 0));
    assert_eq!(world.audit(None).wait().unwrap().faults, Vec::<String>::new());
    assert_eq!(world.key_by_hash(&[7; 32]).unwrap().account, alice);
    assert_eq!(world.terms(alice).unwrap().overrides, own_limits());
    assert_eq!(world.kept_counters().wait().unwrap(), counters());
    let user = world.user_of("alice@example.com").wait().unwrap().unwrap();
    assert_eq!((user.account, user.password), (alice, PASSWORD));
    assert!(world.session(&[8; 32], world.now).wait().unwrap().is_some());
    assert_eq!(world.list_part(&list(LIST), 0).wait().unwrap().as_deref(), Some(&b"one@example.com"[..]));

    for (name, reason) in
        [("exists", MailboxExists), ("unknown", MailboxNotFound), ("open", CatchAll), ("full", InboxFull)]
    {
        let address = format!("{name}@example.com");
        let own = |known| matches!(known, Known::Own(result) if result.verdict.reason == reason);
        let shared = |known| matches!(known, Known::Shared(result) if result.verdict.reason == reason);
        assert!(own(world.known(alice, &address)), "{name}");
        let of_bob = world.known(bob, &address);
        assert!(if name == "exists" { own(of_bob) } else { shared(of_bob) }, "{name}");
    }

    let open = world.open_batches().wait().unwrap();
    assert_eq!(open.iter().map(|open| open.batch).collect::<Vec<_>>(), [batch(OPEN)]);
    let rows = world.unanswered(batch(OPEN)).wait().unwrap();
    assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), [1]);
    let done = world.view(alice, batch(COMPLETE)).unwrap();
    let expected = [("c@x.example".to_owned(), MailboxNotFound), ("d@x.example".to_owned(), Unverifiable)];
    assert_eq!(done.results.unwrap(), expected);
    // The store continues from this state.
    world.answer(batch(OPEN), &[(1, RowOutcome::Unanswered(None))]);
    assert!(world.view(alice, batch(OPEN)).unwrap().completed);
    world.check(alice, (94, 50, 0, 6, 0));
    world.now = START + 8 * DAY;
    assert_eq!((world.purge().results, world.known(bob, "exists@example.com")), (7, Known::Nothing));
    world.check_sums();
}
