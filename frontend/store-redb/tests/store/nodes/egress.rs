//! How many nodes share the limits of an address.

use super::{Mortals, wait_until};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn sharing(nodes: &Mortals, node: usize) -> u32 {
    nodes.node(node).place().egress_nodes.load(Ordering::Relaxed)
}

#[test]
fn nodes_of_one_egress_count_each_other() {
    let Some(mut nodes) = Mortals::stopped(3, &["nat", "nat", "other"]) else { return };
    nodes.start(0);
    assert_eq!((sharing(&nodes, 0), nodes.node(0).place().node), (1, Some(1)));
    nodes.start(1);
    nodes.start(2);
    // Its engine starts now, so it must know at once.
    assert_eq!((sharing(&nodes, 1), sharing(&nodes, 2)), (2, 1));
    let took = wait_until("the first node counts the second", || sharing(&nodes, 0) == 2);
    assert!(took < Duration::from_secs(4), "{took:?}");
    nodes.kill(1);
    let took = wait_until("a dead node counts no longer", || sharing(&nodes, 0) == 1);
    assert!((6..20).contains(&took.as_secs()), "its lease lasts for ten seconds: {took:?}");
    assert_eq!(sharing(&nodes, 2), 1);
}

#[test]
fn a_database_that_is_away_does_not_raise_the_limits() {
    let Some(mut nodes) = Mortals::stopped(2, &["nat", "nat"]) else { return };
    nodes.start(0);
    nodes.start(1);
    wait_until("the first node counts the second", || {
        sharing(&nodes, 0) == 2 && nodes.node(0).live_nodes() == 2
    });
    // As after a failover: all leases are over, and the first node is the first that renews its own.
    nodes.links.iter().for_each(|link| link.cut());
    std::thread::sleep(Duration::from_secs(6));
    nodes.schema.execute("UPDATE nodes SET until = clock_timestamp() - interval '1 s'");
    nodes.links[0].resume();
    let live = "SELECT count(*) FROM nodes WHERE until > clock_timestamp()";
    wait_until("it renews its lease", || nodes.number_of(live) == 1);
    // It counts the live nodes every two seconds.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(sharing(&nodes, 0), 2, "the other may live");
    assert_eq!(
        nodes.node(0).live_nodes(),
        2,
        "without the database, each node allows its part of a key's limit"
    );
}
