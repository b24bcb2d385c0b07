//! Downloads and their places.

use super::*;
use crate::results::Selection;
use crate::temp::TempFiles;
use crate::tests::{contents_with, xlsx_of};
use crate::work::tests::{put, stored};
use std::cell::Cell;
use std::task::Waker;
use store::clock;
use store::{Authority, KeyId, KeyMode, KeyScopes, ListState, NewAccount, NewKey, NewSession, PlanTable};
use store_redb::StoreOptions;
use store_rules::Store;

/// A list that needs no answers.
fn list(store: &Arc<Store>, account: AccountId, number: u128, content: &[u8], rows: u64) -> List {
    let list = stored(store, account, number, content);
    put(store, List { column: "email".into(), state: ListState::Completed, rows, ..list })
}

struct TestStore {
    _folder: tempfile::TempDir,
    store: Arc<Store>,
    files: Arc<TempFiles>,
    maker: Maker,
    jobs: Sender<DownloadJob>,
    queue: Receiver<DownloadJob>,
    /// Downloads that were requested. Each list has its own id.
    opened: Cell<u128>,
    /// What the downloads rest on.
    by: Authority,
}

impl TestStore {
    fn new() -> TestStore {
        let (folder, now) = (tempfile::tempdir().unwrap(), clock::now());
        let options = StoreOptions::default();
        let store = store_redb::open(folder.path(), PlanTable::standard(), options, now).unwrap().0;
        let files = TempFiles::new(folder.path());
        let (places, waiting) = Maker::shares();
        let maker = Maker::new(contents_with(&store, &files), places, waiting);
        let (jobs, queue) = channel();
        TestStore {
            _folder: folder,
            store,
            files,
            maker,
            jobs,
            queue,
            opened: Cell::new(0),
            by: Authority::OPERATOR,
        }
    }

    /// Requests a download of 2,000 rows without addresses.
    fn open(&self, account: u128) -> Pending<Opened, StoreError> {
        let content = "email\n".to_owned() + &"nothing\n".repeat(2_000);
        self.open_content(account, content.as_bytes(), 2_000)
    }

    fn open_content(&self, account: u128, content: &[u8], rows: u64) -> Pending<Opened, StoreError> {
        self.opened.set(self.opened.get() + 1);
        let number = account * 1_000 + self.opened.get();
        let (id, now) = (AccountId::new(0, account), clock::now());
        if self.store.account(id, now).wait().unwrap().is_none() {
            let new = NewAccount { id, name: format!("account {account}"), plan: "scale".into() };
            self.store.create_account(new, now).wait().unwrap();
        }
        let list = list(&self.store, id, number, content, rows);
        Downloads(self.jobs.clone()).open(list, Wanted::Rows(Selection::ALL), self.by)
    }

    /// Processes all requests so far.
    fn turn(&mut self, now: Instant) {
        while let Ok(job) = self.queue.try_recv() {
            self.maker.take(job, now);
        }
        self.maker.turn(now);
        while self.maker.next_look(now) == Some(Duration::ZERO) {
            self.maker.turn(now);
        }
    }
}

fn state<T>(pending: &mut Pending<T, StoreError>) -> Option<Result<T, StoreError>> {
    match Pin::new(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[test]
fn a_download_comes_whole() {
    let mut test = TestStore::new();
    let mut opened = test.open(1);
    test.turn(Instant::now());
    let mut pieces = state(&mut opened).unwrap().unwrap().pieces;
    let mut text = Vec::new();
    loop {
        match pieces.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => test.turn(Instant::now()),
            Poll::Ready(Some(piece)) => text.extend(piece.unwrap()),
            Poll::Ready(None) => break,
        }
    }
    assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 2_001);
    assert!(test.maker.open.is_empty(), "the download keeps its place after its end");
}

#[test]
fn few_are_open_at_once_and_the_others_wait_for_their_place() {
    let (mut test, now) = (TestStore::new(), Instant::now());
    let mut of_one: Vec<_> = (0..2).map(|_| test.open(1)).collect();
    test.turn(now);
    of_one.extend((0..6).map(|_| test.open(1)));
    test.turn(now);
    // Two are open, four wait, two are refused.
    let states: Vec<_> = of_one.iter_mut().map(state).collect();
    let is_open = |state: &Option<Result<Opened, StoreError>>| matches!(state, Some(Ok(_)));
    assert!(is_open(&states[0]) && is_open(&states[1]), "two are open");
    assert!(states[2..6].iter().all(Option::is_none), "four wait");
    assert!(states[6..].iter().all(|state| matches!(state, Some(Err(StoreError::OverShare(_))))));
    // Other accounts get places, until all places are in use.
    let others = u128::from(OPEN.all) - 2;
    let mut of_others: Vec<_> = (2..2 + others).map(|account| test.open(account)).collect();
    test.turn(now);
    let others: Vec<_> = of_others.iter_mut().map(state).collect();
    assert!(others.iter().all(is_open));
    assert!(of_one[2..6].iter_mut().all(|pending| state(pending).is_none()), "the first account has two");
    drop(others);
    test.turn(now);
    assert!(of_one[2..6].iter_mut().all(|pending| state(pending).is_none()));
    drop(states);
    test.turn(now);
    assert!(is_open(&state(&mut of_one[2])) && is_open(&state(&mut of_one[3])));
    // Their places became free with the answers. A download that has waited too long is refused.
    let held = [test.open(1), test.open(1), test.open(1)];
    test.turn(now);
    // Their time began when they were taken, which may be long after `now` on a busy machine.
    test.turn(Instant::now() + WAIT_MAX);
    assert!(test.maker.waiting.is_empty());
    drop(held);
}

/// Opens downloads of these accounts.
fn opened(test: &mut TestStore, accounts: impl Iterator<Item = u128>, now: Instant) -> Vec<Opened> {
    let mut asked: Vec<_> = accounts.map(|account| test.open(account)).collect();
    test.turn(now);
    asked.iter_mut().map(|pending| state(pending).unwrap().unwrap()).collect()
}

/// Which of these downloads have ended early.
fn ended(test: &mut TestStore, opened: &mut [Opened], now: Instant) -> Vec<usize> {
    let has_ended = |opened: &mut Opened| {
        let cx = &mut Context::from_waker(Waker::noop());
        let first = opened.pieces.poll_next(cx);
        test.turn(now);
        let errors = [first, opened.pieces.poll_next(cx)];
        errors.iter().any(|piece| matches!(piece, Poll::Ready(Some(Err(_)))))
    };
    let ended: Vec<bool> = opened.iter_mut().map(has_ended).collect();
    (0..ended.len()).filter(|at| ended[*at]).collect()
}

#[test]
fn one_that_is_hardly_taken_gives_up_its_place_while_others_wait() {
    let (mut test, now) = (TestStore::new(), Instant::now());
    let mut slow = opened(&mut test, 1..=u128::from(OPEN.all), now);
    let mut next = test.open(99);
    test.turn(now + SLOW_AFTER - Duration::from_secs(5));
    assert!(state(&mut next).is_none());
    test.turn(now + SLOW_AFTER);
    assert!(matches!(state(&mut next), Some(Ok(_))));
    assert_eq!(test.maker.open.len() as u64, OPEN.all);
    assert_eq!(ended(&mut test, &mut slow, now).len(), 1, "as many as got a place instead");
}

#[test]
fn what_the_server_takes_for_a_piece_is_not_the_slowness_of_the_client() {
    let (mut test, now) = (TestStore::new(), Instant::now());
    let minute = Duration::from_secs(60);
    let mut open = opened(&mut test, 1..=u128::from(OPEN.all), now - minute);
    // Each asks for a piece at once, and the thread comes to it after a minute.
    for opened in &mut open {
        assert!(opened.pieces.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    for job in test.queue.try_iter() {
        test.maker.take(job, now - minute);
    }
    let mut next = test.open(99);
    test.turn(now);
    assert!(state(&mut next).is_none());
    for making in test.maker.open.values_mut() {
        making.opened = now - OPEN_MAX;
    }
    test.turn(now);
    assert!(matches!(state(&mut next), Some(Ok(_))), "no place is for ever while others wait");
    drop(open);
}

#[test]
fn the_second_download_of_an_account_gives_way_to_an_account_without_any() {
    let (mut test, now) = (TestStore::new(), Instant::now());
    let pairs = (1..=u128::from(OPEN.all)).map(|number| number.div_ceil(2));
    let mut pairs = opened(&mut test, pairs, now);
    let mut next = [test.open(99), test.open(99)];
    test.turn(now);
    let [first, second] = next.each_mut().map(state);
    assert!(matches!(first, Some(Ok(_))) && second.is_none(), "a second one has to wait as others");
    assert_eq!(ended(&mut test, &mut pairs, now).len(), 1);
}

/// A spreadsheet of 1,000 rows without addresses.
fn sheet() -> Vec<u8> {
    xlsx_of(std::iter::once("email".to_owned()).chain((0..1_000).map(|_| "nothing".to_owned())))
}

/// Takes turns until a download is open or refused.
fn wait_for(test: &mut TestStore, pending: &mut Pending<Opened, StoreError>) -> Result<Opened, StoreError> {
    loop {
        test.turn(Instant::now());
        match state(pending) {
            Some(opened) => return opened,
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[test]
fn a_spreadsheet_is_converted_elsewhere_and_its_sheet_is_kept() {
    let mut test = TestStore::new();
    let mut slow = test.open_content(1, &sheet(), 1_000);
    test.turn(Instant::now());
    let mut other = test.open(2);
    test.turn(Instant::now());
    assert!(matches!(state(&mut other), Some(Ok(_))), "others are opened meanwhile");
    let opened = wait_for(&mut test, &mut slow).unwrap();
    let list = test.store.lists(AccountId::new(0, 1), clock::now()).wait().unwrap().remove(0);
    let before = test.files.faults.operations();
    let mut again =
        Downloads(test.jobs.clone()).open(list, Wanted::Rows(Selection::ALL), Authority::OPERATOR);
    test.turn(Instant::now());
    assert!(matches!(state(&mut again), Some(Ok(_))), "it is opened at once");
    let operations = test.files.faults.operations() - before;
    assert!(operations <= 2, "the kept sheet is read: {operations}");
    drop(opened);
}

#[test]
fn a_conversion_that_takes_too_long_is_given_up() {
    let mut test = TestStore::new();
    let mut slow = test.open_content(1, &sheet(), 1_000);
    let now = Instant::now();
    test.turn(now);
    assert!(state(&mut slow).is_none() && test.maker.opening.len() == 1);
    // The sheet is not looked for any longer, as if it were not there.
    let list = test.store.lists(AccountId::new(0, 1), clock::now()).wait().unwrap().remove(0);
    while test.maker.contents.conversions.is_asked(list.id) {
        thread::sleep(Duration::from_millis(2));
    }
    test.files.forget(list.id);
    assert_eq!(test.maker.places.figures().used(), 0, "it takes no place from others");
    test.turn(now + CONVERSION_MAX);
    assert!(matches!(state(&mut slow), Some(Err(StoreError::Busy))));
    assert_eq!(test.maker.places.figures().used(), 0);
}

#[test]
fn pieces_are_made_in_turns_over_accounts() {
    let (mut test, now) = (TestStore::new(), Instant::now());
    let mut opened: Vec<_> = [1, 1, 2].map(|account| test.open(account)).into_iter().collect();
    test.turn(now);
    let mut opened: Vec<_> = opened.iter_mut().map(|pending| state(pending).unwrap().unwrap()).collect();
    // Both of one account are asked for before the one of the other account.
    let cx = &mut Context::from_waker(Waker::noop());
    for opened in &mut opened {
        assert!(opened.pieces.poll_next(cx).is_pending());
    }
    for job in test.queue.try_iter() {
        test.maker.take(job, now);
    }
    test.maker.turn(now);
    test.maker.turn(now);
    let came: Vec<bool> = opened.iter_mut().map(|opened| opened.pieces.poll_next(cx).is_ready()).collect();
    assert_eq!(came, [true, false, true]);
}

#[test]
fn a_download_ends_with_its_session_or_key() {
    let (session, key, now) = ([7; 32], KeyId::new(0, 7), clock::now());
    for by in [Authority::session(session), Authority::key(key)] {
        let mut test = TestStore { by, ..TestStore::new() };
        let account = AccountId::new(0, 1);
        let new = NewAccount { id: account, name: "account 1".into(), plan: "scale".into() };
        test.store.create_account(new, now).wait().unwrap();
        let new = NewSession { hash: session, agent: String::new() };
        test.store.begin_session(account, new, Authority::OPERATOR, now).wait().unwrap();
        let (label, scopes) = (String::new(), KeyScopes::ALL);
        let (mode, hash, last4) = (KeyMode::Live, [7; 32], *b"last");
        let new = NewKey { id: key, account, mode, hash, last4, label, scopes, expires_at: None };
        test.store.create_key(new, Authority::OPERATOR, now).wait().unwrap();
        let end = |test: &TestStore| {
            test.store.end_session(account, session).wait().unwrap();
            test.store.revoke_key(key, now).wait().unwrap();
        };
        // Random text, so that no compression makes one piece of it.
        let mut random = fastrand::Rng::with_seed(1);
        let row = |_| format!("{:x}\n", random.u128(..));
        let content = "email\n".to_owned() + &(0..40_000).map(row).collect::<String>();
        let mut opened = test.open_content(1, content.as_bytes(), 40_000);
        test.turn(Instant::now());
        let mut pieces = state(&mut opened).unwrap().unwrap().pieces;
        let mut next = |test: &mut TestStore| loop {
            match pieces.poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => test.turn(Instant::now()),
                Poll::Ready(piece) => return piece.map(|piece| piece.map(drop)),
            }
        };
        assert_eq!(next(&mut test), Some(Ok(())));
        end(&test);
        assert_eq!(next(&mut test), Some(Err(StoreError::Outdated)));
        // One that is opened later.
        let mut opened = test.open(1);
        test.turn(Instant::now());
        assert_eq!(state(&mut opened).unwrap().err(), Some(StoreError::Outdated));
        assert!(test.maker.open.is_empty(), "it keeps its place after its end");
    }
}
