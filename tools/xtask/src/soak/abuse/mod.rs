//! `soak abuse`: slow, greedy and malformed clients in one campaign, over HTTP and over TLS, and good ones beside them.
//!
//! Slow connections (slow_peers.rs) stay from the beginning to the end. Beside it each kind of abuse has its time
//! (greed.rs, shapes.rs), and good clients ask for what callers ask for (good.rs): each answer is right, and the 99th
//! percentile of each kind of request stays near that of an idle server. A malformed request gets one answer at most, and the
//! check that is hidden in it is not run, which the ledger has to say. Nothing is answered with a 5xx but 503, and at the end
//! descriptors and memory are back.

mod answers;
mod good;
mod greed;
mod shapes;

use super::downloads::{self, Load, Owners};
use super::slow_peers::{Siege, SlowPeer, limit, millis};
use super::transport::{Certificate, Server};
use super::visitor::Visitor;
use super::world::{Credits, Mailnet, Serve, World};
use super::{Failure, Options, slow};
use crate::interop::process::{sleep, wait_until};
use crate::interop::report::{self, Tally};
use good::{DOMAINS, Good, KINDS};
use greed::{Greed, Means};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Size {
    /// Slow connections that stay.
    slow_peers: usize,
    /// Connections of one kind of abuse.
    members: usize,
    /// Good requests of each kind at a time.
    requests: usize,
    /// What may be added to the wait on an idle server.
    slack: Duration,
    /// The same beside abuse that takes all of the processor.
    slack_beside_load: Duration,
    /// How long each kind of abuse goes on at least.
    stay: Duration,
    /// Silence behind an answer.
    quiet: Duration,
    owners: usize,
    lists: downloads::Size,
    bombs: Load,
}

const FULL: Size = Size {
    slow_peers: 5000,
    members: 400,
    requests: 500,
    slack: Duration::from_millis(10),
    slack_beside_load: Duration::from_millis(100),
    stay: Duration::from_secs(25),
    quiet: Duration::from_millis(500),
    owners: 6,
    lists: downloads::Size { bomb_mib: 256, rows: 400_000 },
    bombs: Load { bombs: 12, unread: 30 },
};
/// Debug builds, beside whatever else the machine does: this finds who starves, not who is slower.
const SMALL: Size = Size {
    slow_peers: 500,
    members: 40,
    requests: 15,
    slack: Duration::from_millis(750),
    slack_beside_load: Duration::from_millis(750),
    stay: Duration::from_secs(1),
    quiet: Duration::from_millis(500),
    owners: 1,
    lists: downloads::Size { bomb_mib: 4, rows: 60_000 },
    bombs: Load { bombs: 2, unread: 4 },
};

/// The crowds of which the slow connections are made, in equal parts.
const CROWDS: [SlowPeer; 4] = [SlowPeer::Silent, SlowPeer::Head, SlowPeer::Body, SlowPeer::Idle];
/// For all slow peers to be connected.
const GATHER_LIMIT: Duration = Duration::from_secs(120);
/// For abuse to have begun before it is measured.
const GATHER: Duration = Duration::from_millis(300);
/// For memory to be given back.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
const MORE_MIB_MAX: u64 = 100;

pub fn run(options: &Options) -> Result<Option<Tally>, Failure> {
    let size = if options.small { SMALL } else { FULL };
    report::line(&format!(
        "abuse: {} slow connections, {} good requests of each kind at a time",
        size.slow_peers, size.requests
    ));
    let mut world = World::make(options)?;
    let mailnet = world.mailnet(&format!(
        "seed = 1\n[[group]]\nname = \"a-{{n}}.example\"\ncount = {DOMAINS}\nserver = \"generic\"\nmailboxes.ok = [\"user-#\"]\n"
    ))?;
    let mut tally = Tally::default();
    campaign(&world, &mailnet, options, &size, None, &mut tally)?;
    let certificate = Certificate::make().map_err(|error| Failure(format!("a certificate: {error}")))?;
    world.use_data("data-tls");
    campaign(&world, &mailnet, options, &size, Some(&certificate), &mut tally)?;
    mailnet.stop()?;
    Ok(Some(tally))
}

fn campaign(
    world: &World,
    mailnet: &Mailnet,
    options: &Options,
    size: &Size,
    certificate: Option<&Certificate>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let (mut serve, server) = start(world, mailnet, size, certificate)?;
    let good_person = Visitor::sign_up(&server, "good@people.example")?;
    let mut greedy = Visitor::sign_up(&server, "greedy@people.example")?;
    let owners = Owners::sign_up(&server, size.owners, size.lists)?;
    let good = Good::new(server.clone(), world.unlimited("good", 1_000_000)?, good_person);
    let (carrier, marker) = (world.unlimited("carrier", 1000)?, world.unlimited("marker", 1000)?);
    tally.check(&format!("{server}: a second request is noticed"), control(world, &server, size)?);
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
            tally.check(&format!("{server}: slow connections alone"), alone(&good, size, &idle)?);
            for greed in greed::ALL {
                if options.wants(greed.name()) {
                    let held = beside(greed, &means, &good, size, &idle)?;
                    tally.check(&format!("{server}: {}", greed.name()), held);
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
    tally.check(&format!("{server}: what they held is let go of"), slow::released(&mut serve, descriptors));
    tally.check(&format!("{server}: memory comes back"), memory_is_back(&serve, memory));
    tally.check(&format!("{server}: nothing hidden was run"), ledger(world, &good)?);
    let log = serve.log()?;
    tally.check(&format!("{server}: no 5xx but 503"), statuses(&log));
    tally.check(&format!("{server}: no panic, and an end in order"), slow::end(serve));
    Ok(())
}

fn start(
    world: &World,
    mailnet: &Mailnet,
    size: &Size,
    certificate: Option<&Certificate>,
) -> Result<(Serve, Server), Failure> {
    let places = (size.slow_peers * 2 + 2000).to_string();
    let plans = world.plans()?;
    let mut flags = vec!["--connections", &places, "--connections-per-peer", "0"];
    flags.extend(plans.iter().map(String::as_str));
    let Some(certificate) = certificate else {
        let serve = world.serve(mailnet, &flags)?;
        let server = Server::from(serve.address);
        return Ok((serve, server));
    };
    let files = [("cert.pem", &certificate.certificate_pem), ("key.pem", &certificate.key_pem)];
    for (name, text) in files {
        let path = world.path(name);
        std::fs::write(&path, text).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    let paths = files.map(|(name, _)| world.path(name).to_string_lossy().into_owned());
    flags.extend(["--tls-cert", paths[0].as_str(), "--tls-key", paths[1].as_str()]);
    let serve = world.serve(mailnet, &flags)?;
    let server = Server::over_tls(serve.address, certificate);
    let server = server.map_err(|error| Failure(format!("TLS: {error}")))?;
    Ok((serve, server))
}

/// A check behind a whole request is run and charged, and both answers are counted: what the shapes must not come to.
fn control(world: &World, server: &Server, size: &Size) -> Result<Result<String, String>, Failure> {
    let key = world.unlimited("control", 1000)?;
    let bytes = format!("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n{}", shapes::marker(&key));
    // The check comes some time after the first answer.
    let answers = answers::of(server, bytes.as_bytes(), size.quiet * 10);
    let answers = answers.map_err(|error| Failure(format!("the control: {error}")))?;
    let spent = credits(world, "control")?.spent;
    let found = format!("answers {:?}, {spent} charged", answers.statuses);
    Ok(if answers.statuses == [200, 200] && spent == 1 { Ok(found) } else { Err(found) })
}

fn alone(
    good: &Good,
    size: &Size,
    idle: &[Duration; KINDS.len()],
) -> Result<Result<String, String>, Failure> {
    Ok(compare(good.ask(size.requests)?, size.slack, idle))
}

/// One kind of abuse and the good clients beside it.
fn beside(
    greed: Greed,
    means: &Means<'_>,
    good: &Good,
    size: &Size,
    idle: &[Duration; KINDS.len()],
) -> Result<Result<String, String>, Failure> {
    let ended = AtomicBool::new(false);
    let (abuse, waits) = std::thread::scope(|scope| {
        let abuse = scope.spawn(|| greed.run(means, &ended));
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
        match abuse.join() {
            Ok(abuse) => (abuse, waits),
            Err(payload) => std::panic::resume_unwind(payload),
        }
    });
    let slack = if greed.takes_all_cpu() { size.slack_beside_load } else { size.slack };
    let found = compare(waits?, slack, idle);
    Ok(match (abuse, found) {
        (Ok(said), Ok(found)) => Ok(format!("{said}; {found}")),
        (Ok(said), Err(found)) => Err(format!("{said}; {found}")),
        (Err(failure), Ok(found) | Err(found)) => Err(format!("{}; {found}", failure.0)),
    })
}

fn compare(waits: good::Waits, slack: Duration, idle: &[Duration; KINDS.len()]) -> Result<String, String> {
    let found = good::percentiles(waits);
    let late = found.iter().zip(idle).any(|(found, idle)| *found > limit(*idle, slack));
    let limits = idle.map(|idle| limit(idle, slack));
    let text = format!("p99 {} (at most {})", figures(&found), figures(&limits));
    if late { Err(text) } else { Ok(text) }
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

fn credits(world: &World, account: &str) -> Result<Credits, Failure> {
    let accounts = world.json(&["account", "list"])?;
    let named = |found: &&Value| found.get("name").and_then(Value::as_str) == Some(account);
    let found = accounts.as_array().and_then(|accounts| accounts.iter().find(named));
    Credits::of(found.ok_or_else(|| Failure(format!("account list: no {account}")))?)
}

/// The good have paid for what they were answered, and the others have paid nothing.
fn ledger(world: &World, good: &Good) -> Result<Result<String, String>, Failure> {
    let expected = [("good", good.charged.load(Ordering::Relaxed)), ("marker", 0), ("carrier", 0)];
    let mut complaints = Vec::new();
    for (account, spent) in expected {
        let credits = credits(world, account)?;
        if credits.spent != spent || credits.held != 0 || !credits.add_up() {
            complaints.push(format!("{account} should have spent {spent}: {credits:?}"));
        }
    }
    let paid = expected[0].1;
    Ok(if complaints.is_empty() {
        Ok(format!("{paid} good checks paid"))
    } else {
        Err(complaints.join("; "))
    })
}

/// What the server says of its own answers.
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
