use super::*;
use proptest::prelude::*;

const DAY: u64 = 24 * 3600;
const NOW: u64 = 1_795_000_000;

fn address(n: usize) -> Address {
    Address::parse(&format!("joe{n}@example.com")).unwrap()
}

fn event(kind: EventKind, days_ago: u64) -> Event {
    Event { address: address(1), kind, at: NOW - days_ago * DAY }
}

fn table() -> Table {
    Table::new(TableKey([7; 16]))
}

const BOUNCED: EventKind = EventKind::Bounced(Bounce::NotFound);
const FAILED: EventKind = EventKind::Failed(crate::Cause::Policy);
use EventKind::Delivered;

#[test]
fn the_last_event_counts() {
    let check = |events: &[(EventKind, u64)], expected: Option<(bool, u64)>| {
        for order in [false, true] {
            let mut events = events.to_vec();
            if order {
                events.reverse();
            }
            let mut table = table();
            events.iter().for_each(|(kind, days)| table.add(&event(*kind, *days)));
            let found = table.evidence(&address(1), NOW).map(|evidence| match evidence {
                Evidence::Bounced { at, .. } => (true, (NOW - at) / DAY),
                Evidence::Delivered { at } => (false, (NOW - at) / DAY),
            });
            assert_eq!(found, expected, "{events:?}");
        }
    };
    check(&[], None);
    check(&[(BOUNCED, 3)], Some((true, 3)));
    check(&[(BOUNCED, 180)], Some((true, 180)));
    check(&[(BOUNCED, 181)], None);
    // A delivery counts after five days without a failure.
    check(&[(Delivered, 4)], None);
    check(&[(Delivered, 5)], Some((false, 5)));
    check(&[(Delivered, 90)], Some((false, 90)));
    check(&[(Delivered, 91)], None);
    check(&[(Delivered, 20), (FAILED, 18)], None);
    check(&[(Delivered, 20), (FAILED, 21)], None);
    check(&[(Delivered, 20), (FAILED, 22)], Some((false, 20)));
    check(&[(Delivered, 20), (FAILED, 1)], None);
    // The later one of a bounce and a delivery cancels the other.
    check(&[(BOUNCED, 30), (Delivered, 10)], Some((false, 10)));
    check(&[(BOUNCED, 10), (Delivered, 30)], Some((true, 10)));
    check(&[(BOUNCED, 10), (Delivered, 2)], None);
    check(&[(BOUNCED, 50), (BOUNCED, 10), (Delivered, 30)], Some((true, 10)));
    check(&[(BOUNCED, 10), (FAILED, 2)], Some((true, 10)));
    check(&[(Delivered, 40), (Delivered, 2)], Some((false, 40)));
}

#[test]
fn daily_mail_gives_evidence_of_the_last_two_weeks() {
    let mut table = table();
    for days in (0..60).rev() {
        table.add(&event(Delivered, days));
        if let Some(Evidence::Delivered { at }) = table.evidence(&address(1), NOW - days * DAY) {
            let age = (NOW - days * DAY - at) / DAY;
            assert!((5..=10).contains(&age), "{age}");
        } else {
            assert!(days > 54, "{days}");
        }
    }
    // A bounce ends it, and the next deliveries begin again.
    table.add(&event(BOUNCED, 0));
    assert!(matches!(table.evidence(&address(1), NOW), Some(Evidence::Bounced { .. })));
}

#[test]
fn rows_are_bounded_and_expire() {
    let mut table = table();
    for n in 0..100 {
        let at = NOW - n as u64 * DAY;
        table.add(&Event { address: address(n), kind: Delivered, at });
    }
    assert_eq!(table.prune(NOW, 1000), 91);
    assert_eq!(table.prune(NOW, 10), 10);
    assert_eq!(table.counts(NOW).newest, Some(NOW));
    assert_eq!((table.counts(NOW).addresses, table.counts(NOW).delivered), (10, 5));
    assert!(table.evidence(&address(9), NOW).is_some() && table.evidence(&address(10), NOW).is_none());
    for n in 0..50 {
        table.add(&Event { address: address(n), kind: FAILED, at: NOW });
    }
    assert_eq!(table.prune(NOW, 7), 7, "rows of the same time");
}

#[test]
fn case_of_an_address_does_not_matter() {
    let mut table = table();
    table.add(&event(BOUNCED, 1));
    assert!(table.evidence(&Address::parse("JOE1@Example.Com").unwrap(), NOW).is_some());
    assert!(table.evidence(&address(11), NOW).is_none());
}

proptest! {
    #[test]
    fn a_table_comes_back(events in prop::collection::vec((0usize..20, 0u8..5, 0u64..NOW), 0..60)) {
        let mut table = table();
        for (n, kind, at) in events {
            let kind = match kind {
                0 => Delivered,
                1 => FAILED,
                2 => BOUNCED,
                3 => EventKind::Bounced(Bounce::Disabled),
                _ => EventKind::Bounced(Bounce::DomainDead),
            };
            table.add(&Event { address: address(n), kind, at });
        }
        let bytes = table.to_bytes();
        let read = Table::from_bytes(table.key.clone(), &bytes).unwrap();
        prop_assert_eq!(&read.rows, &table.rows);
        prop_assert_eq!(read.to_bytes(), bytes);
    }

    #[test]
    fn no_bytes_make_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [MAGIC, VERSION, &bytes].concat();
        let _ = Table::from_bytes(TableKey([7; 16]), &bytes);
    }
}
