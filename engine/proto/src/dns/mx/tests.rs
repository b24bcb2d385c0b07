use super::*;
use crate::dns::public::is_public;
use crate::dns::tests::name;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);

/// MX records from rows such as `"10 a.example"`, `"0 ."`, or `"5 !"` for a target that is no host name.
fn mx(rows: &[&str]) -> Outcome {
    let record = |row: &&str| {
        let (preference, target) = row.split_once(' ').expect(row);
        let exchange = match target {
            "." => Exchange::Null,
            "!" => Exchange::Invalid,
            host => Exchange::Host(name(host)),
        };
        Mx { preference: preference.parse().expect(row), exchange }
    };
    Outcome::Records { records: Records::Mx(rows.iter().map(record).collect()), ttl: TTL }
}

fn domain() -> Domain {
    Domain::parse("example.com").expect("a domain")
}

fn plan(rows: &[&str]) -> Result<MxPlan, Dead> {
    MxPlan::new(&domain(), &mx(rows), 0)
}

fn names(plan: &MxPlan) -> Vec<&str> {
    plan.names().map(Name::as_str).collect()
}

/// The hosts of a plan, with DNS from rows: `"a.example 192.0.2.1 2001:db8::1"`, `"b.example nxdomain"`, `"c.example servfail"`. If
/// a row has addresses of one family only, the question for the other family gets no data.
fn hosts(plan: &MxPlan, ipv6: bool, rows: &[&str], allowed: &dyn Fn(IpAddr) -> bool) -> Result<MxSet, Dead> {
    let mut zone: HashMap<Question, Outcome> = HashMap::new();
    for row in rows {
        let mut words = row.split(' ');
        let host = name(words.next().expect(row));
        let words: Vec<&str> = words.collect();
        for kind in [RecordKind::A, RecordKind::Aaaa] {
            let v4 = words.iter().filter_map(|w| w.parse().ok()).collect::<Vec<_>>();
            let v6 = words.iter().filter_map(|w| w.parse().ok()).collect::<Vec<_>>();
            let outcome = match words[0] {
                "nxdomain" => Outcome::NxDomain { ttl: TTL },
                "servfail" => Outcome::Failed { why: Failure::ServFail, ttl: TTL },
                _ if kind == RecordKind::A && !v4.is_empty() => {
                    Outcome::Records { records: Records::A(v4), ttl: TTL }
                }
                _ if kind == RecordKind::Aaaa && !v6.is_empty() => {
                    Outcome::Records { records: Records::Aaaa(v6), ttl: TTL }
                }
                _ => Outcome::NoData { ttl: TTL },
            };
            zone.insert(Question { name: host.clone(), kind }, outcome);
        }
    }
    plan.hosts(ipv6, &mut |q| zone.get(q), allowed)
}

fn any(_: IpAddr) -> bool {
    true
}

/// Each host with its addresses, such as `"a.example 192.0.2.1"`.
fn shown(set: &MxSet) -> Vec<String> {
    let host = |h: &MxHost| {
        let addresses: Vec<String> = h.addresses.iter().map(IpAddr::to_string).collect();
        format!("{} {}", h.name, addresses.join(" "))
    };
    set.hosts.iter().map(host).collect()
}

#[test]
fn hosts_are_ordered_by_preference() {
    let found = plan(&["20 c.example", "5 a.example", "10 b.example"]).expect("a plan");
    assert_eq!(names(&found), ["a.example", "b.example", "c.example"]);
    assert!(!found.is_implicit());
}

#[test]
fn a_host_counts_once_with_its_best_preference() {
    let found = plan(&["20 a.example", "10 b.example", "5 a.example"]).expect("a plan");
    assert_eq!(names(&found), ["a.example", "b.example"]);
}

#[test]
fn equal_preferences_are_shuffled_evenly() {
    let outcome = mx(&["1 z.example", "5 a.example", "5 b.example", "5 c.example", "9 y.example"]);
    let mut seen: HashMap<Vec<String>, u32> = HashMap::new();
    for random in 0..6000 {
        let plan = MxPlan::new(&domain(), &outcome, random).expect("a plan");
        assert_eq!(
            plan,
            MxPlan::new(&domain(), &outcome, random).expect("a plan"),
            "the same number, the same order"
        );
        let order: Vec<String> = plan.names().map(Name::to_string).collect();
        assert_eq!((order[0].as_str(), order[4].as_str()), ("z.example", "y.example"));
        *seen.entry(order).or_default() += 1;
    }
    assert_eq!(seen.len(), 6, "every order");
    assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
}

#[test]
fn the_site_does_not_depend_on_the_shuffle() {
    let outcome = mx(&["5 mx.b.example", "5 mx.a.example", "1 0.0.0.0"]);
    for random in 0..50 {
        let plan = MxPlan::new(&domain(), &outcome, random).expect("a plan");
        assert_eq!(plan.site().as_str(), "a.example");
    }
}

#[test]
fn domains_without_mail() {
    let no = |why| Err(Dead::TakesNoMail(why));
    assert_eq!(plan(&["0 ."]), no(NoMail::NullMx));
    assert_eq!(plan(&["10 ."]), no(NoMail::NullMx), "whatever the preference");
    assert_eq!(plan(&["0 .", "10 ."]), no(NoMail::NullMx));
    assert_eq!(plan(&["5 !"]), no(NoMail::NoMailHost));
    assert_eq!(plan(&["5 192.0.2.1", "6 localhost"]), no(NoMail::NoMailHost));
    let found = MxPlan::new(&domain(), &Outcome::NxDomain { ttl: TTL }, 0);
    assert_eq!(found, no(NoMail::NxDomain));
    let failed = Outcome::Failed { why: Failure::ServFail, ttl: TTL };
    assert_eq!(MxPlan::new(&domain(), &failed, 0), Err(Dead::CannotTell(Failure::ServFail)));
}

#[test]
fn unusable_targets_are_skipped() {
    let found = plan(&["0 .", "1 !", "2 192.0.2.1", "3 localhost", "4 _dc-mx.a.example"]).expect("a plan");
    assert_eq!(names(&found), ["_dc-mx.a.example"]);
}

#[test]
fn a_domain_without_mx_is_its_own_host() {
    let plan = MxPlan::new(&domain(), &Outcome::NoData { ttl: TTL }, 0).expect("a plan");
    assert!(plan.is_implicit());
    assert_eq!(names(&plan), ["example.com"]);
    assert_eq!(plan.site().as_str(), "example.com");
    let set = hosts(&plan, true, &["example.com 192.0.2.1"], &any).expect("hosts");
    assert!(set.implicit);
    assert_eq!(shown(&set), ["example.com 192.0.2.1"]);
    let nobody = Err(Dead::TakesNoMail(NoMail::NoMailHost));
    assert_eq!(hosts(&plan, true, &["example.com nodata"], &any), nobody);
    assert_eq!(hosts(&plan, true, &["example.com nxdomain"], &any), nobody);
}

#[test]
fn the_questions_that_follow() {
    let found = plan(&["1 a.example", "2 b.example"]).expect("a plan");
    let asked = |ipv6| {
        let questions = found.questions(ipv6);
        questions.iter().map(|q| format!("{} {:?}", q.name, q.kind)).collect::<Vec<_>>()
    };
    assert_eq!(asked(true), ["a.example Aaaa", "a.example A", "b.example Aaaa", "b.example A"]);
    assert_eq!(asked(false), ["a.example A", "b.example A"]);
}

#[test]
fn addresses_alternate_between_the_families() {
    let found = plan(&["1 a.example"]).expect("a plan");
    let zone = ["a.example 192.0.2.1 192.0.2.2 192.0.2.1 192.0.2.3 2001:db8::1 2001:db8::2"];
    let set = hosts(&found, true, &zone, &any).expect("hosts");
    assert_eq!(shown(&set), ["a.example 2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2 192.0.2.3"]);
    let set = hosts(&found, false, &zone, &any).expect("hosts");
    assert_eq!(shown(&set), ["a.example 192.0.2.1 192.0.2.2 192.0.2.3"]);
}

#[test]
fn hosts_without_an_address_of_their_own_are_left_out() {
    let found = plan(&["1 a.example", "2 b.example", "3 c.example", "4 d.example"]).expect("a plan");
    let zone =
        ["a.example nxdomain", "b.example 192.0.2.1", "c.example 192.0.2.1", "d.example 192.0.2.1 192.0.2.2"];
    assert_eq!(
        shown(&hosts(&found, true, &zone, &any).expect("hosts")),
        ["b.example 192.0.2.1", "d.example 192.0.2.2"]
    );
}

#[test]
fn nobody_to_ask() {
    let found = plan(&["1 a.example", "2 b.example"]).expect("a plan");
    let none = Err(Dead::TakesNoMail(NoMail::NoMailHost));
    let unknown = Err(Dead::CannotTell(Failure::ServFail));
    for (zone, expected) in [
        (["a.example nxdomain", "b.example nodata"], &none),
        (["a.example 127.0.0.1", "b.example 10.1.2.3 fe80::1"], &none),
        (["a.example 127.0.0.1", "b.example servfail"], &unknown),
        (["a.example nxdomain", "b.example servfail"], &unknown),
        (["a.example servfail", "b.example servfail"], &unknown),
    ] {
        assert_eq!(&hosts(&found, true, &zone, &is_public), expected, "{zone:?}");
    }
    let unasked = hosts(&found, true, &["a.example nxdomain"], &any);
    assert_eq!(unasked, Err(Dead::CannotTell(Failure::Timeout)));
    // A host that can be asked outweighs one that could not be looked up.
    let set = hosts(&found, true, &["a.example servfail", "b.example 8.8.8.8"], &is_public).expect("hosts");
    assert_eq!(shown(&set), ["b.example 8.8.8.8"]);
}

#[test]
fn counts_are_bounded() {
    let rows: Vec<String> = (0..40).map(|n| format!("{n} h{n}.example")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let found = plan(&rows).expect("a plan");
    assert_eq!(found.names().count(), MX_HOSTS_MAX);
    assert_eq!(names(&found)[MX_HOSTS_MAX - 1], "h15.example", "the best ones stay");

    let many: Vec<String> = (1..=20).map(|n| format!("192.0.2.{n} 2001:db8::{n}")).collect();
    let found = plan(&["1 a.example"]).expect("a plan");
    let set = hosts(&found, true, &[&format!("a.example {}", many.join(" "))], &any).expect("hosts");
    assert_eq!(set.hosts[0].addresses.len(), 2 * MX_ADDRESSES_MAX);
}

proptest! {
    #[test]
    fn plans_keep_the_order(rows in proptest::collection::vec((0..5u16, 0..30u8), 1..50), random: u64) {
        let rows: Vec<String> = rows.iter().map(|(p, n)| format!("{p} h{n}.example")).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let plan = MxPlan::new(&domain(), &mx(&rows), random).expect("a plan");
        prop_assert!(plan.targets.is_sorted_by_key(|t| t.preference));
        prop_assert!(plan.targets.len() <= MX_HOSTS_MAX);
        let mut names = names(&plan);
        names.sort_unstable();
        prop_assert!(names.windows(2).all(|w| w[0] != w[1]));
    }
}
