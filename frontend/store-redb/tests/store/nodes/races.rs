//! Writes of two nodes to the same rows that no account guards.

use super::{nodes, two_nodes, wait_all};
use crate::world::{DAY, START};
use api::Reason::MailboxExists;
use store::*;

const PASSWORD: PasswordHash =
    PasswordHash { memory_kib: 8, passes: 1, lanes: 1, salt: [1; 16], tag: [2; 32] };

#[test]
fn two_accounts_cannot_take_one_email_address_at_once() {
    let Some(mut world) = nodes(2) else { return };
    for round in 0..20 {
        let accounts = [0, 1].map(|n| world.account(&format!("n{round}-{n}"), "free"));
        let email = format!("{round}@example.com");
        let pending: Vec<_> = accounts
            .iter()
            .zip(world.nodes())
            .map(|(&account, node)| node.set_user(account, Some(email.clone()), PASSWORD, None, START))
            .collect();
        let set: Vec<_> = pending.into_iter().map(|pending| pending.wait()).collect();
        assert_eq!(set.iter().filter(|set| set.is_ok()).count(), 1, "{set:?}");
        assert_eq!(set.iter().filter(|set| **set == Err(UserError::EmailTaken)).count(), 1);
        let holder = accounts[set.iter().position(Result::is_ok).unwrap()];
        for node in world.nodes() {
            assert_eq!(node.user_of(&email).wait().unwrap().unwrap().account, holder);
        }
        let faults = accounts.map(|account| world.store().user(account).wait().unwrap().is_some());
        assert_eq!(faults.iter().filter(|has| **has).count(), 1);
    }
}

#[test]
fn a_new_password_ends_the_session_of_a_link_that_is_used_at_once() {
    let Some((world, a)) = two_nodes("free") else { return };
    world.store().set_user(a, Some("one@example.com".into()), PASSWORD, None, START).wait().unwrap();
    for round in 0..40u8 {
        let (link, session) = ([round; 32], [100 + round; 32]);
        world.store().create_link(a, link, START).wait().unwrap();
        let stores = [usize::from(round % 2), usize::from(1 - round % 2)].map(|node| &world.nodes()[node]);
        let used = stores[0].use_link(link, NewSession { hash: session, agent: "x".into() }, START);
        let set = stores[1].set_user(a, None, PASSWORD, None, START);
        used.wait().unwrap();
        set.wait().unwrap();
        assert_eq!(world.store().sessions(a, START).wait(), Ok(vec![]), "round {round}");
        assert_eq!(world.store().link(&link, START).wait(), Ok(None));
    }
}

#[test]
fn a_link_is_used_once_over_both_nodes() {
    let Some((world, a)) = two_nodes("free") else { return };
    for round in 0..10u8 {
        let link = [round; 32];
        world.store().create_link(a, link, START).wait().unwrap();
        let pending: Vec<_> = (0..10u8)
            .map(|at| {
                let hash = [10 + 10 * round + at; 32];
                let session = NewSession { hash, agent: "x".into() };
                world.nodes()[usize::from(at % 2)].use_link(link, session, START)
            })
            .collect();
        let used = pending.into_iter().filter_map(|pending| pending.wait().unwrap());
        assert_eq!(used.collect::<Vec<_>>(), [a]);
    }
}

#[test]
fn a_result_that_is_replaced_when_it_expires_is_kept() {
    let Some((mut world, a)) = two_nodes("growth") else { return };
    let emails: Vec<_> = (0..200).map(|n| format!("{n}@example.com")).collect();
    for round in 0..3 {
        let now = START + round * 7 * DAY;
        world.now = now;
        // The results of the last round expire at this moment: one node removes them, the other makes new ones.
        let holds: Vec<_> = emails.iter().map(|_| HoldRef { account: a, id: world.entry_id() }).collect();
        let pending: Vec<_> =
            holds.iter().map(|&hold| world.nodes()[1].hold(HoldRequest { hold, credits: 1 }, now)).collect();
        wait_all(pending);
        for (holds, emails) in holds.chunks(20).zip(emails.chunks(20)) {
            let settle = |(&hold, email): (&HoldRef, &String)| {
                let address = world.store().hash_address(email);
                let record = ResultRecord { address, verdict: MailboxExists.into() };
                world.nodes()[1].settle(hold, Settlement { result: Some(record) }, now)
            };
            let pending: Vec<_> = holds.iter().zip(emails).map(settle).collect();
            let purged = world.nodes()[0].purge(now);
            wait_all(pending);
            purged.wait().unwrap();
        }
        for email in &emails {
            assert!(matches!(world.known(a, email), Known::Own(_)), "{email} in round {round}");
        }
    }
    world.check_sums();
}

#[test]
fn a_withdrawal_that_is_renewed_when_it_expires_is_kept() {
    let Some((mut world, a)) = two_nodes("growth") else { return };
    for round in 0..10 {
        let evidence: Vec<u64> = (0..100).collect();
        let withdrawn = world.nodes()[1].withdraw(evidence, world.now);
        let purged = world.nodes()[0].purge(world.now);
        withdrawn.wait().unwrap();
        purged.wait().unwrap();
        for evidence in [0, 50, 99] {
            let email = format!("{round}-{evidence}@example.com");
            world.verify(a, &email, Verdict { reason: MailboxExists, evidence: Some(evidence) });
            assert_eq!(world.known(a, &email), Known::Nothing, "withdrawn at the same time, round {round}");
        }
        // The longest time in which a note of a withdrawal is of use.
        world.now += 8 * DAY;
    }
}
