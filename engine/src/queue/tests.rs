//! The order of the works in a queue, and that none is lost.

use super::*;
use crate::work::AnswerBox;
use crate::work::testing::{mailbox, work};
use std::sync::Arc;
use std::time::Duration;

/// Fills a queue with works of an owner each, named by local part.
fn queue(client: &Arc<AnswerBox>, rows: &[(&str, Priority, u64)]) -> Queue {
    let mut queue = Queue::new(false);
    for &(name, priority, owner) in rows {
        queue.push_back(of(client, name, priority, owner));
    }
    queue
}

fn of(client: &Arc<AnswerBox>, name: &str, priority: Priority, owner: u64) -> Work {
    let address = if name.contains('@') { name.to_owned() } else { format!("{name}@a.example") };
    let mut work = work(client, &address, priority);
    work.owner = owner;
    work
}

fn names(works: &[Work]) -> String {
    works.iter().map(|work| work.address.as_str().split('@').next().unwrap()).collect::<Vec<_>>().join(" ")
}

use Priority::{Batch, List, Single};

#[test]
fn classes_come_in_order_and_owners_in_turn() {
    let client = mailbox();
    let rows = [
        ("l1", List, 1),
        ("b1", Batch, 1),
        ("b2", Batch, 1),
        ("b3", Batch, 1),
        ("c1", Batch, 2),
        ("c2", Batch, 2),
        ("s1", Single, 0),
        ("d1", Batch, 3),
    ];
    let mut queue = queue(&client, &rows);
    assert_eq!((queue.len(), queue.singles()), (8, 1));
    assert_eq!(names(&queue.take(0, 0, 4)), "s1 b1 c1 d1");
    queue.push_front(of(&client, "c0", Batch, 2));
    assert_eq!(names(&queue.take(0, 0, 3)), "c0 b2 c2", "who was put back is the first");
    assert_eq!(names(&queue.take(0, 0, 9)), "b3 l1");
    assert_eq!((queue.len(), queue.lanes.len()), (0, 0));
}

#[test]
fn nobody_starves_behind_a_constant_load() {
    let client = mailbox();
    let mut queue = queue(&client, &[("b", Batch, 1), ("l", List, 1)]);
    let mut order = Vec::new();
    while queue.len() > 0 {
        queue.push_back(of(&client, "s", Single, 0));
        order.push(names(&queue.take(0, 0, 1)));
        if order.len() > 30 {
            break;
        }
    }
    let at = |name: &str| order.iter().position(|taken| taken == name);
    assert_eq!(at("l"), Some(9), "{order:?}");
    assert_eq!(at("b"), Some(10), "{order:?}");
    assert_eq!(order.iter().filter(|name| *name == "s").count(), order.len() - 2);
}

#[test]
fn works_go_to_routes_that_they_have_not_tried() {
    let client = mailbox();
    let mut queue = queue(&client, &[("a", List, 1), ("b", List, 1)]);
    let mut tried = of(&client, "c", List, 1);
    tried.tried = 0b01;
    queue.push_back(tried);
    let mut tried = of(&client, "d", Single, 1);
    tried.tried = 0b11;
    queue.push_back(tried);
    assert!(queue.has_for(0, 0) && !queue.has_for(0, 1 << 2) && queue.has_for(2, 1 << 3));
    assert_eq!(names(&queue.take(0, 0, 9)), "a b");
    assert_eq!(names(&queue.take(0, 0, 9)), "");
    let stranded = queue.take_unroutable(|tried| tried & 0b11 != 0b11);
    assert_eq!((names(&stranded).as_str(), queue.len()), ("d", 1));
    assert_eq!(names(&queue.take(1, 0, 9)), "c");
}

#[test]
fn suspects_are_taken_alone() {
    let client = mailbox();
    let mut queue = queue(&client, &[("a", List, 1), ("b", List, 1)]);
    for name in ["x", "y"] {
        let mut suspect = of(&client, name, List, 1);
        suspect.suspect = true;
        queue.push_back(suspect);
    }
    let mut taken: Vec<String> = (0..3).map(|_| names(&queue.take(0, 0, 9))).collect();
    taken.sort();
    assert_eq!(taken, ["a b", "x", "y"]);
}

#[test]
fn one_domain_at_a_time_where_a_site_wants_it() {
    let client = mailbox();
    let mut queue = Queue::new(true);
    for name in ["a1@a.example", "b1@b.example", "a2@a.example", "a3@a.example", "b2@b.example"] {
        queue.push_back(of(&client, name, List, 1));
    }
    assert_eq!(names(&queue.take(0, 0, 2)), "a1 a2");
    assert_eq!(names(&queue.take(0, 0, 2)), "b1 b2");
    assert_eq!(names(&queue.take(0, 0, 2)), "a3");
    assert_eq!((queue.len(), queue.lanes.len()), (0, 0));
}

#[test]
fn those_whose_time_is_over_leave_and_nobody_else() {
    let client = mailbox();
    let mut queue = queue(&client, &[("a", List, 1), ("b", Single, 1), ("c", List, 2), ("d", List, 1)]);
    let now = Instant::now();
    let mut late = of(&client, "e", List, 1);
    late.deadline = now + Duration::from_secs(600);
    queue.push_front(late);
    assert_eq!(names(&queue.take_expired(now)), "");
    assert_eq!(names(&queue.take_expired(now + Duration::from_secs(61))), "b a c d");
    assert_eq!(queue.first_single(), None);
    queue.push_back(of(&client, "f", List, 2));
    assert_eq!(names(&queue.take(0, 0, 9)), "e f");
    queue.push_back(of(&client, "g", List, 2));
    assert_eq!(names(&queue.take_all()), "g");
    assert_eq!((queue.len(), queue.lanes.len()), (0, 0));
}

#[test]
fn singles_leave_a_route_together() {
    let client = mailbox();
    let mut queue = queue(&client, &[("a", Single, 1), ("b", List, 1), ("c", Single, 2)]);
    let taken = queue.take_singles(1 << 1);
    assert_eq!((names(&taken).as_str(), queue.len()), ("a c", 1));
    for mut work in taken {
        work.tried |= 1 << 1;
        queue.push_back(work);
    }
    assert!(queue.take_singles(1 << 1).is_empty());
    assert_eq!(names(&queue.take(1, 0, 9)), "b");
    assert_eq!(names(&queue.take(0, 0, 9)), "a c");
}
