//! The parts of the campaign beside the faults: a node that is paused for a minute, the same request at all nodes at once, limits,
//! revocations.

use super::calls::{CallLog, ClusterCall, NodeRequest};
use super::clients::ClusterLoad;
use super::faults::CampaignFault;
use super::judge::{FaultWindow, judge};
use super::world::{ClusterWorld, NODES};
use super::{FaultRun, finish};
use crate::failure::{Failure, ensure};
use crate::interop::process::{interrupted, sleep, wait_until};
use crate::interop::report::{self, Tally};
use crate::soak::client::{HttpClient, HttpRequest, Lost};
use crate::soak::crowd::{each, joined, lock};
use crate::soak::options::SoakOptions;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Others wait at most this long for the locks of a paused node, in milliseconds.
const LOCK_WAIT_MS: u64 = 6_000;
/// The longest time of a check without a fault, in milliseconds, in addition to a wait for locks.
const CHECK_MS: u64 = 2_000;
/// Idempotency-Keys that are under way at the same time.
const KEYS_AT_ONCE: usize = 3;
/// The pauses between kills of nodes.
const BETWEEN_KILLS: Duration = Duration::from_secs(4);
/// Requests of one address or one key.
const COPIES: usize = 50;
/// The limit of the plan `free` for fast checks in a minute.
const FAST_LIMIT: usize = 600;
const MINUTE_MS: u64 = 60_000;
const LIMIT_CLIENTS: usize = 30;
const REQUESTS_AT_ONCE: usize = 1_800;
/// The time of requests beyond the limit after the first ones.
const PRESSURE: Duration = Duration::from_secs(600);
const PRESSURE_SMALL: Duration = Duration::from_secs(75);
/// A revocation holds at all nodes after this time, in milliseconds.
const REVOKED_MS: u128 = 2_000;
/// All nodes know a new key after this time.
const KEYS_KNOWN: Duration = Duration::from_secs(3);
const KEY_LIMIT: Duration = Duration::from_secs(15);
/// The domain of the addresses whose probes are counted.
const FLIGHTS: &str = "@flight-1.example";

/// Runs the parts that the options admit. The small version has only the short ones, unless they are asked for.
///
/// # Errors
///
/// A step fails in an unexpected way.
pub fn run(
    world: &mut ClusterWorld,
    options: &SoakOptions,
    random: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let is_long = !options.small || options.only.is_some();
    if is_long && options.wants("zombie") {
        zombie(world, random, tally)?;
    }
    if is_long && options.wants("upgrade") {
        upgrade(world, random, tally)?;
    }
    if options.wants("flights") {
        let (keys, addresses) = if options.small { (12, 4) } else { (1000, 40) };
        flights(world, (keys, addresses), random, tally)?;
    }
    if is_long && options.wants("limits") {
        limits(world, if options.small { PRESSURE_SMALL } else { PRESSURE }, random, tally)?;
    }
    if options.wants("revocation") {
        revocations(world, if options.small { 5 } else { 100 }, tally)?;
    }
    Ok(())
}

/// A node is paused for a minute under load: others wait only for its locks, and it is fenced when it goes on.
fn zombie(world: &mut ClusterWorld, random: &mut fastrand::Rng, tally: &mut Tally) -> Result<(), Failure> {
    let run = FaultRun::make(world, "zombie")?;
    let (calls, windows) = run.go(world, &[CampaignFault::PauseNodeLong], random, tally)?;
    let is_paused = |call: &ClusterCall| windows.iter().any(|window| window.node == Some(call.node));
    // Whoever asks for an address that the paused node checks waits for the end of its lease.
    let its_own: BTreeSet<&NodeRequest> =
        calls.iter().filter(|call| is_paused(call)).map(|call| &call.kind).collect();
    let others = calls.iter().filter(|call| {
        let is_meanwhile = windows.iter().any(|window| call.begin >= window.begin);
        is_meanwhile && call.is_charged_check() && !is_paused(call) && !its_own.contains(&call.kind)
    });
    let slowest = others.max_by_key(|call| call.end - call.begin);
    let outcome = match slowest {
        None => Err("no check at the other nodes".into()),
        Some(call) if call.end - call.begin > LOCK_WAIT_MS + CHECK_MS => Err(call.to_json().to_string()),
        Some(call) => Ok(format!("{} ms at most", call.end - call.begin)),
    };
    tally.check("other nodes wait only for the locks of a paused one", outcome);
    Ok(())
}

/// Every node gets the program under test, the earlier one again, and the program under test for good, under load.
fn upgrade(world: &mut ClusterWorld, random: &mut fastrand::Rng, tally: &mut Tally) -> Result<(), Failure> {
    let run = FaultRun::make(world, "upgrade")?;
    let (calls, windows) = run.go(world, &CampaignFault::upgrades(), random, tally)?;
    let during = |call: &ClusterCall| {
        let meets = |window: &FaultWindow| call.begin <= window.end && call.end >= window.begin;
        windows.iter().any(|window| window.node == Some(call.node) && meets(window))
    };
    // A load balancer sees from `/readyz`, or from a refused connection, that a node is about to end.
    let is_drain = |call: &ClusterCall| {
        let is_refused = matches!(call.result, Err(Lost::NotSent));
        let is_away = call.answer().is_some_and(|answer| answer.status == 503 && answer.retry_after);
        during(call) && (is_refused || is_away)
    };
    let failed = |call: &&ClusterCall| call.is_unknown() || matches!(call.result, Err(Lost::NotSent));
    let errors: Vec<&ClusterCall> = calls.iter().filter(failed).collect();
    let drains = errors.iter().filter(|call| is_drain(call)).count();
    let wrong = errors.iter().filter(|call| !is_drain(call)).take(5).map(|call| call.to_json().to_string());
    let wrong: Vec<String> = wrong.collect();
    let told = format!("{} calls, {drains} turned away by a node that ended", calls.len());
    tally.check("an upgrade and the way back have no error but drains", report::faultless(told, &wrong));
    let said = world.text(0, &["cluster", "upgrade"])?;
    tally.check("the format is raised at the end", Ok(said.trim().to_owned()));
    Ok(())
}

/// The same request many times at once.
fn flights(
    world: &mut ClusterWorld,
    (keys, addresses): (usize, usize),
    random: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let account = [world.account("flights", "unlimited")?];
    let log = CallLog::make(&world.path("flights.jsonl"))?;
    let load = ClusterLoad::new(world, &account, &log);
    // The other nodes hear of new keys within two seconds.
    sleep(KEYS_KNOWN)?;
    let asked = ask_at_once(&load, addresses, random)?;
    let calls = log.calls();
    let cached = calls.iter().filter(|call| call.success().is_some_and(|answer| answer.cached)).count();
    let charged = calls.iter().filter(|call| call.is_charged_check()).count();
    let told = format!("{addresses} addresses, each {COPIES} times: {charged} charged, {cached} repeats");
    let is_right = charged == addresses && cached == addresses * (COPIES - 1);
    tally.check("one address at all nodes at once is charged once", report::outcome(is_right, told));
    world.count_later(asked);

    let windows = keys_under_kills(world, &load, keys, random)?;
    let missing = finish(world, &load)?;
    let wrong: Vec<String> = missing.into_iter().chain(lock(&load.faults).drain(..)).collect();
    tally.check("batches of repeated keys are complete", report::faultless("all".to_owned(), &wrong));
    let calls = log.calls();
    let batches: BTreeSet<&str> = calls
        .iter()
        .filter(|call| matches!(call.kind, NodeRequest::Batch(..)))
        .filter_map(|call| Some(call.success()?.batch.as_str()))
        .collect();
    let told = format!("{keys} keys, each {COPIES} times: {} batches", batches.len());
    tally.check("a key has one batch under kills", report::outcome(batches.len() == keys, told));
    for finding in judge(&calls, &[world.ledger(&account[0].name)?], &windows) {
        tally.check(&format!("flights: {}", finding.rule), finding.outcome());
    }
    Ok(())
}

/// Asks for each address many times at once, and returns the addresses.
fn ask_at_once(
    load: &ClusterLoad<'_>,
    addresses: usize,
    random: &mut fastrand::Rng,
) -> Result<Vec<String>, Failure> {
    let addresses: Vec<String> = (0..addresses).map(|number| format!("user-{number}{FLIGHTS}")).collect();
    for address in &addresses {
        interrupted()?;
        let randoms: Vec<_> = (0..COPIES).map(|_| random.fork()).collect();
        let ask = |copy: usize| {
            load.namespace.enter()?;
            load.client(0, randoms[copy].clone()).check_until_answered(copy % NODES, address)
        };
        each(COPIES, COPIES, ask)?.into_iter().collect::<Result<(), Failure>>()?;
    }
    Ok(addresses)
}

/// Submits each key many times at once, while one node after another is killed.
fn keys_under_kills(
    world: &mut ClusterWorld,
    load: &ClusterLoad<'_>,
    keys: usize,
    random: &mut fastrand::Rng,
) -> Result<Vec<FaultWindow>, Failure> {
    let next = AtomicUsize::new(0);
    let next = &next;
    let submit = move |random: fastrand::Rng| {
        load.namespace.enter()?;
        let mut client = load.client(0, random);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= keys {
                return Ok::<(), Failure>(());
            }
            interrupted()?;
            let address = format!("row-{number}@fast-{}.example", number % 40 + 1);
            client.submit(&format!("flight-{number}"), &[address], (number % NODES, COPIES))?;
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..KEYS_AT_ONCE)
            .map(|_| {
                let random = random.fork();
                scope.spawn(move || submit(random))
            })
            .collect();
        let mut windows = Vec::new();
        let mut killed = Ok(());
        while killed.is_ok() && !clients.iter().all(|client| client.is_finished()) {
            killed = kill(world, load.log, windows.len() % NODES)
                .map(|window| windows.push(window))
                .and_then(|()| sleep(BETWEEN_KILLS));
        }
        clients.into_iter().try_for_each(joined)?;
        killed.map(|()| windows)
    })
}

/// Kills a node and starts it again.
fn kill(world: &mut ClusterWorld, log: &CallLog, node: usize) -> Result<FaultWindow, Failure> {
    let begin = log.now();
    world.kill_node(node)?;
    world.start_node(node)?;
    world.await_node(node)?;
    Ok(FaultWindow { name: CampaignFault::KillNode.name(), node: Some(node), begin, end: log.now() })
}

/// More requests than the limit of a key admits, at all nodes.
fn limits(
    world: &mut ClusterWorld,
    pressure: Duration,
    random: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let account = [world.account("limits", "free")?];
    let log = CallLog::make(&world.path("limits.jsonl"))?;
    let load = ClusterLoad::new(world, &account, &log);
    let body = json!({ "email": "info@fast-1.example", "mode": "fast" });
    let request = HttpRequest::json("/v1/verify", &body);
    sleep(KEYS_KNOWN)?;
    let begin = Instant::now();
    let randoms: Vec<_> = (0..LIMIT_CLIENTS).map(|_| random.fork()).collect();
    let press = |client: usize| {
        load.namespace.enter()?;
        let mut random = randoms[client].clone();
        let mut client = load.client(0, random.clone());
        for number in 0.. {
            interrupted()?;
            if number >= REQUESTS_AT_ONCE / LIMIT_CLIENTS {
                if begin.elapsed() > pressure {
                    break;
                }
                std::thread::sleep(Duration::from_millis(random.u64(100..500)));
            }
            drop(client.call(random.usize(0..NODES), NodeRequest::Fast, request.clone())?);
        }
        Ok(())
    };
    each(LIMIT_CLIENTS, LIMIT_CLIENTS, press)?.into_iter().collect::<Result<(), Failure>>()?;
    let calls = log.calls();
    let most = most_in_a_minute(&calls);
    let told = format!("{} requests, at most {most} of {FAST_LIMIT} admitted in 60 s", calls.len());
    tally.check("a limit holds over all nodes", report::outcome(most <= FAST_LIMIT, told));
    let strange =
        calls.iter().filter(|call| !call.answer().is_some_and(|answer| matches!(answer.status, 200 | 429)));
    let strange: Vec<String> = strange.map(|call| call.to_json().to_string()).take(5).collect();
    tally.check("only 200 and 429 under pressure", report::faultless("all".to_owned(), &strange));
    Ok(())
}

/// The most calls that succeeded and were wholly within one minute: those were surely admitted within it.
fn most_in_a_minute(calls: &[ClusterCall]) -> usize {
    let good: Vec<&ClusterCall> = calls.iter().filter(|call| call.success().is_some()).collect();
    let within = |first: &&ClusterCall| {
        let end = first.begin + MINUTE_MS;
        good.iter().filter(|call| call.begin >= first.begin && call.end < end).count()
    };
    good.iter().map(within).max().unwrap_or_default()
}

/// Creates a key at one node, revokes it at another, and asks all nodes.
fn revocations(world: &ClusterWorld, count: usize, tally: &mut Tally) -> Result<(), Failure> {
    world.account("revocations", "unlimited")?;
    let nodes: Vec<_> = (0..NODES).map(|node| world.address(node)).collect();
    let rounds = || {
        world.client_namespace().enter()?;
        let mut clients: Vec<HttpClient> = nodes.iter().map(|node| HttpClient::program(*node)).collect();
        let (mut wrong, mut longest) = (Vec::new(), 0);
        for round in 0..count {
            let elapsed = revocation(world, &mut clients, round)?;
            longest = longest.max(elapsed);
            if elapsed > REVOKED_MS {
                wrong.push(format!("round {round}: accepted {elapsed} ms after the revocation"));
            }
        }
        Ok::<_, Failure>((wrong, longest))
    };
    let (wrong, longest) = std::thread::scope(|scope| joined(scope.spawn(rounds)))?;
    let told = format!("{count} keys, accepted for {longest} ms at most after the revocation");
    tally.check("a revoked key is refused at all nodes within 2 s", report::faultless(told, &wrong));
    Ok(())
}

/// One key. Returns how long after its revocation the last request began that was accepted, in milliseconds.
fn revocation(world: &ClusterWorld, clients: &mut [HttpClient], round: usize) -> Result<u128, Failure> {
    let (creator, revoker) = (round % NODES, (round / NODES + round + 1) % NODES);
    let made = world.json(creator, &["key", "create", "revocations"])?;
    let text = |field: &str| made.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (key, id) = (text("key"), text("id"));
    let request = HttpRequest::get("/v1/account").bearer(&key);
    let mut status = |node: usize| {
        let reply = clients[node].send(&request);
        reply.map(|reply| reply.status).map_err(|lost| Failure(format!("node {}: {lost:?}", node + 1)))
    };
    for node in 0..NODES {
        let what = format!("round {round}: the new key is known at node {}", node + 1);
        wait_until(&what, KEY_LIMIT, || Ok(status(node)? == 200))?;
    }
    world.text(revoker, &["key", "revoke", &id])?;
    let (revoked, mut last) = (Instant::now(), 0);
    ensure!(status(revoker)? == 401, "round {round}: the node that revoked the key accepts it");
    for node in 0..NODES {
        loop {
            let begun = revoked.elapsed().as_millis();
            match status(node)? {
                401 => break,
                200 => last = last.max(begun),
                other => return Err(Failure(format!("round {round}: node {} answers {other}", node + 1))),
            }
            if revoked.elapsed() > KEY_LIMIT {
                break;
            }
            sleep(Duration::from_millis(20))?;
        }
    }
    Ok(last)
}
