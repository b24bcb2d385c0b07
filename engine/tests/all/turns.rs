//! Who gets one of the sessions of the engine while others wait for one.

use crate::support::{answer, config, request, world};
use engine::config::Pace;
use engine::{Engine, Priority};

/// The order of the answers to checks at domains of their own, each with its owner and its priority, with two sessions in all.
fn order_of_answers(checks: impl Iterator<Item = (u64, Priority)>) -> Vec<u64> {
    let net = world(
        "[[group]]\nname = \"d{n}.example\"\ncount = 100\nserver.latency_ms = 20\nmailboxes.ok = [\"user\"]\n",
    );
    let mut config = config(net.dns(), net.smtp_port(), Pace::Lab);
    (config.sessions, config.shards) = (2, 1);
    let engine = Engine::start(config).expect("an engine");
    let client = engine.client(100);
    let mut count = 0;
    for (ticket, (owner, priority)) in (0..).zip(checks) {
        let address = format!("user@d{}.example", ticket + 1);
        let request = engine::Request { owner, ..request(ticket, &address, priority) };
        client.submit(request).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        count += 1;
    }
    let order = (0..count).map(|_| answer(&client).ticket).collect();
    engine.stop();
    order
}

#[test]
fn a_single_check_does_not_wait_behind_the_rows_of_another_owner() {
    let rows = (0..40).map(|_| (1, Priority::Batch));
    let order = order_of_answers(rows.chain([(2, Priority::Single)]));
    let place = order.iter().position(|&ticket| ticket == 40);
    assert!(place.is_some_and(|place| place < 10), "{order:?}");
}

#[test]
fn owners_of_rows_get_sessions_in_turn() {
    let rows = (0..40).map(|_| (1, Priority::List)).chain((0..8).map(|_| (2, Priority::List)));
    let order = order_of_answers(rows);
    let last = order.iter().rposition(|&ticket| ticket >= 40);
    assert!(last.is_some_and(|last| last < 30), "{order:?}");
}
