//! Writes of two nodes to the same rows that no account guards.

use super::{Mortals, nodes, now, two_nodes, wait_until};
use crate::world::{DAY, OPERATOR, PASSWORD, START};
use api::Reason::MailboxExists;
use store::*;

#[test]
fn two_accounts_cannot_take_one_email_address_at_once() {
    let Some(mut world) = nodes(2) else { return };
    for round in 0..20 {
        let accounts = [0, 1].map(|n| world.account(&format!("n{round}-{n}"), "free"));
        let email = format!("{round}@example.com");
        let pending: Vec<_> = accounts
            .iter()
            .zip(world.nodes())
            .map(|(&account, node)| node.set_user(account, Some(email.clone()), PASSWORD, OPERATOR, START))
            .collect();
        let set: Vec<_> = pending.into_iter().map(|pending| pending.wait()).collect();
        assert_eq!(set.iter().filter(|set| set.is_ok()).count(), 1, "{set:?}");
        assert_eq!(set.iter().filter(|set| **set == Err(UserError::EmailTaken)).count(), 1);
        let holder = accounts[set.iter().position(Result::is_ok).unwrap()];
        for node in world.nodes() {
            assert_eq!(node.user_of(&email).wait().unwrap().unwrap().account, holder);
        }
        let faults = accounts.map(|account| world.user(account).wait().unwrap().is_some());
        assert_eq!(faults.iter().filter(|has| **has).count(), 1);
    }
}

#[test]
fn a_new_password_ends_the_session_of_a_link_that_is_used_at_once() {
    let Some((world, a)) = two_nodes("free") else { return };
    world.set_user(a, Some("one@example.com".into()), PASSWORD, OPERATOR, START).wait().unwrap();
    for round in 0..40u8 {
        let (link, session) = ([round; 32], [100 + round; 32]);
        world.create_link(a, link, START).wait().unwrap();
        let stores = [usize::from(round % 2), usize::from(1 - round % 2)].map(|node| &world.nodes()[node]);
        let used = stores[0].use_link(link, NewSession { hash: session, agent: "x".into() }, START);
        let set = stores[1].set_user(a, None, PASSWORD, OPERATOR, START);
        used.wait().unwrap();
        set.wait().unwrap();
        assert_eq!(world.sessions(a, START).wait(), Ok(vec![]), "round {round}");
        assert_eq!(world.link(&link, START).wait(), Ok(None));
    }
}

#[test]
fn a_link_is_used_once_over_both_nodes() {
    let Some((world, a)) = two_nodes("free") else { return };
    for round in 0..10u8 {
        let link = [round; 32];
        world.create_link(a, link, START).wait().unwrap();
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
fn a_result_that_is_replaced_while_a_purge_removes_it_is_kept() {
    let Some(mut nodes) = Mortals::new(2) else { return };
    let (before, now) = (now() - 7 * DAY, now());
    let a = AccountId::new(before, nodes.random());
    let new = NewAccount { id: a, name: "a".into(), plan: "growth".into() };
    nodes.node(0).create_account(new, before).wait().unwrap();
    let mut addresses = ["one@example.com", "two@example.com"].map(|email| nodes.node(0).hash_address(email));
    addresses.sort_by_key(|address| address.0);
    let verify = |nodes: &mut Mortals, address, at| {
        let hold = HoldRef { account: a, id: EntryId::new(at, nodes.random()) };
        nodes.node(1).hold(HoldRequest { hold, credits: 1 }, at).wait().unwrap();
        let record = ResultRecord { address, verdict: MailboxExists.into() };
        nodes.node(1).settle(hold, Settlement { result: Some(record) }, at).wait().unwrap();
    };
    addresses.into_iter().for_each(|address| verify(&mut nodes, address, before));

    // Both results have expired. The purge has read this, and has to wait for the first row.
    let first: String = addresses[0].0.iter().map(|byte| format!("{byte:02x}")).collect();
    let lock = format!(
        "BEGIN; SELECT FROM results WHERE encode(k, 'hex') LIKE '{first}%' FOR UPDATE; SELECT pg_sleep(3); COMMIT"
    );
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND application_name LIKE 'mailprobe ' || current_schema() || ' %'";
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' \
                  AND query LIKE '%' || current_schema() || '; BEGIN; SELECT FROM results%'";
    let schema = nodes.schema.clone();
    let locker = std::thread::spawn(move || schema.execute(&lock));
    wait_until("the row is locked", || nodes.number_of(sleeps) > 0);
    let purged = nodes.node(0).purge(now);
    wait_until("the purge waits", || nodes.number_of(waits) > 0);
    verify(&mut nodes, addresses[1], now);
    assert!(!locker.is_finished(), "the new result came while the purge waited");
    locker.join().unwrap();
    purged.wait().unwrap();
    let known = |address| nodes.node(0).known(a, address, now).wait().unwrap();
    assert!(matches!(known(&addresses[1]), Known::Own(_)), "it is not older than the purge");
    assert_eq!(known(&addresses[0]), Known::Nothing);
    assert_eq!(nodes.number_of("SELECT count(*) FROM results"), 1);
    nodes.check_sums(1);
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
            world.verify(a, &email, Verdict { evidence: Some(evidence), ..MailboxExists.into() });
            assert_eq!(world.known(a, &email), Known::Nothing, "withdrawn at the same time, round {round}");
        }
        // The longest time in which a note of a withdrawal is of use.
        world.now += 8 * DAY;
    }
}
