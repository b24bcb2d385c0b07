//! The arguments of `mailprobe clean` about the list and the run, and what follows from them.

use super::output_args::{CHECK, INPUT, OutputArgs, RESULT, RUN, last_ending};
use super::sink::{Compression, Delivery};
use super::stall::{STALL_MAX, Waits};
use super::{CleanError, ListPart};
use lists::{Format, ReadOptions, is_stream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use usage::values::{Unit, whole_number, whole_time};

/// Endings of files that mailprobe cannot write. Without this list they would get CSV.
const UNWRITTEN: [&str; 13] =
    ["xls", "xlsb", "xlsm", "xltx", "ods", "fods", "numbers", "pdf", "zip", "bz2", "xz", "7z", "parquet"];

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
    /// Column of the addresses, by name or by number from 1 [default: found by name or content]; of JSON lines the key, by name
    /// [default: email, else a key with another usual name]. Repeat it for several columns of a CSV or a spreadsheet.
    ///
    /// The verdicts of the second column HOME are in HOME_deliverable and
    /// HOME_reason.
    #[arg(long, value_name = "NAME|N", help_heading = INPUT)]
    pub column: Vec<String>,
    /// INPUT has no header: its first row is checked too [default: found by its content]
    #[arg(long, conflicts_with = "header", help_heading = INPUT, hide_short_help = true)]
    pub no_header: bool,
    /// The first row of INPUT is a header, also if it looks like the others [default: found by its content]
    #[arg(long, help_heading = INPUT, hide_short_help = true)]
    pub header: bool,
    /// Sheet of a spreadsheet [default: the first visible one with addresses]. A run reads one sheet
    #[arg(long, value_name = "NAME", help_heading = INPUT)]
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
    /// Give up this long after an outage of DNS or mail connectivity was noticed, which takes about 10s [default: 2m, or 5s if no
    /// resolver has given a credible answer in this run]. A number without a unit is in seconds
    #[arg(long, value_name = "TIME", value_parser = whole_time(Unit::Seconds, 0..=u32::MAX), help_heading = CHECK, hide_short_help = true)]
    pub max_outage: Option<u32>,
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
    /// Continue an interrupted run from OUT.partial: repeat its command with --resume.
    ///
    /// It is refused, and names an option that differs, if the rows of INPUT that were read, --format, --sheet, --column, --header,
    /// --columns, --fast, --unordered, --drop-duplicates, --known, --known-days, --retry or --join are not as in that run. INPUT may
    /// have further rows at its end, and the other options may change.
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
    #[arg(skip = STALL_MAX)]
    pub silence: Duration,
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

impl CleanArgs {
    /// How INPUT is read.
    pub(super) fn reading(&self) -> ReadOptions<'_> {
        let header = (self.header || self.no_header).then_some(self.header);
        let (format, sheet) = (self.format.map(Format::from), self.sheet.as_deref());
        ReadOptions { format, columns: &self.column, header, sheet, ..ReadOptions::default() }
    }

    /// The waiting times of the run.
    pub(super) fn waits(&self) -> Waits {
        let seconds = |given: u32| Duration::from_secs(given.into());
        Waits { later: seconds(self.max_wait), silence: self.silence, outage: self.max_outage.map(seconds) }
    }

    /// What becomes of the complete list.
    ///
    /// # Errors
    /// The options contradict each other or the name of the output.
    pub(super) fn delivery(&self) -> Result<Delivery, CleanError> {
        let OutputArgs { split, ref only, .. } = self.writing;
        let file = self.output.as_deref().filter(|path| !is_stream(path));
        let is_sheet = match file {
            Some(path) => self.is_sheet(path)?,
            None => false,
        };
        let is_file = file.is_some_and(|path| !path.exists() || path.is_file());
        if split && !is_file {
            return Err(CleanError::usage("--split needs an output file: name it with -o"));
        }
        if is_sheet && !is_file {
            return Err(CleanError::usage(
                "a spreadsheet cannot be written to a stream: name a file with -o",
            ));
        }
        let selects = [("--split", split), ("--only", !only.is_empty())];
        if let Some((flag, _)) = selects.iter().find(|(_, is_given)| *is_given && self.part.is_some()) {
            return Err(CleanError::usage(format!(
                "a part has the rows of all classes: give {flag} to --join"
            )));
        }
        let names_time =
            || self.writing.columns.iter().any(|name| name.trim().eq_ignore_ascii_case("checked_at"));
        if self.part.is_some() && self.writing.known.is_some() && !names_time() {
            return Err(CleanError::usage(
                "a part with --known has the column checked_at, which --join does not know: give `--columns checked_at` to all \
                 parts and to --join",
            ));
        }
        let classes = self.writing.classes();
        let has_further = !self.writing.result_columns()?.is_empty();
        // A part is a list for --join, whatever the name of the whole list.
        let is_sheet = is_sheet && self.part.is_none();
        Ok(Delivery { classes, is_split: split, is_sheet, has_further })
    }

    /// Whether an output with this name is a spreadsheet.
    fn is_sheet(&self, path: &Path) -> Result<bool, CleanError> {
        let (name, last) = (path.display(), last_ending(path));
        if UNWRITTEN.contains(&last.as_str()) {
            return Err(CleanError::usage(format!(
                "{name}: mailprobe does not write .{last} files: it writes .xlsx, or the format of INPUT (CSV, JSON lines), also \
                 with .gz or .zst"
            )));
        }
        let is_packed =
            matches!(last.as_str(), "gz" | "zst") && last_ending(&path.with_extension("")) == "xlsx";
        let is_compressed = self.compress.is_some_and(|compression| compression != Compression::None);
        if is_packed || last == "xlsx" && is_compressed {
            return Err(CleanError::usage(format!(
                "{name}: a spreadsheet is compressed already: name an output that ends with .xlsx, and omit --compress"
            )));
        }
        Ok(last == "xlsx")
    }
}
