//! The arguments of `mailprobe clean` about what it writes, and what follows from them.

use super::sink::Delivery;
use super::{CleanError, StopSignal};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lists::{Class, Format, ResultColumn, SHEET_COLUMNS_MAX, Shape, VERDICT_NAMES, is_stream};
use std::path::{Path, PathBuf};
use usage::values::{Unit, whole_number, whole_time};

/// The headings of the flags in the help.
pub(super) const INPUT: &str = "The list";
pub(super) const CHECK: &str = "The check";
pub(super) const RESULT: &str = "The result";
pub(super) const RUN: &str = "The run";

/// What a run writes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutputArgs {
    /// Further columns of results after deliverable and reason, separated by commas: suggestion, provider, role, free, disposable,
    /// rule, scope, reply_code, enhanced_code, score, checked_at.
    ///
    /// provider and score take some forty DNS queries per domain. Fast checks have no score, no reply, and no rule except own_bounce.
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = RESULT)]
    pub columns: Vec<String>,
    /// Write only the rows of these classes, separated by commas. unknown: catch_all, unverifiable and fast_check_passed
    #[arg(long, value_name = "CLASS", value_parser = class(), value_delimiter = ',', help_heading = RESULT)]
    pub only: Vec<Class>,
    /// Write one file per class: OUT.deliverable.csv, OUT.undeliverable.csv and OUT.unknown.csv for -o OUT.csv
    #[arg(long, help_heading = RESULT)]
    pub split: bool,
    /// Leave out rows with the address of an earlier row
    #[arg(long, conflicts_with_all = ["part", "join"], help_heading = RESULT)]
    pub drop_duplicates: bool,
    /// Earlier output of mailprobe: its results are used again while they are new enough, and other addresses are checked.
    ///
    /// The age of a result counts from checked_at if OLD has this column, else from the last change of the file. The output always has
    /// checked_at: so a later run with this output as OLD knows the time of each check. Other --columns of such a row come from OLD, too;
    /// provider, rule, scope, reply_code, enhanced_code and score are empty if OLD does not have them.
    #[arg(long, value_name = "OLD", conflicts_with = "join", help_heading = CHECK)]
    pub known: Option<PathBuf>,
    /// Maximum age of a result of OLD, such as 3d; a number without a unit is in days [default: 7d; 1d for catch_all, unverifiable
    /// and inbox_full]
    #[arg(long, value_name = "TIME", requires = "known", value_parser = whole_time(Unit::Days, 0..=u32::MAX), help_heading = CHECK, hide_short_help = true)]
    pub known_days: Option<u32>,
    /// INPUT is an earlier output of mailprobe: check only its open rows again.
    ///
    /// A row is open if it is unverifiable although a later check may tell more. All other rows stay as they are, and the output has
    /// the columns of INPUT; if it has no header, give the --columns of that run. After a run with several --column, repeat that
    /// command with --known OUT and another -o instead.
    #[arg(long, conflicts_with_all = ["part", "join", "known", "sample", "drop_duplicates"], help_heading = CHECK)]
    pub retry: bool,
    /// Replace files that exist: OUT, the files of --split, the report and the summary
    #[arg(long, help_heading = RUN)]
    pub force: bool,
    /// Check at most N addresses that are chosen at random, and estimate the share of each class with its 95 % interval.
    ///
    /// This writes no list, unless -o names a file for the sample.
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(1u32..=1_000_000),
        conflicts_with_all = [
            "part", "join", "resume", "unordered", "columns", "only", "split", "drop_duplicates", "known", "report", "compress"
        ],
        help_heading = CHECK
    )]
    pub sample: Option<u32>,
    /// Seed of --sample: the same list and seed give the same sample [default: random]
    #[arg(long, value_name = "NUMBER", requires = "sample", value_parser = whole_number(0..=u64::MAX), help_heading = CHECK, hide_short_help = true)]
    pub seed: Option<u64>,
    /// Write a report about the list as one HTML page to this file
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub report: Option<PathBuf>,
    /// The command line, for the report.
    #[arg(skip)]
    pub command: Option<String>,
    /// The options of the engine that were given, each after a space, for the commands that check rows again.
    #[arg(skip)]
    pub engine: String,
    /// The version of mailprobe, for the report.
    #[arg(skip)]
    pub version: String,
    /// Whether a signal ends the run, so that the finished rows are written.
    #[arg(skip)]
    pub stop: StopSignal,
}

/// Parses a value of `--only`.
fn class() -> impl TypedValueParser<Value = Class> {
    let helps = [
        "Mail can be sent",
        "All other reasons: mail would bounce, or you should not send it",
        "The check does not show whether the mailbox exists: catch_all, unverifiable, fast_check_passed",
    ];
    let values = Class::ALL.into_iter().zip(helps);
    let values = values.map(|(class, help)| PossibleValue::new(class.as_str()).help(help));
    PossibleValuesParser::new(values).try_map(|name| Class::parse(&name).ok_or("there is no such class"))
}

impl OutputArgs {
    /// The further columns of results. With `--known`, the time of the check is one of them: without it, the next run would take the
    /// time of this output for the time of results that came from an earlier one.
    ///
    /// # Errors
    /// A name is unknown or given twice.
    pub(super) fn result_columns(&self) -> Result<Vec<ResultColumn>, CleanError> {
        let mut columns = Vec::new();
        for name in &self.columns {
            let name = name.trim().to_ascii_lowercase();
            if name.is_empty() || VERDICT_NAMES.contains(&name.as_str()) {
                continue;
            }
            let Some(column) = ResultColumn::parse(&name) else {
                let known: Vec<&str> = ResultColumn::ALL.into_iter().map(ResultColumn::as_str).collect();
                let known = known.join(", ");
                return Err(CleanError::usage(format!(
                    "there is no result `{name}`: --columns knows {known}"
                )));
            };
            if columns.contains(&column) {
                return Err(CleanError::usage(format!("--columns names `{name}` twice")));
            }
            columns.push(column);
        }
        if self.known.is_some() && !columns.contains(&ResultColumn::CheckedAt) {
            columns.push(ResultColumn::CheckedAt);
        }
        Ok(columns)
    }

    /// Whether a column needs the reply that decided.
    pub fn needs_reply(&self) -> bool {
        let columns = self.result_columns().unwrap_or_default();
        [ResultColumn::Scope, ResultColumn::ReplyCode, ResultColumn::EnhancedCode]
            .iter()
            .any(|column| columns.contains(column))
    }

    /// Whether a column needs the DNS facts of domains.
    pub fn needs_facts(&self) -> bool {
        let columns = self.result_columns().unwrap_or_default();
        columns.contains(&ResultColumn::Provider) || columns.contains(&ResultColumn::Score)
    }

    /// The classes of rows that are written.
    pub(super) fn classes(&self) -> Vec<Class> {
        if self.only.is_empty() { Class::ALL.to_vec() } else { self.only.clone() }
    }
}

/// Compares the name of the output with the format of the list, which is the format of the output.
///
/// # Errors
/// The name promises another format. JSON lines in a file with the ending .csv are a warning only: earlier releases wrote them.
fn fits_name(path: &Path, delivery: &Delivery, shape: &Shape) -> Result<(), CleanError> {
    let ending = last_ending(path);
    let ending = match ending.as_str() {
        "gz" | "zst" => last_ending(&path.with_extension("")),
        _ => ending,
    };
    let is_csv = shape.format != Format::Jsonl;
    let fits = match ending.as_str() {
        _ if delivery.is_sheet => true,
        "jsonl" | "ndjson" | "json" => !is_csv,
        "tsv" => is_csv && shape.delimiter() == b'\t',
        _ => true,
    };
    if fits {
        if ending == "csv" && !is_csv && !delivery.is_sheet {
            tracing::warn!("{} gets JSON lines: the output has the format of INPUT", path.display());
        }
        return Ok(());
    }
    let format = match (is_csv, shape.delimiter()) {
        (false, _) => "JSON lines".to_owned(),
        (true, b'\t') => "CSV with tabs".to_owned(),
        (true, _) if shape.format == Format::Text => "plain text, so that the output is CSV".to_owned(),
        (true, delimiter) => format!("CSV with `{}`", char::from(delimiter)),
    };
    Err(CleanError::usage(format!(
        "{}: the output has the format of INPUT, which is {format} here: name an output with another ending than .{ending}",
        path.display()
    )))
}

/// The last ending of a name, in small letters.
pub(super) fn last_ending(path: &Path) -> String {
    path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// The option that needs a list with one column of addresses, if there is one.
pub(super) fn needs_one(writing: &OutputArgs) -> Option<&'static str> {
    let flags = [
        ("--only", !writing.only.is_empty()),
        ("--split", writing.split),
        ("--drop-duplicates", writing.drop_duplicates),
        ("--sample", writing.sample.is_some()),
    ];
    flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

/// Compares what is written with the list.
///
/// # Errors
/// The list has several columns of addresses, or too many columns for a spreadsheet.
pub(super) fn fits(
    writing: &OutputArgs,
    output: Option<&Path>,
    delivery: &Delivery,
    shape: &Shape,
) -> Result<(), CleanError> {
    if let Some(flag) = needs_one(writing).filter(|_| shape.addresses() > 1) {
        return Err(CleanError::usage(format!(
            "{flag} works with one --column only: a row with several addresses has several verdicts"
        )));
    }
    if let Some(path) = output.filter(|path| !is_stream(path) && (!path.exists() || path.is_file())) {
        fits_name(path, delivery, shape)?;
    }
    match shape.output_columns() {
        Some(columns) if delivery.is_sheet && columns > SHEET_COLUMNS_MAX => Err(CleanError::usage(format!(
            "the output has {columns} columns, and a spreadsheet has at most {SHEET_COLUMNS_MAX}: write CSV"
        ))),
        _ => Ok(()),
    }
}
