//! `mailprobe backup`, `restore` and `compact`: the store as a whole.
//!
//! This process writes the backup, not the server, so the file belongs to the user of the command. The backup is written
//! under another name, verified, and then renamed.

use super::cluster::found::{self, Origin};
use super::place::{Place, open, output_failed};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use store::backup::{BackupError, BackupSummary};
use store_pg::ClusterPlace;
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

/// Create a data folder from a backup. The folder must be empty or must not exist. With --store-url, fill an empty schema of
/// PostgreSQL.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// File with the backup.
    file: PathBuf,
    /// With --store-url: file to write the bundle of new keys to, for further nodes. Without this flag, the data folder must be that
    /// of a node with the keys of the backup, and the node keeps these keys.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
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
    match (place.cluster, &args.bundle) {
        (None, None) => {}
        (None, Some(_)) => return Err("--bundle is for PostgreSQL; name it with --store".into()),
        (Some(cluster), bundle) => return restore_cluster(cluster, args, bundle.as_deref(), place, out),
    }
    place.refuse_default().map_err(|error| error.to_string())?;
    let summary = backup::restore(&args.file, place.data, place.now).map_err(|error| match error {
        BackupError::NotEmpty(_) | BackupError::Open(_) => error.to_string(),
        error => format!("cannot restore {}: {error}", args.file.display()),
    })?;
    let BackupSummary { rows, key_files, .. } = summary;
    writeln!(out, "{}: {rows} rows, {key_files} key files", place.data.display()).map_err(output_failed)
}

fn restore_cluster(
    cluster: &ClusterPlace,
    args: &RestoreArgs,
    bundle: Option<&Path>,
    place: Place<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let schema = &cluster.schema;
    if let Some(bundle) = bundle {
        let founded = found::found(cluster, place, &Origin::Backup(&args.file), bundle)?;
        writeln!(out, "schema {schema}: {} rows", founded.rows).map_err(output_failed)?;
        return founded.write(place, bundle, out).map_err(output_failed);
    }
    if !store_pg::has_identity(place.data) {
        return Err(format!(
            "{} is not the folder of a node, so it has no keys for the backup; name a file for new keys with --bundle",
            place.data.display()
        ));
    }
    let BackupSummary { rows, .. } = found::refill(cluster, place, &args.file)?;
    writeln!(out, "schema {schema}: {rows} rows; the nodes keep their keys").map_err(output_failed)
}

/// Runs `mailprobe compact`.
///
/// # Errors
/// One line for standard error.
pub fn compact(_args: &CompactArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    if place.cluster.is_some() {
        return Err("the store is in PostgreSQL, so `compact` does not apply: its autovacuum reuses the space of removed rows".into());
    }
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
