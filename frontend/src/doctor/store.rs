//! The database of a cluster: whether it can be reached, its standby, its tables and its keys.

use super::report::Finding;
use crate::config::Config;
use store_pg::ClusterPlace;
use store_pg::cluster::{ClusterStatus, DatabaseStatus, KNOWN_FORMAT, ServerStatus};

/// The database of the cluster; nothing without one.
pub fn store(config: &Config) -> Vec<Finding> {
    let place = match config.cluster_place() {
        Ok(None) => return Vec::new(),
        Ok(Some(place)) => place,
        Err(error) => {
            let found = Finding::ok("store", "", error.0);
            return vec![found.failure("the server does not start", "correct this setting")];
        }
    };
    let status = match place.status() {
        Ok(status) => status,
        Err(error) => {
            let found = Finding::ok("store", "", error.to_string());
            let remedy = "start PostgreSQL 15 or later, let this machine and role connect to it, and correct store_url";
            return vec![found.failure(
                "the server does not start; a running one serves only what it has in memory",
                remedy,
            )];
        }
    };
    judge(&status, &place, store_pg::has_identity(&config.data))
}

fn judge(status: &ClusterStatus, place: &ClusterPlace, is_node: bool) -> Vec<Finding> {
    let ServerStatus { host, version, .. } = &status.server;
    let reached = Finding::ok("store", host.as_str(), format!("PostgreSQL {version} accepts writes"));
    let mut findings = vec![reached, standby(&status.server, place), tables(status, place)];
    if !is_node {
        let found = Finding::ok("store", "data folder", "it is not the folder of a node");
        findings.push(found.failure(
            "the server does not start",
            "use `mailprobe cluster join FILE`, or `mailprobe cluster init`",
        ));
    }
    findings
}

fn standby(server: &ServerStatus, place: &ClusterPlace) -> Finding {
    let names = &server.synchronous_standby_names;
    let finding = |found: String| Finding::ok("store", "standby", found);
    let remedy = "set synchronous_mode and synchronous_mode_strict in Patroni, or synchronous_standby_names in PostgreSQL";
    if !server.is_synchronous() {
        let finding = finding("the server waits for no standby (synchronous_standby_names is empty)".into());
        return match place.requires_sync {
            true => finding.failure("the server does not start", remedy),
            false => {
                finding.warning("a failover can lose the last writes, also those that were answered", remedy)
            }
        };
    }
    let Some(standbys) = &server.standbys else {
        return finding(format!("the server waits for standbys ({names}); the role may not see them"));
    };
    let is_sync = |state: &str| state == "sync" || state == "quorum";
    match standbys.iter().filter(|standby| is_sync(&standby.sync_state)).count() {
        0 => finding(format!("no standby is connected, and the server waits for one ({names})"))
            .failure("every write waits until a standby is connected", "start a standby"),
        count => finding(format!("the server waits for {count} connected standbys ({names})")),
    }
}

fn tables(status: &ClusterStatus, place: &ClusterPlace) -> Finding {
    let finding = |found: String| Finding::ok("store", "tables", found);
    let schema = &place.schema;
    match &status.database {
        None => finding(format!("the schema {schema} has no tables"))
            .failure("the server does not start", "create them with `mailprobe cluster init`"),
        Some(DatabaseStatus { format, .. }) if *format > u64::from(KNOWN_FORMAT) => finding(format!(
            "the schema {schema} has format {format}, and this mailprobe knows formats up to {KNOWN_FORMAT}"
        ))
        .failure("the server does not start", "upgrade mailprobe"),
        Some(DatabaseStatus { format, .. }) if *format < u64::from(KNOWN_FORMAT) => {
            finding(format!("the schema {schema} has format {format}, and {KNOWN_FORMAT} is due")).warning(
                "nothing for verdicts",
                "run `mailprobe cluster upgrade` when all nodes have the new version",
            )
        }
        Some(DatabaseStatus { format, .. }) => finding(format!("the schema {schema} has format {format}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Severity::{self, Failure, Ok, Warning};
    use store_pg::Target;
    use store_pg::cluster::Standby;

    #[track_caller]
    fn check(
        names: &str,
        sync_states: &[&str],
        requires_sync: bool,
        format: Option<u64>,
        expected: [Severity; 2],
    ) {
        let standby = |state: &&str| Standby {
            name: "b".into(),
            state: "streaming".into(),
            sync_state: (*state).into(),
        };
        let database = format.map(|format| DatabaseStatus {
            format,
            fingerprint: None,
            unclaimed_batches: 0,
            unclaimed_lists: 0,
            nodes: Vec::new(),
        });
        let server = ServerStatus {
            host: "a:5432".into(),
            version: "15.1".into(),
            synchronous_standby_names: names.into(),
            standbys: Some(sync_states.iter().map(standby).collect()),
        };
        let target = Target::parse("postgres://u@a/d").unwrap();
        let place = ClusterPlace { target, schema: "mailprobe".into(), requires_sync };
        let findings = judge(&ClusterStatus { server, database }, &place, true);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [&[Ok][..], &expected].concat());
    }

    #[test]
    fn standbys_and_tables_are_judged() {
        let known = u64::from(KNOWN_FORMAT);
        check("b", &["sync"], true, Some(known), [Ok, Ok]);
        check("ANY 1 (b)", &["quorum", "async"], true, Some(known), [Ok, Ok]);
        check("b", &[], true, Some(known), [Failure, Ok]);
        check("b", &["async"], true, Some(known), [Failure, Ok]);
        check("", &[], true, Some(known), [Failure, Ok]);
        check("", &["async"], false, Some(known), [Warning, Ok]);
        check("b", &["sync"], true, None, [Ok, Failure]);
        check("b", &["sync"], true, Some(known - 1), [Ok, Warning]);
        check("b", &["sync"], true, Some(known + 1), [Ok, Failure]);
    }
}
