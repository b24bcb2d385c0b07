//! `mailprobe learn --score`: what the operator's own mail did after the verdicts of an earlier output.

use super::super::clean::command_line;
use super::super::program::{Failure, VERSION};
use super::{learned, named, open};
use clean::CleanError;
use learn::{ScoreError, ScoreOptions, Scorer, time_of};
use lists::{ListError, ReadOptions, Source, is_stream};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use usage::values::{Unit, whole_time};

const HEADING: &str = "Score";

/// The arguments of `--score`.
#[derive(clap::Args)]
pub(super) struct ScoreArgs {
    /// Show what your mail did after the verdicts of CLEANED: an output of `clean`, or the download of a list. Nothing is learned.
    ///
    /// FILE then has the bounces and deliveries that followed. For each reason and each provider the command shows how many of the
    /// addresses that were mailed bounced for good, with 95 % intervals. Repeat it for several files. The shares by provider need the
    /// column provider of CLEANED.
    #[arg(long, value_name = "CLEANED", conflicts_with_all = ["forget", "forget_all", "list"], help_heading = HEADING)]
    score: Vec<PathBuf>,
    /// List of the addresses that were mailed, if the files have only bounces. An address without an event counts as not bounced
    #[arg(long, value_name = "LIST", requires = "score", help_heading = HEADING)]
    mailed: Vec<PathBuf>,
    /// How long after its verdict an event counts, such as 30d; a number without a unit is in days
    #[arg(long, value_name = "TIME", default_value_t = 30, requires = "score", value_parser = whole_time(Unit::Days, 1u32..=3650), help_heading = HEADING)]
    within: u32,
    /// Time of verdicts without checked_at, such as 2026-11-01 or 2026-11-01T10:00:00Z [default: the last change of CLEANED]
    #[arg(long, value_name = "DATE", requires = "score", value_parser = time, help_heading = HEADING)]
    checked_at: Option<u64>,
    /// Column of the addresses in CLEANED, by name or by number from 1 [default: found by name or content]
    #[arg(long, value_name = "NAME|N", requires = "score", help_heading = HEADING)]
    column: Vec<String>,
    /// Print JSON
    #[arg(long, requires = "score", help_heading = HEADING)]
    json: bool,
    /// Write the result as one HTML page to this file
    #[arg(long, value_name = "FILE", requires = "score", help_heading = HEADING)]
    report: Option<PathBuf>,
    /// Replace the report if it exists
    #[arg(long, requires = "report", help_heading = HEADING)]
    force: bool,
}

impl ScoreArgs {
    pub(super) fn is_wanted(&self) -> bool {
        !self.score.is_empty()
    }
}

fn time(text: &str) -> Result<u64, String> {
    time_of(text)
        .filter(|at| *at <= learned::now())
        .ok_or_else(|| "give a time of the past, such as 2026-11-01 or 2026-11-01T10:00:00Z".to_owned())
}

/// Scores the verdicts, and prints the result.
///
/// # Errors
/// A file cannot be read, no address was mailed after its verdict, or the report cannot be written.
pub(super) fn run(args: &ScoreArgs, files: &[PathBuf], quiet: bool) -> Result<(), Failure> {
    if files.is_empty() {
        return Err(Failure::usage(
            "--score needs the bounces and deliveries that followed the verdicts: name them as FILE",
        ));
    }
    if let Some(path) = args.report.as_deref().filter(|path| !args.force && path.exists()) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "{path} exists: name another file with --report, or give --force"
        )));
    }
    let ScoreArgs { within, checked_at, ref column, .. } = *args;
    let options = ScoreOptions { now: learned::now(), window_days: within, checked_at };
    let mut scorer = Scorer::new(options).map_err(|error| failure(Path::new(""), error))?;
    for path in &args.score {
        let read = ReadOptions { columns: column, ..ReadOptions::default() };
        let scored = Source::open(path, &read).map_err(ScoreError::List);
        let scored =
            scored.and_then(|mut source| scorer.add_verdicts(&mut source, &named(path), changed_at(path)));
        scored.map_err(|error| failure(path, error))?;
    }
    for path in &args.mailed {
        let source = Source::open(path, &ReadOptions::default()).map_err(ScoreError::List);
        let read = source.and_then(|mut source| scorer.add_mailed(&mut source));
        read.map_err(|error| match error {
            ScoreError::List(error) => unread_list(&error),
            error => failure(path, error),
        })?;
    }
    for path in files {
        let read = open(path).map_err(ScoreError::Events).and_then(|input| scorer.add_events(input));
        read.map_err(|error| failure(path, error))?;
    }
    let score = scorer.finish().map_err(|error| failure(Path::new(""), error))?;
    if let Some(path) = &args.report {
        let scored: Vec<String> = args.score.iter().map(|path| file_name(path)).collect();
        let heading = format!("Outcome of verdicts: {}", scored.join(", "));
        let page = score.page(heading, VERSION, Some(command_line()));
        std::fs::write(path, page).map_err(|error| {
            Failure::failed(format!(
                "{} cannot be written: {error}: name another file with --report",
                path.display()
            ))
        })?;
    }
    let mut output = io::stdout().lock();
    match (args.json, quiet) {
        (true, _) => writeln!(output, "{}", score.json())?,
        (false, true) if args.report.is_some() => {}
        (false, _) => write!(output, "{score}")?,
    }
    Ok(output.flush()?)
}

/// The last change of a file in seconds since 1970; `None` for standard input and other streams.
fn changed_at(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    u64::try_from(metadata.mtime()).ok().filter(|_| !is_stream(path))
}

fn file_name(path: &Path) -> String {
    match path.file_name() {
        Some(name) if !is_stream(path) => name.to_string_lossy().into_owned(),
        _ => named(path),
    }
}

fn unread_list(error: &ListError) -> Failure {
    Failure::failed(format!("{error}; --mailed takes a list with one address a row"))
}

fn failure(path: &Path, error: ScoreError) -> Failure {
    match error {
        ScoreError::List(error) => CleanError::from(error).into(),
        ScoreError::Events(error) => Failure::failed(format!("{}: {error}; nothing was scored", named(path))),
        ScoreError::Failed(why) => Failure::failed(why),
    }
}
