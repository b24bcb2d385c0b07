//! Makes downloads, on a separate thread.
//!
//! A piece of a download takes up to some milliseconds of work, and a frontend thread serves thousands of connections. So a
//! download requests one piece after another from this thread, and its requests wait in a queue with those of all other
//! downloads, in turns over accounts. An open download uses some MiB (the window of its compression, a row), so only a few are
//! open at once. Others wait for a place, for a short time. A spreadsheet is converted elsewhere (`conversions.rs`): the
//! thread looks for its sheet from time to time, and the download gets its place when the sheet is there.
//!
//! If all places are taken and an account waits, one download gives way and ends early: a second one of another account, or one
//! whose client is slow, or one that has had its place for long.

use crate::contents::{Contents, SourceError, TOO_LARGE};
use crate::results::{Results, Wanted};
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
use store::{AccountId, Authority, List, Pending, Reply, StoreError, clock, pending};
use store_rules::Store;

/// Most open downloads.
const OPEN: Bounds = Bounds { share: 2, all: 16 };
/// Most downloads that wait for a place.
const WAITING: Bounds = Bounds { share: 4, all: 32 };
/// Longest wait for a place.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the conversion of a spreadsheet, and the pause between two looks for it.
const CONVERSION_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Most spreadsheets that the thread looks for.
const OPENING_MAX: usize = 16;
/// A client is slow if the thread has waited this long for it to take pieces, and it took fewer bytes per second of that time.
const SLOW_AFTER: Duration = Duration::from_secs(10);
const BYTES_PER_S_MIN: u64 = 256 << 10;
/// While others wait, no download keeps its place for longer than this.
const OPEN_MAX: Duration = Duration::from_secs(600);
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
    /// The downloads whose turn has come, and whose spreadsheets are converted. They have no place yet.
    opening: Vec<Waiting>,
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
    /// The bytes of all pieces.
    bytes: u64,
    /// How long the client has left the thread without a request, and since when it does so now.
    waited: Duration,
    waits_since: Option<Instant>,
}

impl Making {
    fn waited(&self, now: Instant) -> Duration {
        self.waited + self.waits_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Bytes for each second that the thread waited for the client: what the server itself takes does not count.
    fn pace(&self, now: Instant) -> u64 {
        let waited = u64::try_from(self.waited(now).as_millis()).unwrap_or(u64::MAX).max(1);
        self.bytes.saturating_mul(1000) / waited
    }

    /// Whether it may end for an account that waits.
    fn gives_way(&self, now: Instant) -> bool {
        let is_slow = self.waited(now) >= SLOW_AFTER && self.pace(now) < BYTES_PER_S_MIN;
        is_slow || now.saturating_duration_since(self.opened) >= OPEN_MAX
    }
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
                Ok(job) => self.take(job, Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // All requests so far are known before one of them has its turn.
            let now = Instant::now();
            queue.try_iter().for_each(|job| self.take(job, now));
            self.turn(now);
        }
    }

    /// How long the thread can wait for requests.
    fn next_look(&self, now: Instant) -> Option<Duration> {
        if !self.asked.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.waiting.iter().any(|waiting| self.may_come(&waiting.list.account, now)) {
            return Some(Duration::ZERO);
        }
        let late = self.waiting.iter().map(|waiting| waiting.until.saturating_duration_since(now)).min();
        let look = (!self.opening.is_empty()).then_some(LOOK);
        late.into_iter().chain(look).min()
    }

    fn take(&mut self, job: DownloadJob, now: Instant) {
        match job {
            DownloadJob::Open(waiting) => match self.waiting.push(waiting.list.account, *waiting) {
                Ok(None) => {}
                Ok(Some(other)) => other.reply.answer(Err(StoreError::Busy)),
                Err((UsedUp::Share, waiting)) => waiting.reply.answer(Err(over_share())),
                Err((UsedUp::All, waiting)) => waiting.reply.answer(Err(StoreError::Busy)),
            },
            DownloadJob::Piece(id, reply) => match self.open.get_mut(&id) {
                Some(making) => {
                    making.waited = making.waited(now);
                    making.waits_since = None;
                    if let Err((_, asked)) = self.asked.push(making.account, AskedPiece { id, reply }) {
                        asked.reply.answer(Err(StoreError::Busy));
                    }
                }
                None => reply.answer(Err(gave_way())),
            },
            DownloadJob::Close(id) => self.close(id),
        }
    }

    /// Opens one of the waiting downloads, and makes one piece.
    fn turn(&mut self, now: Instant) {
        let next = self.next_accounts(now);
        let is_in_time =
            |account: &AccountId, waiting: &Waiting| now < waiting.until || next.contains(account);
        for late in self.waiting.take_unless(is_in_time) {
            let is_own = self.own(&late.list.account) >= OPEN.share;
            late.reply.answer(Err(if is_own { over_share() } else { StoreError::Busy }));
        }
        for waiting in std::mem::take(&mut self.opening) {
            self.open(waiting, now);
        }
        self.admit(now);
        if let Some((_, AskedPiece { id, reply })) = self.asked.pop() {
            match self.open.get_mut(&id) {
                Some(making) => {
                    let made = guarded(|| {
                        check(&self.contents.store, &making.by, making.account)?;
                        making.results.next().transpose().map_err(SourceError::Unfit)
                    });
                    match &made {
                        Ok(Some(piece)) => {
                            making.bytes += piece.len() as u64;
                            making.waits_since = Some(now);
                        }
                        Ok(None) | Err(_) => self.close(id),
                    }
                    reply.answer(made.map_err(store_error));
                }
                None => reply.answer(Err(gave_way())),
            }
        }
    }

    /// Opens the next waiting download that may come.
    fn admit(&mut self, now: Instant) {
        let next = self.next_accounts(now);
        if let Some((_, mut waiting)) = self.waiting.pop_if(|account, _| next.contains(account)) {
            waiting.until = now + CONVERSION_MAX;
            self.open(waiting, now);
        }
    }

    /// The accounts with a waiting download that may come now.
    fn next_accounts(&self, now: Instant) -> HashSet<AccountId> {
        let accounts = self.waiting.iter().map(|waiting| waiting.list.account);
        accounts.filter(|account| self.may_come(account, now)).collect()
    }

    /// The downloads of an account that are open or whose spreadsheets are converted.
    fn own(&self, account: &AccountId) -> u64 {
        let opening = self.opening.iter().filter(|waiting| waiting.list.account == *account).count();
        self.places.held().get(account).copied().unwrap_or_default() + opening as u64
    }

    /// Whether the next download of an account can be opened, or its spreadsheet looked for.
    fn may_come(&self, account: &AccountId, now: Instant) -> bool {
        self.own(account) < OPEN.share
            && self.opening.len() < OPENING_MAX
            && self.place(account, now).is_some()
    }

    /// The place that an account can have: a free one (`Some(None)`), or that of the download which gives way.
    fn place(&self, account: &AccountId, now: Instant) -> Option<Option<u64>> {
        let held = self.places.held();
        if held.values().sum::<u64>() < OPEN.all {
            return Some(None);
        }
        let of = |account: &AccountId| held.get(account).copied().unwrap_or_default();
        let has_more = |making: &Making| of(&making.account) > of(account) + 1;
        let may = self.open.iter().filter(|(_, making)| has_more(making) || making.gives_way(now));
        let first = may.min_by_key(|(_, making)| (!has_more(making), making.pace(now)));
        first.map(|(id, _)| Some(*id))
    }

    fn close(&mut self, id: u64) {
        self.open.remove(&id);
        for asked in self.asked.take_unless(|_, asked| asked.id != id) {
            asked.reply.answer(Err(gave_way()));
        }
    }

    /// Opens a download if its list can be read already and it has a place. Otherwise it is looked for again.
    fn open(&mut self, waiting: Waiting, now: Instant) {
        let account = waiting.list.account;
        let Some(place) = self.place(&account, now) else { return self.look_later(waiting, now) };
        let results = match guarded(|| {
            check(&self.contents.store, &waiting.by, account)?;
            Results::open(&self.contents, &waiting.list, &waiting.wanted)
        }) {
            Ok(Some(results)) => results,
            Ok(None) => return self.look_later(waiting, now),
            Err(error) => return waiting.reply.answer(Err(store_error(error))),
        };
        if let Some(other) = place {
            self.close(other);
        }
        let Waiting { by, jobs, reply, .. } = waiting;
        let Ok(place) = self.places.take(account, 1) else { return reply.answer(Err(StoreError::Busy)) };
        let (id, content_type, ending) = (self.next_id, results.content_type.clone(), results.ending);
        self.next_id += 1;
        let making = Making {
            _place: place,
            account,
            by,
            results,
            opened: now,
            bytes: 0,
            waited: Duration::ZERO,
            waits_since: Some(now),
        };
        self.open.insert(id, making);
        // If the requester is gone, the pieces are dropped with the answer, and the place is free again.
        reply.answer(Ok(Opened { content_type, ending, pieces: Pieces { jobs, id, asked: None } }));
    }

    fn look_later(&mut self, waiting: Waiting, now: Instant) {
        match now < waiting.until {
            true => self.opening.push(waiting),
            false => waiting.reply.answer(Err(StoreError::Busy)),
        }
    }
}

/// Whether the session or key of a download is still valid: a download can take long.
fn check(store: &Store, by: &Authority, account: AccountId) -> Result<(), SourceError> {
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

fn gave_way() -> StoreError {
    StoreError::Failed("it gave way to others that waited: it was slow, took long, or was one of two".into())
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
