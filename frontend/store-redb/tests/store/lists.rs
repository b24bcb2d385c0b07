//! Lists: their upload, their price, their batches and their end.

use crate::world::{DAY, OPERATOR, START, World};
use api::Noted;
use api::Reason::{self, CatchAll, MailboxExists, MailboxNotFound};
use store::RowOutcome::{Repeated, Verified};
use store::*;

const HOUR: UnixMs = DAY / 24;

fn list(world: &World, account: AccountId, n: u128) -> List {
    List::new(ListId::new(world.now, n), account, world.now, "my list.csv".into())
}

/// A part of a list in which each part has the same length.
fn part(number: u32, plain: &[u8]) -> NewPart<'_> {
    let from = u64::from(number) * plain.len() as u64;
    NewPart { number, from, to: from + plain.len() as u64, plain, by: OPERATOR }
}

/// A running list of these different addresses.
fn running(world: &World, account: AccountId, n: u128, distinct: u64) -> List {
    let list = list(world, account, n);
    assert_eq!(world.create_list(&list, ListRoom::MOST, None, world.now).wait(), Ok(ListMade::Made));
    let list = List { state: ListState::Running, rows: distinct, addresses: distinct, distinct, ..list };
    assert_eq!(world.put_list(&list, ListState::Uploading, None, world.now).wait(), Ok(true));
    list
}

/// Submits the next batch of a list.
fn submit(world: &mut World, list: &mut List, addresses: &[&str]) -> BatchId {
    let mut new = world.new_batch(list.account, addresses);
    new.id = world.batch_of_list(list, list.done);
    let id = new.id;
    list.submitted += addresses.len() as u64;
    let made = world.submit_batch_of_list(list, new, world.now).wait().unwrap();
    assert!(matches!(made, BatchOfList::Made(_)));
    id
}

/// Checks a list of one address with a test key.
pub fn check_a_test_list(world: &mut World, account: AccountId) {
    let list = List { mode: KeyMode::Test, submitted: 1, ..running(world, account, 1, 1) };
    let (id, mode) = (world.batch_of_list(&list, 0), BatchMode::Test(vec![MailboxExists]));
    let new = NewBatch { id, mode, ..world.new_batch(account, &["deliverable@example.com"]) };
    let made = world.submit_batch_of_list(&list, new, world.now).wait().unwrap();
    assert!(matches!(made, BatchOfList::Made(made) if made.completed));
}

fn read(world: &World, list: &List) -> List {
    world.list(list.account, list.id, world.now).wait().unwrap().unwrap()
}

#[test]
fn a_list_changes_only_from_where_it_is_thought_to_stand() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let mut one = list(&world, a, 1);
    let store = world.store();
    assert_eq!(store.create_list(&one, ListRoom::MOST, None, START).wait(), Ok(ListMade::Made));
    assert_eq!(store.create_list(&one, ListRoom::MOST, None, START).wait(), Ok(ListMade::TooMany), "once");
    assert_eq!(
        store.put_list_part(&one, part(0, b"one@example.com"), ListRoom::MOST, START).wait(),
        Ok(PartPut::Stored)
    );
    one.offset = 15;
    one.state = ListState::Running;
    assert_eq!(store.put_list(&one, ListState::Ready, None, world.now).wait(), Ok(false));
    assert_eq!(store.put_list(&one, ListState::Uploading, None, world.now).wait(), Ok(true));
    assert_eq!(
        store.put_list_part(&one, part(1, b"late"), ListRoom::MOST, START).wait(),
        Ok(PartPut::Gone),
        "it is not uploading any longer"
    );
    let before = one.clone();
    one.done = 1;
    one.submitted = 200;
    one.counts = vec![(Reason::CatchAll, 1)];
    assert_eq!(
        store.put_list(&one, ListState::Running, Some(&[Reason::CatchAll]), world.now).wait(),
        Ok(true)
    );
    for behind in [before, List { done: 0, ..one.clone() }, List { submitted: 199, ..one.clone() }] {
        assert_eq!(
            store.put_list(&behind, ListState::Running, None, world.now).wait(),
            Ok(false),
            "of a node that was away"
        );
    }
    world.reopen();
    let store = world.store();
    assert_eq!(store.list(a, one.id, START).wait(), Ok(Some(one.clone())));
    assert_eq!(store.list(b, one.id, START).wait(), Ok(None), "another account's");
    assert_eq!(store.lists_at_work(START).wait().unwrap(), [one.clone()]);
    assert_eq!(store.list_part(&one, 0).wait().unwrap().as_deref(), Some(&b"one@example.com"[..]));
    assert_eq!(store.list_part(&one, 1).wait(), Ok(None));
    assert_eq!(store.list_answers(&one, 0).wait(), Ok(Some(vec![Some(Reason::CatchAll)])));
    assert_eq!(store.batch_of_list(&one, 7), store.batch_of_list(&one, 7));
    assert_ne!(store.batch_of_list(&one, 7), store.batch_of_list(&one, 8));
    assert_eq!(store.delete_list(b, one.id, START).wait(), Ok(None));
    assert_eq!(store.delete_list(a, one.id, START).wait(), Ok(Some(vec![])));
    world.let_chores_run();
    assert_eq!((store.list_part(&one, 0).wait(), store.list_answers(&one, 0).wait()), (Ok(None), Ok(None)));
}

#[test]
fn lists_are_gone_after_their_time_and_are_few() {
    let (mut world, a) = World::with_account("free");
    for n in 0..LISTS_MAX as u128 {
        let made = world.create_list(&list(&world, a, n), ListRoom::MOST, None, world.now).wait();
        assert_eq!(made, Ok(ListMade::Made));
    }
    let made = world.create_list(&list(&world, a, 999), ListRoom::MOST, None, world.now).wait();
    assert_eq!(made, Ok(ListMade::TooMany));
    let [one, last] = [0, LISTS_MAX as u128 - 1].map(|n| list(&world, a, n));
    for list in [&one, &last] {
        world.put_list_part(list, part(0, b"one@example.com"), ListRoom::MOST, START).wait().unwrap();
    }
    for n in 0..LISTS_MAX as u128 - 1 {
        let ready = List { state: ListState::Ready, offset: 15, ..list(&world, a, n) };
        assert_eq!(world.put_list(&ready, ListState::Uploading, None, world.now).wait(), Ok(true));
    }
    world.now = START + UPLOAD_KEEP_MS - 1;
    assert_eq!(world.lists(a, world.now).wait().unwrap().len(), LISTS_MAX);
    world.now = START + UPLOAD_KEEP_MS;
    assert_eq!(world.lists(a, world.now).wait().unwrap().len(), LISTS_MAX - 1, "an upload that stopped");
    world.now = START + LIST_KEEP_MS - 1;
    assert_eq!(world.lists(a, world.now).wait().unwrap().len(), LISTS_MAX - 1);
    world.now = START + LIST_KEEP_MS;
    assert_eq!(world.lists(a, world.now).wait(), Ok(vec![]));
    assert!(world.purge().lists > 0);
    assert_eq!(world.list_part(&one, 0).wait(), Ok(None));
}

#[test]
fn lists_take_no_more_than_their_room() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let room = ListRoom { account: 50, all: 400 };
    let make = |account, n, bytes| {
        let list = List { bytes, ..list(&world, account, n) };
        world.create_list(&list, room, None, world.now).wait().unwrap()
    };
    assert_eq!(make(a, 1, 51), ListMade::AccountFull);
    assert_eq!(make(a, 2, 30), ListMade::Made);
    assert_eq!(make(a, 3, 21), ListMade::AccountFull);
    assert_eq!(make(a, 4, 20), ListMade::Made);
    // 350 are left, and one account may have an eighth of them.
    assert_eq!(make(b, 5, 44), ListMade::StoreFull);
    assert_eq!(make(b, 6, 43), ListMade::Made);
    assert_eq!(world.delete_list(a, list(&world, a, 2).id, START).wait(), Ok(Some(vec![])));
    assert_eq!(make(b, 7, 8), ListMade::AccountFull);
    assert_eq!(make(b, 8, 5), ListMade::StoreFull);
    assert_eq!(make(b, 9, 4), ListMade::Made);
    // An unfinished upload does not survive the process.
    let mut read = List { bytes: 20, state: ListState::Reading, ..list(&world, a, 4) };
    assert_eq!(world.put_list(&read, ListState::Uploading, None, world.now).wait(), Ok(true));
    assert_eq!(world.delete_unfinished_lists(None).wait(), Ok(2));
    assert_eq!(world.lists(b, world.now).wait(), Ok(vec![]));
    read = world.lists(a, world.now).wait().unwrap().remove(0);
    assert_eq!(read.state, ListState::Reading);
    // The index counts too: it has a number for each row if addresses repeat.
    let read = List { state: ListState::Ready, addresses: 6, distinct: 5, ..read };
    assert_eq!(world.put_list(&read, ListState::Reading, None, world.now).wait(), Ok(true));
    assert_eq!(make(a, 10, 7), ListMade::AccountFull);
    assert_eq!(make(a, 11, 6), ListMade::Made);
}

#[test]
fn a_list_pays_only_for_what_the_account_has_not_checked_within_a_day() {
    let (mut world, a) = World::with_account("free");
    world.verify(a, "old@example.com", MailboxExists);
    world.now += DAY;
    world.verify(a, "known@example.com", MailboxExists);
    let hashes = ["old@example.com", "known@example.com", "new@example.com"]
        .map(|address| world.hash_address(address))
        .to_vec();
    assert_eq!(world.is_own(a, hashes, world.now).wait(), Ok(vec![false, true, false]));
    let mut list = running(&world, a, 1, 3);
    let rows = ["old@example.com", "known@example.com", "new@example.com"];
    let batch = submit(&mut world, &mut list, &rows);
    world.check(a, (96, 0, 2, 2, 0));
    world.answer(batch, &[(0, Verified(CatchAll.into()))]);
    // A single check of the account was faster.
    world.answer(batch, &[(2, Repeated(MailboxNotFound.into()))]);
    world.check(a, (97, 0, 0, 3, 0));
    let view = world.view(a, batch).unwrap();
    assert_eq!((view.completed, view.charged), (true, 1));
    let days = world.days(a, world.now).wait().unwrap();
    let day = days.last().unwrap();
    assert_eq!((day.singles, day.rows), (1, 3), "the rows that were free count too");
    assert_eq!(day.reasons.iter().map(|(_, count)| count).sum::<u64>(), 4, "the sums agree");
    // All of it is known now, so it is complete at once.
    list.done = 1;
    world.check(a, (97, 0, 0, 3, 0));
    let mut again = running(&world, a, 2, 2);
    let batch = submit(&mut world, &mut again, &["old@example.com", "known@example.com"]);
    let view = world.view(a, batch).unwrap();
    assert_eq!((view.completed, view.charged, view.results.unwrap().len()), (true, 0, 2));
    world.check(a, (97, 0, 0, 3, 0));
    // A batch of its own costs each row.
    world.batch(a, &["old@example.com", "known@example.com"]);
    world.check(a, (95, 0, 0, 5, 0));
}

#[test]
fn the_progress_of_a_list_is_of_one_moment_and_adds_up() {
    let (mut world, a) = World::with_account("free");
    let mut list = running(&world, a, 1, 3);
    let rows = ["a@example.com", "b@example.com", "c@example.com"];
    let batch = submit(&mut world, &mut list, &rows);
    world.answer(batch, &[(0, Verified(CatchAll.into())), (1, Repeated(MailboxNotFound.into()))]);
    let sum = |found: &ListProgress| {
        let free = found.checked - found.cost;
        (found.charged, found.reserved, found.returns, found.charged + found.reserved - found.returns + free)
    };
    let (_, found) = world.list_progress(&list, world.now).wait().unwrap();
    assert_eq!((found.checked, sum(&found)), (2, (0, 3, 1, 3)), "a free address counts once");
    world.answer(batch, &[(2, Verified(MailboxExists.into()))]);
    // The list takes the answers between the two readings of a caller.
    let before = read(&world, &list);
    (list.done, list.charged, list.state) = (1, 2, ListState::Completed);
    list.counts = vec![(CatchAll, 1), (MailboxNotFound, 1), (MailboxExists, 1)];
    let answers = [CatchAll, MailboxNotFound, MailboxExists];
    assert_eq!(world.put_list(&list, ListState::Running, Some(&answers), world.now).wait(), Ok(true));
    let (after, found) = world.list_progress(&before, world.now).wait().unwrap();
    assert_eq!((after.state, found.checked, sum(&found)), (ListState::Completed, 3, (2, 0, 0, 3)));
    world.delete_list(a, list.id, world.now).wait().unwrap();
    assert_eq!(world.list_progress(&before, world.now).wait().unwrap().0, before);
}

/// As many as a list has at most. Each of them is read and written in the same transaction.
#[test]
fn a_hundred_open_batches_end_at_once() {
    let (mut world, a) = World::with_account("free");
    world.grant(a, 19_900).unwrap();
    let mut list = running(&world, a, 1, 20_000);
    for number in 0..100 {
        let addresses: Vec<String> = (0..200).map(|row| format!("{number}-{row}@example.com")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let new = world.new_batch(a, &addresses);
        let new = NewBatch { id: world.batch_of_list(&list, number), ..new };
        list.submitted += 200;
        let made = world.submit_batch_of_list(&list, new, world.now).wait().unwrap();
        assert!(matches!(made, BatchOfList::Made(_)));
    }
    let cancelled = world.cancel_list(a, list.id, world.now).wait().unwrap().unwrap();
    assert_eq!((cancelled.list.done, cancelled.batches.len()), (100, 100));
    world.check(a, (100, 19_900, 0, 0, 0));
}

#[test]
fn an_upload_continues_at_its_offset_only() {
    let (mut world, a) = World::with_account("free");
    let list = List { is_resumable: true, bytes: 30, ..list(&world, a, 1) };
    let store = world.store();
    store.create_list(&list, ListRoom::MOST, None, START).wait().unwrap();
    let put = |number, from, to, plain, now| {
        store
            .put_list_part(&list, NewPart { number, from, to, plain, by: OPERATOR }, ListRoom::MOST, now)
            .wait()
            .unwrap()
    };
    assert_eq!(put(0, 0, 3, b"abc", START), PartPut::Stored);
    assert_eq!(put(0, 0, 3, b"abc", START), PartPut::Offset(3));
    assert_eq!(put(0, 4, 6, b"abc", START), PartPut::Offset(3));
    assert_eq!(put(0, 3, 5, b"abcde", START + 1), PartPut::Stored);
    // A start deletes no upload that can continue.
    assert_eq!(store.delete_unfinished_lists(None).wait(), Ok(0));
    world.reopen();
    let found = read(&world, &list);
    assert_eq!((found.state, found.offset, found.bytes), (ListState::Uploading, 5, 30));
    assert_eq!(world.list_part(&list, 0).wait().unwrap().as_deref(), Some(&b"abcde"[..]));
    assert_eq!(world.end_upload(&list, None, OPERATOR, START).wait(), Ok(UploadEnd::Done));
    let found = read(&world, &list);
    assert_eq!((found.state, found.bytes), (ListState::Reading, 5));
    assert_eq!(world.end_upload(&list, None, OPERATOR, START).wait(), Ok(UploadEnd::Gone));
    world.now = START + LIST_KEEP_MS - 1;
    assert_eq!(read(&world, &list).bytes, 5);
    world.now += 1;
    assert_eq!(world.list(a, list.id, world.now).wait(), Ok(None));
    assert!(world.purge().lists > 0);
}

#[test]
fn an_upload_without_bytes_for_a_day_is_removed_and_one_that_does_not_begin_sooner() {
    let (mut world, a) = World::with_account("free");
    let [list, other] = [1, 2].map(|n| List { is_resumable: true, ..list(&world, a, n) });
    for list in [&list, &other] {
        world.create_list(list, ListRoom::MOST, None, START).wait().unwrap();
    }
    world.now = START + UPLOAD_BEGIN_MS - 1;
    let put = |world: &World, number| {
        world.put_list_part(&list, part(number, b"x"), ListRoom::MOST, world.now).wait()
    };
    assert_eq!(put(&world, 0), Ok(PartPut::Stored));
    assert_eq!(read(&world, &other).offset, 0);
    world.now += 1;
    assert_eq!(world.list(a, other.id, world.now).wait(), Ok(None));
    assert_eq!(world.purge().lists, 1);
    world.now += 24 * HOUR - 2;
    assert_eq!(read(&world, &list).offset, 1);
    world.now += 1;
    assert_eq!(put(&world, 1), Ok(PartPut::Gone));
    assert_eq!(world.list(a, list.id, world.now).wait(), Ok(None));
    assert_eq!(world.purge().lists, 1);
    assert_eq!(world.list_part(&list, 0).wait(), Ok(None));
}

#[test]
fn an_idempotency_key_creates_one_list() {
    let (mut world, a) = World::with_account("free");
    let key = |body: u8| Some(Idempotency { key: "k".into(), body: [body; 32] });
    let create = |world: &World, n, key, is_resumable| {
        let list = List { is_resumable, ..list(world, a, n) };
        world.create_list(&list, ListRoom::MOST, key, world.now).wait().unwrap()
    };
    let [one, two] = [1, 2].map(|n| list(&world, a, n));
    assert_eq!(create(&world, 1, key(1), false), ListMade::Made);
    // It is not stored before the end of the upload. Of two uploads with one key, the faster one counts.
    assert_eq!(create(&world, 2, key(1), false), ListMade::Made);
    assert_eq!(world.end_upload(&two, key(1), OPERATOR, START).wait(), Ok(UploadEnd::Done));
    assert_eq!(world.end_upload(&one, key(1), OPERATOR, START).wait(), Ok(UploadEnd::Replayed(two.id)));
    assert_eq!(world.end_upload(&one, key(2), OPERATOR, START).wait(), Ok(UploadEnd::KeyReused));
    assert_eq!(create(&world, 3, key(1), false), ListMade::Replayed(two.id));
    assert_eq!(create(&world, 3, key(2), true), ListMade::KeyReused);
    // The keys of batches are others.
    let mut batch = world.new_batch(a, &["a@example.com"]);
    batch.idempotency = key(9);
    let made = world.create(batch.clone()).unwrap();
    assert_eq!(world.create(batch), Ok(BatchCreated { replayed: true, ..made }));
    assert_eq!(create(&world, 3, key(9), true), ListMade::KeyReused);
    assert_eq!(create(&world, 3, key(1), true), ListMade::Replayed(two.id));
    world.now += IDEMPOTENCY_MS;
    assert_eq!(create(&world, 4, key(2), true), ListMade::Made);
    assert_eq!(create(&world, 5, key(2), true), ListMade::Replayed(ListId::new(world.now, 4)));
    // A test key has keys of its own.
    let test = List { mode: KeyMode::Test, ..list(&world, a, 6) };
    let made = world.create_list(&test, ListRoom::MOST, key(2), world.now).wait();
    assert_eq!(made, Ok(ListMade::Made));
}

#[test]
fn the_index_of_a_list_is_written_while_it_is_read_and_goes_with_it() {
    let (world, a) = World::with_account("free");
    let mut list = list(&world, a, 1);
    let store = world.store();
    store.create_list(&list, ListRoom::MOST, None, START).wait().unwrap();
    assert_eq!(store.put_list_index(&list, 0, b"early").wait(), Ok(false));
    store.put_list_part(&list, part(0, b"a"), ListRoom::MOST, START).wait().unwrap();
    store.end_upload(&list, None, OPERATOR, START).wait().unwrap();
    assert_eq!(store.put_list_index(&list, 0, b"index").wait(), Ok(true));
    list.state = ListState::Reading;
    assert_eq!(store.list_index(&list, 0).wait().unwrap().as_deref(), Some(&b"index"[..]));
    assert_eq!(store.list_part(&list, 0).wait().unwrap().as_deref(), Some(&b"a"[..]));
    assert_eq!(store.list_part(&list, 1).wait(), Ok(None));
    store.delete_list(a, list.id, START).wait().unwrap();
    world.let_chores_run();
    world.purge();
    assert_eq!(world.list_index(&list, 0).wait(), Ok(None));
}

#[test]
fn the_ledger_names_the_batch_or_the_list_of_a_charge() {
    let (mut world, a) = World::with_account("free");
    // The ids of a list's batches have the time of the list.
    let entries = |world: &World| world.entries(a, 100).wait().unwrap();
    let newest = |world: &World| entries(world).into_iter().max_by_key(|entry| entry.at).unwrap();
    let page = |world: &World| world.batches(a, None, 10, world.now).wait().unwrap().batches;
    world.verify(a, "single@example.com", MailboxExists);
    assert_eq!((newest(&world).note.as_str(), newest(&world).charged_for()), ("", None), "no address");
    world.now += 1;
    let new = NewBatch { name: Some("spring".into()), ..world.new_batch(a, &["a@example.com"]) };
    let id = new.id;
    world.create(new).unwrap();
    world.reopen();
    assert_eq!(page(&world)[0].name.as_deref(), Some("spring"), "also of an open batch");
    world.answer(id, &[(0, Verified(MailboxExists.into()))]);
    assert_eq!(page(&world)[0].name.as_deref(), Some("spring"));
    let entry = newest(&world);
    assert_eq!((entry.spent, entry.note), (1, format!("batch {id}")));
    world.now += 1;
    let mut list = running(&world, a, 1, 2);
    let batch = submit(&mut world, &mut list, &["b@example.com", "c@example.com"]);
    world.reopen();
    world.answer(batch, &[(0, Verified(MailboxExists.into())), (1, Verified(CatchAll.into()))]);
    let entry = newest(&world);
    assert_eq!((entry.spent, entry.charged_for()), (2, Some(ChargedFor::List(list.id))));
    assert_eq!(world.view(a, batch).unwrap().name, None);
    assert_eq!(page(&world).len(), 1, "without those of lists");
    world.now += 1;
    let mut list = running(&world, a, 2, 2);
    let cancelled = submit(&mut world, &mut list, &["d@example.com", "e@example.com"]);
    world.answer(cancelled, &[(0, Verified(MailboxExists.into()))]);
    world.cancel_list(a, list.id, world.now).wait().unwrap().unwrap();
    assert_eq!((newest(&world).spent, newest(&world).note), (1, format!("list {}", list.id)));
    world.delete_list(a, list.id, world.now).wait().unwrap().unwrap();
    assert_eq!(newest(&world).charged_for(), Some(ChargedFor::List(list.id)), "the entry outlives the list");
    world.check(a, (95, 0, 0, 5, 0));
    world.now += 100 * DAY;
    world.verify(a, "later@example.com", MailboxExists);
    world.let_chores_run();
    assert!(
        entries(&world).iter().all(|entry| entry.charged_for().is_none()),
        "the carried entry has no note"
    );
}

#[test]
fn a_list_keeps_where_its_addresses_are_beside_the_reason_of_a_pause() {
    let (mut world, a) = World::with_account("free");
    let found = FoundAddresses {
        column: "Mail 1".into(),
        column_number: 2,
        columns: 3,
        header: Some(true),
        sheet: "May".into(),
        sheet_number: 1,
        sheets: 2,
        read_at: START + 5,
        others: vec!["Mail 2".into(), "4".into()],
        cells_with_more: Noted { count: 3, first_row: 2 },
    };
    let alone = FoundAddresses { others: Vec::new(), header: None, ..found.clone() };
    let single = FoundAddresses { cells_with_more: Noted::default(), header: Some(false), ..found.clone() };
    let plain = FoundAddresses { read_at: START, ..FoundAddresses::default() };
    for (n, (found, why)) in [
        (None, ""),
        (None, "The check stopped."),
        (Some(found.clone()), ""),
        (Some(found), "The check stopped."),
        (Some(alone), ""),
        (Some(single), ""),
        (Some(plain), ""),
    ]
    .into_iter()
    .enumerate()
    {
        let list = list(&world, a, n as u128);
        world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
        let list = List { state: ListState::Paused, found, why: why.into(), ..list };
        assert_eq!(world.put_list(&list, ListState::Uploading, None, world.now).wait(), Ok(true));
        world.reopen();
        let read = read(&world, &list);
        assert_eq!((&read.why, &read.found, read.ended_at), (&list.why, &list.found, 0));
        // The time of the end is kept beside where the addresses are.
        world.cancel_list(a, list.id, world.now).wait().unwrap().unwrap();
        let ended_at = if list.found.is_some() { world.now } else { 0 };
        let read = self::read(&world, &list);
        assert_eq!((read.why, read.found, read.ended_at), (list.why, list.found, ended_at));
    }
}
