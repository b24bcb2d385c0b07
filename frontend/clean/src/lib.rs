//! `mailprobe clean`: reads a list and writes it with `deliverable` and `reason` at the end of every row.
//!
//! ```text
//! source ─> seen ──────────────> budget ─> checker (the engine) ─> rows ─> sink
//!  rows      is it a duplicate?   in progress   │  ^                in turn  OUT.partial, then OUT
//!                                               v  │
//!                                             putoff: checked later
//! ```
//!
//! [`clean`] is the whole command. [`Job::open`] reads the beginning of the list. Then [`Job::run`] checks the list with a
//! [`Checker`], or [`Job::join`] joins its parts.
//!
//! Guarantees:
//! - Every input row is written once, with the same values. Every verdict comes from the engine. Rows keep their order,
//!   unless `--unordered` is given.
//! - An address is checked once, even if the list contains it several times.
//! - Memory does not depend on the length of the list: data that does not fit is encrypted in OUT.state (crate `spill`).
//! - No row blocks the reader: neither a row that waits for a slow site, nor a row that is checked later.
//! - OUT appears complete or not at all. Until the end the rows are in `OUT.partial`. `--resume` compares that file with the
//!   input row by row, and continues at its end.
//! - The parts of a list (`part.rs`) can be checked on several machines. `--join` (`join.rs`) makes of them the output of one
//!   run, byte for byte.

mod budget;
mod checker;
mod driver;
mod join;
mod journal;
mod known;
mod left;
mod marks;
mod names;
mod outage;
mod outcome;
mod output_args;
mod part;
mod progress;
mod putoff;
mod report;
mod retry;
mod rows;
mod sample;
mod seen;
mod sink;
mod stall;
mod stop;
mod summary;
#[cfg(test)]
mod tests;
mod time_left;

pub use checker::{
    Answered, Checker, Fast, Full, OnNoMailHost, WithFacts, WithLearned, is_without_mail_host,
};
use known::{KnownFile, KnownOptions};
pub use left::{Left, LeftByRule};
pub use lists::DomainRows;
use lists::{Format, ListError, ReadOptions, Source, is_stream};
use output_args::{CHECK, INPUT, RESULT, RUN};
pub use output_args::{ClassArg, OutputArgs};
pub use part::ListPart;
use part::PartRows;
pub use sample::{ClassEstimate, Estimate};
pub use sink::WrittenFile;
use sink::{Delivery, Sink, SinkOptions};
use spill::{SpillError, State};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use stop::StopSignal;
pub use summary::{Extent, Reading, Summary};
use usage::values::{Unit, whole_number, whole_time};

/// Maximum number of addresses in progress.
pub const UNDER_WAY_MAX: usize = 100_000;

/// The arguments of `mailprobe clean`, without those of the engine.
#[derive(Debug, Clone, clap::Args)]
pub struct CleanArgs {
    /// List to check: CSV, a spreadsheet (xlsx or ods), JSON lines, or plain text with one address per line; - for standard
    /// input.
    ///
    /// mailprobe finds the encoding and the separator from the content.
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    /// Format of INPUT [default: by the name of INPUT, else by its content]
    #[arg(long, value_enum, help_heading = INPUT, hide_short_help = true)]
    pub format: Option<FormatArg>,
    /// Column or JSON key of the addresses, by name or by number from 1 [default: found by name or content].
    ///
    /// Repeat it for a CSV with several columns of addresses: the verdicts of the second column HOME are in HOME_deliverable and
    /// HOME_reason.
    #[arg(long, value_name = "NAME|N", help_heading = INPUT)]
    pub column: Vec<String>,
    /// Sheet of a spreadsheet [default: the first visible one with addresses]
    #[arg(long, value_name = "NAME", help_heading = INPUT, hide_short_help = true)]
    pub sheet: Option<String>,
    /// File for the list with its verdicts [default: standard output]. If the name ends with .xlsx, the file is a spreadsheet
    #[arg(short, long, value_name = "OUT", help_heading = RESULT)]
    pub output: Option<PathBuf>,
    /// Contact no mail server: check syntax, typing mistakes, MX and lists. This does not show whether a mailbox exists
    #[arg(long, conflicts_with = "max_wait", help_heading = CHECK)]
    pub fast: bool,
    /// Check a row again, within this time, if its server answers "later" or not at all; such as 15m.
    ///
    /// Servers answer "later" for greylisting. A row also waits if the budget of refused recipients is used up. If the row then has
    /// no answer, it is unverifiable. The command ends at most this time plus 60 seconds after the last answer of a server, or after
    /// the last new row has begun. A number without a unit is in seconds.
    #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = whole_time(Unit::Seconds, 0..=u32::MAX), help_heading = CHECK)]
    pub max_wait: u32,
    /// Give up after this time without DNS or mail connectivity. A number without a unit is in seconds
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = whole_time(Unit::Seconds, 0..=u32::MAX), help_heading = CHECK, hide_short_help = true)]
    pub max_outage: u32,
    /// Write each row as soon as it is finished, not in the order of INPUT
    #[arg(long, help_heading = RESULT, hide_short_help = true)]
    pub unordered: bool,
    /// Compression of the output [default: by the name of OUT: .gz or .zst, else none]. A compressed INPUT is detected
    #[arg(long, value_enum, help_heading = RESULT, hide_short_help = true)]
    pub compress: Option<Compression>,
    /// Write the summary as JSON to this file, with counts by reason and by domain
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub summary: Option<PathBuf>,
    /// Memory in MiB for waiting rows and for the addresses of earlier rows.
    ///
    /// If they need more, mailprobe stores the rest in OUT.state. The engine needs additional memory.
    #[arg(long, value_name = "MIB", default_value_t = 96, value_parser = whole_number(1u32..=65_536), help_heading = RUN, hide_short_help = true)]
    pub memory: u32,
    /// Continue an interrupted run from OUT.partial.
    ///
    /// Give --columns, --unordered and --drop-duplicates as in that run.
    #[arg(long, help_heading = RUN)]
    pub resume: bool,
    /// Check only the rows of part I of N (parts count from 0), and write them to OUT.part-I-of-N. The parts can be checked on
    /// several machines; each reads the whole INPUT. Rows with the same address are in the same part
    #[arg(long, value_name = "I/N", conflicts_with_all = ["join", "unordered"], help_heading = RUN, hide_short_help = true)]
    pub part: Option<ListPart>,
    /// Write OUT from its parts OUT.part-I-of-N, byte for byte as a run without --part. This reads INPUT again, and checks no
    /// address
    #[arg(long, conflicts_with_all = ["unordered", "fast", "max_wait", "max_outage"], help_heading = RUN, hide_short_help = true)]
    pub join: bool,
    #[command(flatten)]
    pub writing: OutputArgs,
    /// Show no progress on the terminal
    #[arg(long, help_heading = RUN, hide_short_help = true)]
    pub no_progress: bool,
    /// How long the list waits for an answer to any row, in addition to `max_wait`.
    #[arg(skip = stall::STALL_MAX)]
    pub silence: Duration,
}

impl CleanArgs {
    fn waits(&self) -> driver::Waits {
        let seconds = |given: u32| Duration::from_secs(given.into());
        driver::Waits {
            later: seconds(self.max_wait),
            silence: self.silence,
            outage: seconds(self.max_outage),
        }
    }

    /// Writes the summary and the report, if they are wanted.
    fn write_about(&self, summary: &Summary) -> Result<(), CleanError> {
        summary.write_if_wanted(self.summary.as_deref())?;
        match &self.writing.report {
            Some(path) => report::write(path, self, summary),
            None => Ok(()),
        }
    }
}

/// The values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// Values separated by commas, semicolons, tabs or pipes, with or without a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// One address per line
    Text,
}

impl From<FormatArg> for Format {
    fn from(given: FormatArg) -> Format {
        match given {
            FormatArg::Csv => Format::Csv,
            FormatArg::Jsonl => Format::Jsonl,
            FormatArg::Text => Format::Text,
        }
    }
}

/// The compression of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// No compression
    None,
    /// gzip (RFC 1952)
    Gzip,
    /// Zstandard (RFC 8878)
    Zstd,
}

impl Compression {
    /// The compression according to the extension of the file name.
    fn by_name(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The reason why a list was not cleaned: one line that says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanError {
    /// The exit code: 1 for a failure, 2 for wrong usage.
    pub exit: u8,
    /// The message: one line.
    pub message: String,
    /// The reason for an outage, as it is in the message.
    outage: Option<String>,
}

impl CleanError {
    /// A failure: exit code 1.
    pub fn failed(message: impl Into<String>) -> CleanError {
        CleanError { exit: 1, message: message.into(), outage: None }
    }

    /// Wrong arguments, or a list that does not fit them: exit code 2.
    pub fn usage(message: impl Into<String>) -> CleanError {
        CleanError { exit: 2, message: message.into(), outage: None }
    }

    fn outage(why: String) -> CleanError {
        CleanError { exit: 1, message: format!("no address can be checked: {why}"), outage: Some(why) }
    }

    /// Replaces the reason for an outage by that of the engine. The rest of the message stays.
    #[must_use]
    pub fn because(self, trouble: Option<String>) -> CleanError {
        match (trouble, &self.outage) {
            (Some(trouble), Some(why)) => {
                CleanError { message: self.message.replacen(why, &trouble, 1), outage: Some(trouble), ..self }
            }
            _ => self,
        }
    }
}

impl fmt::Display for CleanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CleanError {}

impl From<SpillError> for CleanError {
    fn from(error: SpillError) -> CleanError {
        CleanError::failed(error.message)
    }
}

impl From<ListError> for CleanError {
    fn from(error: ListError) -> CleanError {
        match error {
            ListError::Unreadable(message) | ListError::Machine(message) => CleanError::failed(message),
            ListError::NoAddress(message) => CleanError::usage(format!(
                "{message}: name the column of the addresses with --column, or save the list as CSV with a column of addresses"
            )),
            ListError::Column(message) => {
                CleanError::usage(format!("{message}; name one of them, or its number, with --column"))
            }
            ListError::Key(message) => {
                CleanError::usage(format!("{message}; name one of them with --column"))
            }
            ListError::NoColumns(message) => {
                CleanError::usage(format!("{message}: omit --column, or use --format csv"))
            }
        }
    }
}

/// A list that is ready: its input is open and its column of addresses is known. Nothing is written yet, and no engine is
/// needed so far, so that an unreadable list fails early.
pub struct Job {
    args: CleanArgs,
    source: Source,
    /// The file of the rows: that of the part, or of the whole list.
    output: Option<PathBuf>,
    delivery: Delivery,
}

impl Job {
    /// Opens the input and reads its beginning.
    ///
    /// # Errors
    /// [`CleanError`] for contradictory arguments, an unreadable input, and an input without addresses.
    pub fn open(args: CleanArgs) -> Result<Job, CleanError> {
        let needs_file = [("--resume", args.resume), ("--part", args.part.is_some()), ("--join", args.join)];
        if let Some((flag, _)) = needs_file.iter().find(|(_, is_given)| *is_given)
            && args.output.as_deref().is_none_or(is_stream)
        {
            return Err(CleanError::usage(format!("{flag} needs an output file: name it with -o")));
        }
        let mut args = args;
        if args.writing.retry {
            args.writing.columns = retry::columns(&args)?;
        }
        let (columns, delivery) = (args.writing.result_columns()?, args.delivery()?);
        let output = match (&args.output, args.part) {
            (Some(output), Some(part)) => Some(part.file(output)),
            (output, _) => output.clone(),
        };
        names::check(&args, output.as_deref(), &delivery)?;
        let options = ReadOptions {
            format: args.format.map(Format::from),
            columns: &args.column,
            sheet: args.sheet.as_deref(),
            results: &columns,
            limits: None,
        };
        let source = Source::open(&args.input, &options)?;
        output_args::fits(&args.writing, args.output.as_deref(), &delivery, source.shape())?;
        if args.unordered && source.shape().addresses() > 1 {
            return Err(CleanError::usage(
                "--unordered works with one --column only: a row with several addresses has one line",
            ));
        }
        Ok(Job { args, source, output, delivery })
    }

    /// Cleans the list. If standard error is a terminal, it shows the progress, and nothing else. The caller shows the
    /// summary.
    ///
    /// # Errors
    /// [`CleanError`]; finished rows stay in `OUT.partial`.
    pub fn run(self, checker: &mut dyn Checker) -> Result<Summary, CleanError> {
        if let Some(most) = self.args.writing.sample {
            let summary = sample::run(&self.args, most, self.source, checker)?;
            summary.write_if_wanted(self.args.summary.as_deref())?;
            return Ok(summary);
        }
        let sink_options = self.sink_options();
        let Job { args, source, output, .. } = self;
        let output = output.as_deref();
        if args.resume && args.writing.force && args.part.is_none() {
            sink::tell_new_run(output);
        }
        let sink = Sink::open(output, sink_options)?;
        // From here on the sink prevents other runs from using these names.
        let state = match State::open(output, args.memory as usize * 1024 * 1024) {
            Ok(state) => state,
            Err(error) => return Err(sink.keep(error.into())),
        };
        let known = args.writing.known.as_deref().map(|path| KnownFile {
            path,
            column: &args.column,
            options: KnownOptions::new(args.writing.known_days, args.fast),
        });
        let summary = driver::run(driver::Parts {
            progress: progress::Progress::new(!args.no_progress, source.size()),
            part: args.part.map(|part| PartRows::new(part, &source, args.fast)),
            source,
            list: Some(args.input.as_path()).filter(|path| !is_stream(path)),
            sink,
            state,
            ordered: !args.unordered,
            checker,
            waits: args.waits(),
            drop_duplicates: args.writing.drop_duplicates,
            known,
            retried: args.writing.retry.then_some(&args.input),
            finds_typos: args.writing.report.is_some(),
            is_fast: args.fast,
            stop: args.writing.stop.clone(),
        })?;
        args.write_about(&summary)?;
        Ok(summary)
    }

    /// Puts the parts of the list together, and checks no address. All parts are open at once, so the caller raises the limit of
    /// open files for more than a thousand.
    ///
    /// # Errors
    /// [`CleanError`]: a part is missing or does not belong to the list, or a file cannot be read or written.
    pub fn join(self) -> Result<Summary, CleanError> {
        let sink_options = self.sink_options();
        let args = self.args.clone();
        let summary = join::run(self.args, self.source, sink_options)?;
        args.write_about(&summary)?;
        Ok(summary)
    }

    fn sink_options(&self) -> SinkOptions {
        // The parts of a compressed list are compressed too.
        let by_name = || self.args.output.as_deref().map_or(Compression::None, Compression::by_name);
        SinkOptions {
            resume: self.args.resume,
            replaces: self.args.writing.force,
            unordered: self.args.unordered,
            compression: self.args.compress.unwrap_or_else(by_name),
            is_part: self.args.part.is_some(),
            is_sample: false,
            delivery: self.delivery.clone(),
        }
    }
}

/// Opens the list, cleans it and shows the summary on `errors`, which is standard error. `start` starts the engine for the columns
/// that are written, after the list is open; `--join` needs none.
///
/// # Errors
/// As [`Job::open`], [`Job::run`], [`Job::join`] and `start`.
pub fn clean<C: Checker>(
    args: CleanArgs,
    start: impl FnOnce(&OutputArgs) -> Result<C, CleanError>,
    errors: &mut dyn Write,
) -> Result<(), CleanError> {
    let job = Job::open(args)?;
    let summary = if job.args.join {
        job.join()?
    } else {
        {
            let mut checker = start(&job.args.writing)?;
            job.run(&mut checker)?
        }
    };
    // A closed standard error is no failure.
    let _ = write!(errors, "{summary}");
    Ok(())
}

/// Seconds since 1970.
fn unix_now() -> u64 {
    store::clock::now() / 1000
}
