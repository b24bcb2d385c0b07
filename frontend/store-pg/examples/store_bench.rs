//! A measurement of the store in PostgreSQL: how many writes it takes per second by the number of checks under way, how long
//! each waits, and the CPU time of the server and of this process for a check.
//!
//! ```text
//! cargo xtask postgres --no-fsync -- cargo run --release --package store-pg --example store_bench -- [SECONDS] [NODES] [ACCOUNTS]
//! ```
//! A check is two writes: it begins with a hold and its look at earlier results, and is settled with a new result. NODES
//! (default 1) nodes in this process share ACCOUNTS (default 100) accounts. SECONDS (default 5) is the time of each row. The
//! server is that of `MAILPROBE_TEST_POSTGRES`. `cargo xtask measure cluster` names the folders of the servers of a cluster in
//! `MAILPROBE_BENCH_PRIMARY` and, separated by colons, `MAILPROBE_BENCH_STANDBYS`.

use std::collections::VecDeque;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::credits::Balance;
use store::{
    AccountId, AddressHash, AttemptError, Authority, Begun, CREDITS_MAX, EntryId, HoldRef, NewAccount,
    NewCheck, Pending, Plan, PlanTable, ResultRecord, SettleError, Settlement,
};
use store_pg::{NodeSettings, PgOptions, Target};
use store_rules::Store;
use vault::Vault;

const DEPTHS: [usize; 4] = [1, 10, 100, 1_000];
/// Clock ticks per second in /proc, which Linux fixes for programs.
const TICKS: f64 = 100.0;

enum UnderWay {
    Check(HoldRef, usize, AddressHash, Pending<Begun, AttemptError>),
    Settlement(Pending<Balance, SettleError>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let nodes: i64 = args.next().map_or(Ok(1), |text| text.parse())?;
    let accounts: u128 = args.next().map_or(Ok(100), |text| text.parse())?;
    let url = std::env::var("MAILPROBE_TEST_POSTGRES")?;
    let vault = Arc::new(Vault::in_memory()?);
    let schema = format!("bench{}", std::process::id());
    let plans = PlanTable::new([Plan::new("bench", "Bench", CREDITS_MAX)])?;
    let open = |node| open(&url, &schema, node, &vault, &plans);
    let stores: Vec<Arc<Store>> = (1..=nodes).map(open).collect::<Result<_, _>>()?;
    let now = store::clock::now();
    let ids: Vec<_> = (0..accounts).map(|n| AccountId::new(now, n)).collect();
    for (n, &id) in ids.iter().enumerate() {
        let new = NewAccount { id, name: format!("n{n}"), plan: "bench".into() };
        stores[0].create_account(new, now).wait()?;
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "| under way | writes/s | p50 (ms) | p99 (ms) | PostgreSQL CPU (us per check) | of it standbys | own CPU (us per check) |"
    )?;
    writeln!(out, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    let (servers, mut placed) = (Servers::of_variables(), 0);
    for depth in DEPTHS {
        let before = (servers.cpu()?, own_cpu()?);
        let (checks, mut waits) = run(&stores, depth, Duration::from_secs(seconds), &ids, &mut placed)?;
        let own = own_cpu()? - before.1;
        let after = servers.cpu()?;
        let primary = after.primary.zip(before.0.primary).map(|(after, before)| after - before);
        let standbys = after.standbys.zip(before.0.standbys).map(|(after, before)| after - before);
        waits.sort_unstable();
        let ms = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
        let each = |cpu: f64| format!("{:.1}", cpu * 1e6 / checks as f64);
        writeln!(
            out,
            "| {depth} | {:.0} | {:.2} | {:.2} | {} | {} | {} |",
            checks as f64 * 2.0 / seconds as f64,
            ms(0.5),
            ms(0.99),
            primary.map_or_else(|| "-".to_owned(), |primary| each(primary + standbys.unwrap_or(0.0))),
            standbys.map_or_else(|| "-".to_owned(), each),
            each(own)
        )?;
    }
    let sums = stores[0].audit(None).wait()?;
    writeln!(out, "audit: {} accounts, {} entries, faults: {:?}", sums.accounts, sums.entries, sums.faults)?;
    Ok(())
}

fn open(
    url: &str,
    schema: &str,
    node: i64,
    vault: &Arc<Vault>,
    plans: &PlanTable,
) -> Result<Arc<Store>, Box<dyn Error>> {
    let plain = url.split('?').next().unwrap_or(url);
    let options = PgOptions {
        target: Target::parse(&format!("{plain}?sslmode=disable"))?,
        schema: schema.into(),
        requires_sync: std::env::var("MAILPROBE_TEST_SYNC").is_ok(),
        node: NodeSettings {
            id: node,
            egress: format!("e{node}"),
            host: "bench".into(),
            version: "0".into(),
        },
        vault: Arc::clone(vault),
        keys: "keys".into(),
        reuse: true,
        clock: store::clock::now,
    };
    Ok(store_pg::open(options, plans.clone(), store::clock::now())?.0)
}

/// Keeps `depth` writes under way. Returns how many checks were done, and the time of each write.
fn run(
    stores: &[Arc<Store>],
    depth: usize,
    time: Duration,
    ids: &[AccountId],
    placed: &mut u128,
) -> Result<(u64, Vec<Duration>), Box<dyn Error>> {
    let mut waits = Vec::new();
    let mut under_way = VecDeque::with_capacity(depth);
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < time || !under_way.is_empty() {
        while under_way.len() < depth && start.elapsed() < time {
            *placed += 1;
            let now = store::clock::now();
            let account = ids[(*placed % ids.len() as u128) as usize];
            let node = (*placed / ids.len() as u128) as usize % stores.len();
            let hold = HoldRef { account, id: EntryId::new(now, 1 << 61 | *placed) };
            let address = stores[node].hash_address(&format!("{placed}@example.com"));
            let check = NewCheck {
                hold,
                connection: None,
                address,
                fair_use: Some((1_000_000, 1_000_000)),
                by: Authority::OPERATOR,
            };
            let pending = stores[node].begin_check(check, now);
            under_way.push_back((Instant::now(), UnderWay::Check(hold, node, address, pending)));
        }
        let Some((since, first)) = under_way.pop_front() else { break };
        let next = match first {
            UnderWay::Check(hold, node, address, pending) => match pending.wait()? {
                Begun::Held(_) => Some((hold, node, address)),
                other => return Err(format!("{other:?}").into()),
            },
            UnderWay::Settlement(pending) => {
                pending.wait()?;
                done += u64::from(start.elapsed() < time);
                None
            }
        };
        waits.push(since.elapsed());
        if let Some((hold, node, address)) = next {
            let record = ResultRecord { address, verdict: api::Reason::MailboxExists.into() };
            let pending = stores[node].settle(hold, Settlement { result: Some(record) }, store::clock::now());
            under_way.push_back((Instant::now(), UnderWay::Settlement(pending)));
        }
    }
    Ok((done, waits))
}

/// Where the processes of the servers are found.
enum Servers {
    /// One server, which `cargo xtask postgres` has started like this process: they have an ancestor in common.
    Beside,
    /// Servers that Patroni has started. They have no ancestor; each process of a server works in the folder of its data.
    InFolders { primary: PathBuf, standbys: Vec<PathBuf> },
}

/// CPU seconds of servers; `None`: there are no such processes.
struct ServerCpu {
    primary: Option<f64>,
    standbys: Option<f64>,
}

impl Servers {
    fn of_variables() -> Servers {
        let Some(primary) = std::env::var_os("MAILPROBE_BENCH_PRIMARY") else { return Servers::Beside };
        let standbys = std::env::var_os("MAILPROBE_BENCH_STANDBYS").unwrap_or_default();
        Servers::InFolders { primary: primary.into(), standbys: std::env::split_paths(&standbys).collect() }
    }

    fn cpu(&self) -> Result<ServerCpu, Box<dyn Error>> {
        match self {
            Servers::Beside => Ok(ServerCpu { primary: cpu_beside()?, standbys: None }),
            Servers::InFolders { primary, standbys } => {
                Ok(ServerCpu { primary: cpu_in(std::slice::from_ref(primary))?, standbys: cpu_in(standbys)? })
            }
        }
    }
}

/// The CPU seconds of the processes named `postgres` that work in these folders.
fn cpu_in(folders: &[PathBuf]) -> Result<Option<f64>, Box<dyn Error>> {
    let mut sum = None;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        // A process may end between two looks.
        let Ok(works_in) = fs::read_link(entry.path().join("cwd")) else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let is_of = folders.iter().any(|folder| works_in.starts_with(folder));
        if is_of
            && let Some((_, name, cpu)) = stat(pid)
            && name == "postgres"
        {
            sum = Some(sum.unwrap_or(0.0) + cpu);
        }
    }
    Ok(sum)
}

/// The CPU seconds of the processes named `postgres` that have an ancestor in common with this process.
fn cpu_beside() -> Result<Option<f64>, Box<dyn Error>> {
    let mut ancestors = vec![];
    let mut pid = std::process::id();
    while pid > 1 {
        let Some((parent, ..)) = stat(pid) else { break };
        ancestors.push(parent);
        pid = parent;
    }
    ancestors.retain(|&pid| pid > 1);
    let mut sum = None;
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some((mut parent, name, cpu)) = stat(pid) else { continue };
        while parent > 1 && !ancestors.contains(&parent) {
            parent = stat(parent).map_or(0, |(parent, ..)| parent);
        }
        if name == "postgres" && parent > 1 {
            sum = Some(sum.unwrap_or(0.0) + cpu);
        }
    }
    Ok(sum)
}

fn own_cpu() -> Result<f64, Box<dyn Error>> {
    Ok(stat(std::process::id()).ok_or("no /proc")?.2)
}

/// The parent, the name and the CPU seconds of a process.
fn stat(pid: u32) -> Option<(u32, String, f64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    // In user mode and in the kernel, without children that have ended.
    Some((fields.get(1)?.parse().ok()?, name, (ticks(11)? + ticks(12)?) / TICKS))
}
