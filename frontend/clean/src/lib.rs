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
//! - The parts of a list ([`lists::part`]) can be checked on several machines. `--join` (`join.rs`) makes of them the output of one
//!   run, byte for byte.

mod args;
mod budget;
mod checker;
mod driver;
mod error;
mod join;
mod journal;
mod known;
mod names;
mod outage;
mod outcome;
mod output_args;
mod progress;
mod putoff;
mod report;
mod retry;
mod rows;
mod run_options;
mod sample;
mod seen;
mod sink;
mod stall;
mod stop;
mod summary;
#[cfg(test)]
mod tests;
mod time_left;

pub use args::{CleanArgs, FormatArg};
pub use budget::UNDER_WAY_MAX;
pub use checker::{
    Answered, Checker, Fast, Full, OnNoMailHost, WithFacts, WithLearned, is_without_mail_host,
};
pub use error::CleanError;
use known::{KnownFile, KnownOptions};
pub use lists::DomainRows;
pub use lists::estimate::{ClassEstimate, Estimate};
pub use lists::left::{Left, LeftByRule};
use lists::left::{known_command, retry_command};
use lists::numbers::counted;
pub use lists::part::ListPart;
use lists::part::PartRows;
use lists::shell::option;
use lists::{Class, Format, ReadOptions, Source, is_stream};
pub use output_args::OutputArgs;
use run_options::RunOptions;
pub use sink::{Compression, WrittenFile};
use sink::{Delivery, Sink, SinkOptions};
use spill::State;
use std::io::Write;
use std::path::PathBuf;
pub use stop::StopSignal;
pub use summary::{Extent, Reading, Summary};

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
        let options = ReadOptions { results: &columns, ..args.reading() };
        let source = Source::open(&args.input, &options).map_err(CleanError::unopened)?;
        output_args::fits(&args.writing, args.output.as_deref(), &delivery, source.shape())?;
        if args.unordered && source.shape().addresses() > 1 {
            return Err(CleanError::usage(
                "--unordered works with one --column only: a row with several addresses has one line",
            ));
        }
        names::try_writing(&args, output.as_deref(), &delivery)?;
        Ok(Job { args, source, output, delivery })
    }

    /// What to say before the first check: which sheets and columns with addresses are left out, and how to check them.
    fn warnings(&self) -> Vec<String> {
        let unread = self.source.unread_sheets().map(|(said, first)| {
            format!("{said}; `{}` reads one of them in another run", option("--sheet", first).trim_start())
        });
        unread.into_iter().chain(self.left_out()).collect()
    }

    /// The columns with addresses that are not checked, and how to check them; `None` if there are none.
    fn left_out(&self) -> Option<String> {
        let (shape, writing) = (self.source.shape(), &self.args.writing);
        if writing.retry {
            return retry::doubt(&self.args.input, shape);
        }
        let columns = &shape.left_out;
        let first = columns.first()?;
        let looked_at = counted(first.looked_at as u64, "row", "rows");
        let mut said =
            format!("`{}` has addresses too (in {} of the first {looked_at}", first.name, first.rows);
        said += &match columns.len() - 1 {
            0 => ")".to_owned(),
            1 => "), and so has another column".to_owned(),
            others => format!("), and so have {others} other columns"),
        };
        let is_alone =
            shape.format == Format::Jsonl || self.args.unordered || output_args::needs_one(writing).is_some();
        if is_alone {
            return Some(format!(
                "{said}: `{}` checks it in another run",
                column_option(&first.name).trim_start()
            ));
        }
        let all = shape.chosen.iter().chain(columns.iter().map(|column| &column.name));
        let all: String = all.map(|name| column_option(name)).collect();
        Some(format!("{said}: `{}` checks all of them", all.trim_start()))
    }

    /// Cleans the list. If standard error is a terminal, it shows the progress, and nothing else. The caller shows the
    /// summary.
    ///
    /// # Errors
    /// [`CleanError`]; finished rows stay in `OUT.partial`.
    pub fn run(self, checker: &mut dyn Checker) -> Result<Summary, CleanError> {
        let shape = self.source.shape();
        let later = later(&self.args, &self.delivery, shape.addresses(), shape.has_header());
        for warning in self.warnings() {
            tracing::warn!("{warning}");
        }
        if let Some(most) = self.args.writing.sample {
            let summary = Summary { later, ..sample::run(&self.args, most, self.source, checker)? };
            summary.write_if_wanted(self.args.summary.as_deref())?;
            return Ok(summary);
        }
        let sink_options = self.sink_options();
        if let Some(warning) = retry::of_others(self.source.shape(), "the output does not have them") {
            tracing::warn!("{warning}");
        }
        let Job { args, source, output, .. } = self;
        let output = output.as_deref();
        let sink = Sink::open(output, sink_options)?;
        if let Some(warning) =
            output.filter(|_| sink.is_complete()).and_then(|path| retry::doubt_beside(path, &source))
        {
            tracing::warn!("{warning}");
        }
        // From here on the sink prevents other runs from using these names.
        let (sink, state) = sink.and(State::open(output, args.memory as usize * 1024 * 1024))?;
        let known = args.writing.known.as_deref().map(|path| KnownFile {
            path,
            column: &args.column,
            options: KnownOptions::new(args.writing.known_days, args.fast),
        });
        let summary = driver::run(driver::Parts {
            progress: progress::Progress::new(!args.no_progress, source.size()),
            part: args.part.map(|part| PartRows::new(part, &source, args.fast)),
            options: RunOptions::new(&args, &source),
            source,
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
        let summary = Summary { later, ..summary };
        write_about(&args, &summary)?;
        Ok(summary)
    }

    /// Puts the parts of the list together, and checks no address. All parts are open at once, so the caller raises the limit of
    /// open files for more than a thousand.
    ///
    /// # Errors
    /// [`CleanError`]: a part is missing or does not belong to the list, or a file cannot be read or written.
    pub fn join(self) -> Result<Summary, CleanError> {
        let sink_options = self.sink_options();
        let (args, shape) = (self.args.clone(), self.source.shape());
        let later = later(&args, &self.delivery, shape.addresses(), shape.has_header());
        let summary = Summary { later, ..join::run(self.args, self.source, sink_options)? };
        write_about(&args, &summary)?;
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

/// The option `--column` with this value, after a space.
fn column_option(name: &str) -> String {
    option("--column", name)
}

/// The command that checks the open rows of a run with these arguments later; `None` for a sample that is not written.
fn later(args: &CleanArgs, delivery: &Delivery, addresses: usize, has_header: bool) -> Option<String> {
    let output = args.output.as_deref().filter(|path| !is_stream(path));
    // With --split, the last file has the open rows.
    let output = output.and_then(|path| delivery.names(path).pop());
    let is_sample = args.writing.sample.is_some();
    if is_sample && output.is_none() {
        return None;
    }
    if addresses == 1 && delivery.classes.contains(&Class::Unknown) {
        // A sample is a list of its own, with one column.
        let column = if is_sample { &[][..] } else { &args.column };
        let mut options = kept_options(args, column, false);
        // Without a header, an output does not say which columns of results it has.
        let further = args.writing.columns.join(",");
        if !has_header && !further.is_empty() {
            options = option("--columns", &further) + &options;
        }
        return Some(retry_command(output.as_deref(), &options));
    }
    // A selection lacks results that the earlier output may have.
    let earlier = args.writing.known.as_deref().filter(|_| !delivery.has_all_classes());
    Some(known_command(&args.input, &kept_options(args, &args.column, true), earlier, output.as_deref()))
}

/// The options of a run for a command that checks its rows again, with these columns of addresses. If the command reads the list of the
/// run (`of_list`), it writes the list in the same form. An output that is read again has the form already.
fn kept_options(args: &CleanArgs, columns: &[impl AsRef<str>], of_list: bool) -> String {
    let OutputArgs { columns: further, only, split, drop_duplicates, known_days, engine, .. } = &args.writing;
    let flags = [
        ("--header", args.header),
        ("--no-header", args.no_header),
        ("--fast", args.fast),
        ("--unordered", of_list && args.unordered),
        ("--split", *split),
        ("--drop-duplicates", of_list && *drop_duplicates),
    ];
    let joined = |names: Vec<&str>| Some(names.join(",")).filter(|names| !names.is_empty());
    let of_list_alone = [
        ("--format", args.format.and_then(value_name)),
        ("--sheet", args.sheet.clone()),
        ("--columns", joined(further.iter().map(String::as_str).collect())),
        ("--only", joined(only.iter().map(|class| class.as_str()).collect())),
        ("--known-days", known_days.map(|days| days.to_string())),
    ];
    let values = [("--compress", args.compress.and_then(value_name))];
    let values = values.into_iter().chain(of_list_alone.into_iter().filter(|_| of_list));
    let mut options: String = columns.iter().map(|name| column_option(name.as_ref())).collect();
    options.extend(flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| format!(" {flag}")));
    options.extend(values.filter_map(|(name, value)| Some(option(name, &value?))));
    options + engine
}

/// The name of a value, as a command line has it.
fn value_name(value: impl clap::ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
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

/// Writes the summary and the report, if they are wanted.
fn write_about(args: &CleanArgs, summary: &Summary) -> Result<(), CleanError> {
    summary.write_if_wanted(args.summary.as_deref())?;
    match &args.writing.report {
        Some(path) => report::write(path, args, summary),
        None => Ok(()),
    }
}
