//! Whose turn it is, on which route, and what becomes of those for whom none is left.

use super::*;
use crate::Priority;
use crate::work::testing::{answer, mailbox, work};
use engine_proto::address::Domain;
use engine_proto::pace::{Ceiling, Profile};
use engine_proto::verdict::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// Two hosts, the first with two addresses.
fn group(site: &str, now: Instant) -> Group {
    let route = |host: &str, last: u8| (Box::from(host), IpAddr::from([192, 0, 2, last]));
    let plan = Plan {
        site: site.into(),
        group: site.into(),
        routes: vec![route("mx1.example", 1), route("mx1.example", 2), route("mx2.example", 3)],
    };
    let pace = SitePace::new(Ceiling::of(Profile::Polite, site), now);
    Group::new(&plan, Rc::new(Site::new(pace)), now)
}

fn control(domain: &str, host: &str) -> Control {
    Control { domain: Domain::parse(domain).expect("no domain"), host: host.into() }
}

#[test]
fn control_recipients_are_asked_at_their_host_alone() {
    let now = Instant::now();
    let group = group("example", now);
    group.want_control(control("a.example", "mx2.example"));
    assert_eq!(group.next(now), Next::Route(2));
    assert_eq!(group.take_controls(0, 10), []);
    assert_eq!(group.take_stranded_controls(now), []);
    assert_eq!(group.take_controls(2, 10).len(), 1);
    group.want_control(control("a.example", "mx1.example"));
    group.routes[0].take_down(now + DOWN, "test");
    assert_eq!(group.next(now), Next::Route(1), "the host has another address");
    group.routes[1].take_down(now + DOWN, "test");
    assert_eq!(group.next(now), Next::Nothing);
    assert_eq!(group.take_stranded_controls(now).len(), 1);
    assert_eq!((group.routes_of("mx1.example"), group.same_host(2)), (0b011, 0b100));
}

#[test]
fn those_who_are_left_without_a_route_may_come_again() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.enqueue(work(&client, "a@a.example", Priority::List));
    let mut tried = work(&client, "b@a.example", Priority::List);
    tried.tried = 0b011;
    tried.leave("said", None);
    group.enqueue(tried);
    group.routes[2].take_down(now + DOWN, "test");
    let stranded = group.take_stranded(now);
    assert_eq!(stranded.len(), 1, "two routes are left for the other one");
    stranded.into_iter().for_each(Work::give_up);
    assert_eq!(answer(&client), Some((Reason::Unverifiable, "test", true)));
    assert_eq!(group.waiting(), 1);
    group.take_expired(None).into_iter().for_each(Work::give_up);
}

#[test]
fn silence_costs_the_impatient_a_route_and_the_patient_nothing() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.enqueue(work(&client, "a@a.example", Priority::Single));
    assert!(!group.is_patient(0, "test"), "nobody else is there to be spared");
    assert_eq!(group.next(now), Next::Route(0));
    group.enqueue(work(&client, "b@a.example", Priority::Batch));
    assert!(group.is_patient(0, "test"));
    let taken = group.take(0, 10);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].priority, Priority::Batch);
    assert_eq!(group.take(1, 10).len(), 1);
}

#[test]
fn google_gets_one_domain_a_transaction() {
    let (client, now) = (mailbox(), Instant::now());
    for (site, sizes) in [("google", [2, 1, 0]), ("example", [3, 0, 0])] {
        let group = group(site, now);
        for address in ["a@a.example", "b@b.example", "c@a.example"] {
            group.enqueue(work(&client, address, Priority::List));
        }
        assert_eq!(sizes.map(|_| group.take(0, 10).len()), sizes, "{site}");
        group.want_control(control("a.example", "mx1.example"));
        group.want_control(control("b.example", "mx1.example"));
        assert_eq!(group.take_controls(0, 10).len(), if site == "google" { 1 } else { 2 }, "{site}");
    }
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn only_sessions_that_are_idle_are_woken() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    let counters: [Arc<Counter>; 2] = Default::default();
    let wakers = counters.clone().map(Waker::from);
    let woken = || counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed));
    for waker in [&wakers[0], &wakers[1], &wakers[1]] {
        group.idle(waker);
    }
    group.not_idle(&wakers[1]);
    group.put_back(work(&client, "a@a.example", Priority::List));
    assert_eq!(woken(), [1, 0]);
    group.enqueue(work(&client, "b@a.example", Priority::List));
    assert_eq!(woken(), [1, 0]);
    group.idle(&wakers[0]);
    group.want_control(control("a.example", "mx1.example"));
    assert_eq!(woken(), [2, 0]);
}
