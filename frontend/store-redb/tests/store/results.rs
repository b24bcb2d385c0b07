//! The results of checks: the accounts that find them, and their expiry.

use crate::world::{DAY, OPERATOR, START, World};
use api::Reason::{self, CatchAll, InboxFull, MailboxExists, MailboxNotFound, Unverifiable};
use store::*;

const ADDRESS: &str = "joe@example.com";

fn own(reason: Reason, checked_at: UnixMs) -> Known {
    Known::Own(StoredResult { verdict: reason.into(), checked_at })
}

fn shared(reason: Reason, checked_at: UnixMs) -> Known {
    Known::Shared(StoredResult { verdict: reason.into(), checked_at })
}

/// Checks the known result at that time, also after a restart.
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
    let (mut world, a) = World::with_account("free");
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
    let (mut world, a) = World::with_account("free");
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
    // The newest verdict is kept for only a day; then the next one is the newest.
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
fn a_check_begins_by_what_is_known() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    assert!(matches!(world.begin(a, ADDRESS), Ok(Begun::Held(balance)) if balance.available() == 99));
    world.verify(a, ADDRESS, CatchAll);
    let known = StoredResult { verdict: CatchAll.into(), checked_at: START };
    assert_eq!(world.begin(a, ADDRESS), Ok(Begun::Own(known)));
    world.check(a, (98, 0, 1, 1, 0));
    world.now = START + DAY - 1;
    assert!(matches!(world.begin(b, ADDRESS), Ok(Begun::Charged(found, _)) if found == known));
    assert!(matches!(world.begin(b, ADDRESS), Ok(Begun::Own(found)) if found.checked_at == world.now));
    world.check(b, (99, 0, 0, 1, 0));
    world.now = START + DAY;
    assert!(matches!(world.begin(a, ADDRESS), Ok(Begun::Held(_))), "neither is its verdict any longer");
    let nobody = AccountId::new(START, 77);
    assert_eq!(world.begin(nobody, ADDRESS), Err(AttemptError::Hold(HoldError::UnknownAccount)));
}

#[test]
fn a_shared_verdict_is_refused_like_any_charge() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.verify(a, ADDRESS, MailboxExists);
    world.hold(b, 100).unwrap();
    assert_eq!(world.reuse(b, ADDRESS, MailboxExists), Err(HoldError::Insufficient { available: 0 }));
    assert_eq!(world.known(b, ADDRESS), shared(MailboxExists, START), "nothing was recorded");
    let (status, c) = (SubscriptionStatus::Paused, world.account("c", "free"));
    world.set_status(c, status);
    assert_eq!(world.reuse(c, ADDRESS, MailboxExists), Err(HoldError::Inactive { status, available: 100 }));
    let hold = world.hold(b, 1);
    assert_eq!(hold, Err(HoldError::Insufficient { available: 0 }));
    world.grant(b, 5).unwrap();
    let used = world.hold(b, 1).unwrap();
    let address = world.hash_address(ADDRESS);
    let again = NewCheck { hold: used, connection: None, address, fair_use: None, by: OPERATOR };
    let refused = world.begin_check(again, START).wait();
    assert_eq!(refused, Err(AttemptError::Hold(HoldError::Exists)));
    world.reuse(b, ADDRESS, MailboxExists).unwrap();
    world.check(b, (0, 3, 101, 1, 0));
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
    let (mut world, a) = World::with_account("free");
    let hold = world.hold(a, 1).unwrap();
    world.void(hold).unwrap();
    let record = ResultRecord { address: world.hash_address(ADDRESS), verdict: MailboxExists.into() };
    let refused = world.store().settle(hold, Settlement { result: Some(record) }, START).wait();
    assert_eq!(refused, Err(SettleError::AlreadyVoided));
    assert_eq!(world.known(a, ADDRESS), Known::Nothing);
}

#[test]
fn hashes_last_and_belong_to_one_store() {
    let mut world = World::new();
    let hash = world.hash_address(ADDRESS);
    assert_eq!(world.hash_address(ADDRESS), hash);
    assert_ne!(world.hash_address("jo@eexample.com"), hash);
    world.reopen();
    assert_eq!(world.hash_address(ADDRESS), hash);
    assert_ne!(World::new().store().hash_address(ADDRESS), hash, "another key");
    assert_eq!(format!("{hash:?}"), "AddressHash(..)");
}

#[test]
fn a_busy_store_purges_by_itself() {
    let (mut world, a) = World::with_account("scale");
    for n in 0..60 {
        world.verify(a, &format!("{n}@example.com"), MailboxExists);
    }
    world.now = START + 7 * DAY;
    for _ in 0..10 {
        let hold = world.hold(a, 1).unwrap();
        world.settle(hold).unwrap();
    }
    world.let_chores_run();
    assert_eq!(world.purge().results, 0);
}

#[test]
fn a_clock_that_goes_back_makes_an_own_result_no_other() {
    let (mut world, a) = World::with_account("free");
    world.verify(a, ADDRESS, MailboxExists);
    check(&mut world, a, START - DAY, own(MailboxExists, START));
}

/// Withdraws evidence at that time.
fn withdraw(world: &World, evidence: &[u64], at: UnixMs) {
    world.withdraw(evidence.to_vec(), at).wait().unwrap();
}

fn resting_on(reason: Reason, evidence: u64) -> Verdict {
    Verdict { evidence: Some(evidence), ..reason.into() }
}

/// The known reason, and whether it is the account's own.
fn known_reason(world: &World, account: AccountId) -> Option<(Reason, bool)> {
    match world.known(account, ADDRESS) {
        Known::Own(result) => Some((result.verdict.reason, true)),
        Known::Shared(result) => Some((result.verdict.reason, false)),
        Known::Nothing => None,
    }
}

#[test]
fn a_verdict_whose_evidence_was_withdrawn_is_used_no_more() {
    for reason in [MailboxExists, MailboxNotFound, CatchAll] {
        let mut world = World::new();
        let accounts = ["a", "b", "c"].map(|name| world.account(name, "free"));
        let [a, b, c] = accounts;
        world.verify(a, ADDRESS, resting_on(reason, 5));
        world.now = START + 10;
        world.reuse(b, ADDRESS, resting_on(reason, 5)).unwrap();
        let old = world.batch(a, &[ADDRESS]);
        withdraw(&world, &[4, 6], START + 20);
        assert_eq!(known_reason(&world, c), Some((reason, false)), "other evidence");
        withdraw(&world, &[5], START + 20);
        for _ in 0..2 {
            for account in accounts {
                assert_eq!(known_reason(&world, account), None, "{reason:?}");
            }
            let view = world.view(a, old).unwrap();
            assert_eq!(view.results.unwrap(), [(ADDRESS.to_owned(), reason)], "a batch says what it said");
            world.now = START + 20;
            world.reopen();
        }
        // A batch also asks again.
        let new = world.batch(a, &[ADDRESS]);
        assert!(!world.view(a, new).unwrap().completed);
        // A later verdict depends on the present behaviour of the host.
        world.now = START + 21;
        world.verify(a, ADDRESS, resting_on(Unverifiable, 5));
        assert_eq!(known_reason(&world, a), Some((Unverifiable, true)));
        assert_eq!(known_reason(&world, c), Some((Unverifiable, false)));
        assert_eq!(known_reason(&world, b), Some((Unverifiable, false)), "its own was withdrawn");
        world.check_sums();
    }
}

#[test]
fn what_was_found_up_to_the_moment_of_the_withdrawal_is_withdrawn() {
    for (found_at, stands) in [(START + 19, false), (START + 20, false), (START + 21, true)] {
        let mut world = World::new();
        let (a, b) = (world.account("a", "free"), world.account("b", "free"));
        withdraw(&world, &[5], START + 20);
        // A clock that goes back cancels no withdrawal.
        withdraw(&world, &[5], START + 3);
        world.now = found_at;
        world.verify(a, ADDRESS, resting_on(MailboxExists, 5));
        assert_eq!(known_reason(&world, a), stands.then_some((MailboxExists, true)), "{found_at}");
        assert_eq!(known_reason(&world, b), stands.then_some((MailboxExists, false)), "{found_at}");
    }
}

#[test]
fn a_verdict_that_rests_on_nobody_is_never_withdrawn() {
    let (mut world, a) = World::with_account("free");
    world.verify(a, ADDRESS, MailboxExists);
    withdraw(&world, &[0, 1, u64::MAX], START + 5);
    assert_eq!(known_reason(&world, a), Some((MailboxExists, true)));
}

#[test]
fn nothing_older_comes_back_for_a_verdict_that_was_withdrawn() {
    let mut world = World::new();
    let (a, b, c) = (world.account("a", "free"), world.account("b", "free"), world.account("c", "free"));
    world.verify(a, ADDRESS, resting_on(MailboxExists, 4));
    world.now = START + 1;
    world.verify(b, ADDRESS, resting_on(MailboxNotFound, 5));
    withdraw(&world, &[5], START + 2);
    assert_eq!(known_reason(&world, c), None);
    assert_eq!(known_reason(&world, a), Some((MailboxExists, true)), "its own rests on other evidence");
}

#[test]
fn a_verdict_that_is_withdrawn_before_it_is_bought_is_asked_for_again() {
    let mut world = World::new();
    let (a, b) = (world.account("a", "free"), world.account("b", "free"));
    world.verify(a, ADDRESS, resting_on(MailboxExists, 5));
    let Known::Shared(found) = world.known(b, ADDRESS) else { panic!("nothing is shared") };
    withdraw(&world, &[5], START);
    world.now = START + 1;
    assert!(matches!(world.begin(b, ADDRESS), Ok(Begun::Held(_))));
    world.check(b, (99, 0, 1, 0, 0));
    assert_eq!(found.verdict, resting_on(MailboxExists, 5));
    assert_eq!(known_reason(&world, b), None);
}

#[test]
fn withdrawals_are_forgotten_when_no_result_of_before_is_left() {
    let (mut world, a) = World::with_account("free");
    world.verify(a, ADDRESS, resting_on(MailboxExists, 5));
    withdraw(&world, &[5, 6], START);
    withdraw(&world, &[6], START + DAY);
    world.now = START + 7 * DAY - 1;
    let purged = world.purge();
    assert_eq!((purged.results, purged.withdrawn), (0, 0));
    world.now = START + 7 * DAY;
    let purged = world.purge();
    assert_eq!((purged.results, purged.withdrawn), (1, 1));
    world.now = START + 8 * DAY;
    assert_eq!(world.purge().withdrawn, 1);
}
