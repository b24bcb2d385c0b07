//! The loop that moves rows from the source over the engine to the sink.

use super::report::{Progress, Summary};
use super::sink::Sink;
use super::source::Source;
use super::window::Window;
use super::{CleanError, Verdict};
use crate::engine_client::Line;
use crate::fast::judge;
use engine::proto::address::Address;
use engine::{Answer, Finding, MailHosts, Outage, Pending, Priority, Refusal, Request};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

/// Whoever checks addresses: the engine in full mode, or a fast check.
pub trait Checker {
    /// Takes an address.
    ///
    /// # Errors
    /// [`Refusal`]; the address was not taken and gets no answer.
    fn submit(&mut self, ticket: u64, address: &Address) -> Result<(), Refusal>;

    /// The next answer, in any order; `None` after `patience`.
    fn answer(&mut self, patience: Duration) -> Option<Answered>;
}

/// An answer about one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The ticket it was submitted with.
    pub ticket: u64,
    /// The verdict, or why nothing can be said about any address.
    pub result: Result<Verdict, Outage>,
    /// The server asked for a later try.
    pub retry_after: Option<Duration>,
}

impl Checker for Box<dyn Checker> {
    fn submit(&mut self, ticket: u64, address: &Address) -> Result<(), Refusal> {
        (**self).submit(ticket, address)
    }

    fn answer(&mut self, patience: Duration) -> Option<Answered> {
        (**self).answer(patience)
    }
}

impl Checker for Box<dyn Line + Send> {
    fn submit(&mut self, ticket: u64, address: &Address) -> Result<(), Refusal> {
        let address = address.clone();
        Line::submit(&**self, Request { ticket, address, priority: Priority::List, owner: 0, trace: false })
    }

    fn answer(&mut self, patience: Duration) -> Option<Answered> {
        let Answer { ticket, result, .. } = self.answer_blocking(patience)?;
        let retry_after = result.as_ref().ok().and_then(|finding| finding.retry_after);
        let result = result.map(|Finding { reason, .. }| Verdict::from(reason));
        Some(Answered { ticket, result, retry_after })
    }
}

/// Checks fast: no mail server hears of the addresses.
pub(super) struct Fast {
    line: Box<dyn Line + Send>,
    /// In the order in which they were asked; each answers within a few seconds.
    asked: VecDeque<(u64, Address, Pending<MailHosts>)>,
}

impl Fast {
    pub fn new(line: Box<dyn Line + Send>) -> Fast {
        Fast { line, asked: VecDeque::new() }
    }
}

impl Checker for Fast {
    fn submit(&mut self, ticket: u64, address: &Address) -> Result<(), Refusal> {
        let pending = self.line.mail_hosts(address.domain().clone())?;
        self.asked.push_back((ticket, address.clone(), pending));
        Ok(())
    }

    fn answer(&mut self, patience: Duration) -> Option<Answered> {
        let Some((ticket, address, pending)) = self.asked.front() else {
            std::thread::sleep(patience);
            return None;
        };
        let hosts = pending.answer_blocking(patience)?;
        let result = judge(address, hosts).map(|(reason, _)| Verdict::from(reason));
        let answered = Answered { ticket: *ticket, result, retry_after: None };
        self.asked.pop_front();
        Some(answered)
    }
}

/// How often an address is asked about again when its server says "later", at most.
const RETRIES_MAX: u32 = 2;
/// The longest that such a later try is put off. Greylisting servers want one minute to a quarter of an hour.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(15 * 60);
/// The longest that the loop waits for an answer: progress is shown and files are flushed meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
/// When an address is asked about again that met an outage.
const OUTAGE_PAUSE: Duration = Duration::from_secs(5);
/// When an address is handed over again whose site had enough of them waiting.
const CROWDED_PAUSE: Duration = Duration::from_millis(500);
/// After so long without any answer, although some are under way, the engine is held to be stuck.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 60);
/// How much work a kill can cost.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// What the loop waits for, and how long.
pub(super) struct Waits {
    /// What wants to wait longer than this before it is asked again is not.
    pub later: Duration,
    /// A list of hours must not end with a minute's outage: only one that lasts longer, without a verdict, ends the run.
    pub outage: Duration,
}

/// Cleans a list.
///
/// # Errors
/// [`CleanError`]; all rows up to the first one without a verdict are written then.
pub(super) fn run(
    source: Source,
    sink: Sink,
    checker: &mut dyn Checker,
    progress: Progress,
    waits: Waits,
) -> Result<Summary, CleanError> {
    let mut run = Run {
        source,
        sink,
        checker,
        progress,
        waits,
        summary: Summary::default(),
        window: Window::default(),
        unsent: VecDeque::new(),
        later: BinaryHeap::new(),
        ended: false,
        flushed: Instant::now(),
        heard: Instant::now(),
        outage: None,
    };
    let started = Instant::now();
    let result = run.clean();
    run.progress.end();
    match result {
        Ok(()) => {
            run.sink.finish()?;
            run.summary.elapsed = started.elapsed();
            Ok(run.summary)
        }
        Err(error) => {
            // The writer may be what failed: then it fails again, and the first error is the one to tell.
            let _ = run.write();
            Err(run.sink.keep(error))
        }
    }
}

struct Run<'a> {
    source: Source,
    sink: Sink,
    checker: &'a mut dyn Checker,
    progress: Progress,
    waits: Waits,
    summary: Summary,
    window: Window,
    /// Tickets that the engine had no room for.
    unsent: VecDeque<u64>,
    /// Tickets that are to be asked again, and when.
    later: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The source has no more rows.
    ended: bool,
    flushed: Instant,
    /// When the last answer came.
    heard: Instant,
    /// Since when nothing but outages was heard.
    outage: Option<Instant>,
}

impl Run<'_> {
    fn clean(&mut self) -> Result<(), CleanError> {
        self.replay()?;
        loop {
            self.submit()?;
            self.write()?;
            if self.ended && self.window.len() == 0 {
                return Ok(());
            }
            self.receive()?;
        }
    }

    /// Skips the rows that an interrupted run has done.
    fn replay(&mut self) -> Result<(), CleanError> {
        self.sink.begin(self.source.shape())?;
        while self.sink.is_replaying() {
            let Some(row) = self.source.next()? else {
                self.ended = true;
                return self.sink.end_of_list();
            };
            match self.sink.replay(self.source.shape(), &row.record)? {
                Some(verdict) => {
                    self.summary.resumed += 1;
                    self.summary.count(verdict);
                    self.progress.advance(row.end);
                }
                None => {
                    let ticket = self.window.push(row);
                    self.unsent.push_back(ticket);
                }
            }
        }
        Ok(())
    }

    /// Fills the window and the engine as far as there is room.
    fn submit(&mut self) -> Result<(), CleanError> {
        let now = Instant::now();
        while let Some(&Reverse((due, ticket))) = self.later.peek()
            && due <= now
        {
            self.later.pop();
            self.heard = now;
            self.window.resume(ticket);
            self.unsent.push_back(ticket);
        }
        loop {
            while let Some(&ticket) = self.unsent.front() {
                if let Some(address) = self.window.address(ticket) {
                    match self.checker.submit(ticket, address) {
                        Ok(()) => {}
                        Err(Refusal::Full) => return Ok(()),
                        Err(Refusal::Stopping) => return Err(outage(Outage::Stopping)),
                    }
                }
                self.unsent.pop_front();
            }
            if self.ended || !self.window.has_room() {
                return Ok(());
            }
            match self.source.next()? {
                Some(row) => {
                    let ticket = self.window.push(row);
                    self.unsent.push_back(ticket);
                }
                None => self.ended = true,
            }
        }
    }

    /// Waits for an answer and takes all that are there.
    fn receive(&mut self) -> Result<(), CleanError> {
        let mut patience = match self.later.peek() {
            Some(Reverse((due, _))) => due.saturating_duration_since(Instant::now()).min(PATIENCE),
            None => PATIENCE,
        };
        while let Some(answered) = self.checker.answer(patience) {
            self.take(answered)?;
            patience = Duration::ZERO;
            self.heard = Instant::now();
        }
        if self.later.is_empty() && self.heard.elapsed() > SILENCE_MAX {
            return Err(CleanError::failed("the engine does not answer; try again, and report this defect"));
        }
        Ok(())
    }

    fn take(&mut self, answered: Answered) -> Result<(), CleanError> {
        let Answered { ticket, result, retry_after } = answered;
        let verdict = match result {
            Ok(verdict) => verdict,
            Err(Outage::Unavailable) if !self.is_lasting_outage() => {
                self.later.push(Reverse((Instant::now() + OUTAGE_PAUSE, ticket)));
                return Ok(());
            }
            Err(Outage::Crowded) => {
                self.later.push(Reverse((Instant::now() + CROWDED_PAUSE, ticket)));
                return Ok(());
            }
            Err(why) => return Err(outage(why)),
        };
        self.outage = None;
        let delay = retry_after.map(|delay| delay.min(RETRY_DELAY_MAX));
        let retry = delay.filter(|&delay| verdict.reason == "unverifiable" && delay <= self.waits.later);
        if let Some(delay) = retry
            && let Some(before) = self.window.postpone(ticket, verdict)
            && before < RETRIES_MAX
        {
            self.later.push(Reverse((Instant::now() + delay, ticket)));
        } else {
            self.window.settle(ticket, verdict);
        }
        Ok(())
    }

    /// Notes an outage; true when it has lasted for too long.
    fn is_lasting_outage(&mut self) -> bool {
        let now = Instant::now();
        now.saturating_duration_since(*self.outage.get_or_insert(now)) >= self.waits.outage
    }

    /// Writes what is done, up to the first row that is not.
    fn write(&mut self) -> Result<(), CleanError> {
        loop {
            // A row waits for its second try only as long as those behind it have room.
            if !self.window.has_room() {
                self.window.hurry();
            }
            let Some(done) = self.window.pop() else { break };
            self.sink.write(self.source.shape(), &done.record, done.verdict)?;
            self.summary.count(done.verdict);
            self.progress.advance(done.end);
        }
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.sink.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}

fn outage(outage: Outage) -> CleanError {
    CleanError::failed(match outage {
        Outage::Unavailable => {
            "nobody can be asked: no resolver answers, or no connection to any mail server succeeds; see to the \
             network, to --resolver and to outbound port 25"
        }
        Outage::Crowded | Outage::Stopping => "the engine was stopped",
    })
}
