//! The results of checks: their hashes and expiry. `scenarios.txt` has the rules of the accounts that find them.

use crate::world::{DAY, START, World};
use api::Reason::{self, CatchAll, InboxFull, MailboxExists, Unverifiable};
use store::*;

const ADDRESS: &str = "joe@example.com";

#[test]
fn three_reasons_are_kept_for_a_day_and_the_others_for_a_week() {
    for reason in Reason::ALL {
        let keep = if [CatchAll, Unverifiable, InboxFull].contains(&reason) { DAY } else { 7 * DAY };
        assert_eq!((retention(reason), is_shared(reason)), (keep, reason != Unverifiable));
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
