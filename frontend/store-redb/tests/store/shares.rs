//! What one account can take of the store.

use crate::world::{DAY, OPERATOR, START, World};
use api::Reason::{MailboxExists, Unverifiable};
use store::*;

const PART: u64 = LIST_PART_BYTES as u64;

/// A test batch with the most and the longest addresses. Its rows have 51,000 bytes.
fn long_batch(world: &mut World, account: AccountId) -> NewBatch {
    let addresses: Vec<String> = (0..BATCH_ROWS_MAX)
        .map(|n| {
            let local = format!("{n:0>64}");
            format!("{local}@{0}.{0}.{1}.com", "d".repeat(63), "d".repeat(56))
        })
        .collect();
    let texts: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let mode = BatchMode::Test(vec![MailboxExists; BATCH_ROWS_MAX]);
    NewBatch { mode, ..world.new_batch(account, &texts) }
}

/// A plan with room for 20 such batches.
fn world_with_small_share() -> World {
    let mut world = World::new();
    let plans =
        crate::world::plans().iter().map(|plan| Plan { stored_mib: 1, ..plan.clone() }).collect::<Vec<_>>();
    world.reopen_with(PlanTable::new(plans).unwrap()).unwrap();
    world
}

#[test]
fn batches_without_a_charge_fill_their_share_and_no_more() {
    let mut world = world_with_small_share();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let fill = |world: &mut World, account| {
        let mut count = 0;
        loop {
            let new = long_batch(world, account);
            match world.create(new) {
                Ok(_) => count += 1,
                Err(error) => return (count, error),
            }
            assert!(count < 100, "there is no end");
        }
    };
    let (count, error) = fill(&mut world, a);
    assert!((18..=20).contains(&count), "{count}");
    let BatchError::Store(StoreError::OverQuota(why)) = &error else { panic!("{error:?}") };
    assert!(why.contains("1 MiB") && why.contains("share"), "{why}");
    // Batches with a price have room of their own, and so have other accounts.
    world.batch(a, &["a@example.com"]);
    let new = long_batch(&mut world, b);
    world.create(new).unwrap();
    // Nothing that a restart forgets, and free again when the batches are gone.
    world.reopen_with(world_plans()).unwrap();
    let new = long_batch(&mut world, a);
    assert_eq!(world.create(new).err(), Some(error.clone()));
    world.now = START + BATCH_KEEP_MS + DAY;
    world.purge();
    let (again, _) = fill(&mut world, a);
    assert_eq!(again, count);
    world.check_sums();
}

fn world_plans() -> PlanTable {
    let small =
        crate::world::plans().iter().map(|plan| Plan { stored_mib: 1, ..plan.clone() }).collect::<Vec<_>>();
    PlanTable::new(small).unwrap()
}

#[test]
fn a_replay_is_answered_by_a_full_account_too() {
    let mut world = world_with_small_share();
    let a = world.account("a", "free");
    let key = Idempotency { key: "k".into(), body: [1; 32] };
    let first = NewBatch { idempotency: Some(key), ..long_batch(&mut world, a) };
    let made = world.create(first.clone()).unwrap();
    while let new = long_batch(&mut world, a)
        && world.create(new).is_ok()
    {}
    assert_eq!(world.create(first), Ok(BatchCreated { replayed: true, ..made }));
}

fn announced(world: &World, account: AccountId, n: u128, bytes: u64) -> List {
    let id = ListId::new(world.now, n);
    List { is_resumable: true, bytes, ..List::new(id, account, world.now, "x.csv".into()) }
}

#[test]
fn what_uploads_announce_keeps_nobody_out() {
    let mut world = World::new();
    let room = ListRoom { account: 200 << 20, all: 4 << 30 };
    for number in 0..21 {
        let account = world.account(&format!("taker {number}"), "free");
        for n in 0..2 {
            let list = announced(&world, account, number * 2 + n, 100 << 20);
            let made = world.create_list(&list, room, None, world.now).wait();
            assert_eq!(made, Ok(ListMade::Made), "{number} {n}");
        }
    }
    let victim = world.account("victim", "free");
    let list = announced(&world, victim, 999, 100 << 20);
    assert_eq!(world.create_list(&list, room, None, world.now).wait(), Ok(ListMade::Made));
}

#[test]
fn what_arrives_is_counted_and_leaves_room_for_others() {
    let mut world = World::new();
    let room = ListRoom { account: 200 << 20, all: 32 << 20 };
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let upload = |world: &World, account, n| -> (u64, Option<PartPut>) {
        let list = announced(world, account, n, 100 << 20);
        if world.create_list(&list, room, None, world.now).wait() != Ok(ListMade::Made) {
            return (0, None);
        }
        let plain = vec![b'x'; LIST_PART_BYTES];
        for number in 0.. {
            let (from, to) = (u64::from(number) * PART, u64::from(number + 1) * PART);
            let part = NewPart { number, from, to, plain: &plain, by: OPERATOR };
            match world.put_list_part(&list, part, room, world.now).wait().unwrap() {
                PartPut::Stored => {}
                other => return (from, Some(other)),
            }
        }
        unreachable!()
    };
    let (of_a, end) = upload(&world, a, 1);
    assert_eq!(end, Some(PartPut::StoreFull));
    assert!((2 << 20..=4 << 20).contains(&of_a), "an eighth of the room: {of_a}");
    let (of_b, end) = upload(&world, b, 2);
    assert!(of_b > 0 && end == Some(PartPut::StoreFull), "{of_b} {end:?}");
}

#[test]
fn the_lists_at_work_are_known_whatever_happens_to_them() {
    let mut world = World::new();
    let accounts = [world.account("a", "free"), world.account("b", "free")];
    let mut at_work = Vec::new();
    for (n, account) in (0..12).zip(accounts.iter().cycle()) {
        let list = announced(&world, *account, n, 10);
        world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
        let state = match n % 3 {
            0 => ListState::Reading,
            1 => ListState::Running,
            _ => continue,
        };
        let list = List { state, ..list };
        assert_eq!(world.put_list(&list, ListState::Uploading, None, world.now).wait(), Ok(true));
        at_work.push(list);
    }
    let check = |world: &World, expected: &[List]| {
        let mut found = world.lists_at_work(world.now).wait().unwrap();
        found.sort_by_key(|list| list.id);
        assert_eq!(found.iter().map(|list| list.id).collect::<Vec<_>>(), {
            let mut ids: Vec<_> = expected.iter().map(|list| list.id).collect();
            ids.sort();
            ids
        });
    };
    check(&world, &at_work);
    world.reopen();
    check(&world, &at_work);
    let ended = List { state: ListState::Completed, ..at_work.remove(1) };
    assert_eq!(world.put_list(&ended, ListState::Running, None, world.now).wait(), Ok(true));
    let deleted = at_work.remove(0);
    world.delete_list(deleted.account, deleted.id, world.now).wait().unwrap();
    let cancelled = at_work.remove(0);
    world.cancel_list(cancelled.account, cancelled.id, world.now).wait().unwrap();
    check(&world, &at_work);
    world.now = START + LIST_KEEP_MS;
    check(&world, &[]);
    world.purge();
    check(&world, &[]);
}

#[test]
fn a_batch_of_a_list_goes_when_the_list_has_its_answers() {
    let mut world = World::new();
    let a = world.account("a", "free");
    let list = announced(&world, a, 1, 10);
    world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
    let list = List { state: ListState::Running, rows: 4, addresses: 4, distinct: 4, ..list };
    world.put_list(&list, ListState::Uploading, None, world.now).wait().unwrap();
    let batches = [0, 1].map(|number| world.batch_of_list(&list, number));
    let mut list = list;
    for id in batches {
        let new = NewBatch { id, ..world.new_batch(a, &["a@example.com", "b@example.com"]) };
        list.submitted += BATCH_ROWS_MAX as u64;
        world.submit_batch_of_list(&list, new, world.now).wait().unwrap();
    }
    let answers = [0, 1].map(|index| (index, RowOutcome::Verified(MailboxExists.into())));
    world.answer(batches[0], &answers);
    assert!(world.view(a, batches[0]).is_some());
    list.done = 1;
    let put = world.put_list(&list, ListState::Running, Some(&[MailboxExists; 2]), world.now);
    assert_eq!(put.wait(), Ok(true));
    assert_eq!(world.view(a, batches[0]), None);
    assert_eq!(world.list_answers(&list, 0).wait(), Ok(Some(vec![Some(MailboxExists); 2])));
    world.answer(batches[1], &answers);
    world.cancel_list(a, list.id, world.now).wait().unwrap();
    assert_eq!(world.view(a, batches[1]), None);
    world.now += BATCH_KEEP_MS + DAY;
    world.purge();
    world.check_sums();
}

#[test]
fn the_answers_of_a_batch_are_taken_once() {
    let mut world = World::new();
    let a = world.account("a", "free");
    let list = announced(&world, a, 1, 10);
    world.create_list(&list, ListRoom::MOST, None, world.now).wait().unwrap();
    let mut list = List { state: ListState::Running, rows: 2, addresses: 2, distinct: 2, ..list };
    world.put_list(&list, ListState::Uploading, None, world.now).wait().unwrap();
    let id = world.batch_of_list(&list, 0);
    let new = NewBatch { id, ..world.new_batch(a, &["a@example.com", "b@example.com"]) };
    list.submitted = 2;
    world.submit_batch_of_list(&list, new, world.now).wait().unwrap();
    world.answer(id, &[0, 1].map(|index| (index, RowOutcome::Verified(MailboxExists.into()))));
    list.done = 1;
    let put = |reason| world.put_list(&list, ListState::Running, Some(&[reason; 2]), world.now).wait();
    assert_eq!(put(MailboxExists), Ok(true));
    // A worker of before finds no batch any more, and would take it for one that has expired.
    assert_eq!(put(Unverifiable), Ok(false));
    assert_eq!(world.list_answers(&list, 0).wait(), Ok(Some(vec![Some(MailboxExists); 2])));
}

#[test]
fn batches_that_are_cancelled_fill_the_share_too() {
    let mut world = world_with_small_share();
    let a = world.account("a", "growth");
    let mut count = 0;
    let error = loop {
        let new = NewBatch { mode: BatchMode::Live, ..long_batch(&mut world, a) };
        let id = new.id;
        match world.create(new) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        world.cancel_batch(a, id, world.now).wait().unwrap().unwrap();
        assert!(count < 100, "there is no end");
    };
    assert!((36..=42).contains(&count), "twice the share: {count}");
    assert!(matches!(error, BatchError::Store(StoreError::OverQuota(_))), "{error:?}");
}
