//! The results of checks: their hashes and expiry. `scenarios.txt` has the rules of the accounts that find them.

use crate::world::{DAY, START, World, basis};
use api::Reason::{self, CatchAll, InboxFull, MailboxExists, Unverifiable};
use std::sync::Arc;
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
fn a_basis_is_kept_and_told_to_others_without_its_time() {
    let full = Arc::unwrap_or_clone(basis().unwrap());
    let of_dns = Basis { host: None, reply: None, ..full.clone() };
    let code = Some(BasisReply { status: None, ..full.reply.unwrap() });
    let long = Basis { rule: "r".repeat(64).into(), host: Some("h".repeat(253)), ..full.clone() };
    for (basis, kept) in [
        (of_dns, true),
        (Basis { reply: None, ..full.clone() }, true),
        (Basis { reply: code, ..full.clone() }, true),
        (Basis { host: Some("h".repeat(254)), ..full.clone() }, false),
        (Basis { rule: "r".repeat(65).into(), ..full.clone() }, false),
        (full, true),
        (long, true),
    ] {
        let (mut world, a) = World::with_account("scale");
        let b = world.account("b", "scale");
        world.verify(a, ADDRESS, Verdict { basis: Some(Arc::new(basis.clone())), ..MailboxExists.into() });
        world.reopen();
        world.now += DAY / 2;
        let told = |at| kept.then(|| Arc::new(Basis { observed_at: at, ..basis.clone() }));
        let verdict = |known| match known {
            Known::Own(result) | Known::Shared(result) => result.verdict,
            Known::Nothing => panic!("it is stored"),
        };
        assert_eq!(verdict(world.known(a, ADDRESS)).basis, told(basis.observed_at));
        let shared = verdict(world.known(b, ADDRESS));
        assert_eq!(shared.basis, told(world.now));
        // In a batch as by itself, and in repeats of both.
        let (charged, answered) = (world.now, world.batch(b, &[ADDRESS]));
        world.answer(answered, &[(0, RowOutcome::Reused(shared))]);
        world.now += 1;
        assert_eq!(verdict(world.known(b, ADDRESS)).basis, told(charged));
        // For lists, the account's own one is kept after the free repeats have ended.
        let hashes = ["nobody@else.example", ADDRESS].map(|address| world.hash_address(address));
        let own = Verdict { basis: told(basis.observed_at), ..MailboxExists.into() };
        for (now, own) in [(START + 7 * DAY - 1, Some(own)), (START + 7 * DAY, None)] {
            assert_eq!(world.kept_verdicts(a, hashes.to_vec(), now).wait(), Ok(vec![None, own]));
        }
    }
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
