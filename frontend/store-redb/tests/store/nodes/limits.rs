//! Limits that belong to no account, and withdrawals.

use super::{nodes, two_nodes, wait_all, wait_until};
use crate::postgres::{self, InSchema};
use crate::world::{START, plans};
use api::Reason::CatchAll;
use store::*;

#[test]
fn lists_take_no_more_than_their_room_over_both_nodes() {
    let Some(mut world) = nodes(2) else { return };
    let accounts = [world.account("a", "free"), world.account("b", "free")];
    // Each node has an account of its own, so that no row of an account keeps them apart.
    for round in 0..5 {
        let room = ListRoom { account: u64::MAX, all: 55 };
        let pending: Vec<_> = (0..20)
            .map(|at: usize| {
                let id = ListId::new(START, (100 * round + at) as u128);
                let list = List::new(id, accounts[at % 2], START, "my list.csv".into());
                world.nodes()[at % 2].create_list(&List { bytes: 10, ..list }, room, START)
            })
            .collect();
        let made: Vec<_> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
        assert_eq!(made.iter().filter(|made| **made == ListMade::Made).count(), 5);
        assert_eq!(made.iter().filter(|made| **made == ListMade::StoreFull).count(), 15);
        for account in accounts {
            for list in world.store().lists(account, START).wait().unwrap() {
                assert!(world.nodes()[1].delete_list(account, list.id).wait().unwrap());
            }
        }
    }
}

#[test]
fn an_account_has_no_more_lists_than_allowed_over_both_nodes() {
    let Some((world, a)) = two_nodes("free") else { return };
    let pending: Vec<_> = (0..LISTS_MAX + 10)
        .map(|at| {
            let list = List::new(ListId::new(START, at as u128), a, START, "my list.csv".into());
            world.nodes()[at % 2].create_list(&list, ListRoom::MOST, START)
        })
        .collect();
    let made = pending.into_iter().map(|pending| pending.wait().unwrap());
    assert_eq!(made.filter(|made| *made == ListMade::Made).count(), LISTS_MAX);
}

#[test]
#[ignore = "delete_unfinished_lists deletes the lists of all nodes: a start ends the uploads of the others. It must delete \
            those that this node had, and those of dead nodes (Question::ClaimLists names them, and nobody asks it)"]
fn a_start_deletes_no_list_that_another_node_receives() {
    let Some((world, a)) = two_nodes("free") else { return };
    let list = List::new(ListId::new(START, 1), a, START, "my list.csv".into());
    assert_eq!(world.nodes()[0].create_list(&list, ListRoom::MOST, START).wait(), Ok(ListMade::Made));
    assert_eq!(world.nodes()[1].delete_unfinished_lists(None).wait(), Ok(0));
    assert_eq!(world.nodes()[0].lists(a, START).wait().unwrap().len(), 1);
}

#[test]
#[ignore = "lists_at_work returns the lists of all nodes, so each node works on each list. It must return those that this node \
            has claimed"]
fn a_list_is_worked_on_by_one_node() {
    let Some((world, a)) = two_nodes("free") else { return };
    let list = List::new(ListId::new(START, 1), a, START, "my list.csv".into());
    assert_eq!(world.nodes()[0].create_list(&list, ListRoom::MOST, START).wait(), Ok(ListMade::Made));
    let list = List { state: ListState::Running, ..list };
    assert_eq!(world.nodes()[0].put_list(&list, ListState::Uploading, None).wait(), Ok(true));
    let found: usize = world.nodes().iter().map(|node| node.lists_at_work(START).wait().unwrap().len()).sum();
    assert_eq!(found, 1);
}

#[test]
fn there_are_no_more_clients_than_allowed_over_both_nodes() {
    let Some(url) = postgres::url() else { return };
    let schema = InSchema::new(url);
    let open = |node| store_pg::open(schema.options(node, true), plans(), START).unwrap().0;
    let stores = [open(1), open(2)];
    // They have no note of an expiry, so no new client takes the place of one of them.
    schema.execute(&format!(
        "INSERT INTO clients (k, v) SELECT decode(md5(n::text), 'hex'), '\\x00' \
         FROM generate_series(1, {}) AS n",
        CLIENTS_MAX - 5
    ));
    let new = |at: usize| NewClient {
        id: ClientId::new(START, at as u128),
        name: "x".into(),
        redirect_uris: vec!["https://client.example/callback".into()],
    };
    for round in 0..20 {
        let pending: Vec<_> =
            (0..4).map(|at| stores[at % 2].register_client(new(4 * round + at), START)).collect();
        // A new one takes the place of an unused one.
        wait_all(pending);
    }
    let sizes = stores[0].sizes().wait().unwrap();
    let (_, clients) = sizes.rows.into_iter().find(|(table, _)| table == "clients").unwrap();
    assert_eq!(clients, CLIENTS_MAX);
}

#[test]
fn a_withdrawal_on_one_node_holds_on_the_other_at_once() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    for (round, (here, there)) in [(0, 1), (1, 0), (0, 0), (1, 1)].into_iter().enumerate() {
        let evidence = round as u64;
        let email = format!("{round}@example.com");
        let verdict = Verdict { reason: CatchAll, evidence: Some(evidence) };
        world.on(here).verify(a, &email, verdict);
        assert!(matches!(world.on(there).known(a, &email), Known::Own(_)));
        world.nodes()[there].withdraw(vec![evidence], world.now).wait().unwrap();
        for node in 0..2 {
            assert_eq!(world.on(node).known(a, &email), Known::Nothing);
        }
    }
}

#[test]
fn the_same_evidence_is_withdrawn_on_both_nodes_at_once() {
    let Some((mut world, a)) = two_nodes("free") else { return };
    let verdict = Verdict { reason: CatchAll, evidence: Some(3) };
    world.verify(a, "one@example.com", verdict);
    for _ in 0..10 {
        let pending: Vec<_> =
            (0..20).map(|at| world.nodes()[at % 2].withdraw(vec![1, 2, 3], world.now)).collect();
        wait_all(pending);
        world.now += 1;
    }
    for node in 0..2 {
        assert_eq!(world.on(node).known(a, "one@example.com"), Known::Nothing);
    }
}

#[test]
fn counters_that_one_node_keeps_are_read_by_the_other() {
    let Some((world, a)) = two_nodes("free") else { return };
    let mut kept = rate_limit::Kept::default();
    kept.fair_use.insert(a, rate_limit::Bucket { level: 1_500, at: START });
    world.nodes()[0].keep_counters(kept.clone()).wait().unwrap();
    assert_eq!(world.nodes()[1].kept_counters().wait().unwrap(), kept);
    wait_until("both live", || world.nodes().iter().all(|node| node.health().is_ok()));
}
