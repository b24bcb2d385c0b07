//! An idempotency key creates at most one batch.

use crate::world::{DAY, OPERATOR, START, World};
use api::Reason::{CatchAll, MailboxExists};
use store::*;

const ROWS: [&str; 2] = ["one@example.com", "two@example.com"];

fn keyed(world: &mut World, account: AccountId, key: &str, body: u8) -> NewBatch {
    let idempotency = Some(Idempotency { key: key.into(), body: [body; 32] });
    NewBatch { idempotency, ..world.new_batch(account, &ROWS) }
}

fn create(world: &mut World, account: AccountId, key: &str, body: u8) -> Result<BatchCreated, BatchError> {
    let new = keyed(world, account, key, body);
    world.create(new)
}

#[test]
fn a_key_that_comes_again_is_answered_as_the_first_time() {
    let (mut world, a) = World::with_account("free");
    let first = create(&mut world, a, "k", 1).unwrap();
    assert_eq!((first.replayed, first.credits_remaining), (false, Some(98)));
    let again = Ok(BatchCreated { replayed: true, ..first });
    assert_eq!(create(&mut world, a, "k", 1), again);
    // Changes of the balance, the batch, the status and the process do not matter.
    let outcome = RowOutcome::Verified(CatchAll.into());
    assert_eq!(world.answer(first.batch, &[(0, outcome), (1, outcome)]), [first.batch]);
    world.hold(a, 98).unwrap();
    assert_eq!(create(&mut world, a, "k", 1), again, "before the credits are looked at");
    world.set_status(a, SubscriptionStatus::Paused);
    world.now = START + DAY - 1;
    world.reopen();
    assert_eq!(create(&mut world, a, "k", 1), again);
    assert_eq!(world.audit(None).wait().unwrap().faults, Vec::<String>::new());
    assert_eq!(world.read(a).balance.spent, 2);
}

#[test]
fn a_key_is_free_again_after_a_day() {
    for purge in [false, true] {
        let mut world = World::new();
        let a = world.account("a", "free");
        let first = create(&mut world, a, "k", 1).unwrap();
        world.now = START + DAY - 1;
        assert_eq!(world.purge().idempotency_keys, 0);
        assert_eq!(create(&mut world, a, "k", 2), Err(BatchError::KeyReused));
        world.now = START + DAY;
        if purge {
            assert_eq!(world.purge().idempotency_keys, 1);
        }
        let second = create(&mut world, a, "k", 2).unwrap();
        assert!(!second.replayed && second.batch != first.batch);
        world.check(a, (96, 0, 4, 0, 0));
        world.now = START + 2 * DAY - 1;
        assert!(create(&mut world, a, "k", 2).unwrap().replayed);
        assert_eq!(world.purge().idempotency_keys, 0, "the first one's expiry is forgotten");
    }
}

#[test]
fn a_key_with_another_request_is_refused() {
    let (mut world, a) = World::with_account("free");
    let first = create(&mut world, a, "k", 1).unwrap();
    assert_eq!(create(&mut world, a, "k", 2), Err(BatchError::KeyReused));
    world.hold(a, 98).unwrap();
    assert_eq!(create(&mut world, a, "k", 2), Err(BatchError::KeyReused), "before the credits");
    assert!(create(&mut world, a, "k", 1).unwrap() == BatchCreated { replayed: true, ..first });
    world.check(a, (0, 0, 100, 0, 0));
}

#[test]
fn a_key_counts_within_its_account_and_mode() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    create(&mut world, a, "k", 1).unwrap();
    assert!(!create(&mut world, b, "k", 2).unwrap().replayed);
    assert!(!create(&mut world, a, "K", 2).unwrap().replayed);
    let mode = BatchMode::Test(vec![MailboxExists; 2]);
    let test = NewBatch { mode, ..keyed(&mut world, a, "k", 3) };
    let made = world.create(test.clone()).unwrap();
    assert!(!made.replayed && made.completed);
    let again = NewBatch { id: world.new_batch(a, &ROWS).id, ..test };
    assert_eq!(world.create(again), Ok(BatchCreated { replayed: true, ..made }));
    world.check(a, (96, 0, 4, 0, 0));
}

#[test]
fn only_what_was_made_is_remembered() {
    let (mut world, a) = World::with_account("free");
    let hold = world.hold(a, 99).unwrap();
    let refused = Err(BatchError::Hold(HoldError::Insufficient { available: 1 }));
    assert_eq!(create(&mut world, a, "k", 1), refused);
    world.void(hold).unwrap();
    assert!(!create(&mut world, a, "k", 2).unwrap().replayed);
}

#[test]
fn one_of_many_at_once_makes_the_batch() {
    let (mut world, a) = World::with_account("free");
    let requests: Vec<_> = (0..20).map(|_| keyed(&mut world, a, "k", 1)).collect();
    let pending: Vec<_> =
        requests.into_iter().map(|new| world.create_batch(new, OPERATOR, world.now)).collect();
    let made: Vec<_> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
    assert_eq!(made.iter().filter(|made| !made.replayed).count(), 1);
    assert!(made.iter().all(|one| one.batch == made[0].batch));
    assert_eq!(world.open_batches().wait().unwrap().len(), 1);
    world.check(a, (98, 0, 2, 0, 0));
}
