//! `soak slow`: thousands of connections that need almost no work of their clients, and one good client beside them.
//!
//! There are five groups, one after another: connections that send nothing, that send a head one byte a second, that
//! send a body one byte a second, that send requests and read no answers, and idle ones. The server's limit on
//! connections is far above the size of the first four groups. There are twice as many idle connections as the limit
//! allows. When the server closes a connection, its client reconnects at once. Beside each group a good client requests
//! its account, each time on a new connection. Every answer must be 200, and the 99th percentile of the latency must be
//! near that of an idle server.

use super::api::Api;
use super::options::SoakOptions;
use super::slow_peers::{Siege, SlowPeer, limit, millis, percentile};
use super::transport::ServerEndpoint;
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

struct SlowSize {
    /// The number of slow connections at once.
    slow_peers: usize,
    /// The number of requests of the good client beside each group.
    requests: usize,
    /// How much the latency may exceed that of an idle server, unless twice the latter is more.
    slack: Duration,
    /// The shortest duration of a group: longer than the server's limits for a head or a body.
    stay: Duration,
}

const FULL: SlowSize = SlowSize {
    slow_peers: 5000,
    requests: 2000,
    slack: Duration::from_millis(10),
    stay: Duration::from_secs(25),
};
/// Debug builds run beside other work here. So this finds starved clients, not delayed ones.
const SMALL: SlowSize = SlowSize {
    slow_peers: 500,
    requests: 150,
    slack: Duration::from_millis(150),
    stay: Duration::from_secs(2),
};

/// How long the server may take to release the resources of slow peers.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
/// How many more descriptors a server may have than before: those of the database, and of a late connection.
const DESCRIPTORS_MORE_MAX: usize = 8;

/// Connections that do not read cost the server more work. So their group has a tenth of the size of the others.
fn count(slow_peers: SlowPeer, size: &SlowSize) -> usize {
    if slow_peers == SlowPeer::Unread { size.slow_peers / 10 } else { size.slow_peers }
}

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!(
        "slow: groups of up to {} connections, {} good requests at a time",
        size.slow_peers, size.requests
    ));
    let world = CampaignFolder::make(options)?;
    // No mail server is asked, but the engine needs a resolver.
    let mailnet = world
        .mailnet("seed = 1\n[[group]]\nname = \"a-{n}.example\"\ncount = 1\nmailboxes.ok = [\"user-#\"]\n")?;
    let mut tally = Tally::default();
    let roomy = (size.slow_peers * 2).to_string();
    let mut serve = start(&world, &mailnet, &roomy)?;
    let key = world.unlimited("good", 0)?;
    beside(&size, &serve, &key)?;
    let idle = percentile(beside(&size, &serve, &key)?);
    report::line(&format!("      an idle server: p99 {:.1} ms", millis(idle)));
    let before = serve.descriptors()?;
    for slow_peers in [SlowPeer::Silent, SlowPeer::Head, SlowPeer::Body, SlowPeer::Unread] {
        tally.check(slow_peers.name(), hold(slow_peers, &size, &serve, &key, idle));
        serve.running()?;
    }
    tally.check("no descriptor of slow peers is left", released(&mut serve, before));
    tally.check("no panic, and an end in order", serve.end());

    let places = (size.slow_peers / 2).to_string();
    let serve = start(&world, &mailnet, &places)?;
    tally.check(SlowPeer::Idle.name(), hold(SlowPeer::Idle, &size, &serve, &key, idle));
    tally.check("no panic, and an end in order", serve.end());
    mailnet.stop()?;
    Ok(tally)
}

fn start(world: &CampaignFolder, mailnet: &Mailnet, places: &str) -> Result<Serve, Failure> {
    world.serve(mailnet, &["--connections", places, "--connections-per-peer", "0"])
}

/// Connects slow peers, and measures the good client meanwhile.
fn hold(
    slow_peers: SlowPeer,
    size: &SlowSize,
    serve: &Serve,
    key: &str,
    idle: Duration,
) -> Result<String, String> {
    let (siege, habit, server) =
        (Siege::default(), slow_peers.habit(key), ServerEndpoint::from(serve.address));
    let members = count(slow_peers, size);
    let waits = std::thread::scope(|scope| {
        scope.spawn(|| siege.hold(&habit, members, &server));
        let began = Instant::now();
        let gathered =
            wait_until("the slow peers", RELEASE_LIMIT, || Ok(siege.open.load(Ordering::Relaxed) >= members));
        let waits = gathered.and_then(|()| {
            let mut waits = beside(size, serve, key)?;
            while began.elapsed() < size.stay {
                waits.extend(beside(size, serve, key)?);
            }
            Ok(waits)
        });
        siege.ended.store(true, Ordering::Relaxed);
        waits
    })?;
    let (found, limit) = (percentile(waits), limit(idle, size.slack));
    let figures = format!(
        "{members} of them, p99 {:.1} ms (at most {:.1}), {} cut off",
        millis(found),
        millis(limit),
        siege.cut_off.load(Ordering::Relaxed)
    );
    outcome(found <= limit, figures)
}

/// The latencies of the good client, each on its own connection.
fn beside(size: &SlowSize, serve: &Serve, key: &str) -> Result<Vec<Duration>, Failure> {
    let mut waits = Vec::with_capacity(size.requests);
    for _ in 0..size.requests {
        interrupted()?;
        let began = Instant::now();
        let answer = Api::new(serve.address, key).get("/v1/account")?;
        waits.push(began.elapsed());
        if answer.status != 200 {
            return Err(Failure(format!("the good client got {answer}")));
        }
        sleep(Duration::from_millis(2))?;
    }
    Ok(waits)
}

/// Waits until the server has closed all descriptors of slow peers.
pub fn released(serve: &mut Serve, before: usize) -> Result<String, String> {
    let mut now = before;
    let waited = wait_until("the server to close descriptors", RELEASE_LIMIT, || {
        now = serve.descriptors()?;
        Ok(now <= before + DESCRIPTORS_MORE_MAX)
    });
    let memory = serve.resident_kib()?;
    let figures = format!("{before} descriptors before, {now} after, {} MiB resident", memory / 1024);
    waited.map(|()| figures.clone()).map_err(|failure| format!("{}: {figures}", failure.0))
}
