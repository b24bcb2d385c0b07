//! The names of the files of a run: no file replaces the input or another one.

use super::journal;
use super::sink::{Delivery, packed, partial};
use super::{CleanArgs, CleanError, later};
use lists::{is_same_file, is_stream, shell};
use spill::{beside, closed};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Compares the names of all files that a run reads and writes.
///
/// # Errors
/// Two of them are the same file. An output may replace the file of `--known`, which is read before.
pub(super) fn check(args: &CleanArgs, output: Option<&Path>, delivery: &Delivery) -> Result<(), CleanError> {
    let lists: Vec<&Path> =
        args.output.as_deref().into_iter().chain(output).filter(|path| !is_stream(path)).collect();
    let results: Vec<PathBuf> = lists
        .iter()
        .flat_map(|path| std::iter::once((*path).to_owned()).chain(delivery.names(path)))
        .collect();
    let own = lists.iter().flat_map(|path| {
        let partial = partial(path);
        [closed::beside(&partial), partial, beside(path), journal::beside(path)]
    });
    let own = own.chain(results.iter().flat_map(|path| [packed(path), closed::beside(path)])).collect();
    let (report, summary) = (args.writing.report.clone(), args.summary.clone());
    for (flag, path) in [("--report", &report), ("--summary", &summary)] {
        if path.as_deref() == Some(Path::new("-")) {
            return Err(CleanError::usage(format!("{flag} - is not possible: name a file")));
        }
    }
    let input = vec![("the input", args.input.clone())];
    // A new output may replace the earlier one that it is made of.
    let mut taken = match args.writing.retry {
        true => with("-o", "the output", results, Vec::new())?.into_iter().chain(input).collect(),
        false => with("-o", "the output", results, input)?,
    };
    taken.extend(args.writing.known.clone().map(|path| ("the file of --known", path)));
    taken = with("-o", "the output", own, taken)?;
    taken = with("--report", "the report", report.into_iter().collect(), taken)?;
    with("--summary", "the summary", summary.into_iter().collect(), taken)?;
    refuse_existing(args, output, delivery)
}

/// Tries to write the files of the end of a run: the list is not checked first. The other files are opened before the first check.
///
/// # Errors
/// A file cannot be written. It stays as it was.
pub(super) fn try_writing(
    args: &CleanArgs,
    output: Option<&Path>,
    delivery: &Delivery,
) -> Result<(), CleanError> {
    let results = output.filter(|path| !is_stream(path)).map(|path| delivery.names(path)).unwrap_or_default();
    for name in results.iter().flat_map(|path| [path.clone(), packed(path)]) {
        if name.is_dir() {
            return Err(CleanError::is_folder("-o", &name));
        }
    }
    let about = [("--report", &args.writing.report), ("--summary", &args.summary)];
    for (flag, path) in about {
        if let Some(path) = path {
            try_file(flag, path)?;
        }
    }
    Ok(())
}

fn try_file(flag: &str, path: &Path) -> Result<(), CleanError> {
    if path.is_dir() {
        return Err(CleanError::is_folder(flag, path));
    }
    // To open a pipe would wait for its reader.
    if path.exists() && !path.is_file() {
        return rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .map_err(|error| CleanError::unopenable(flag, path, &error.into()));
    }
    let mut how = OpenOptions::new();
    let tried = match how.write(true).open(path) {
        // The target of a link is created, too.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let place = std::fs::read_link(path).map(|to| path.with_file_name("").join(to));
            let place = place.unwrap_or_else(|_| path.to_owned());
            how.create_new(true).open(&place).and_then(|_| std::fs::remove_file(&place))
        }
        tried => tried.map(drop),
    };
    tried.map_err(|error| CleanError::unopenable(flag, path, &error))
}

/// Refuses to replace a file that has contents, unless `--force` is given or the run continues its own files.
///
/// # Errors
/// A result, the report or the summary exists.
fn refuse_existing(args: &CleanArgs, output: Option<&Path>, delivery: &Delivery) -> Result<(), CleanError> {
    let output = output.filter(|path| !is_stream(path));
    // A complete list is compared with the input, and not written again.
    let continues = |path: &Path| args.resume && (partial(path).exists() || delivery.is_plain());
    if args.writing.force || output.is_some_and(continues) {
        return Ok(());
    }
    let results = output.map(|path| delivery.names(path)).unwrap_or_default();
    if let Some(path) = results.iter().find(|path| has_contents(path)) {
        let (name, known) = (path.display(), shell::path(path));
        if args.part.is_some() {
            return Err(CleanError::usage(format!(
                "{name} exists: --resume compares it with the list and keeps it, --force replaces it"
            )));
        }
        let nothing_to_continue = match (args.resume, output) {
            (true, Some(path)) => {
                format!(", and there is no {} that --resume could continue", partial(path).display())
            }
            _ => String::new(),
        };
        let about = match args.writing.retry {
            false if delivery.is_plain() && args.column.len() > 1 => {
                format!("; `--known {known}` uses its results for this list")
            }
            false if delivery.is_plain() => format!(
                "; `{}` checks only its open rows again, and `--known {known}` uses its results for this list",
                later(args, delivery, 1, !args.no_header).unwrap_or_default()
            ),
            false => String::new(),
            true => ", also if it is INPUT: the new output takes its place at the end".into(),
        };
        return Err(CleanError::usage(format!(
            "{name} exists{nothing_to_continue}: name another file with -o, or replace it with --force{about}"
        )));
    }
    let about = [("--report", &args.writing.report), ("--summary", &args.summary)];
    let about = about
        .into_iter()
        .find_map(|(flag, path)| Some((flag, path.as_ref()?)).filter(|(_, path)| has_contents(path)));
    match about {
        Some((flag, path)) => Err(CleanError::usage(format!(
            "{} exists: name another file with {flag}, or replace it with --force",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Whether there is a file with contents. Devices and pipes are none.
fn has_contents(path: &Path) -> bool {
    !is_stream(path) && std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() > 0)
}

/// The names that are taken, each with what it is.
type Taken = Vec<(&'static str, PathBuf)>;

/// Adds the names that follow from an option to those that are taken.
fn with(flag: &str, what: &'static str, names: Vec<PathBuf>, mut taken: Taken) -> Result<Taken, CleanError> {
    for name in &names {
        if let Some((what, _)) = taken.iter().find(|(_, other)| is_same_file(name, other)) {
            let name = name.display();
            return Err(CleanError::usage(format!(
                "{name} would overwrite {what}: name another file with {flag}"
            )));
        }
    }
    taken.extend(names.into_iter().map(|name| (what, name)));
    Ok(taken)
}
