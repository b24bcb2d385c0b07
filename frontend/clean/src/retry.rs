//! `--retry`: an earlier output is the input, and only its open rows are checked again.
//!
//! A row is open if it is unverifiable and a later check may tell more. The rule says so, if the list has this column of results;
//! without the column, the file `OUT.closed` beside the earlier output does. A row without a result is open, too: it was added since.

use super::{CleanArgs, CleanError, column_option, kept_options};
use api::Reason;
use engine::proto::retry::may_tell_more;
use lists::left::known_command;
use lists::{EarlierResult, ReadOptions, ResultColumn, Row, Shape, Source, is_stream};
use std::path::Path;

/// Reasons that only fast checks give, and reasons that only full checks give.
pub(super) const FAST_REASONS: [Reason; 3] = [Reason::FastCheckPassed, Reason::PossibleTypo, Reason::NoMx];
pub(super) const FULL_REASONS: [Reason; 6] = [
    Reason::MailboxExists,
    Reason::RoleAccount,
    Reason::CatchAll,
    Reason::MailboxNotFound,
    Reason::MailboxDisabled,
    Reason::InboxFull,
];

/// Whether a check has found something out, so that its result can be used again.
pub(super) fn is_found_out(earlier: &EarlierResult) -> bool {
    let EarlierResult { reason, results } = earlier;
    // Without its rule, it is not known why a row is unverifiable. Perhaps no server was asked.
    *reason != Reason::Unverifiable || is_closed(&results.rule)
}

/// Whether an address that this rule left unverifiable would stay so in a later check.
pub(super) fn is_closed(rule: &str) -> bool {
    !rule.is_empty() && !may_tell_more(rule)
}

/// Reads an earlier output to its end: the names of its further columns of results, which the new output has too.
///
/// # Errors
/// It cannot be read, is no output of mailprobe, or its checks were of the other mode than those of this run.
pub(super) fn columns(args: &CleanArgs) -> Result<Vec<String>, CleanError> {
    if is_stream(&args.input) {
        return Err(CleanError::usage("--retry reads INPUT twice: name a file in place of standard input"));
    }
    let name = args.input.display();
    let several = |columns: &[&str], others: &str| {
        let command = known_command(&args.input, &kept_options(args, columns, true), None, Some(&args.input));
        CleanError::usage(format!(
            "--retry works with the verdicts of one column only{others}: `{command}`, with the columns of that run in their order, uses \
             results again while they are new enough, and checks the rest"
        ))
    };
    if args.column.len() > 1 {
        return Err(several(&args.column.iter().map(String::as_str).collect::<Vec<_>>(), ""));
    }
    let given = args.writing.result_columns()?;
    let options = ReadOptions { results: &given, ..args.reading() };
    let mut source = Source::open(&args.input, &options).map_err(CleanError::unopened)?;
    if source.shape().has_header() && !given.is_empty() {
        return Err(CleanError::usage(format!(
            "the header of {name} names its columns, and --retry keeps them: leave out --columns"
        )));
    }
    if let Some(column) = source.shape().column_of_verdict() {
        return Err(CleanError::usage(format!(
            "the verdicts of {name} are of another column: give `{}`",
            column_option(column).trim_start()
        )));
    }
    if let others @ [_, ..] = source.shape().other_verdicts() {
        let others = format!(", and {name} has those of another one in `{}`", others.join("`, `"));
        return Err(several(&["FIRST", "SECOND"], &others));
    }
    let (mut row, mut rows, mut found): (_, u64, Option<Vec<ResultColumn>>) = (Row::default(), 0, None);
    while source.next(&mut row)? {
        rows += 1;
        let Some(EarlierResult { reason, .. }) = source.earlier_result() else { continue };
        found.get_or_insert_with(|| source.earlier_columns());
        fits_mode(reason, args)?;
    }
    match found {
        Some(columns) => Ok(columns.into_iter().map(|column| column.as_str().to_owned()).collect()),
        None if rows == 0 => Ok(Vec::new()),
        None => Err(CleanError::usage(format!(
            "{name} has no results of mailprobe (the columns deliverable and reason): --retry needs an earlier output, and the \
             --columns of its run if it has no header"
        ))),
    }
}

/// What to say if the verdicts of an earlier output may be of another column than the first one of this run.
pub(super) fn doubt(path: &Path, shape: &Shape) -> Option<String> {
    let (path, own, other) = (path.display(), shape.chosen.first()?, shape.doubtful_column()?);
    Some(format!(
        "{path} does not say of which column its verdicts are: they count for `{own}`; if they are of `{other}`, stop this run, and \
         give `{}` first",
        column_option(other).trim_start()
    ))
}

/// The same for a complete output of the list that is open as `source`.
pub(super) fn doubt_beside(path: &Path, source: &Source) -> Option<String> {
    let options = ReadOptions { columns: &source.shape().chosen, ..ReadOptions::default() };
    doubt(path, Source::open(path, &options).ok()?.shape())
}

/// What to say about earlier verdicts that are of none of the columns that this run checks, or perhaps not, and so are not used.
pub(super) fn of_others(shape: &Shape, so: &str) -> Option<String> {
    let verdicts = shape.other_verdicts();
    (!verdicts.is_empty()).then(|| {
        let names = verdicts.join("`, `");
        format!(
            "the earlier verdicts in `{names}` are of another column than this run checks, or may be: {so}"
        )
    })
}

/// Refuses to mix results of fast and full checks in one list.
fn fits_mode(reason: Reason, args: &CleanArgs) -> Result<(), CleanError> {
    let name = args.input.display();
    match args.fast {
        false if FAST_REASONS.contains(&reason) => {
            Err(CleanError::usage(format!("{name} has results of fast checks: --retry needs --fast, too")))
        }
        true if FULL_REASONS.contains(&reason) => {
            Err(CleanError::usage(format!("{name} has results of full checks: omit --fast")))
        }
        _ => Ok(()),
    }
}
