//! Moves of the data: redb, PostgreSQL, redb.

use crate::cluster::content::{self, Content, Ids};
use crate::cluster::{TestCluster, exists};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use store::{EntryId, HoldRef, HoldRequest, OpenError, PlanTable, UnixMs, clock};
use store_pg::{NodeFolder, NodeTraits};
use store_redb::StoreOptions;
use store_rules::Store;

fn open_redb(folder: &Path, now: UnixMs) -> Arc<Store> {
    store_redb::open(folder, PlanTable::standard(), StoreOptions::default(), now).unwrap().0
}

/// Fills the folder `old`.
fn old_folder(cluster: &TestCluster, now: UnixMs) -> (Ids, Content) {
    let store = open_redb(&cluster.path("old"), now);
    let ids = content::fill(&store, now);
    let content = content::read(&store, ids, now);
    (ids, content)
}

fn open_node(cluster: &TestCluster, schema: &str, data: &str, now: UnixMs) -> Result<Arc<Store>, OpenError> {
    let folder = NodeFolder::open(&cluster.path(data))?;
    let traits = NodeTraits { egress: None, version: "1".into(), reuse: true };
    let opened = store_pg::open_node(&cluster.place(schema), folder, traits, PlanTable::standard(), now);
    opened.map(|(store, _)| store)
}

/// What the node in this folder sees.
fn in_node(cluster: &TestCluster, schema: &str, data: &str, ids: Ids, now: UnixMs) -> Content {
    content::read(&open_node(cluster, schema, data, now).unwrap(), ids, now)
}

#[test]
fn the_data_of_a_folder_moves_to_postgresql_and_back() {
    let Some(cluster) = TestCluster::get("moves") else { return };
    let (schema, now) = (Some(cluster.schema.as_str()), clock::now());
    let (ids, before) = old_folder(&cluster, now);
    assert_eq!(before.known, Some(api::Reason::RoleAccount));

    let said = cluster.run(schema, "cluster init --bundle keys --data one --from-data old");
    assert!(said.contains("never start a server on this folder again"), "{said}");
    assert_eq!(fs::metadata(cluster.path("keys")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(in_node(&cluster, &cluster.schema, "one", ids, now), before);
    // Another node has the same keys.
    cluster.run(schema, "cluster join keys --data two");
    assert_eq!(in_node(&cluster, &cluster.schema, "two", ids, now), before);

    cluster.run(schema, "backup back --data two");
    let backup = fs::read(cluster.path("back")).unwrap();
    let chain = fs::read(cluster.path("two/keys/chain")).unwrap();
    // Its last 32 bytes are the secret or a part of it.
    assert!(!backup.windows(16).any(|bytes| bytes == &chain[chain.len() - 48..chain.len() - 32]));
    cluster.run(None, "restore back --data new");
    assert!(!exists(&cluster.path("new/keys/chain")));
    assert_eq!(content::read(&open_redb(&cluster.path("new"), now), ids, now), before);
}

#[test]
fn a_backup_fills_another_schema_with_new_keys() {
    let Some(cluster) = TestCluster::get("a backup") else { return };
    let now = clock::now();
    let (ids, before) = old_folder(&cluster, now);
    cluster.run(None, "backup back --data old");
    let (first, second) = (cluster.schema.clone(), cluster.other_schema());
    cluster.run(Some(&first), "restore back --data one --bundle keys");
    assert_eq!(in_node(&cluster, &first, "one", ids, now), before);
    cluster.run(Some(&first), "backup again --data one");
    cluster.run(Some(&second), "restore again --data two --bundle keys2");
    assert_eq!(in_node(&cluster, &second, "two", ids, now), before);
    // The chains differ, so a node belongs to one of the two.
    let refusal = open_node(&cluster, &second, "one", now).err().unwrap().to_string();
    assert!(refusal.contains("the keys of another database"), "{refusal}");
    let refusal = cluster.refused(Some(&second), "cluster join keys --data three");
    assert!(refusal.contains("not that of this database"), "{refusal}");
    let refusal = cluster.refused(Some(&second), "account list --data one");
    assert!(refusal.contains("cluster join"), "{refusal}");
}

#[test]
fn nodes_keep_their_keys_if_the_database_was_lost() {
    let Some(cluster) = TestCluster::get("a lost database") else { return };
    let now = clock::now();
    let (first, second) = (cluster.schema.clone(), cluster.other_schema());
    cluster.run(Some(&first), "cluster init --bundle keys --data one");
    cluster.run(Some(&first), "cluster join keys --data two");
    let store = open_node(&cluster, &first, "one", now).unwrap();
    let ids = content::fill(&store, now);
    let before = content::read(&store, ids, now);
    // A check that is under way at the backup. Its credit is returned by the first node after the restoration.
    let hold = HoldRef { account: ids.account, id: EntryId::new(now, 1 << 61 | 9) };
    store.hold(HoldRequest { hold, credits: 1 }, now).wait().unwrap();
    drop(store);
    cluster.run(Some(&first), "backup back --data one");
    cluster.run(Some(&second), "restore back --data one");
    let mut before = before;
    *before.rows.get_mut("ledger").unwrap() += 1;
    for data in ["one", "two"] {
        assert_eq!(in_node(&cluster, &second, data, ids, now), before);
    }
    // A folder with other keys has not those of the backup.
    cluster.run(Some(&format!("{second}c")), "cluster init --bundle keys3 --data three");
    let refusal = cluster.refused(Some(&format!("{second}d")), "restore back --data three");
    assert!(refusal.contains("other keys than the backup"), "{refusal}");
}

#[test]
fn what_is_refused_leaves_nothing() {
    let Some(cluster) = TestCluster::get("refusals") else { return };
    let schema = Some(cluster.schema.as_str());
    let now = clock::now();
    let (ids, before) = old_folder(&cluster, now);
    cluster.run(schema, "cluster init --bundle keys --data one --from-data old");
    for (line, why) in [
        ("cluster init --bundle keys --data two", "keys exists"),
        ("cluster init --bundle keys2 --data one", "is a node already"),
        ("cluster init --bundle keys2 --data old", "has a database of its own"),
        ("cluster init --bundle keys2 --data two", "has data already"),
        ("cluster init --bundle keys2 --data two --from-data old", "has data already"),
        ("cluster init --bundle keys2 --data two --from-data none", "there is no mailprobe data"),
        ("cluster join nothing --data two", "cannot use nothing"),
        ("serve --data old", "cluster init --from-data"),
        ("serve --data two", "cluster join"),
        ("account list --data two", "cluster join"),
        ("compact --data one", "does not apply"),
        ("accept-keys --data one", "does not apply"),
    ] {
        let said = cluster.refused(schema, line);
        assert!(said.contains(why), "{line}: {said}");
        assert!(!exists(&cluster.path("keys2")) && !exists(&cluster.path("two/keys")), "{line}");
    }
    for (line, why) in [
        ("account list --data one", "store_url"),
        ("serve --data one", "store_url"),
        ("cluster status --data one", "--store"),
        ("restore back --data two --bundle keys2", "--store"),
    ] {
        let said = cluster.refused(None, line);
        assert!(said.contains(why), "{line}: {said}");
    }
    // A damaged backup leaves no rows.
    cluster.run(schema, "backup back --data one");
    let mut bytes = fs::read(cluster.path("back")).unwrap();
    let end = bytes.len();
    bytes[end - 100] ^= 1;
    fs::write(cluster.path("damaged"), bytes).unwrap();
    let second = cluster.other_schema();
    let said = cluster.refused(Some(&second), "restore damaged --data two --bundle keys2");
    assert!(said.contains("checksum") || said.contains("damaged"), "{said}");
    cluster.run(Some(&second), "restore back --data two --bundle keys2");
    assert_eq!(in_node(&cluster, &second, "two", ids, now), before);
}
