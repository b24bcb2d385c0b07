//! The output of `mailprobe cluster status`.

use crate::cli::table::{write_json, write_pairs, write_table};
use serde::Serialize;
use std::io::{self, Write};
use store_pg::ClusterPlace;
use store_pg::cluster::{ClusterStatus, DatabaseStatus, KNOWN_FORMAT, NodeStatus, ServerStatus};

/// The status as JSON. Its fields are public names.
#[derive(Serialize)]
struct StatusJson<'s> {
    primary: &'s str,
    server_version: &'s str,
    synchronous: bool,
    /// `null`: the role may not see the standbys.
    standbys: Option<Vec<StandbyJson<'s>>>,
    schema: &'s str,
    /// `null`: the schema has no tables.
    database: Option<DatabaseJson<'s>>,
}

#[derive(Serialize)]
struct StandbyJson<'s> {
    name: &'s str,
    state: &'s str,
    sync_state: &'s str,
}

#[derive(Serialize)]
struct DatabaseJson<'s> {
    format: u64,
    known_format: u32,
    upgrade_due: bool,
    unclaimed_batches: u64,
    unclaimed_lists: u64,
    nodes: Vec<NodeJson<'s>>,
}

#[derive(Serialize)]
struct NodeJson<'s> {
    /// A text: programs read large numbers of JSON as floating point.
    id: String,
    host: &'s str,
    version: &'s str,
    egress: &'s str,
    epoch: i64,
    running: bool,
    lease_ms: u64,
    format: u32,
    open_batches: u64,
    lists: u64,
}

/// Writes the status, for people or as JSON.
pub fn write(
    status: &ClusterStatus,
    place: &ClusterPlace,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json { write_json(out, &to_json(status, place)) } else { write_text(status, place, out) }
}

fn is_upgrade_due(database: &DatabaseStatus) -> bool {
    database.format < u64::from(KNOWN_FORMAT)
}

fn to_json<'s>(status: &'s ClusterStatus, place: &'s ClusterPlace) -> StatusJson<'s> {
    let ClusterStatus { server, database } = status;
    let standbys = server.standbys.as_ref().map(|standbys| {
        let standbys = standbys.iter();
        let shown =
            standbys.map(|s| StandbyJson { name: &s.name, state: &s.state, sync_state: &s.sync_state });
        shown.collect()
    });
    let database = database.as_ref().map(|database| DatabaseJson {
        format: database.format,
        known_format: KNOWN_FORMAT,
        upgrade_due: is_upgrade_due(database),
        unclaimed_batches: database.unclaimed_batches,
        unclaimed_lists: database.unclaimed_lists,
        nodes: database.nodes.iter().map(node_to_json).collect(),
    });
    StatusJson {
        primary: &server.host,
        server_version: &server.version,
        synchronous: server.is_synchronous(),
        standbys,
        schema: &place.schema,
        database,
    }
}

fn node_to_json(node: &NodeStatus) -> NodeJson<'_> {
    let NodeStatus { id, host, version, egress, epoch, lease_ms, format, open_batches, lists } = node;
    NodeJson {
        id: id.to_string(),
        host,
        version,
        egress,
        epoch: *epoch,
        running: *lease_ms > 0,
        lease_ms: *lease_ms,
        format: *format,
        open_batches: *open_batches,
        lists: *lists,
    }
}

fn write_text(status: &ClusterStatus, place: &ClusterPlace, out: &mut dyn Write) -> io::Result<()> {
    let ClusterStatus { server, database } = status;
    let mut pairs = vec![
        ("primary", format!("{}, PostgreSQL {}", server.host, server.version)),
        ("synchronous", synchronous(server, place)),
        ("standbys", standbys(server)),
        ("schema", place.schema.clone()),
    ];
    let Some(database) = database else {
        pairs.push(("format", "no tables; create them with `mailprobe cluster init`".into()));
        return write_pairs(out, &pairs);
    };
    let format = match database.format {
        newer if newer > u64::from(KNOWN_FORMAT) => {
            format!("{newer}, and this mailprobe knows {KNOWN_FORMAT}: upgrade it")
        }
        older if older < u64::from(KNOWN_FORMAT) => {
            format!("{older}, and {KNOWN_FORMAT} is due: `mailprobe cluster upgrade`")
        }
        same => format!("{same}, the newest that this mailprobe knows"),
    };
    pairs.push(("format", format));
    let (batches, lists) = (database.unclaimed_batches, database.unclaimed_lists);
    if (batches, lists) != (0, 0) {
        pairs.push(("without a node", format!("{batches} open batches, {lists} lists")));
    }
    write_pairs(out, &pairs)?;
    writeln!(out)?;
    let rows: Vec<_> = database.nodes.iter().map(node_row).collect();
    let heading = ["NODE", "HOST", "VERSION", "EGRESS", "EPOCH", "LEASE", "FORMAT", "OPEN BATCHES", "LISTS"];
    write_table(out, heading, &rows)
}

fn synchronous(server: &ServerStatus, place: &ClusterPlace) -> String {
    match (server.is_synchronous(), place.requires_sync) {
        (true, _) => format!("yes ({})", server.synchronous_standby_names),
        (false, true) => "no: nodes refuse this server, because store_require_sync is true".into(),
        (false, false) => "no: a failover can lose the last writes".into(),
    }
}

fn standbys(server: &ServerStatus) -> String {
    match &server.standbys {
        None => "unknown; GRANT pg_monitor to the role to show them".into(),
        Some(standbys) if standbys.is_empty() => "none".into(),
        Some(standbys) => {
            let shown = standbys.iter().map(|s| format!("{} ({}, {})", s.name, s.state, s.sync_state));
            shown.collect::<Vec<_>>().join(", ")
        }
    }
}

fn node_row(node: &NodeStatus) -> [String; 9] {
    let NodeStatus { id, host, version, egress, epoch, lease_ms, format, open_batches, lists } = node;
    let lease = match lease_ms {
        0 => "not running".to_owned(),
        ms => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    };
    [
        id.to_string(),
        host.clone(),
        version.clone(),
        egress.clone(),
        epoch.to_string(),
        lease,
        format.to_string(),
        open_batches.to_string(),
        lists.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use store_pg::Target;
    use store_pg::cluster::Standby;

    fn place() -> ClusterPlace {
        let target = Target::parse("postgres://u:swordfish@db/d").unwrap();
        ClusterPlace { target, schema: "mailprobe".into(), requires_sync: true }
    }

    fn status(format: u64) -> ClusterStatus {
        let node = NodeStatus {
            id: 7,
            host: "a".into(),
            version: "1".into(),
            egress: "7".into(),
            epoch: 2,
            lease_ms: 8_250,
            format: KNOWN_FORMAT,
            open_batches: 1,
            lists: 0,
        };
        let standby = Standby { name: "db2".into(), state: "streaming".into(), sync_state: "sync".into() };
        ClusterStatus {
            server: ServerStatus {
                host: "db:5432".into(),
                version: "15.14".into(),
                synchronous_standby_names: "db2".into(),
                standbys: Some(vec![standby]),
            },
            database: Some(DatabaseStatus {
                format,
                fingerprint: Some(1),
                unclaimed_batches: 0,
                unclaimed_lists: 0,
                nodes: vec![node.clone(), NodeStatus { id: 8, lease_ms: 0, ..node }],
            }),
        }
    }

    fn shown(format: u64, json: bool) -> String {
        let mut out = Vec::new();
        write(&status(format), &place(), json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_see_the_primary_the_format_and_the_nodes() {
        let known = u64::from(KNOWN_FORMAT);
        let text = shown(known, false);
        for part in
            ["db:5432, PostgreSQL 15.14", "yes (db2)", "db2 (streaming, sync)", "8.2 s", "not running"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("is due"));
        assert!(shown(known - 1, false).contains("is due: `mailprobe cluster upgrade`"));
        assert!(shown(known + 1, false).contains("upgrade it"));
    }

    #[test]
    fn programs_get_the_same() {
        let json: serde_json::Value = serde_json::from_str(&shown(1, true)).unwrap();
        assert_eq!(json["synchronous"], true);
        assert_eq!(json["database"]["upgrade_due"], true);
        assert_eq!(json["database"]["nodes"][0]["id"], "7");
        assert_eq!(json["database"]["nodes"][1]["running"], false);
    }
}
