//! `mailprobe learn`: reads bounces and deliveries of the operator's own mail into a table that later checks use.

mod score;

use super::flags::{Flags, LEARNED, STATE};
use super::program::Failure;
use super::{installation, learned, log};
use crate::config::StateFile;
use engine::proto::address::Address;
use learn::{Event, LearnError, TABLE_ROWS_MAX, Table, TableError, TableFile, Tally};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The long help of the command.
pub const ABOUT: &str = "\
Learn from your own mail. The command reads bounces (delivery reports of RFC 3464, and the forms of qmail, Exim and others) as single \
messages or as mbox, and the exports of providers with bounces and deliveries, as CSV or JSON. The files may be compressed.

Later, `check` and `clean` use this as evidence if the mail servers do not show whether the mailbox exists: a definite bounce gives \
`mailbox_not_found` or `mailbox_disabled` (rule own_bounce), and a delivery without a failure in five days gives `mailbox_exists` \
in place of `catch_all` (rule own_delivery). docs/learn.md has the rules.

The table contains keyed hashes of addresses, and no address.

With --score, the command learns nothing and leaves the table as it is. It shows how many of the addresses of an earlier output \
bounced for good when you mailed them, by reason and provider. It sends nothing.";

/// After this number of events, rows beyond the limit of the table are removed.
const EVENTS_BETWEEN_PRUNES: u64 = 500_000;

/// The arguments of `mailprobe learn`.
#[derive(clap::Args)]
pub struct LearnArgs {
    /// Files to read: messages, mbox, CSV, JSON; - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["forget", "forget_all", "list", "score"])]
    files: Vec<PathBuf>,
    /// Remove what is known of an address
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["files", "forget_all", "list"])]
    forget: Option<String>,
    /// Remove the whole table and its key
    #[arg(long, conflicts_with_all = ["files", "list"])]
    forget_all: bool,
    /// Print the counts of the table. It contains no addresses
    #[arg(long, visible_alias = "counts", conflicts_with = "files")]
    list: bool,
    #[command(flatten)]
    score: score::ScoreArgs,
    #[command(flatten)]
    flags: Flags<{ STATE | LEARNED }>,
}

/// Why a file was not learned, or the table not written.
enum LearnFailure {
    File(PathBuf, LearnError),
    Table(TableError),
}

impl From<TableError> for LearnFailure {
    fn from(error: TableError) -> LearnFailure {
        LearnFailure::Table(error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Failure {
        Failure::failed(error.0)
    }
}

impl From<LearnFailure> for Failure {
    fn from(failure: LearnFailure) -> Failure {
        match failure {
            LearnFailure::Table(error) => error.into(),
            LearnFailure::File(path, error) => {
                Failure::failed(format!("{}: {error}; nothing was learned", named(&path)))
            }
        }
    }
}

/// Runs `mailprobe learn`.
///
/// # Errors
/// One line for standard error: a file cannot be read or contains nothing to learn, or the table cannot be read or written.
pub fn run(args: &LearnArgs, quiet: bool) -> Result<(), Failure> {
    let config = args.flags.config()?;
    log::warnings(quiet);
    if args.score.is_wanted() {
        return score::run(&args.score, &args.files, quiet);
    }
    if config.learned == Some(StateFile::None) {
        return Err(Failure::usage("`learn` needs a file for what it learns: name it with --learned FILE"));
    }
    let file = learned::file(&config).ok_or_else(|| {
        Failure::usage("there is no state folder for what is learned: name a file with --learned FILE")
    })?;
    let mut output = io::stdout().lock();
    match &args.forget {
        Some(address) => return forget(&file, address, &mut output),
        None if args.forget_all => return forget_all(&file, &mut output),
        None if args.list => return list(&file, &mut output),
        None => {}
    }
    installation::make_private_folder(file.path()).map_err(|error| {
        Failure::failed(format!("the folder of {} cannot be created: {error}", file.path().display()))
    })?;
    let now = learned::now();
    let (tally, counts) = file.update(|table| {
        let tally = read_all(&args.files, table, now)?;
        table.prune(now, TABLE_ROWS_MAX);
        Ok::<_, LearnFailure>((tally, table.counts(now)))
    })?;
    if !quiet {
        write!(output, "{}", report(args.files.len(), &tally))?;
        writeln!(output, "{}: {}", file.path().display(), counts_text(&counts))?;
    }
    Ok(output.flush()?)
}

fn read_all(files: &[PathBuf], table: &mut Table, now: u64) -> Result<Tally, LearnFailure> {
    let mut sum = Tally::default();
    let mut events = 0u64;
    for path in files {
        let mut on_event = |event: Event| {
            table.add(&event);
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_PRUNES) {
                table.prune(now, TABLE_ROWS_MAX);
            }
        };
        let tally = open(path).and_then(|input| learn::read(input, now, &mut on_event));
        sum.add(&tally.map_err(|error| LearnFailure::File(path.clone(), error))?);
    }
    Ok(sum)
}

fn open(path: &Path) -> Result<Box<dyn Read>, LearnError> {
    if lists::is_stream(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(LearnError::Unreadable("it is a folder; name its files".to_owned()));
    }
    Ok(Box::new(file))
}

fn named(path: &Path) -> String {
    if lists::is_stream(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn forget(file: &TableFile, text: &str, output: &mut impl Write) -> Result<(), Failure> {
    let address = Address::parse(text)
        .map_err(|error| Failure::usage(format!("`{text}` is not an address: {error}")))?;
    let is_there = match file.read()? {
        Some(_) => file.update(|table| Ok::<_, TableError>(table.forget(&address)))?,
        None => false,
    };
    if !is_there {
        return Err(Failure::failed(format!("nothing is known of {text} in {}", file.path().display())));
    }
    writeln!(output, "{text} is forgotten")?;
    Ok(())
}

fn forget_all(file: &TableFile, output: &mut impl Write) -> Result<(), Failure> {
    if !file.forget_all()? {
        return Err(Failure::failed(format!("there is no table at {}", file.path().display())));
    }
    writeln!(output, "{} and its key are removed", file.path().display())?;
    Ok(())
}

fn list(file: &TableFile, output: &mut impl Write) -> Result<(), Failure> {
    let Some(table) = file.read()? else {
        return Err(Failure::failed(format!(
            "there is no table at {}: make it with `mailprobe learn FILE`",
            file.path().display()
        )));
    };
    writeln!(output, "{}: {}", file.path().display(), counts_text(&table.counts(learned::now())))?;
    Ok(())
}

/// The counts of a table, as one line.
fn counts_text(counts: &learn::TableCounts) -> String {
    let newest =
        counts.newest.map_or(String::new(), |at| format!("; the newest event is of {}", learned::date(at)));
    let noun = if counts.addresses == 1 { "address" } else { "addresses" };
    format!(
        "{} {noun}; {} with a bounce and {} with a delivery that count now{newest}",
        counts.addresses, counts.bounced, counts.delivered
    )
}

/// What was read, as lines. Lines without a count are left out.
fn report(files: usize, tally: &Tally) -> String {
    let listed = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| -> String {
        counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let definite = tally.definite.values().sum::<u64>();
    let failed = tally.failed.values().sum::<u64>();
    let lines = [
        (
            tally.messages + tally.rows,
            format!(
                "files: {files}, messages: {} (bounces and reports: {}, others: {}), rows: {} (other events: {})",
                tally.messages, tally.reports, tally.other_messages, tally.rows, tally.other_rows
            ),
        ),
        (
            definite,
            format!(
                "definite bounces: {definite} ({})",
                listed(&mut tally.definite.iter().map(|(bounce, count)| (bounce.as_str(), *count)))
            ),
        ),
        (
            failed,
            format!(
                "other failures: {failed} ({})",
                listed(&mut tally.failed.iter().map(|(cause, count)| (cause.as_str(), *count)))
            ),
        ),
        (
            tally.delivered,
            format!("deliveries: {} (they count after 5 days without a failure)", tally.delivered),
        ),
        (tally.delayed, format!("notices of a delay: {}", tally.delayed)),
        (tally.passed, format!("given to servers without reports: {}", tally.passed)),
        (tally.complaints, format!("complaints, which are not used: {}", tally.complaints)),
        (tally.unreadable, format!("recipients in reports that cannot be read: {}", tally.unreadable)),
        (tally.undated, format!("not used, because they have no time: {}", tally.undated)),
        (tally.expired, format!("not used, because they are too old: {}", tally.expired)),
    ];
    lines.into_iter().filter(|(count, _)| *count > 0).map(|(_, line)| line + "\n").collect()
}

#[cfg(test)]
mod tests;
