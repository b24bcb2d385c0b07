//! `--report`: the page about the list.

use super::summary::Summary;
use super::{CleanArgs, CleanError};
use indicatif::HumanDuration;
use lists::report::{Report, page};
use lists::utc_text;
use std::path::Path;

/// Writes the report about a list that is done.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, args: &CleanArgs, summary: &Summary) -> Result<(), CleanError> {
    let page = page(&report(args, summary));
    std::fs::write(path, page).map_err(|error| {
        CleanError::failed(format!("the list is done, but {} cannot be written: {error}", path.display()))
    })
}

fn report(args: &CleanArgs, summary: &Summary) -> Report {
    let name = args.input.file_name().unwrap_or(args.input.as_os_str()).to_string_lossy().into_owned();
    let mut report = Report {
        name: if name == "-" { "Standard input".to_owned() } else { name },
        date: utc_text(store::clock::now() / 1000).replace('T', " ").replace('Z', " UTC"),
        version: args.writing.version.clone(),
        command: args.writing.command.clone(),
        duration: Some(HumanDuration(summary.elapsed).to_string()),
        reasons: summary.reasons.sorted(),
        // Duplicates that are left out are no rows of the report. Its facts count them.
        duplicates: (!args.join && summary.dropped == 0).then_some(summary.duplicates),
        typos: summary.typos.clone(),
        left: summary.open_lines(),
        later: summary.later.clone(),
        settled: summary.settled.lines(None),
        unexplained: summary.unexplained(),
        columns: summary.columns,
        empty: summary.empty,
        facts: summary.facts(),
        ..Report::default()
    };
    report.set_domains(&summary.domains);
    report
}
