//! The results of checks: the accounts that find them, and their expiry.

use crate::world::{DAY, START, World};
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
