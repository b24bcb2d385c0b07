//! Limits that belong to no account, and withdrawals.

use super::{Mortals, in_turn, nodes, now, two_nodes, wait_all, wait_until};
use crate::postgres::{self, InSchema};
use crate::world::{OPERATOR, START, basis, new_account, new_key, plans};
use api::Reason::{CatchAll, Unverifiable};
use api::UnverifiableCause;
use store::rate_limit::Overrides;
use store::*;
use store_rules::Store;

#[test]
fn lists_take_no_more_than_their_room_over_both_nodes() {
    let Some(mut world) = nodes(2) else { return };
    let accounts = [world.account("a", "free"), world.account("b", "free")];
    // Each node has an account of its own, so that no row of an account keeps them apart.
    for round in 0..5 {
        // One account may have an eighth of what others leave: here six lists, whether the other has six or none.
        let room = ListRoom { account: u64::MAX, all: 550 };
        let made = in_turn(&world, 0..20, |node, at: usize| {
            let id = ListId::new(START, (100 * round + at) as u128);
            let list = List::new(id, accounts[at % 2], START, "my list.csv".into());
            node.create_list(&List { bytes: 10, ..list }, room, None, START)
        });
        assert_eq!(made.iter().filter(|made| **made == Ok(ListMade::Made)).count(), 12);
        assert_eq!(made.iter().filter(|made| **made == Ok(ListMade::StoreFull)).count(), 8);
        for account in accounts {
            for list in world.lists(account, START).wait().unwrap() {
                assert!(world.nodes()[1].delete_list(account, list.id, START).wait().unwrap().is_some());
            }
        }
    }
}

#[test]
fn an_account_has_no_more_lists_than_allowed_over_both_nodes() {
    let Some((world, a)) = two_nodes("free") else { return };
    let made = in_turn(&world, 0..LISTS_MAX + 10, |node, at| {
        let list = List::new(ListId::new(START, at as u128), a, START, "my list.csv".into());
        node.create_list(&list, ListRoom::MOST, None, START)
    });
    assert_eq!(made.into_iter().filter(|made| *made == Ok(ListMade::Made)).count(), LISTS_MAX);
}

/// The lists that a node has, and those that it did not have at the last call.
fn claimed(node: &Store) -> (Vec<ListId>, Vec<ListId>) {
    let ClaimedLists { own, new } = node.claim_lists().wait().unwrap().unwrap();
    (own, new)
}

#[test]
fn a_list_belongs_to_the_node_that_received_it() {
    let Some((world, a)) = two_nodes("free") else { return };
    let [one, other] = [&world.nodes()[0], &world.nodes()[1]];
    let list = List::new(ListId::new(START, 1), a, START, "my list.csv".into());
    assert_eq!(one.create_list(&list, ListRoom::MOST, None, START).wait(), Ok(ListMade::Made));
    // It is not new: this process itself has received it. So its upload is not taken for an interrupted one.
    assert_eq!(claimed(one), (vec![list.id], vec![]));
    let (own, new) = claimed(other);
    assert_eq!((own.as_slice(), new.as_slice()), (&[][..], &[][..]));
    assert_eq!(other.delete_unfinished_lists(Some(new)).wait(), Ok(0));
    assert_eq!(one.lists(a, START).wait().unwrap().len(), 1);
    let running = List { state: ListState::Running, ..list.clone() };
    assert_eq!(one.put_list(&running, ListState::Uploading, None, world.now).wait(), Ok(true));
    assert_eq!((claimed(one).0, claimed(other).0), (vec![list.id], vec![]));
}

#[test]
fn the_list_of_a_dead_node_is_claimed_once_and_its_upload_ends() {
    let Some(mut nodes) = Mortals::new(3) else { return };
    let a = nodes.account(0, "a");
    let list = List::new(ListId::new(now(), 1), a, now(), "my list.csv".into());
    assert_eq!(nodes.node(0).create_list(&list, ListRoom::MOST, None, now()).wait(), Ok(ListMade::Made));
    nodes.kill(0);
    nodes.declare_dead(0);
    let mut new = Vec::new();
    wait_until("the list is claimed", || {
        new = [1, 2].map(|node| claimed(nodes.node(node)).1).concat();
        !new.is_empty()
    });
    assert_eq!(new, [list.id]);
    let own: Vec<_> = [1, 2].into_iter().filter(|&node| claimed(nodes.node(node)).0 == [list.id]).collect();
    assert_eq!(own.len(), 1, "one node has it, and it is new only once");
    assert_eq!(nodes.node(own[0]).delete_unfinished_lists(Some(new)).wait(), Ok(1));
}

#[test]
fn a_database_that_older_nodes_can_use_takes_no_rows_that_they_cannot_read() {
    let Some(url) = postgres::url() else { return };
    let schema = InSchema::new(url);
    let store = store_pg::open(schema.options(1, true), plans(), START).unwrap().0;
    let a = AccountId::new(START, 1);
    store.create_account(new_account(a, "a"), START).wait().unwrap();
    let set_format = |format: u8| {
        schema.execute(&format!(
            "UPDATE meta SET v = '\\x{format:02x}00000000000000' WHERE k = 'format'::bytea"
        ));
    };
    set_format(6);
    let list = List::new(ListId::new(START, 1), a, START, "my list.csv".into());
    let create = || store.create_list(&list, ListRoom::MOST, None, START).wait();
    let old = StoreError::OldFormat { found: 6, needed: 7 };
    assert_eq!(create(), Err(old.clone()));
    let own = |list| Overrides { list, batch: Some(3), ..Overrides::default() };
    assert_eq!(store.set_overrides(a, false, own(Some(4))).wait(), Err(ChangeError::Store(old)));
    assert_eq!(store.set_overrides(a, false, own(None)).wait(), Ok(own(None)));
    set_format(7);
    assert_eq!(create(), Ok(ListMade::Made));
    assert_eq!(store.set_overrides(a, false, own(Some(4))).wait(), Ok(own(Some(4))));
    let key = |number, scopes, expires_at| NewKey { scopes, expires_at, ..new_key(a, number) };
    let create = |key| store.create_key(key, OPERATOR, START).wait().map(drop);
    let only_fast = KeyScopes::of([KeyScope::Fast]).unwrap();
    let limited = [key(1, only_fast, None), key(2, KeyScopes::ALL, Some(START + 1))];
    let old = ChangeError::Store(StoreError::OldFormat { found: 7, needed: 8 });
    for key in limited.clone() {
        assert_eq!(create(key), Err(old.clone()));
    }
    assert_eq!(create(key(3, KeyScopes::ALL, None)), Ok(()));
    set_format(8);
    for key in limited {
        assert_eq!(create(key), Ok(()));
    }
}

#[test]
fn a_database_that_older_nodes_can_use_keeps_no_cause() {
    let Some(url) = postgres::url() else { return };
    let schema = InSchema::new(url);
    let open = |node| store_pg::open(schema.options(node, true), plans(), START).unwrap().0;
    let a = AccountId::new(START, 1);
    open(1).create_account(NewAccount { plan: "scale".into(), ..new_account(a, "a") }, START).wait().unwrap();
    let set_format = |format: u8| {
        let text = format!("UPDATE meta SET v = '\\x{format:02x}00000000000000' WHERE k = 'format'::bytea");
        schema.execute(&text);
    };
    set_format(10);
    let store = open(2);
    let (mut number, cause) = (1_u8, UnverifiableCause::Greylisted);
    let mut kept = || {
        number += 1;
        let (id, address) = (BatchId::new(START, number.into()), AddressHash([number; 16]));
        let rows = vec![NewRow { email: "x@example.com".into(), address }; 2];
        let new = NewBatch { id, account: a, name: None, rows, idempotency: None, mode: BatchMode::Live };
        store.create_batch(new, OPERATOR, START).wait().unwrap();
        let verdict = Verdict { cause: Some(cause), basis: basis(), ..Unverifiable.into() };
        let outcomes =
            [RowOutcome::Verified(verdict), RowOutcome::Unanswered(Some(UnverifiableCause::Outage))];
        let answers = (0..).zip(outcomes).map(|(index, outcome)| RowAnswer { batch: id, index, outcome });
        assert_eq!(store.answer_rows(answers.collect(), START).wait(), Ok(vec![id]));
        let Ok(Known::Own(own)) = store.known(a, &address, START).wait() else { panic!("it is stored") };
        let view = store.batch(a, id, START).wait().unwrap().unwrap();
        assert_eq!((own.verdict.reason, view.refunded), (Unverifiable, 1));
        (own.verdict.cause, view.causes, own.verdict.basis)
    };
    assert_eq!(kept(), (None, vec![None, None], None));
    set_format(11);
    let causes = vec![Some(cause), Some(UnverifiableCause::Outage)];
    wait_until("the node knows format 11", || kept() == (Some(cause), causes.clone(), None));
    set_format(12);
    wait_until("the node knows format 12", || kept() == (Some(cause), causes.clone(), basis()));
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
        let verdict = Verdict { evidence: Some(evidence), ..CatchAll.into() };
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
    let verdict = Verdict { evidence: Some(3), ..CatchAll.into() };
    world.verify(a, "one@example.com", verdict);
    for _ in 0..10 {
        let withdrawn = in_turn(&world, 0..20, |node, _| node.withdraw(vec![1, 2, 3], world.now));
        assert!(withdrawn.iter().all(Result::is_ok), "{withdrawn:?}");
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
