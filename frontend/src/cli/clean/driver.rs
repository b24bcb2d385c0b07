//! The loop that moves rows from the source over the engine to the sink.

use super::checker::{Answered, Checker};
use super::flight::{Asked, Flight};
use super::progress::{Progress, Standing};
use super::putoff::PutOff;
use super::rows::{Rows, Waiting};
use super::seen::Seen;
use super::sink::Sink;
use super::source::{Row, Source};
use super::state::State;
use super::summary::Summary;
use super::{CleanError, UNDER_WAY_MAX, Verdict};
use engine::proto::address::Address;
use engine::{Outage, Refusal};
use std::time::{Duration, Instant};

/// How often an address is asked about again when its server says "later", at most.
const RETRIES_MAX: u8 = 8;
/// The longest that such a later try is put off. Greylisting servers want one minute to a quarter of an hour.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(15 * 60);
/// The longest that the loop waits for an answer: progress is shown and files are flushed meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
/// While many are under way, answers are taken many at a time: each wake-up costs more than an answer does.
const NAP: Duration = Duration::from_millis(1);
/// Fewer answers than this are followed by a nap, if more addresses than that are under way.
const NAP_BELOW: usize = 64;
const NAP_UNDER_WAY: usize = 1000;
/// Rows that are read before answers are looked for.
const READ_AT_ONCE: usize = 1024;
/// When an address is asked about again that met an outage.
const OUTAGE_PAUSE: Duration = Duration::from_secs(5);
/// After so long without any answer, although some are under way, the engine is held to be stuck.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 60);
/// How much work a kill can cost.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// What the loop waits for, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// How long after its server first said "later" a row may be asked about again.
    pub later: Duration,
    /// A list of hours must not end with a minute's outage: only one that lasts longer, without a verdict, ends the run.
    pub outage: Duration,
}

/// What a run works with.
pub(super) struct Parts<'a> {
    pub source: Source,
    pub sink: Sink,
    pub state: State,
    pub ordered: bool,
    pub checker: &'a mut dyn Checker,
    pub progress: Progress,
    pub waits: Waits,
}

/// Cleans a list.
///
/// # Errors
/// [`CleanError`]; all rows that can be are written then.
pub(super) fn run(parts: Parts<'_>) -> Result<Summary, CleanError> {
    let started = Instant::now();
    let mut run = Run {
        seen: Seen::new(&parts.state)?,
        rows: Rows::new(parts.ordered),
        parts,
        verdicts: Verdict::all().collect(),
        summary: Summary::default(),
        flight: Flight::new(UNDER_WAY_MAX),
        put_off: PutOff::default(),
        row: Row::default(),
        answers: Vec::new(),
        read: 0,
        ended: false,
        started,
        flushed: started,
        heard: started,
        outage: None,
        paused: None,
    };
    let result = run.clean().and_then(|()| {
        run.parts.progress.end();
        run.parts.sink.finish()
    });
    run.parts.progress.end();
    match result {
        Ok(()) => {
            run.summary.elapsed = started.elapsed();
            Ok(run.summary)
        }
        Err(error) => {
            // The writer may be what failed: then it fails again, and the first error is the one to tell.
            let _ = run.write();
            // Where the disk was full there is room now for what was done.
            drop(run.parts.state);
            Err(run.parts.sink.keep(error))
        }
    }
}

struct Run<'a> {
    parts: Parts<'a>,
    seen: Seen,
    rows: Rows,
    /// By their codes, from 1.
    verdicts: Vec<Verdict>,
    summary: Summary,
    flight: Flight,
    put_off: PutOff,
    /// The row that was read last.
    row: Row,
    answers: Vec<Answered>,
    /// How many rows were read.
    read: u64,
    /// The source has no more rows.
    ended: bool,
    started: Instant,
    flushed: Instant,
    /// When the last answer came.
    heard: Instant,
    /// Since when nothing but outages was heard.
    outage: Option<Instant>,
    /// Until when no rows are read, for somebody could not be asked.
    paused: Option<Instant>,
}

impl Run<'_> {
    fn clean(&mut self) -> Result<(), CleanError> {
        self.parts.sink.begin(self.parts.source.shape(), &mut self.parts.state)?;
        loop {
            self.resend()?;
            self.release()?;
            self.read()?;
            self.write()?;
            let idle = self.flight.len() == 0 && self.put_off.len() == 0;
            if self.ended && idle && self.rows.len() == 0 {
                return Ok(());
            }
            self.show();
            self.receive()?;
        }
    }

    /// Hands over what the engine had no room for.
    fn resend(&mut self) -> Result<(), CleanError> {
        while let Some(&ticket) = self.flight.unsent.front() {
            if let Some(asked) = self.flight.row(ticket) {
                let address = parse(asked)?;
                if !self.submit(ticket, address)? {
                    break;
                }
            }
            self.flight.unsent.pop_front();
        }
        Ok(())
    }

    /// Hands over rows that were put off and whose turn has come.
    fn release(&mut self) -> Result<(), CleanError> {
        let now = self.now();
        let mut asked = Asked::default();
        while self.has_room() && self.put_off.next(&mut self.parts.state, now, &mut asked)? {
            let address = parse(&asked)?;
            let ticket = self.flight.take(|slot| {
                std::mem::swap(slot, &mut asked);
                Ok(())
            })?;
            self.send(ticket, address)?;
        }
        Ok(())
    }

    /// Reads rows as far as there is room for them.
    fn read(&mut self) -> Result<(), CleanError> {
        for _ in 0..READ_AT_ONCE {
            if !self.may_read() {
                return Ok(());
            }
            if !self.parts.source.next(&mut self.row)? {
                self.ended = true;
                return self.parts.sink.end_of_list();
            }
            self.read += 1;
            self.take()?;
        }
        Ok(())
    }

    /// Whether another row may be read: in an outage there is no use in it.
    fn may_read(&self) -> bool {
        !self.ended && self.has_room() && self.paused.is_none()
    }

    fn has_room(&self) -> bool {
        self.flight.has_room() && self.flight.unsent.is_empty()
    }

    /// Finds out what is to be done with the row that was read.
    fn take(&mut self) -> Result<(), CleanError> {
        let number = self.read - 1;
        let known = match self.parts.sink.is_replaying() {
            true => self.parts.sink.known(&mut self.parts.state, &self.row.prefix)?,
            false => None,
        };
        let Some(address) = self.row.address.take() else {
            let code = known.unwrap_or_else(|| Verdict::INVALID_SYNTAX.code());
            return self.take_known(number, None, code, known.is_some());
        };
        let domain = self.summary.domains.number(address.domain().as_str());
        let earlier = self.seen.earlier(&mut self.parts.state, &address, number)?;
        if let Some(code) = known {
            if earlier.is_none() {
                self.seen.settle(&mut self.parts.state, number, code)?;
            }
            return self.take_known(number, Some(domain), code, true);
        }
        let Some(first) = earlier else { return self.ask(number, domain, address) };
        self.summary.duplicates += 1;
        let code = self.seen.code(&mut self.parts.state, first)?;
        if code != 0 {
            self.take_known(first, Some(domain), code, false)
        } else {
            self.queue(first, domain, code)
        }
    }

    /// A row whose verdict is there, and which perhaps is `done`: it stands in the output already.
    fn take_known(
        &mut self,
        first: u64,
        domain: Option<u32>,
        code: u8,
        done: bool,
    ) -> Result<(), CleanError> {
        if done {
            self.summary.resumed += 1;
        } else if self.rows.is_ordered() {
            return self.queue(first, domain.unwrap_or(NO_DOMAIN), code);
        } else {
            self.parts.sink.write(&self.row.prefix, code)?;
        }
        count(&mut self.summary, &self.verdicts, code, domain);
        Ok(())
    }

    /// The row waits to be written.
    fn queue(&mut self, first: u64, domain: u32, code: u8) -> Result<(), CleanError> {
        self.rows.push(&mut self.parts.state, Waiting { first, domain, code }, &self.row.prefix)
    }

    /// The row's address is new.
    fn ask(&mut self, number: u64, domain: u32, address: Address) -> Result<(), CleanError> {
        let ordered = self.rows.is_ordered();
        if ordered {
            self.queue(number, domain, 0)?;
        }
        let prefix: &[u8] = if ordered { &[] } else { &self.row.prefix };
        let (state, put_off) = (&mut self.parts.state, &mut self.put_off);
        let mut waits = false;
        let ticket = self.flight.take(|slot| {
            let text = address.as_str().as_bytes();
            slot.row = number;
            slot.domain = domain;
            slot.retries = 0;
            slot.since = None;
            slot.address_bytes = text.len() as u16;
            slot.bytes.clear();
            slot.bytes.extend_from_slice(text);
            slot.bytes.extend_from_slice(prefix);
            waits = put_off.join(state, slot)?;
            Ok(())
        })?;
        if waits {
            self.flight.release(ticket);
            return Ok(());
        }
        self.send(ticket, address)
    }

    /// Hands an address over, now or when there is room.
    fn send(&mut self, ticket: u64, address: Address) -> Result<(), CleanError> {
        if !self.submit(ticket, address)? {
            self.flight.unsent.push_back(ticket);
        }
        Ok(())
    }

    fn submit(&mut self, ticket: u64, address: Address) -> Result<bool, CleanError> {
        match self.parts.checker.submit(ticket, address) {
            Ok(()) => Ok(true),
            Err(Refusal::Full) => Ok(false),
            Err(Refusal::Stopping) => Err(outage(Outage::Stopping)),
        }
    }

    /// Waits for answers and takes all that are there.
    fn receive(&mut self) -> Result<(), CleanError> {
        let now = self.now();
        if self.paused.is_some_and(|until| until <= Instant::now()) {
            self.paused = None;
        }
        let due = self.put_off.next_due(now).filter(|_| self.has_room());
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(now)));
        let patience = if self.may_read() { Duration::ZERO } else { due.unwrap_or(PATIENCE).min(PATIENCE) };
        let mut answers = std::mem::take(&mut self.answers);
        self.parts.checker.answers(patience, &mut answers);
        if !answers.is_empty() || self.flight.len() == 0 {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > SILENCE_MAX {
            return Err(CleanError::failed("the engine does not answer; try again, and report this defect"));
        }
        let few = answers.len() < NAP_BELOW && self.flight.len() > NAP_UNDER_WAY && !self.may_read();
        let now = self.now();
        for answered in answers.drain(..) {
            self.answered(answered, now)?;
        }
        self.answers = answers;
        if few {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    fn answered(&mut self, answered: Answered, now: u64) -> Result<(), CleanError> {
        let Answered { ticket, result, retry_after } = answered;
        let lasting = matches!(result, Err(Outage::Unavailable)) && self.is_lasting_outage();
        let Some(asked) = self.flight.row(ticket) else { return Ok(()) };
        let state = &mut self.parts.state;
        match result {
            Ok(verdict) => {
                self.outage = None;
                self.put_off.answered(asked);
                let delay = retry_after.filter(|_| verdict.reason == "unverifiable");
                if let Some(wanted) = delay {
                    let since = asked.since.unwrap_or(now);
                    let left = self
                        .parts
                        .waits
                        .later
                        .saturating_sub(Duration::from_millis(now.saturating_sub(since)));
                    // What the server wants is often a guess: when the time is over, it is asked once more.
                    let delay = wanted.min(RETRY_DELAY_MAX).min(left);
                    if !delay.is_zero() && asked.retries < RETRIES_MAX {
                        asked.since = Some(since);
                        asked.retries += 1;
                        self.summary.retries += 1;
                        self.put_off.postpone(state, asked, now, millis(delay).max(1))?;
                        self.flight.release(ticket);
                        return Ok(());
                    }
                    self.summary.give_up(wanted);
                }
                self.settle(ticket, verdict)
            }
            Err(Outage::Unavailable) if !lasting => {
                self.put_off.postpone(state, asked, now, millis(OUTAGE_PAUSE))?;
                self.flight.release(ticket);
                Ok(())
            }
            Err(Outage::Crowded) => {
                self.put_off.crowded(state, asked)?;
                self.flight.release(ticket);
                Ok(())
            }
            Err(why) => Err(outage(why)),
        }
    }

    /// The address has its verdict.
    fn settle(&mut self, ticket: u64, verdict: Verdict) -> Result<(), CleanError> {
        let Some(asked) = self.flight.row(ticket) else { return Ok(()) };
        let code = verdict.code();
        self.seen.settle(&mut self.parts.state, asked.row, code)?;
        self.rows.settled();
        if !self.rows.is_ordered() {
            self.parts.sink.write(asked.prefix(), code)?;
            count(&mut self.summary, &self.verdicts, code, Some(asked.domain));
        }
        self.flight.release(ticket);
        Ok(())
    }

    /// Notes an outage; true when it has lasted for too long. Verdicts that need no mail server may go on meanwhile, so
    /// no more rows are read before those that met it have been asked about again.
    fn is_lasting_outage(&mut self) -> bool {
        let now = Instant::now();
        self.paused = Some(now + OUTAGE_PAUSE + PATIENCE);
        now.saturating_duration_since(*self.outage.get_or_insert(now)) >= self.parts.waits.outage
    }

    /// Writes the rows whose turn has come.
    fn write(&mut self) -> Result<(), CleanError> {
        let idle = self.ended && self.flight.len() == 0 && self.put_off.len() == 0;
        while let Some((row, prefix)) = self.rows.next(&mut self.parts.state, &mut self.seen, idle)? {
            self.parts.sink.write(prefix, row.code)?;
            let domain = Some(row.domain).filter(|&domain| domain != NO_DOMAIN);
            count(&mut self.summary, &self.verdicts, row.code, domain);
        }
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.parts.sink.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    fn show(&mut self) {
        let (put_off, now) = (&self.put_off, millis(self.started.elapsed()));
        let (read, octets) = (self.read, self.row.end);
        self.parts.progress.show(&self.summary, || Standing {
            read,
            octets,
            put_off: put_off.len(),
            until: put_off.last_due().map(|due| Duration::from_millis(due.saturating_sub(now))),
        });
    }

    /// Milliseconds from the start of the run.
    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// Of a row without an address.
const NO_DOMAIN: u32 = u32::MAX - 1;

fn count(summary: &mut Summary, verdicts: &[Verdict], code: u8, domain: Option<u32>) {
    if let Some(&verdict) = usize::from(code).checked_sub(1).and_then(|at| verdicts.get(at)) {
        summary.count(verdict, code, domain);
    }
}

/// The address of a row that was an address before.
fn parse(asked: &Asked) -> Result<Address, CleanError> {
    let text = std::str::from_utf8(asked.address()).ok();
    let address = text.and_then(|text| Address::parse(text).ok());
    address.ok_or_else(|| CleanError::failed("an address that waits is torn; report this defect"))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
