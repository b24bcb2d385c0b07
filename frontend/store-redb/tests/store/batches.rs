//! Batches: charged as a whole, answered row by row, settled once.

use crate::world::{OPERATOR, START, World};
use api::Reason::{CatchAll, MailboxExists, Unverifiable};
use store::RowOutcome::Verified;
use store::*;

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
                        store.answer_rows(vec![answer.clone(), answer], now).wait().unwrap();
                    }
                }
            });
        }
    });
    drop(store);
    world.check(a, (500_000 - 180, 0, 0, 180, 0));
    assert!(batches.iter().all(|batch| world.view(a, batch.id).unwrap().completed));
}

#[test]
fn one_of_many_requests_with_an_idempotency_key_makes_the_batch() {
    let (mut world, a) = World::with_account("free");
    let key = Idempotency { key: "k".into(), body: [1; 32] };
    let mut new = || NewBatch { idempotency: Some(key.clone()), ..world.new_batch(a, &ROWS[..2]) };
    let requests: Vec<_> = (0..20).map(|_| new()).collect();
    let pending: Vec<_> =
        requests.into_iter().map(|new| world.create_batch(new, OPERATOR, world.now)).collect();
    let made: Vec<_> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
    assert_eq!(made.iter().filter(|made| !made.replayed).count(), 1);
    assert!(made.iter().all(|one| one.batch == made[0].batch));
    assert_eq!(world.open_batches().wait().unwrap().len(), 1);
    world.check(a, (98, 0, 2, 0, 0));
}
