//! The order of works and routes in a group, and the answers of works without a route.

use super::*;
use crate::Priority;
use crate::work::testing::{answer, mailbox, work};
use engine_proto::limits::ROUTE_DOWN;
use engine_proto::lists::MailService;
use engine_proto::pace::{Ceiling, Profile};
use engine_proto::retry::TRANSIENT_WAIT;
use engine_proto::verdict::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

/// Two hosts, the first with two addresses.
fn group(site: &str, now: Instant) -> Group {
    let route = |host: &str, last: u8| PlannedRoute {
        host: host.into(),
        preference: if host == "mx1.example" { 10 } else { 20 },
        address: [192, 0, 2, last].into(),
    };
    let plan = Plan {
        site: site.into(),
        site_hash: 0,
        group: 0,
        routes: vec![route("mx1.example", 1), route("mx1.example", 2), route("mx2.example", 3)],
        service: MailService::Unknown,
        handed: Default::default(),
    };
    let pace = SitePace::new(Ceiling::of(Profile::Polite, site), now);
    Group::new(&plan, Rc::new(Site::new(pace)), 0, None, 0, now)
}

#[test]
fn those_who_are_left_without_a_route_may_come_again() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.enqueue(work(&client, "a@a.example", Priority::List));
    let mut tried = work(&client, "b@a.example", Priority::List);
    tried.tried = 0b011;
    tried.set_fallback("said", None);
    tried.set_again(Some(TRANSIENT_WAIT));
    group.enqueue(tried);
    group.route_state(2).set_down(now + ROUTE_DOWN, "test");
    let mut stranded = group.take_unroutable(now);
    assert_eq!(stranded.len(), 1, "two routes are left for the other one");
    assert_eq!(stranded[0].begin_anew(now), Some(TRANSIENT_WAIT), "the first host gave a temporary reply");
    stranded.into_iter().for_each(Work::give_up);
    assert_eq!(answer(&client), Some((Reason::Unverifiable, "test", true)));
    assert_eq!(group.waiting(), 1);
    group.take_all_waiting().into_iter().for_each(Work::give_up);
}

#[test]
fn silence_costs_the_impatient_a_route_and_the_patient_nothing() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.enqueue(work(&client, "a@a.example", Priority::Single));
    assert!(!group.release_singles(0, "test"), "nobody else is there to be spared");
    assert_eq!(group.next(now), Next::Route(0));
    group.enqueue(work(&client, "b@a.example", Priority::Batch));
    assert!(group.release_singles(0, "test"));
    let taken = group.take(0, 10, now);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].priority, Priority::Batch);
    assert_eq!(group.take(1, 10, now).len(), 1);
}

#[test]
fn google_gets_one_domain_a_transaction() {
    let (client, now) = (mailbox(), Instant::now());
    for (site, sizes) in [("google", [2, 1, 0]), ("example", [3, 0, 0])] {
        let group = group(site, now);
        for address in ["a@a.example", "b@b.example", "c@a.example"] {
            group.enqueue(work(&client, address, Priority::List));
        }
        assert_eq!(sizes.map(|_| group.take(0, 10, now).len()), sizes, "{site}");
        assert_eq!(group.is_one_domain(), site == "google");
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
        group.add_idle(waker);
    }
    group.remove_idle(&wakers[1]);
    group.put_back(work(&client, "a@a.example", Priority::List));
    assert_eq!(woken(), [1, 0]);
    group.enqueue(work(&client, "b@a.example", Priority::List));
    assert_eq!(woken(), [1, 0]);
    group.add_idle(&wakers[0]);
    group.put_back(work(&client, "c@a.example", Priority::List));
    assert_eq!(woken(), [2, 0]);
}

#[test]
fn patient_work_waits_for_a_short_rest_and_nobody_for_a_long_one() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.enqueue(work(&client, "a@a.example", Priority::Batch));
    let rest = |time: Duration| (0..2).for_each(|index| group.route_state(index).set_resting(now + time));
    rest(REST_SHORT);
    assert_eq!(group.next(now), Next::Rest(now + REST_SHORT));
    group.enqueue(work(&client, "b@a.example", Priority::Single));
    assert_eq!(group.next(now), Next::Route(2), "somebody waits");
    assert_eq!(group.take(2, 10, now).len(), 1);
    assert_eq!(group.next(now), Next::Rest(now + REST_SHORT));
    let mut tried = work(&client, "c@a.example", Priority::List);
    tried.tried = 0b011;
    group.enqueue(tried);
    assert_eq!(group.next(now), Next::Route(2), "it has been there");
    assert_eq!(group.take(2, 10, now).len(), 1);
    rest(REST_SHORT * 2);
    assert_eq!(group.next(now), Next::Route(2));
    assert_eq!(group.take(2, 10, now).len(), 1);
}

#[test]
fn a_host_stands_in_for_one_that_has_replied_and_is_not_asked_now() {
    let now = Instant::now();
    let later = now + ROUTE_DOWN;
    let group = group("example", now);
    let client = mailbox();
    let asked = |tried, deferred_by| {
        let mut work = work(&client, "a@a.example", Priority::List);
        (work.tried, work.deferred_by) = (tried, deferred_by);
        work
    };
    let stands_in = |at| [0, 1, 2].map(|index| group.stands_in(index, &asked(0b011, 0), at));
    let only_last = [false, false, true];
    assert_eq!(stands_in(now), [false; 3]);
    for (tried, deferred_by, expected) in
        [(0b011, 0b001, true), (0b011, 0b100, false), (0b001, 0, true), (0, 0, true)]
    {
        let work = asked(tried, deferred_by);
        assert_eq!(group.stands_in(2, &work, now), expected, "asked {tried:b}, put off by {deferred_by:b}");
    }
    group.route_state(0).set_resting(later);
    assert_eq!((stands_in(now), stands_in(later)), (only_last, [false; 3]), "it rests");
    group.route_state(0).set_down(later, "no_connection");
    assert_eq!(stands_in(now), [false; 3], "a host without a connection knows nothing");
    (0..2).for_each(|index| group.route_state(index).set_down(later, "test"));
    assert_eq!((stands_in(now), stands_in(later)), (only_last, [false; 3]), "it refuses us");
    assert!(
        group.first_open(&asked(0, 0), now).is_none() && group.first_open(&asked(0b011, 0), later).is_some()
    );
}

#[test]
fn hosts_share_the_room_for_routes() {
    let route = |host: usize, last: usize| PlannedRoute {
        host: format!("mx{host}.example").into(),
        preference: host as u16,
        address: [192, 0, host as u8, last as u8].into(),
    };
    let plan = |hosts: usize, of: fn(usize) -> usize| -> Vec<PlannedRoute> {
        (0..hosts).flat_map(|host| (0..of(host)).map(move |last| route(host, last))).collect()
    };
    let counts = |plan: &[PlannedRoute]| -> Vec<usize> {
        chosen(plan).chunk_by(|a, b| a.host == b.host).map(<[_]>::len).collect()
    };
    assert_eq!(counts(&plan(16, |_| 16)), [4; 16]);
    assert_eq!(counts(&plan(3, |host| host + 1)), [1, 2, 3]);
    assert_eq!(counts(&plan(5, |host| if host == 0 { 16 } else { 13 })), [12; 5]);
}

#[test]
fn somebody_waits_for_a_site_that_answers_at_times_and_not_for_one_that_only_pushes_back() {
    let now = Instant::now();
    let group = group("example", now);
    let push = |at: Instant| {
        let pace = &mut group.site.state().pace;
        pace.on_pushed_back(at, 1, 512);
        pace.pause(at).expect("no pause")
    };
    let mut at = now;
    for _ in 0..4 {
        assert!(!group.is_hopeless(at));
        at = push(at);
    }
    push(at);
    assert!(group.is_hopeless(at), "half a second and one and two and four, and eight to come");
    group.on_task_begun(now);
    let session = group.on_task_begun(now);
    assert!(!group.is_hopeless(at), "another session goes on");
    group.on_task_ended(session, at);
    group.site.state().pace.on_answer();
    assert!(!group.is_hopeless(at));
}

#[test]
fn rows_of_batches_come_back_from_a_site_that_gives_no_answer() {
    let (client, now) = (mailbox(), Instant::now());
    let group = group("example", now);
    group.site.state().pace.on_asked(now);
    group.site.state().pushed = "session-closing";
    for priority in [Priority::Batch, Priority::List, Priority::Single] {
        let mut work = work(&client, "a@a.example", priority);
        work.set_fallback("no_answer_in_time", Some(ROUTE_DOWN));
        let admitted = group.site.admit(work, 1_000, now);
        group.enqueue(admitted.unwrap_or_else(|_| panic!("no room")));
    }
    let late = now + SITE_LAST_TRY;
    assert!(group.take_unanswered(late - Duration::from_millis(1)).is_empty());
    group.take_unanswered(late).into_iter().for_each(Work::give_up);
    assert_eq!(answer(&client), Some((Reason::Unverifiable, "session-closing", true)));
    let admitted = group.site.admit(work(&client, "b@a.example", Priority::Batch), 1_000, late);
    group.enqueue(admitted.unwrap_or_else(|_| panic!("no room")));
    assert!(group.take_unanswered(late).is_empty(), "it has not been tried");
    group.site.state().pace.on_answer();
    assert!(group.take_unanswered(late + SITE_LAST_TRY).is_empty());
    assert_eq!(group.waiting(), 3);
    group.take_all_waiting().into_iter().for_each(Work::give_up);
}

#[test]
fn an_ipv4_address_of_the_same_host_is_tried_where_ipv6_is_refused() {
    let now = Instant::now();
    let route = |host: &str, address: &str| PlannedRoute {
        host: host.into(),
        preference: 10,
        address: address.parse().expect("an address"),
    };
    let plan = Plan {
        site: "example".into(),
        site_hash: 0,
        group: 0,
        routes: vec![
            route("mx1.example", "2001:db8::1"),
            route("mx1.example", "192.0.2.1"),
            route("mx2.example", "2001:db8::2"),
        ],
        service: MailService::Unknown,
        handed: Default::default(),
    };
    let pace = SitePace::new(Ceiling::of(Profile::Polite, "example"), now);
    let group = Group::new(&plan, Rc::new(Site::new(pace)), 0, None, 0, now);
    assert_eq!([0, 1, 2].map(|index| group.has_ipv4_beside(index, now)), [true, false, false]);
    assert_eq!([0, 1, 2].map(|index| group.same_host_and_family(index)), [0b001, 0b010, 0b100]);
    group.route_state(1).set_down(now + ROUTE_DOWN, "test");
    assert!(!group.has_ipv4_beside(0, now), "it is down");
}
