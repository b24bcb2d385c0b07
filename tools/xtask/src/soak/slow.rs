//! `soak slow`: thousands of connections that cost their peer nothing, and one good client among them.
//!
//! Five crowds, one after another: connections that say nothing, that send a head or a body a byte a second, that
//! ask and do not take the answers, and idle ones, twice as many as the server has places. Whatever the server cuts off
//! comes back at once. Beside each kind a client with a connection for each request asks for its account: every answer
//! is 200, and the 99th percentile of what it waits stays near that of an idle server.

use super::slow_peers::{Siege, SlowPeer, limit, millis, percentile};
use super::transport::Server;
use super::world::{Mailnet, Serve, World};
use super::{Failure, Options, http};
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

struct Size {
    /// Slow connections at once.
    slow_peers: usize,
    /// Requests of the good client beside each kind.
    requests: usize,
    /// What may be added to the wait on an idle server, at most or at least.
    slack: Duration,
    /// How long slow peers stay at least: longer than what the server gives a head or a body.
    stay: Duration,
}

const FULL: Size = Size {
    slow_peers: 5000,
    requests: 2000,
    slack: Duration::from_millis(10),
    stay: Duration::from_secs(25),
};
/// Debug builds, beside whatever else the machine does: this finds who starves, not who is slower.
const SMALL: Size =
    Size { slow_peers: 500, requests: 150, slack: Duration::from_millis(150), stay: Duration::from_secs(2) };

/// For the server to release what slow peers held.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
/// Descriptors that a server may have more than before: the database's, a connection that comes late.
const DESCRIPTORS_MORE_MAX: usize = 8;
/// Who does not read makes the server work for each connection; a tenth of the others' number is as bad.
fn count(slow_peers: SlowPeer, size: &Size) -> usize {
    if slow_peers == SlowPeer::Unread { size.slow_peers / 10 } else { size.slow_peers }
}

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!(
        "slow: crowds of {}, {} good requests beside each",
        size.slow_peers, size.requests
    ));
    let world = World::make(options)?;
    // Nobody is asked; the engine wants a resolver all the same.
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
        let held = hold(slow_peers, &size, &serve, &key, idle)?;
        tally.check(slow_peers.name(), held);
        serve.running()?;
    }
    tally.check("what they held is let go of", released(&mut serve, before));
    tally.check("no panic, and an end in order", end(serve));

    let places = (size.slow_peers / 2).to_string();
    let serve = start(&world, &mailnet, &places)?;
    let held = hold(SlowPeer::Idle, &size, &serve, &key, idle)?;
    tally.check(SlowPeer::Idle.name(), held);
    tally.check("no panic, and an end in order", end(serve));
    mailnet.stop()?;
    Ok(Some(tally))
}

fn start(world: &World, mailnet: &Mailnet, places: &str) -> Result<Serve, Failure> {
    let plans = world.plans()?;
    let mut flags = vec!["--connections", places, "--connections-per-peer", "0"];
    flags.extend(plans.iter().map(String::as_str));
    world.serve(mailnet, &flags)
}

/// Connects slow peers, and measures how the good client fares meanwhile.
fn hold(
    slow_peers: SlowPeer,
    size: &Size,
    serve: &Serve,
    key: &str,
    idle: Duration,
) -> Result<Result<String, String>, Failure> {
    let (siege, habit, server) = (Siege::default(), slow_peers.habit(key), Server::from(serve.address));
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
    Ok(if found <= limit { Ok(figures) } else { Err(figures) })
}

/// The waits of the good client, each with a connection of its own.
fn beside(size: &Size, serve: &Serve, key: &str) -> Result<Vec<Duration>, Failure> {
    let mut waits = Vec::with_capacity(size.requests);
    for _ in 0..size.requests {
        interrupted()?;
        let began = Instant::now();
        let answer = http::get(serve.address, key, "/v1/account");
        waits.push(began.elapsed());
        match answer {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => {
                return Err(Failure(format!("the good client got {} {}", answer.status, answer.body)));
            }
            Err(error) => return Err(Failure(format!("the good client got no answer: {error}"))),
        }
        sleep(Duration::from_millis(2))?;
    }
    Ok(waits)
}

/// Waits until the server has no descriptor of slow peers that are gone.
pub fn released(serve: &mut Serve, before: usize) -> Result<String, String> {
    let mut now = before;
    let waited = wait_until("the server to let go", RELEASE_LIMIT, || {
        now = serve.descriptors()?;
        Ok(now <= before + DESCRIPTORS_MORE_MAX)
    });
    let memory = serve.resident_kib().map_err(|failure| failure.0)?;
    let figures = format!("{before} descriptors before, {now} after, {} MiB resident", memory / 1024);
    waited.map(|()| figures.clone()).map_err(|failure| format!("{}: {figures}", failure.0))
}

/// Ends the server and looks through its log.
pub fn end(serve: Serve) -> Result<String, String> {
    let log = serve.log().map_err(|failure| failure.0)?;
    serve.stop().map_err(|failure| failure.0)?;
    match log.lines().find(|line| line.contains("a defect was met") || line.contains("panicked")) {
        Some(line) => Err(line.to_owned()),
        None => Ok("status 0".into()),
    }
}
