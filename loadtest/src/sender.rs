//! A thread that sends requests: it has its own connections and epoll, and no lock on the path of a request.
//!
//! Open loop: each request is due at a given time. If every connection is in use then, it is sent as soon as one is
//! free, and its latency still counts from the due time. A request that never finds a free connection counts as
//! `unsent`. Closed loop: each connection sends its next request as soon as it has an answer.

use crate::addresses::Addresses;
use crate::arrivals::Arrivals;
use crate::connection::{Connection, Job, ReadStep, scratch};
use crate::http;
use crate::load::{Load, Target};
use crate::mix::Endpoint;
use crate::random::Random;
use crate::stats::{Failure, Stats, histogram, note};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How many events are taken at once.
const EVENTS: usize = 256;
/// The longest pause between two checks for requests over their time limit.
const LOOK: Duration = Duration::from_millis(100);
/// How many batches are kept for polls.
const BATCHES_KEPT: usize = 64;
/// The pause after a failed connection, so that a closed loop does not flood a server that is down.
const REST: Duration = Duration::from_millis(20);

/// The values that all threads of a run share.
pub struct Orders<'a> {
    pub target: &'a Target,
    pub load: &'a Load,
    pub addresses: Addresses,
    /// The connections of all threads.
    pub connections: usize,
    pub threads: usize,
    /// The start of sending, the start of counting, and the end of both.
    pub begin: Instant,
    pub count_from: Instant,
    pub end: Instant,
    /// A batch for polls until others are created.
    pub first_batch: Option<String>,
    /// The flag that ends the run early.
    pub stop: &'a AtomicBool,
}

/// The observations of a thread in one second.
pub struct Slice {
    /// The number of the second since the start.
    pub second: u32,
    pub answered: u64,
    pub errors: u64,
    pub latency: Histogram<u64>,
}

/// The results of a thread.
pub struct Brought {
    pub stats: Stats,
    /// The CPU time of the thread while it sent: the load of the client itself.
    pub busy: Duration,
    /// The number of sent requests, counted or not.
    pub sent: u64,
}

/// Sends until the end and waits for the remaining answers.
///
/// # Errors
///
/// epoll is not available.
pub fn send(shared: &Orders<'_>, part: usize, slices: &Sender<Slice>) -> std::io::Result<Brought> {
    let mut thread = Thread::new(shared, part, slices)?;
    let began = thread_cpu();
    thread.until(shared.end, true)?;
    let busy = thread_cpu().saturating_sub(began);
    thread.count_unsent();
    thread.until(Instant::now() + shared.load.patience, false)?;
    thread.give_up();
    thread.cut(u32::MAX);
    Ok(Brought { stats: thread.stats, busy, sent: thread.sent })
}

struct Thread<'r> {
    shared: &'r Orders<'r>,
    slices: &'r Sender<Slice>,
    epoll: OwnedFd,
    places: Vec<Connection>,
    /// Indices of connections without a job, and the time from which each may be used; the last used one comes first.
    free: Vec<usize>,
    resting: VecDeque<(Instant, usize)>,
    arrivals: Option<Arrivals>,
    random: Random,
    /// For idempotency keys: a random number for each run, whatever the seed, and the number of used keys.
    once: (u64, u64),
    batches: VecDeque<String>,
    stats: Stats,
    slice: Slice,
    sent: u64,
    busy_places: usize,
    request: String,
    body: String,
    buffer: Box<[u8; 16 * 1024]>,
}

impl<'r> Thread<'r> {
    fn new(shared: &'r Orders<'r>, part: usize, slices: &'r Sender<Slice>) -> std::io::Result<Thread<'r>> {
        let load = shared.load;
        let share = |all: usize| all / shared.threads + usize::from(part < all % shared.threads);
        let places = share(shared.connections).max(1);
        let arrivals =
            load.rate().map(|rate| Arrivals::new(rate, load.spread, part, shared.threads, load.seed));
        Ok(Thread {
            shared,
            slices,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            places: (0..places).map(|_| Connection::default()).collect(),
            free: (0..places).rev().collect(),
            resting: VecDeque::new(),
            arrivals,
            random: Random::new(load.seed.rotate_left(32) ^ part as u64),
            once: (RandomState::new().hash_one(part), 0),
            batches: shared.first_batch.iter().cloned().collect(),
            stats: Stats::new(),
            slice: empty_slice(0),
            sent: 0,
            busy_places: 0,
            request: String::new(),
            body: String::new(),
            buffer: scratch(),
        })
    }

    /// Sends due requests while `sending`, and takes answers, until `end` or until no answer is missing.
    fn until(&mut self, end: Instant, sending: bool) -> std::io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut look = Instant::now() + LOOK;
        loop {
            let now = Instant::now();
            let over = if sending { self.stopped() } else { self.busy_places == 0 };
            self.rested(now);
            if sending && !over {
                // Also at the end: requests that were due while this thread had no core are not lost.
                self.send_due(now, end);
            }
            if now >= end || over {
                return Ok(());
            }
            if now >= look {
                self.expire(now);
                look = now + LOOK;
            }
            let wake = self.next_due(sending).unwrap_or(look).min(look).min(end);
            self.wait(&mut events, wake.saturating_duration_since(Instant::now()))?;
            for event in events.drain(..) {
                let flags = event.flags;
                let ended = flags
                    .intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
                self.event(event.data.u64() as usize, ended);
            }
        }
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn wait(&self, events: &mut Vec<epoll::Event>, time: Duration) -> std::io::Result<()> {
        let time = if self.shared.load.spin { Duration::ZERO } else { time };
        let exact = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&exact)) {
            Err(Errno::NOSYS) => {
                // Before Linux 5.11 epoll has only milliseconds.
                let millis = (time.as_micros().div_ceil(1000)) as i64;
                let coarse = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
                epoll::wait(&self.epoll, spare_capacity(events), Some(&coarse)).map(drop)?;
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The time at which the next request can be sent; `None` while all connections are in use.
    fn next_due(&self, sending: bool) -> Option<Instant> {
        let rested = self.resting.front().map(|(when, _)| *when);
        if !sending || self.free.is_empty() {
            return rested;
        }
        let due = self.arrivals.as_ref().map(|arrivals| self.shared.begin + arrivals.due());
        match (due, rested) {
            (Some(due), Some(rested)) => Some(due.min(rested)),
            (due, rested) => due.or(rested),
        }
    }

    fn rested(&mut self, now: Instant) {
        while let Some((_, place)) = self.resting.pop_front_if(|(when, _)| *when <= now) {
            self.free.push(place);
        }
    }

    fn send_due(&mut self, now: Instant, end: Instant) {
        while !self.free.is_empty() {
            let due = match &mut self.arrivals {
                None if now >= self.shared.begin && now < end => now,
                None => return,
                Some(arrivals) => {
                    let due = self.shared.begin + arrivals.due();
                    if due > now || due >= end {
                        return;
                    }
                    arrivals.advance();
                    due
                }
            };
            if let Some(place) = self.free.pop() {
                self.ask(place, due);
            }
        }
    }

    fn ask(&mut self, place: usize, due: Instant) {
        let endpoint = self.shared.load.mix.draw(&mut self.random);
        self.compose(endpoint);
        let job = Job { endpoint, due, sent: Instant::now() };
        self.sent += 1;
        self.busy_places += 1;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let asked =
            self.places[place].ask(&self.shared.target.server, &self.request, job).and_then(|fresh| {
                match fresh {
                    Some(stream) => {
                        let data = epoll::EventData::new_u64(place as u64);
                        Ok(epoll::add(&self.epoll, stream, data, flags)?)
                    }
                    None => Ok(()),
                }
            });
        if asked.is_err() {
            self.fail(place, Failure::Connection);
        }
    }

    /// Writes the next request to the buffer.
    fn compose(&mut self, endpoint: Endpoint) {
        let shared = self.shared;
        let Target { host, keys, .. } = shared.target;
        let key = match keys.len() {
            0 => "",
            count => keys[self.random.below(count as u64) as usize].as_str(),
        };
        self.request.clear();
        self.body.clear();
        match endpoint {
            Endpoint::Fast | Endpoint::Full => {
                self.body.push_str("{\"email\":\"");
                shared.addresses.next(&mut self.body);
                self.body.push_str(if endpoint == Endpoint::Fast { "\",\"mode\":\"fast\"}" } else { "\"}" });
                http::post(&mut self.request, host, "/v1/verify", key, None, &self.body);
            }
            Endpoint::Batch => {
                batch_body(&mut self.body, &shared.addresses, shared.load.batch_size);
                self.once.1 += 1;
                let once = Some(self.once);
                http::post(&mut self.request, host, "/v1/verify/batch", key, once, &self.body);
            }
            Endpoint::Poll => {
                let kept = self.batches.len().max(1) as u64;
                let id = self.batches.get(self.random.below(kept) as usize);
                let _ = write!(self.body, "/v1/verify/batch/{}", id.map_or("none", String::as_str));
                http::get(&mut self.request, host, &self.body, key);
            }
            Endpoint::Account => http::get(&mut self.request, host, "/v1/account", key),
        }
    }

    fn event(&mut self, place: usize, ended: bool) {
        let connection = &mut self.places[place];
        match connection.ready(ended, &mut self.buffer) {
            ReadStep::Waiting => {}
            ReadStep::Failed(failure) => self.fail(place, failure),
            ReadStep::Answered(answer) => {
                let Some(job) = connection.job else { return };
                self.took(job, answer.status, place, &answer);
                self.places[place].done(&answer);
                self.busy_places -= 1;
                self.free.push(place);
            }
        }
    }

    fn took(&mut self, job: Job, status: u16, place: usize, answer: &http::Answer) {
        let now = Instant::now();
        let latency = now.saturating_duration_since(job.due);
        self.tick(now, latency, (200..300).contains(&status));
        let counted = self.counts(job.due);
        if counted {
            self.stats.answered(job.endpoint, status, latency);
        }
        let body = self.places[place].body(answer);
        match (job.endpoint, status) {
            (Endpoint::Fast | Endpoint::Full, 200) if counted => {
                self.stats.reason(http::text_field(body, "reason").unwrap_or("-"));
                self.stats.cached += u64::from(http::is_true(body, "cached"));
            }
            (Endpoint::Batch, 202) => {
                if counted {
                    self.stats.batch_rows += u64::from(self.shared.load.batch_size);
                }
                if let Some(id) = http::text_field(body, "batch_id").filter(|id| id.len() <= 64) {
                    self.batches.push_back(id.to_owned());
                }
                if self.batches.len() > BATCHES_KEPT {
                    self.batches.pop_front();
                }
            }
            _ => {}
        }
    }

    /// Closes a connection and counts its job as lost.
    fn fail(&mut self, place: usize, failure: Failure) {
        let now = Instant::now();
        if let Some(job) = self.places[place].job {
            let latency = now.saturating_duration_since(job.due);
            self.tick(now, latency, false);
            if self.counts(job.due) {
                self.stats.failed(job.endpoint, failure, latency);
            }
            self.busy_places -= 1;
            self.resting.push_back((now + REST, place));
        }
        self.places[place].close();
    }

    fn expire(&mut self, now: Instant) {
        for place in 0..self.places.len() {
            let late = self.places[place]
                .job
                .is_some_and(|job| now.duration_since(job.sent) > self.shared.load.patience);
            if late {
                self.fail(place, Failure::Timeout);
            }
        }
    }

    /// Requests that were due before the end and were not sent took at least until the end.
    fn count_unsent(&mut self) {
        let end = self.shared.end;
        let Some(mut arrivals) = self.arrivals.clone() else { return };
        if self.stopped() {
            // A run that is ended early has not waited for requests that were just due.
            return;
        }
        loop {
            let due = self.shared.begin + arrivals.due();
            if due >= end {
                return;
            }
            arrivals.advance();
            if self.counts(due) {
                let endpoint = self.shared.load.mix.draw(&mut self.random);
                self.stats.failed(endpoint, Failure::Unsent, end.saturating_duration_since(due));
            }
        }
    }

    fn give_up(&mut self) {
        for place in 0..self.places.len() {
            if self.places[place].job.is_some() {
                self.fail(place, Failure::Timeout);
            }
        }
    }

    fn counts(&self, due: Instant) -> bool {
        due >= self.shared.count_from
    }

    /// Counts a request that ended in this second.
    fn tick(&mut self, now: Instant, latency: Duration, good: bool) {
        let second = now.saturating_duration_since(self.shared.begin).as_secs() as u32;
        if second != self.slice.second {
            self.cut(second);
        }
        self.slice.answered += 1;
        self.slice.errors += u64::from(!good);
        note(&mut self.slice.latency, latency);
    }

    /// Hands the slice over and begins another.
    fn cut(&mut self, second: u32) {
        let slice = std::mem::replace(&mut self.slice, empty_slice(second));
        if slice.answered > 0 {
            // The receiver is dropped only at the end of the run.
            let _ = self.slices.send(slice);
        }
    }
}

/// Writes the body of a batch with this many addresses.
pub fn batch_body(body: &mut String, addresses: &Addresses, size: u32) {
    body.push_str("{\"emails\":[");
    for number in 0..size {
        body.push_str(if number == 0 { "\"" } else { ",\"" });
        addresses.next(body);
        body.push('"');
    }
    body.push_str("]}");
}

fn empty_slice(second: u32) -> Slice {
    Slice { second, answered: 0, errors: 0, latency: histogram(2) }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
