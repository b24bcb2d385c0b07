//! The cluster: the writes that the store in PostgreSQL acknowledges, and the checks of one node and of three nodes where sessions
//! and the delay of mail servers are the limit.
//!
//! `store_bench` of store-pg counts the writes, once with one server, and once with three servers of which two are synchronous
//! standbys. All servers keep their data in memory, so the disk of the machine has no part in the figures. With `--disk`, they keep
//! their data on the disk of the folder for temporary files, and only the writes are measured.

use super::bench::Bench;
use crate::cluster::Cluster;
use crate::cluster::setup::Setup;
use crate::failure::{Context, Failure};
use crate::interop::process;
use crate::interop::report::{self, Tally};
use crate::postgres;
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::cluster::world::{ClusterWorld, NODES, WorldProfile};
use crate::soak::visitor::expect;
use crate::soak::world::{CampaignFolder, cargo};
use rustix::fs::statfs;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A file system in memory, which every Linux has.
const MEMORY: &str = "/dev/shm";
/// The type of such file systems (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;
const BENCH: &str = "store_bench";
/// Seconds of each row of the table of writes.
const BENCH_S: &str = "5";
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

/// A hundred milliseconds before each reply, as on the way to another continent.
const FAR: &str = r#"
seed = 41
[[group]]
name = "far-{n}.example"
count = 40000
server = { latency_ms = 100 }
mailboxes = { ok = ["user-#"] }
"#;
/// Few enough that a node waits for its sessions and not for the processor.
const FLAGS: [&str; 2] = ["--sessions", "60"];
const BATCHES: u64 = 90;
const DOMAINS_OF_A_BATCH: u64 = 20;
const ROWS_OF_A_DOMAIN: u64 = 10;
/// The other nodes hear of new keys within two seconds.
const KEYS_KNOWN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// Measures, and counts whether all verdicts are right.
pub fn run(bench: &Bench, disk: bool, tally: &mut Tally) -> Result<(), Failure> {
    let place = if disk { disk_folder()? } else { PathBuf::from(MEMORY) };
    let program = bench_program(bench)?;
    report::line("One server:");
    tally.check("writes on one server", postgres::beside(&place, &[], store_bench(&program))?);
    report::line("Three servers, two synchronous standbys:");
    tally.check("writes with two synchronous standbys", beside_cluster(&program, disk)?);
    if disk {
        // The limit of the nodes is their sessions, wherever the data is.
        return Ok(());
    }
    nodes(bench, tally)
}

/// The folder for temporary files, in which a cluster without `tmpfs` keeps its data.
fn disk_folder() -> Result<PathBuf, Failure> {
    let folder = std::env::temp_dir();
    let found = statfs(&folder).at(&folder)?;
    if found.f_type as u64 == TMPFS_MAGIC {
        let what = "is in memory: set TMPDIR to a folder on a disk";
        return Err(Failure(format!("{} {what}", folder.display())));
    }
    Ok(folder)
}

/// Builds `store_bench`, unless the folder of the binaries is given.
fn bench_program(bench: &Bench) -> Result<PathBuf, Failure> {
    if !bench.given {
        let mut build = cargo();
        build.args(["build", "--release", "--package", "store-pg", "--example", BENCH]);
        process::run(build, "", bench.world.folder(), BUILD_LIMIT)?.success("cargo build")?;
    }
    Ok(bench.world.binaries().join("examples").join(BENCH))
}

fn store_bench(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(BENCH_S);
    command
}

fn beside_cluster(program: &Path, disk: bool) -> Result<Result<String, String>, Failure> {
    let cluster = Cluster::start(Setup { tmpfs: !disk, sync_standbys: 2, ..Setup::default() })?;
    let (primary, standbys) = cluster.primary_and_standbys()?;
    let standbys = std::env::join_paths(standbys.iter().map(|server| cluster.folder_of(*server)));
    let standbys = standbys.map_err(Failure::of)?;
    let mut command = cluster.beside(program);
    command.env("MAILPROBE_BENCH_PRIMARY", cluster.folder_of(primary));
    command.env("MAILPROBE_BENCH_STANDBYS", standbys);
    command.arg(BENCH_S);
    let status = process::accompany(command)?;
    Ok(report::outcome(status.success(), status.to_string()))
}

/// The same number of batches to one node, and to three in turn.
fn nodes(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    let folder = CampaignFolder::of(Some(bench.world.binaries()), true)?;
    let mut world = ClusterWorld::of(folder, WorldProfile { scenario: FAR, flags: &FLAGS, previous: None })?;
    let key = world.account("measured", "unlimited")?.live;
    process::sleep(KEYS_KNOWN)?;
    let mut rates: [Vec<f64>; 2] = Default::default();
    for turn in 0..u64::from(bench.runs) {
        for (kind, count) in [1, NODES].into_iter().enumerate() {
            let first = (turn * 2 + kind as u64) * BATCHES * DOMAINS_OF_A_BATCH;
            rates[kind].push(rate(&world, &key, count, first)?);
        }
    }
    let bad = world.stop_nodes()?;
    tally.check(
        "verdicts of one node and of three",
        if bad.is_empty() { Ok("all right".into()) } else { Err(bad.join("\n")) },
    );
    let rates = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    report::line("");
    report::line("| nodes | sessions each | addresses/s | compared with one |");
    report::line("| ---: | ---: | ---: | ---: |");
    for (count, rate) in [1, NODES].into_iter().zip(rates) {
        report::line(&format!("| {count} | {} | {rate:.0} | {:.2} |", FLAGS[1], rate / rates[0]));
    }
    Ok(())
}

/// Sends all batches to the first nodes in turn; returns the addresses per second until the last batch is complete.
fn rate(world: &ClusterWorld, key: &str, nodes: usize, first_domain: u64) -> Result<f64, Failure> {
    world.client_namespace().inside(|| {
        let mut clients: Vec<HttpClient> =
            (0..nodes).map(|node| HttpClient::program(world.address(node))).collect();
        let began = Instant::now();
        let mut open = Vec::new();
        for batch in 0..BATCHES {
            let node = batch as usize % nodes;
            open.push((node, submit(&mut clients[node], key, first_domain + batch * DOMAINS_OF_A_BATCH)?));
        }
        while let Some((node, path)) = open.last() {
            if is_complete(&mut clients[*node], key, path)? {
                open.pop();
            } else {
                process::sleep(LOOK)?;
            }
        }
        let rows = BATCHES * DOMAINS_OF_A_BATCH * ROWS_OF_A_DOMAIN;
        Ok(rows as f64 / began.elapsed().as_secs_f64())
    })
}

/// Returns the path of the new batch.
fn submit(client: &mut HttpClient, key: &str, first_domain: u64) -> Result<String, Failure> {
    let address = |row: u64| format!("user-{row}@far-{}.example", first_domain + row / ROWS_OF_A_DOMAIN + 1);
    let emails: Vec<String> = (0..DOMAINS_OF_A_BATCH * ROWS_OF_A_DOMAIN).map(address).collect();
    let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": emails })).bearer(key);
    let made = expect(client, &request, 202)?.json();
    let path = made["batch_id"].as_str().map(|id| format!("/v1/verify/batch/{id}"));
    path.ok_or_else(|| Failure(format!("a batch without id: {made}")))
}

fn is_complete(client: &mut HttpClient, key: &str, path: &str) -> Result<bool, Failure> {
    let found = expect(client, &HttpRequest::get(path).bearer(key), 200)?.json();
    if found["status"] != "completed" {
        return Ok(false);
    }
    let rows = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    match rows.iter().find(|row| row["reason"] != "mailbox_exists") {
        None if rows.len() as u64 == DOMAINS_OF_A_BATCH * ROWS_OF_A_DOMAIN => Ok(true),
        None => Err(Failure(format!("{} rows", rows.len()))),
        Some(wrong) => Err(Failure(format!("a wrong row: {wrong}"))),
    }
}
