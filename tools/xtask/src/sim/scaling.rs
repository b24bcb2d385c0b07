//! One shard compared with two, with peers in memory: the cost of the engine itself, and whether shards slow each other
//! down.
//!
//! Two virtual processors may be two threads of one core, or share it with others. So the same run also measures one
//! and two threads that compute without sharing anything, which shows the limit of the machine.

use super::dns::{self, A, MX, NO_ERROR, NX_DOMAIN};
use super::{Tally, report};
use crate::failure::Failure;
use crate::proc;
use engine::config::{DriverChoice, EngineConfig, Network, Pace, RuntimeChoice};
use engine::proto::address::Address;
use engine::proto::verdict::Reason;
use engine::sim::{MemoryHost, MemoryPeers, start_in_memory};
use engine::{Client, Priority, Request};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

const DOMAINS: usize = 2_000;
const EACH: usize = 200;
const ADDRESSES: usize = DOMAINS * EACH;
/// The number of domains between which a block of addresses alternates.
const BLOCK: usize = 50;
/// How often each row is run, one shard and two in turn; the fastest run is shown.
const RUNS: usize = 5;
/// How many steps a thread computes.
const STEPS: u64 = 20_000_000;
/// How many numbers it visits in random order, so that it waits for memory as the engine does.
const NUMBERS: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

const FLAVORS: [(&str, RuntimeChoice, DriverChoice); 3] = [
    ("monoio on io_uring", RuntimeChoice::Monoio, DriverChoice::IoUring),
    ("monoio on epoll", RuntimeChoice::Monoio, DriverChoice::Epoll),
    ("glommio on io_uring", RuntimeChoice::Glommio, DriverChoice::IoUring),
];

/// Measures each runtime and driver and prints the table.
///
/// # Errors
///
/// A run gave a wrong verdict, or a shard did not start.
pub fn run(tally: &mut Tally) -> Result<(), Failure> {
    report::line(
        "| runtime | shards | addresses | right | addresses/s | CPU s per 1,000 | times one shard |",
    );
    report::line("|---|---:|---:|---:|---:|---:|---:|");
    let mut computed = [f64::MAX; 2];
    for (name, runtime, driver) in FLAVORS {
        let mut best: [Option<Measured>; 2] = [None, None];
        for _ in 0..RUNS {
            for (fastest, threads) in computed.iter_mut().zip(1..) {
                *fastest = fastest.min(computing(threads)?);
            }
            for (best, shards) in best.iter_mut().zip(1..) {
                let measured = measure(runtime, driver, shards)?;
                if best.as_ref().is_none_or(|best| measured.seconds < best.seconds) {
                    *best = Some(measured);
                }
            }
        }
        let mut alone = None;
        for (best, shards) in best.into_iter().zip(1..) {
            let Some(Measured { right, seconds, cpu_s }) = best else { continue };
            let rate = ADDRESSES as f64 / seconds;
            let times = rate / *alone.get_or_insert(rate);
            report::line(&format!(
                "| {name} | {shards} | {ADDRESSES} | {right} | {rate:.0} | {:.4} | {times:.2} |",
                cpu_s * 1000.0 / ADDRESSES as f64
            ));
            tally.count(right == ADDRESSES);
        }
    }
    let [one, two] = computed;
    report::line(&format!(
        "two threads that compute and share nothing do {:.2} times the work of one (the fastest of {} runs each)",
        one / two * 2.0,
        RUNS * FLAVORS.len()
    ));
    Ok(())
}

/// The time of this many threads, each with the same work, in seconds.
fn computing(threads: usize) -> Result<f64, Failure> {
    let began = Instant::now();
    let started: Vec<_> = (0..threads).map(|seed| thread::spawn(move || compute(seed as u32 + 1))).collect();
    for thread in started {
        thread.join().map_err(|_| Failure("a thread that computes panicked".into()))?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Xorshift, with a walk through memory that depends on it.
fn compute(seed: u32) -> u32 {
    let numbers: Vec<u32> = (0..NUMBERS as u32).map(|at| at.wrapping_mul(2_654_435_761)).collect();
    let (mut state, mut at) = (seed, 0);
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        at = numbers[(at ^ state) as usize % NUMBERS];
    }
    std::hint::black_box(at)
}

struct Measured {
    right: usize,
    seconds: f64,
    cpu_s: f64,
}

fn measure(runtime: RuntimeChoice, driver: DriverChoice, shards: usize) -> Result<Measured, Failure> {
    let network = Network::parse("127.0.0.0/8").map_err(Failure)?;
    let config = EngineConfig {
        resolvers: vec![SocketAddr::from(([127, 0, 0, 1], 53))],
        allow_net: vec![network],
        ehlo: Some("probe.example".into()),
        runtime,
        driver,
        shards,
        pace: Pace::Lab,
        tickets_max: ADDRESSES + 1,
        ..EngineConfig::default()
    };
    // Leaks a few bytes in each run: a thread may read them at any time.
    let gate: &'static OnceLock<()> = Box::leak(Box::new(OnceLock::new()));
    let engine = start_in_memory(config, move || Box::new(ScalingPeers { gate })).map_err(Failure::of)?;
    let client = engine.client(ADDRESSES + 1);
    // All requests are submitted before the clock starts, so that the shards are measured and not the client.
    for request in requests()? {
        client.submit(request).map_err(|refusal| Failure(format!("{refusal:?}")))?;
    }
    let (began, cpu) = (Instant::now(), proc::times("self")?.cpu_s);
    let _ = gate.set(());
    let right = collect(&client)?;
    let measured =
        Measured { right, seconds: began.elapsed().as_secs_f64(), cpu_s: proc::times("self")?.cpu_s - cpu };
    engine.stop();
    Ok(measured)
}

/// The requests, domain after domain in blocks, as in a list.
fn requests() -> Result<Vec<Request>, Failure> {
    let text = |at: usize| {
        let domain = at / (BLOCK * EACH) * BLOCK + at % BLOCK;
        format!("user-{}@d{domain}.example", number(at))
    };
    let request = |at: usize| {
        let address = Address::parse(&text(at)).map_err(Failure::of)?;
        Ok(Request {
            ticket: at as u64,
            owner: 0,
            address,
            priority: Priority::Batch,
            trace: false,
            observed: false,
        })
    };
    (0..ADDRESSES).map(request).collect()
}

/// The number of the user at this position of the list.
fn number(at: usize) -> usize {
    at % (BLOCK * EACH) / BLOCK
}

/// The number of right verdicts: every other address exists.
fn collect(client: &Client) -> Result<usize, Failure> {
    let (mut left, mut right, mut answers) = (ADDRESSES, 0, Vec::new());
    while left > 0 {
        client.answers_blocking(left.min(4096), PATIENCE, &mut answers);
        if answers.is_empty() {
            return Err(Failure(format!("{left} answers are missing")));
        }
        for answer in answers.drain(..) {
            left -= 1;
            let reason = match number(answer.ticket as usize) % 2 {
                0 => Reason::MailboxExists,
                _ => Reason::MailboxNotFound,
            };
            right += usize::from(answer.result.is_ok_and(|finding| finding.reason == reason));
        }
    }
    Ok(right)
}

/// Whether a local part exists: `user-N` with an even N.
fn exists(local: &str) -> bool {
    let number = local.strip_prefix("user-").and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number % 2 == 0)
}

/// Peers in which every domain has an MX host of its own, which knows its users.
struct ScalingPeers {
    /// No peer answers before this is set: the shard's thread waits.
    gate: &'static OnceLock<()>,
}

impl MemoryPeers for ScalingPeers {
    fn connect(&mut self, _to: SocketAddr, greeting: &mut Vec<u8>) -> Box<dyn MemoryHost> {
        greeting.extend_from_slice(b"220 mx.example ESMTP\r\n");
        Box::new(MinimalHost { line: Vec::new() })
    }

    fn datagram(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        self.gate.wait();
        let query = dns::read(payload)?;
        let number = |prefix: &str| {
            let number = query.name.strip_prefix(prefix)?.strip_suffix(".example")?.parse::<u32>().ok()?;
            ((number as usize) < DOMAINS).then_some(number)
        };
        Some(match (query.kind, number("d"), number("mx.d")) {
            (MX, Some(domain), _) => query.with(&[dns::exchange(10, &format!("mx.d{domain}.example"))]),
            (A, _, Some(domain)) => query.with(&[(0x7f01_0000 + domain).to_be_bytes().to_vec()]),
            (_, None, None) => query.without(NX_DOMAIN),
            _ => query.without(NO_ERROR),
        })
    }
}

/// The smallest possible server: EHLO, MAIL, RCPT, RSET, QUIT.
struct MinimalHost {
    line: Vec<u8>,
}

impl MemoryHost for MinimalHost {
    fn on_bytes(&mut self, bytes: &[u8], replies: &mut Vec<u8>) {
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' {
                replies.extend_from_slice(reply(&self.line));
                self.line.clear();
            }
        }
    }
}

fn reply(line: &[u8]) -> &'static [u8] {
    match line.first() {
        Some(b'E') => b"250-mx.example\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES\r\n",
        Some(b'M') => b"250 2.1.0 Ok\r\n",
        Some(b'R') if line.starts_with(b"RCPT TO:<") => {
            let local = line[9..].split(|&byte| byte == b'@').next().unwrap_or_default();
            if exists(&String::from_utf8_lossy(local)) {
                b"250 2.1.5 Ok\r\n"
            } else {
                b"550 5.1.1 No such user here\r\n"
            }
        }
        Some(b'R') => b"250 2.0.0 Ok\r\n",
        _ => b"221 2.0.0 Bye\r\n",
    }
}
