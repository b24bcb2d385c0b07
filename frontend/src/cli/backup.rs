//! `mailprobe backup`, `restore` and `compact`: the store as a whole.
//!
//! This process writes the backup, not the server, so the file belongs to the user of the command. The backup is written
//! under another name, verified, and then renamed.

use super::place::{Place, open, output_failed};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::backup::{BackupError, BackupSummary};
use store_redb::backup::{self, Compacted};

/// Write a backup of all accounts, keys, credits and results. The server may keep running.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// File to write. Only its owner can read it (mode 0600).
    file: PathBuf,
    /// Overwrite an existing backup.
    #[arg(long)]
    force: bool,
}

/// Create a data folder from a backup. The folder must be empty or must not exist.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// File with the backup.
    file: PathBuf,
}

/// Return unused space of the database to the file system. Stop the server first.
#[derive(Debug, Clone, Args)]
pub struct CompactArgs {}

/// Runs `mailprobe backup`.
///
/// # Errors
/// One line for standard error.
pub fn back_up(args: &BackupArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let path = &args.file;
    refuse_existing(path, args.force)?;
    let draft = draft_path(path);
    if args.force {
        // The remains of an interrupted backup.
        let _ = fs::remove_file(&draft);
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let file = file.map_err(|error| cannot_make(&draft, &error))?;
    let made = fill(file, &draft, place).and_then(|summary| {
        refuse_existing(path, args.force)?;
        put_in_place(&draft, path).map_err(|error| cannot_make(path, &error))?;
        Ok(summary)
    });
    if made.is_err() {
        let _ = fs::remove_file(&draft);
    }
    let BackupSummary { bytes, rows, key_files } = made?;
    writeln!(out, "{}: {bytes} bytes, {rows} rows, {key_files} key files", path.display())
        .map_err(output_failed)
}

/// Runs `mailprobe restore`.
///
/// # Errors
/// One line for standard error.
pub fn restore(args: &RestoreArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    let summary = backup::restore(&args.file, place.data, place.now).map_err(|error| match error {
        BackupError::NotEmpty(_) | BackupError::Open(_) => error.to_string(),
        error => format!("cannot restore {}: {error}", args.file.display()),
    })?;
    let BackupSummary { rows, key_files, .. } = summary;
    writeln!(out, "{}: {rows} rows, {key_files} key files", place.data.display()).map_err(output_failed)
}

/// Runs `mailprobe compact`.
///
/// # Errors
/// One line for standard error.
pub fn compact(_args: &CompactArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    match backup::compact(place.data) {
        Ok(Some(Compacted { before, after })) => {
            writeln!(out, "{}: {before} bytes before, {after} after", place.data.display())
                .map_err(output_failed)
        }
        Ok(None) => Err(format!(
            "there is no mailprobe data in {}; name the folder with --data",
            place.data.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn fill(mut file: File, draft: &Path, place: Place<'_>) -> Result<BackupSummary, String> {
    open(place, false)?.backup(&mut file, place.now).map_err(|error| error.to_string())?;
    file.sync_all().map_err(|error| cannot_make(draft, &error))?;
    backup::verify(draft).map_err(|error| {
        format!("the backup is incomplete ({error}); if a server runs, its log gives the reason")
    })
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), String> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(format!("{} exists; name another file, or overwrite it with --force", path.display()));
    }
    Ok(())
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn put_in_place(draft: &Path, path: &Path) -> io::Result<()> {
    fs::rename(draft, path)?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn cannot_make(path: &Path, error: &io::Error) -> String {
    let what_to_do = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "another backup is in progress or was interrupted; remove this file, or use --force"
        }
        _ => "choose another path",
    };
    format!("cannot create {}: {error}; {what_to_do}", path.display())
}
