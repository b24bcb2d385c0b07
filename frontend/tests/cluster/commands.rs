//! Commands on a cluster with and without a running server, its status, and its format.

use crate::cluster::TestCluster;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use store_pg::cluster::{KNOWN_FORMAT, UpgradeError, Upgraded};

/// A server on a data folder, which is killed at the end.
struct Node(Child);

impl Node {
    fn start(cluster: &TestCluster, data: &str) -> Node {
        let line = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--ehlo", "mail.example.com"];
        let line = [&line[..], &["--self-checks", "false", "--shards", "1", "--frontends", "1"]].concat();
        let mut command = cluster.command(Some(&cluster.schema), &line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        for line in lines {
            let is_last = line.starts_with("listening on ");
            said.push(line);
            if is_last {
                return Node(child);
            }
        }
        let status = child.wait();
        panic!("the node did not start: {said:?} {status:?}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(cluster: &TestCluster) -> Value {
    serde_json::from_str(&cluster.run(Some(&cluster.schema), "cluster status --json")).unwrap()
}

#[test]
fn commands_go_by_the_socket_or_to_the_database() {
    let Some(cluster) = TestCluster::get("commands") else { return };
    let schema = Some(cluster.schema.as_str());
    cluster.run(schema, "cluster init --bundle keys --data one");
    cluster.run(schema, "cluster join keys --data two");
    // Straight to the database. The command is no node, and leaves nothing.
    cluster.run(schema, "account create shop --data one");
    assert_eq!(status(&cluster)["database"]["nodes"], Value::Array(Vec::new()));
    let node = Node::start(&cluster, "one");
    cluster.run(schema, "account grant shop 70 --data two");
    let shown = cluster.run(schema, "account show shop --json --data one");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["account"]["balance"]["pack_left"], 70, "{shown}");
    let key = cluster.run(schema, "key create shop --data two");
    assert!(key.contains("mp_live_") || key.contains("live"), "{key}");
    // Two nodes on one folder are refused.
    let said = cluster.refused(schema, "serve --data one --listen 127.0.0.1:0 --ehlo a.example.com");
    assert!(said.contains("in use"), "{said}");

    let _second = Node::start(&cluster, "two");
    let shown = status(&cluster);
    let nodes = shown["database"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node["running"] == true && node["egress"] == node["id"]), "{shown}");
    cluster.run(schema, "backup back --data two");
    cluster.run(None, "cluster bundle keys2 --data two");
    cluster.run(schema, "cluster join keys2 --data three");
    let said = cluster.run(schema, "cluster upgrade --data one");
    assert!(said.contains("nothing to do"), "{said}");

    // The other node takes over from a killed one.
    drop(node);
    let end = Instant::now() + Duration::from_secs(30);
    let is_running = |shown: &Value| {
        shown["database"]["nodes"].as_array().unwrap().iter().filter(|n| n["running"] == true).count()
    };
    while is_running(&status(&cluster)) != 1 {
        assert!(Instant::now() < end, "the lease does not end");
        std::thread::sleep(Duration::from_millis(500));
    }
    let doctor = cluster.command(schema, &["doctor", "--json", "--data", "one"]).output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let store: Vec<&Value> = findings.iter().filter(|finding| finding["check"] == "store").collect();
    assert!(!store.is_empty() && store.iter().any(|finding| finding["severity"] == "warning"), "{store:?}");
}

#[test]
fn a_format_is_raised_when_all_running_nodes_know_it() {
    let Some(cluster) = TestCluster::get("upgrade") else { return };
    let place = cluster.place(&cluster.schema);
    assert!(matches!(place.upgrade(KNOWN_FORMAT), Err(UpgradeError::NoTables(_))));
    cluster.run(Some(&cluster.schema), "cluster init --bundle keys --data one");
    assert_eq!(place.upgrade(KNOWN_FORMAT), Ok(Upgraded::Already));
    let node = Node::start(&cluster, "one");
    let Err(UpgradeError::Nodes(nodes)) = place.upgrade(KNOWN_FORMAT + 1) else {
        panic!("a node does not know it")
    };
    assert_eq!(nodes.len(), 1);
    drop(node);
    // Its lease ends after ten seconds.
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match place.upgrade(KNOWN_FORMAT + 1) {
            Ok(Upgraded::From(before)) => break assert_eq!(before, u64::from(KNOWN_FORMAT)),
            Err(UpgradeError::Nodes(_)) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(500))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(place.upgrade(KNOWN_FORMAT), Err(UpgradeError::Newer(u64::from(KNOWN_FORMAT) + 1)));
    let said = cluster.refused(Some(&cluster.schema), "account list --data one");
    assert!(said.contains("newer mailprobe"), "{said}");
}
