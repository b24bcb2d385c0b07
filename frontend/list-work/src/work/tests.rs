//! The turns of lists, with the answers that a test gives.

use super::*;
use crate::results::{ReportRequest, ResultFormat, Selection, Wanted};
use crate::temp::faults::Fault;
use crate::tests::{contents, contents_with, opened};
use api::Noted;
use calamine::{Data, Reader as _, Xlsx};
use lists::{Class, ReadOptions, Source};
use std::cell::RefCell;
use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex};
use store::{
    AccountId, Authority, Basis, ListRoom, NewAccount, NewPart, PartPut, PlanTable, RowAnswer, RowOutcome,
    Verdict,
};
use store_redb::StoreOptions;
use store_rules::Store;

#[test]
fn one_lists_failure_is_not_that_of_others() {
    let (_folder, store, account) = store_with_account();
    let made: Vec<ListId> = (1..=3).map(|n| make(&store, account, n)).collect();
    let mut worker = worker(&store);
    let turns = RefCell::new(Vec::new());
    let turn = |_: &mut Worker, list: List| {
        turns.borrow_mut().push(list.id);
        assert_ne!(list.id, made[0], "a defect");
        if list.id == made[1] { Err(StoreError::Failed("a fault".into()).into()) } else { Ok(()) }
    };
    let list = |n: usize| store.list(account, made[n], clock::now()).wait().unwrap().unwrap();
    for panics in 1..=3 {
        turns.borrow_mut().clear();
        assert_eq!(worker.round(turn), Ok(true));
        assert_eq!(*turns.borrow(), made);
        let why = if panics < 3 { PANIC_WAIT } else { GIVEN_UP };
        assert_eq!([&*list(0).why, &list(1).why, &list(2).why], [why, "", ""]);
        turns.borrow_mut().clear();
        assert_eq!(worker.round(turn), Ok(true));
        assert_eq!(*turns.borrow(), [made[2]], "two rest, or one is given up");
        worker.troubles.wake();
    }
    let states = [0, 1, 2].map(|n| list(n).state);
    assert_eq!(states, [ListState::Unfit, ListState::Reading, ListState::Reading]);
}

#[test]
fn nothing_is_charged_for_a_list_that_is_gone() {
    let (_folder, store, account) = store_with_account();
    let all_held = || store.account(account, clock::now()).wait().unwrap().unwrap().balance.held;
    let held = |number: u128, is_deleted: bool| {
        let list = running(&store, account, number, 1_000);
        let mut worker = worker(&store);
        let before = all_held();
        if is_deleted {
            assert!(store.delete_list(account, list.id, clock::now()).wait().unwrap().is_some());
        }
        assert_eq!(worker.go_on(list).is_err(), is_deleted);
        all_held() - before
    };
    assert_eq!((held(1, false), held(2, true)), (1_000, 0));
}

#[test]
fn few_lists_are_open_at_once_and_all_have_their_turn() {
    let (_folder, store, account) = store_with_account();
    for number in 0..12 {
        running(&store, account, number, 5_000);
    }
    let mut worker = worker(&store);
    let begun = |store: &Arc<Store>| {
        let lists = store.lists(account, clock::now()).wait().unwrap();
        lists.iter().filter(|list| list.submitted > 0).count()
    };
    assert_eq!(worker.round(Worker::turn), Ok(true));
    assert_eq!((worker.open.len(), begun(&store)), (SUBMITTED_AT_ONCE, SUBMITTED_AT_ONCE));
    // Their batches get no answers, so these lists are idle and other lists get their places.
    for _ in 0..2 * (12 - SUBMITTED_AT_ONCE) {
        for open in worker.open.values_mut() {
            open.last -= IDLE_MAX;
        }
        assert_eq!(worker.round(Worker::turn), Ok(true));
        assert!(worker.open.len() <= SUBMITTED_AT_ONCE);
    }
    assert_eq!(begun(&store), 12);
}

/// Stores a list with this content, of which the upload has not ended.
pub(crate) fn stored(store: &Arc<Store>, account: AccountId, number: u128, content: &[u8]) -> List {
    let now = clock::now();
    let mut list = List::new(ListId::new(now, number), account, now, String::new());
    store.create_list(&list, ListRoom::MOST, None, now).wait().unwrap();
    list.bytes = content.len() as u64;
    for (number, plain) in (0..).zip(content.chunks(store::LIST_PART_BYTES)) {
        let from = u64::from(number) * store::LIST_PART_BYTES as u64;
        let part = NewPart { number, from, to: from + plain.len() as u64, plain, by: Authority::OPERATOR };
        assert_eq!(store.put_list_part(&list, part, ListRoom::MOST, now).wait(), Ok(PartPut::Stored));
    }
    list
}

/// Stores a list in place of one of which the upload has not ended.
pub(crate) fn put(store: &Arc<Store>, list: List) -> List {
    assert_eq!(store.put_list(&list, ListState::Uploading, None, clock::now()).wait(), Ok(true));
    list
}

/// Uploads a list.
pub(crate) fn sent(store: &Arc<Store>, account: AccountId, content: &[u8]) -> List {
    let list = stored(store, account, 77 + content.len() as u128, content);
    let now = clock::now();
    store.end_upload(&list, None, Authority::OPERATOR, now).wait().unwrap();
    store.list(account, list.id, now).wait().unwrap().unwrap()
}

/// Uploads a list and reads it.
fn uploaded(store: &Arc<Store>, account: AccountId, content: &str) -> List {
    let now = clock::now();
    let list = sent(store, account, content.as_bytes());
    let mut worker = worker(store);
    loop {
        worker.round(Worker::turn).unwrap();
        let list = store.list(account, list.id, now).wait().unwrap().unwrap();
        if list.state != ListState::Reading {
            return list;
        }
    }
}

fn text(store: &Arc<Store>, list: &List, classes: &[Class]) -> String {
    text_of(store, list, Selection { classes: classes.to_vec(), ..Selection::ALL })
}

fn text_of(store: &Arc<Store>, list: &List, selection: Selection) -> String {
    let pieces = opened(&contents(store), list, &Wanted::Rows(selection)).unwrap();
    String::from_utf8(pieces.flat_map(Result::unwrap).collect()).unwrap()
}

#[test]
fn each_different_address_is_asked_about_once_and_all_rows_get_its_answer() {
    let (_folder, store, account) = store_with_account();
    let content: String =
        (0..1_000).map(|n| format!("{}{}@example.com\n", ["a", "A"][n % 2], n % 450)).collect();
    let list = uploaded(&store, account, &(content + "none\n"));
    assert_eq!((list.state, list.rows, list.addresses), (ListState::Ready, 1_001, 1_000));
    assert_eq!((list.distinct, list.price()), (450, 450));
    let running = List { state: ListState::Running, ..list.clone() };
    assert_eq!(store.put_list(&running, ListState::Ready, None, clock::now()).wait(), Ok(true));
    let mut worker = worker(&store);
    worker.round(Worker::turn).unwrap();
    let mut open = store.open_batches().wait().unwrap();
    // Their ids are hashes.
    open.sort_by_key(|open| std::cmp::Reverse(open.total));
    assert_eq!(open.iter().map(|open| open.total).collect::<Vec<_>>(), [200, 200, 50]);
    // One batch has all its answers, one has some.
    let answer = |number: u32| {
        let (batch, index) = (store.batch_of_list(&list, number / 200), number % 200);
        let reason = if index < 50 { Reason::CatchAll } else { Reason::MailboxExists };
        let outcome = RowOutcome::Verified(Verdict { basis: basis(format!("r{number}")), ..reason.into() });
        RowAnswer { batch, index, outcome }
    };
    let answers = (0..220).map(answer);
    store.answer_rows(answers.collect(), clock::now()).wait().unwrap();
    worker.round(Worker::turn).unwrap();
    let list = store.list(account, list.id, clock::now()).wait().unwrap().unwrap();
    assert_eq!((list.done, list.charged, list.answered()), (1, 200, 200));
    let cancelled = store.cancel_list(account, list.id, clock::now()).wait().unwrap().unwrap().list;
    assert_eq!((cancelled.done, cancelled.charged, cancelled.answered()), (3, 220, 220));
    let rows = text(&store, &cancelled, &[]);
    let with_answer = (0..1_000).filter(|n| n % 450 < 220).count();
    assert_eq!(rows.lines().count(), with_answer + 1);
    for line in rows.lines().filter(|line| *line != "none,false,invalid_syntax") {
        let number: usize = line[1..].split('@').next().unwrap().parse().unwrap();
        let is_catch_all = number < 50 || (200..220).contains(&number);
        assert!(
            line.ends_with(if is_catch_all { ",false,catch_all" } else { ",true,mailbox_exists" }),
            "{line}"
        );
    }
    let with_evidence = text_of(&store, &cancelled, Selection { evidence: true, ..Selection::ALL });
    for (line, plain) in with_evidence.lines().zip(rows.lines()) {
        let number = plain[1..].split('@').next().unwrap();
        let rule =
            if plain.starts_with("none") { ",,,,," } else { &format!(",r{number},,,,1970-01-01T00:00:07Z") };
        assert_eq!(line, format!("{plain}{rule}"));
    }
    let good = text(&store, &cancelled, &[Class::Deliverable]);
    assert_eq!(good.lines().count(), (0..1_000).filter(|n| (50..200).contains(&(n % 450))).count());
    assert_eq!(store.account(account, clock::now()).wait().unwrap().unwrap().balance.held, 0);
}

/// The beginning of a list, after which the store fails.
struct Failing {
    text: Cursor<&'static str>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.text.read(buffer)? {
            0 => {
                *self.failure.lock().unwrap() = Some(StoreError::Away("no database".into()));
                Err(io::Error::other("no database"))
            }
            count => Ok(count),
        }
    }
}

#[test]
fn an_outage_of_the_store_is_no_fault_of_the_list() {
    let failure = Arc::new(Mutex::new(None));
    // As long as what is read at once, and with more behind it.
    let text = "a@example.com\n".repeat(100_000).leak();
    let input = Failing { text: Cursor::new(text), failure: Arc::clone(&failure) };
    let source = Source::new(Box::new(input), "x", None, &ReadOptions::default()).unwrap();
    let (mut source, mut row, mut rows) = (ListSource::new(source, failure), Row::default(), 0);
    let error = loop {
        match source.step(&mut row) {
            Ok(Step::Row) => rows += 1,
            Ok(Step::Later) => {}
            Ok(Step::End) => panic!("it has no end"),
            Err(error) => break error,
        }
    };
    assert!(rows > 0);
    assert_eq!(error, SourceError::Store(StoreError::Away("no database".into())));
    let error = source.step(&mut row).unwrap_err();
    assert!(matches!(error, SourceError::Unfit(_) | SourceError::Store(_)));
}

#[test]
fn a_worker_that_was_away_begins_again_where_the_list_is() {
    let (_folder, store, account) = store_with_account();
    let list = running(&store, account, 1, 1_000);
    let mut open = Open::new(contents(&store).open(&list).unwrap().unwrap());
    let first = |rows: Option<Rows>| rows.map(|rows| rows[0].0.clone());
    for number in 0..3 {
        let list = List { submitted: number * BATCH_ADDRESSES, ..list.clone() };
        assert!(!open.is_stale(&list));
        let at = format!("{}@example.com", list.submitted);
        assert_eq!(first(open.batch(&store, &list).unwrap()), Some(at));
    }
    // Another node has gone on, or has put an earlier state back.
    assert!(!open.is_stale(&List { submitted: 4 * BATCH_ADDRESSES, ..list.clone() }));
    assert!(open.is_stale(&List { submitted: BATCH_ADDRESSES, ..list.clone() }));
    open.batch.push((String::new(), store.hash_address("x@example.com")));
    open.addresses += 1;
    assert!(!open.is_stale(&List { submitted: 3 * BATCH_ADDRESSES, ..list.clone() }));
    assert!(open.is_stale(&List { submitted: 4 * BATCH_ADDRESSES, ..list }));
}

/// Rows that wait, for example after greylisting, do not stop the others.
#[test]
fn rows_that_wait_do_not_stop_the_others() {
    let (_folder, store, account) = store_with_account();
    let mut list = running(&store, account, 1, 40_000);
    let mut worker = worker(&store);
    let outcome = RowOutcome::Verified(Reason::MailboxExists.into());
    let mut answered = 0;
    for round in 0..40 {
        worker.go_on(list.clone()).unwrap();
        list = store.list(account, list.id, clock::now()).wait().unwrap().unwrap();
        let submitted = batches(list.submitted);
        assert_eq!(list.done, 0, "a row of the first batch waits");
        assert!(submitted <= window::SPAN_MAX, "{submitted} in round {round}");
        for number in answered..submitted {
            let batch = store.batch_of_list(&list, number);
            let rows = 1..BATCH_ADDRESSES as u32;
            let answers = rows.map(|index| RowAnswer { batch, index, outcome: outcome.clone() }).collect();
            store.answer_rows(answers, clock::now()).wait().unwrap();
        }
        answered = submitted;
    }
    assert_eq!(answered, window::SPAN_MAX);
    let cancelled = store.cancel_list(account, list.id, clock::now()).wait().unwrap().unwrap().list;
    assert_eq!(cancelled.charged, u64::from(window::SPAN_MAX) * (BATCH_ADDRESSES - 1));
}

#[test]
fn a_list_that_another_rule_has_read_is_not_used() {
    let (_folder, store, account) = store_with_account();
    let list = checked(&store, account, "a@example.com\nb@example.com\n");
    assert_eq!(list.rule, lists::RULE);
    let other = List { rule: lists::RULE + 1, ..list.clone() };
    assert!(opened(&contents(&store), &other, &Wanted::Rows(Selection::ALL)).is_err());
    // Whatever the cause: verdicts of other rows are never shown.
    let longer = List { rows: list.rows + 1, ..list };
    let mut results = opened(&contents(&store), &longer, &Wanted::Rows(Selection::ALL)).unwrap();
    assert!(results.any(|piece| piece.is_err()));

    let list = running(&store, account, 9, 1_000);
    let other = List { rule: lists::RULE + 1, ..list };
    assert_eq!(store.put_list(&other, ListState::Running, None, clock::now()).wait(), Ok(true));
    worker(&store).round(Worker::turn).unwrap();
    let unfit = store.list(account, other.id, clock::now()).wait().unwrap().unwrap();
    assert_eq!((unfit.state, unfit.submitted), (ListState::Unfit, 0));
    assert!(unfit.why.contains("Upload it again"));
}

#[test]
fn a_list_of_an_earlier_version_is_checked_row_by_row() {
    let (_folder, store, account) = store_with_account();
    let list = uploaded(&store, account, "x@example.com\ny@example.com\nx@example.com\n");
    let old = List { state: ListState::Running, distinct: 3, by_row: true, ..list };
    assert_eq!(store.put_list(&old, ListState::Ready, None, clock::now()).wait(), Ok(true));
    worker(&store).round(Worker::turn).unwrap();
    let batch = store.batch_of_list(&old, 0);
    let rows = store.unanswered(batch).wait().unwrap();
    assert_eq!(rows.len(), 3);
    let outcome = RowOutcome::Verified(Reason::MailboxExists.into());
    let repeated = RowOutcome::Repeated(Reason::MailboxExists.into());
    let answers = [(0, outcome.clone()), (1, outcome), (2, repeated)];
    let answers = answers.map(|(index, outcome)| RowAnswer { batch, index, outcome }).to_vec();
    store.answer_rows(answers, clock::now()).wait().unwrap();
    worker(&store).round(Worker::turn).unwrap();
    let list = store.list(account, old.id, clock::now()).wait().unwrap().unwrap();
    assert_eq!((list.state, list.answered()), (ListState::Completed, 3));
    assert_eq!(store.account(account, clock::now()).wait().unwrap().unwrap().balance.spent, 3);
    assert_eq!(text(&store, &list, &[]).lines().count(), 3);
}

fn basis(rule: String) -> Option<Arc<Basis>> {
    Some(Arc::new(Basis { rule: rule.into(), host: None, reply: None, observed_at: 7_000 }))
}

/// Uploads a list, starts it, and answers each address with `mailbox_exists`.
fn checked(store: &Arc<Store>, account: AccountId, content: &str) -> List {
    let list = uploaded(store, account, content);
    let running = List { state: ListState::Running, ..list };
    assert_eq!(store.put_list(&running, ListState::Ready, None, clock::now()).wait(), Ok(true));
    worker(store).round(Worker::turn).unwrap();
    let batch = store.batch_of_list(&running, 0);
    let verdict = Verdict { basis: basis("unknown".into()), ..Reason::MailboxExists.into() };
    let outcome = RowOutcome::Verified(verdict);
    let rows = store.unanswered(batch).wait().unwrap();
    let answers =
        (0..rows.len() as u32).map(|index| RowAnswer { batch, index, outcome: outcome.clone() }).collect();
    store.answer_rows(answers, clock::now()).wait().unwrap();
    worker(store).round(Worker::turn).unwrap();
    let list = store.list(account, running.id, clock::now()).wait().unwrap().unwrap();
    assert_eq!(list.state, ListState::Completed);
    assert!(list.ended_at >= running.created_at);
    list
}

/// The cells of a spreadsheet without its header.
fn sheet(bytes: Vec<u8>) -> Vec<Vec<String>> {
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).unwrap();
    let range = book.worksheet_range("Sheet1").unwrap();
    range.rows().skip(1).map(|row| row.iter().map(Data::to_string).collect()).collect()
}

#[test]
fn results_can_be_a_spreadsheet_or_a_report() {
    let (_folder, store, account) = store_with_account();
    let csv = "name,email\n=1+1,A0@example.com\n\" two\nlines\",b@gmial.com\nx,none\n";
    let json = "{\"email\":\"a0@example.com\",\"n\":1}\n{\"email\":\"none\",\"later\":null}\n{\"email\":\"b@gmial.com\"}\n";
    for (content, all, one) in [
        (
            csv,
            vec![
                vec!["=1+1", "A0@example.com", "true", "mailbox_exists"],
                vec![" two\nlines", "b@gmial.com", "true", "mailbox_exists"],
                vec!["x", "none", "false", "invalid_syntax"],
            ],
            vec![vec!["x", "none", "false", "invalid_syntax"]],
        ),
        (
            json,
            vec![
                vec!["a0@example.com", "1", "true", "mailbox_exists", ""],
                vec!["none", "", "false", "invalid_syntax", ""],
                vec!["b@gmial.com", "", "true", "mailbox_exists", ""],
            ],
            vec![vec!["none", "", "false", "invalid_syntax", ""]],
        ),
    ] {
        let list = checked(&store, account, content);
        let made = |wanted| -> Vec<u8> {
            let results = opened(&contents(&store), &list, &wanted).unwrap();
            results.flat_map(Result::unwrap).collect()
        };
        let rows = |classes: &[Class], evidence| {
            let (format, classes) = (ResultFormat::Xlsx, classes.to_vec());
            sheet(made(Wanted::Rows(Selection { format, classes, evidence })))
        };
        assert_eq!(rows(&[], false), all);
        assert_eq!(rows(&[Class::Undeliverable], false), one);
        let with_evidence = all.into_iter().map(|mut row| {
            let has = row[3] == "mailbox_exists";
            let evidence = if has { ["unknown", "", "", "", "1970-01-01T00:00:07Z"] } else { [""; 5] };
            row.splice(4..4, evidence);
            row
        });
        assert_eq!(rows(&[], true), with_evidence.collect::<Vec<_>>());
        let request = ReportRequest {
            lists: Arc::default(),
            name: "june.csv".into(),
            date: "2026-11-25".into(),
            version: "1".into(),
            back: "/lists/1".into(),
        };
        let page = String::from_utf8(made(Wanted::Report(request))).unwrap();
        for text in
            ["<!DOCTYPE html>", "june.csv", "gmial.com", "gmail.com", "mailbox_exists", "invalid_syntax"]
        {
            assert!(page.contains(text), "{text}");
        }
    }
}

fn worker(store: &Arc<Store>) -> Worker {
    worker_with(store, &TempFiles::new(&std::env::temp_dir()))
}

fn worker_with(store: &Arc<Store>, files: &Arc<TempFiles>) -> Worker {
    let new_batches = Arc::new(NewBatches::default());
    Worker::new(contents_with(store, files), new_batches, Arc::clone(files), Worker::figures())
}

pub(crate) fn store_with_account() -> (tempfile::TempDir, Arc<Store>, AccountId) {
    let (folder, now) = (tempfile::tempdir().unwrap(), clock::now());
    let options = StoreOptions::default();
    let store = store_redb::open(folder.path(), PlanTable::standard(), options, now).unwrap().0;
    let account = AccountId::new(now, 1);
    let new = NewAccount { id: account, name: "a".into(), plan: "scale".into() };
    store.create_account(new, now).wait().unwrap();
    (folder, store, account)
}

/// A list with this number of addresses, in state `Running`.
fn running(store: &Arc<Store>, account: AccountId, number: u128, addresses: u64) -> List {
    let content: String = (0..addresses).map(|n| format!("{n}@example.com\n")).collect();
    let list = stored(store, account, number, content.as_bytes());
    put(store, List { rows: addresses, addresses, distinct: addresses, state: ListState::Running, ..list })
}

fn make(store: &Arc<Store>, account: AccountId, number: u128) -> ListId {
    put(store, List { state: ListState::Reading, ..stored(store, account, number, b"") }).id
}

#[test]
fn a_download_has_the_name_of_its_list_and_its_rows() {
    let selection = |classes: &[Class]| Selection { classes: classes.to_vec(), ..Selection::ALL };
    for (list, classes, name) in [
        ("customers.csv", &[Class::Unknown][..], "customers.unknown.csv"),
        ("customers.csv", &[], "customers.results.csv"),
        ("May 2026.CSV.gz", &[Class::Deliverable, Class::Unknown], "May-2026.deliverable-unknown.csv"),
        ("v1.2.xlsx", &[], "v1.2.results.csv"),
        ("m\u{fc}ller \"x\"\r\n;../.csv", &[], "m-ller-x.results.csv"),
        ("\u{44f}\u{44f}", &[], "list.results.csv"),
        ("", &[], "list.results.csv"),
        (".csv", &[], "list.results.csv"),
        (&"a".repeat(99), &[], &format!("{}.results.csv", "a".repeat(60))),
    ] {
        assert_eq!(selection(classes).file_name(list, "csv"), name, "{list}");
    }
}

#[test]
fn the_reading_of_a_list_says_where_the_addresses_are() {
    let (_folder, store, account) = store_with_account();
    let mut worker = worker(&store);
    let mut found = |content: &str| {
        let list = uploaded(&store, account, content);
        let read = loop {
            let list = store.list(account, list.id, clock::now()).wait().unwrap().unwrap();
            if list.state != ListState::Reading {
                break list;
            }
            worker.round(Worker::turn).unwrap();
        };
        let found = read.found.unwrap();
        assert!(found.read_at >= read.created_at && found.sheets == 0);
        (found.column, found.column_number, found.columns, found.header, found.others, found.cells_with_more)
    };
    let none: [&str; 0] = [];
    let others = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let more = |count, first_row| Noted { count, first_row };
    let csv = "Name,Mail 1,Mail 2\nx,a@example.com,b@example.com\ny,c@example.com,d@example.com\n";
    assert_eq!(found(csv), ("Mail 1".to_owned(), 2, 3, Some(true), others(&["Mail 2"]), more(0, 0)));
    let csv = "x;a@example.com\ny;b@example.com, c@example.com\nz;d@example.com / e@example.com\n";
    assert_eq!(found(csv), (String::new(), 2, 2, Some(false), others(&none), more(2, 2)));
    let json = "{\"mail\":\"a@example.com; b@example.com\"}\n";
    assert_eq!(found(json), ("mail".to_owned(), 0, 0, None, others(&none), more(1, 1)));
    assert_eq!(found("a@example.com\nb@example.com\n").2, 0);
}

mod machine;
