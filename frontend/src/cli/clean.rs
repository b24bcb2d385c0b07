//! `mailprobe clean`: a list goes in, and comes out with `deliverable` and `reason` behind every row.
//!
//! ```text
//! source ─> seen ──────────────> budget ─> checker (the engine) ─> rows ─> sink
//!  rows      is it a duplicate?   under way     │  ^                in turn  OUT.partial, then OUT
//!                                               v  │
//!                                             putoff: asked about later
//! ```
//!
//! What holds:
//! - A row that came in goes out once, with the same values; nothing is said about a row that the engine did not say.
//!   It keeps its place, unless `--unordered` is given.
//! - An address is asked about once, however often it is in the list.
//! - Memory does not depend on the list's length: what does not fit lies in OUT.state, sealed (`state.rs`).
//! - No row holds up the reader: neither one that waits for a slow site, nor one that is asked about later.
//! - OUT appears whole or not at all. Until the end the rows stand in `OUT.partial`; `--resume` holds it against the
//!   input row by row and goes on where it ends.

mod budget;
mod checker;
mod domains;
mod driver;
mod left;
mod outage;
mod progress;
mod putoff;
mod rows;
mod seen;
mod sink;
mod stall;
mod state;
mod summary;
#[cfg(test)]
mod tests;

use super::flags::{ENGINE, Flags, STATE};
use super::installation::{self, Keeper, Sharing};
use super::{Failure, StartEngine, log, open_files};
pub use checker::{Answered, Checker};
pub use domains::DomainRows;
use engine::config::{EngineConfig, Pace};
pub use left::{Left, LeftByRule};
use lists::{Format, ListError, Source, is_stream};
use sink::Sink;
use state::State;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use summary::Summary;

/// Most addresses under way at once.
const UNDER_WAY_MAX: usize = 100_000;
/// Fewest.
const UNDER_WAY_MIN: usize = 10_000;
/// Addresses under way for each session that there may be, where nothing is paced: a transaction that is asked, and most
/// of the next. With more of them an address costs a fifth more, since what is known of it has left the processor's caches.
/// Where sites are paced, time matters more: the more sites are at work, the less it is that each of them is waited for.
const UNDER_WAY_A_SESSION: usize = 10;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    list: CleanArgs,
    #[command(flatten)]
    flags: Flags<{ ENGINE | STATE }>,
}

pub(super) fn run(args: Args, start_engine: StartEngine) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings();
    open_files::raise(config.engine.sessions);
    let (mut engine, mut keeper) = (None, None);
    let (fast, list) = (args.list.fast, args.list);
    let start = || {
        let mut engine_config = config.engine_config().map_err(|error| CleanError::usage(error.0))?;
        fit(&mut engine_config);
        let installation = match fast {
            true => None,
            false => installation::open(config.state.as_ref(), Sharing::Alone).map_err(CleanError::failed)?,
        };
        if let Some(installation) = &installation {
            installation.kept.give_to(&mut engine_config);
        }
        let resolvers = named(&engine_config.resolvers);
        let started = start_engine(engine_config).map_err(|error| CleanError::failed(error.0))?;
        if let Some(installation) = installation {
            keeper = Some(Keeper::start(installation, started.refusals()).map_err(CleanError::failed)?);
        }
        let line = started.line(UNDER_WAY_MAX);
        engine = Some(started);
        let checker: Box<dyn Checker> = match fast {
            true => Box::new(checker::Fast::new(line, resolvers)),
            false => Box::new(checker::Full::new(line, resolvers)),
        };
        Ok(checker)
    };
    let mut result = clean(list, start, &mut io::stderr());
    if let Some(engine) = engine {
        result = result.map_err(|error| error.because(engine.trouble()));
        engine.stop();
    }
    let kept = keeper.map_or(Ok(()), Keeper::finish);
    if let (Err(_), Err(why)) = (&result, &kept) {
        tracing::warn!("{why}");
    }
    result?;
    kept.map_err(|why| Failure::failed(format!("the list is done, but {why}")))
}

/// The list is all that the engine works on; where the operator says nothing, it gets what it can use.
fn fit(config: &mut EngineConfig) {
    if config.tickets_max == EngineConfig::default().tickets_max {
        let wanted = match config.pace {
            Pace::Lab => config.sessions.saturating_mul(UNDER_WAY_A_SESSION),
            Pace::Polite | Pace::Fast => UNDER_WAY_MAX,
        };
        config.tickets_max = wanted.clamp(UNDER_WAY_MIN, UNDER_WAY_MAX);
    }
    if config.resolvers.is_empty() {
        // What is wrong with the system's, the engine says.
        config.resolvers = engine::system_resolvers().unwrap_or_default();
    }
}

/// The resolvers as messages name them.
fn named(resolvers: &[SocketAddr]) -> String {
    let names: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// The arguments of `mailprobe clean`, the engine's apart.
#[derive(Debug, Clone, clap::Args)]
pub struct CleanArgs {
    /// The list: CSV, JSON lines, or plain text with an address a line; - for standard input
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    /// Where to write the list with its verdicts [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// What INPUT is [default: by its name, else by its content]
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// The column or JSON key that holds the addresses, by name or by number from 1 [default: found by its name or
    /// its content]
    #[arg(long, value_name = "NAME|N")]
    pub column: Option<String>,
    /// Contact no mail server: syntax, typing mistakes, MX and lists. It cannot tell whether a mailbox exists
    #[arg(long, conflicts_with = "max_wait")]
    pub fast: bool,
    /// How long a row may wait when its server says "later" (greylisting) or answers nobody, or when its site has no budget
    /// of refused recipients left. It is asked again when that makes sense, and a last time when the time is over; then it
    /// is unverifiable. The list ends at most 60 seconds, and this time, after the last row that was answered
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub max_wait: u32,
    /// How many seconds nobody may be there to be asked (no resolver answers, no mail server can be reached) before
    /// the run ends
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub max_outage: u32,
    /// Write rows as they are done, not in the order of INPUT
    #[arg(long)]
    pub unordered: bool,
    /// Pack the output [default: by its name, .gz or .zst, else not]. INPUT is unpacked as it is found
    #[arg(long, value_enum)]
    pub compress: Option<Compression>,
    /// Write the summary, with counts by reason and by domain, as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// How much memory rows that wait and addresses that came before may take, before they go to OUT.state; the engine's
    /// comes on top
    #[arg(long, value_name = "MIB", default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub memory: u32,
    /// Go on with what an interrupted run has left in OUT.partial
    #[arg(long)]
    pub resume: bool,
    /// Show no progress on the terminal
    #[arg(long)]
    pub no_progress: bool,
    /// How long the list waits for an answer to any row, beyond `max_wait`.
    #[arg(skip = stall::STALL_MAX)]
    pub silence: Duration,
}

/// The form of a list, as `--format` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// Values separated by commas, semicolons or tabs, with or without a header
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

/// How the output is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// Not at all
    None,
    /// RFC 1952
    Gzip,
    /// RFC 8878
    Zstd,
}

impl Compression {
    /// By the ending of the file's name.
    fn by_name(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// Why a list was not cleaned: one line that says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanError {
    /// The exit code: 1 for a failure, 2 for wrong usage.
    pub exit: u8,
    /// The line.
    pub message: String,
    /// Nobody could be asked: why not, as the line says it.
    outage: Option<String>,
}

impl CleanError {
    fn failed(message: impl Into<String>) -> CleanError {
        CleanError { exit: 1, message: message.into(), outage: None }
    }

    fn usage(message: impl Into<String>) -> CleanError {
        CleanError { exit: 2, message: message.into(), outage: None }
    }

    fn outage(why: String) -> CleanError {
        CleanError { exit: 1, message: format!("nobody can be asked: {why}"), outage: Some(why) }
    }

    /// The same with what the engine knows of an outage. What the line says besides stays, as where the work is kept.
    fn because(self, trouble: Option<String>) -> CleanError {
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

impl From<ListError> for CleanError {
    fn from(error: ListError) -> CleanError {
        match error {
            ListError::Unreadable(message) => CleanError::failed(message),
            ListError::Column(message) => CleanError::usage(message),
        }
    }
}

impl From<CleanError> for Failure {
    fn from(error: CleanError) -> Failure {
        if error.exit == 2 { Failure::usage(error.message) } else { Failure::failed(error.message) }
    }
}

/// A list that can be cleaned: its input is open and its column of addresses known. Nothing is written yet, so that
/// the engine need not be started for a list that is none.
pub struct Job {
    args: CleanArgs,
    source: Source,
}

impl Job {
    /// Opens the input and looks at its beginning.
    ///
    /// # Errors
    /// [`CleanError`] for arguments that contradict each other, an input that cannot be read, and one without
    /// addresses.
    pub fn open(args: CleanArgs) -> Result<Job, CleanError> {
        if args.resume && args.output.as_deref().is_none_or(is_stream) {
            return Err(CleanError::usage("--resume needs a file to go on with: name it with -o"));
        }
        if let Some(output) = args.output.as_deref()
            && (is_same_file(&args.input, output) || is_same_file(&args.input, &sink::partial(output)))
        {
            let name = output.display();
            return Err(CleanError::usage(format!(
                "{name} would overwrite the input: name another file with -o"
            )));
        }
        let source = Source::open(&args.input, args.format.map(Format::from), args.column.as_deref())?;
        Ok(Job { args, source })
    }

    /// Cleans the list. Progress, where standard error is a terminal, and nothing else goes to standard error; the
    /// summary is the caller's to show.
    ///
    /// # Errors
    /// [`CleanError`]; what was done until then stays in `OUT.partial`.
    pub fn run(self, checker: &mut dyn Checker) -> Result<Summary, CleanError> {
        let Job { args, source } = self;
        let output = args.output.as_deref();
        let sink = Sink::open(output, args.resume, args.unordered, args.compress)?;
        // The sink keeps other runs off these names from here on.
        let state = match State::open(output, args.memory as usize * 1024 * 1024) {
            Ok(state) => state,
            Err(error) => return Err(sink.keep(error)),
        };
        let seconds = |given: u32| Duration::from_secs(given.into());
        let summary = driver::run(driver::Parts {
            progress: progress::Progress::new(!args.no_progress, source.size()),
            source,
            sink,
            state,
            ordered: !args.unordered,
            checker,
            waits: driver::Waits {
                later: seconds(args.max_wait),
                silence: args.silence,
                outage: seconds(args.max_outage),
            },
        })?;
        if let Some(path) = &args.summary {
            summary.write(path)?;
        }
        Ok(summary)
    }
}

/// Opens, runs and shows the summary on `errors`, which is standard error.
///
/// # Errors
/// As [`Job::open`] and [`Job::run`], and what `start` says, which starts the engine once the list is known to be
/// one.
pub fn clean<C: Checker>(
    args: CleanArgs,
    start: impl FnOnce() -> Result<C, CleanError>,
    errors: &mut dyn Write,
) -> Result<(), CleanError> {
    let job = Job::open(args)?;
    let mut checker = start()?;
    let summary = job.run(&mut checker)?;
    // Whoever closed standard error does not want to read it.
    let _ = write!(errors, "{summary}");
    Ok(())
}

/// Whether both names lead to one file, over links too.
fn is_same_file(input: &Path, output: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    if is_stream(input) || is_stream(output) {
        return false;
    }
    match (std::fs::metadata(input), std::fs::metadata(output)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
