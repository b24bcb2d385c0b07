//! The latency of other requests while downloads of bombs run and downloads that nobody reads are open.
//!
//! A bomb is a list of blank lines with a small upload: its download is almost pure work. `/livez` is requested over
//! open connections, and so is a bare hyper server (bench/examples/hello.rs) in the same seconds, which shows the
//! latency of the machine itself. Clients, servers and load share the machine.

use super::api::Hello;
use super::bench::Bench;
use super::loadtest::{middle, verdict};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep};
use crate::interop::report::{self, Tally};
use crate::soak::client::{HttpClient, HttpRequest};
use crate::soak::crowd::joined;
use crate::soak::downloads::{DownloadCounts, DownloadLoad, DownloadSize, Owners};
use crate::soak::transport::ServerEndpoint;
use crate::soak::visitor::expect;
use crate::soak::world::{Mailnet, Serve};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DRIVERS: [&str; 2] = ["io_uring", "epoll"];
const LOADS: [DownloadLoad; 2] =
    [DownloadLoad { bombs: 24, unread: 0 }, DownloadLoad { bombs: 24, unread: 60 }];
/// The number of accounts. Each may have two downloads open and four waiting.
const OWNERS: usize = 12;
const SIZE: DownloadSize = DownloadSize { bomb_mib: 256, rows: 400_000 };
/// The number of connections to a server; each sends its next request 2 ms after an answer.
const CONNECTIONS: usize = 4;
const PAUSE: Duration = Duration::from_millis(2);
const IDLE_TIME: Duration = Duration::from_secs(4);
const LOADED_TIME: Duration = Duration::from_secs(12);
/// The time between the start of the load and the first measurement.
const GATHER: Duration = Duration::from_secs(1);
const P99_MAX: Duration = Duration::from_millis(20);
/// The latency may also be so many times that of the bare server.
const TIMES_MAX: u32 = 3;
const MORE_MIB_MAX: u64 = 100;

/// The latencies of one server.
#[derive(Debug, Clone)]
struct WaitTimes {
    requests: usize,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

/// The figures of one run with one load.
struct DownloadRun {
    idle: [WaitTimes; 2],
    loaded: [WaitTimes; 2],
    before_mib: u64,
    most_mib: u64,
    whole: u64,
    begun: u64,
    refused: u64,
}

/// Measures each load, and counts whether the latencies are within the limit.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    bench.build_tools()?;
    let mailnet = bench
        .world
        .mailnet("seed = 1\n[[group]]\nname = \"a-{n}.example\"\ncount = 1\nmailboxes.ok = [\"user-#\"]\n")?;
    let serve = start(bench, &mailnet, DRIVERS[0])?;
    let mut owners = Owners::sign_up(&serve.address.into(), OWNERS, SIZE)?;
    serve.stop()?;
    report::line(
        "| server | driver | load | requests | p50 ms | p99 ms | max ms | MiB before | MiB under load |",
    );
    report::line("|---|---|---|---:|---:|---:|---:|---:|---:|");
    let mut verdicts = Vec::new();
    for driver in DRIVERS {
        for load in LOADS {
            let runs: Result<Vec<_>, _> =
                (0..bench.runs).map(|_| one(bench, &mailnet, driver, &mut owners, load)).collect();
            let run = middle(runs?, |run| run.loaded[0].p99.as_secs_f64())?;
            let name = name(load);
            let memory = (Some(run.before_mib), Some(run.most_mib));
            row("mailprobe", driver, "none", &run.idle[0], (memory.0, None));
            row("hyper hello", driver, "none", &run.idle[1], (None, None));
            row("mailprobe", driver, &name, &run.loaded[0], memory);
            row("hyper hello", driver, &name, &run.loaded[1], (None, None));
            if run.whole == 0 {
                return Err(Failure(format!("{driver}, {name}: no download was read to its end")));
            }
            tally.passed += 1;
            verdicts.push((driver, name, run));
        }
    }
    report::line("");
    for (driver, name, run) in verdicts {
        let DownloadRun { whole, begun, refused, before_mib, most_mib, loaded: [ours, bare], .. } = run;
        report::line(&format!(
            "{driver}, {name}: {whole} complete downloads, {begun} unread downloads, {refused} answers with 503"
        ));
        let most = P99_MAX.max(bare.p99 * TIMES_MAX);
        let (p99, limit) = (millis(ours.p99), millis(most));
        verdict(&format!("{driver}, {name}: p99 {p99:.1} ms, at most {limit:.1}"), ours.p99 <= most);
        let more = most_mib.saturating_sub(before_mib);
        let what = format!("{driver}, {name}: {more} MiB more, at most {MORE_MIB_MAX}");
        verdict(&what, more <= MORE_MIB_MAX);
    }
    mailnet.stop().map(drop)
}

fn start(bench: &Bench, mailnet: &Mailnet, driver: &str) -> Result<Serve, Failure> {
    let one_of_each = ["--frontends", "1", "--shards", "1"];
    // All clients have one address, so limits per network are off.
    let flags = [&one_of_each[..], &["--connections-per-peer", "0", "--driver", driver]].concat();
    bench.world.serve(mailnet, &flags)
}

fn one(
    bench: &Bench,
    mailnet: &Mailnet,
    driver: &str,
    owners: &mut Owners,
    load: DownloadLoad,
) -> Result<DownloadRun, Failure> {
    let mut serve = start(bench, mailnet, driver)?;
    let hello = Hello::start(bench, Some(driver))?;
    let ours = ServerEndpoint::from(serve.address);
    let bare = ServerEndpoint::from(hello.address);
    owners.move_to(&ours);
    let (idle, _) = beside(&ours, &bare, &serve, IDLE_TIME)?;
    let before_mib = serve.resident_kib()? / 1024;
    let (ended, counts) = (AtomicBool::new(false), DownloadCounts::default());
    let (loaded, most_kib) = std::thread::scope(|scope| {
        let downloads = scope.spawn(|| owners.download(&ours, load, &ended, &counts));
        let found = sleep(GATHER).and_then(|()| beside(&ours, &bare, &serve, LOADED_TIME));
        ended.store(true, Ordering::Relaxed);
        joined(downloads).and(found)
    })?;
    serve.running()?;
    serve.stop()?;
    hello.stop()?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (whole, begun, refused) = (count(&counts.whole), count(&counts.begun), count(&counts.refused));
    Ok(DownloadRun { idle, loaded, before_mib, most_mib: most_kib / 1024, whole, begun, refused })
}

/// Measures both servers in the same seconds, and the peak of our memory meanwhile in KiB.
fn beside(
    ours: &ServerEndpoint,
    bare: &ServerEndpoint,
    serve: &Serve,
    time: Duration,
) -> Result<([WaitTimes; 2], u64), Failure> {
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        let ask = |server: &ServerEndpoint| -> Vec<_> {
            let clients = (0..CONNECTIONS).map(|_| HttpClient::program(server.clone()));
            clients.map(|client| scope.spawn(move || ask(client, until))).collect()
        };
        let asking = [ask(ours), ask(bare)];
        let mut most_kib = 0;
        while Instant::now() < until {
            most_kib = serve.resident_kib()?.max(most_kib);
            sleep(Duration::from_millis(100))?;
        }
        let mut found = Vec::new();
        for clients in asking {
            let mut waits = Vec::new();
            for client in clients {
                waits.extend(joined(client)?);
            }
            found.push(WaitTimes::of(waits)?);
        }
        let found = <[WaitTimes; 2]>::try_from(found).map_err(|_| Failure("not two servers".into()))?;
        Ok((found, most_kib))
    })
}

fn ask(mut client: HttpClient, until: Instant) -> Result<Vec<Duration>, Failure> {
    let (request, mut waits) = (HttpRequest::get("/livez"), Vec::new());
    while Instant::now() < until {
        interrupted()?;
        let began = Instant::now();
        expect(&mut client, &request, 200)?;
        waits.push(began.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(waits)
}

impl WaitTimes {
    fn of(mut waits: Vec<Duration>) -> Result<WaitTimes, Failure> {
        waits.sort();
        let at = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        match (at(50), at(99), waits.last()) {
            (Some(p50), Some(p99), Some(&max)) => Ok(WaitTimes { requests: waits.len(), p50, p99, max }),
            _ => Err(Failure("no request was answered".into())),
        }
    }
}

fn name(load: DownloadLoad) -> String {
    match load.unread {
        0 => format!("{} downloads", load.bombs),
        unread => format!("{} downloads, {unread} unread", load.bombs),
    }
}

fn row(server: &str, driver: &str, load: &str, waits: &WaitTimes, memory: (Option<u64>, Option<u64>)) {
    let mib = |mib: Option<u64>| mib.map_or_else(|| "-".to_owned(), |mib| mib.to_string());
    report::line(&format!(
        "| {server} | {driver} | {load} | {} | {:.2} | {:.2} | {:.1} | {} | {} |",
        waits.requests,
        millis(waits.p50),
        millis(waits.p99),
        millis(waits.max),
        mib(memory.0),
        mib(memory.1),
    ));
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
