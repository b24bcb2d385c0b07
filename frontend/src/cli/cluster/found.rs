//! The foundation of a cluster: an empty schema gets tables and rows, the bundle of keys is written, and the data folder
//! becomes that of the first node.
//!
//! The rows come last, in one transaction that also notes which keys belong to them. If it fails, the bundle and the keys are
//! removed again.

use super::{ClusterPlace, told};
use crate::cli::place::Place;
use lists::shell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write, pipe};
use std::path::Path;
use std::thread;
use store::backup::{BackupError, BackupSummary};
use store_pg::restore::fill;
use store_pg::{NewNode, NodeFolder};
use store_redb::StoreOptions;
use store_rules::Store;
use store_rules::backup::{self, BackupReader, Record};
use vault::bundle::{Bundle, BundleError};

/// Where the rows of a new cluster come from.
pub enum Origin<'r> {
    /// Nowhere: the cluster has no rows.
    None,
    /// A data folder with redb. Its server must be stopped.
    Folder(&'r Path),
    /// The file of a backup.
    Backup(&'r Path),
}

/// A cluster that was founded.
pub struct Founded {
    /// The number of the first node.
    pub node: i64,
    /// The number of rows that were copied.
    pub rows: u64,
}

impl Founded {
    /// Says what was made, and what to do with it.
    pub fn write(&self, place: Place<'_>, bundle: &Path, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}: node {}; start it with `mailprobe serve`", place.data.display(), self.node)?;
        let (name, bundle) = (bundle.display(), shell::path(bundle));
        writeln!(
            out,
            "{name}: the keys for further nodes; install them with `mailprobe cluster join {bundle}`, then delete the file"
        )
    }
}

/// Founds a cluster.
///
/// # Errors
///
/// One line for standard error: nothing is left, except empty tables.
pub fn found(
    cluster: &ClusterPlace,
    place: Place<'_>,
    rows: &Origin<'_>,
    bundle_file: &Path,
) -> Result<Founded, String> {
    if bundle_file.symlink_metadata().is_ok() {
        return Err(format!("{} exists; name another file with --bundle", bundle_file.display()));
    }
    place.refuse_default().map_err(|error| error.to_string())?;
    let node = NewNode::lock(place.data).map_err(|error| error.to_string())?;
    let told_bundle = |error: BundleError| error.to_string();
    match rows {
        Origin::None => {
            let bundle = Bundle::create(place.now).map_err(told_bundle)?;
            let nothing: Option<&mut BackupReader<&[u8]>> = None;
            install((cluster, &node), bundle_file, &bundle, || fill(cluster, nothing, bundle.fingerprint()))
        }
        Origin::Backup(file) => {
            let unusable =
                |error: BackupError| format!("cannot restore {}: {}", file.display(), told_backup(&error));
            let bundle =
                Bundle::from_backup(&keys_of(file).map_err(unusable)?, place.now).map_err(told_bundle)?;
            install((cluster, &node), bundle_file, &bundle, || {
                fill(cluster, Some(&mut backup::open(file)?), bundle.fingerprint())
            })
        }
        Origin::Folder(old) => {
            if !old.join(store_redb::DATABASE_FILE).exists() {
                return Err(format!(
                    "there is no mailprobe data in {}; name the folder with --from-data",
                    old.display()
                ));
            }
            // The opening brings the rows to the present format, and voids holds of the stopped server.
            let opened = store_redb::open(old, place.plans.clone(), StoreOptions::default(), place.now);
            let (store, _) = opened.map_err(|error| error.to_string())?;
            let bundle = Bundle::from_folder(old, place.now).map_err(told_bundle)?;
            install((cluster, &node), bundle_file, &bundle, || {
                move_rows(&store, place, |reader| fill(cluster, Some(reader), bundle.fingerprint()))
            })
        }
    }
}

/// Fills the database again after its loss, for nodes that still have their keys.
///
/// # Errors
///
/// One line for standard error: the schema has no rows.
pub fn refill(cluster: &ClusterPlace, place: Place<'_>, file: &Path) -> Result<BackupSummary, String> {
    let folder = NodeFolder::open(place.data).map_err(|error| error.to_string())?;
    let unusable = |error: BackupError| format!("cannot restore {}: {}", file.display(), told_backup(&error));
    let keys = keys_of(file).map_err(unusable)?;
    let has_keys = folder.vault().has_keys(&keys, place.now);
    if !has_keys.map_err(|error| format!("cannot read the keys in {}: {error}", place.data.display()))? {
        return Err(format!(
            "the node in {} has other keys than the backup; name an empty folder with --data, and a file for new keys with --bundle",
            place.data.display()
        ));
    }
    let mut reader = backup::open(file).map_err(unusable)?;
    fill(cluster, Some(&mut reader), folder.vault().fingerprint()).map_err(unusable)
}

/// Reads a whole backup, and returns its keys.
fn keys_of(file: &Path) -> Result<BTreeMap<String, Vec<u8>>, BackupError> {
    backup::verify(file)?;
    let mut reader = backup::open(file)?;
    let mut keys = BTreeMap::new();
    // They come before the tables.
    while let Some(Record::KeyFile { name, content }) = reader.next_record()? {
        keys.insert(name, content);
    }
    Ok(keys)
}

/// Writes the bundle and the keys, then fills the database.
fn install(
    (cluster, node): (&ClusterPlace, &NewNode),
    bundle_file: &Path,
    bundle: &Bundle,
    fill: impl FnOnce() -> Result<BackupSummary, BackupError>,
) -> Result<Founded, String> {
    // Before any key is written: this is the most frequent reason for a failure.
    cluster.fingerprint().map_err(|error| told(&error))?;
    bundle.write_new(bundle_file).map_err(|error| error.to_string())?;
    let founded = node
        .install(bundle)
        .map_err(|error| error.to_string())
        .and_then(|id| fill().map(|summary| (id, summary)).map_err(|error| told_backup(&error)));
    match founded {
        Ok((node, summary)) => Ok(Founded { node, rows: summary.rows }),
        Err(why) => {
            node.undo();
            // The error is more important.
            let _ = fs::remove_file(bundle_file);
            Err(why)
        }
    }
}

/// Passes the rows of a store on as a backup, without a file.
fn move_rows(
    store: &Store,
    place: Place<'_>,
    fill: impl FnOnce(&mut BackupReader<Box<dyn BufRead>>) -> Result<BackupSummary, BackupError>,
) -> Result<BackupSummary, BackupError> {
    let (reader, mut writer) = pipe()?;
    thread::scope(|scope| {
        let written = scope.spawn(move || store.backup(&mut writer, place.now));
        let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 16, reader));
        let filled = BackupReader::begin(input).and_then(|mut reader| fill(&mut reader));
        // If the reader has ended early, the writer has an error too, which follows from that of the reader.
        let written = written.join().unwrap_or(Err(BackupError::Damaged("the rows cannot be read")));
        let filled = filled?;
        written.map(|_| filled)
    })
}

fn told_backup(error: &BackupError) -> String {
    match error {
        BackupError::Store(error) => told(error),
        other => other.to_string(),
    }
}
