//! `soak abuse`: slow, greedy and malformed clients in one campaign, over HTTP and over TLS, and good clients beside
//! them.
//!
//! First groups of slow connections (slow_peers.rs) stay one after another, over HTTP alone. The server's limit on connections is
//! far above their number, but there are twice as many idle ones as it allows. When the server closes a connection, its client
//! reconnects at once.
//!
//! Then slow connections of all kinds stay from the beginning to the end. Meanwhile the kinds of abuse run one after the
//! other (greed.rs, shapes.rs), and good clients send ordinary requests (customer.rs). Each of their answers must be right,
//! and the 99th percentile of each kind of request must be near that of an idle server. A malformed request gets at
//! most one answer, and the check that is hidden in it is not executed, as the ledger must show. No answer is a 5xx
//! other than 503, and at the end descriptors and memory are released.

mod answers;
mod greed;
mod shapes;

use super::crowd::joined;
use super::customer::{Action, ActionTimes, Customer, percentiles, scenario};
use super::downloads::{DownloadLoad, DownloadSize, Owners};
use super::judge::Claim;
use super::options::{SoakOptions, sizes};
use super::slow_peers::{Siege, SlowPeer, limit, millis};
use super::transport::{Certificate, ServerEndpoint};
use super::visitor::Visitor;
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::{Context, Failure};
use crate::interop::process::{sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use greed::Means;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

sizes! {
    /// The small version runs on busy machines. So it finds starved clients, not delayed ones.
    struct AbuseSize {
        /// The number of slow connections that stay.
        slow_peers: usize = 5000, 500;
        /// The number of connections of one kind of abuse.
        members: usize = 400, 40;
        /// The number of good requests of each kind that are sent at a time.
        requests: usize = 500, 15;
        /// How much the latency may exceed that of an idle server.
        slack: Duration = Duration::from_millis(10), Duration::from_millis(750);
        /// How much it may exceed that beside a group of slow connections alone.
        slack_beside_group: Duration = Duration::from_millis(10), Duration::from_millis(150);
        /// How much it may exceed that beside abuse that uses all of the processor.
        slack_beside_load: Duration = Duration::from_millis(100), Duration::from_millis(750);
        /// The shortest duration of each kind of abuse.
        stay: Duration = Duration::from_secs(25), Duration::from_secs(1);
        /// The length of the silence that ends the answers.
        quiet: Duration = Duration::from_millis(500), Duration::from_millis(500);
        owners: usize = 6, 1;
        lists: DownloadSize =
            DownloadSize { bomb_mib: 256, rows: 400_000 }, DownloadSize { bomb_mib: 4, rows: 60_000 };
        bombs: DownloadLoad = DownloadLoad { bombs: 12, unread: 30 }, DownloadLoad { bombs: 2, unread: 4 };
    }
}

/// The kinds of slow connections, in equal parts.
const CROWDS: [SlowPeer; 4] = [SlowPeer::Silent, SlowPeer::Head, SlowPeer::Body, SlowPeer::Idle];
/// The actions of good clients.
const ACTIONS: [Action; 4] = [Action::Account, Action::FastCheck, Action::FullCheck, Action::Page];
/// One in so many full checks is preceded by one of a mailbox that does not exist.
const UNKNOWN_EVERY: usize = 7;
/// The 99th percentile of each action.
type Percentiles = BTreeMap<Action, Duration>;
/// How long all slow peers may take to connect.
const GATHER_LIMIT: Duration = Duration::from_secs(120);
/// The time between the start of an abuse and the first measurement.
const GATHER: Duration = Duration::from_millis(300);
const MORE_MIB_MAX: u64 = 100;

/// Runs the campaign and counts its checks.
pub fn run(options: &SoakOptions, tally: &mut Tally) -> Result<(), Failure> {
    let size = AbuseSize::of(options.small);
    report::line(&format!(
        "abuse: {} slow connections, {} good requests of each kind at a time",
        size.slow_peers, size.requests
    ));
    let mut world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(&scenario("generic"))?;
    groups(&mut world, &mailnet, options, &size, tally)?;
    world.use_data("data");
    campaign(&world, &mailnet, options, &size, None, tally)?;
    let certificate = Certificate::make().about("a certificate")?;
    world.use_data("data-tls");
    campaign(&world, &mailnet, options, &size, Some(&certificate), tally)?;
    mailnet.stop()?;
    Ok(())
}

/// Holds one group of slow connections after another, on a server with places for all of them, or for half of the idle ones.
fn groups(
    world: &mut CampaignFolder,
    mailnet: &Mailnet,
    options: &SoakOptions,
    size: &AbuseSize,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let roomy = [SlowPeer::Silent, SlowPeer::Head, SlowPeer::Body, SlowPeer::Unread];
    let kinds =
        [("roomy", size.slow_peers * 2, &roomy[..]), ("narrow", size.slow_peers / 2, &[SlowPeer::Idle][..])];
    for (data, places, kinds) in kinds {
        if !kinds.iter().any(|kind| options.wants(kind.name())) {
            continue;
        }
        world.use_data(data);
        let (mut serve, server) = start(world, mailnet, places, None)?;
        let good = good_clients(world, &server)?;
        let key = world.unlimited("slow", 0)?;
        let idle = idle(&good, size)?;
        let before = serve.footprint()?;
        for kind in kinds.iter().filter(|kind| options.wants(kind.name())) {
            // Connections that do not read cost the server more work.
            let members = size.slow_peers / if *kind == SlowPeer::Unread { 10 } else { 1 };
            let (siege, habit) = (Siege::default(), kind.habit(&key));
            let hold = || {
                siege.hold(&habit, members, &server);
                Ok(format!("{members} of them, {} cut off", siege.cut_off.load(Ordering::Relaxed)))
            };
            let gathered = || gathered(&siege, members);
            let limits = (size.slack_beside_group, &idle);
            let held = beside((&siege.ended, hold), gathered, &good, size, limits);
            tally.check(kind.name(), held);
            serve.running()?;
        }
        let [_, open] = serve.settle(before, u64::MAX)?;
        tally.check("no descriptor of slow peers is left", open);
        tally.check("no panic, and an end in order", serve.end());
    }
    Ok(())
}

/// Waits until all of these slow connections are open.
fn gathered(siege: &Siege, members: usize) -> Result<(), Failure> {
    wait_until("the slow connections", GATHER_LIMIT, || Ok(siege.open.load(Ordering::Relaxed) >= members))
}

/// Good clients with an account of their own.
fn good_clients(world: &CampaignFolder, server: &ServerEndpoint) -> Result<Customer, Failure> {
    Customer::sign_up(server, world.unlimited("good", 1_000_000)?, "good@people.example")
}

/// Does this many actions of each kind in parallel.
fn act(good: &Customer, count: usize) -> Result<ActionTimes, Failure> {
    let mut checks = vec![Action::FullCheck; UNKNOWN_EVERY];
    checks.insert(0, Action::UnknownCheck);
    good.act(&[
        (&[Action::Account], count),
        (&[Action::FastCheck], count),
        (&[Action::Page], count),
        (&checks, count.div_ceil(UNKNOWN_EVERY)),
    ])
}

/// The latencies of an idle server, whose caches are warm.
fn idle(good: &Customer, size: &AbuseSize) -> Result<Percentiles, Failure> {
    act(good, size.requests)?;
    Ok(percentiles(&act(good, size.requests)?))
}

fn campaign(
    world: &CampaignFolder,
    mailnet: &Mailnet,
    options: &SoakOptions,
    size: &AbuseSize,
    certificate: Option<&Certificate>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let (mut serve, server) = start(world, mailnet, size.slow_peers * 2 + 2000, certificate)?;
    let good = good_clients(world, &server)?;
    let mut greedy = Visitor::sign_up(&server, "greedy@people.example")?;
    let owners = Owners::sign_up(&server, size.owners, size.lists)?;
    let (carrier, marker) = (world.unlimited("carrier", 1000)?, world.unlimited("marker", 1000)?);
    tally.check(&format!("{server}: a second request is noticed"), control(world, &server, size));
    let means = Means {
        owners: &owners,
        token: greedy.connect_assistant(&server)?,
        page: greedy.request("/keys"),
        upload: greedy.upload_request("list.csv", &[b'x'; 10_000]),
        shapes: shapes::all(&carrier, &marker)?,
        key: carrier,
        members: size.members,
        quiet: size.quiet,
        bombs: size.bombs,
        server: server.clone(),
    };
    let idle = idle(&good, size)?;
    report::line(&format!("      {server}, an idle server: p99 {}", figures(&idle)));
    let before = serve.footprint()?;
    let siege = Siege::default();
    let outcome = std::thread::scope(|scope| {
        let (members, habits) =
            (size.slow_peers / CROWDS.len(), CROWDS.map(|slow_peers| slow_peers.habit(&means.key)));
        for habit in habits {
            let (siege, server) = (&siege, &server);
            scope.spawn(move || siege.hold(&habit, members, server));
        }
        let outcome = gathered(&siege, members * CROWDS.len()).and_then(|()| {
            tally.check(&format!("{server}: slow connections alone"), alone(&good, size, &idle));
            for greed in greed::ALL {
                if options.wants(greed.name) {
                    let slack = if greed.takes_all_cpu { size.slack_beside_load } else { size.slack };
                    let ended = AtomicBool::new(false);
                    let abuse = (&ended, || (greed.run)(&means, &ended));
                    let held = beside(abuse, || sleep(GATHER), &good, size, (slack, &idle));
                    tally.check(&format!("{server}: {}", greed.name), held);
                    serve.running()?;
                }
            }
            Ok(())
        });
        siege.ended.store(true, Ordering::Relaxed);
        outcome
    });
    outcome?;
    report::line(&format!(
        "      {} slow connections were cut off and came back",
        siege.cut_off.load(Ordering::Relaxed)
    ));
    let [memory, open] = serve.settle(before, MORE_MIB_MAX * 1024)?;
    tally.check(&format!("{server}: no descriptor of slow peers is left"), open);
    tally.check(&format!("{server}: memory comes back"), memory);
    tally.check(&format!("{server}: nothing hidden was run"), ledger(world, &good));
    let log = serve.log()?;
    tally.check(&format!("{server}: no 5xx but 503"), statuses(&log));
    tally.check(&format!("{server}: no panic, and an end in order"), serve.end());
    Ok(())
}

fn start(
    world: &CampaignFolder,
    mailnet: &Mailnet,
    places: usize,
    certificate: Option<&Certificate>,
) -> Result<(Serve, ServerEndpoint), Failure> {
    let flags = ["--connections", &places.to_string(), "--connections-per-peer", "0"];
    world.serve_over(mailnet, &flags, certificate)
}

/// The control: a check after a complete request is executed and charged, and both answers are counted. The shapes must
/// not have this result.
fn control(world: &CampaignFolder, server: &ServerEndpoint, size: &AbuseSize) -> Result<String, String> {
    let key = world.unlimited("control", 1000)?;
    let bytes = format!("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n{}", shapes::marker(&key));
    // The check's answer comes some time after the first one.
    let answers = answers::of(server, bytes.as_bytes(), size.quiet * 10);
    let answers = answers.about("the control")?;
    let spent = world.ledger("control")?.credits.spent;
    let found = format!("answers {:?}, {spent} charged", answers.statuses);
    outcome(answers.statuses == [200, 200] && spent == 1, found)
}

fn alone(good: &Customer, size: &AbuseSize, idle: &Percentiles) -> Result<String, String> {
    compare(&act(good, size.requests)?, size.slack, idle)
}

/// Runs one kind of abuse until the flag is set, with the good clients beside it once it has gathered.
fn beside(
    (ended, abuse): (&AtomicBool, impl FnOnce() -> Result<String, Failure> + Send),
    gathered: impl FnOnce() -> Result<(), Failure>,
    good: &Customer,
    size: &AbuseSize,
    (slack, idle): (Duration, &Percentiles),
) -> Result<String, String> {
    let (abuse, waits) = std::thread::scope(|scope| {
        let abuse = scope.spawn(abuse);
        let began = Instant::now();
        let waits = gathered().and_then(|()| {
            let mut waits = act(good, size.requests)?;
            while began.elapsed() < size.stay {
                for (action, more) in act(good, size.requests)? {
                    waits.entry(action).or_default().extend(more);
                }
            }
            Ok(waits)
        });
        ended.store(true, Ordering::Relaxed);
        (joined(abuse), waits)
    });
    let found = compare(&waits?, slack, idle);
    match (abuse, found) {
        (Ok(said), Ok(found)) => Ok(format!("{said}; {found}")),
        (Ok(said), Err(found)) => Err(format!("{said}; {found}")),
        (Err(failure), Ok(found) | Err(found)) => Err(format!("{}; {found}", failure.0)),
    }
}

fn compare(waits: &ActionTimes, slack: Duration, idle: &Percentiles) -> Result<String, String> {
    let found = percentiles(waits);
    let limits: Percentiles = idle.iter().map(|(action, idle)| (*action, limit(*idle, slack))).collect();
    let is_late = |action: &Action| found.get(action) > limits.get(action);
    let text = format!("p99 {} (at most {})", figures(&found), figures(&limits));
    outcome(!ACTIONS.iter().any(is_late), text)
}

fn figures(waits: &Percentiles) -> String {
    let figure =
        |action: &Action| format!("{action:?} {:.1}", millis(waits.get(action).copied().unwrap_or_default()));
    format!("{} ms", ACTIONS.each_ref().map(figure).join(", "))
}

/// Checks that the good clients have paid for their answers, and the others nothing.
fn ledger(world: &CampaignFolder, good: &Customer) -> Result<String, String> {
    let paid = good.charged.load(Ordering::Relaxed);
    for (account, paid) in [("good", paid), ("marker", 0), ("carrier", 0)] {
        world.judge(account, &Claim { paid, ..Claim::default() })?;
    }
    Ok(format!("{paid} good checks paid"))
}

/// Checks the statuses in the server's log.
fn statuses(log: &str) -> Result<String, String> {
    let of = |line: &str| -> Option<u16> {
        let (_, rest) = line.split_once(" status=")?;
        rest.get(..3)?.parse().ok()
    };
    let all: Vec<u16> = log.lines().filter_map(of).collect();
    let count =
        |wanted: std::ops::RangeInclusive<u16>| all.iter().filter(|status| wanted.contains(status)).count();
    let found =
        format!("{} answers 2xx, {} 4xx, {} 503", count(200..=299), count(400..=499), count(503..=503));
    let wrong = count(500..=599) - count(503..=503);
    match (wrong, count(200..=299)) {
        (0, 1..) => Ok(found),
        (0, _) => Err(format!("no answers in the log: {found}")),
        _ => Err(format!("{found}, {wrong} other 5xx")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_5xx_are_found_in_the_log() {
        let line = |status: u16| format!("INFO request method=GET path=/livez status={status} ms=0\n");
        assert!(statuses(&(line(200) + &line(503) + &line(404))).is_ok());
        assert!(statuses(&(line(200) + &line(500))).is_err());
        assert!(statuses("nothing").is_err());
    }
}
