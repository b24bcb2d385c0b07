//! Batches: charged as a whole, answered row by row, settled once.

use crate::world::{DAY, OPERATOR, START, World};
use api::Reason::{CatchAll, Disposable, MailboxExists, MailboxNotFound, RoleAccount, Unverifiable};
use store::RowOutcome::{Repeated, Reused, Unanswered, Verified};
use store::*;

/// 2027-02-28T09:00:00Z: the end of the first period.
const FEBRUARY: UnixMs = START + 28 * DAY;
const ROWS: [&str; 3] = ["One@example.com", "two@example.com", "three@example.net"];

#[test]
fn a_batch_is_held_whole_and_settled_when_its_last_row_is_answered() {
    let (mut world, a) = World::with_account("free");
    let mut new = world.new_batch(a, &ROWS);
    let id = new.id;
    new.name = Some("spring".into());
    let made = BatchCreated {
        batch: id,
        submitted: 3,
        completed: false,
        credits_remaining: Some(97),
        replayed: false,
    };
    assert_eq!(world.create(new), Ok(made));
    world.check(a, (97, 0, 3, 0, 0));
    let open = OpenBatch { batch: id, account: a, created_at: START, total: 3, answered: 0 };
    assert_eq!(world.open_batches().wait(), Ok(vec![open]));

    world.now += 5;
    assert_eq!(world.answer(id, &[(1, Verified(MailboxExists.into()))]), []);
    let view = world.view(a, id).unwrap();
    assert_eq!((view.completed, view.total, view.checked, view.results), (false, 3, 1, None));
    let rows = world.unanswered(id).wait().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.index, row.email.as_str())).collect();
    assert_eq!(rows, [(0, ROWS[0]), (2, ROWS[2])]);
    assert_eq!(world.open_batches().wait(), Ok(vec![OpenBatch { answered: 1, ..open }]));
    world.check(a, (97, 0, 3, 0, 0));

    assert_eq!(world.answer(id, &[(2, Verified(CatchAll.into())), (0, Verified(Unverifiable.into()))]), [id]);
    world.check(a, (97, 0, 0, 3, 0));
    let view = world.view(a, id).unwrap();
    assert_eq!(
        (view.completed, view.total, view.checked, view.name.as_deref()),
        (true, 3, 3, Some("spring"))
    );
    let results = [(ROWS[0], Unverifiable), (ROWS[1], MailboxExists), (ROWS[2], CatchAll)];
    assert_eq!(view.results.unwrap(), results.map(|(email, reason)| (email.to_owned(), reason)));
    assert_eq!(world.open_batches().wait(), Ok(vec![]));
    assert_eq!(world.unanswered(id).wait().unwrap().len(), 0);
}

#[test]
fn a_batch_is_its_accounts_alone() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let id = world.batch(a, &ROWS);
    assert!(world.view(a, id).is_some());
    assert_eq!(world.view(b, id), None);
    let unknown = BatchId::new(START, world.random());
    assert_eq!(world.view(a, unknown), None);
    assert_eq!(world.unanswered(unknown).wait().unwrap().len(), 0);
    assert_eq!(world.answer(unknown, &[(0, Verified(MailboxExists.into()))]), []);
}

#[test]
fn a_batch_survives_a_stop_with_its_hold_and_answers() {
    let (mut world, a) = World::with_account("free");
    let id = world.batch(a, &ROWS);
    world.hold(a, 2).unwrap();
    world.answer(id, &[(0, Verified(Disposable.into()))]);
    assert_eq!(world.reopen(), 1, "the single check's");
    world.check(a, (97, 0, 3, 0, 0));
    assert_eq!(world.audit(None).wait().unwrap().open_holds, 1);
    let left: Vec<_> = world.unanswered(id).wait().unwrap().iter().map(|row| row.index).collect();
    assert_eq!(left, [1, 2]);
    assert_eq!(
        world.answer(id, &[(1, Verified(MailboxExists.into())), (2, Verified(MailboxExists.into()))]),
        [id]
    );
    world.reopen();
    let reasons = world.view(a, id).unwrap().results.unwrap().into_iter().map(|(_, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [Disposable, MailboxExists, MailboxExists]);
    world.check(a, (97, 0, 0, 3, 0));
}

#[test]
fn a_row_is_answered_once() {
    let (mut world, a) = World::with_account("free");
    let id = world.batch(a, &ROWS);
    world.answer(id, &[(0, Verified(MailboxExists.into())), (0, Verified(MailboxNotFound.into()))]);
    assert_eq!(
        world.answer(
            id,
            &[(0, Unanswered(None)), (3, Verified(CatchAll.into())), (u32::MAX, Unanswered(None))]
        ),
        []
    );
    assert_eq!(world.view(a, id).unwrap().checked, 1);
    assert!(
        matches!(world.known(a, "one@example.com"), Known::Own(own) if own.verdict.reason == MailboxExists)
    );
    assert_eq!(world.answer(id, &[(1, Verified(RoleAccount.into())), (2, Unanswered(None))]), [id]);
    // It is not completed a second time, and nothing is charged or returned again.
    assert_eq!(world.answer(id, &[(1, Unanswered(None)), (2, Verified(CatchAll.into()))]), []);
    let reasons = world.view(a, id).unwrap().results.unwrap().into_iter().map(|(_, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [MailboxExists, RoleAccount, Unverifiable]);
    assert_eq!(world.known(a, ROWS[2]), Known::Nothing);
    world.check(a, (98, 0, 0, 2, 0));
}

#[test]
fn answers_of_several_batches_come_together() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    let (first, second) = (world.batch(a, &ROWS[..1]), world.batch(b, &ROWS));
    let third = world.batch(a, &ROWS[2..]);
    let answer = |batch, index| RowAnswer { batch, index, outcome: Verified(MailboxExists.into()) };
    let answers = vec![answer(third, 0), answer(second, 2), answer(first, 0)];
    let mut complete = world.answer_rows(answers, START).wait().unwrap();
    complete.sort();
    assert_eq!(complete, [first, third]);
    world.check(a, (98, 0, 0, 2, 0));
    world.check(b, (97, 0, 3, 0, 0));
}

#[test]
fn rows_are_repeats_of_each_other_and_of_single_checks() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.verify(a, "two@example.com", RoleAccount);
    world.now += DAY - 1;
    let id = world.batch(a, &ROWS);
    assert_eq!(world.view(a, id).unwrap().checked, 1);
    let left: Vec<_> = world.unanswered(id).wait().unwrap().iter().map(|row| row.index).collect();
    assert_eq!(left, [0, 2]);
    world.check(a, (96, 0, 3, 1, 0));
    let at = world.now;
    world.answer(id, &[(0, Verified(MailboxExists.into())), (2, Repeated(CatchAll.into()))]);
    let stored = StoredResult { verdict: MailboxExists.into(), checked_at: at };
    assert_eq!(world.known(a, "one@example.com"), Known::Own(stored));
    assert_eq!(world.known(b, "one@example.com"), Known::Shared(stored));
    assert_eq!(world.known(a, ROWS[2]), Known::Nothing, "a repeat is no check of its own");
    // A day after the single check it is no longer a repeat, although a batch has used it.
    world.now = START + DAY;
    let own = matches!(world.known(a, "two@example.com"), Known::Own(_));
    assert!(!own);
}

#[test]
fn a_batch_of_repeats_is_complete_at_once_and_charged() {
    let (mut world, a) = World::with_account("free");
    world.verify(a, "one@example.com", RoleAccount);
    world.verify(a, "two@example.com", MailboxNotFound);
    let new = world.new_batch(a, &[ROWS[0], ROWS[1], ROWS[0]]);
    let id = new.id;
    let made = world.create(new).unwrap();
    assert_eq!((made.completed, made.credits_remaining), (true, Some(95)));
    world.check(a, (95, 0, 0, 5, 0));
    let view = world.view(a, id).unwrap();
    assert_eq!((view.completed, view.checked), (true, 3));
    let reasons = view.results.unwrap().into_iter().map(|(_, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [RoleAccount, MailboxNotFound, RoleAccount]);
    assert_eq!(world.open_batches().wait(), Ok(vec![]));
}

#[test]
fn a_reused_verdict_of_a_row_lives_no_longer_for_it() {
    let mut world = World::new();
    let (a, b, c) = (world.account("a", "free"), world.account("b", "free"), world.account("c", "free"));
    world.verify(a, "two@example.com", MailboxExists);
    world.now = START + 6 * DAY;
    let id = world.batch(b, &ROWS[1..2]);
    assert_eq!(world.view(b, id).unwrap().checked, 0, "only own results answer at once");
    assert_eq!(world.answer(id, &[(0, Reused(MailboxExists.into()))]), [id]);
    let own = StoredResult { verdict: MailboxExists.into(), checked_at: START + 6 * DAY };
    assert_eq!(world.known(b, "two@example.com"), Known::Own(own));
    world.now = START + 7 * DAY - 1;
    let verdict = StoredResult { verdict: MailboxExists.into(), checked_at: START };
    assert_eq!(world.known(c, "two@example.com"), Known::Shared(verdict));
    world.now = START + 7 * DAY;
    assert_eq!(world.known(c, "two@example.com"), Known::Nothing);
}

#[test]
fn unanswered_rows_are_refunded_pack_credits_first() {
    let (mut world, a) = World::with_account("free");
    world.hold(a, 98).unwrap();
    world.grant(a, 10).unwrap();
    let id = world.batch(a, &[ROWS[0], ROWS[1], ROWS[2], "four@example.com"]);
    world.check(a, (0, 8, 102, 0, 0));
    let answers = [
        (0, Unanswered(None)),
        (1, Unanswered(None)),
        (2, Unanswered(None)),
        (3, Verified(MailboxExists.into())),
    ];
    assert_eq!(world.answer(id, &answers), [id]);
    // Two pack credits and one plan credit are returned; one plan credit is spent.
    world.check(a, (1, 10, 98, 1, 0));
    let entry = &world.entries(a, 1).wait().unwrap()[0];
    assert_eq!((entry.kind, entry.spent, entry.expired), (EntryKind::Settled, 1, 0));
    let all_back = world.batch(a, &ROWS[..1]);
    world.answer(all_back, &[(0, Unanswered(None))]);
    world.check(a, (1, 10, 98, 1, 0));
    assert_eq!(world.entries(a, 1).wait().unwrap()[0].kind, EntryKind::Voided);
}

#[test]
fn a_refund_into_an_ended_period_is_lost_with_it() {
    let (mut world, a) = World::with_account("free");
    world.now = FEBRUARY - 1;
    world.hold(a, 98).unwrap();
    world.grant(a, 1).unwrap();
    let id = world.batch(a, &ROWS);
    world.check(a, (0, 0, 101, 0, 0));
    world.now = FEBRUARY;
    assert_eq!(
        world.answer(id, &[(0, Unanswered(None)), (1, Unanswered(None)), (2, Verified(CatchAll.into()))]),
        [id]
    );
    // The pack credit is returned; the plan credit belongs to January and expires.
    world.check(a, (100, 1, 98, 1, 1));
}

#[test]
fn a_batch_is_refused_as_a_hold_is_and_nothing_of_it_stays() {
    let (mut world, a) = World::with_account("free");
    world.hold(a, 98).unwrap();
    let new = world.new_batch(a, &ROWS);
    let id = new.id;
    let refused = Err(BatchError::Hold(HoldError::Insufficient { available: 2 }));
    assert_eq!(world.create(new), refused);
    assert_eq!((world.view(a, id), world.open_batches().wait()), (None, Ok(vec![])));
    let status = SubscriptionStatus::Canceled;
    world.set_status(a, status);
    let new = world.new_batch(a, &ROWS);
    let inactive = HoldError::Inactive { status, available: 2 };
    assert_eq!(world.create(new), Err(BatchError::Hold(inactive)));
    world.set_status(a, SubscriptionStatus::Active);

    let nobody = AccountId::new(START, world.random());
    let new = world.new_batch(nobody, &ROWS);
    assert_eq!(world.create(new.clone()), Err(BatchError::Hold(HoldError::UnknownAccount)));
    let test = NewBatch { mode: BatchMode::Test(vec![MailboxExists; 3]), ..new };
    assert_eq!(world.create(test), Err(BatchError::Hold(HoldError::UnknownAccount)));
    for mode in [BatchMode::Test(vec![MailboxExists; 2]), BatchMode::Test(vec![])] {
        let new = NewBatch { mode, ..world.new_batch(a, &ROWS) };
        assert_eq!(world.create(new), Err(BatchError::Hold(HoldError::BadAmount)));
    }
    for count in [0, BATCH_ROWS_MAX + 1] {
        let new = world.new_batch(a, &vec![ROWS[0]; count]);
        assert_eq!(world.create(new), Err(BatchError::Hold(HoldError::BadAmount)));
    }
    let old = NewBatch { id: BatchId::new(START - 32 * DAY, 1), ..world.new_batch(a, &ROWS[..1]) };
    assert_eq!(world.create(old), Err(BatchError::Hold(HoldError::TooOld)));
    world.check(a, (2, 0, 98, 0, 0));
}

#[test]
fn a_batch_id_is_used_once_even_after_the_batch_is_gone() {
    let (mut world, a) = World::with_account("free");
    let new = world.new_batch(a, &ROWS[..1]);
    let again = |world: &World| world.create(new.clone());
    let id = again(&world).unwrap().batch;
    let exists = Err(BatchError::Hold(HoldError::Exists));
    assert_eq!(again(&world), exists);
    world.answer(id, &[(0, Verified(CatchAll.into()))]);
    assert_eq!(again(&world), exists);
    world.now = START + 8 * DAY;
    assert_eq!(world.purge().batches, 1);
    assert_eq!(again(&world), exists);
    world.check(a, (99, 0, 0, 1, 0));
}

#[test]
fn a_test_batch_is_complete_at_once_and_free() {
    let (mut world, a) = World::with_account("free");
    world.hold(a, 100).unwrap();
    let reasons = vec![MailboxExists, CatchAll, Unverifiable];
    let new = NewBatch { mode: BatchMode::Test(reasons.clone()), ..world.new_batch(a, &ROWS) };
    let id = new.id;
    let made =
        BatchCreated { batch: id, submitted: 3, completed: true, credits_remaining: None, replayed: false };
    assert_eq!(world.create(new.clone()), Ok(made));
    assert_eq!(world.create(new), Err(BatchError::Hold(HoldError::Exists)));
    let found = world.view(a, id).unwrap().results.unwrap().into_iter().map(|(_, reason)| reason);
    assert_eq!(found.collect::<Vec<_>>(), reasons);
    assert_eq!(world.known(a, "one@example.com"), Known::Nothing, "test keys never cache");
    world.check(a, (0, 0, 100, 0, 0));
}

#[test]
fn a_batch_is_readable_for_seven_days_from_its_completion() {
    for test in [false, true] {
        let mut world = World::new();
        let a = world.account("a", "free");
        let mode = if test { BatchMode::Test(vec![MailboxExists]) } else { BatchMode::Live };
        let new = NewBatch { mode, ..world.new_batch(a, &ROWS[..1]) };
        let id = world.create(new).unwrap().batch;
        let completed = if test { START } else { START + 3 * DAY + 1 };
        world.now = completed;
        world.answer(id, &[(0, Verified(CatchAll.into()))]);
        world.now = completed + 7 * DAY - 1;
        assert_eq!(world.purge().batches, 0);
        assert!(world.view(a, id).unwrap().results.is_some(), "one step before");
        world.reopen();
        assert!(world.view(a, id).unwrap().results.is_some());
        world.now = completed + 7 * DAY;
        assert_eq!(world.view(a, id), None, "before any purge");
        assert_eq!(world.purge().batches, 1);
        world.now = completed;
        assert_eq!(world.view(a, id), None, "it is gone, not hidden");
    }
}

#[test]
fn a_batch_that_stays_unfinished_is_given_up_and_refunded() {
    let (mut world, a) = World::with_account("free");
    let id = world.batch(a, &ROWS);
    world.now = START + DAY;
    world.answer(id, &[(1, Verified(MailboxExists.into()))]);
    world.now = START + BATCH_OPEN_MS - 1;
    assert_eq!(world.purge().ended, 0);
    world.check(a, (97, 0, 3, 0, 0));
    world.now = START + BATCH_OPEN_MS;
    assert_eq!(world.purge().ended, 1);
    world.check(a, (99, 0, 0, 1, 0));
    assert_eq!(world.open_batches().wait(), Ok(vec![]));
    let reasons = world.view(a, id).unwrap().results.unwrap().into_iter().map(|(_, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [Unverifiable, MailboxExists, Unverifiable]);
    assert_eq!(world.purge().ended, 0);
    world.now = START + BATCH_OPEN_MS + BATCH_KEEP_MS;
    assert_eq!((world.view(a, id), world.purge().batches), (None, 1));
}

#[test]
fn a_batch_that_a_long_stop_left_unfinished_is_given_up_after_it() {
    let (mut world, a) = World::with_account("free");
    let id = world.batch(a, &ROWS);
    world.answer(id, &[(1, Verified(MailboxExists.into())), (2, Unanswered(None))]);
    world.now = START + 27 * DAY;
    world.reopen();
    world.check(a, (97, 0, 3, 0, 0));
    assert_eq!(world.purge().ended, 1);
    world.check(a, (99, 0, 0, 1, 0));
    assert!(world.view(a, id).unwrap().completed);
    assert_eq!(world.answer(id, &[(0, Verified(CatchAll.into()))]), []);
    world.check(a, (99, 0, 0, 1, 0));
}

#[test]
fn batches_of_many_threads_are_charged_once_each() {
    let (mut world, a) = World::with_account("scale");
    let batches: Vec<_> = (0..60).map(|_| world.new_batch(a, &ROWS)).collect();
    let (store, now) = (world.shared(), world.now);
    std::thread::scope(|scope| {
        for batches in batches.chunks(15) {
            let store = &store;
            scope.spawn(move || {
                for new in batches {
                    let id = store.create_batch(new.clone(), OPERATOR, now).wait().unwrap().batch;
                    let rows = store.unanswered(id).wait().unwrap();
                    for row in rows {
                        let outcome = Verified(MailboxExists.into());
                        let answer = RowAnswer { batch: id, index: row.index, outcome };
                        store.answer_rows(vec![answer, answer], now).wait().unwrap();
                    }
                }
            });
        }
    });
    drop(store);
    world.check(a, (500_000 - 180, 0, 0, 180, 0));
    assert!(batches.iter().all(|batch| world.view(a, batch.id).unwrap().completed));
}
