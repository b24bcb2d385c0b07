//! Against a map of the same rows: whatever an overlay answers is what the map answers.

use super::*;
use proptest::prelude::*;
use std::ops::Bound;

const TABLE: Table = Table::Clients;
/// More than the round trips that any of the small tables can need.
const ROUNDS_MAX: usize = 100;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Limits = (Bound<Vec<u8>>, Bound<Vec<u8>>, bool, usize);

#[derive(Debug, Clone)]
enum Step {
    Get(Vec<u8>),
    Peek(Vec<u8>),
    Walk(Limits),
    /// A walk that stops after some rows.
    WalkUntil(Limits, usize),
    Count,
    Put(Vec<u8>, u8),
    Remove(Vec<u8>),
}

#[derive(Debug, Clone)]
struct TestJob {
    fetched: Vec<Lack>,
    steps: Vec<Step>,
    is_kept: bool,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..3)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![key().prop_map(Bound::Included), key().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn limits() -> impl Strategy<Value = Limits> {
    (bound(), bound(), any::<bool>(), prop_oneof![0usize..5, Just(usize::MAX)])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => key().prop_map(Step::Get),
        2 => key().prop_map(Step::Peek),
        4 => limits().prop_map(Step::Walk),
        1 => (limits(), 1usize..3).prop_map(|(limits, rows)| Step::WalkUntil(limits, rows)),
        1 => Just(Step::Count),
        3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key().prop_map(Step::Remove),
    ]
}

fn lack() -> impl Strategy<Value = Lack> {
    prop_oneof![
        key().prop_map(|key| Lack::Row(TABLE, key)),
        key().prop_map(|key| Lack::Peek(TABLE, key)),
        (limits(), 1usize..5).prop_map(|((from, to, backwards, _), most)| {
            let range = KeyRange { from: bytes(&from), to: bytes(&to), backwards, most };
            Lack::Range(TABLE, RangeLack { backwards, span: Span::of(&range), most })
        }),
    ]
}

fn test_job() -> impl Strategy<Value = TestJob> {
    let fetched = prop::collection::vec(lack(), 0..3);
    (fetched, prop::collection::vec(step(), 1..8), any::<bool>())
        .prop_map(|(fetched, steps, is_kept)| TestJob { fetched, steps, is_kept })
}

fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The answer of a read.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Row(Option<Vec<u8>>),
    Walked(Vec<KeyValue>),
    Count(u64),
    Nothing,
}

/// What the map answers.
fn expected(map: &mut Map, step: &Step) -> Answer {
    match step {
        Step::Get(key) | Step::Peek(key) => Answer::Row(map.get(key).cloned()),
        Step::Walk(limits) => Answer::Walked(walked(map, limits)),
        Step::WalkUntil(limits, rows) => {
            let mut walked = walked(map, limits);
            walked.truncate(*rows);
            Answer::Walked(walked)
        }
        Step::Count => Answer::Count(map.len() as u64),
        Step::Put(key, value) => {
            map.insert(key.clone(), vec![*value]);
            Answer::Nothing
        }
        Step::Remove(key) => {
            map.remove(key);
            Answer::Nothing
        }
    }
}

fn walked(map: &Map, (from, to, backwards, most): &Limits) -> Vec<KeyValue> {
    let is_in = |key: &Vec<u8>| {
        let is_after = match from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        let is_before = match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        is_after && is_before
    };
    let rows = map.iter().filter(|(key, _)| is_in(key)).map(|(key, value)| (key.clone(), value.clone()));
    if *backwards { rows.rev().take(*most).collect() } else { rows.take(*most).collect() }
}

/// What the overlay answers.
fn answered(overlay: &mut Overlay, step: &Step) -> Result<Answer, StoreError> {
    let mut row = None;
    let walk = |(from, to, backwards, most): &Limits, rows: usize| {
        let mut walked = Vec::new();
        let range = KeyRange { from: bytes(from), to: bytes(to), backwards: *backwards, most: *most };
        overlay.walk(TABLE, range, &mut |key, value| {
            walked.push((key.to_vec(), value.to_vec()));
            Ok(if walked.len() == rows { Walk::Stop } else { Walk::On })
        })?;
        Ok(Answer::Walked(walked))
    };
    match step {
        Step::Walk(limits) => walk(limits, usize::MAX),
        Step::WalkUntil(limits, rows) => walk(limits, *rows),
        Step::Get(key) => {
            let exists = overlay.get(TABLE, key, &mut |value| row = Some(value.to_vec()))?;
            assert_eq!(exists, row.is_some());
            Ok(Answer::Row(row))
        }
        Step::Peek(key) => {
            overlay.peek(TABLE, key, &mut |value| row = Some(value.to_vec()))?;
            Ok(Answer::Row(row))
        }
        Step::Count => Ok(Answer::Count(overlay.count(TABLE)?)),
        Step::Put(key, value) => overlay.put(TABLE, key, &[*value]).map(|()| Answer::Nothing),
        Step::Remove(key) => overlay.remove(TABLE, key).map(|()| Answer::Nothing),
    }
}

/// Fetches as the database would.
fn fetch(overlay: &mut Overlay, server: &Map, lacks: impl IntoIterator<Item = Lack>) {
    for lack in lacks {
        match lack {
            Lack::Row(table, key) => {
                let found = server.get_key_value(&key).map(|(key, value)| (key.clone(), value.clone()));
                overlay.add_rows(table, vec![key], found, true);
            }
            Lack::Peek(table, key) => {
                let found = server.get_key_value(&key).map(|(key, value)| (key.clone(), value.clone()));
                overlay.add_rows(table, vec![key], found, false);
            }
            Lack::Range(table, range) => {
                let RangeLack { backwards, span, most } = &range;
                let to = match &span.end {
                    End::Before(end) => Bound::Excluded(end.clone()),
                    End::Never => Bound::Unbounded,
                };
                let found = walked(server, &(Bound::Included(span.from.clone()), to, *backwards, *most));
                overlay.add_range(table, &range, found);
            }
            Lack::Count(table) => overlay.add_count(table, server.len() as u64),
        }
    }
}

/// Runs the steps once; `None` if something is lacking.
fn run(overlay: &mut Overlay, steps: &[Step]) -> Option<Vec<Answer>> {
    let answers = steps.iter().map(|step| answered(overlay, step)).collect::<Result<_, _>>();
    assert_eq!(answers.is_err(), overlay.has_missed());
    answers.ok()
}

/// Writes the changes to the map, as the database would.
fn write(server: &mut Map, changes: Vec<TableChanges>) {
    for TableChanges { table, inserts, updates, upserts, removes } in changes {
        assert_eq!(table, TABLE);
        for list in [&inserts.keys, &updates.keys, &upserts.keys, &removes] {
            assert!(list.is_sorted());
        }
        for (key, value) in inserts.keys.into_iter().zip(inserts.values) {
            assert_eq!(server.insert(key, value), None);
        }
        for (key, value) in updates.keys.into_iter().zip(updates.values) {
            assert!(server.insert(key, value).is_some());
        }
        server.extend(upserts.keys.into_iter().zip(upserts.values));
        for key in removes {
            server.remove(&key);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_overlay_answers_as_a_map(
        server in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 1), 0..8),
        jobs in prop::collection::vec(test_job(), 1..8),
    ) {
        let (mut server, mut map, mut overlay) = (server.clone(), server, Overlay::for_writes());
        for TestJob { fetched, steps, is_kept } in jobs {
            fetch(&mut overlay, &server, fetched);
            let before = overlay.tables.clone();
            let mut rounds = 0;
            let answers = loop {
                overlay.begin_job();
                if let Some(answers) = run(&mut overlay, &steps) {
                    break answers;
                }
                overlay.undo_job();
                let lacks = overlay.take_lacks();
                prop_assert!(!lacks.is_empty());
                fetch(&mut overlay, &server, lacks);
                rounds += 1;
                prop_assert!(rounds < ROUNDS_MAX);
            };
            let mut after = map.clone();
            let right: Vec<Answer> = steps.iter().map(|step| expected(&mut after, step)).collect();
            prop_assert_eq!(answers, right);
            if is_kept {
                overlay.keep_job();
                map = after;
            } else {
                overlay.undo_job();
                for (before, now) in before.iter().zip(&overlay.tables) {
                    prop_assert_eq!(&before.written, &now.written);
                    if rounds == 0 {
                        prop_assert_eq!(before, now);
                    }
                }
            }
        }
        write(&mut server, overlay.into_changes());
        prop_assert_eq!(server, map);
    }
}

fn found(key: &[u8], value: &[u8]) -> Vec<KeyValue> {
    vec![(key.to_vec(), value.to_vec())]
}

fn list(key: &[u8], value: &[u8]) -> RowList {
    RowList { keys: vec![key.to_vec()], values: vec![value.to_vec()] }
}

#[test]
fn the_way_of_writing_depends_on_what_was_read() {
    let mut overlay = Overlay::for_writes();
    overlay.add_rows(
        TABLE,
        vec![b"absent".to_vec(), b"locked".to_vec(), b"same".to_vec()],
        found(b"locked", b"1"),
        true,
    );
    overlay.add_rows(TABLE, vec![b"same".to_vec()], found(b"same", b"1"), true);
    overlay.add_rows(TABLE, vec![b"peeked".to_vec()], found(b"peeked", b"1"), false);
    for key in ["absent", "locked", "peeked", "unread"] {
        overlay.put(TABLE, key.as_bytes(), b"2").unwrap();
    }
    overlay.put(TABLE, b"same", b"1").unwrap();
    let changes = overlay.into_changes();
    assert_eq!(changes.len(), 1);
    let TableChanges { inserts, updates, upserts, removes, .. } = &changes[0];
    assert_eq!(*inserts, list(b"absent", b"2"));
    assert_eq!(*updates, list(b"locked", b"2"));
    assert_eq!(upserts.keys, [b"peeked", b"unread"]);
    assert!(removes.is_empty());
}

#[test]
fn a_row_that_its_account_guards_needs_no_lock() {
    let mut overlay = Overlay::for_writes();
    overlay.begin_job();
    overlay.get(Table::Holds, b"k", &mut |_| {}).unwrap_err();
    assert_eq!(overlay.take_lacks(), BTreeSet::from([Lack::Peek(Table::Holds, b"k".to_vec())]));
    overlay.add_rows(Table::Holds, vec![b"k".to_vec()], found(b"k", b"1"), false);
    assert!(overlay.get(Table::Holds, b"k", &mut |_| {}).unwrap());
    // What was read before its account was locked is read again.
    overlay.want(Lack::Row(Table::Accounts, b"a".to_vec()));
    let lacks = [Lack::Row(Table::Accounts, b"a".to_vec()), Lack::Peek(Table::Holds, b"k".to_vec())];
    assert_eq!(overlay.take_lacks(), BTreeSet::from(lacks));
    overlay.get(Table::Holds, b"k", &mut |_| {}).unwrap_err();
    overlay.add_rows(Table::Holds, vec![b"k".to_vec()], found(b"k", b"2"), false);
    overlay.put(Table::Holds, b"k", b"3").unwrap();
    let changes = overlay.into_changes();
    assert_eq!(changes[0].updates, list(b"k", b"3"));
    assert!(changes[0].upserts.keys.is_empty());
}

#[test]
fn a_row_without_a_lock_is_read_again_with_one() {
    let mut overlay = Overlay::for_writes();
    overlay.add_rows(TABLE, vec![b"k".to_vec()], found(b"k", b"1"), false);
    overlay.begin_job();
    assert!(overlay.peek(TABLE, b"k", &mut |_| {}).unwrap());
    assert!(!overlay.has_missed());
    overlay.get(TABLE, b"k", &mut |_| {}).unwrap_err();
    assert!(overlay.has_missed());
    assert_eq!(overlay.take_lacks(), BTreeSet::from([Lack::Row(TABLE, b"k".to_vec())]));
    overlay.add_rows(TABLE, vec![b"k".to_vec()], found(b"k", b"2"), true);
    // A later read without a lock is older or the same.
    overlay.add_rows(TABLE, vec![b"k".to_vec()], Vec::new(), false);
    let mut value = Vec::new();
    assert!(overlay.get(TABLE, b"k", &mut |now| value = now.to_vec()).unwrap());
    assert_eq!(value, b"2");
}

/// A walk without a limit fetches a page, then larger ones.
#[test]
fn a_long_walk_is_fetched_in_growing_pages() {
    let server: Map = (0..100_000u32).map(|key| (key.to_be_bytes().to_vec(), vec![0])).collect();
    for backwards in [false, true] {
        let mut overlay = Overlay::for_reads();
        let mut rounds = 0;
        loop {
            let mut rows = 0;
            let walked = overlay.walk(TABLE, KeyRange { backwards, ..KeyRange::ALL }, &mut |_, _| {
                rows += 1;
                Ok(Walk::On)
            });
            if walked.is_ok() {
                assert_eq!(rows, server.len());
                break;
            }
            rounds += 1;
            let lacks = overlay.take_lacks();
            fetch(&mut overlay, &server, lacks);
        }
        assert_eq!(rounds, 4);
    }
}
