//! `soak abuse`: slow, greedy and malformed clients in one campaign, over HTTP and over TLS, and good clients beside
//! them.
//!
//! Slow connections (slow_peers.rs) stay from the beginning to the end. Meanwhile the kinds of abuse run one after the
//! other (greed.rs, shapes.rs), and good clients send ordinary requests (good.rs). Each of their answers must be right,
//! and the 99th percentile of each kind of request must be near that of an idle server. A malformed request gets at
//! most one answer, and the check that is hidden in it is not executed, as the ledger must show. No answer is a 5xx
//! other than 503, and at the end descriptors and memory are released.

mod answers;
mod good;
mod greed;
mod shapes;

use super::crowd::joined;
use super::downloads::{self, DownloadLoad, Owners};
use super::judge::Claim;
use super::options::SoakOptions;
use super::slow;
use super::slow_peers::{Siege, SlowPeer, limit, millis};
use super::transport::{Certificate, ServerEndpoint};
use super::visitor::Visitor;
use super::world::{CampaignFolder, Mailnet, Serve};
use crate::failure::Failure;
use crate::interop::process::{sleep, wait_until};
use crate::interop::report::{self, Tally, outcome};
use good::{DOMAINS, Good, KINDS};
use greed::{Greed, Means};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct AbuseSize {
    /// The number of slow connections that stay.
    slow_peers: usize,
    /// The number of connections of one kind of abuse.
    members: usize,
    /// The number of good requests of each kind that are sent at a time.
    requests: usize,
    /// How much the latency may exceed that of an idle server.
    slack: Duration,
    /// How much it may exceed that beside abuse that uses all of the processor.
    slack_beside_load: Duration,
    /// The shortest duration of each kind of abuse.
    stay: Duration,
    /// The length of the silence that ends the answers.
    quiet: Duration,
    owners: usize,
    lists: downloads::DownloadSize,
    bombs: DownloadLoad,
}

const FULL: AbuseSize = AbuseSize {
    slow_peers: 5000,
    members: 400,
    requests: 500,
    slack: Duration::from_millis(10),
    slack_beside_load: Duration::from_millis(100),
    stay: Duration::from_secs(25),
    quiet: Duration::from_millis(500),
    owners: 6,
    lists: downloads::DownloadSize { bomb_mib: 256, rows: 400_000 },
    bombs: DownloadLoad { bombs: 12, unread: 30 },
};
/// It runs on busy machines. So this finds starved clients, not delayed ones.
const SMALL: AbuseSize = AbuseSize {
    slow_peers: 500,
    members: 40,
    requests: 15,
    slack: Duration::from_millis(750),
    slack_beside_load: Duration::from_millis(750),
    stay: Duration::from_secs(1),
    quiet: Duration::from_millis(500),
    owners: 1,
    lists: downloads::DownloadSize { bomb_mib: 4, rows: 60_000 },
    bombs: DownloadLoad { bombs: 2, unread: 4 },
};

/// The kinds of slow connections, in equal parts.
const CROWDS: [SlowPeer; 4] = [SlowPeer::Silent, SlowPeer::Head, SlowPeer::Body, SlowPeer::Idle];
/// How long all slow peers may take to connect.
const GATHER_LIMIT: Duration = Duration::from_secs(120);
/// The time between the start of an abuse and the first measurement.
const GATHER: Duration = Duration::from_millis(300);
/// How long the server may take to release memory.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
const MORE_MIB_MAX: u64 = 100;

/// Runs the campaign and returns the counts of its checks.
pub fn run(options: &SoakOptions) -> Result<Tally, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!(
        "abuse: {} slow connections, {} good requests of each kind at a time",
        size.slow_peers, size.requests
    ));
    let mut world = CampaignFolder::make(options)?;
    let mailnet = world.mailnet(&format!(
        "seed = 1\n[[group]]\nname = \"a-{{n}}.example\"\ncount = {DOMAINS}\nserver = \"generic\"\nmailboxes.ok = [\"user-#\"]\n"
    ))?;
    let mut tally = Tally::default();
    campaign(&world, &mailnet, options, &size, None, &mut tally)?;
    let certificate = Certificate::make().map_err(|error| Failure(format!("a certificate: {error}")))?;
    world.use_data("data-tls");
    campaign(&world, &mailnet, options, &size, Some(&certificate), &mut tally)?;
    mailnet.stop()?;
    Ok(tally)
}

fn campaign(
    world: &CampaignFolder,
    mailnet: &Mailnet,
    options: &SoakOptions,
    size: &AbuseSize,
    certificate: Option<&Certificate>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let (mut serve, server) = start(world, mailnet, size, certificate)?;
    let good_person = Visitor::sign_up(&server, "good@people.example")?;
    let mut greedy = Visitor::sign_up(&server, "greedy@people.example")?;
    let owners = Owners::sign_up(&server, size.owners, size.lists)?;
    let good = Good::new(server.clone(), world.unlimited("good", 1_000_000)?, good_person);
    let (carrier, marker) = (world.unlimited("carrier", 1000)?, world.unlimited("marker", 1000)?);
    tally.check(&format!("{server}: a second request is noticed"), control(world, &server, size));
    let means = Means {
        owners: &owners,
        token: greedy.connect_assistant(&server)?,
        page: greedy.request("/keys"),
        upload: greedy.upload_request("list.csv", &[b'x'; 10_000]),
        shapes: shapes::all(&carrier, &marker),
        key: carrier,
        members: size.members,
        quiet: size.quiet,
        bombs: size.bombs,
        server: server.clone(),
    };
    good.ask(size.requests)?;
    let idle = good::percentiles(good.ask(size.requests)?);
    report::line(&format!("      {server}, an idle server: p99 {}", figures(&idle)));
    let (descriptors, memory) = (serve.descriptors()?, serve.resident_kib()? / 1024);
    let siege = Siege::default();
    let outcome = std::thread::scope(|scope| {
        let (members, habits) =
            (size.slow_peers / CROWDS.len(), CROWDS.map(|slow_peers| slow_peers.habit(&means.key)));
        for habit in habits {
            let (siege, server) = (&siege, &server);
            scope.spawn(move || siege.hold(&habit, members, server));
        }
        let gathered = wait_until("the slow connections", GATHER_LIMIT, || {
            Ok(siege.open.load(Ordering::Relaxed) >= members * CROWDS.len())
        });
        let outcome = gathered.and_then(|()| {
            tally.check(&format!("{server}: slow connections alone"), alone(&good, size, &idle));
            for greed in greed::ALL {
                if options.wants(greed.name) {
                    let held = beside(&greed, &means, &good, size, &idle);
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
    tally.check(
        &format!("{server}: no descriptor of slow peers is left"),
        slow::released(&mut serve, descriptors),
    );
    tally.check(&format!("{server}: memory comes back"), memory_is_back(&serve, memory));
    tally.check(&format!("{server}: nothing hidden was run"), ledger(world, &good));
    let log = serve.log()?;
    tally.check(&format!("{server}: no 5xx but 503"), statuses(&log));
    tally.check(&format!("{server}: no panic, and an end in order"), serve.end());
    Ok(())
}

fn start(
    world: &CampaignFolder,
    mailnet: &Mailnet,
    size: &AbuseSize,
    certificate: Option<&Certificate>,
) -> Result<(Serve, ServerEndpoint), Failure> {
    let places = (size.slow_peers * 2 + 2000).to_string();
    let flags = ["--connections", &places, "--connections-per-peer", "0"];
    world.serve_over(mailnet, &flags, certificate)
}

/// The control: a check after a complete request is executed and charged, and both answers are counted. The shapes must
/// not have this result.
fn control(world: &CampaignFolder, server: &ServerEndpoint, size: &AbuseSize) -> Result<String, String> {
    let key = world.unlimited("control", 1000)?;
    let bytes = format!("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n{}", shapes::marker(&key));
    // The check's answer comes some time after the first one.
    let answers = answers::of(server, bytes.as_bytes(), size.quiet * 10);
    let answers = answers.map_err(|error| format!("the control: {error}"))?;
    let spent = world.ledger("control")?.credits.spent;
    let found = format!("answers {:?}, {spent} charged", answers.statuses);
    outcome(answers.statuses == [200, 200] && spent == 1, found)
}

fn alone(good: &Good, size: &AbuseSize, idle: &[Duration; KINDS.len()]) -> Result<String, String> {
    compare(good.ask(size.requests)?, size.slack, idle)
}

/// Runs one kind of abuse with the good clients beside it.
fn beside(
    greed: &Greed,
    means: &Means<'_>,
    good: &Good,
    size: &AbuseSize,
    idle: &[Duration; KINDS.len()],
) -> Result<String, String> {
    let ended = AtomicBool::new(false);
    let (abuse, waits) = std::thread::scope(|scope| {
        let abuse = scope.spawn(|| (greed.run)(means, &ended));
        let began = Instant::now();
        let waits = sleep(GATHER).and_then(|()| {
            let mut waits = good.ask(size.requests)?;
            while began.elapsed() < size.stay {
                let more = good.ask(size.requests)?;
                waits.iter_mut().zip(more).for_each(|(waits, more)| waits.extend(more));
            }
            Ok(waits)
        });
        ended.store(true, Ordering::Relaxed);
        (joined(abuse), waits)
    });
    let slack = if greed.takes_all_cpu { size.slack_beside_load } else { size.slack };
    let found = compare(waits?, slack, idle);
    match (abuse, found) {
        (Ok(said), Ok(found)) => Ok(format!("{said}; {found}")),
        (Ok(said), Err(found)) => Err(format!("{said}; {found}")),
        (Err(failure), Ok(found) | Err(found)) => Err(format!("{}; {found}", failure.0)),
    }
}

fn compare(
    waits: good::WaitsByKind,
    slack: Duration,
    idle: &[Duration; KINDS.len()],
) -> Result<String, String> {
    let found = good::percentiles(waits);
    let late = found.iter().zip(idle).any(|(found, idle)| *found > limit(*idle, slack));
    let limits = idle.map(|idle| limit(idle, slack));
    let text = format!("p99 {} (at most {})", figures(&found), figures(&limits));
    outcome(!late, text)
}

fn figures(waits: &[Duration; KINDS.len()]) -> String {
    let all: Vec<String> =
        KINDS.iter().zip(waits).map(|(kind, wait)| format!("{kind} {:.1}", millis(*wait))).collect();
    format!("{} ms", all.join(", "))
}

fn memory_is_back(serve: &Serve, before: u64) -> Result<String, String> {
    let mut now = before;
    let waited = wait_until("memory", RELEASE_LIMIT, || {
        now = serve.resident_kib()? / 1024;
        Ok(now <= before + MORE_MIB_MAX)
    });
    let found = format!("{before} MiB before, {now} after");
    waited.map(|()| found.clone()).map_err(|failure| format!("{}: {found}", failure.0))
}

/// Checks that the good clients have paid for their answers, and the others nothing.
fn ledger(world: &CampaignFolder, good: &Good) -> Result<String, String> {
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
