//! The loop that moves rows from the source through the engine to the sink.

mod answers;
mod writing;

use super::CleanError;
use super::budget::{AskedRow, RowBudget, UNDER_WAY_MAX};
use super::checker::{Answered, Checker};
use super::journal::Journal;
use super::known::{KnownFile, KnownResults};
use super::outage::OutageWatch;
use super::outcome::Outcome;
use super::progress::{Progress, Standing};
use super::putoff::{PutOff, Turn};
use super::rows::Rows;
use super::run_options::RunOptions;
use super::seen::Seen;
use super::sink::{Sink, partial};
use super::stall::{Stall, Waits, millis};
use super::stop::StopSignal;
use super::summary::{Extent, Reading, Summary};
use super::time_left::{RunFacts, TimeLeft};
use engine::Refusal;
use engine::proto::address::Address;
use engine::proto::outage::Trouble;
use lists::marks::Marker;
use lists::numbers::{counted, grouped};
use lists::part::PartRows;
use lists::{ReasonCounts, Row, Shape, Source, reasons};
use spill::State;
use spill::closed::ClosedRows;
use spill::table::Table;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of rows read before the next look for answers.
pub(super) const READ_AT_ONCE: usize = 1024;
/// Interval between flushes of the output: a kill loses at most this much work.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of a run.
pub(super) struct Parts<'a> {
    pub source: Source,
    /// The rows to take; `None`: all.
    pub part: Option<PartRows>,
    pub sink: Sink,
    /// What a run that continues this one is compared with.
    pub options: RunOptions,
    pub state: State,
    pub ordered: bool,
    pub checker: &'a mut dyn Checker,
    pub progress: Progress,
    pub waits: Waits,
    /// Leaves out rows whose address came before.
    pub drop_duplicates: bool,
    /// The results of an earlier output that are used again.
    pub known: Option<KnownFile<'a>>,
    /// The earlier output that is the source, and of which only the open rows are checked.
    pub retried: Option<&'a Path>,
    /// Looks for probable typing mistakes at the end.
    pub finds_typos: bool,
    /// The checks contact no mail server.
    pub is_fast: bool,
    /// A signal that ends the run.
    pub stop: StopSignal,
}

/// Cleans a list.
///
/// # Errors
/// [`CleanError`]; all finished rows are written then, if possible.
pub(super) fn run(parts: Parts<'_>) -> Result<Summary, CleanError> {
    let started = Instant::now();
    let mut parts = parts;
    let columns = parts.source.shape().further_columns().to_vec();
    let (journal, closed) =
        match open_stored(&parts.sink, &parts.options, parts.source.shape(), parts.retried) {
            Ok(stored) => stored,
            // Nothing was done yet. The files of an earlier run stay as they are.
            Err(error) if parts.sink.continues() => return Err(error),
            Err(error) => return Err(parts.sink.keep(error)),
        };
    if !journal.has_results() {
        parts.sink.tell_new_run();
    }
    let further = [parts.known.is_some(), journal.has_results(), closed.has_earlier()];
    let tables = 1 + further.into_iter().filter(|&is_there| is_there).count();
    parts.state.shares = parts.state.shares.divided(tables);
    let extent = parts.part.as_ref().map_or(Extent::Whole, |rows| Extent::Part(rows.part()));
    let mut run = Run {
        seen: Seen::new(&parts.state, journal.keyed(), !columns.is_empty()),
        journal,
        journaled: None,
        closed,
        known: None,
        marker: (!columns.is_empty()).then(|| Marker::new(parts.checker.lists(), &columns)),
        rows: Rows::new(parts.ordered),
        summary: Summary::new(parts.waits.later, extent, parts.is_fast, parts.source.shape().addresses()),
        budget: RowBudget::new(UNDER_WAY_MAX),
        put_off: PutOff::default(),
        unanswered: 0,
        unwritten: 0,
        stall: Stall::new(parts.waits.later, parts.waits.silence),
        time_left: TimeLeft::new(parts.progress.is_shown()),
        found: ReasonCounts::default(),
        outage: OutageWatch::new(parts.waits.outage),
        row: Row::default(),
        answers: Vec::new(),
        held: Vec::new(),
        read: 0,
        ended: false,
        started,
        unix_started: if columns.is_empty() { 0 } else { store::clock::now() / 1000 },
        checked_at: Duration::ZERO,
        flushed: started,
        answered_at: started,
        spoken: 0,
        parts,
    };
    let result = run.clean().and_then(|()| {
        run.closed.flush()?;
        run.parts.progress.end();
        run.summary.files = run.parts.sink.finish()?;
        deliver(&mut run.closed, &mut run.summary);
        if run.closed.is_lost {
            run.summary.lost_closed = run.summary.settled.rows() + run.summary.of_earlier_output;
        }
        Ok(())
    });
    run.parts.progress.end();
    match result {
        Ok(()) => {
            run.journal.end();
            run.summary.elapsed = started.elapsed();
            run.summary.reading = Some(Reading::of(&run.parts.source));
            if run.parts.finds_typos {
                run.summary.find_typos(&run.parts.checker.lists());
            }
            Ok(run.summary)
        }
        Err(error) => {
            // If the writer has failed, it fails again here; the first error is reported.
            let _ = run.write();
            let error = match run.write_rest() {
                Ok(Some(rest)) => error.with(&rest),
                _ => error,
            };
            let Run { mut journal, mut closed, rows, summary, parts: Parts { state, mut sink, .. }, .. } =
                run;
            // On a full disk this makes room for the finished rows.
            drop(state);
            let is_written = sink.flush().is_ok();
            // Without an order, the rows that could not be written are nowhere, so their causes do not count either.
            if is_written || rows.is_ordered() {
                let written = rows.taken().filter(|_| is_written);
                let _ = journal.flush(written, &sink.outcomes, [&summary.left, &summary.settled]);
            }
            let _ = closed.flush();
            if journal.has_results() {
                sink.hold();
            }
            let error = sink.keep(error);
            closed.end();
            journal.end();
            Err(error)
        }
    }
}

/// What a run that writes a list of this shape stores beside the output.
pub(super) fn open_stored(
    sink: &Sink,
    options: &RunOptions,
    shape: &Shape,
    retried: Option<&Path>,
) -> Result<(Journal, ClosedRows), CleanError> {
    // A complete output gets no rows.
    let partial = sink.file().filter(|_| !sink.is_complete()).map(partial);
    let mut closed = ClosedRows::new(retried, partial.as_deref().filter(|_| sink.continues()))?;
    let journal = Journal::open(sink, options, closed.keyed)?;
    let has_rule = shape.further_columns().iter().any(|column| column.as_str() == "rule");
    // An output with verdicts of several columns is not retried.
    let needs_none = has_rule || shape.addresses() > 1 || !sink.has_unknown();
    closed.open(journal.keyed(), partial.as_deref(), sink.last_file().as_deref(), needs_none)?;
    Ok((journal, closed))
}

/// The output is complete, so the run does not fail if the file of its closed rows cannot be put beside it.
pub(super) fn deliver(closed: &mut ClosedRows, summary: &mut Summary) {
    match closed.deliver() {
        Ok(path) => summary.closed = path,
        Err(error) => {
            tracing::warn!("the output is complete without its file of closed rows: {}", error.message)
        }
    }
}

struct Run<'a> {
    parts: Parts<'a>,
    seen: Seen,
    /// Marks rows with what the lists say, if there are further columns of results.
    marker: Option<Marker>,
    known: Option<KnownResults>,
    journal: Journal,
    /// The results that an interrupted run stored and did not write.
    journaled: Option<Table>,
    /// The addresses that stay unverifiable.
    closed: ClosedRows,
    rows: Rows,
    summary: Summary,
    budget: RowBudget,
    put_off: PutOff,
    /// Number of rows that stay open because a signal ends the run.
    unanswered: u64,
    /// Number of addresses with a stored result whose rows are not written yet, because they wait for earlier rows.
    unwritten: u64,
    stall: Stall,
    time_left: TimeLeft,
    /// Number of addresses with a result, by its reason.
    found: ReasonCounts,
    outage: OutageWatch,
    /// The last row read.
    row: Row,
    answers: Vec<Answered>,
    held: Vec<u64>,
    /// Number of rows read, without those of other parts.
    read: u64,
    /// Whether the source has no more rows.
    ended: bool,
    started: Instant,
    /// The start in seconds since 1970; 0 if no result has a time.
    unix_started: u64,
    /// The time of this turn of the loop, since the start: all its results and all rows that it reads have this time.
    checked_at: Duration,
    flushed: Instant,
    /// When the last answer arrived.
    answered_at: Instant,
    /// Number of rows for which servers had replied at the last look.
    spoken: u64,
}

impl Run<'_> {
    fn clean(&mut self) -> Result<(), CleanError> {
        let title = self.parts.part.as_ref().map_or(&[][..], |part| &part.title);
        self.parts.sink.begin(title, self.parts.source.shape(), &mut self.parts.state)?;
        if let Some(file) = self.parts.known {
            let Parts { state, sink, source, .. } = &mut self.parts;
            let wanted = source.shape().further_columns();
            let known = KnownResults::read(file, wanted, state, &mut self.seen, &mut sink.outcomes)?;
            (self.summary.known_undated, self.summary.known_unused) = (known.is_undated, known.unused);
            self.summary.known_lacking.clone_from(&known.lacking);
            self.known = Some(known);
        }
        if self.parts.sink.continues() {
            let Parts { state, sink, .. } = &mut self.parts;
            let (results, [left, settled]) = self.journal.read(state, &mut sink.outcomes)?;
            self.journaled = self.journal.has_results().then_some(results);
            self.summary.explained = left.rows() + settled.rows();
            (self.summary.left, self.summary.settled) = (left, settled);
        }
        if self.parts.part.is_some() && !self.parts.sink.continues() {
            self.closed.create()?;
        }
        self.closed.read(&mut self.parts.state)?;
        loop {
            self.checked_at = self.started.elapsed();
            self.resend()?;
            self.release()?;
            self.read()?;
            self.write()?;
            let idle = self.budget.len() == 0 && self.put_off.len() == 0;
            if self.ended && idle && self.rows.len() == 0 {
                return Ok(());
            }
            if self.parts.stop.is_wanted() {
                self.receive_last()?;
                self.write()?;
                return Err(CleanError::failed(self.stopped_after()));
            }
            self.show();
            self.receive()?;
        }
    }

    /// What is finished when a signal ends the run.
    fn stopped_after(&self) -> String {
        if self.parts.sink.is_stream() {
            return "stopped".to_owned();
        }
        let rows = self.parts.sink.rows();
        // Duplicates, and rows without an address. With them, the sum is that of the progress. If rows have several addresses, the
        // progress counts addresses.
        let finished = if self.parts.source.shape().addresses() > 1 { 0 } else { self.finished_rows() };
        let unchecked = finished.saturating_sub(rows + self.unwritten);
        let waiting = match self.unwritten {
            0 => None,
            1 => Some("1 result that waits for the rows before it".to_owned()),
            more => Some(format!("{} results that wait for the rows before them", grouped(more))),
        };
        let unchecked =
            (unchecked > 0).then(|| counted(unchecked, "row that needs no check", "rows that need no check"));
        let written = counted(rows, "row", "rows");
        match (waiting, unchecked) {
            (Some(waiting), Some(unchecked)) => {
                format!("stopped after {written}, {waiting}, and {unchecked}")
            }
            (Some(more), None) | (None, Some(more)) => format!("stopped after {written} and {more}"),
            (None, None) => format!("stopped after {written}"),
        }
    }

    /// The run ends early, and its output is a stream, which no later run continues: writes the finished rows behind open ones too,
    /// in their order. Returns what to say about them.
    fn write_rest(&mut self) -> Result<Option<String>, CleanError> {
        if !self.parts.sink.is_stream() || self.read == 0 {
            return Ok(None);
        }
        let mut left_out = 0;
        loop {
            self.write_ready(true)?;
            let cells = self.parts.sink.leave_out_row();
            if !self.rows.skip(&mut self.parts.state, cells)? {
                break;
            }
            left_out += 1;
        }
        // Without an order, these wait for the result of an earlier row.
        left_out += self.rows.len();
        self.parts.sink.flush()?;
        let written = counted(self.parts.sink.rows(), "row is", "rows are");
        let left_out = match left_out {
            0 => String::new(),
            rows => {
                let rows = counted(rows, "row without a result is", "rows without a result are");
                format!(", and {rows} left out")
            }
        };
        Ok(Some(format!(
            "; {written} written{left_out}; with an output file (-o), --resume continues such a run"
        )))
    }

    /// Number of rows with a result, also if they are not written yet.
    fn finished_rows(&self) -> u64 {
        let open = self.budget.len() as u64 + self.put_off.len() + self.unanswered;
        self.read.saturating_sub(open + self.summary.dropped + self.rows.open_repeats())
    }

    /// Submits rows for which the engine had no room.
    fn resend(&mut self) -> Result<(), CleanError> {
        while let Some(&ticket) = self.budget.unsent.front()
            && !self.stall.is_recalling()
        {
            if let Some(asked) = self.budget.row(ticket) {
                let address = parse(asked)?;
                if !self.submit(ticket, address)? {
                    break;
                }
                self.stall.on_asked_again(self.now());
            }
            self.budget.unsent.pop_front();
        }
        Ok(())
    }

    /// Submits delayed rows that are due.
    fn release(&mut self) -> Result<(), CleanError> {
        let now = self.now();
        let mut asked = AskedRow::default();
        while self.has_room()
            && let Some(turn) = self.put_off.next(&mut self.parts.state, now, &mut asked)?
        {
            if turn == Turn::Due {
                self.stall.on_asked_again(now);
                self.time_left.on_again(asked.domain, now);
            }
            let address = parse(&asked)?;
            let ticket = self.budget.take(|slot| {
                std::mem::swap(slot, &mut asked);
                Ok(())
            })?;
            self.send(ticket, address)?;
        }
        Ok(())
    }

    /// Reads rows while there is room for them.
    fn read(&mut self) -> Result<(), CleanError> {
        for _ in 0..READ_AT_ONCE {
            if !self.may_read() {
                return Ok(());
            }
            if !self.parts.source.next(&mut self.row)? {
                self.ended = true;
                self.parts.sink.end_of_list()?;
                return self.fits_complete();
            }
            if let Some(part) = &mut self.parts.part
                && !part.has_next(&self.row)
            {
                continue;
            }
            self.read += 1;
            self.take()?;
        }
        Ok(())
    }

    /// Whether another row may be read. Reading pauses during an outage.
    fn may_read(&self) -> bool {
        !self.ended && self.has_room() && !self.outage.is_paused(self.checked_at)
    }

    fn has_room(&self) -> bool {
        self.budget.has_room() && self.budget.unsent.is_empty() && !self.stall.is_recalling()
    }

    /// Starts the check of a new address.
    fn ask(&mut self, number: u64, domain: u32, address: Address) -> Result<(), CleanError> {
        let ordered = self.rows.is_ordered();
        if ordered {
            self.queue(number, domain, Outcome::default())?;
        }
        let prefix = match &self.marker {
            _ if ordered => &[][..],
            Some(marker) => marker.row(),
            None => &self.row.prefix,
        };
        let key = self.seen.last_key();
        // Fast checks contact no site.
        let (state, put_off, has_sites) = (&mut self.parts.state, &mut self.put_off, !self.parts.is_fast);
        let mut waits = false;
        let ticket = self.budget.take(|slot| {
            let text = address.as_str().as_bytes();
            slot.row = number;
            slot.domain = domain;
            slot.key = key;
            slot.is_held = false;
            slot.has_waited = false;
            slot.retries = 0;
            slot.since = None;
            slot.address_bytes = text.len() as u16;
            slot.bytes.clear();
            slot.bytes.extend_from_slice(text);
            slot.bytes.extend_from_slice(prefix);
            waits = has_sites && put_off.join(state, slot)?;
            Ok(())
        })?;
        let now = millis(self.checked_at);
        self.time_left.on_new(domain, now);
        if waits {
            self.budget.release(ticket);
            return Ok(());
        }
        self.stall.on_progress(now);
        self.send(ticket, address)
    }

    /// Submits an address now, or later if the engine is full.
    fn send(&mut self, ticket: u64, address: Address) -> Result<(), CleanError> {
        if !self.submit(ticket, address)? {
            self.budget.unsent.push_back(ticket);
        }
        Ok(())
    }

    fn submit(&mut self, ticket: u64, address: Address) -> Result<bool, CleanError> {
        match self.parts.checker.submit(ticket, address) {
            Ok(()) => Ok(true),
            Err(Refusal::Full) => Ok(false),
            Err(Refusal::Stopping) => Err(stopped()),
        }
    }

    /// Writes the rows that can be written.
    fn write(&mut self) -> Result<(), CleanError> {
        let idle = self.ended && self.budget.len() == 0 && self.put_off.len() == 0;
        self.write_ready(idle)?;
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.flush()?;
        }
        Ok(())
    }

    fn write_ready(&mut self, idle: bool) -> Result<(), CleanError> {
        // A row that is in the output after a kill must not be open again.
        self.closed.flush()?;
        while let Some((row, prefix)) = self.rows.next(&mut self.parts.state, &mut self.seen, idle)? {
            self.parts.sink.write(prefix, row.outcome)?;
            let domain = Some(row.domain).filter(|&domain| domain != NO_DOMAIN);
            count(&mut self.summary, row.outcome.code(), domain);
            self.unwritten -= u64::from(row.is_answered);
        }
        Ok(())
    }

    /// Hands all rows and results to the system, so that a kill does not lose them.
    fn flush(&mut self) -> Result<(), CleanError> {
        self.parts.sink.flush()?;
        let causes = [&self.summary.left, &self.summary.settled];
        self.journal.flush(self.rows.taken(), &self.parts.sink.outcomes, causes)?;
        self.flushed = Instant::now();
        Ok(())
    }

    fn show(&mut self) {
        if !self.parts.progress.is_due() {
            return;
        }
        let (now, waits) = (self.now(), &self.parts.waits);
        let size = self.parts.progress.size().filter(|_| !self.ended);
        let read = self.read as f64;
        let facts = RunFacts {
            now,
            progress: self.stall.progress(),
            again: self.stall.asked_again(),
            silence: millis(waits.silence),
            max_wait: millis(waits.later),
            read: self.read,
            rows: match size {
                Some(size) => Some(read * size as f64 / self.row.end.max(1) as f64),
                None => self.ended.then_some(read),
            },
        };
        let (left, awaited) = self.time_left.estimate(&facts);
        let named = awaited.named.into_iter().map(|(domain, why)| {
            let name = domain.and_then(|number| self.summary.domains.name(number));
            (name.unwrap_or("some domains").to_owned(), why)
        });
        let done = self.finished_rows();
        let is_from_start = self.parts.checker.trouble().is_some_and(|trouble| trouble.is_from_start);
        self.parts.progress.show(&Standing {
            done,
            resumed: self.summary.resumed + self.summary.resumed_results,
            rows: facts.rows.map(|rows| (rows as u64).max(self.read)),
            columns: self.summary.columns,
            found: self.found,
            is_fast: self.summary.is_fast,
            left: left.filter(|_| facts.rows.is_some()),
            awaited: named.collect(),
            others: awaited.others,
            gives_up: self.outage.gives_up_in(self.checked_at, is_from_start),
            bytes: self.row.end,
            read: self.read,
        });
    }

    /// Milliseconds since the start of the run.
    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// The domain number of a row without an address.
const NO_DOMAIN: u32 = u32::MAX - 1;

/// Counts a row in the summary by the code of its reason.
pub(super) fn count(summary: &mut Summary, code: u8, domain: Option<u32>) {
    if let Some(reason) = reasons::of_code(code) {
        summary.count(reason, domain);
    }
}

/// Parses the address of a row again.
fn parse(asked: &AskedRow) -> Result<Address, CleanError> {
    let text = std::str::from_utf8(asked.address()).ok();
    let address = text.and_then(|text| Address::parse(text).ok());
    address.ok_or_else(|| CleanError::failed("a waiting address is damaged; report this bug"))
}

/// Why no address can be checked, and what to do.
fn outage_text(trouble: Option<Trouble>) -> String {
    let unknown = "the DNS resolver gives no credible answers, or no connection to any mail server succeeds; name another resolver \
                   with --resolver, and check the network and outbound port 25 (`mailprobe doctor`)";
    trouble.map_or_else(|| unknown.to_owned(), |trouble| trouble.text)
}

/// The run ends because of an outage.
fn nothing_checked(why: &str) -> CleanError {
    CleanError::failed(format!("no address can be checked: {why}"))
}

fn stopped() -> CleanError {
    CleanError::failed("the engine was stopped")
}
