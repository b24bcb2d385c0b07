//! `--join`: puts the parts of a list together.
//!
//! It reads INPUT again. Each row of INPUT is the next row of the part that [`Partition`] names, so the output has the order of
//! INPUT without sorting, and memory depends on the number of parts only. Every row of a part is compared with INPUT. A
//! part of another list, an incomplete part and a changed INPUT end the join: then nothing is written.

mod files;

use super::driver::{FLUSH_INTERVAL, READ_AT_ONCE, count, deliver, open_stored};
use super::progress::{Progress, Standing};
use super::run_options::RunOptions;
use super::sink::{Sink, SinkOptions};
use super::summary::{Extent, Reading, Summary};
use super::time_left::Remaining;
use super::{CleanArgs, CleanError};
use api::Reason;
use files::PartFile;
use lists::part::Partition;
use lists::{Endings, ListError, ReasonCounts, Row, Source, reasons};
use spill::State;
use spill::closed::ClosedRows;
use std::time::{Duration, Instant};

/// Joins the parts of an open list.
///
/// # Errors
/// [`CleanError`]: a part is missing or does not belong to the list, or a file cannot be read or written.
pub(super) fn run(args: CleanArgs, source: Source, options: SinkOptions) -> Result<Summary, CleanError> {
    let started = Instant::now();
    let Some(output) = args.output.as_deref() else {
        return Err(CleanError::usage("--join needs an output file: name it with -o"));
    };
    // One half for the files of the parts, and one for their closed rows.
    let memory = args.memory as usize * 1024 * 1024 / 2;
    let parts = files::open_all(output, &source, memory)?;
    let sink = Sink::open(Some(output), options)?;
    let (journal, closed) = match open_stored(&sink, &RunOptions::new(&args, &source), source.shape(), None) {
        Ok(stored) => stored,
        Err(error) if sink.continues() => return Err(error),
        Err(error) => return Err(sink.keep(error)),
    };
    let (sink, state) = sink.and(State::open(Some(output), memory))?;
    let mut join = Join {
        partition: Partition::new(parts.len() as u32),
        endings: source.shape().endings(),
        part: 0,
        summary: Summary::new(
            Duration::ZERO,
            Extent::Joined(parts.len() as u32),
            false,
            source.shape().addresses(),
        ),
        found: ReasonCounts::default(),
        progress: Progress::new(!args.no_progress, source.size()),
        row: Row::default(),
        flushed: started,
        source,
        parts,
        sink,
        closed,
        state,
    };
    let result = join.rows();
    join.progress.end();
    let result = match result {
        Ok(()) => {
            join.summary.elapsed = started.elapsed();
            join.summary.reading = Some(Reading::of(&join.source));
            Ok(join.summary)
        }
        Err(Stop::Refused(error)) => {
            join.sink.discard();
            Err(error)
        }
        Err(Stop::Failed(error)) => Err(join.sink.keep(error)),
    };
    join.closed.end();
    journal.end();
    result
}

/// The reason why a join ends early.
enum Stop {
    /// INPUT and its parts do not belong together, so the written rows are useless.
    Refused(CleanError),
    /// A file cannot be read or written.
    Failed(CleanError),
}

impl From<CleanError> for Stop {
    fn from(error: CleanError) -> Stop {
        Stop::Failed(error)
    }
}

impl From<ListError> for Stop {
    fn from(error: ListError) -> Stop {
        Stop::Failed(error.into())
    }
}

struct Join {
    source: Source,
    partition: Partition,
    parts: Vec<PartFile>,
    /// The ends of rows.
    endings: Endings,
    /// The part of the last row.
    part: usize,
    sink: Sink,
    closed: ClosedRows,
    state: State,
    summary: Summary,
    /// Number of rows by their result.
    found: ReasonCounts,
    progress: Progress,
    /// The last row of INPUT.
    row: Row,
    flushed: Instant,
}

impl Join {
    fn rows(&mut self) -> Result<(), Stop> {
        self.sink.begin(&[], self.source.shape(), &mut self.state)?;
        for part in &mut self.parts {
            part.keyed = self.closed.read_part(&part.path, &mut self.state).map_err(CleanError::from)?;
        }
        while self.source.next(&mut self.row)? {
            self.take()?;
            if self.partition.rows().is_multiple_of(READ_AT_ONCE as u64) {
                self.look_up()?;
            }
        }
        self.sink.end_of_list()?;
        for part in &mut self.parts {
            part.end()?;
        }
        self.progress.end();
        self.closed.flush().map_err(CleanError::from)?;
        self.summary.files = self.sink.finish()?;
        deliver(&mut self.closed, &mut self.summary);
        Ok(())
    }

    /// Finds the row of INPUT in its part, and writes it with the verdict from there.
    fn take(&mut self) -> Result<(), Stop> {
        if !self.row.is_continued {
            self.part = self.partition.next(self.row.address.as_ref()) as usize;
        }
        let part = &mut self.parts[self.part];
        let code = part.next(&self.endings, &self.row.prefix, self.partition.rows())?;
        let known = match self.sink.is_replaying() {
            true => self.sink.known(&mut self.state, &self.row.prefix)?,
            false => None,
        };
        match known {
            None => self.sink.write_again(part.row())?,
            Some(known) if known.code() == code => self.summary.resumed += 1,
            Some(_) => return Err(self.sink.foreign().into()),
        }
        self.summary.empty += u64::from(self.row.is_blank);
        let domain = self.row.address.as_ref().map(|it| self.summary.domains.number(it.domain().as_str()));
        count(&mut self.summary, code, domain);
        let Some(reason) = reasons::of_code(code) else { return Ok(()) };
        self.found.add(reason);
        if let (Reason::Unverifiable, Some(address)) = (reason, &self.row.address) {
            self.close(&address.canonical())?;
        }
        Ok(())
    }

    /// An address that is closed in its part stays so.
    fn close(&mut self, canonical: &str) -> Result<(), CleanError> {
        let Some(keyed) = self.parts[self.part].keyed else {
            self.summary.lost_closed += u64::from(self.closed.needs_file());
            return Ok(());
        };
        let [earlier, key] = [keyed, self.closed.keyed].map(|keyed| keyed.hash(canonical.as_bytes()));
        self.closed.keeps(&mut self.state, earlier, key)?;
        Ok(())
    }

    /// A join waits for no server, so it reads at an even pace.
    fn show(&mut self) {
        let (read, bytes) = (self.partition.rows(), self.row.end);
        let part = self.progress.size().map(|size| size as f64 / bytes.max(1) as f64);
        let time = |part: f64| self.progress.elapsed().mul_f64((part - 1.0).max(0.0));
        let left = part.map(|part| Remaining { time: time(part), is_most: false });
        self.progress.show(&Standing {
            done: read,
            read,
            bytes,
            rows: part.map(|part| (read as f64 * part) as u64),
            resumed: self.summary.resumed,
            columns: self.summary.columns,
            found: self.found,
            left,
            ..Standing::default()
        });
    }

    /// Shows the progress, and hands the rows to the system at intervals.
    fn look_up(&mut self) -> Result<(), Stop> {
        if self.progress.is_due() {
            self.show();
        }
        if self.flushed.elapsed() >= FLUSH_INTERVAL {
            self.closed.flush().map_err(CleanError::from)?;
            self.sink.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}
