//! What is kept of a check: who finds it, and until when.

use crate::world::{DAY, START, World};
use api::Reason::{self, CatchAll, InboxFull, MailboxExists, MailboxNotFound, Unverifiable};
use frontend::store::*;

const ADDRESS: &str = "joe@example.com";

fn own(reason: Reason, checked_at: UnixMs) -> Known {
    Known::Own(StoredResult { reason, checked_at })
}

fn shared(reason: Reason, checked_at: UnixMs) -> Known {
    Known::Shared(StoredResult { reason, checked_at })
}

/// What is known at that time, after a stop too.
#[track_caller]
fn check(world: &mut World, account: AccountId, at: UnixMs, expected: Known) {
    world.now = at;
    assert_eq!(world.known(account, ADDRESS), expected, "{} ms after the start", at - START);
}

#[test]
fn every_reason_is_kept_for_its_time_to_the_millisecond() {
    for reason in Reason::ALL {
        let keep = if [CatchAll, Unverifiable, InboxFull].contains(&reason) { DAY } else { 7 * DAY };
        assert_eq!(retention(reason), keep);
        if ![CatchAll, Unverifiable, InboxFull, MailboxExists, MailboxNotFound].contains(&reason) {
            continue;
        }
        let mut world = World::new();
        let (a, b) = (world.account("a", "free"), world.account("b", "free"));
        check(&mut world, a, START, Known::Nothing);
        world.verify(a, ADDRESS, reason);
        for _ in 0..2 {
            check(&mut world, a, START, own(reason, START));
            check(&mut world, a, START + DAY - 1, own(reason, START));
            let later = if keep > DAY { shared(reason, START) } else { Known::Nothing };
            check(&mut world, a, START + DAY, later);
            check(&mut world, b, START, shared(reason, START));
            check(&mut world, b, START + keep - 1, shared(reason, START));
            check(&mut world, b, START + keep, Known::Nothing);
            check(&mut world, b, START + keep + 1, Known::Nothing);
            world.now = START;
            world.reopen();
        }
    }
}

#[test]
fn a_purge_takes_what_is_past_its_time_and_nothing_else() {
    let mut world = World::new();
    let a = world.account("a", "free");
    world.verify(a, "short@example.com", CatchAll);
    world.verify(a, "long@example.com", MailboxExists);
    world.now = START + DAY - 1;
    assert_eq!(world.purge().results, 0);
    world.now = START + DAY;
    assert_eq!(world.purge().results, 1);
    assert_eq!(world.known(a, "long@example.com"), shared(MailboxExists, START));
    world.now = START + 7 * DAY - 1;
    assert_eq!(world.purge().results, 0);
    world.now = START + 7 * DAY;
    assert_eq!(world.purge().results, 1);
    world.now += DAY;
    assert_eq!(world.purge().results, 0);
}

#[test]
fn a_new_check_takes_the_place_of_the_last() {
    let mut world = World::new();
    let a = world.account("a", "free");
    world.verify(a, ADDRESS, MailboxExists);
    world.now = START + 2 * DAY;
    world.verify(a, ADDRESS, CatchAll);
    assert_eq!(world.known(a, ADDRESS), own(CatchAll, START + 2 * DAY));
    assert_eq!(world.purge().results, 0);
    world.now = START + 3 * DAY;
    assert_eq!(world.known(a, ADDRESS), Known::Nothing);
    assert_eq!(world.purge().results, 1);
    world.now = START + 10 * DAY;
    assert_eq!(world.purge().results, 0, "the first check's expiry is forgotten");
}

#[test]
fn the_newest_verdict_is_shared() {
    let mut world = World::new();
    let accounts = ["a", "b", "c", "d"].map(|name| world.account(name, "free"));
    for (account, reason) in accounts.into_iter().zip([MailboxNotFound, MailboxExists, CatchAll]) {
        world.verify(account, ADDRESS, reason);
        world.now += 1000;
    }
    assert_eq!(world.known(accounts[3], ADDRESS), shared(CatchAll, START + 2000));
    assert_eq!(world.known(accounts[0], ADDRESS), own(MailboxNotFound, START), "its own comes first");
    // The newest is kept for a day only; then the next is the newest.
    world.now = START + 2 * DAY;
    assert_eq!(world.known(accounts[3], ADDRESS), shared(MailboxExists, START + 1000));
    assert_eq!(world.known(accounts[3], "other@example.com"), Known::Nothing);
}

#[test]
fn a_shared_verdict_costs_a_credit_and_lives_no_longer_for_it() {
    let mut world = World::new();
    let (a, b, c) = (world.account("a", "free"), world.account("b", "free"), world.account("c", "free"));
    world.verify(a, ADDRESS, MailboxExists);
    let late = START + 7 * DAY - 1000;
    world.now = late;
    assert_eq!(world.reuse(b, ADDRESS, MailboxExists).unwrap().available(), 99);
    world.check(b, (99, 0, 0, 1, 0));
    check(&mut world, b, late, own(MailboxExists, late));
    check(&mut world, c, late + 999, shared(MailboxExists, START));
    check(&mut world, c, late + 1000, Known::Nothing);
    world.purge();
    check(&mut world, b, late + DAY - 1, own(MailboxExists, late));
    check(&mut world, b, late + DAY, Known::Nothing);
    assert_eq!(world.purge().results, 1);
}

#[test]
fn a_shared_verdict_that_expired_meanwhile_answers_its_buyer_alone() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.reuse(a, ADDRESS, CatchAll).unwrap();
    check(&mut world, b, START, Known::Nothing);
    check(&mut world, a, START + DAY - 1, own(CatchAll, START));
    check(&mut world, a, START + DAY, Known::Nothing);
}

#[test]
fn a_shared_verdict_is_refused_like_any_charge() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.verify(a, ADDRESS, MailboxExists);
    world.hold(b, 100).unwrap();
    assert_eq!(world.reuse(b, ADDRESS, MailboxExists), Err(HoldError::Insufficient { available: 0 }));
    assert_eq!(world.known(b, ADDRESS), shared(MailboxExists, START), "nothing was recorded");
    let status = SubscriptionStatus::Paused;
    world.set_status(a, status);
    assert_eq!(world.reuse(a, ADDRESS, MailboxExists), Err(HoldError::Inactive { status, available: 99 }));
    let hold = HoldRef { account: b, id: world.entry_id() };
    world.grant(b, 5).unwrap();
    let record = ResultRecord { address: world.store().hash_address(ADDRESS), reason: MailboxExists };
    world.store().charge_known(hold, record, START).wait().unwrap();
    assert_eq!(world.store().charge_known(hold, record, START).wait(), Err(HoldError::Exists));
    world.check(b, (0, 4, 100, 1, 0));
}

#[test]
fn reuse_across_accounts_can_be_turned_off() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.verify(a, ADDRESS, MailboxExists);
    world.reuse = false;
    world.reopen();
    assert_eq!(world.known(b, ADDRESS), Known::Nothing);
    assert_eq!(world.known(a, ADDRESS), own(MailboxExists, START));
    check(&mut world, a, START + DAY, Known::Nothing);
}

#[test]
fn a_settlement_that_is_refused_records_nothing() {
    let mut world = World::new();
    let a = world.account("a", "free");
    let hold = world.hold(a, 1).unwrap();
    world.void(hold).unwrap();
    let record = ResultRecord { address: world.store().hash_address(ADDRESS), reason: MailboxExists };
    let refused = world.store().settle(hold, Settlement { result: Some(record) }, START).wait();
    assert_eq!(refused, Err(SettleError::AlreadyVoided));
    assert_eq!(world.known(a, ADDRESS), Known::Nothing);
}

#[test]
fn hashes_last_and_belong_to_one_store() {
    let mut world = World::new();
    let hash = world.store().hash_address(ADDRESS);
    assert_eq!(world.store().hash_address(ADDRESS), hash);
    assert_ne!(world.store().hash_address("jo@eexample.com"), hash);
    world.reopen();
    assert_eq!(world.store().hash_address(ADDRESS), hash);
    assert_ne!(World::new().store().hash_address(ADDRESS), hash, "another key");
    assert_eq!(format!("{hash:?}"), "AddressHash(..)");
}

#[test]
fn a_busy_store_purges_by_itself() {
    let mut world = World::new();
    let a = world.account("a", "scale");
    for n in 0..60 {
        world.verify(a, &format!("{n}@example.com"), MailboxExists);
    }
    world.now = START + 7 * DAY;
    for _ in 0..10 {
        let hold = world.hold(a, 1).unwrap();
        world.settle(hold).unwrap();
    }
    assert_eq!(world.purge().results, 0);
}

#[test]
fn a_clock_that_goes_back_makes_an_own_result_no_other() {
    let mut world = World::new();
    let a = world.account("a", "free");
    world.verify(a, ADDRESS, MailboxExists);
    check(&mut world, a, START - DAY, own(MailboxExists, START));
}
