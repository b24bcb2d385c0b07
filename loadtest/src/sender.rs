//! A thread that sends: connections of its own, one epoll, no lock on the way of a request.
//!
//! Open loop: each request has a time at which it is due. If every connection is taken then, it is sent as soon as one
//! is free, and its latency still begins where it was due. What was due and never found a connection counts as
//! `unsent`. Closed loop: each connection asks again as soon as it has its answer.

use crate::addresses::Addresses;
use crate::arrivals::{Arrivals, Spread};
use crate::connection::{Connection, Job, ReadStep, scratch};
use crate::http;
use crate::mix::{Endpoint, Mix};
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
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Events that are taken at once.
const EVENTS: usize = 256;
/// How often it looks for requests that take too long, at the latest.
const LOOK: Duration = Duration::from_millis(100);
/// Batches that polls ask for.
const BATCHES_KEPT: usize = 64;
/// After a connection failed the next attempt waits: a server that is down is not hammered by a closed loop.
const REST: Duration = Duration::from_millis(20);

/// What all threads of a run share.
#[derive(Debug)]
pub struct Orders {
    /// Whom to ask, and as which host.
    pub server: SocketAddr,
    pub host: String,
    pub keys: Vec<String>,
    pub addresses: Addresses,
    pub mix: Mix,
    pub batch_size: u32,
    /// Requests a second of all threads; none in the closed loop.
    pub rate: Option<f64>,
    pub spread: Spread,
    pub seed: u64,
    /// Connections of all threads.
    pub connections: usize,
    pub threads: usize,
    /// They never sleep, so that the server is not charged for waking them.
    pub spin: bool,
    /// When sending begins, when counting does, and when both end.
    pub begin: Instant,
    pub count_from: Instant,
    pub end: Instant,
    /// The longest that an answer may take; after the end, too.
    pub patience: Duration,
    /// A batch that polls can ask for until others are made.
    pub first_batch: Option<String>,
    /// Set when the run is to end early.
    pub stop: Arc<AtomicBool>,
}

/// What a thread saw in one second.
pub struct Slice {
    /// Since the beginning.
    pub second: u32,
    pub answered: u64,
    pub errors: u64,
    pub latency: Histogram<u64>,
}

/// What a thread brings home.
pub struct Brought {
    pub stats: Stats,
    /// Processor time of the thread from the beginning to the end of sending: how busy the client itself was.
    pub busy: Duration,
    /// Requests sent, counted or not.
    pub sent: u64,
}

/// Sends until the end and waits for the answers that are still out.
///
/// # Errors
/// When epoll cannot be had.
pub fn send(shared: &Orders, part: usize, slices: &Sender<Slice>) -> std::io::Result<Brought> {
    let mut thread = Thread::new(shared, part, slices)?;
    let began = thread_cpu();
    thread.until(shared.end, true)?;
    let busy = thread_cpu().saturating_sub(began);
    thread.count_unsent();
    thread.until(Instant::now() + shared.patience, false)?;
    thread.give_up();
    thread.cut(u32::MAX);
    Ok(Brought { stats: thread.stats, busy, sent: thread.sent })
}

struct Thread<'r> {
    shared: &'r Orders,
    slices: &'r Sender<Slice>,
    epoll: OwnedFd,
    places: Vec<Connection>,
    /// Places without a job, and when each may be used again; the last one used comes first.
    free: Vec<usize>,
    resting: VecDeque<(Instant, usize)>,
    arrivals: Option<Arrivals>,
    random: Random,
    /// For idempotency keys: another one each run, whatever the seed, and how many were used.
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
    fn new(shared: &'r Orders, part: usize, slices: &'r Sender<Slice>) -> std::io::Result<Thread<'r>> {
        let share = |all: usize| all / shared.threads + usize::from(part < all % shared.threads);
        let places = share(shared.connections).max(1);
        let arrivals =
            shared.rate.map(|rate| Arrivals::new(rate, shared.spread, part, shared.threads, shared.seed));
        Ok(Thread {
            shared,
            slices,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            places: (0..places).map(|_| Connection::default()).collect(),
            free: (0..places).rev().collect(),
            resting: VecDeque::new(),
            arrivals,
            random: Random::new(shared.seed.rotate_left(32) ^ part as u64),
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

    /// Sends what is due, while `sending`, and takes what comes, until `end` or until nothing is left to wait for.
    fn until(&mut self, end: Instant, sending: bool) -> std::io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut look = Instant::now() + LOOK;
        loop {
            let now = Instant::now();
            let over = if sending { self.stopped() } else { self.busy_places == 0 };
            self.rested(now);
            if sending && !over {
                // At the end as well: what was due while this thread had no core is not lost.
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
        let time = if self.shared.spin { Duration::ZERO } else { time };
        let exact = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&exact)) {
            Err(Errno::NOSYS) => {
                // Before Linux 5.11 epoll knows milliseconds alone.
                let millis = (time.as_micros().div_ceil(1000)) as i64;
                let coarse = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
                epoll::wait(&self.epoll, spare_capacity(events), Some(&coarse)).map(drop)?;
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// When the next request can be sent; none while all connections are taken.
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
        let endpoint = self.shared.mix.draw(&mut self.random);
        self.compose(endpoint);
        let job = Job { endpoint, due, sent: Instant::now() };
        self.sent += 1;
        self.busy_places += 1;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let asked =
            self.places[place].ask(self.shared.server, &self.request, job).and_then(|fresh| match fresh {
                Some(stream) => {
                    let data = epoll::EventData::new_u64(place as u64);
                    Ok(epoll::add(&self.epoll, stream, data, flags)?)
                }
                None => Ok(()),
            });
        if asked.is_err() {
            self.fail(place, Failure::Connection);
        }
    }

    /// Writes the next request.
    fn compose(&mut self, endpoint: Endpoint) {
        let shared = self.shared;
        let key = match shared.keys.len() {
            0 => "",
            keys => shared.keys[self.random.below(keys as u64) as usize].as_str(),
        };
        self.request.clear();
        self.body.clear();
        match endpoint {
            Endpoint::Fast | Endpoint::Full => {
                self.body.push_str("{\"email\":\"");
                shared.addresses.next(&mut self.body);
                self.body.push_str(if endpoint == Endpoint::Fast { "\",\"mode\":\"fast\"}" } else { "\"}" });
                http::post(&mut self.request, &shared.host, "/v1/verify", key, &self.body);
            }
            Endpoint::Batch => {
                batch_body(&mut self.body, &shared.addresses, shared.batch_size);
                self.once.1 += 1;
                let path = "/v1/verify/batch";
                http::post_once(&mut self.request, &shared.host, path, key, self.once, &self.body);
            }
            Endpoint::Poll => {
                let kept = self.batches.len().max(1) as u64;
                let id = self.batches.get(self.random.below(kept) as usize);
                let _ = write!(self.body, "/v1/verify/batch/{}", id.map_or("none", String::as_str));
                http::get(&mut self.request, &shared.host, &self.body, key);
            }
            Endpoint::Account => http::get(&mut self.request, &shared.host, "/v1/account", key),
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
                    self.stats.batch_rows += u64::from(self.shared.batch_size);
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

    /// Gives a place up, and counts its job as lost.
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
            let late =
                self.places[place].job.is_some_and(|job| now.duration_since(job.sent) > self.shared.patience);
            if late {
                self.fail(place, Failure::Timeout);
            }
        }
    }

    /// What was due before the end and was not sent took until the end at least.
    fn count_unsent(&mut self) {
        let end = self.shared.end;
        let Some(mut arrivals) = self.arrivals.clone() else { return };
        if self.stopped() {
            // Who ends a run early has not waited for what was just due.
            return;
        }
        loop {
            let due = self.shared.begin + arrivals.due();
            if due >= end {
                return;
            }
            arrivals.advance();
            if self.counts(due) {
                let endpoint = self.shared.mix.draw(&mut self.random);
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

    /// Something ended, well or not, in this second.
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
            // Who collects them is gone only when the run is.
            let _ = self.slices.send(slice);
        }
    }
}

/// The body of a batch.
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
