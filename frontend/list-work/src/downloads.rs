//! Makes downloads, on a separate thread.
//!
//! A piece of a download takes up to some milliseconds of work, and a frontend thread serves thousands of connections. So a
//! download requests one piece after another from this thread, and its requests wait in a queue with those of all other
//! downloads. An open download uses some MiB (the window of its compression, a row), so only a few are open at once. Others
//! wait for a place, for a short time.

use crate::results::{Results, Wanted};
use checks::panics;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};
use store::{AccountId, List, Pending, Reply, Store, StoreError, pending};

/// Most open downloads, of all accounts and of one account.
const OPEN_MAX: usize = 8;
const OPEN_OF_ACCOUNT_MAX: usize = 2;
/// Most downloads that wait for a place, of all accounts and of one account.
const WAITING_MAX: usize = 32;
const WAITING_OF_ACCOUNT_MAX: usize = 4;
/// Longest wait for a place.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// While others wait, a download loses its place if it has been open for this time and takes fewer pieces per second than
/// the minimum (64 KiB/s).
const SLOW_AFTER: Duration = Duration::from_secs(30);
const PIECES_PER_S_MIN: u64 = 2;
/// Niceness of the thread: lower priority than the threads that answer requests.
const NICE: i32 = 10;

/// Handle of the thread. The thread ends when this and all downloads are dropped.
pub struct Downloads(Sender<DownloadJob>);

/// An open download with its type.
pub struct Opened {
    /// The type of the content, for `Content-Type`.
    pub content_type: String,
    /// The ending of a file with this content.
    pub ending: &'static str,
    /// The content of the download.
    pub pieces: Pieces,
}

/// The pieces of a download, made on request. After an error there are no more pieces.
pub struct Pieces {
    jobs: Sender<DownloadJob>,
    id: u64,
    /// The requested piece.
    asked: Option<Pending<Option<Vec<u8>>, StoreError>>,
}

enum DownloadJob {
    /// A list, and the sender for the requests of its pieces.
    Open(Box<List>, Wanted, Sender<DownloadJob>, Reply<Opened, StoreError>),
    /// The next piece; `None` after the last.
    Piece(u64, Reply<Option<Vec<u8>>, StoreError>),
    Close(u64),
}

impl Downloads {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(store: Arc<dyn Store>) -> io::Result<Downloads> {
        let (jobs, queue) = channel();
        let work = move || {
            // If this fails, the thread keeps the priority of the others.
            let _ = rustix::process::setpriority_process(None, NICE);
            Maker::new(store).work(&queue);
        };
        thread::Builder::new().name("downloads".into()).spawn(work)?;
        Ok(Downloads(jobs))
    }

    /// Opens a download of a list after its check. The answer is [`StoreError::Busy`] if no place is free in time.
    pub fn open(&self, list: List, wanted: Wanted) -> Pending<Opened, StoreError> {
        let (reply, answer) = pending();
        // A job that cannot be sent is dropped, and its reply then reports that the thread has ended. The same holds below.
        let _ = self.0.send(DownloadJob::Open(Box::new(list), wanted, self.0.clone(), reply));
        answer
    }
}

impl Pieces {
    fn ask(&self) -> Pending<Option<Vec<u8>>, StoreError> {
        let (reply, answer) = pending();
        let _ = self.jobs.send(DownloadJob::Piece(self.id, reply));
        answer
    }

    /// The next piece, which is not empty; `None` after the last.
    ///
    /// # Errors
    /// A line for the log: the piece cannot be made.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, StoreError>>> {
        loop {
            let mut asked = self.asked.take().unwrap_or_else(|| self.ask());
            match Pin::new(&mut asked).poll(cx) {
                Poll::Pending => {
                    self.asked = Some(asked);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(Some(piece))) => {
                    // The next piece is made while this one is sent.
                    self.asked = Some(self.ask());
                    if !piece.is_empty() {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(None),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let _ = self.jobs.send(DownloadJob::Close(self.id));
    }
}

struct Maker {
    store: Arc<dyn Store>,
    open: HashMap<u64, Making>,
    waiting: VecDeque<Waiting>,
    next_id: u64,
}

struct Making {
    account: AccountId,
    results: Results,
    opened: Instant,
    pieces: u64,
}

struct Waiting {
    list: List,
    wanted: Wanted,
    jobs: Sender<DownloadJob>,
    reply: Reply<Opened, StoreError>,
    until: Instant,
}

impl Maker {
    fn new(store: Arc<dyn Store>) -> Maker {
        Maker { store, open: HashMap::new(), waiting: VecDeque::new(), next_id: 0 }
    }

    fn work(mut self, queue: &Receiver<DownloadJob>) {
        loop {
            // A waiting download holds a sender. So a queue without senders means that the server has ended.
            let job = match self.waiting.iter().map(|waiting| waiting.until).min() {
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => queue.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match job {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.admit(Instant::now());
        }
    }

    fn take(&mut self, job: DownloadJob) {
        match job {
            DownloadJob::Open(list, wanted, jobs, reply) => {
                let of_account = self.waiting.iter().filter(|waiting| waiting.list.account == list.account);
                if self.waiting.len() >= WAITING_MAX || of_account.count() >= WAITING_OF_ACCOUNT_MAX {
                    return reply.answer(Err(StoreError::Busy));
                }
                self.waiting.push_back(Waiting {
                    list: *list,
                    wanted,
                    jobs,
                    reply,
                    until: Instant::now() + WAIT_MAX,
                });
            }
            DownloadJob::Piece(id, reply) => match self.open.get_mut(&id) {
                Some(making) => {
                    making.pieces += 1;
                    let made = guarded(|| making.results.next().transpose());
                    if !matches!(made, Ok(Some(_))) {
                        self.open.remove(&id);
                    }
                    reply.answer(made);
                }
                None => reply.answer(Err(StoreError::Failed("it was too slow while others waited".into()))),
            },
            DownloadJob::Close(id) => {
                self.open.remove(&id);
            }
        }
    }

    /// Opens the waiting downloads that have a place now, and refuses those that have waited too long.
    fn admit(&mut self, now: Instant) {
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at) {
            let (account, is_late) = (waiting.list.account, waiting.until <= now);
            let of_account = self.open.values().filter(|making| making.account == account).count();
            let has_place =
                of_account < OPEN_OF_ACCOUNT_MAX && (self.open.len() < OPEN_MAX || self.make_room(now));
            if !has_place && !is_late {
                at += 1;
                continue;
            }
            if let Some(waiting) = self.waiting.remove(at) {
                if has_place {
                    self.open(waiting, now);
                } else {
                    waiting.reply.answer(Err(StoreError::Busy));
                }
            }
        }
    }

    /// Ends the slowest of the downloads that are too slow. Returns whether there was one.
    fn make_room(&mut self, now: Instant) -> bool {
        let pace = |making: &Making| making.pieces / now.duration_since(making.opened).as_secs().max(1);
        let is_slow = |making: &Making| {
            now.duration_since(making.opened) >= SLOW_AFTER && pace(making) < PIECES_PER_S_MIN
        };
        let slow = self.open.iter().filter(|(_, making)| is_slow(making));
        match slow.min_by_key(|(_, making)| (making.pieces, making.opened)).map(|(id, _)| *id) {
            Some(id) => self.open.remove(&id).is_some(),
            None => false,
        }
    }

    fn open(&mut self, waiting: Waiting, now: Instant) {
        let Waiting { list, wanted, jobs, reply, .. } = waiting;
        let account = list.account;
        let results = guarded(|| Results::open(Arc::clone(&self.store), list, wanted));
        reply.answer(results.map(|results| {
            let (id, content_type, ending) = (self.next_id, results.content_type.clone(), results.ending);
            self.next_id += 1;
            self.open.insert(id, Making { account, results, opened: now, pieces: 0 });
            // If the requester is gone, the pieces are dropped with the answer, and the place is free again.
            Opened { content_type, ending, pieces: Pieces { jobs, id, asked: None } }
        }));
    }
}

/// Catches a panic, so that a defect with one list does not affect others.
fn guarded<T>(make: impl FnOnce() -> Result<T, String>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(made) => made.map_err(StoreError::Failed),
        Err(payload) => {
            panics::forget(payload);
            Err(StoreError::Failed("a panic".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Selection;
    use std::cell::Cell;
    use std::task::Waker;
    use store::clock;
    use store::{ListId, ListRoom, ListState, NewAccount, NewPart, PartPut, PlanTable};
    use store_redb::StoreOptions;

    /// A list of 2,000 rows without addresses, so that no answers are needed. The column is named, as none looks like addresses.
    fn list(store: &Arc<dyn Store>, account: AccountId, number: u128) -> List {
        let now = clock::now();
        let mut list = List::new(ListId::new(now, number), account, now, String::new());
        list.column = "email".into();
        store.create_list(&list, ListRoom::MOST, None, now).wait().unwrap();
        let content = "email\n".to_owned() + &"nothing\n".repeat(2_000);
        list.bytes = content.len() as u64;
        let part = NewPart { number: 0, from: 0, to: list.bytes, plain: content.as_bytes() };
        assert_eq!(store.put_list_part(&list, part, ListRoom::MOST, now).wait(), Ok(PartPut::Stored));
        list.state = ListState::Completed;
        list.rows = 2_000;
        assert!(store.put_list(&list, ListState::Uploading, None, clock::now()).wait().unwrap());
        list
    }

    struct TestStore {
        _folder: tempfile::TempDir,
        store: Arc<dyn Store>,
        maker: Maker,
        jobs: Sender<DownloadJob>,
        queue: Receiver<DownloadJob>,
        /// Downloads that were requested. Each list has its own id.
        opened: Cell<u128>,
    }

    impl TestStore {
        fn new() -> TestStore {
            let (folder, now) = (tempfile::tempdir().unwrap(), clock::now());
            let options = StoreOptions::default();
            let store = store_redb::open(folder.path(), PlanTable::standard(), options, now).unwrap().0;
            let ((jobs, queue), maker) = (channel(), Maker::new(Arc::clone(&store)));
            TestStore { _folder: folder, store, maker, jobs, queue, opened: Cell::new(0) }
        }

        fn open(&self, account: u128) -> Pending<Opened, StoreError> {
            self.opened.set(self.opened.get() + 1);
            let number = account * 1_000 + self.opened.get();
            let (id, now) = (AccountId::new(0, account), clock::now());
            if self.store.account(id, now).wait().unwrap().is_none() {
                let new = NewAccount { id, name: format!("account {account}"), plan: "scale".into() };
                self.store.create_account(new, now).wait().unwrap();
            }
            let list = list(&self.store, id, number);
            Downloads(self.jobs.clone()).open(list, Wanted::Rows(Selection::ALL))
        }

        /// Processes all requests so far.
        fn turn(&mut self, now: Instant) {
            while let Ok(job) = self.queue.try_recv() {
                self.maker.take(job);
                self.maker.admit(now);
            }
            self.maker.admit(now);
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
        let mut of_one: Vec<_> = (0..8).map(|_| test.open(1)).collect();
        test.turn(now);
        // Two are open, four wait, two are refused.
        let states: Vec<_> = of_one.iter_mut().map(state).collect();
        let is_open = |state: &Option<Result<Opened, StoreError>>| matches!(state, Some(Ok(_)));
        assert!(is_open(&states[0]) && is_open(&states[1]), "two are open");
        assert!(states[2..6].iter().all(Option::is_none), "four wait");
        assert!(states[6..].iter().all(|state| matches!(state, Some(Err(StoreError::Busy)))));
        // Other accounts get places, until all places are in use.
        let mut of_others: Vec<_> = (2..9).map(|account| test.open(account)).collect();
        test.turn(now);
        let others: Vec<_> = of_others.iter_mut().map(state).collect();
        assert!(others[..6].iter().all(is_open) && others[6].is_none());
        // One ends, and another account gets the place: the first account already has two.
        drop(others);
        test.turn(now);
        assert!(is_open(&state(&mut of_others[6])));
        assert!(of_one[2..6].iter_mut().all(|pending| state(pending).is_none()));
        drop(states);
        test.turn(now);
        assert!(is_open(&state(&mut of_one[2])) && is_open(&state(&mut of_one[3])));
        // Their places became free with the answers. A download that has waited too long is refused.
        let held = [test.open(1), test.open(1), test.open(1)];
        test.turn(now);
        // Their time began when they were taken, which may be long after `now` on a busy machine.
        test.turn(Instant::now() + WAIT_MAX);
        assert_eq!(test.maker.waiting.len(), 0);
        drop(held);
    }

    #[test]
    fn one_that_is_hardly_taken_gives_up_its_place_while_others_wait() {
        let (mut test, now) = (TestStore::new(), Instant::now());
        let mut slow: Vec<_> = (1..=OPEN_MAX as u128).map(|account| test.open(account)).collect();
        test.turn(now);
        let mut opened: Vec<_> = slow.iter_mut().map(|pending| state(pending).unwrap().unwrap()).collect();
        let mut next = test.open(99);
        test.turn(now + SLOW_AFTER - Duration::from_secs(25));
        assert!(state(&mut next).is_none());
        test.turn(now + SLOW_AFTER);
        assert!(matches!(state(&mut next), Some(Ok(_))));
        assert_eq!(test.maker.open.len(), OPEN_MAX);
        let ended = opened
            .iter_mut()
            .filter_map(|opened| {
                let cx = &mut Context::from_waker(Waker::noop());
                let _ = opened.pieces.poll_next(cx);
                test.turn(now);
                match opened.pieces.poll_next(cx) {
                    Poll::Ready(Some(Err(error))) => Some(error),
                    _ => None,
                }
            })
            .count();
        assert_eq!(ended, 1, "as many as got a place instead");
    }
}
