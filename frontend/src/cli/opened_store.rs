//! The store of a server: the file in its data folder, or PostgreSQL.

use super::place::{in_cluster, refuse_node};
use super::program::{Failure, VERSION};
use crate::config::Config;
use std::sync::Arc;
use store::{OpenError, PlanTable, UnixMs};
use store_pg::{ClusterPlace, NodeFolder, NodeTraits};
use store_redb::StoreOptions;
use store_rules::Store;

/// Opens the store, and tells of what was found.
///
/// # Errors
///
/// One line: the store did not open.
pub(super) fn open(config: &Config, plans: PlanTable, now: UnixMs) -> Result<Arc<Store>, Failure> {
    let (store, voided_holds, open_to_others) = match config.cluster_place()? {
        Some(place) => open_cluster(config, &place, plans, now),
        None => open_folder(config, plans, now),
    }
    .map_err(|error| Failure::failed(error.to_string()))?;
    if voided_holds > 0 {
        tracing::warn!(holds = voided_holds, "returned the credits of interrupted checks");
    }
    if open_to_others {
        tracing::warn!("users other than its owner can read the data folder; run `chmod 700` on it");
    }
    Ok(store)
}

/// A store, the number of voided holds, and whether other users may read the folder.
type Opened = (Arc<Store>, u64, bool);

fn open_folder(config: &Config, plans: PlanTable, now: UnixMs) -> Result<Opened, OpenError> {
    refuse_node(&config.data)?;
    let options = StoreOptions { reuse: config.reuse_verdicts, ..StoreOptions::default() };
    let (store, opening) = store_redb::open(&config.data, plans, options, now)?;
    Ok((store, opening.voided_holds, opening.folder_open_to_others))
}

fn open_cluster(
    config: &Config,
    place: &ClusterPlace,
    plans: PlanTable,
    now: UnixMs,
) -> Result<Opened, OpenError> {
    let folder = NodeFolder::open(&config.data)?;
    let open_to_others = folder.is_open_to_others();
    let node = NodeTraits {
        egress: config.store.egress.clone(),
        version: VERSION.into(),
        reuse: config.reuse_verdicts,
    };
    let (store, opening) = store_pg::open_node(place, folder, node, plans, now).map_err(in_cluster)?;
    Ok((store, opening.voided_holds, open_to_others))
}
