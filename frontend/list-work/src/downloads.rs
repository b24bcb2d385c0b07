//! Makes downloads, on a separate thread.
//!
//! A piece of a download takes up to some milliseconds of work, and a frontend thread serves thousands of connections. So a
//! download requests one piece after another from this thread, and its requests wait in a queue with those of all other
//! downloads, in turns over accounts. An open download uses some MiB (the window of its compression, a row), so only a few are
//! open at once. Others wait for a place, for a short time. A spreadsheet is converted elsewhere ([`crate::conversions`]): its
//! download has its place, and the thread looks for the sheet from time to time.

use crate::results::{Results, Wanted};
use crate::{Contents, SourceError, TOO_LARGE};
use checks::panics;
use engine::proto::sharing::{Bounds, FairQueue, Quota, ShareUse, Taken, UsedUp};
use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};
use store::{AccountId, Authority, List, Pending, Reply, Store, StoreError, clock, pending};

/// Most open downloads.
const OPEN: Bounds = Bounds { share: 2, all: 8 };
/// Most downloads that wait for a place.
const WAITING: Bounds = Bounds { share: 4, all: 32 };
/// Longest wait for a place.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the conversion of a spreadsheet, and the pause between two looks for it.
const CONVERSION_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
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
    Open(Box<Waiting>),
    /// The next piece; `None` after the last.
    Piece(u64, Reply<Option<Vec<u8>>, StoreError>),
    Close(u64),
}

impl Downloads {
    /// Starts the thread, and adds the figures of its places.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(contents: Contents, shares: &mut Vec<Arc<ShareUse>>) -> io::Result<Downloads> {
        let (jobs, queue) = channel();
        let (places, waiting) = Maker::shares();
        shares.extend([places.figures(), waiting.figures()]);
        let work = move || {
            // If this fails, the thread keeps the priority of the others.
            let _ = rustix::process::setpriority_process(None, NICE);
            Maker::new(contents, places, waiting).work(&queue);
        };
        thread::Builder::new().name("downloads".into()).spawn(work)?;
        Ok(Downloads(jobs))
    }

    /// Opens a download of a list after its check, for a request with the session or key of `by`: when this ends, so does the
    /// download, with [`StoreError::Outdated`]. The answer is [`StoreError::OverShare`] if the account has too many downloads, and
    /// [`StoreError::Busy`] if no place is free in time.
    pub fn open(&self, list: List, wanted: Wanted, by: Authority) -> Pending<Opened, StoreError> {
        let (reply, answer) = pending();
        // A job that cannot be sent is dropped, and its reply then reports that the thread has ended. The same holds below.
        let until = Instant::now() + WAIT_MAX;
        let waiting = Waiting { list, wanted, by, jobs: self.0.clone(), reply, until };
        let _ = self.0.send(DownloadJob::Open(Box::new(waiting)));
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
    contents: Contents,
    places: Arc<Quota<AccountId>>,
    open: HashMap<u64, Making>,
    /// The downloads that have a place, and whose spreadsheets are converted.
    opening: Vec<(Waiting, Taken<AccountId>)>,
    waiting: FairQueue<AccountId, Waiting>,
    /// The requested pieces: at most one of each open download.
    asked: FairQueue<AccountId, AskedPiece>,
    next_id: u64,
}

struct Making {
    _place: Taken<AccountId>,
    account: AccountId,
    by: Authority,
    results: Results,
    opened: Instant,
    pieces: u64,
}

/// A request for the next piece of an open download.
struct AskedPiece {
    id: u64,
    reply: Reply<Option<Vec<u8>>, StoreError>,
}

/// A list, and the sender for the requests of its pieces.
struct Waiting {
    list: List,
    wanted: Wanted,
    by: Authority,
    jobs: Sender<DownloadJob>,
    reply: Reply<Opened, StoreError>,
    until: Instant,
}

impl Maker {
    /// The places, and the queue for them.
    fn shares() -> (Arc<Quota<AccountId>>, FairQueue<AccountId, Waiting>) {
        (Quota::new("downloads_open", OPEN), FairQueue::new("downloads_waiting", WAITING))
    }

    fn new(
        contents: Contents,
        places: Arc<Quota<AccountId>>,
        waiting: FairQueue<AccountId, Waiting>,
    ) -> Maker {
        Maker {
            contents,
            places,
            open: HashMap::new(),
            opening: Vec::new(),
            waiting,
            asked: FairQueue::new("downloads_asked", OPEN),
            next_id: 0,
        }
    }

    fn work(mut self, queue: &Receiver<DownloadJob>) {
        loop {
            // A waiting download holds a sender. So a queue without senders means that the server has ended.
            let job = match self.next_look(Instant::now()) {
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(pause) => queue.recv_timeout(pause),
            };
            match job {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // All requests so far are known before one of them has its turn.
            queue.try_iter().for_each(|job| self.take(job));
            self.turn(Instant::now());
        }
    }

    /// How long the thread can wait for requests.
    fn next_look(&self, now: Instant) -> Option<Duration> {
        if !self.asked.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.waiting.iter().any(|waiting| self.may_open(waiting.list.account, now)) {
            return Some(Duration::ZERO);
        }
        let late = self.waiting.iter().map(|waiting| waiting.until.saturating_duration_since(now)).min();
        let look = (!self.opening.is_empty()).then_some(LOOK);
        late.into_iter().chain(look).min()
    }

    fn take(&mut self, job: DownloadJob) {
        match job {
            DownloadJob::Open(waiting) => match self.waiting.push(waiting.list.account, *waiting) {
                Ok(None) => {}
                Ok(Some(other)) => other.reply.answer(Err(StoreError::Busy)),
                Err((UsedUp::Share, waiting)) => waiting.reply.answer(Err(over_share())),
                Err((UsedUp::All, waiting)) => waiting.reply.answer(Err(StoreError::Busy)),
            },
            DownloadJob::Piece(id, reply) => match self.open.get(&id).map(|making| making.account) {
                Some(account) => {
                    if let Err((_, asked)) = self.asked.push(account, AskedPiece { id, reply }) {
                        asked.reply.answer(Err(StoreError::Busy));
                    }
                }
                None => reply.answer(Err(too_slow())),
            },
            DownloadJob::Close(id) => self.close(id),
        }
    }

    /// Opens one of the waiting downloads, and makes one piece.
    fn turn(&mut self, now: Instant) {
        let accounts = self.waiting.iter().map(|waiting| waiting.list.account);
        let next: HashSet<AccountId> = accounts.filter(|account| self.may_open(*account, now)).collect();
        let is_in_time =
            |account: &AccountId, waiting: &Waiting| now < waiting.until || next.contains(account);
        for late in self.waiting.take_unless(is_in_time) {
            let own = self.places.held().get(&late.list.account).copied().unwrap_or_default();
            late.reply.answer(Err(if own >= OPEN.share { over_share() } else { StoreError::Busy }));
        }
        for (waiting, place) in std::mem::take(&mut self.opening) {
            self.open(waiting, place, now);
        }
        self.admit(now);
        if let Some((_, AskedPiece { id, reply })) = self.asked.pop() {
            match self.open.get_mut(&id) {
                Some(making) => {
                    making.pieces += 1;
                    let made = guarded(|| {
                        check(&*self.contents.store, &making.by, making.account)?;
                        making.results.next().transpose().map_err(SourceError::Unfit)
                    });
                    if !matches!(made, Ok(Some(_))) {
                        self.close(id);
                    }
                    reply.answer(made.map_err(store_error));
                }
                None => reply.answer(Err(too_slow())),
            }
        }
    }

    /// Opens the next waiting download that may have a place.
    fn admit(&mut self, now: Instant) {
        let held = self.places.held();
        let of = |account: &AccountId| held.get(account).copied().unwrap_or_default();
        let has_room = held.values().sum::<u64>() < OPEN.all || self.slowest(now).is_some();
        let Some((account, mut waiting)) =
            self.waiting.pop_if(|account, _| has_room && of(account) < OPEN.share)
        else {
            return;
        };
        if held.values().sum::<u64>() >= OPEN.all
            && let Some(slow) = self.slowest(now)
        {
            self.close(slow);
        }
        match self.places.take(account, 1) {
            Ok(place) => {
                waiting.until = now + CONVERSION_MAX;
                self.open(waiting, place, now);
            }
            Err(_) => waiting.reply.answer(Err(StoreError::Busy)),
        }
    }

    /// Whether an account may open a download now.
    fn may_open(&self, account: AccountId, now: Instant) -> bool {
        let held = self.places.held();
        held.get(&account).copied().unwrap_or_default() < OPEN.share
            && (held.values().sum::<u64>() < OPEN.all || self.slowest(now).is_some())
    }

    fn close(&mut self, id: u64) {
        self.open.remove(&id);
        for asked in self.asked.take_unless(|_, asked| asked.id != id) {
            asked.reply.answer(Err(too_slow()));
        }
    }

    /// The slowest of the downloads that are too slow.
    fn slowest(&self, now: Instant) -> Option<u64> {
        let pace = |making: &Making| making.pieces / now.duration_since(making.opened).as_secs().max(1);
        let is_slow = |making: &Making| {
            now.duration_since(making.opened) >= SLOW_AFTER && pace(making) < PIECES_PER_S_MIN
        };
        let slow = self.open.iter().filter(|(_, making)| is_slow(making));
        slow.min_by_key(|(_, making)| (making.pieces, making.opened)).map(|(id, _)| *id)
    }

    /// Opens a download that has a place, if its list can be read already.
    fn open(&mut self, waiting: Waiting, place: Taken<AccountId>, now: Instant) {
        let Waiting { list, wanted, by, jobs, reply, until } = waiting;
        let results = match guarded(|| {
            check(&*self.contents.store, &by, list.account)?;
            Results::open(&self.contents, &list, &wanted)
        }) {
            Ok(Some(results)) => results,
            Ok(None) if now < until => {
                self.opening.push((Waiting { list, wanted, by, jobs, reply, until }, place));
                return;
            }
            Ok(None) => return reply.answer(Err(StoreError::Busy)),
            Err(error) => return reply.answer(Err(store_error(error))),
        };
        let (id, content_type, ending) = (self.next_id, results.content_type.clone(), results.ending);
        self.next_id += 1;
        self.open
            .insert(id, Making { _place: place, account: list.account, by, results, opened: now, pieces: 0 });
        // If the requester is gone, the pieces are dropped with the answer, and the place is free again.
        reply.answer(Ok(Opened { content_type, ending, pieces: Pieces { jobs, id, asked: None } }));
    }
}

/// Whether the session or key of a download is still valid: a download can take long.
fn check(store: &dyn Store, by: &Authority, account: AccountId) -> Result<(), SourceError> {
    let now = clock::now();
    let key_holds = by.key.is_none_or(|key| store.is_key_in_force(key, account, now));
    let session_holds = match &by.session {
        Some(session) => {
            let session = store.session(session, now).wait().map_err(SourceError::Store)?;
            session.is_some_and(|session| session.account == account)
        }
        None => true,
    };
    if key_holds && session_holds { Ok(()) } else { Err(SourceError::Store(StoreError::Outdated)) }
}

fn over_share() -> StoreError {
    let Bounds { share, .. } = OPEN;
    StoreError::OverShare(format!(
        "The account has too many downloads of lists: {share} run at a time, and {} wait. Retry when one has ended.",
        WAITING.share
    ))
}

fn too_slow() -> StoreError {
    StoreError::Failed("it was too slow while others waited".into())
}

/// What the requester of a download is told.
fn store_error(error: SourceError) -> StoreError {
    match error {
        SourceError::Store(error) => error,
        SourceError::Machine(why) => StoreError::NotDone(why),
        SourceError::Share => StoreError::OverShare(
            "The account's lists and downloads use its share of temporary space. Retry when one has ended."
                .into(),
        ),
        SourceError::TooLarge => StoreError::OverQuota(TOO_LARGE.into()),
        SourceError::Panic => StoreError::Failed("a panic".into()),
        SourceError::Unfit(why) => StoreError::Failed(why),
    }
}

/// Catches a panic, so that a defect with one list does not affect others.
fn guarded<T>(make: impl FnOnce() -> Result<T, SourceError>) -> Result<T, SourceError> {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|payload| {
        panics::forget(payload);
        Err(SourceError::Panic)
    })
}

#[cfg(test)]
mod tests;
