//! Faults of this machine and of this program: a list goes on afterwards, or ends with a refund.

use super::*;
use crate::tests::{ods, xlsx, xlsx_of};
use engine::proto::sharing::Bounds;
use std::thread;
use store_rules::Store;

/// The different addresses of [`spreadsheet`]: more than the search for duplicates keeps in memory.
const DIFFERENT: u64 = 1_100;

/// A list of 3,000 rows.
fn spreadsheet() -> Vec<u8> {
    xlsx_of((0..3_000).map(|n| format!("a{}@example.com", n.min(DIFFERENT - 1))))
}

fn files() -> Arc<TempFiles> {
    TempFiles::new(&std::env::temp_dir())
}

fn now_of(store: &Arc<Store>, list: &List) -> List {
    store.list(list.account, list.id, clock::now()).wait().unwrap().unwrap()
}

fn spent_and_held(store: &Arc<Store>, account: AccountId) -> (u64, u64) {
    let balance = store.account(account, clock::now()).wait().unwrap().unwrap().balance;
    (balance.spent, balance.held)
}

/// Answers all addresses that are asked.
fn answer_all(store: &Arc<Store>) {
    let outcome = RowOutcome::Verified(Reason::MailboxExists.into());
    for open in store.open_batches().wait().unwrap() {
        let rows = store.unanswered(open.batch).wait().unwrap();
        let answers = rows.iter().map(|row| (row.index, outcome.clone()));
        let answers = answers.map(|(index, outcome)| RowAnswer { batch: open.batch, index, outcome });
        store.answer_rows(answers.collect(), clock::now()).wait().unwrap();
    }
}

/// Works until the list has this state. Pauses are skipped.
fn work_until(worker: &mut Worker, store: &Arc<Store>, list: &List, wanted: ListState) -> List {
    for _ in 0..2_000 {
        worker.troubles.wake();
        worker.round(Worker::turn).unwrap();
        answer_all(store);
        let list = now_of(store, list);
        if list.state == wanted {
            return list;
        }
        assert_ne!(list.state, ListState::Unfit, "{}", list.why);
        if !worker.more {
            thread::sleep(Duration::from_millis(2));
        }
    }
    panic!("it is {:?}", now_of(store, list));
}

fn start(store: &Arc<Store>, list: &List) -> List {
    let running = List { state: ListState::Running, ..list.clone() };
    assert_eq!(store.put_list(&running, ListState::Ready, None, clock::now()).wait(), Ok(true));
    running
}

/// Each operation on a temporary file fails once in turn, from the upload to the download.
#[test]
fn a_list_goes_on_after_a_fault_at_any_step() {
    let content = spreadsheet();
    for number in 1.. {
        let (_folder, store, account) = store_with_account();
        let files = files();
        let fault = match number % 4 {
            0 => Fault::Panic,
            at => Fault::Errno([28, 24, 5][at as usize - 1]),
        };
        files.faults.plan(number, fault);
        let list = sent(&store, account, &content);
        let mut worker = worker_with(&store, &files);
        let ready = work_until(&mut worker, &store, &list, ListState::Ready);
        assert_eq!((ready.rows, ready.distinct, &*ready.why), (3_000, DIFFERENT, ""), "{number}");
        start(&store, &ready);
        // Opened anew, as after a restart.
        let mut worker = worker_with(&store, &files);
        files.forget(list.id);
        let completed = work_until(&mut worker, &store, &list, ListState::Completed);
        assert_eq!((completed.charged, &*completed.why), (DIFFERENT, ""), "{number}");
        assert_eq!(spent_and_held(&store, account), (DIFFERENT, 0), "{number}");
        let contents = worker.contents.clone();
        files.forget(list.id);
        let download = || -> Option<String> {
            let pieces = opened(&contents, &completed, &Wanted::Rows(Selection::ALL)).ok()?;
            pieces
                .map(Result::ok)
                .collect::<Option<Vec<_>>>()
                .map(|pieces| String::from_utf8(pieces.concat()).unwrap())
        };
        let text = std::iter::repeat_with(|| {
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(download)).ok().flatten();
            if made.is_none() {
                thread::sleep(Duration::from_millis(5));
            }
            made
        });
        let text = text.take(10).flatten().next().expect("a download succeeds after some tries");
        assert_eq!(text.lines().filter(|line| line.ends_with(",true,mailbox_exists")).count(), 3_000);
        if files.faults.is_left() {
            assert!(number > 20, "there are {number} operations");
            return;
        }
    }
}

#[test]
fn a_list_waits_for_a_full_disk_and_says_so() {
    let (_folder, store, account) = store_with_account();
    let files = files();
    let list = sent(&store, account, &spreadsheet());
    let mut worker = worker_with(&store, &files);
    let fail = |worker: &mut Worker, state| {
        files.forget(list.id);
        files.faults.plan(1, Fault::Errno(28));
        for _ in 0..2_000 {
            worker.round(Worker::turn).unwrap();
            let now = now_of(&store, &list);
            assert_eq!(now.state, state);
            if now.why == MACHINE_WAIT {
                assert!(worker.troubles.rests(list.id, Instant::now()), "there is a pause");
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("it does not say what it waits for");
    };
    fail(&mut worker, ListState::Reading);
    let ready = work_until(&mut worker, &store, &list, ListState::Ready);
    assert_eq!(ready.why, "");
    start(&store, &ready);
    fail(&mut worker, ListState::Running);
    assert_eq!(spent_and_held(&store, account), (0, 0));
    work_until(&mut worker, &store, &list, ListState::Completed);
    assert_eq!(spent_and_held(&store, account), (DIFFERENT, 0));
}

#[test]
fn a_list_that_panics_again_and_again_ends_with_a_refund() {
    let (_folder, store, account) = store_with_account();
    let list = running(&store, account, 1, 1_000);
    let mut worker = worker(&store);
    worker.go_on(list.clone()).unwrap();
    // One batch has an answer, the others have none.
    let outcome = RowOutcome::Verified(Reason::CatchAll.into());
    let batch = store.batch_of_list(&list, 1);
    let answer = RowAnswer { batch, index: 7, outcome };
    store.answer_rows(vec![answer], clock::now()).wait().unwrap();
    assert_eq!(spent_and_held(&store, account), (0, 1_000));
    for _ in 0..3 {
        assert_eq!(now_of(&store, &list).state, ListState::Running);
        worker.troubles.wake();
        worker.round(|_, _| panic!("a defect")).unwrap();
    }
    let ended = now_of(&store, &list);
    assert_eq!((ended.state, &*ended.why, ended.charged), (ListState::Unfit, GIVEN_UP, 1));
    assert_eq!(spent_and_held(&store, account), (1, 0));
    assert_eq!(text(&store, &ended, &[]), "207@example.com,false,catch_all\n");
}

#[test]
fn a_running_list_that_becomes_unfit_keeps_what_was_answered() {
    let (_folder, store, account) = store_with_account();
    let list = running(&store, account, 1, 6_000);
    let mut worker = worker(&store);
    worker.go_on(list.clone()).unwrap();
    assert_eq!(spent_and_held(&store, account), (0, 4_000));
    answer_all(&store);
    // There are fewer addresses than were counted.
    let running = now_of(&store, &list);
    let longer = List { rows: 9_000, addresses: 9_000, distinct: 9_000, ..running };
    assert_eq!(store.put_list(&longer, ListState::Running, None, clock::now()).wait(), Ok(true));
    for _ in 0..20 {
        worker.round(Worker::turn).unwrap();
    }
    let ended = now_of(&store, &list);
    assert_eq!((ended.state, &*ended.why), (ListState::Unfit, "The list ended too early."));
    assert_eq!((spent_and_held(&store, account), ended.charged), ((4_000, 0), 4_000));
    let rows = text(&store, &List { rows: 6_000, addresses: 6_000, distinct: 6_000, ..ended }, &[]);
    assert_eq!(rows.lines().count(), 4_000);
}

/// Small files that take much disk or time: they are unfit, and a list of another account is read meanwhile.
#[test]
fn small_files_that_take_much_work_are_unfit() {
    let repeated = "<table:table-row table:number-rows-repeated=\"1048576\"><table:table-cell \
         table:number-columns-repeated=\"99\"><text:p>a@b.example</text:p></table:table-cell></table:table-row>";
    let blank = "<row><c t=\"s\"><v>9</v></c></row>".repeat(200_000);
    for content in [ods(repeated), xlsx(&blank, 9_000)] {
        assert!(content.len() < 100_000, "{}", content.len());
        let (_folder, store, account) = store_with_account();
        let (other, files) = (AccountId::new(0, 2), files());
        let new = NewAccount { id: other, name: "b".into(), plan: "scale".into() };
        store.create_account(new, clock::now()).wait().unwrap();
        let list = sent(&store, account, &content);
        let fast = sent(&store, other, b"a@example.com\n");
        let mut worker = worker_with(&store, &files);
        let mut rounds = 0;
        while now_of(&store, &list).state == ListState::Reading {
            worker.round(Worker::turn).unwrap();
            rounds += 1;
            assert!(rounds < 5 || now_of(&store, &fast).state == ListState::Ready);
            assert!(files.figures().used() < 64 << 20);
            thread::sleep(Duration::from_millis(5));
        }
        let list = now_of(&store, &list);
        assert_eq!(list.state, ListState::Unfit);
        assert_eq!(list.why, "The list cannot be read: it takes too much work for its size: save it as CSV");
        assert_eq!(files.figures().used(), 0);
    }
}

#[test]
fn a_list_that_takes_more_than_the_share_of_an_account_is_unfit() {
    let (_folder, store, account) = store_with_account();
    let folder = std::env::temp_dir();
    // Other work of the account has some of its share. For the smaller share, the list alone is too large.
    for (share, others, ends) in
        [(1 << 20, (1 << 20) - 2_000, ListState::Ready), (20_000, 15_000, ListState::Unfit)]
    {
        let files = TempFiles::with(&folder, folder.clone(), Bounds { share, all: 2 << 20 });
        let list = sent(&store, account, &spreadsheet());
        let mut worker = worker_with(&store, &files);
        let mut file = files.of(account).create_search().unwrap();
        spill::TemporaryFile::write_all_at(&mut file, &vec![0; others], 0).unwrap();
        let mut until = |state: ListState, why: &str| {
            for _ in 0..500 {
                worker.troubles.wake();
                worker.round(Worker::turn).unwrap();
                let now = now_of(&store, &list);
                if now.state == state && now.why == why {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("{}", now_of(&store, &list).why);
        };
        match ends {
            ListState::Ready => {
                until(ListState::Reading, SHARE_WAIT);
                drop(file);
                until(ListState::Ready, "");
            }
            _ => until(ListState::Unfit, TOO_LARGE),
        }
    }
}

#[test]
fn accounts_get_places_in_turns() {
    let (_folder, store, first) = store_with_account();
    let accounts = [first, AccountId::new(0, 2), AccountId::new(0, 3)];
    for (number, account) in accounts.iter().enumerate().skip(1) {
        let new = NewAccount { id: *account, name: format!("n{number}"), plan: "scale".into() };
        store.create_account(new, clock::now()).wait().unwrap();
    }
    let make = |account, n| List::new(ListId::new(0, n), account, 0, String::new());
    let lists: Vec<List> = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (2, 6)]
        .map(|(at, n): (usize, u128)| make(accounts[at], n))
        .to_vec();
    let mut worker = worker(&store);
    let numbers = |lists: Vec<List>| -> Vec<ListId> { lists.into_iter().map(|list| list.id).collect() };
    let (order, sorted) = worker.in_turns(lists);
    assert_eq!(order, accounts);
    assert_eq!(numbers(sorted), [1, 4, 5, 2, 6, 3].map(|n| ListId::new(0, n)));
    // One account has many lists. It reads two of them, and the other accounts have places too.
    for length in 1..=6 {
        sent(&store, first, "a@example.com\n".repeat(length).as_bytes());
    }
    for account in &accounts[1..] {
        sent(&store, *account, b"b@example.com\n");
    }
    worker.round(Worker::turn).unwrap();
    let of = |account| worker.counted.values().filter(|reading| reading.account == account).count();
    assert_eq!(accounts.map(of), [2, 1, 1]);
    assert_eq!(worker.counted_use.used(), 4);
}

/// Short rows that are filled up to a thousand columns, of which no row is wanted.
#[test]
fn a_piece_of_a_download_takes_bounded_work() {
    let (_folder, store, account) = store_with_account();
    let content = format!("email{}\n", ",".repeat(999)) + &"x\n".repeat(10_000);
    let mut list = sent(&store, account, content.as_bytes());
    (list.column, list.state, list.rows) = ("email".into(), ListState::Completed, 10_000);
    for format in [ResultFormat::Own, ResultFormat::Xlsx] {
        let wanted = Wanted::Rows(Selection { format, classes: vec![Class::Deliverable], ..Selection::ALL });
        let pieces = opened(&contents(&store), &list, &wanted).unwrap().map(Result::unwrap).count();
        assert!((40..60).contains(&pieces), "{pieces}");
    }
}

/// Nothing is looked for in the columns of a list that has too many.
#[test]
fn a_list_with_too_many_columns_is_unfit() {
    let (_folder, store, account) = store_with_account();
    let content = format!("email{}\n", ",".repeat(1_000)) + &"a@example.com\n".repeat(100);
    let list = sent(&store, account, content.as_bytes());
    let mut worker = worker(&store);
    worker.round(Worker::turn).unwrap();
    let list = now_of(&store, &list);
    assert_eq!((list.state, &*list.why), (ListState::Unfit, "The list has more than 1000 columns"));
}
