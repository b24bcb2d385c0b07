//! `mailprobe cluster`: nodes that share one PostgreSQL.
//!
//! `init` and `restore` found a cluster (`found.rs`): they fill an empty schema, write the bundle of keys, and make the data
//! folder that of the first node. `join` makes a folder that of a further node.

pub(super) mod found;
mod status;

use super::place::{Place, output_failed};
use clap::{Args, Subcommand};
use found::Origin;
use lists::shell;
use std::io::Write;
use std::path::{Path, PathBuf};
use store::StoreError;
use store_pg::cluster::{KNOWN_FORMAT, Upgraded};
use store_pg::{ClusterPlace, NewNode};
use vault::bundle::Bundle;

/// Create a cluster of nodes on one PostgreSQL, add nodes to it, show it, and upgrade it.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: ClusterAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ClusterAction {
    /// Create a cluster: its tables, its keys, and the data folder of its first node.
    Init {
        /// File to write the bundle of keys to, for further nodes. Delete it when all nodes have the keys.
        #[arg(long, value_name = "FILE")]
        bundle: PathBuf,
        /// Data folder of a stopped server without PostgreSQL: move its data. Never start a server on this folder again.
        #[arg(long, value_name = "OLD_DIR")]
        from_data: Option<PathBuf>,
    },
    /// Create the data folder of a further node.
    Join {
        /// File with the bundle of keys.
        bundle: PathBuf,
    },
    /// Write the bundle of keys of this node to a file, for a further node. The server may keep running.
    Bundle {
        /// File to write. Delete it when the further node has the keys.
        file: PathBuf,
    },
    /// Show the nodes, the server of the database and the format of its tables.
    Status {
        /// Print the answer as JSON, for a script.
        #[arg(long)]
        json: bool,
    },
    /// Raise the format of the database to that of this version, when all running nodes know it.
    Upgrade,
}

/// Runs `mailprobe cluster`.
///
/// # Errors
/// One line for standard error.
pub fn run(args: &ClusterArgs, place: Place<'_>, out: &mut dyn Write) -> Result<(), String> {
    if let ClusterAction::Bundle { file } = &args.action {
        return write_bundle(place, file, out);
    }
    let cluster = needed(place)?;
    match &args.action {
        // It needs no database.
        ClusterAction::Bundle { .. } => Ok(()),
        ClusterAction::Init { bundle, from_data } => {
            let rows = from_data.as_deref().map_or(Origin::None, Origin::Folder);
            let founded = found::found(cluster, place, &rows, bundle)?;
            if let Some(old) = from_data {
                writeln!(
                    out,
                    "{}: {} rows moved; never start a server on this folder again",
                    old.display(),
                    founded.rows
                )
                .map_err(output_failed)?;
            }
            founded.write(place, bundle, out).map_err(output_failed)
        }
        ClusterAction::Join { bundle } => {
            join(cluster, place, &Bundle::read(bundle).map_err(|why| why.to_string())?, out)
        }
        ClusterAction::Status { json } => {
            let shown = cluster.status().map_err(|error| told(&error))?;
            status::write(&shown, cluster, *json, out).map_err(output_failed)
        }
        ClusterAction::Upgrade => {
            let line = match cluster.upgrade(KNOWN_FORMAT).map_err(|error| error.to_string())? {
                Upgraded::Already => {
                    format!(
                        "the database has format {KNOWN_FORMAT}, the newest that this version knows; there is nothing to do"
                    )
                }
                Upgraded::From(before) => {
                    format!("the format of the database is now {KNOWN_FORMAT}; it was {before}")
                }
            };
            writeln!(out, "{line}").map_err(output_failed)
        }
    }
}

/// The database of the cluster.
pub(super) fn needed(place: Place<'_>) -> Result<&ClusterPlace, String> {
    place.cluster.ok_or_else(|| {
        "name PostgreSQL with --store, with the variable MAILPROBE_STORE_URL, or with store_url or store_url_file in the configuration"
            .into()
    })
}

fn write_bundle(place: Place<'_>, file: &Path, out: &mut dyn Write) -> Result<(), String> {
    if !store_pg::has_identity(place.data) {
        return Err(format!("{} is not the folder of a node; name it with --data", place.data.display()));
    }
    let bundle = Bundle::from_folder(place.data, place.now).map_err(|why| why.to_string())?;
    bundle.write_new(file).map_err(|why| why.to_string())?;
    let (name, file) = (file.display(), shell::path(file));
    writeln!(out, "{name}: the keys of the cluster; install them with `mailprobe cluster join {file}`, then delete the file")
        .map_err(output_failed)
}

fn join(
    cluster: &ClusterPlace,
    place: Place<'_>,
    bundle: &Bundle,
    out: &mut dyn Write,
) -> Result<(), String> {
    place.refuse_default().map_err(|error| error.to_string())?;
    let node = NewNode::lock(place.data).map_err(|error| error.to_string())?;
    match cluster.fingerprint().map_err(|error| told(&error))? {
        Some(found) if found == bundle.fingerprint() => {}
        Some(_) => {
            return Err("the bundle is not that of this database; use the bundle that `mailprobe cluster init` or `mailprobe \
                        restore` wrote for it"
                .into());
        }
        None => {
            return Err(format!(
                "the schema {} has no tables of a cluster; create them with `mailprobe cluster init`",
                cluster.schema
            ));
        }
    }
    let id = node.install(bundle).map_err(|error| error.to_string())?;
    writeln!(out, "{}: node {id}; start it with `mailprobe serve`", place.data.display())
        .map_err(output_failed)
}

/// The error of a command that works on the database itself.
pub(super) fn told(error: &StoreError) -> String {
    match error {
        StoreError::NotDone(why) | StoreError::Failed(why) => format!("the database refused: {why}"),
        StoreError::Unknown(why) => format!(
            "the connection broke during the commit ({why}); see whether the schema has data before you try again"
        ),
        other => other.to_string(),
    }
}
